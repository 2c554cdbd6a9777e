"""The tables that answer quickly: bullets, tags, windows, retractions and seen records, kept from events.

Invariant: `project` is called with every event once, in order, inside the transaction that appended it, and a
rebuild calls the same function over all events. So the tables equal the pure fold of
`reflector.playbook.fold` at every position; `verify` and the tests compare the two.

A counter is written as baseline plus the size of the set of counted tags. Under `as_applied` a new tag makes
that set one larger, so it is added; whenever tags leave or come back, or members are shared, the set
is counted anew. Nothing is ever subtracted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reflector.ledger import event as ev
from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.record_keys import unpack_keys
from reflector.playbook.counting import DEFAULT, Counting, is_counting
from reflector.playbook.fold import MAX_TAGS, REDACTED, changes_playbook, verdict

#: Raised when `project` writes other rows for the same events; a ledger with an older one is rebuilt.
CODE_VERSION = 1
TABLES = "tables"


class Projected(NamedTuple):
    """The part of an appended event that the projection reads."""

    position: int
    event_id: str
    type: str
    recorded_at: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    data: Mapping[str, Any] | None


def projected_of(row: Sequence[Any], kept: Mapping[str, str | None]) -> Projected:
    """A row of these columns, `data` as text; `kept` has the redactions' data by target. Raises LedgerCorrupt."""
    try:
        data = json.loads(row[7]) if row[7] is not None else json.loads(kept.get(row[1]) or "{}").get("kept")
    except (ValueError, AttributeError, RecursionError) as error:
        raise LedgerCorrupt(
            f"event {row[0]} ({row[2]}) does not hold JSON ({error}); run `reflector verify`"
        ) from error
    return Projected(row[0], row[1], row[2], row[3], row[4], row[5], row[6], data)


