"""The tables that answer quickly: bullets, tags, windows, retractions and seen records, kept from events.

Invariant: `project` is called with every event once, in order, inside the transaction that appended it, and a
rebuild calls the same function over all events. So the tables equal the pure fold of
`reflector.playbook.fold` at every position; `verify` and the tests compare the two.

A counter is written as baseline plus the size of the set of counted tags. Under `as_applied` a new tag makes
that set one larger, so it is added; whenever tags leave or come back, or members are shared, the set
is counted anew. Nothing is ever subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.record_keys import unpack_keys
from reflector.ledger.rows import Projected
from reflector.ledger.statements import Statements
from reflector.playbook.counting import DEFAULT, Counting, is_counting
from reflector.playbook.fold import MAX_TAGS, REDACTED, changes_playbook, reads, verdict
from reflector.playbook.names import section_slug

#: Raised when `project` writes other rows for the same events; a ledger with an older one is rebuilt.
CODE_VERSION = 1
TABLES = "tables"


_WINDOW_COLUMNS = ("position", "event_id", "session_id", "state", "attempts", "changed_at")
_TAG_COLUMNS = ("position", "name", "tag", "active", "session_id", "reflection_id")
_BULLET_COLUMNS = (
    "name",
    "ordinal",
    "section",
    "text",
    "status",
    "position",
    "recounted_at",
    "baseline_helpful",
    "baseline_harmful",
    "helpful",
    "harmful",
)


@dataclass(slots=True)
class _Waiting:
    """Rows to write, by kind: windows, record keys, changes of windows' states, tags, and tags that count more."""

    windows: list[tuple[object, ...]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    states: list[tuple[object, ...]] = field(default_factory=list)
    tags: list[tuple[object, ...]] = field(default_factory=list)
    counted: dict[tuple[str, int], int] = field(default_factory=dict)


class Projector:
    """Writes the tables of one playbook on an open write transaction."""

    def __init__(self, statements: Statements) -> None:
        self.sql = statements
        self._policy: Counting | None = None
        self._retracts: bool | None = None
        self._covers: dict[str | None, int | None] = {}
        self._waiting = _Waiting()

    def project(self, events: Iterable[Projected]) -> None:
        """Fold events into the tables, in order."""
        updated_at = None
        for event in events:
            type_, data = event.type, event.data if event.data is not None else {}
            if type_ == ev.BULLET_TAGGED:
                if self._tagged(event, data):
                    updated_at = event.recorded_at
                continue
            if changes_playbook(type_, data):
                updated_at = event.recorded_at
            if type_ in _WAITING_RULES:
                _WAITING_RULES[type_](self, event, data)
            elif type_ in _RULES:
                self._write_waiting()
                _RULES[type_](self, event, data)
        self._write_waiting()
        if updated_at is not None:
            sql = "UPDATE projection SET updated_at = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, updated_at, self.sql.id, TABLES)

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

    def _tagged(self, event: Projected, data: Mapping[str, Any]) -> bool:
        """Take a tag in; True for one that counts unless it is retracted."""
        judged = verdict(data)
        waiting = self._waiting
        if judged is None:
            row = (event.position, storable(data.get("name")), 0, 0, event.session_id, event.reflection_id)
            waiting.tags.append(row)
            return False
        active = 0 if self._has_retractions() and self._is_covered(event) else 1
        waiting.tags.append((event.position, *judged, active, event.session_id, event.reflection_id))
        if active:
            waiting.counted[judged] = waiting.counted.get(judged, 0) + 1
        return True

    def _is_covered(self, event: Projected) -> bool:
        """True when a retraction that came first covers this tag's reflection or its window."""
        if event.reflection_id not in self._covers:
            self._covers[event.reflection_id] = self._covered_from(event.reflection_id)
        start = self._covers[event.reflection_id]
        return start is not None and start < event.position <= start + MAX_TAGS

    def _write_waiting(self) -> None:
        """Write the rows that wait; each kind at once costs far less than event by event."""
        waiting, self._waiting = self._waiting, _Waiting()
        self.sql.insert("session_window", _WINDOW_COLUMNS, waiting.windows)
        self.sql.insert_new("record", ("key",), [(key,) for key in waiting.keys])
        self.sql.many(
            "UPDATE session_window SET state = ?, attempts = attempts + ?, changed_at = ? WHERE playbook_id = ?"
            " AND position = (SELECT position FROM event WHERE playbook_id = ? AND event_id = ?)"
            # A judged window stays judged; one that was skipped or given up may still be judged by hand.
            " AND state <> 'completed'",
            waiting.states,
        )
        self.sql.insert("tag", _TAG_COLUMNS, waiting.tags)
        if waiting.counted and self.counting() == "as_applied":
            self._increase(waiting.counted)
        elif waiting.counted:
            self._recount({name for name, _ in waiting.counted})

    def _increase(self, counted: Mapping[tuple[str, int], int]) -> None:
        more: dict[str, list[int]] = {}
        for (name, tag), count in counted.items():
            more.setdefault(name, [0, 0])[tag < 0] += count
        self.sql.many(
            "UPDATE bullet SET helpful = helpful + ?, harmful = harmful + ? WHERE playbook_id = ? AND name = ?",
            [(helpful, harmful, self.sql.id, name) for name, (helpful, harmful) in more.items()],
        )

    def _covered_from(self, reflection_id: str | None) -> int | None:
        """The position of this reflection's completion, if an active retraction covers it or its window."""
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
        self.sql.many(
            "UPDATE bullet SET helpful = baseline_helpful + ?, harmful = baseline_harmful + ?"
            " WHERE playbook_id = ? AND name = ?",
            [(counts.get((n, 1), 0), counts.get((n, -1), 0), self.sql.id, n) for n in bullets],
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
            [(self.sql.id, item["name"]) for item in items],
        )
        last = self.sql.run("SELECT coalesce(max(ordinal), 0) FROM bullet WHERE playbook_id = ?").fetchone()[0]
        rows: list[tuple[object, ...]] = []
        for ordinal, item in enumerate(items, start=last + 1):
            counters = (item.get("helpful", 0), item.get("harmful", 0))
            at = (event.position, event.position)
            section = section_slug(item["section"])
            rows.append((item["name"], ordinal, section, item["text"], "live", *at, *counters, *counters))
        self.sql.insert_new("bullet", _BULLET_COLUMNS, rows)

    def _set(self, name: object, **values: object) -> None:
        columns = ", ".join(f"{column} = ?" for column in values)
        sql = f"UPDATE bullet SET {columns} WHERE playbook_id = ? AND name = ?"  # noqa: S608
        self.sql.execute(sql, *values.values(), self.sql.id, name)

    def _revised(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), text=data.get("text", REDACTED))

    def _moved(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), section=section_slug(data.get("section", "")))

    def _removed(self, _: Projected, data: Mapping[str, Any]) -> None:
        self._set(data.get("name"), status="removed", removed_into=data.get("into"), reason=data.get("reason"))

    def _recounted(self, event: Projected, data: Mapping[str, Any]) -> None:
        name = data.get("name")
        if self.sql.run("SELECT 1 FROM bullet WHERE playbook_id = ? AND name = ?", name).fetchone() is None:
            return
        self._set(
            name,
            baseline_helpful=data.get("helpful", 0),
            baseline_harmful=data.get("harmful", 0),
            recounted_at=event.position,
        )
        self.sql.run("UPDATE tag SET active = 0 WHERE playbook_id = ? AND name = ? AND active = 1", name)
        self._recount([str(name)])

    def _session(self, event: Projected, data: Mapping[str, Any]) -> None:
        row = (event.position, event.event_id, event.session_id, "pending", 0, event.recorded_at)
        self._waiting.windows.append(row)
        keys = data.get("window", {}).get("keys")
        if isinstance(keys, str):
            self._waiting.keys.extend(unpack_keys(keys))

    def _window_state(self, event: Projected, state: str, attempts: int = 0) -> None:
        row = (state, attempts, event.recorded_at, self.sql.id, self.sql.id, event.target_id)
        self._waiting.states.append(row)

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
        self._covers.clear()
        self.sql.run(
            "INSERT INTO retraction (playbook_id, event_id, target_id, active) VALUES (?, ?, ?, 1)",
            event.event_id,
            target,
        )
        # A retraction of a retraction: each is retracted once, so the way down to the evidence is a line.
        active = 1
        while (row := self._retraction_by(target)) is not None:
            active = 1 - active
            sql = "UPDATE retraction SET active = ? WHERE playbook_id = ? AND event_id = ?"
            self.sql.execute(sql, active, self.sql.id, target)
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
                self.sql.id,
                position,
            )
            for position, _, event_id, recounted_at in rows
        ]
        if changes:
            self.sql.many("UPDATE tag SET active = ? WHERE playbook_id = ? AND position = ?", changes)
            self._recount({name for _, name, _, _ in rows})

    def _adopted(self, _: Projected, data: Mapping[str, Any]) -> None:
        if is_counting(data.get("counting")):
            sql = "UPDATE projection SET policy_id = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, data["counting"], self.sql.id, TABLES)
            self._policy = data["counting"]
            self.recount_all()


