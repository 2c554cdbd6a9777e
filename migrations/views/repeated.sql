-- Tags that are not counted because an equal one is, under the policy in force; the other views rest on it. CROSS JOIN
-- keeps SQLite from reading the tags where every one of them counts.
CREATE VIEW repeated AS
SELECT playbook_id, position
FROM (
    SELECT
        tag.playbook_id AS playbook_id,
        tag.position AS position,
        row_number() OVER (
            PARTITION BY tag.playbook_id, tag.name, tag.tag,
                CASE projection.policy_id WHEN 'once_per_reflection' THEN tag.reflection_id ELSE tag.session_id END
            ORDER BY tag.position
        ) AS nth
    FROM projection
    CROSS JOIN tag
    WHERE projection.name = 'tables' AND projection.policy_id IN ('once_per_reflection', 'once_per_session')
        AND tag.playbook_id = projection.playbook_id AND tag.active = 1
        AND (
            projection.policy_id = 'once_per_reflection' AND tag.reflection_id IS NOT NULL
            OR projection.policy_id = 'once_per_session' AND tag.session_id IS NOT NULL
        )
) AS numbered
WHERE nth > 1