class Statements:
    """SQL in the engine's own parameter style, run on the driver's cursor of the open transaction.

    Core's statement handling costs as much as the inserts themselves on this path.
    """

    def __init__(self, cursor: Any, dialect: str, playbook_id: int) -> None:
        self.cursor = cursor
        self.postgres = dialect == "postgresql"
        self.id = playbook_id

    def run(self, sql: str, *values: object) -> Any:
        """Execute with `?` placeholders; the first is always the playbook's id."""
        # In a pipeline a cursor takes the first answer that arrives for it, which may be that of the statement
        # before: a question gets a cursor of its own there.
        cursor = self.cursor.connection.cursor() if self.postgres else self.cursor
        cursor.execute(self._text(sql), (self.id, *values))
        return cursor

    def many(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute for each row; the first placeholder is the playbook's id, the rest are the row."""
        if rows:
            self.cursor.executemany(self._text(sql), [(self.id, *row) for row in rows])

    def _text(self, sql: str) -> str:
        return sql.replace("?", "%s") if self.postgres else sql


class Projector:
    """Writes the tables of one playbook on an open write transaction."""

    def __init__(self, statements: Statements) -> None:
        self.sql = statements
        self._policy: Counting | None = None
        self._retracts: bool | None = None

    def project(self, events: Iterable[Projected]) -> None:
        """Fold events into the tables, in order."""
        tags: list[Projected] = []
        updated_at = None
        for event in events:
            if changes_playbook(event.type, event.data):
                updated_at = event.recorded_at
            if event.type == ev.BULLET_TAGGED:
                tags.append(event)
                continue
            if tags:
                self._tagged(tags)
                tags = []
            rule = _RULES.get(event.type)
            if rule is not None:
                rule(self, event, event.data if event.data is not None else {})
        if tags:
            self._tagged(tags)
        if updated_at is not None:
            text = self.sql._text("UPDATE projection SET updated_at = ? WHERE playbook_id = ? AND name = ?")
            self.sql.cursor.execute(text, (updated_at, self.sql.id, TABLES))

    def counting(self) -> Counting:
        """The counting policy in force."""
        if self._policy is None:
            query = "SELECT policy_id FROM projection WHERE playbook_id = ? AND name = ?"
            row = self.sql.run(query, TABLES).fetchone()
            self._policy = row[0] if row and is_counting(row[0]) else DEFAULT
        return self._policy

    def _has_retractions(self) -> bool:
        if self._retracts is None:
            query = "SELECT 1 FROM retraction WHERE playbook_id = ? AND active = 1 LIMIT 1"
            self._retracts = self.sql.run(query).fetchone() is not None
        return self._retracts

    def _tagged(self, events: list[Projected]) -> None:
        covered: dict[str | None, int | None] = {}
        rows: list[tuple[object, ...]] = []
        counted: Counter[tuple[str, int]] = Counter()
        for event in events:
            data = event.data or {}
            judged = verdict(data)
            value = active = 0
            if judged is not None:
                if event.reflection_id not in covered:
                    covered[event.reflection_id] = self._covered_from(event.reflection_id)
                start = covered[event.reflection_id]
                value = judged[1]
                active = int(start is None or not start < event.position <= start + MAX_TAGS)
                counted[judged] += active
            name = judged[0] if judged is not None else _storable(data.get("name"))
            rows.append((event.position, name, value, active, event.session_id, event.reflection_id))
        self.sql.many(
            "INSERT INTO tag (playbook_id, position, name, tag, active, session_id, reflection_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        if self.counting() == "as_applied":
            self._increase(counted)
        else:
            self._recount({name for name, _ in counted})

    def _increase(self, counted: Counter[tuple[str, int]]) -> None:
        more: dict[str, list[int]] = {}
        for (name, tag), count in counted.items():
            more.setdefault(name, [0, 0])[tag < 0] += count
        text = self.sql._text(
            "UPDATE bullet SET helpful = helpful + ?, harmful = harmful + ? WHERE playbook_id = ? AND name = ?"
        )
        rows = [(helpful, harmful, self.sql.id, name) for name, (helpful, harmful) in more.items()]
        if rows:
            self.sql.cursor.executemany(text, rows)

    def _covered_from(self, reflection_id: str | None) -> int | None:
        """The position of this reflection's completion, if a retraction that came first covers it or its window."""
        if not self._has_retractions():
            return None
        completed = self._completed(reflection_id)
        if completed is None or not self._covered([event_id for event_id in completed[1:] if event_id]):
            return None
        return completed[0]

    def _completed(self, reflection_id: str | None) -> tuple[int, str, str | None] | None:
        """(position, event id, window's event id) of a reflection's completion."""
        row = self.sql.run(
            "SELECT position, event_id, target_id FROM event WHERE playbook_id = ? AND event_id = ?",
            ev.identity(ev.REFLECTION_COMPLETED, reflection_id or ""),
        ).fetchone()
        return (row[0], row[1], row[2]) if row else None

    def _covered(self, targets: list[str]) -> bool:
        marks = ", ".join("?" * len(targets))
        found = self.sql.run(
            f"SELECT 1 FROM retraction WHERE playbook_id = ? AND active = 1 AND target_id IN ({marks}) LIMIT 1",  # noqa: S608
            *targets,
        ).fetchone()
        return found is not None

    def _recount(self, names: Iterable[str] | None) -> None:
        """Count the sets of these bullets (None: of all) anew, under the policy in force."""
        chosen = sorted(names) if names is not None else None
        if chosen is not None and not chosen:
            return
        # Under the last two a tag without the id is a member by itself.
        members = {
            "as_applied": "count(*)",
            "once_per_reflection": "count(DISTINCT reflection_id) + count(*) - count(reflection_id)",
            "once_per_session": "count(DISTINCT session_id) + count(*) - count(session_id)",
        }[self.counting()]
        only = "" if chosen is None else f" AND name IN ({', '.join('?' * len(chosen))})"
        # Grouped in the order of the index tag_count, so that it streams; inactive rows fall out here.
        query = f"SELECT name, active, tag, {members} FROM tag WHERE playbook_id = ?{only} GROUP BY name, active, tag"  # noqa: S608
        counts = {(row[0], row[2]): row[3] for row in self.sql.run(query, *(chosen or ())).fetchall() if row[1]}
        bullets = chosen
        if bullets is None:
            rows = self.sql.run("SELECT name FROM bullet WHERE playbook_id = ?").fetchall()
            bullets = [row[0] for row in rows]
        text = self.sql._text(
            "UPDATE bullet SET helpful = baseline_helpful + ?, harmful = baseline_harmful + ?"
            " WHERE playbook_id = ? AND name = ?"
        )
        self.sql.cursor.executemany(
            text, [(counts.get((n, 1), 0), counts.get((n, -1), 0), self.sql.id, n) for n in bullets]
        )

    def recount_all(self) -> None:
        """Rebuild every counter from the tags by one GROUP BY over an index."""
        self._recount(None)

    def _imported(self, event: Projected, data: Mapping[str, Any]) -> None:
        self._add(event, list(data.get("bullets", ())))

    def _added(self, event: Projected, data: Mapping[str, Any]) -> None:
        self._add(event, [data] if "name" in data else [])

    def _add(self, event: Projected, items: list[Mapping[str, Any]]) -> None:
        # What was tagged before the bullet existed is not part of its count.
        self.sql.many(
            "UPDATE tag SET active = 0 WHERE playbook_id = ? AND name = ? AND active = 1 AND NOT EXISTS"
            " (SELECT 1 FROM bullet WHERE bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name)",
            [(item["name"],) for item in items],
        )
        last = self.sql.run("SELECT coalesce(max(ordinal), 0) FROM bullet WHERE playbook_id = ?").fetchone()[0]
        rows: list[tuple[object, ...]] = []
        for ordinal, item in enumerate(items, start=last + 1):
            counters = (item.get("helpful", 0), item.get("harmful", 0))
            at = (event.position, event.position)
            rows.append((item["name"], ordinal, item["section"], item["text"], *at, *counters, *counters))
        self.sql.many(
            "INSERT INTO bullet (playbook_id, name, ordinal, section, text, status, position, recounted_at,"
            " baseline_helpful, baseline_harmful, helpful, harmful)"
            " VALUES (?, ?, ?, ?, ?, 'live', ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            rows,
        )

    def _set(self, name: object, **values: object) -> None:
        columns = ", ".join(f"{column} = ?" for column in values)
        text = self.sql._text(f"UPDATE bullet SET {columns} WHERE playbook_id = ? AND name = ?")  # noqa: S608
        self.sql.cursor.execute(text, (*values.values(), self.sql.id, name))

    def _revised(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), text=data.get("text", REDACTED))

    def _moved(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), section=data.get("section"))

    def _removed(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), status="removed", removed_into=data.get("into"), reason=data.get("reason"))

    def _recounted(self, event: Projected, data: Mapping[str, Any]) -> None:
        name = data.get("name")
        if not isinstance(name, str):
            return
        self._set(
            name,
            baseline_helpful=data.get("helpful", 0),
            baseline_harmful=data.get("harmful", 0),
            recounted_at=event.position,
        )
        self.sql.run("UPDATE tag SET active = 0 WHERE playbook_id = ? AND name = ? AND active = 1", name)
        self._recount([name])

    def _session(self, event: Projected, data: Mapping[str, Any]) -> None:
        self.sql.run(
            "INSERT INTO session_window (playbook_id, position, event_id, session_id, state, attempts, changed_at)"
            " VALUES (?, ?, ?, ?, 'pending', 0, ?)",
            event.position,
            event.event_id,
            event.session_id,
            event.recorded_at,
        )
        keys = data.get("window", {}).get("keys")
        if isinstance(keys, str):
            self.sql.many(
                'INSERT INTO record (playbook_id, "key") VALUES (?, ?) ON CONFLICT DO NOTHING',
                [(key,) for key in unpack_keys(keys)],
            )

    def _window_state(self, event: Projected, state: str, attempts: int = 0) -> None:
        text = self.sql._text(
            "UPDATE session_window SET state = ?, attempts = attempts + ?, changed_at = ? WHERE playbook_id = ?"
            " AND position = (SELECT position FROM event WHERE playbook_id = ? AND event_id = ?)"
            # A recorded answer outlives a later failure to read it; a finished window stays finished.
            " AND state IN ('pending', 'answered', 'failed')"
        )
        self.sql.cursor.execute(text, (state, attempts, event.recorded_at, self.sql.id, self.sql.id, event.target_id))

    def _skipped(self, event: Projected, _: Mapping[str, Any]) -> None:
        self._window_state(event, "skipped")

    def _answered(self, event: Projected, _: Mapping[str, Any]) -> None:
        self._window_state(event, "answered")

    def _completed_window(self, event: Projected, _: Mapping[str, Any]) -> None:
        self._window_state(event, "completed")

    def _failed(self, event: Projected, data: Mapping[str, Any]) -> None:
        self._window_state(event, "given_up" if data.get("final") else "failed", attempts=1)

    def _retracted(self, event: Projected, _: Mapping[str, Any]) -> None:
        target = event.target_id
        if target is None:
            return
        self._retracts = None
        self.sql.run(
            "INSERT INTO retraction (playbook_id, event_id, target_id, active) VALUES (?, ?, ?, 1)",
            event.event_id,
            target,
        )
        # A retraction of a retraction: each is retracted once, so the way down to the evidence is a line.
        active = 1
        while (row := self._retraction_by(target)) is not None:
            active = 1 - active
            text = self.sql._text("UPDATE retraction SET active = ? WHERE playbook_id = ? AND event_id = ?")
            self.sql.cursor.execute(text, (active, self.sql.id, target))
            target = row
        self._reconsider(target)

    def _retraction_by(self, event_id: str) -> str | None:
        row = self.sql.run(
            "SELECT target_id FROM retraction WHERE playbook_id = ? AND event_id = ?", event_id
        ).fetchone()
        return row[0] if row else None

    def _reconsider(self, target: str) -> None:
        """Decide anew which tags under an event (a window, a reflection or one tag) are active."""
        row = self.sql.run(
            "SELECT type, position, reflection_id FROM event WHERE playbook_id = ? AND event_id = ?", target
        ).fetchone()
        if row is None:
            return
        type_, position, reflection_id = row
        if type_ == ev.BULLET_TAGGED:
            self._reconsider_tags(reflection_id, only=position)
        elif type_ == ev.REFLECTION_COMPLETED:
            self._reconsider_tags(reflection_id)
        elif type_ == ev.SESSION_RECORDED:
            rows = self.sql.run(
                "SELECT reflection_id FROM event WHERE playbook_id = ? AND target_id = ? AND type = ?",
                target,
                ev.REFLECTION_COMPLETED,
            ).fetchall()
            for (of_window,) in rows:
                self._reconsider_tags(of_window)

    def _reconsider_tags(self, reflection_id: str | None, only: int | None = None) -> None:
        completed = self._completed(reflection_id)
        whole = completed is not None and self._covered([event_id for event_id in completed[1:] if event_id])
        after = completed[0] if completed is not None else 0
        # A reflection's tags follow its completion, so this is a range of the key and no index is needed.
        where = "tag.position = ?" if only is not None else "tag.position BETWEEN ? AND ? AND tag.reflection_id = ?"
        values = (only,) if only is not None else (after + 1, after + MAX_TAGS, reflection_id)
        rows = self.sql.run(
            "SELECT tag.position, tag.name, event.event_id, coalesce(bullet.recounted_at, 0) FROM tag"  # noqa: S608
            " JOIN event ON event.playbook_id = tag.playbook_id AND event.position = tag.position"
            " LEFT JOIN bullet ON bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name"
            f" WHERE tag.playbook_id = ? AND tag.tag <> 0 AND {where}",
            *values,
        ).fetchall()
        changes = [
            (
                int(
                    position > recounted_at
                    and not (whole and after < position <= after + MAX_TAGS)
                    and not self._covered([event_id])
                ),
                position,
            )
            for position, _, event_id, recounted_at in rows
        ]
        text = self.sql._text("UPDATE tag SET active = ? WHERE playbook_id = ? AND position = ?")
        if changes:
            self.sql.cursor.executemany(text, [(active, self.sql.id, position) for active, position in changes])
            self._recount({name for _, name, _, _ in rows})

    def _adopted(self, _: Projected, data: Mapping[str, Any]) -> None:
        if is_counting(data.get("counting")):
            text = self.sql._text("UPDATE projection SET policy_id = ? WHERE playbook_id = ? AND name = ?")
            self.sql.cursor.execute(text, (data["counting"], self.sql.id, TABLES))
            self._policy = data["counting"]
            self.recount_all()


def _storable(name: object) -> str:
    """The name of a tag that never counts, as every engine can store it."""
    return name.replace("\0", "") if isinstance(name, str) else ""


_RULES = {
    ev.PLAYBOOK_IMPORTED: Projector._imported,
    ev.BULLET_ADDED: Projector._added,
    ev.BULLET_REVISED: Projector._revised,
    ev.BULLET_MOVED: Projector._moved,
    ev.BULLET_REMOVED: Projector._removed,
    ev.BULLET_RECOUNTED: Projector._recounted,
    ev.SESSION_RECORDED: Projector._session,
    ev.REFLECTION_SKIPPED: Projector._skipped,
    ev.REFLECTION_ANSWERED: Projector._answered,
    ev.REFLECTION_COMPLETED: Projector._completed_window,
    ev.REFLECTION_FAILED: Projector._failed,
    ev.EVIDENCE_RETRACTED: Projector._retracted,
    ev.POLICY_ADOPTED: Projector._adopted,
}
