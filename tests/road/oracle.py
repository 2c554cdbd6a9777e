"""What must come of a row of triggers, from the words of docs/design.md and nothing else.

A window is the records that nobody has seen. A compaction ends it where the file ended when its hook ran; an end, a
subagent's stop and a stop that nothing followed read to where the file ends by then. A citation waits for its evidence
with the session that it was taken in with: a verdict counts once a window of that session was read from a file that
shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.road.written import Transcript

PENDING, WAITING, FAILED, SILENT = "pending", "waiting", "failed", "silent"


@dataclass
class Delivered:
    """One hook that ran. `size` is the file's then, None where there was none (yet)."""

    number: int
    event: str
    session_id: str
    agent_id: str | None
    transcript: Transcript | None
    size: int | None
    received: int

    @property
    def mark(self) -> str:
        """What it is found again by in the spool."""
        return f"d-{self.number}"

    @property
    def exists(self) -> bool:
        return self.transcript is not None and self.transcript.written > 0

    def visible(self) -> list[str]:
        assert self.transcript is not None
        return self.transcript.visible(self.size if self.event == "PreCompact" else None)


@dataclass(frozen=True)
class Window:
    """What one `session.recorded` must say, and all that its file showed then."""

    session_id: str
    agent_id: str | None
    trigger: str
    records: tuple[str, ...]
    shown: frozenset[str]


@dataclass
class Oracle:
    """Where each delivery is, which windows were taken in, and what they count."""

    places: dict[str, str] = field(default_factory=dict)
    deliveries: dict[str, Delivered] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    owner: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def deliver(self, delivered: Delivered) -> None:
        """A hook ran. Of a session's stops the newest is kept."""
        place = PENDING
        if delivered.event == "Stop":
            place = WAITING
            for other in self._in(WAITING):
                if other.session_id == delivered.session_id:
                    del self.places[other.mark]
        self.deliveries[delivered.mark] = delivered
        self.places[delivered.mark] = place

    def has_work(self) -> bool:
        return bool(self._in(PENDING) or self._in(WAITING))

    def idle(self, session_id: str, by: int) -> None:
        """Nothing was heard of a session for long."""
        for delivered in self._in(WAITING):
            if delivered.session_id == session_id:
                delivered.received -= by

    def take(self, transcript: Transcript, trigger: str) -> None:
        """A file is taken in by hand."""
        self._record(transcript.id, transcript.agent_id, trigger, transcript.visible(None))

    def drain(self, *, retry: bool = False) -> None:
        """Everything that can be taken in is taken in, in the order in which it was heard of."""
        if retry:
            for delivered in [*self._in(FAILED), *self._in(SILENT)]:
                self.places[delivered.mark] = PENDING
        for delivered in self._in(WAITING):
            if delivered.received < 0:
                self.places[delivered.mark] = PENDING
        for delivered in self._in(PENDING):
            self._take_in(delivered)

    def resume(self, places: Mapping[str, str], windows: int) -> None:
        """A drain was killed: what left the spool must be in the ledger, in the order of a whole drain."""
        for delivered in self._in(WAITING):
            if delivered.received < 0 and places.get(delivered.mark) != WAITING:
                self.places[delivered.mark] = PENDING
        left = False
        for delivered in self._in(PENDING):
            if places.get(delivered.mark) == PENDING:
                if not left and windows > len(self.windows):
                    self._record_delivered(delivered)
                left = True
                continue
            assert not left, f"{delivered} was taken in before one that came first"
            self._take_in(delivered)
        for delivered in self._in(WAITING):
            if delivered.mark not in places:
                assert set(delivered.visible()) <= self.owner.keys(), f"{delivered} is lost"
                del self.places[delivered.mark]
        # The stop of a session whose end was settled a moment ago.
        self.places.update(
            {mark: WAITING for mark, place in places.items() if place == WAITING and mark not in self.places}
        )

    def counts(self, judged: Callable[[str], bool], transcripts: list[Transcript]) -> dict[str, Counter[str]]:
        """Verdicts by bullet, of those that `judged` says."""
        counts: dict[str, Counter[str]] = {}
        shown: dict[tuple[str, str | None], set[str]] = {}
        for window in self.windows:
            shown.setdefault((window.session_id, window.agent_id), set()).update(window.shown)
        lineages = {id(transcript.lineage): transcript.lineage for transcript in transcripts}
        for lineage in lineages.values():
            for advice in lineage.advice:
                if not judged(advice.name):
                    continue
                for record, verdict in advice.verdicts:
                    if advice.cited_by in self.owner and record in shown[self.owner[advice.cited_by]]:
                        counts.setdefault(advice.name, Counter())[verdict] += 1
        return counts

    def _in(self, place: str) -> list[Delivered]:
        found = [self.deliveries[mark] for mark, where in self.places.items() if where == place]
        return sorted(found, key=lambda delivered: (delivered.received, delivered.number))

    def _take_in(self, delivered: Delivered) -> None:
        if delivered.exists:
            self._record_delivered(delivered)
        elif delivered.event == "SubagentStop":
            pass  # the client's own summariser: it never exists
        elif delivered.event == "SessionEnd" and not self._spoke(delivered.session_id):
            self.places[delivered.mark] = SILENT
            return
        else:
            self.places[delivered.mark] = FAILED
            return
        del self.places[delivered.mark]
        if delivered.event == "SessionEnd":
            for stop in self._in(WAITING):
                if stop.session_id == delivered.session_id and stop.received < delivered.received:
                    del self.places[stop.mark]

    def _spoke(self, session_id: str) -> bool:
        stops = any(stop.session_id == session_id for stop in self._in(WAITING))
        return stops or any(window.session_id == session_id for window in self.windows)

    def _record_delivered(self, delivered: Delivered) -> None:
        self._record(delivered.session_id, delivered.agent_id, delivered.event, delivered.visible())

    def _record(self, session_id: str, agent_id: str | None, trigger: str, visible: list[str]) -> None:
        new = tuple(uuid for uuid in visible if uuid not in self.owner)
        if new:
            self.windows.append(Window(session_id, agent_id, trigger, new, frozenset(visible)))
            self.owner.update(dict.fromkeys(new, (session_id, agent_id)))
