-- One row for each tag that a backend gave, with its effect, as in `reflector blame`. `helpful` is always
-- `baseline_helpful` plus the number of tags with `tag = 'helpful'` and `counts = 1`, unless bullets were merged into
-- it. Then the tags of these bullets count too ([counting.md](counting.md#merged-bullets)).
--
-- Every tag that was given, with its effect. Completions are found once for the whole query, because no index leads from
-- a reflection's id to its events. The order of the joins and `position > 0` make SQLite read tags and events side by
-- side. With the index of the counters it reads them in random order, which takes seven times as long.
CREATE VIEW tags AS
WITH completion AS MATERIALIZED (
    SELECT playbook_id, reflection_id, position FROM event
    WHERE type = 'reflection.completed' AND type <> 'bullet.tagged'
)
SELECT
    playbook.name AS playbook,  -- text
    tag.position AS position,  -- number
    event.recorded_at AS recorded_at,  -- time
    tag.name AS name,  -- text: of the bullet; empty if none was given
    {event.data -> tag} AS tag,  -- text: `helpful`, `harmful`, `neutral`; `unknown` for any other word; null if none was given
    CASE
        WHEN coalesce({event.data -> disposition}, 'malformed') <> 'counted'
            THEN coalesce({event.data -> disposition}, 'malformed')
        WHEN tag.tag = 0 THEN 'malformed'
        WHEN bullet.name IS NULL THEN 'unknown_bullet'
        WHEN tag.active = 1 AND repeated.position IS NULL THEN 'counted'
        WHEN tag.active = 1 THEN 'double'
        WHEN bullet.recounted_at > bullet.position AND tag.position <= bullet.recounted_at THEN 'recounted'
        WHEN tag.position < bullet.position THEN 'unknown_bullet'
        ELSE 'retracted'
    END AS disposition,  -- text: `counted`, `neutral`, `unknown_bullet`, `retired_bullet`, `unknown_tag`, `malformed`, or the reason why a model's verdict was [dropped](judging.md#evidence-for-a-models-verdict); of a tag that no longer counts: `retracted`, `recounted`, `double`
    CASE WHEN tag.active = 1 AND bullet.name IS NOT NULL AND repeated.position IS NULL THEN 1 ELSE 0 END AS counts,  -- number: 1 if it counts under the current policy
    (
        SELECT {said.value => rationale}
        FROM {sqlite}json_each(judged.data, '$.rationales') AS said{postgresql}json_array_elements(CASE
            WHEN json_typeof(replace(judged.data, '\u0000', '\ufffd')::json -> 'rationales') = 'array'
                THEN replace(judged.data, '\u0000', '\ufffd')::json -> 'rationales'
        END) AS said(value){both}
        WHERE {said.value => index} = {event.data -> index} LIMIT 1
    ) AS rationale,  -- text: the backend's reason; null if it was redacted
    coalesce({judged.data -> backend}, event.actor) AS backend,  -- text: the backend that judged
    {judged.data -> model} AS model,  -- text
    event.session_id AS session_id,  -- text
    tag.reflection_id AS reflection_id,  -- text
    event.event_id AS event_id  -- text
FROM playbook
CROSS JOIN tag
JOIN event ON event.playbook_id = tag.playbook_id AND event.position = tag.position
LEFT JOIN bullet ON bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name
LEFT JOIN completion ON completion.playbook_id = tag.playbook_id AND completion.reflection_id = tag.reflection_id
LEFT JOIN event AS judged ON judged.playbook_id = completion.playbook_id AND judged.position = completion.position
LEFT JOIN repeated ON repeated.playbook_id = tag.playbook_id AND repeated.position = tag.position
WHERE tag.playbook_id = playbook.id AND tag.position > 0
