"""The tables that answer quickly: bullets, tags, windows, retractions, seen records and tallies, kept from events.

Invariant: `project` is called with every event once, in order, inside the transaction that appended it, and a
rebuild calls the same function over all events. So the tables equal the pure fold of
`reflector.events.fold` at every position; `verify` and the tests compare the two.

A counter is written as baseline plus the size of the set of counted tags. Under `as_applied` a new tag makes
that set one larger, so it is added; whenever tags leave or come back, or members are shared, the set
is counted again. Nothing is ever subtracted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, field
from typing import TYPE_CHECKING, Any, Final

from reflector.dataclass import dataclass
from reflector.events import event as ev
from reflector.events.effects import (
    AdoptsPolicy,
    ChangesNothing,
    Effect,
    MovesWindow,
    OpensWindow,
    Retracts,
    UndoesMerge,
)
from reflector.events.record_keys import unpack_keys
from reflector.events.registry import WINDOW_TYPES, effect_of, names_in
from reflector.events.state import MAX_TAGS, Entry, Playbook, verdict
from reflector.ledger.answer_tally import AnswerTally
from reflector.ledger.bullet_tally import BulletTally
from reflector.ledger.checkpoints import TABLES
from reflector.ledger.counters import ENTRIES, ENTRY_COLUMNS, Counters, InForce
from reflector.ledger.double_tally import DoubleTally
from reflector.ledger.rows import Projected
from reflector.ledger.statements import Statements
from reflector.ledger.tail import TAG_COLUMNS, TagRow
from reflector.ledger.tallies import Checkpoint, Kept, Tally
from reflector.playbook.counting import is_counting

if TYPE_CHECKING:
    from reflector.ledger.rows import Projected
    from reflector.ledger.statements import Statements

#: The tallies that are kept.
KEPT: Final[tuple[type[Tally], ...]] = (BulletTally, AnswerTally, DoubleTally)
_WINDOW_COLUMNS = ("position", "event_id", "session_id", "state", "attempts", "changed_at")
_STATUS_COLUMNS = ("name", "position", "status")


@dataclass(slots=True)
class _Waiting:
    """Rows to write, by kind: windows, record keys, changes of windows' states, tags, and tags that count more."""

    windows: list[tuple[object, ...]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    states: list[tuple[object, ...]] = field(default_factory=list)
    tags: list[TagRow] = field(default_factory=list)
    counted: dict[tuple[str, int], int] = field(default_factory=dict)


class Projector:
    """Writes the tables of one playbook on an open write transaction."""

    def __init__(self, statements: Statements, in_force: InForce = None, tallies: Kept | None = None) -> None:
        self.sql = statements
        #: What was kept up to the event before the first one; None where that was by somebody else.
        self.tallies = tallies
        self.counters = Counters(statements, in_force)
        self._covers: dict[str | None, int | None] = {}
        self._waiting = _Waiting()

    def project(self, events: Sequence[Projected]) -> None:
        """Fold events into the tables, in order."""
        if not events:
            return
        updated_at = None
        tallies = self.tallies
        if tallies is None or tallies.position != events[0].position - 1:
            tallies = self.tallies = Kept(self.sql, KEPT, events[0].position - 1)
        for event in events:
            type_, data = event.type, event.data if event.data is not None else {}
            if type_ == ev.BULLET_TAGGED:
                if self._tagged(event, data):
                    updated_at = event.recorded_at
                tallies.take_tag(self._waiting.tags[-1])
                continue
            tallies.take(event)
            effect = effect_of(type_)
            if effect is None or isinstance(effect, ChangesNothing):
                continue
            if effect.changes:
                updated_at = event.recorded_at
            if isinstance(effect, OpensWindow):
                self._opened(event, data)
            elif isinstance(effect, MovesWindow):
                self._moved(event, effect.state_by(data), effect.attempts)
            else:
                # These look at rows, so what waits is written first.
                self._write_waiting()
                if isinstance(effect, Retracts):
                    self._retracted(event)
                elif isinstance(effect, AdoptsPolicy):
                    self._adopted(data)
                else:
                    self._change_bullets(event, effect, data)
        self._write_waiting()
        if updated_at is not None:
            sql = "UPDATE projection SET updated_at = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, updated_at, self.sql.id, TABLES)
        tallies.position = events[-1].position
        self.sql.insert("tally", Checkpoint._fields, list(tallies.checkpoints()))

    def _tagged(self, event: Projected, data: Mapping[str, Any]) -> bool:
        """Add a tag; return whether it counts."""
        judged = verdict(data)
        waiting = self._waiting
        if judged is None:
            name = storable(data.get("name"))
            waiting.tags.append((event.position, name, 0, event.session_id, event.reflection_id, 0))
            return False
        active = 0 if self.counters.has_retractions() and self._is_covered(event) else 1
        waiting.tags.append((event.position, *judged, event.session_id, event.reflection_id, active))
        if active:
            waiting.counted[judged] = waiting.counted.get(judged, 0) + 1
        return True

    def _is_covered(self, event: Projected) -> bool:
        """Return whether a retraction that came first covers this tag's reflection or its window."""
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
        self.sql.insert("tag", TAG_COLUMNS, waiting.tags)
        if waiting.counted:
            self.counters.increase(waiting.counted, waiting.tags)

    def _covered_from(self, reflection_id: str | None) -> int | None:
        """Return the position of this reflection's completion, if an active retraction covers it or its window."""
        completed = self._completed(reflection_id)
        if completed is None or not self._covered([event_id for event_id in completed[1:] if event_id]):
            return None
        return completed[0]

    def _completed(self, reflection_id: str | None) -> tuple[int, str, str | None] | None:
        """Return (position, event id, window's event id) of a reflection's completion."""
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

    def _change_bullets(self, event: Projected, effect: Effect, data: Mapping[str, Any]) -> None:
        """Write the difference that the effect makes to the bullets that the event names."""
        names = names_in(event.type, data)
        if isinstance(effect, UndoesMerge):
            among, values = self.sql.among("removed_into", names)
            query = f"SELECT name FROM bullet WHERE playbook_id = ? AND status = 'merged' AND {among}"  # noqa: S608
            names |= {row[0] for row in self.sql.run(query, values).fetchall()}
        before = self._entries(names)
        (last,) = self.sql.run("SELECT coalesce(max(ordinal), 0) FROM bullet WHERE playbook_id = ?").fetchone()
        book = Playbook(entries=dict(before), last_ordinal=last)
        effect.apply(book, event, data)
        new = [entry for name, entry in book.entries.items() if name not in before]
        # What was tagged before the bullet existed is not part of its count.
        self._uncount([entry.name for entry in new])
        rows = [(*astuple(entry), *entry.baseline) for entry in new]
        self.sql.insert("bullet", (*ENTRY_COLUMNS, "helpful", "harmful"), rows)
        were = {name: one.status for name, one in before.items()}
        since = [one for name, one in book.entries.items() if one.status != were.get(name)]
        self.sql.insert("bullet_status", _STATUS_COLUMNS, [(one.name, event.position, one.status) for one in since])
        again: list[str] = []
        for name, old in before.items():
            entry = book.entries[name]
            changed = [column for column in ENTRY_COLUMNS if getattr(entry, column) != getattr(old, column)]
            if changed:
                columns = ", ".join(f"{column} = ?" for column in changed)
                values = [getattr(entry, column) for column in changed]
                self.sql.execute(
                    f"UPDATE bullet SET {columns} WHERE playbook_id = ? AND name = ?",  # noqa: S608
                    *(*values, self.sql.id, name),
                )
            if "recounted_at" in changed:
                self._uncount([name])
                again.append(name)
            if old.heir != entry.heir:
                again += [name, *([old.heir] if old.heir else [])]
        if again:
            self.counters.forget()
            self.counters.recount(again)

    def _entries(self, names: Collection[str]) -> dict[str, Entry]:
        """Return the bullets of these names, in order of creation."""
        among, values = self.sql.among("name", sorted(names))
        rows = self.sql.run(f"{ENTRIES} AND {among} ORDER BY ordinal", values).fetchall()
        return {row[0]: Entry(*row) for row in rows}

    def _uncount(self, names: Collection[str]) -> None:
        """Take every tag so far of these names out of the count."""
        self.sql.many(
            "UPDATE tag SET active = 0 WHERE playbook_id = ? AND name = ? AND active = 1",
            [(self.sql.id, name) for name in names],
        )

    def _opened(self, event: Projected, data: Mapping[str, Any]) -> None:
        row = (event.position, event.event_id, event.session_id, "pending", 0, event.recorded_at)
        self._waiting.windows.append(row)
        keys = data.get("window", {}).get("keys")
        if isinstance(keys, str):
            self._waiting.keys.extend(unpack_keys(keys))

    def _moved(self, event: Projected, state: str, attempts: int) -> None:
        row = (state, attempts, event.recorded_at, self.sql.id, self.sql.id, event.target_id)
        self._waiting.states.append(row)

    def _retracted(self, event: Projected) -> None:
        target = event.target_id
        if target is None:
            return
        self.counters.forget()
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
        """Decide again which tags under an event (a window, a reflection or one tag) are active."""
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
        elif type_ in WINDOW_TYPES:
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
            self.counters.recount({name for _, name, _, _ in rows})

    def _adopted(self, data: Mapping[str, Any]) -> None:
        if is_counting(data.get("counting")):
            sql = "UPDATE projection SET policy_id = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, data["counting"], self.sql.id, TABLES)
            self.counters.forget()
            self.counters.recount(None)


def storable(name: object) -> str:
    """Return the name of a tag that never counts, as every engine can store it."""
    return name.replace("\0", "") if isinstance(name, str) else ""
