"""What the events say, folded as a walk passes, and the rows that stand beside them compared on the way.

Invariant: in the end `playbook` is the pure fold of all events but tags, which `Evidence` counts, and each row
of the tables of tags and windows was compared with its event. Memory grows with bullets, retractions and redactions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reflector.events import event as ev
from reflector.events.effects import CompletesReflection, MovesWindow, OpensWindow
from reflector.events.fold import Entry, Playbook, apply, verdict
from reflector.events.record_keys import unpack_keys
from reflector.events.registry import effect_of
from reflector.ledger.as_of import counted_at, covered_at
from reflector.ledger.canonical import digest
from reflector.ledger.projection import KEPT, storable
from reflector.ledger.rows import Projected
from reflector.ledger.statements import Statements
from reflector.ledger.tallies import Kept
from reflector.mistakes import Finding
from reflector.proof import tag_rows, window_rows
from reflector.proof.evidence import Evidence, Standing, standing_of_tables
from reflector.proof.reading import savepoint, stream, unreadable
from reflector.proof.scratch import Scratch, SortedSet


class _Watched(Playbook):
    """A playbook that notes which bullets were set."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: set[str] = set()

    def put(self, entry: Entry) -> None:
        super().put(entry)
        self.noted.add(entry.name)


class Folding:
    """Takes every event of a playbook once, in order."""

    def __init__(self, sql: Statements, scratch: Scratch) -> None:
        self.sql = sql
        self.scratch = scratch
        self.playbook = _Watched()
        #: Whether no position is missing.
        self.gapless = True
        #: (name, position, status) of each change of a bullet's status.
        self.statuses: set[tuple[str, int, str]] = set()
        self._status: dict[str, str] = {}
        self.evidence = Evidence(_expected(sql), scratch)
        self.tags = tag_rows.TagRows(stream(sql, "tag", tag_rows.COLUMNS))
        self.windows = window_rows.WindowRows(stream(sql, "session_window", window_rows.COLUMNS), scratch)
        #: The keys of every transcript record that a window holds.
        self.keys = SortedSet(scratch, key="INTEGER")
        #: The digest of each checkpoint of a tally, by its name and position.
        self.checkpoints: dict[tuple[str, int], str] = {}
        #: Why there are not all of them: what earlier events say of a session cannot be read.
        self.unread: Exception | None = None
        self._tallies = Kept(sql, KEPT, 0)

    def take_tag(
        self,
        position: int,
        event_id: str,
        recorded_at: str,
        session_id: str | None,
        reflection_id: str | None,
        text: str,
    ) -> None:
        """Take a tag, whose data is a text. Raises for data that no tag has."""
        name, value = judged(text)
        counts = 0
        if value:
            self.playbook.updated_at = recorded_at
            counts = self.evidence.take(position, event_id, name, value, session_id, reflection_id)
        row = (position, name, value, session_id, reflection_id, counts)
        self.tags.take(row)
        self._tallies.take_tag(row)

    def take(self, event: Projected) -> Finding | None:
        """Take any other event; return what is wrong with an assertion. Raises for data that no event has."""
        effect = effect_of(event.type)
        data: Mapping[str, Any] = event.data if event.data is not None else {}
        if isinstance(effect, OpensWindow):
            self.windows.open(event.position, event.event_id, event.session_id, event.recorded_at)
            if event.type == ev.SESSION_RECORDED:
                self.keys.update(zip(unpack_keys(data.get("window", {}).get("keys", "")), strict=True))
        elif isinstance(effect, MovesWindow):
            self.windows.move(event.target_id, effect.state_by(data), effect.attempts, event.recorded_at)
            if isinstance(effect, CompletesReflection):
                self.evidence.complete(event.position, event.event_id, event.reflection_id, event.target_id)
        else:
            apply(self.playbook, event)
            self._note(event.position)
        self._tallies.take(event)
        if self._tallies.full:
            self._check()
        if event.type == ev.BULLET_ASSERTED and data:
            return self._assertion(event.position, data)
        return None

    def _check(self) -> None:
        """Note the checkpoints of tallies that are due."""
        try:
            with savepoint(self.sql):
                self.checkpoints |= {(one.name, one.position): digest(one.state) for one in self._tallies.checkpoints()}
        except Exception as error:
            if not unreadable(error):
                raise
            self.unread = error

    def _note(self, position: int) -> None:
        while self.playbook.noted:
            name = self.playbook.noted.pop()
            status = self.playbook.entries[name].status
            if self._status.get(name) != status:
                self._status[name] = status
                self.statuses.add((name, position, status))

    def finish(self, position: int, gapless: bool) -> None:
        """Settle which tags count, when all events were taken: the last position, and whether it is their number."""
        self.playbook.position = position
        self.gapless = gapless
        self._check()
        standing = Standing.of(self.playbook)
        if self.evidence.unsure or standing != self.evidence.standing:
            again = tag_rows.TagRows(stream(self.sql, "tag", tag_rows.COLUMNS))
            self.evidence = self._count_again(standing, position, again)
            self.tags.unlike = again.unlike

    def _count_again(self, standing: Standing, upto: int, rows: tag_rows.TagRows | None = None) -> Evidence:
        """Count the tags up to a position by another standing, and compare the rows with that."""
        sql, evidence = self.sql, Evidence(standing, self.scratch)
        until = f" AND position <= {upto:d}"
        if standing.retracted:
            # The literal lets the planner take the index of the rare types.
            only = f" AND type = '{ev.REFLECTION_COMPLETED}' AND type <> '{ev.BULLET_TAGGED}'"
            for row in stream(sql, "event", "position, event_id, reflection_id, target_id", only + until):
                evidence.complete(*row)
        columns = "position, event_id, data, session_id, reflection_id"
        for row in stream(sql, "event", columns, f" AND type = '{ev.BULLET_TAGGED}'{until}"):
            position, event_id, text, session_id, reflection_id = row
            name, value = judged(text or "{}")
            counts = evidence.take(position, event_id, name, value, session_id, reflection_id) if value else 0
            if rows is not None:
                rows.take((position, name, value, session_id, reflection_id, counts))
        return evidence

    def _assertion(self, position: int, data: Mapping[str, Any]) -> Finding | None:
        name, playbook = data["name"], self.playbook
        if name not in playbook.entries:
            what, remedy = f"{name} is asserted but does not exist", "look at `reflector log`"
            return Finding("assertion", position, what, remedy)
        counted = self._counters_at(position, name)
        if counted == (data["helpful"], data["harmful"]):
            return None
        what = f"{name} was asserted at {data['helpful']}/{data['harmful']}, "
        what += f"the events give {counted[0]}/{counted[1]}"
        return Finding("assertion", position, what, f"look at `reflector blame {name}`")

    def _counters_at(self, position: int, name: str) -> tuple[int, int]:
        """Return what a bullet's counters are by the events up to a position, all of which were taken."""
        sql, playbook = self.sql, self.playbook
        if not self.tags.sound(position):
            return self._count_again(Standing.of(playbook), position).totals(playbook)[name]
        out: dict[str, set[int]] = {}
        for at, (_, of) in covered_at(sql, playbook, position).items():
            out.setdefault(of, set()).add(at)
        return counted_at(sql, playbook, playbook.family(name), playbook.adopted, position, out)


@lru_cache(maxsize=8192)
def judged(text: str) -> tuple[str, int]:
    """Return (name, 1, -1 or 0) of a tag's data. A tag says little, so a history says the same again and again.

    Raises ValueError, AttributeError, RecursionError for a text that is not JSON, or not an object.
    """
    data = json.loads(text)
    return verdict(data) or (storable(data.get("name")), 0)


def _expected(sql: Statements) -> Standing:
    """Return how everything stands in the end, as far as the tables are to be believed."""
    try:
        with savepoint(sql):
            return standing_of_tables(sql)
    except Exception as error:
        if not unreadable(error):
            raise
        return Standing.of(Playbook())
