-- The playbook as it stands, tombstones included.
CREATE VIEW bullets AS
SELECT
    playbook.name AS playbook,
    bullet.name AS name,
    CASE bullet.section
        WHEN 'pat' THEN 'PATTERNS & APPROACHES'
        WHEN 'mis' THEN 'MISTAKES TO AVOID'
        WHEN 'pref' THEN 'USER PREFERENCES'
        WHEN 'ctx' THEN 'PROJECT CONTEXT'
        WHEN 'oth' THEN 'OTHERS'
        ELSE bullet.section
    END AS section,
    bullet.text AS text,
    bullet.helpful AS helpful,
    bullet.harmful AS harmful,
    bullet.status AS status,
    bullet.reason AS reason,
    bullet.removed_into AS removed_into,
    bullet.position AS position,
    event.recorded_at AS added_at,
    bullet.ordinal AS ordinal,
    bullet.baseline_helpful AS baseline_helpful,
    bullet.baseline_harmful AS baseline_harmful,
    projection.policy_id AS counting
FROM bullet
JOIN playbook ON playbook.id = bullet.playbook_id
LEFT JOIN event ON event.playbook_id = bullet.playbook_id AND event.position = bullet.position
LEFT JOIN projection ON projection.playbook_id = bullet.playbook_id AND projection.name = 'tables'
