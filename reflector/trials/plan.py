"""The plan of a trial: its expected duration in this project.

Invariant: a plan simulates trials with this project's own figures and decides them like `trial
status`. So if the difference is the true one, half of the real trials end by the planned median. It
starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from reflector.events.event import SESSION_RECORDED
from reflector.events.sessions import tells_more
from reflector.reflection.window import window_names
from reflector.trials.draw import MILLION, PLACEBO_SHARE
from reflector.trials.outcome import OUTCOMES
from reflector.trials.statistics import ends
from reflector.trials.trial import WEEKS, Ended, missing_outcomes, sessions

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader

#: The differences in a plan, in points.
POINTS = (5, 10, 20, 30)
#: The most sessions of a simulated trial: a year of 100 a week.
_MOST = 5_200
#: The share of sessions that go without.
_SHARE = 0.5
#: The number of sessions that a plan uses; these are the last ones.
_LAST = 200


@dataclass(frozen=True, slots=True)
class Length:
    """The length of trials if sessions with and without the withheld rules differ by `points`.

    Half of the trials end after `sessions`, which take `weeks`, and nine of ten end after `late`
    weeks. With a placebo arm, half of them end after `with_placebo` sessions. A value above a year
    is null.
    """

    points: int
    sessions: int | None
    weeks: int | None
    late: int | None
    with_placebo: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The differences that a trial here can find, and the expected durations.

    sessions  the number of sessions that the plan used
    weekly    the number of these sessions in a week
    rate      the share of these sessions that ended well
    known     the share of these sessions about which reflector knows more than the length
    used      the share of sessions that use the withheld rules; if a tenth of the sessions use
              them, the difference in all sessions is a tenth
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
        """Whether half of the trials take more than half a year, even if the difference is 20
        points.
        """
        (weeks,) = (length.weeks for length in self.lengths if length.points == 20)
        return weeks is None or weeks > WEEKS // 2


def plan(
    ledger: Reader,
    *,
    bullets: Sequence[str] = (),
    outcome: str = "correction-free",
) -> Plan:
    """Return the plan of a trial in a ledger's project. `bullets` are withheld; without any, the
    whole playbook is.

    Sessions that an earlier version recorded are read from their transcripts, if these still exist.

    Raises: LedgerError.
    """
    missing = missing_outcomes(ledger, _LAST)
    more = (replace(window, data=dict(new.data)) for window, new in missing)
    last = sessions(ledger, more=more)[-_LAST:]
    n = len(last)
    days = (last[-1].began - last[0].began) / timedelta(days=1) if last else 0.0
    weekly = n / max(days / 7, 1.0)
    facts = [session.facts for session in last]
    rate = sum(map(OUTCOMES[outcome], facts)) / n if last else 0.5
    known = sum(map(tells_more, facts)) / n if last else 0.0
    used = _used(ledger, last, bullets) if bullets else 1.0
    most = min(_MOST, ceil(weekly * WEEKS))
    return Plan(
        sessions=n,
        weekly=round(weekly, 1),
        rate=round(rate, 3),
        known=round(known, 3),
        used=round(used, 3),
        share=_SHARE,
        outcome=outcome,
        lengths=[_length(points, used, rate, most, weekly) for points in POINTS],
    )


def _length(points: int, used: float, rate: float, most: int, weekly: float) -> Length:
    if not most:
        return Length(points, None, None, None)
    lengths = ends(points / 100 * used, rate, _SHARE, most)
    half = lengths[len(lengths) // 2]
    late = lengths[len(lengths) * 9 // 10]

    def weeks(count: int) -> int | None:
        return max(1, ceil(count / weekly)) if count <= most else None

    half_sessions = half if half <= most else None
    with_placebo = ceil(half / (1 - PLACEBO_SHARE / MILLION)) if half <= most else None
    return Length(points, half_sessions, weeks(half), weeks(late), with_placebo)


def _used(ledger: Reader, last: Sequence[Ended], bullets: Sequence[str]) -> float:
    """Return the share of the last sessions that cite one of these bullets."""
    roots = {session.root for session in last}
    names = set(bullets)
    citing = {
        event.session_id
        for event in ledger.events(types=(SESSION_RECORDED,))
        if not names.isdisjoint(window_names(event, "cited"))
    }
    return len(citing & roots) / len(roots) if roots else 0.0
