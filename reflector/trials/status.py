"""Where a trial stands: both arms, the difference, and what can be said of it by now.

Invariant: the answer is a pure function of the ledger up to a position, whose last event says how late it is. Every
session that was drawn counts in its arm, whatever it was really told, and the interval holds however often one asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final, Literal

from reflector.events.event import ADVICE_TOLD, SESSION_OUTCOME
from reflector.ledger.reader import Reader
from reflector.trials.sessions import Compared, Trial, compared, time_of, trials
from reflector.trials.statistics import LEAST, Verdict, ends, interval, verdict

_YEAR: Final = 52


@dataclass(frozen=True, slots=True)
class ArmStatus:
    """The settled sessions of one arm, those that ended well, and their share; null without a session."""

    sessions: int
    good: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """A trial and what it shows. Differences are told minus without, from -1 to 1.

    state        open, over (its end has come, and nothing is withheld any more), closed
    bullets      that are withheld; none of them for the whole playbook
    exempt       that every session is told all the same
    share        of sessions that go without
    outcome      what a good session is
    told, without   the arms
    unsettled    sessions of less than a day, which count tomorrow
    unknown      sessions that were told something since the opening and have no outcome, in neither arm
    difference   of the rates; null without sessions in both arms
    low, high    the interval that stands; null while it is early
    verdict      early (fewer than 40 sessions), helps, harms, no-difference (within 15 points either way), undecided
    sentence     the same in words
    sessions_sha256  over the sessions that count, each with its arm and whether it ended well
    weeks        in which half of such trials would end from here on; null where more than a year
    """

    id: str
    state: Literal["open", "over", "closed"]
    bullets: list[str]
    exempt: list[str]
    share: float
    outcome: str
    opened_at: str
    until: str
    told: ArmStatus
    without: ArmStatus
    unsettled: int
    unknown: int
    difference: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    sentence: str
    weeks: int | None
    sessions_sha256: str


def standing(ledger: Reader, upto: int | None = None) -> TrialStatus | None:
    """Return where the open trial stands, else the last one; None where there never was one. Raises LedgerError."""
    found = trials(ledger, upto)
    if not found:
        return None
    trial = next((one for one in found if one.closed is None), found[-1])
    if trial.closed is not None:
        upto = trial.closed.position - 1
    return status_of(ledger, trial, ledger.head().position if upto is None else upto)


def status_of(ledger: Reader, trial: Trial, upto: int) -> TrialStatus:
    """Return where a trial stands at a position."""
    last = ledger.at([upto])
    now = (time_of(last[0].recorded_at) if last else None) or trial.began
    found = compared(ledger, trial, upto, now)
    told, without = found.told, found.without
    low, high = interval(told, without, trial.share)
    what = verdict(told, without, low, high)
    both = (told.rate, without.rate)
    difference = None if None in both else (told.rate or 0.0) - (without.rate or 0.0)
    weeks = _weeks(found, trial, now, difference) if what == "undecided" else None
    state: Literal["open", "over", "closed"] = "closed" if trial.closed else "over" if now >= trial.until else "open"
    is_early = what == "early"
    return TrialStatus(
        id=trial.opened.event_id,
        state=state,
        bullets=[*trial.data["bullets"]],
        exempt=[*trial.data["exempt"]],
        share=trial.share,
        outcome=trial.data["outcome"],
        opened_at=trial.opened.recorded_at,
        until=trial.data["until"],
        told=ArmStatus(told.sessions, told.good, _rounded(told.rate)),
        without=ArmStatus(without.sessions, without.good, _rounded(without.rate)),
        unsettled=found.unsettled,
        unknown=_unknown(ledger, trial, upto),
        difference=_rounded(difference),
        low=None if is_early else _rounded(low),
        high=None if is_early else _rounded(high),
        verdict=what,
        sentence=_sentence(what, told.sessions + without.sessions, difference or 0.0, low, high, weeks),
        weeks=weeks,
        sessions_sha256=found.digest,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sentence(what: Verdict, n: int, difference: float, low: float, high: float, weeks: int | None) -> str:
    low, high = round(100 * low), round(100 * high)
    if what == "early":
        return f"{n} of {LEAST} sessions: nothing is said before"
    if what in ("helps", "harms"):
        least, most = sorted((abs(low), abs(high)))
        return f"{what} by {round(100 * abs(difference))} points, {least} to {most}"
    if what == "no-difference":
        return f"no difference of more than {max(-low, high)} points either way"
    more = f"end in about {weeks} more week{'s' if weeks != 1 else ''}" if weeks else "would not end within a year"
    return f"not decided, {low:+d} to {high:+d} points; half of such trials {more}"


def _weeks(found: Compared, trial: Trial, now: datetime, difference: float | None) -> int | None:
    """Return in how many more weeks half of the trials end that stand like this one, if what it saw is true."""
    told, without = found.told, found.without
    n = told.sessions + without.sessions
    weekly = n / max(1.0, (min(now, trial.until) - trial.began).days / 7)
    most = n + ceil(weekly * _YEAR)
    lengths = ends(difference or 0.0, told.rate or 0.0, trial.share, most, 200, begun=(told, without))
    half = lengths[len(lengths) // 2]
    return None if half > most else max(1, ceil((half - n) / weekly))


def _unknown(ledger: Reader, trial: Trial, upto: int) -> int:
    """Return how many sessions were told something since the opening, and have no outcome of a known root."""
    after = trial.opened.position
    told = {event.session_id for event in ledger.events(types=(ADVICE_TOLD,), after=after, upto=upto)} - {None}
    if not told:
        return 0
    known = {e.session_id for e in ledger.events(types=(SESSION_OUTCOME,), upto=upto) if (e.data or {}).get("root")}
    return len(told - known)
