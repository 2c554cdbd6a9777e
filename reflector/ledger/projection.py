"""The tables that answer quickly (bullets, tags, windows, retractions, seen records), computed from
events.

Invariant: `project` is called with every event once, in order, inside the transaction that appended
it, and a rebuild calls the same function for all events. So the tables equal the pure fold of
`reflector.events.registry.fold` at every position. `verify` and the tests compare the two.

A counter is the baseline plus the size of the set of counted tags. Under `as_applied` a new tag
makes this set one larger, so one is added. If tags leave or return, or if bullets share tags, the
set is counted again. Nothing is ever subtracted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.events.effects import (
    AdoptsPolicy,
    ChangesNothing,
    Effect,
    MovesWindow,
    RecordsWindow,
    Retracts,
    UndoesMerge,
)
from reflector.events.event import (
    BULLET_RECOUNTED,
    BULLET_TAGGED,
    MAX_INT,
    REFLECTION_COMPLETED,
    SESSION_RECORDED,
    Event,
    completion_id,
)
from reflector.events.fields import unpack_keys
from reflector.events.registry import ADVICE, BASELINE_TYPES, WINDOW_TYPES, effect_of, names_in
from reflector.events.state import Playbook, counted_verdict
from reflector.events.windows import WindowState, move_window
from reflector.ledger.counters import ENTRIES, ENTRY_COLUMNS, Counters, InForce
from reflector.ledger.reader import history_page, of_types
from reflector.ledger.statements import CODE_VERSION, TABLES, set_checkpoint
from reflector.playbook.bullet import DEFAULT, MAX_TAGS, is_counting
from reflector.playbook.entry import Entry

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: The tables that a rebuild empties and fills again.
REBUILDABLE = ("bullet", "tag", "session_window", "retraction", "record")
#: Called after each page with the position reached.
Progress = Callable[[int], None]
#: A row of the table of tags, with the columns of `TAG_COLUMNS`.
TagRow = tuple[int, str, int, str | None, str | None, int]
TAG_COLUMNS = ("position", "name", "tag", "session_id", "reflection_id", "active")
_WINDOW_COLUMNS = ("position", "event_id", "session_id", "state", "attempts", "changed_at")
_STATE_COLUMNS = ("state", "attempts", "changed_at", "event_id")
#: (position, name, position of the baseline, own retraction) of tags that are verdicts.
_RETRACTIONS_OF_TAGS = (
    "SELECT tag.position, tag.name, coalesce(bullet.recounted_at, 0), retraction.event_id FROM tag"
    " JOIN event ON event.playbook_id = tag.playbook_id AND event.position = tag.position"
    " LEFT JOIN bullet ON bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name"
    " LEFT JOIN retraction ON retraction.playbook_id = tag.playbook_id"
    " AND retraction.target_id = event.event_id AND retraction.active = 1"
    " WHERE tag.playbook_id = ? AND tag.tag <> 0"
)
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class _Window(WindowState):
    """A change to write for a window: a new window if `row` (position, event id, session id) is
    set, otherwise a change of its state.
    """

    row: tuple[object, ...] = ()


@dataclass(slots=True)
class _Waiting:
    """The rows to write, folded, so that each row is written once.

    windows    by event id
    uncounted  names of bullets whose tags in the table do not count any more
    counted    the number of `tags` that count, by name and verdict
    """

    windows: dict[str, _Window] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)
    uncounted: set[str] = field(default_factory=set)
    tags: list[TagRow] = field(default_factory=list)
    counted: dict[tuple[str, int], int] = field(default_factory=dict)


class Projector:
    """Writes the tables of one playbook on an open write transaction."""

    def __init__(self, statements: Statements, in_force: InForce = None) -> None:
        self.sql = statements
        self.counters = Counters(statements, in_force)
        #: The results of `_completion`, by reflection.
        self._covers: dict[str | None, tuple[int, bool]] = {}
        self._waiting = _Waiting()
        #: The bullets that the current events name: their state now, and their rows in the table.
        self._book = Playbook()
        self._stored: dict[str, Entry] = {}

    def project(self, events: Sequence[Event]) -> None:
        """Fold events into the tables, in order. An unreadable event changes nothing."""
        readable = [event for event in events if not event.fault]
        updated_at = None
        self._read_bullets(readable)
        for event in readable:
            if event.type == BULLET_TAGGED:
                changes = self._tag(event)
            else:
                effect = effect_of(event.type)
                changes = effect is not None and effect.changes
                self._apply(event, effect)
            if changes:
                updated_at = event.recorded_at
        self._write_waiting()
        if updated_at is not None:
            sql = "UPDATE projection SET updated_at = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, updated_at, self.sql.id, TABLES)

    def _apply(self, event: Event, effect: Effect | None) -> None:
        """Fold the effect of an event other than a tag into the waiting rows or the tables."""
        match effect:
            case None | ChangesNothing():
                return
            case RecordsWindow():
                self._open_window(event)
            case MovesWindow():
                self._move_window(event)
            case Retracts():
                self._retract(event)
            case AdoptsPolicy():
                self._adopt_policy(event.fact("counting"))
            case _:
                self._change_bullets(event, effect)

    def _tag(self, event: Event) -> bool:
        """Add a tag; return whether it counts."""
        name_and_tag = counted_verdict(event.facts)
        waiting = self._waiting
        if name_and_tag is None:
            name = storable(event.fact("name"))
            waiting.tags.append((event.position, name, 0, event.session_id, event.reflection_id, 0))
            return False
        active = 0 if self.counters.has_retractions() and self._is_covered(event) else 1
        whose = (event.session_id, event.reflection_id)
        waiting.tags.append((event.position, *name_and_tag, *whose, active))
        if active:
            waiting.counted[name_and_tag] = waiting.counted.get(name_and_tag, 0) + 1
        return True

    def _is_covered(self, event: Event) -> bool:
        """Return whether an earlier retraction covers this tag's reflection or its window."""
        if event.reflection_id not in self._covers:
            self._covers[event.reflection_id] = self._completion(event.reflection_id)
        start, is_covered = self._covers[event.reflection_id]
        return is_covered and start < event.position <= start + MAX_TAGS

    def _write_waiting(self) -> None:
        """Write the waiting rows. Bullets come before tags, in the order of their events."""
        waiting, self._waiting = self._waiting, _Waiting()
        self._write_windows(waiting.windows)
        self.sql.insert_new_records(waiting.keys)
        self._write_bullets()
        names = [(name,) for name in sorted(waiting.uncounted)]
        self.sql.change("tag", "active = 0", "name = {name} AND active = 1", ("name",), names)
        self.sql.insert("tag", TAG_COLUMNS, waiting.tags)
        if waiting.counted:
            self.counters.increase(waiting.counted)

    def _write_windows(self, windows: Mapping[str, _Window]) -> None:
        """Insert the new windows, and change those that are in the table, except completed ones,
        which never change. A change adds its attempts to those in the table.
        """
        opened: list[tuple[object, ...]] = []
        moved: list[tuple[object, ...]] = []
        for event_id, window in windows.items():
            state = (window.state, window.attempts, window.changed_at)
            if window.row:
                opened.append((*window.row, *state))
            else:
                moved.append((*state, event_id))
        self.sql.insert("session_window", _WINDOW_COLUMNS, opened)
        self.sql.change(
            "session_window",
            "state = {state}, attempts = attempts + {attempts}, changed_at = {changed_at}",
            "position = (SELECT position FROM event WHERE playbook_id = {playbook} AND event_id = "
            "{event_id})"
            " AND state <> 'completed'",
            _STATE_COLUMNS,
            moved,
        )

    def _write_bullets(self) -> None:
        """Write the difference between the bullets and their rows."""
        stored = self._stored
        self._stored = dict(self._book.entries)
        new = [entry for name, entry in self._stored.items() if name not in stored]
        new_rows = [(*entry, *entry.baseline) for entry in new]
        self.sql.insert("bullet", (*ENTRY_COLUMNS, "helpful", "harmful"), new_rows)
        changes: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
        for name, old in stored.items():
            entry = self._stored[name]
            if entry == old:
                continue
            pairs = zip(ENTRY_COLUMNS, entry, old, strict=True)
            changed = {column: value for column, value, before in pairs if value != before}
            changes.setdefault(tuple(changed), []).append((*changed.values(), name))
        for columns, rows in changes.items():
            sets = ", ".join(f"{column} = {{{column}}}" for column in columns)
            self.sql.change("bullet", sets, "name = {name}", (*columns, "name"), rows)

    def _completion(self, reflection_id: str | None) -> tuple[int, bool]:
        """Return the position of a reflection's completion, 0 for none, and whether an active
        retraction covers it or its window.
        """
        row = self.sql.row(
            "SELECT position, event_id, target_id FROM event"
            " WHERE playbook_id = ? AND event_id = ?",
            completion_id(reflection_id),
        )
        if row is None:
            return 0, False
        position, *event_ids = row
        query = (
            "SELECT 1 FROM retraction WHERE playbook_id = ? AND active = 1 AND target_id IN ? "
            "LIMIT 1"
        )
        return position, self.sql.row(query, event_ids) is not None

    def _read_bullets(self, events: Sequence[Event]) -> None:
        """Look up all bullets that events name, with one query."""
        names: set[str] = set()
        for event in events:
            if event.type in ADVICE:
                names |= names_in(event.type, event.facts)
        self._stored = self._entries("name", names) if names else {}
        last = 0
        if names:
            (last,) = self.sql.row(
                "SELECT coalesce(max(ordinal), 0) FROM bullet WHERE playbook_id = ?"
            )
        recounts = [event for event in events if event.type == BULLET_RECOUNTED]
        since = {str(event.fact("since")) for event in recounts}
        query = (
            "SELECT event_id, position FROM event"  # noqa: S608
            f" WHERE playbook_id = ? AND event_id IN ? AND {of_types(BASELINE_TYPES)}"
        )
        at = dict(self.sql.rows(query, since)) if since else {}
        self._book = Playbook(entries=dict(self._stored), last_ordinal=last, baselines_at=at)

    def _change_bullets(self, event: Event, effect: Effect) -> None:
        """Fold the effect of an event into the bullets that it names."""
        book = self._book
        names = names_in(event.type, event.facts)
        if isinstance(effect, UndoesMerge):
            names |= self._merged_into(names)
        before = {name: book.entries[name] for name in names if name in book.entries}
        effect.apply(book, event)
        recounted: list[str] = []
        undone: list[str] = []  # a count set by hand was undone, so tags before it may count again
        for name in sorted(names & book.entries.keys()):
            entry = book.entries[name]
            old = before.get(name)
            is_recounted = old is not None and _count_begin(entry) != _count_begin(old)
            if old is None or is_recounted:
                # Earlier tags are not part of its count.
                self._uncount(name)
            if is_recounted:
                recounted.append(name)
                if entry.recounted_at < event.position:
                    undone.append(name)
            if old and entry.heir != old.heir:
                # Its tags now count for another bullet.
                recounted += filter(None, (name, old.heir))
        if recounted:
            self._write_waiting()
            self.counters.forget()
            self.counters.recount(recounted)
        for name in undone:
            self._reconsider_tags_of(name)

    def _reconsider_tags_of(self, name: str) -> None:
        """Decide again which tags of a bullet are active."""
        query = (
            "SELECT position, reflection_id FROM tag WHERE playbook_id = ? AND name = ? AND "
            "tag <> 0"
        )
        for position, reflection_id in self.sql.rows(query, name):
            self._reconsider_tags(reflection_id, only=position)

    def _merged_into(self, names: Collection[str]) -> set[str]:
        """Look up the bullets that were merged into these, and return their names."""
        self._write_waiting()
        sources = self._entries("removed_into", names, " AND status = 'merged'")
        for name, entry in sources.items():
            if name not in self._stored:
                self._stored[name] = entry
                self._book.put(entry)
        return set(sources)

    def _entries(self, column: str, names: Collection[str], more: str = "") -> dict[str, Entry]:
        """Return the bullets that have one of these names in a column, in order of creation."""
        rows = self.sql.rows(f"{ENTRIES} AND {column} IN ?{more} ORDER BY ordinal", names)
        return {row[0]: Entry(*row) for row in rows}

    def _uncount(self, name: str) -> None:
        """Remove every tag so far of a name from the count."""
        waiting = self._waiting
        waiting.uncounted.add(name)
        if (name, 1) in waiting.counted or (name, -1) in waiting.counted:
            waiting.tags = [(*row[:5], 0) if row[1] == name else row for row in waiting.tags]
            for tag in (1, -1):
                waiting.counted.pop((name, tag), None)

    def _open_window(self, event: Event) -> None:
        row = (event.position, event.event_id, event.session_id)
        self._waiting.windows[event.event_id] = _Window(event.recorded_at, row=row)
        if event.type == SESSION_RECORDED:
            window = event.fact("window", {})
            for keys in (window.get("keys"), window.get("twins")):
                self._waiting.keys.extend(unpack_keys(keys) if isinstance(keys, str) else ())

    def _move_window(self, event: Event) -> None:
        if event.target_id is None:
            return
        window = self._waiting.windows.get(event.target_id) or _Window("", state="")
        move_window(window, event)
        if window.state:
            self._waiting.windows[event.target_id] = window

    def _retract(self, event: Event) -> None:
        """Add a retraction, and count the tags again that it removes or restores."""
        target = event.target_id
        if target is None:
            return
        self._write_waiting()  # the code below reads rows
        self.counters.forget()
        self._covers.clear()
        self.sql.run(
            "INSERT INTO retraction (playbook_id, event_id, target_id, active) VALUES (?, ?, ?, 1)",
            event.event_id,
            target,
        )
        self._reconsider(self._turn_retractions(event.event_id, target))

    def _turn_retractions(self, event_id: str, target: str) -> str:
        """Deactivate the retraction that a new one retracts, activate the retraction that this one
        retracts, and so on. Return the evidence at the end.

        Each event is retracted once, so they form a line.
        """
        active = 1
        passed = {event_id}  # a forged ledger may contain a circle
        query = "SELECT target_id FROM retraction WHERE playbook_id = ? AND event_id = ?"
        update = "UPDATE retraction SET active = ? WHERE playbook_id = ? AND event_id = ?"
        while target not in passed:
            row = self.sql.row(query, target)
            if row is None:
                break
            passed.add(target)
            active = 1 - active
            self.sql.execute(update, active, self.sql.id, target)
            (target,) = row
        return target

    def _reconsider(self, target: str) -> None:
        """Decide again which tags under an event (a window, a reflection or one tag) are active."""
        row = self.sql.row(
            "SELECT type, position, reflection_id FROM event"
            " WHERE playbook_id = ? AND event_id = ?",
            target,
        )
        if row is None:
            return
        type_, position, reflection_id = row
        if type_ == BULLET_TAGGED:
            self._reconsider_tags(reflection_id, only=position)
        elif type_ == REFLECTION_COMPLETED:
            self._reconsider_tags(reflection_id)
        elif type_ in WINDOW_TYPES:
            rows = self.sql.rows(
                "SELECT reflection_id FROM event"
                " WHERE playbook_id = ? AND target_id = ? AND type = ?",
                target,
                REFLECTION_COMPLETED,
            )
            for (of_window,) in rows:
                self._reconsider_tags(of_window)

    def _reconsider_tags(self, reflection_id: str | None, only: int | None = None) -> None:
        """Compute again whether the tags of a reflection count after a retraction, then the
        counters of their bullets.

        only  the position of the one tag to compute
        """
        after, is_covered = self._completion(reflection_id)
        last = after + MAX_TAGS
        where = "tag.position = ?"
        values: tuple[object, ...] = (only,)
        if only is None:
            # A reflection's tags follow its completion, so this is a range of the key and needs no
            # index.
            where = "tag.position BETWEEN ? AND ? AND tag.reflection_id = ?"
            values = (after + 1, last, reflection_id)
        rows = self.sql.rows(f"{_RETRACTIONS_OF_TAGS} AND {where}", *values)
        changes = []
        for position, _, recounted_at, retraction_id in rows:
            is_covered_too = is_covered and after < position <= last
            is_retracted = retraction_id is not None or is_covered_too
            changes.append((int(position > recounted_at and not is_retracted), position))
        if changes:
            self.sql.change(
                "tag", "active = {active}", "position = {position}", ("active", "position"), changes
            )
            self.counters.recount({name for _, name, _, _ in rows})

    def _adopt_policy(self, counting: object) -> None:
        if is_counting(counting):
            self._write_waiting()  # the recount reads rows
            sql = "UPDATE projection SET policy_id = ? WHERE playbook_id = ? AND name = ?"
            self.sql.execute(sql, counting, self.sql.id, TABLES)
            self.counters.forget()
            self.counters.recount(None)


