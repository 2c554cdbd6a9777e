"""How long a trial would take here, before it is opened.

Invariant: what is said of a trial is measured on trials that are simulated with this project's own figures and decided
as `trial status` decides. So half of the real ones end by what the plan calls the half, if the difference is the true
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from reflector.events.event import SESSION_RECORDED
from reflector.ledger.reader import Reader
from reflector.reflection.window import names_in
from reflector.trials.outcome import OUTCOMES
from reflector.trials.statistics import ends
from reflector.trials.status import Ended, lacking, sessions

#: The differences that a plan speaks of, in points.
POINTS: Final = (5, 10, 20, 30)
#: Beyond so many sessions nothing is simulated: a year of 100 a week.
_MOST: Final = 5_200
_WEEKS: Final = 52
#: The sessions that a plan looks at, the last ones.
_LAST: Final = 200


@dataclass(frozen=True, slots=True)
class Length:
    """How long trials take where the sessions that use what is withheld differ by so many points: half of them end
    after so many `sessions` or `weeks`, nine of ten after `late` weeks; null where that is more than a year."""

    points: int
    sessions: int | None
    weeks: int | None
    late: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial here can find out, and when.

    sessions  that were looked at, `weekly` so many a week
    rate      of them that ended well, and `known` the share of which anything is known
    used      the share of sessions that use what is withheld: a difference in one of ten is a tenth of it in all
    """

    sessions: int
    weekly: float
    rate: float
    known: float
    used: float
    share: float
    outcome: str
    lengths: list[Length]

    @property
    def is_long(self) -> bool:
        """Whether half of the trials take more than half a year even where the difference is 20 points."""
        (weeks,) = (one.weeks for one in self.lengths if one.points == 20)
        return weeks is None or weeks > _WEEKS // 2


def plan(ledger: Reader, *, bullets: Sequence[str] = (), share: float = 0.5, outcome: str = "correction-free") -> Plan:
    """Return how long a trial would take in a ledger's project; `bullets` of it are withheld, none for all of them.

    Sessions that an earlier version recorded are read from their transcripts, where these are still there.
    Raises LedgerError.
    """
    more = (replace(window, data=dict(new.data)) for window, new in lacking(ledger, _LAST))
    last = sessions(ledger, more=more)[-_LAST:]
    facts = [one.facts for one in last]
    weeks = (last[-1].began - last[0].began).total_seconds() / (7 * 86_400) if last else 0.0
    weekly = len(last) / max(weeks, 1.0)
    rate = sum(map(OUTCOMES[outcome], facts)) / len(facts) if facts else 0.5
    said = ("words", "refusals", "interruptions", "tests", "build")
    known = sum(any(one.get(key) for key in said) for one in facts) / len(facts) if facts else 0.0
    used = _used(ledger, last, bullets) if bullets else 1.0
    most = min(_MOST, ceil(weekly * _WEEKS))
    lengths = [_length(points, used, rate, share, most, weekly) for points in POINTS]
    return Plan(len(last), round(weekly, 1), round(rate, 3), round(known, 3), round(used, 3), share, outcome, lengths)


def _length(points: int, used: float, rate: float, share: float, most: int, weekly: float) -> Length:
    found = ends(points / 100 * used, rate, share, most) if most else []
    half, late = (at if found and (at := found[len(found) * tenths // 10]) <= most else None for tenths in (5, 9))
    in_weeks = [None if at is None else max(1, ceil(at / weekly)) for at in (half, late)]
    return Length(points, half, *in_weeks)


def _used(ledger: Reader, last: Sequence[Ended], bullets: Sequence[str]) -> float:
    """Return the share of the last sessions that cite one of these bullets."""
    roots = {one.root for one in last}
    cite = {
        event.session_id
        for event in ledger.events(types=(SESSION_RECORDED,))
        if event.session_id in roots and not {*bullets}.isdisjoint(names_in(event, "cited"))
    }
    return len(cite) / len(roots) if roots else 0.0
