"""A second look at applied changes: did each do what it was for?

Invariant: nothing is taken back by itself. A change that did harm, or after which less came of the advice than before,
gets a proposal to revert it, once; a change that was told often enough without either is measured and left. Both are
events with their figures. What a change is measured by happened after it, in sessions that were told it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from reflector.curation.bullets import BulletRefused
from reflector.curation.proposals import Quote, propose
from reflector.curation.undoing import approved, undoing
from reflector.events import event as ev
from reflector.events.event import MAX_INT, Event, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.ledger.tellings import told_since
from reflector.playbook.change import Change, Kind

ACTOR: Final = "follow-up"
#: After so many sessions that were told it a change is measured, and not looked at again.
ENOUGH: Final = 100
#: Verdicts of sessions against a change, at least, and how many more than for it.
_LEAST_HARMFUL: Final = 3
_MORE: Final = 2
#: How unlikely it must be that the share of helpful verdicts fell by chance.
_CHANCE: Final = 0.01
#: Applied changes that wait to be measured, the newest; and the last session that was told each bullet, by name.
_MOST_LOOKED_AT: Final = 200
#: Changes that are older are left.
_AGE: Final = timedelta(days=180)
#: What is looked at again: the kind of change by the type of its event.
_KINDS: Final[dict[str, Kind]] = {
    ev.BULLET_ADDED: "add",
    ev.BULLET_REVISED: "revise",
    ev.BULLET_MERGED: "merge",
}
_Told = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Sessions whose verdicts say that the advice helped or harmed, and those that were told it: None if not asked."""

    helpful: int
    harmful: int
    told: int | None = None

    @property
    def words(self) -> str:
        """The figures as a sentence says them."""
        told = f" in {self.told} sessions that were told it" if self.told is not None else ""
        return f"{self.helpful} helpful and {self.harmful} harmful{told}"


@dataclass(frozen=True, slots=True)
class Measured:
    """An applied change and what came of it. `verdict` is kept, revert, or open while more has to be told.

    applied  the event of its approval, or of the bullet where a person changed it by hand
    """

    applied: Event
    before: Figures
    after: Figures
    verdict: str
    why: str = ""


def look_again(ledger: Ledger) -> int:
    """Measure the applied changes that are due; return how many proposals to revert one wait because of it.

    The playbook's lock must be held. Raises LedgerError.
    """
    proposed = 0
    for one in measured(ledger):
        if one.verdict == "open":
            continue
        data = {
            "verdict": one.verdict,
            "told": one.after.told or 0,
            "figures": {"before": _data(one.before), "after": _data(one.after)},
            "reason": one.why,
        }
        # Proposed first: a process that is killed in between proposes the same again.
        if one.verdict == "revert":
            with suppress(BulletRefused):  # taken back or changed since
                proposed += _propose(ledger, one)
        event_id = identity(ev.CHANGE_MEASURED, one.applied.event_id)
        ledger.append([NewEvent(ev.CHANGE_MEASURED, event_id, data, ACTOR, target_id=one.applied.event_id)])
    return proposed


def _propose(ledger: Ledger, one: Measured) -> bool:
    (inverse, *_) = undoing(ledger, approved(ledger, one.applied) or [one.applied]).changes
    said = Quote(one.why, "agent")
    made = propose(
        ledger,
        inverse,
        origin="follow-up",
        trust="agent",
        reason=one.why,
        evidence=[said],
        actor=ACTOR,
        target=one.applied.event_id,
    )
    return made.state == "waiting"


def measured(ledger: Ledger) -> Iterator[Measured]:
    """Yield the changes of the last months that are not measured yet, oldest first, with what came of them.

    Raises LedgerError.
    """
    live = {row.name for row in ledger.rows() if row.status == "live"}
    found = [(event, change) for event, change in _applied(ledger) if change.name in live]
    if not found:
        return
    found = found[-_MOST_LOOKED_AT:]
    told = _told_since(ledger, found[0][0].position)
    for event, change in found:
        yield _measure(ledger, told, event, change)


def _applied(ledger: Ledger) -> Iterator[tuple[Event, Change]]:
    """Yield the changes of texts that people approved, or made by hand, and that nobody measured."""
    begin = (datetime.now(UTC) - _AGE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    after = ledger.position_at(begin)
    done = {event.target_id for event in ledger.events(types=[ev.CHANGE_MEASURED], after=after)}
    reverts = {e.event_id for e in ledger.events(types=[ev.CHANGE_PROPOSED], after=after) if e.actor == ACTOR}
    for event in ledger.events(types=[ev.CHANGE_APPROVED, *_KINDS], after=after):
        data: Mapping[str, Any] = event.data or {}
        if not data or event.event_id in done or event.target_id in reverts:
            continue  # what was taken back is not taken back again
        if event.type == ev.CHANGE_APPROVED:
            change = Change.from_data(data["change"])
            if change.kind in _KINDS.values():
                yield event, change
        elif event.target_id is None and event.actor == "human":
            names = tuple(data.get("sources", ()))
            yield event, Change(_KINDS[event.type], data["name"], names, data.get("section"), data.get("text"))


def _measure(ledger: Ledger, told: _Told, applied: Event, change: Change) -> Measured:
    names = sorted({change.name or "", *change.names})
    sessions = {session for name in names for session, at in told.get(name, {}).items() if at > applied.position}
    before = _verdicts(ledger, names, 0, applied.position)
    after = [(session, tag) for session, tag in _verdicts(ledger, names, applied.position) if session in sessions]
    figures = [[tag for _, tag in found] for found in (before, after)]
    then, now = (Figures(found.count(1), found.count(-1)) for found in figures)
    now = replace(now, told=len(sessions))
    verdict, why = _verdict(then if change.kind != "add" else None, now)
    return Measured(applied, then, now, verdict, why)


def _verdict(before: Figures | None, after: Figures) -> tuple[str, str]:
    if after.harmful >= _LEAST_HARMFUL:
        if after.harmful >= after.helpful + _MORE:
            return "revert", f"it did harm: {after.words}"
        if before is not None:
            share = (before.helpful + 1) / (before.helpful + before.harmful + 2)
            if _at_most(after.helpful, after.helpful + after.harmful, share) < _CHANCE:
                return "revert", f"it does more harm than before: {after.words}; before, {before.words}"
    return ("kept", after.words) if (after.told or 0) >= ENOUGH else ("open", "")


def _at_most(count: int, of: int, share: float) -> float:
    """Return how likely `count` or fewer `of` so many are where each is one with the probability `share`."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))


def _told_since(ledger: Ledger, position: int) -> _Told:
    found: dict[str, dict[str, int]] = {}
    for one in told_since(ledger, position):
        if one.session is not None:
            for name in one.bullets:
                found.setdefault(name, {})[one.session] = one.position
    return found


def _verdicts(ledger: Ledger, names: Sequence[str], after: int, upto: int = MAX_INT) -> list[tuple[str, int]]:
    """Return (session, 1 or -1) of the verdicts on bullets that count between two positions, each once a session."""
    with ledger.asking() as sql:
        among, values = sql.among("name", names)
        query = (
            f"SELECT DISTINCT session_id, tag FROM tag WHERE playbook_id = ? AND {among} AND active = 1"  # noqa: S608
            " AND tag IN (1, -1) AND position > ? AND position <= ?"
        )
        return [(str(session), tag) for session, tag in sql.run(query, values, after, upto).fetchall()]


def _data(figures: Figures) -> dict[str, int]:
    told = {} if figures.told is None else {"told": figures.told}
    return {**told, "helpful": figures.helpful, "harmful": figures.harmful}