def _count_begin(entry: Entry) -> tuple[object, ...]:
    """Return the position and the counts at which a bullet's own count begins."""
    return entry.recounted_at, entry.baseline


def storable(name: object) -> str:
    """Return the name of a tag that never counts, in a form that every engine can store."""
    return name.replace("\0", "") if isinstance(name, str) else ""


def odd_checkpoints(sql: Statements) -> list[str]:
    """Return the names of checkpoints that no reflector writes. Only their form can be checked,
    because writing a file is not an event.
    """
    query = (
        "SELECT name, code_version, policy_id, position, state_hash, updated_at FROM projection"
        " WHERE playbook_id = ? AND name <> ?"
    )
    (end,) = sql.row("SELECT coalesce(max(position), 0) FROM event WHERE playbook_id = ?")
    odd = []
    for name, version, *values in sql.rows(query, TABLES):
        policy, position, state_hash, updated_at = values
        is_possible = 0 < version <= CODE_VERSION and 0 <= position <= end
        is_of_a_file = (policy, updated_at) == ("", None) and _HASH.fullmatch(state_hash)
        if not (is_possible and is_of_a_file):
            odd.append(name)
    return odd


def fill_tables(sql: Statements, progress: Progress | None = None) -> None:
    """Empty the tables and fill them again from all events, within the caller's write transaction.
    Readers see the old rows until it commits. If a rebuild is killed, the old rows stay.
    """
    for table in (*REBUILDABLE, "cached_usage"):
        sql.run(f"DELETE FROM {table} WHERE playbook_id = ?")  # noqa: S608
    row = sql.row("SELECT state_hash FROM projection WHERE playbook_id = ? AND name = ?", TABLES)
    for name in odd_checkpoints(sql):
        sql.run("DELETE FROM projection WHERE playbook_id = ? AND name = ?", name)
    set_checkpoint(sql, TABLES, DEFAULT, 0, row[0] if row else "")
    filled = "UPDATE projection SET code_version = ? WHERE playbook_id = ? AND name = ?"
    sql.execute(filled, CODE_VERSION, sql.id, TABLES)
    position = 0
    projector = Projector(sql)
    while page := history_page(sql, position, MAX_INT):
        projector.project(page)
        position = page[-1].position
        if progress is not None:
            progress(position)
