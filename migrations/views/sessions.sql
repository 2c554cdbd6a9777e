-- One row for each session of an agent. A window without a session id has its own row.
CREATE VIEW sessions AS
WITH delivery AS MATERIALIZED (
    SELECT
        recorded.playbook_id AS playbook_id,
        recorded.position AS position,
        recorded.event_id AS event_id,
        recorded.session_id AS session_id,
        coalesce(recorded.session_id, recorded.event_id) AS whose,
        recorded.recorded_at AS recorded_at,
        recorded.occurred_at AS occurred_at,
        session_window.state AS state,
        {sqlite}{postgresql}replace({both}coalesce(
            recorded.data,
            (
                WITH RECURSIVE line(event_id, data) AS (
                    SELECT recorded.event_id, NULL
                    UNION ALL
                    SELECT redaction.event_id, redaction.data FROM line
                    JOIN event AS redaction ON redaction.playbook_id = recorded.playbook_id
                        AND redaction.target_id = line.event_id AND redaction.type = 'event.redacted'
                )
                SELECT {line.data -> kept} FROM line WHERE line.data IS NOT NULL
            )
        ){sqlite}{postgresql}, '\u0000', '\ufffd')::json{both} AS data,
        CASE
            WHEN EXISTS (
                SELECT 1 FROM retraction
                WHERE retraction.playbook_id = recorded.playbook_id AND retraction.active = 1
                    AND retraction.target_id = recorded.event_id
            ) THEN 1 ELSE 0
        END AS retracted
    FROM event AS recorded
    LEFT JOIN session_window ON session_window.playbook_id = recorded.playbook_id
        AND session_window.position = recorded.position
    WHERE recorded.type IN ({windows}) AND recorded.type <> 'bullet.tagged'
),
session AS MATERIALIZED (
    SELECT
        playbook_id,
        whose,
        max(session_id) AS session_id,
        max(position) AS last,
        min(recorded_at) AS first_recorded_at,
        max(recorded_at) AS last_recorded_at,
        max(occurred_at) AS ended_at,
        count(*) AS windows,
        sum(CASE WHEN state = 'completed' THEN 1 ELSE 0 END) AS judged,
        sum(CASE WHEN state = 'skipped' THEN 1 ELSE 0 END) AS skipped,
        sum(CASE WHEN state IN ('pending', 'answered', 'failed') THEN 1 ELSE 0 END) AS waiting,
        sum(CASE WHEN state = 'given_up' THEN 1 ELSE 0 END) AS given_up,
        sum(retracted) AS retracted,
        CAST(sum(coalesce({data => window.records as number}, 0)) AS BIGINT) AS records
    FROM delivery
    GROUP BY playbook_id, whose
),
citing AS MATERIALIZED (
    SELECT delivery.playbook_id AS playbook_id, delivery.whose AS whose, count(DISTINCT name.value) AS cited
    FROM delivery
    CROSS JOIN {sqlite}json_each(delivery.data, '$.cited') AS name{postgresql}json_array_elements_text(CASE
        WHEN json_typeof(delivery.data -> 'cited') = 'array' THEN delivery.data -> 'cited'
    END) AS name(value){both}
    GROUP BY delivery.playbook_id, delivery.whose
),
answer AS MATERIALIZED (
    SELECT
        answered.playbook_id AS playbook_id,
        coalesce(answered.session_id, answered.target_id) AS whose,
        count(*) AS answers,
        CAST(sum(coalesce({answered.meta -> input_tokens as number}, 0)
            + coalesce({answered.meta -> output_tokens as number}, 0)
            + coalesce({answered.meta -> cache_read_tokens as number}, 0)
            + coalesce({answered.meta -> cache_write_tokens as number}, 0)) AS BIGINT) AS tokens,
        sum({answered.meta -> cost_usd as fraction}) AS cost_usd
    FROM event AS answered
    WHERE answered.type = 'reflection.answered' AND answered.type <> 'bullet.tagged'
    GROUP BY answered.playbook_id, coalesce(answered.session_id, answered.target_id)
),
completion AS MATERIALIZED (
    SELECT playbook_id, reflection_id, target_id FROM event
    WHERE type = 'reflection.completed' AND type <> 'bullet.tagged' AND session_id IS NULL
),
given AS MATERIALIZED (
    SELECT
        tag.playbook_id AS playbook_id,
        coalesce(tag.session_id, completion.target_id) AS whose,
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
    LEFT JOIN completion ON completion.playbook_id = tag.playbook_id
        AND completion.reflection_id = tag.reflection_id
    LEFT JOIN repeated ON repeated.playbook_id = tag.playbook_id AND repeated.position = tag.position
    WHERE tag.playbook_id = playbook.id AND tag.position > 0
    GROUP BY tag.playbook_id, coalesce(tag.session_id, completion.target_id)
)
SELECT
    playbook.name AS playbook,  -- text
    session.session_id AS session_id,  -- text
    {delivery.data => agent} AS agent,  -- text: `claude-code`, `codex`, …
    {delivery.data => transcript.path} AS transcript,  -- text: the last path that was read
    session.first_recorded_at AS first_recorded_at,  -- time: when its first window was recorded
    session.last_recorded_at AS last_recorded_at,  -- time: when its last window was recorded
    session.ended_at AS ended_at,  -- time: when the last record of the transcript was written
    session.windows AS windows,  -- number: windows that were recorded
    session.judged AS judged,  -- number: windows that were judged
    session.skipped AS skipped,  -- number: windows that the gate skipped
    session.waiting AS waiting,  -- number: windows that wait to be judged, or to be judged again
    session.given_up AS given_up,  -- number: windows that were given up
    session.retracted AS retracted,  -- number: windows that were retracted
    session.records AS records,  -- number: new records of transcripts
    coalesce(citing.cited, 0) AS cited,  -- number: different bullets that it cited
    coalesce(answer.answers, 0) AS answers,  -- number
    coalesce(answer.tokens, 0) AS tokens,  -- number
    answer.cost_usd AS cost_usd,  -- fraction: as recorded; null if no price was known
    coalesce(given.tags, 0) AS tags,  -- number: tags that were given
    coalesce(given.helpful, 0) AS helpful,  -- number: the helpful tags among these that count
    coalesce(given.harmful, 0) AS harmful,  -- number: the harmful tags among these that count
    session.last AS position  -- number: of the last window
FROM session
JOIN playbook ON playbook.id = session.playbook_id
JOIN delivery ON delivery.playbook_id = session.playbook_id AND delivery.position = session.last
LEFT JOIN citing ON citing.playbook_id = session.playbook_id AND citing.whose = session.whose
LEFT JOIN answer ON answer.playbook_id = session.playbook_id AND answer.whose = session.whose
LEFT JOIN given ON given.playbook_id = session.playbook_id AND given.whose = session.whose
