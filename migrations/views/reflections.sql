-- One row for each reflection: its backend, cost and result.
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
    playbook.name AS playbook,  -- text
    reflection.reflection_id AS reflection_id,  -- text
    coalesce(judged.session_id, said.session_id) AS session_id,  -- text
    recorded.position AS window_position,  -- number: of the `session.recorded` that was judged
    opened.actor AS backend,  -- text: the backend that judged
    coalesce({judged.data -> model}, {said.data -> model}) AS model,  -- text
    {said.data -> mode} AS mode,  -- text: `citation_guided`, `content_based`, …
    coalesce(answer.answers, 0) AS answers,  -- number: answers of the backend: iterations and parts
    opened.recorded_at AS answered_at,  -- time: of the first one
    judged.recorded_at AS completed_at,  -- time: null until a parser can read the answer
    judged.position AS position,  -- number: of the `reflection.completed`; null until then
    {judged.data -> analysis} AS analysis,  -- text: null if it was redacted
    coalesce(given.tags, 0) AS tags,  -- number: tags that were given
    coalesce(given.helpful, 0) AS helpful,  -- number: the helpful tags among these that count
    coalesce(given.harmful, 0) AS harmful,  -- number: the harmful tags among these that count
    coalesce(answer.input_tokens, 0) AS input_tokens,  -- number
    coalesce(answer.output_tokens, 0) AS output_tokens,  -- number
    coalesce(answer.cache_read_tokens, 0) AS cache_read_tokens,  -- number
    coalesce(answer.cache_write_tokens, 0) AS cache_write_tokens,  -- number
    coalesce(
        answer.input_tokens + answer.output_tokens + answer.cache_read_tokens + answer.cache_write_tokens, 0
    ) AS tokens,  -- number: the sum of the four
    answer.cost_usd AS cost_usd,  -- fraction: as recorded; null if no price was known
    {said.data -> prompt_sha256} AS prompt_sha256,  -- text: of the last request; null if the backend used no prompt
    {said.data -> template_sha256} AS template_sha256,  -- text
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
    END AS retracted  -- number: 1 if it or its window is retracted
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
