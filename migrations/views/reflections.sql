-- Every reflection that was answered or read: who judged, what it took, what came of it.
CREATE VIEW reflections AS
WITH answer AS MATERIALIZED (
    SELECT
        playbook_id,
        reflection_id,
        min(position) AS first,
        max(position) AS last,
        count(*) AS answers,
        CAST(sum(coalesce({meta -> input_tokens as number}, 0)) AS BIGINT) AS input_tokens,
        CAST(sum(coalesce({meta -> output_tokens as number}, 0)) AS BIGINT) AS output_tokens,
        CAST(sum(coalesce({meta -> cache_read_tokens as number}, 0)) AS BIGINT) AS cache_read_tokens,
        CAST(sum(coalesce({meta -> cache_write_tokens as number}, 0)) AS BIGINT) AS cache_write_tokens,
        sum({meta -> cost_usd as fraction}) AS cost_usd
    FROM event
    WHERE type = 'reflection.answered' AND type <> 'bullet.tagged' AND reflection_id IS NOT NULL
    GROUP BY playbook_id, reflection_id
),
completion AS MATERIALIZED (
    SELECT playbook_id, reflection_id, position FROM event
    WHERE type = 'reflection.completed' AND type <> 'bullet.tagged' AND reflection_id IS NOT NULL
),
given AS MATERIALIZED (
    SELECT
        tag.playbook_id AS playbook_id,
        tag.reflection_id AS reflection_id,
        count(*) AS tags,
        sum(CASE
            WHEN tag.active = 1 AND tag.tag = 1 AND bullet.name IS NOT NULL AND repeated.position IS NULL
                THEN 1 ELSE 0
        END) AS helpful,
        sum(CASE
            WHEN tag.active = 1 AND tag.tag = -1 AND bullet.name IS NOT NULL AND repeated.position IS NULL
                THEN 1 ELSE 0
        END) AS harmful
    FROM playbook
    CROSS JOIN tag
    LEFT JOIN bullet ON bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name
    LEFT JOIN repeated ON repeated.playbook_id = tag.playbook_id AND repeated.position = tag.position
    WHERE tag.playbook_id = playbook.id AND tag.position > 0 AND tag.reflection_id IS NOT NULL
    GROUP BY tag.playbook_id, tag.reflection_id
)
SELECT
    playbook.name AS playbook,
    reflection.reflection_id AS reflection_id,
    coalesce(judged.session_id, said.session_id) AS session_id,
    recorded.position AS window_position,
    opened.actor AS backend,
    coalesce({judged.data -> model}, {said.data -> model}) AS model,
    {said.data -> mode} AS mode,
    coalesce(answer.answers, 0) AS answers,
    opened.recorded_at AS answered_at,
    judged.recorded_at AS completed_at,
    judged.position AS position,
    {judged.data -> analysis} AS analysis,
    coalesce(given.tags, 0) AS tags,
    coalesce(given.helpful, 0) AS helpful,
    coalesce(given.harmful, 0) AS harmful,
    coalesce(answer.input_tokens, 0) AS input_tokens,
    coalesce(answer.output_tokens, 0) AS output_tokens,
    coalesce(answer.cache_read_tokens, 0) AS cache_read_tokens,
    coalesce(answer.cache_write_tokens, 0) AS cache_write_tokens,
    coalesce(
        answer.input_tokens + answer.output_tokens + answer.cache_read_tokens + answer.cache_write_tokens, 0
    ) AS tokens,
    answer.cost_usd AS cost_usd,
    {said.data -> prompt_sha256} AS prompt_sha256,
    {said.data -> template_sha256} AS template_sha256,
    CASE
        WHEN EXISTS (
            SELECT 1 FROM retraction
            WHERE retraction.playbook_id = reflection.playbook_id AND retraction.active = 1
                AND retraction.target_id = coalesce(judged.event_id, '')
        ) OR EXISTS (
            SELECT 1 FROM retraction
            WHERE retraction.playbook_id = reflection.playbook_id AND retraction.active = 1
                AND retraction.target_id = coalesce(recorded.event_id, '')
        ) THEN 1 ELSE 0
    END AS retracted
FROM (
    SELECT playbook_id, reflection_id FROM answer
    UNION
    SELECT playbook_id, reflection_id FROM completion
) AS reflection
JOIN playbook ON playbook.id = reflection.playbook_id
LEFT JOIN answer ON answer.playbook_id = reflection.playbook_id AND answer.reflection_id = reflection.reflection_id
LEFT JOIN completion ON completion.playbook_id = reflection.playbook_id
    AND completion.reflection_id = reflection.reflection_id
LEFT JOIN given ON given.playbook_id = reflection.playbook_id AND given.reflection_id = reflection.reflection_id
LEFT JOIN event AS said ON said.playbook_id = reflection.playbook_id AND said.position = answer.last
LEFT JOIN event AS judged ON judged.playbook_id = reflection.playbook_id AND judged.position = completion.position
LEFT JOIN event AS opened ON opened.playbook_id = reflection.playbook_id
    AND opened.position = coalesce(answer.first, completion.position)
LEFT JOIN event AS recorded ON recorded.playbook_id = reflection.playbook_id
    AND recorded.event_id = coalesce(judged.target_id, said.target_id)
