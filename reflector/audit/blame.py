"""Why a bullet's counters are what they are: every step of them, with the session, the verdict and the reason.

Invariant: the running totals end at the counters that the playbook shows, under the policy in force; a tag
that does not count is listed too, with the reason it does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.event import Event, identity
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.counting import Counting, member


class UnknownBullet(LookupError):
    """No bullet of this name was ever in the ledger."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event that set, moved or failed to move a bullet's counters.

    tag         helpful, harmful, neutral, or None for a baseline (imported, added with counts, recounted)
    counted     whether it is in the count today
    disposition counted, neutral, unknown_bullet, … as the event says; retracted, recounted or double for a
                counted tag that is not in the count today; baseline for a start value
    helpful, harmful   the totals after this step
    """

    position: int
    recorded_at: str
    session_id: str | None
    reflection_id: str | None
    tag: str | None
    counted: bool
    disposition: str
    rationale: str | None
    backend: str | None
    model: str | None
    helpful: int
    harmful: int


def blame(ledger: Ledger, name: str) -> list[Step]:
    """The steps of a bullet's counters, oldest first. Raises UnknownBullet, LedgerError."""
    row = ledger.row(name)
    if row is None:
        raise UnknownBullet(name)
    return _Blame(ledger, row, ledger.counting()).steps()


class _Blame:
    def __init__(self, ledger: Ledger, row: BulletRow, policy: Counting) -> None:
        self.ledger = ledger
        self.row = row
        self.policy = policy
        self.helpful: set[str] = set()
        self.harmful: set[str] = set()
        self.baseline = (0, 0)
        self.completed: dict[str, dict[str, Any]] = {}

    def steps(self) -> list[Step]:
        active = dict(self.ledger.tags_of(self.row.name))
        recounts = self._recounts()
        # All in one question; an import may hold as many bytes as the tags together and is read once.
        events = self.ledger.at([*active, self.row.position])
        self.completed = self._completions(events)
        events = sorted([*events, *recounts], key=lambda event: event.position)
        last_recount = max((event.position for event in recounts), default=0)
        steps = [self._step(event, active.get(event.position), last_recount) for event in events]
        return [step for step in steps if step is not None]

    def _recounts(self) -> list[Event]:
        recounts = self.ledger.events(types=[ev.BULLET_RECOUNTED], after=self.row.position)
        return [event for event in recounts if event.data and event.data.get("name") == self.row.name]

    def _completions(self, tags: Iterable[Event]) -> dict[str, dict[str, Any]]:
        """The data of the tags' completions, by the id of the reflection."""
        ids = {identity(ev.REFLECTION_COMPLETED, tag.reflection_id or "") for tag in tags}
        return {
            event.reflection_id or "": dict(event.data) for event in self.ledger.having(ids) if event.data is not None
        }

    def _step(self, event: Event, active: bool | None, last_recount: int) -> Step | None:
        if active is None:
            return self._baseline(event)
        data = event.data or {}
        tag, disposition = data.get("tag"), data.get("disposition", "malformed")
        counted = active
        if disposition == "counted":
            if not active:
                disposition = self._why_not(event, last_recount)
            else:
                members = self.helpful if tag == "helpful" else self.harmful
                key = member(self.policy, event.event_id, event.reflection_id, event.session_id)
                if key in members:
                    counted, disposition = False, "double"
                members.add(key)
        completed = self.completed.get(event.reflection_id or "")
        return self._made(
            event,
            tag=str(tag) if tag is not None else None,
            counted=counted,
            disposition=disposition,
            rationale=_rationale(completed, data.get("index")),
            backend=(completed or {}).get("backend", event.actor),
            model=(completed or {}).get("model"),
        )

    def _why_not(self, event: Event, last_recount: int) -> str:
        """Why a tag that was given to be counted is not in the count today."""
        if event.position < last_recount:
            return "recounted"
        return "unknown_bullet" if event.position < self.row.position else "retracted"

    def _baseline(self, event: Event) -> Step | None:
        values = next((item for item in _items(event) if item.get("name") == self.row.name), None)
        if values is None:
            return None
        baseline = (values.get("helpful", 0), values.get("harmful", 0))
        if event.type != ev.BULLET_RECOUNTED and baseline == (0, 0):
            return None
        self.baseline = baseline
        self.helpful.clear()
        self.harmful.clear()
        how = {ev.PLAYBOOK_IMPORTED: "imported", ev.BULLET_RECOUNTED: "set by hand"}.get(event.type, "added")
        return self._made(
            event,
            tag=None,
            counted=True,
            disposition="baseline",
            rationale=f"{how} with {baseline[0]} helpful, {baseline[1]} harmful",
            backend=None,
            model=None,
        )

    def _made(self, event: Event, **values: Any) -> Step:
        return Step(
            position=event.position,
            recorded_at=event.recorded_at,
            session_id=event.session_id,
            reflection_id=event.reflection_id,
            helpful=self.baseline[0] + len(self.helpful),
            harmful=self.baseline[1] + len(self.harmful),
            **values,
        )


def _items(event: Event) -> list[dict[str, Any]]:
    data = dict(event.data or {})
    return list(data.get("bullets", ())) if event.type == ev.PLAYBOOK_IMPORTED else [data]


def _rationale(completed: dict[str, Any] | None, index: object) -> str | None:
    if completed is None:
        return None
    return next((r["rationale"] for r in completed.get("rationales", ()) if r.get("index") == index), None)
