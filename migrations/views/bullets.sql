-- One row for each bullet, including removed bullets. The columns are the fields of `reflector list --removed --json`,
-- the baseline and the policy.
CREATE VIEW bullets AS
SELECT
    playbook.name AS playbook,  -- text
    bullet.name AS name,  -- text: `pat-001`; identifies one bullet permanently
    CASE bullet.section
        WHEN 'pat' THEN 'PATTERNS & APPROACHES'
        WHEN 'mis' THEN 'MISTAKES TO AVOID'
        WHEN 'pref' THEN 'USER PREFERENCES'
        WHEN 'ctx' THEN 'PROJECT CONTEXT'
        WHEN 'oth' THEN 'OTHERS'
        ELSE bullet.section
    END AS section,  -- text: its title
    bullet.text AS text,  -- text
    bullet.helpful AS helpful,  -- number: the count under the current policy
    bullet.harmful AS harmful,  -- number
    bullet.status AS status,  -- text: `live`, `removed` or `merged`
    bullet.reason AS reason,  -- text: the reason for its removal
    bullet.removed_into AS removed_into,  -- text: the bullet into which it was merged; if the status is `merged`, its tags count for that bullet
    bullet.position AS position,  -- number: of the event that added it
    event.recorded_at AS added_at,  -- time: of that event
    bullet.ordinal AS ordinal,  -- number: 1, 2, 3 … in order of creation
    bullet.baseline_helpful AS baseline_helpful,  -- number: the counter with which it was added, or that was set by hand; the count is this number plus the tags that count
    bullet.baseline_harmful AS baseline_harmful,  -- number
    projection.policy_id AS counting  -- text: the current policy
FROM bullet
JOIN playbook ON playbook.id = bullet.playbook_id
LEFT JOIN event ON event.playbook_id = bullet.playbook_id AND event.position = bullet.position
LEFT JOIN projection ON projection.playbook_id = bullet.playbook_id AND projection.name = 'tables'