def projects(type_: str) -> bool:
    """True for a type whose data `project` looks at."""
    return reads(type_) or type_ in {ev.SESSION_RECORDED, ev.REFLECTION_FAILED}


def storable(name: object) -> str:
    """The name of a tag that never counts, as every engine can store it."""
    return name.replace("\0", "") if isinstance(name, str) else ""


#: Rules whose rows wait until the next rule that looks at rows, or the last event.
_WAITING_RULES = {
    ev.SESSION_RECORDED: Projector._session,
    ev.REFLECTION_SKIPPED: Projector._skipped,
    ev.REFLECTION_ANSWERED: Projector._answered,
    ev.REFLECTION_COMPLETED: Projector._completed_window,
    ev.REFLECTION_FAILED: Projector._failed,
}
_RULES = {
    ev.PLAYBOOK_IMPORTED: Projector._imported,
    ev.BULLET_ADDED: Projector._added,
    ev.BULLET_REVISED: Projector._revised,
    ev.BULLET_MOVED: Projector._moved,
    ev.BULLET_REMOVED: Projector._removed,
    ev.BULLET_RECOUNTED: Projector._recounted,
    ev.EVIDENCE_RETRACTED: Projector._retracted,
    ev.POLICY_ADOPTED: Projector._adopted,
}
