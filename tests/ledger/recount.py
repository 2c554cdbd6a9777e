"""The counters once more, straight from the event table: one SQL query that shares no code with the ledger's own.

What it says is the definition in words: a counter is the baseline of the bullet's last `added`, `imported` or
`recounted`, plus the counted tags behind it that no standing retraction covers, as many as the policy tells
apart. A retraction stands while an even number of retractions is stacked upon it.
"""

from __future__ import annotations

from reflector.ledger.store import Ledger

_SQLITE = {
    "field": "json_extract({row}.data, '$.{key}')",
    "item": "json_extract(item.value, '$.{key}')",
    "items": "json_each(event.data, '$.bullets') AS item",
}
_POSTGRESQL = {
    "field": "({row}.data::json ->> '{key}')",
    "item": "(item.value ->> '{key}')",
    "items": "json_array_elements(event.data::json -> 'bullets') AS item(value)",
}
_QUERY = """
WITH RECURSIVE
mine AS (SELECT * FROM event WHERE playbook_id = {playbook}),
stack(root, top, height) AS (
    SELECT event_id, event_id, 0 FROM mine
    UNION ALL
    SELECT stack.root, mine.event_id, stack.height + 1
    FROM stack JOIN mine ON mine.target_id = stack.top AND mine.type = 'evidence.retracted'
),
gone AS (SELECT root FROM stack GROUP BY root HAVING max(height) % 2 = 1),
born AS (
    SELECT {name} AS name, position, {helpful} AS helpful, {harmful} AS harmful
    FROM mine AS event WHERE type = 'bullet.added'
    UNION ALL
    SELECT {item_name}, event.position, {item_helpful}, {item_harmful}
    FROM mine AS event CROSS JOIN {items} WHERE event.type = 'playbook.imported'
),
base AS (
    SELECT * FROM born
    UNION ALL
    SELECT {name}, event.position, {helpful}, {harmful}
    FROM mine AS event JOIN born ON born.name = {name} AND born.position < event.position
    WHERE event.type = 'bullet.recounted'
),
baseline AS (
    SELECT name, position, CAST(helpful AS INTEGER) AS helpful, CAST(harmful AS INTEGER) AS harmful FROM base
    WHERE position = (SELECT max(position) FROM base AS later WHERE later.name = base.name)
),
counted AS (
    SELECT {tag_name} AS name, {tag} AS verdict, {member} AS member
    FROM mine AS event
    LEFT JOIN mine AS completed ON completed.type = 'reflection.completed'
        AND completed.reflection_id = event.reflection_id
        AND event.position > completed.position AND event.position <= completed.position + 10000
    JOIN baseline ON baseline.name = {tag_name} AND event.position > baseline.position
    WHERE event.type = 'bullet.tagged' AND {disposition} = 'counted'
        AND event.event_id NOT IN (SELECT root FROM gone)
        AND coalesce(completed.event_id, '') NOT IN (SELECT root FROM gone)
        AND coalesce(completed.target_id, '') NOT IN (SELECT root FROM gone)
)
SELECT name,
    helpful + (SELECT count(DISTINCT member) FROM counted WHERE counted.name = baseline.name AND verdict = 'helpful'),
    harmful + (SELECT count(DISTINCT member) FROM counted WHERE counted.name = baseline.name AND verdict = 'harmful')
FROM baseline
"""
_MEMBER = {
    "as_applied": "event.event_id",
    "once_per_reflection": "coalesce(event.reflection_id, event.event_id)",
    "once_per_session": "coalesce(event.session_id, event.event_id)",
}


def counters(ledger: Ledger, counting: str) -> dict[str, tuple[int, int]]:
    """(helpful, harmful) of every bullet, removed ones too, under a policy."""
    words = _POSTGRESQL if ledger.engine.dialect == "postgresql" else _SQLITE
    fields = {key: words["field"].format(row="event", key=key) for key in ("name", "helpful", "harmful")}
    items = {f"item_{key}": words["item"].format(key=key) for key in ("name", "helpful", "harmful")}
    query = _QUERY.format(
        **fields,
        **items,
        tag_name=words["field"].format(row="event", key="name"),
        tag=words["field"].format(row="event", key="tag"),
        disposition=words["field"].format(row="event", key="disposition"),
        items=words["items"],
        member=_MEMBER[counting],
        playbook=ledger.playbook_id,
    )
    with ledger.engine.alchemy().connect() as connection:
        return {
            row[0]: (row[1], row[2])
            for row in connection.exec_driver_sql(
                query.replace("%", "%%") if ledger.engine.dialect == "postgresql" else query
            )
        }
