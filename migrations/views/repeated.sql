-- Tags that do not count under the current policy, because an equal tag counts. The other views read this view. With
-- CROSS JOIN, SQLite does not read the tags if all of them count.
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
