"""The sessions of a ledger with what came of them, those of a trial by arm, and where a trial stands.

Invariant: a session is one conversation, whatever resumes, forks or compacts it, and its outcome is settled a day after
its first window was recorded. Which sessions a trial compares depends on what was known before each began: that it
began after the opening, and that a hook of ours reported it. Every session that was drawn counts in its arm, whatever
it was really told. The answer follows from the ledger up to a position, whose last event says how late it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil
from typing import Any, Final, Literal

from reflector.events.event import (
    ADVICE_TOLD,
    SESSION_OUTCOME,
    SESSION_RECORDED,
    TRIAL_CLOSED,
    TRIAL_OPENED,
    Event,
    NewEvent,
    first_moment,
)
from reflector.ledger.canonical import CHAIN
from reflector.ledger.reader import Reader
from reflector.reflection.window import own_messages
from reflector.transcripts.reading import UnknownTranscript
from reflector.trials.draw import MILLION, is_withheld
from reflector.trials.outcome import OUTCOMES, joined, outcome_event, read_outcome
from reflector.trials.statistics import LEAST, Arm, Verdict, ends, interval, verdict

#: After this long an outcome is settled.
SETTLES: Final = timedelta(days=1)
_YEAR: Final = 52


@dataclass(frozen=True, slots=True)
class Ended:
    """A session and what came of it. `hooked` says whether a hook reported it."""

    root: str
    first: datetime
    facts: dict[str, Any]
    hooked: bool

    @property
    def began(self) -> datetime:
        """When its first record was written, as far as one says; else when its first window was recorded."""
        return time_of(self.facts.get("began")) or self.first


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as its events say. `closed` is the event that ended it, None while it is open."""

    opened: Event
    closed: Event | None = None

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.opened.data or {})

    @property
    def began(self) -> datetime:
        return _moment(self.opened)

    @property
    def until(self) -> datetime:
        """When it ends at the latest."""
        return time_of(self.data["until"]) or datetime.max.replace(tzinfo=UTC)

    @property
    def share(self) -> float:
        return float(self.data["share"]) / MILLION


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
    told: Arm
    without: Arm
    unsettled: int
    unknown: int
    difference: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    sentence: str
    weeks: int | None
    sessions_sha256: str


def sessions(ledger: Reader, upto: int | None = None, more: Iterable[Event] = ()) -> list[Ended]:
    """Return the sessions up to a position, by their beginning; `more` are windows with outcomes that it lacks."""
    windows: dict[str, list[Event]] = {}
    for event in (*more, *ledger.events(types=(SESSION_OUTCOME,), upto=upto)):
        if root := (event.data or {}).get("root"):
            windows.setdefault(root, []).append(event)
    found = []
    for root, events in windows.items():
        first = min(map(_moment, events))
        within = [event for event in events if _moment(event) <= first + SETTLES]
        hooked = any(event.actor.startswith("hook:") for event in within)
        found.append(Ended(root, first, joined(event.data or {} for event in within), hooked))
    return sorted(found, key=lambda one: (one.began, one.root))


def trials(ledger: Reader, upto: int | None = None) -> list[Trial]:
    """Return the trials up to a position, in the order in which they were opened anywhere."""
    if not ledger.has(TRIAL_OPENED):
        return []
    events = [*ledger.events(types=(TRIAL_OPENED, TRIAL_CLOSED), upto=upto)]
    closed = {event.target_id: event for event in events if event.type == TRIAL_CLOSED}
    opened = [Trial(event, closed.get(event.event_id)) for event in events if event.type == TRIAL_OPENED]
    return sorted((one for one in opened if _is_sound(one)), key=lambda one: (one.began, one.opened.event_id))


def running(ledger: Reader, upto: int | None = None) -> Trial | None:
    """Return the trial that decides what sessions are told; of several that a merge brought, the first."""
    return next((one for one in trials(ledger, upto) if one.closed is None), None)


def _compared(ledger: Reader, trial: Trial, upto: int, now: datetime) -> tuple[Arm, Arm, int, str]:
    """Return a trial's sessions up to a position, as they are at a time: those that were told, those without, how many
    are of less than a day, and the digest over all that count."""
    lines, counts, unsettled = list[str](), {True: [0, 0], False: [0, 0]}, 0
    is_good, key, share = OUTCOMES[trial.data["outcome"]], trial.data["key"], trial.data["share"]
    for one in sessions(ledger, upto):
        if not one.hooked or not trial.began <= one.began < trial.until:
            continue
        if one.first + SETTLES > now:
            unsettled += 1
            continue
        withheld, good = is_withheld(key, share, one.root), is_good(one.facts)
        counts[withheld][0] += 1
        counts[withheld][1] += good
        lines.append(f"{one.root}\t{withheld:d}\t{good:d}\n")
    digest = sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()
    return Arm(*counts[False]), Arm(*counts[True]), unsettled, digest


def lacking(ledger: Reader, newest: int = 0) -> Iterator[tuple[Event, NewEvent]]:
    """Yield each window of a root session that an earlier version recorded without an outcome, and its outcome, where
    its transcript is still there: of the `newest` windows, 0 for all. Raises LedgerError."""
    have = {event.target_id for event in ledger.events(types=(SESSION_OUTCOME,))}
    for event in [*ledger.events(types=(SESSION_RECORDED,))][-newest:]:
        data = event.data or {}
        window = data.get("window") or {}
        if event.event_id in have or not event.session_id or data.get("agent_id") or window.get("mode") != "new":
            continue
        try:
            came = read_outcome(own_messages(event), answered=bool(window.get("after")))
        except (OSError, UnknownTranscript):
            continue
        yield event, outcome_event(event, event.session_id, came)


def time_of(text: Any) -> datetime | None:
    """Return a time as an event has it, in UTC; None for none."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def _moment(event: Event) -> datetime:
    recorded, _, _ = first_moment(event.meta, (event.recorded_at, "", event.position))
    return time_of(recorded) or datetime.min.replace(tzinfo=UTC)


def _is_sound(trial: Trial) -> bool:
    """Return whether this version can compare a trial: a newer one may ask another outcome."""
    data = trial.data
    is_key = CHAIN.fullmatch(str(data.get("key"))) is not None
    return is_key and data.get("outcome") in OUTCOMES and 0 < data.get("share", 0) < MILLION


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
    told, without, unsettled, digest = _compared(ledger, trial, upto, now)
    low, high = interval(told, without, trial.share)
    what = verdict(told, without, low, high)
    both = (told.rate, without.rate)
    difference = None if None in both else (told.rate or 0.0) - (without.rate or 0.0)
    weeks = _weeks(told, without, trial, now, difference) if what == "undecided" else None
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
        told=told,
        without=without,
        unsettled=unsettled,
        unknown=_unknown(ledger, trial, upto),
        difference=_rounded(difference),
        low=None if is_early else _rounded(low),
        high=None if is_early else _rounded(high),
        verdict=what,
        sentence=_sentence(what, told.sessions + without.sessions, difference or 0.0, low, high, weeks),
        weeks=weeks,
        sessions_sha256=digest,
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


def _weeks(told: Arm, without: Arm, trial: Trial, now: datetime, difference: float | None) -> int | None:
    """Return in how many more weeks half of the trials end that stand like this one, if what it saw is true."""
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
