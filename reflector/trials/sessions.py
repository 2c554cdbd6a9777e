"""The sessions of a ledger with what came of them, and those of a trial by arm.

Invariant: a session is one conversation, whatever resumes, forks or compacts it, and its outcome is settled a day after
its first window was recorded. Which sessions a trial compares depends on what was known before each began: that it
began after the opening, and that a hook of ours reported it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from reflector.events.event import (
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
from reflector.trials.statistics import Arm

#: After this long an outcome is settled.
SETTLES: Final = timedelta(days=1)


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
class Compared:
    """A trial's sessions: the arms, how many are of less than a day, and the digest over all that count."""

    told: Arm
    without: Arm
    unsettled: int
    digest: str


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


def compared(ledger: Reader, trial: Trial, upto: int, now: datetime) -> Compared:
    """Return a trial's sessions up to a position, as they are at a time."""
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
    return Compared(Arm(*counts[False]), Arm(*counts[True]), unsettled, digest)


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
