"""A trial: its opening and closing, the sessions of each arm, and its state.

Invariant: a session is one conversation, whatever resumes, forks or compacts it, and its outcome is
final a day after its first window was recorded. The compared sessions are decided by facts from
before each session: it began after the opening, and one of our hooks reported it. Every drawn
session counts in its arm, whatever text it was really shown. The answer depends on the ledger up to
a position and a time: now, that of the last event of an earlier moment, or that of the closing.

A placebo arm is drawn first, by a draw of its own, and the others are drawn as in a trial without
one. So each comparison is one of two arms with known shares. A placebo session is in neither of the
other arms.

The key of a trial is the chain of the event before its opening, taken while no other process can
append. The hook withholds the playbook if a note in the user's own folder matches the ledger's
trial. A user's command writes the note, and an import does not. So a trial decides only where it
was opened, and compares the sessions of that ledger, even after a merge. A ledger that `ledger_url`
names is one place for all its users.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from reflector.events.event import (
    ADVICE_TOLD,
    HUMAN,
    SESSION_OUTCOME,
    SESSION_RECORDED,
    TRIAL_CLOSED,
    TRIAL_OPENED,
    Event,
    NewEvent,
    first_origin,
    identity,
    time_of,
)
from reflector.events.folds import fold_ledger
from reflector.handover import (
    MAX_TOLD,
    PLACEBO,
    TRIAL,
    TRIAL_HEADS,
    WITHOUT,
    read_own,
    write_own,
)
from reflector.ledger.append import append, later_than, prepare, utc_now
from reflector.ledger.canonical import CHAIN, genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.locate import own_folder
from reflector.mistakes import Finding, Mistake
from reflector.reflection.window import own_messages
from reflector.text.lazy import lazy_pattern
from reflector.text.phrases import counted
from reflector.transcripts.reading import UnknownTranscript
from reflector.trials.draw import MILLION, PLACEBO_SHARE, is_placebo, is_withheld
from reflector.trials.outcome import OUTCOMES, joined_facts, outcome_event, read_outcome
from reflector.trials.placebo import bundled_digest, placebo_digests
from reflector.trials.statistics import (
    ALPHA,
    LEAST,
    MARGIN,
    Arm,
    Verdict,
    difference_interval,
    ends,
    trial_verdict,
)

if TYPE_CHECKING:
    from reflector.project import Project

#: The time after which an outcome is settled.
SETTLES = timedelta(days=1)
#: A trial that you do not stop ends after a year.
_LONGEST = timedelta(days=365)
#: The time between two notes of the head while a trial runs.
_NOTED = timedelta(days=7)
_HEAD = lazy_pattern(r"^(\d{1,15}):(pl1:[0-9a-f]{64})  # (\S+)$", re.MULTILINE | re.ASCII)
_MOST_HEADS = 1 << 20
#: The conditions of a trial's end, as its opening records them. Earlier trials compare the sessions
#: of all ledgers.
_STOP_OF_ALL = {
    "alpha": str(ALPHA),
    "least": LEAST,
    "margin": str(MARGIN),
    "method": "beta-binomial",
}
_STOP = {**_STOP_OF_ALL, "sessions": "of-this-ledger"}

#: The remedy for a trial that was manipulated.
_ANOTHER = "do not rely on this trial; start another trial"
#: The words for a trial that is open elsewhere.
ELSEWHERE = "runs in another ledger, and withholds nothing in this project"

#: The arms, each with its mark in the digest of the sessions.
ArmName = Literal["told", "without", "placebo"]
_ARMS: Final[Mapping[ArmName, str]] = {"told": "0", "without": "1", "placebo": "2"}

#: A year; longer durations are not given.
WEEKS = 52


class Ended(NamedTuple):
    """A session and its outcome.

    is_hooked  whether a hook reported it
    origin     the ledger that recorded it first; "" for this one
    """

    root: str
    first: datetime
    facts: dict[str, Any]
    is_hooked: bool
    origin: str

    @property
    def began(self) -> datetime:
        """The time of its first record, else the time when its first window was recorded."""
        return time_of(self.facts.get("began")) or self.first


class Trial(NamedTuple):
    """A trial, read from its events. `closed` is the event that ended it; None while it is open."""

    opened: Event
    closed: Event | None = None

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.opened.facts)

    @property
    def began(self) -> datetime:
        return _moment(self.opened)

    @property
    def until(self) -> datetime:
        """The latest time at which it ends."""
        return time_of(self.data["until"]) or datetime.max.replace(tzinfo=UTC)

    @property
    def closed_at(self) -> datetime | None:
        """The time of its result. None for an open trial, and for one that an earlier version
        closed, because that version used the time of the event before.
        """
        return time_of(self.closed.fact("at")) if self.closed else None

    @property
    def share(self) -> float:
        """The share of sessions that go without, among those that are not shown the placebo."""
        return float(self.data["share"]) / MILLION

    @property
    def placebo_draw(self) -> int:
        """The number of sessions that are shown the placebo, of a million; 0 without that arm."""
        return int((self.data.get("placebo") or {}).get("share", 0))

    @property
    def withheld_share(self) -> float:
        """The share of all sessions that go without."""
        return self.share * (1 - self.placebo_draw / MILLION)

    @property
    def placebo_share(self) -> float:
        """The share of sessions that are shown the placebo, among those in its arm or in the told
        arm.
        """
        placebo = self.placebo_draw / MILLION
        return placebo / (placebo + (1 - placebo) * (1 - self.share))

    def arm_of(self, root: str) -> ArmName:
        """Return the arm that a session drew."""
        key = self.data["key"]
        if self.placebo_draw and is_placebo(key, self.placebo_draw, root):
            return "placebo"
        return "without" if is_withheld(key, self.data["share"], root) else "told"

    @property
    def origin(self) -> str:
        """The ledger in which it was opened; "" for this one."""
        return first_origin(self.opened.meta)

    def compares(self, origin: str) -> bool:
        """Return whether it compares the sessions that a ledger recorded first. `origin` is "" for
        this ledger.
        """
        return origin == self.origin or "sessions" not in self.data["stop"]

    @property
    def is_sound(self) -> bool:
        """Whether this version can compare it. A newer version may have other outcomes."""
        data = self.data
        if not CHAIN.fullmatch(str(data.get("key"))):
            return False
        placebo_draw = self.placebo_draw or 1  # it may be 0
        shares = (data.get("share", 0), placebo_draw)
        return data.get("outcome") in OUTCOMES and all(0 < share < MILLION for share in shares)

    def compares_session(self, session: Ended) -> bool:
        """Return whether a session counts in one of the arms when its outcome is settled."""
        if not session.is_hooked or not self.compares(session.origin):
            return False
        return self.began <= session.began < self.until


@dataclass(frozen=True, slots=True)
class AgainstPlacebo:
    """The placebo arm, and the comparison of the sessions with rules and this arm."""

    arm: Arm
    difference: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """A trial and its result. A difference is the rate with the rules minus the rate without them,
    from -1 to 1.

    state        open, over (the trial's time has passed, and no rule is withheld now), closed,
                 elsewhere (open in another ledger, so no rule is withheld here)
    bullets      the withheld rules; empty if the whole playbook is withheld
    exempt       the rules that every session is shown anyway
    share        the share of sessions without the withheld rules
    outcome      the outcome of a good session
    told, without   the arms: sessions with the rules, and sessions without them
    unsettled    the number of sessions younger than a day, which count tomorrow
    unknown      the number of sessions that were shown rules since the trial started and do not
                 have an outcome; they are in neither arm
    difference   the difference of the rates; null without sessions in both arms
    low, high    the ends of the interval; null while `verdict` is early
    verdict      early (fewer than 40 sessions), helps, harms, no-difference (at most 15 percentage
                 points in either direction), undecided
    sentence     the verdict in words
    sessions_sha256  over the sessions that count, each with its arm and whether it ended well
    weeks        the weeks until half of the trials with this difference would end; null if more
                 than a year
    placebo      the comparison with the placebo; null without a placebo arm
    """

    id: str
    state: Literal["open", "over", "closed", "elsewhere"]
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
    placebo: AgainstPlacebo | None = None


def sessions(ledger: Reader, upto: int | None = None, more: Iterable[Event] = ()) -> list[Ended]:
    """Return the sessions up to a position, in the order of their beginnings. `more` are outcomes
    of windows that the ledger does not have.
    """
    windows: dict[str, list[Event]] = {}
    for event in (*more, *ledger.events(types=(SESSION_OUTCOME,), upto=upto)):
        if root := event.fact("root"):
            windows.setdefault(root, []).append(event)
    ended = []
    for root, events in windows.items():
        events.sort(key=_moment)  # a merge appends earlier windows after later ones
        first = _moment(events[0])
        within = [event for event in events if _moment(event) <= first + SETTLES]
        is_hooked = any(event.actor.startswith("hook:") for event in within)
        facts = joined_facts(event.facts for event in within)
        ended.append(Ended(root, first, facts, is_hooked, first_origin(events[0].meta)))
    return sorted(ended, key=lambda session: (session.began, session.root))


def trials(ledger: Reader, upto: int | None = None) -> list[Trial]:
    """Return the trials up to a position, in the order of their openings in any ledger."""
    if not ledger.has(TRIAL_OPENED):
        return []
    return fold_ledger(TrialFold(), ledger, upto)


class TrialFold:
    """The trials that this version can compare, in the order of their openings in any ledger."""

    types: Final = (TRIAL_OPENED, TRIAL_CLOSED)

    def __init__(self) -> None:
        self._opened: list[Event] = []
        self._closed: dict[str | None, Event] = {}

    def apply(self, event: Event) -> None:
        if event.type == TRIAL_OPENED:
            self._opened.append(event)
        else:
            self._closed[event.target_id] = event

    def answer(self) -> list[Trial]:
        trials = [Trial(event, self._closed.get(event.event_id)) for event in self._opened]
        sound = [trial for trial in trials if trial.is_sound]
        return sorted(sound, key=lambda trial: (trial.began, trial.opened.event_id))


def trial_place(project: Project) -> Path | None:
    """Return the place in which a trial of a project decides: the project's root, or None for all
    users of the ledger at a `ledger_url`.
    """
    return None if project.config.ledger_url else project.root


def running(ledger: Reader, root: Path | None = None, upto: int | None = None) -> Trial | None:
    """Return the running trial, which decides the advice that sessions are shown; the newest if
    there are several.

    root  as `trial_place` returns it: the note of a project names the trial that a command opened
          or took over there; None for every trial that was opened in the ledger
    """
    opened = [trial for trial in trials(ledger, upto) if not (trial.closed or trial.origin)]
    if root:
        note = read_own(os.fspath(root), TRIAL, MAX_TOLD).decode("utf-8", "replace")
        key, *_ = note.split(" ")
        opened = [trial for trial in opened if trial.data["key"] == key]
    return opened[-1] if opened else None


def elsewhere(ledger: Reader, root: Path | None, after: int = 0) -> list[Trial]:
    """Return the open trials after a position that were opened in another place. `root` is that of
    `running`.
    """
    decides = running(ledger, root)
    opened = [trial for trial in trials(ledger) if not trial.closed and trial != decides]
    return [trial for trial in opened if trial.opened.position > after]


class Compared(NamedTuple):
    """The sessions of a trial: its arms, the number of sessions of less than a day, and the digest
    over all sessions that count.
    """

    arms: Mapping[ArmName, Arm]
    unsettled: int
    digest: str


def _compared(ledger: Reader, trial: Trial, upto: int, now: datetime) -> Compared:
    """Return a trial's sessions up to a position, in their state at a time."""
    lines: list[str] = []
    counts: dict[ArmName, list[int]] = {name: [0, 0] for name in _ARMS}
    unsettled = 0
    is_good_session = OUTCOMES[trial.data["outcome"]]
    for session in sessions(ledger, upto):
        if not trial.compares_session(session):
            continue
        if session.first + SETTLES > now:
            unsettled += 1
            continue
        arm = trial.arm_of(session.root)
        is_good = is_good_session(session.facts)
        counts[arm][0] += 1
        counts[arm][1] += is_good
        lines.append(f"{session.root}\t{_ARMS[arm]}\t{is_good:d}\n")
    digest = sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()
    arms = {name: Arm(*arm_counts) for name, arm_counts in counts.items()}
    return Compared(arms, unsettled, digest)


def _against(told: Arm, other: Arm, share: float) -> AgainstPlacebo:
    """Return the comparison of the told arm with another one; without ends while it is early."""
    low, high = difference_interval(told, other, share)
    verdict = trial_verdict(told, other, low, high)
    difference = _difference(told, other)
    sentence = _sentence(verdict, told.sessions + other.sessions, difference or 0.0, low, high)
    is_early = verdict == "early"
    return AgainstPlacebo(
        arm=other,
        difference=None if difference is None else round(difference, 4),
        low=None if is_early else round(low, 4),
        high=None if is_early else round(high, 4),
        verdict=verdict,
        sentence=sentence,
    )


def _difference(told: Arm, other: Arm) -> float | None:
    if told.rate is None or other.rate is None:
        return None
    return told.rate - other.rate


class Missing(NamedTuple):
    """A window that an earlier version recorded without an outcome, and its outcome."""

    window: Event
    outcome: NewEvent


def missing_outcomes(ledger: Reader, newest: int = 0) -> Iterator[Missing]:
    """Yield each window of a root session that has no outcome and whose transcript still exists.
    Only the `newest` windows are read; 0 for all.

    Raises: LedgerError.
    """
    known = {event.target_id for event in ledger.events(types=(SESSION_OUTCOME,))}
    for event in [*ledger.events(types=(SESSION_RECORDED,))][-newest:]:
        window = event.fact("window") or {}
        is_root = event.session_id and not event.fact("agent_id")
        if event.event_id in known or not is_root or window.get("mode") != "new":
            continue
        try:
            outcome = read_outcome(own_messages(event), answered=bool(window.get("after")))
        except (OSError, UnknownTranscript):
            continue
        yield Missing(event, outcome_event(event, event.session_id, outcome))


def _moment(event: Event) -> datetime:
    return time_of(event.arrived[0]) or datetime.min.replace(tzinfo=UTC)


def current_status(
    ledger: Reader, root: Path | None = None, upto: int | None = None
) -> TrialStatus | None:
    """Return the state of the trial that decides here, else of the last one; None if there never
    was one. `root` is that of `running`.

    Raises: LedgerError.
    """
    trial = running(ledger, root, upto)
    if trial:
        return trial_status(ledger, trial, upto)
    known = trials(ledger, upto)
    if not known:
        return None
    status = trial_status(ledger, known[-1], upto)
    return replace(status, state="elsewhere") if status.state == "open" else status


def _moment_of_status(
    ledger: Reader, trial: Trial, upto: int | None, at: datetime | None
) -> tuple[int, datetime]:
    """Return the position and the time of a trial's state: those of its closing if it is closed,
    else those of a position, or the head and now.
    """
    if trial.closed:
        upto = trial.closed.position - 1
        at = trial.closed_at
    elif upto is None:
        upto = ledger.head().position
        at = at or datetime.now(UTC)
    if at is None:
        last = ledger.at([upto])
        at = time_of(last[0].recorded_at) if last else None
    return upto, at or trial.began


def trial_status(
    ledger: Reader, trial: Trial, upto: int | None = None, at: datetime | None = None
) -> TrialStatus:
    """Return the state of a trial, at a position or now. A closed trial has its state at the
    closing.

    at  the time instead of now
    """
    position, now = _moment_of_status(ledger, trial, upto, at)
    compared = _compared(ledger, trial, position, now)
    told = compared.arms["told"]
    without = compared.arms["without"]
    found = _against(told, without, trial.share)
    weeks = None
    sentence = found.sentence
    if found.verdict == "undecided":
        weeks = _weeks(told, without, trial, now)
        sentence += _length_words(weeks)
    placebo = None
    if trial.placebo_draw:
        placebo = _against(told, compared.arms["placebo"], trial.placebo_share)
    return TrialStatus(
        id=trial.opened.event_id,
        state=_state(trial, now),
        bullets=[*trial.data["bullets"]],
        exempt=[*trial.data["exempt"]],
        share=trial.withheld_share,
        outcome=trial.data["outcome"],
        opened_at=trial.opened.recorded_at,
        until=trial.data["until"],
        told=told,
        without=without,
        unsettled=compared.unsettled,
        unknown=_unknown(ledger, trial, position),
        difference=found.difference,
        low=found.low,
        high=found.high,
        verdict=found.verdict,
        sentence=sentence,
        weeks=weeks,
        sessions_sha256=compared.digest,
        placebo=placebo,
    )


def _state(trial: Trial, now: datetime) -> Literal["open", "over", "closed"]:
    if trial.closed:
        return "closed"
    return "over" if now >= trial.until else "open"


def _sentence(verdict: Verdict, n: int, difference: float, low: float, high: float) -> str:
    """Return a comparison in words."""
    low = round(100 * low)
    high = round(100 * high)
    if verdict == "early":
        return f"no result yet: {n} of the {LEAST} sessions that a result needs"
    if verdict in ("helps", "harms"):
        least, most = sorted((abs(low), abs(high)))
        return (
            f"{verdict} by {round(100 * abs(difference))} percentage points (between {least} and "
            f"{most})"
        )
    if verdict == "no-difference":
        return f"no difference of more than {max(-low, high)} percentage points"
    return f"no result yet: between {_points(low)} and {_points(high)}"


def _points(change: int) -> str:
    return f"{abs(change)} percentage points {'worse' if change < 0 else 'better'}"


def _length_words(weeks: int | None) -> str:
    rest = "would not end within a year"
    if weeks:
        rest = f"end in about {counted(weeks, 'more week')}"
    return f"; half of the trials with this difference {rest}"


def _weeks(told: Arm, without: Arm, trial: Trial, now: datetime) -> int | None:
    """Return the number of further weeks after which half of such trials end, if the observed
    difference is the true one.
    """
    n = told.sessions + without.sessions
    weekly = n / max(1.0, (min(now, trial.until) - trial.began).days / 7)
    most = n + ceil(weekly * WEEKS)
    difference = _difference(told, without) or 0.0
    lengths = ends(difference, told.rate or 0.0, trial.share, most, 200, begun=(told, without))
    half = lengths[len(lengths) // 2]
    return None if half > most else max(1, ceil((half - n) / weekly))


def _unknown(ledger: Reader, trial: Trial, upto: int) -> int:
    """Return the number of sessions that were shown advice since the opening and have no outcome
    with a known root.
    """
    tellings = ledger.events(types=(ADVICE_TOLD,), after=trial.opened.position, upto=upto)
    told = {
        event.session_id
        for event in tellings
        if event.fact("via") != "file" and trial.compares(first_origin(event.meta))
    }
    told.discard(None)
    if not told:
        return 0
    outcomes = ledger.events(types=(SESSION_OUTCOME,), upto=upto)
    return len(told - {event.session_id for event in outcomes if event.fact("root")})


def start(
    ledger: Ledger,
    root: Path | None = None,
    *,
    bullets: Sequence[str],
    exempt: Sequence[str],
    share: float,
    outcome: str,
    placebo: bool = False,
) -> None:
    """Open a trial. The `bullets` are withheld, or the whole playbook without any, but never the
    `exempt` ones. With `placebo`, a third of the sessions gets the placebo. `root` is that of
    `running`.

    Raises: Mistake if a trial is running, LedgerError.
    """
    if running(ledger, root):
        raise Mistake(
            "a trial is already running; see it with `reflector trial status`, or end it with "
            "`reflector trial stop`"
        )
    data = {
        "bullets": [*bullets],
        "exempt": [*exempt],
        "share": round(share * MILLION),
        "outcome": outcome,
        "stop": _STOP,
        "until": (datetime.now(UTC) + _LONGEST).isoformat(timespec="seconds"),
    }
    if placebo:
        data["placebo"] = {"share": PLACEBO_SHARE, "digest": bundled_digest()}
    with ledger.writing() as writing:
        key = writing.chain
        event = NewEvent(TRIAL_OPENED, identity(TRIAL_OPENED, key), data | {"key": key}, HUMAN)
        append(writing, [prepare(event, tx=ledger.draw())])


def stop(ledger: Ledger, root: Path | None = None) -> TrialStatus:
    """Close the running trial, and return its state. `root` is that of `running`.

    Raises: Mistake if no trial is running, LedgerError.
    """
    trial = running(ledger, root)
    if trial is None and (others := elsewhere(ledger, root)):
        raise Mistake(
            f"no trial of this ledger is running; the trial {others[-1].opened.event_id[:8]} was "
            "opened in another ledger: stop the trial in the other ledger, then import the other "
            "ledger again"
        )
    if trial is None:
        raise Mistake(
            "no trial is running; `reflector trial plan` shows how long a trial would take"
        )
    with ledger.writing() as writing:
        now = later_than(ledger.head().recorded_at)
        status = trial_status(ledger, trial, at=time_of(now))
        opened = trial.opened.event_id
        event_id = identity(TRIAL_CLOSED, opened)
        result = result_of(status) | {"at": now}
        event = NewEvent(TRIAL_CLOSED, event_id, result, HUMAN, target_id=opened)
        append(writing, [prepare(event, tx=ledger.draw())])
    return replace(status, state="closed")


def result_of(status: TrialStatus) -> dict[str, Any]:
    """Return the data of a closing: the result of a trial in this state."""

    def arm(sessions: Arm) -> dict[str, int]:
        return {"sessions": sessions.sessions, "good": sessions.good}

    def decimal(number: float | None) -> str | None:
        return None if number is None else f"{number:.4f}"

    def comparison(of: TrialStatus | AgainstPlacebo) -> dict[str, Any]:
        return {
            "verdict": of.verdict,
            "difference": decimal(of.difference),
            "interval": {"low": decimal(of.low), "high": decimal(of.high)},
        }

    result = {
        **comparison(status),
        "told": arm(status.told),
        "without": arm(status.without),
        "sessions": status.sessions_sha256,
    }
    if status.placebo:
        result["placebo"] = arm(status.placebo.arm) | comparison(status.placebo)
    return result


def keep_note(project: Project, ledger: Reader, *, opens: bool = False) -> None:
    """Keep the note that makes the hook withhold the bullets of the ledger's trial, or remove it.
    Also note the ledger's head once a week.

    opens  a missing note is made: for a command that opened the trial, or took over or restored the
           ledger

    Raises: LedgerError, OSError.
    """
    root = project.root
    place = trial_place(project)
    trial = running(ledger, place) or (running(ledger) if opens else None)
    if trial is None:
        for name in (TRIAL, WITHOUT, PLACEBO):  # the text may contain words that are erased later
            Path(own_folder(os.fspath(root)), name).unlink(missing_ok=True)
        return
    data = trial.data
    until = int(trial.until.timestamp() * 1_000_000_000)
    names = [*(data["bullets"] or ["*"]), *(f"-{name}" for name in data["exempt"])]
    shares = str(data["share"])
    if trial.placebo_draw:
        shares += f"+{trial.placebo_draw}"
    note = " ".join([data["key"], shares, str(until), *names]).encode() + b"\n"
    if read_own(os.fspath(root), TRIAL, len(note) + 1) != note:
        write_own(os.fspath(root), TRIAL, note)
    now = utc_now()
    heads = noted(root)
    last = time_of(heads[-1][1]) if heads else None
    if last is None or last < trial.began or last + _NOTED <= (time_of(now) or last):
        heads.append((ledger.head(), now))
        lines = "".join(f"{anchor}  # {time}\n" for anchor, time in heads)
        write_own(os.fspath(root), TRIAL_HEADS, lines.encode())


def noted(root: Path) -> list[tuple[Anchor, str]]:
    """Return the heads that were noted in a project while trials ran, each with its time, oldest
    first.
    """
    text = read_own(os.fspath(root), TRIAL_HEADS, _MOST_HEADS).decode("ascii", "replace")
    return [(Anchor(int(head[1]), head[2]), head[3]) for head in _HEAD.finditer(text)]


def trial_findings(ledger: Reader) -> list[Finding]:
    """Return the faults of a ledger's trials: a key that is not the chain before it, or a result
    that does not follow from the sessions.

    Events from a merge were checked in the ledger that appended them.

    Raises: LedgerError.
    """
    return [finding for trial in trials(ledger) for finding in _faults_of(ledger, trial)]


def _faults_of(ledger: Reader, trial: Trial) -> Iterator[Finding]:
    """Yield the faults of a trial: a chosen key, placebos that were exchanged, or a result that
    does not follow from the sessions.
    """
    opened = trial.opened
    closed = trial.closed
    if not trial.origin and trial.data["key"] != _key_before(ledger, opened):
        message = (
            "the trial's key does not match the event before the trial, so someone may have chosen "
            "which sessions get the playbook"
        )
        yield Finding("trial", opened.position, message, _ANOTHER)
    if closed is None or closed.data is None or first_origin(closed.meta):
        return
    if stray := _stray_placebos(ledger, trial, closed.position):
        yield Finding(
            "trial",
            closed.position,
            f"{stray} sessions got the placebo, although the trial did not choose the placebo for "
            "these sessions; someone replaced texts of this trial",
            _ANOTHER,
        )
    # a later version may decide otherwise
    is_ours = trial.data["stop"] in (_STOP, _STOP_OF_ALL)
    result = dict(closed.data)
    at = result.pop("at", closed.recorded_at)
    is_timely = ledger.at([closed.position - 1])[0].recorded_at <= at <= closed.recorded_at
    if is_ours and (not is_timely or result != result_of(trial_status(ledger, trial))):
        message = (
            "the recorded result of the trial differs from the result that reflector computes from "
            "the trial's sessions"
        )
        remedy = "to see the true result, run `reflector trial status`"
        yield Finding("trial", closed.position, message, remedy)


def _stray_placebos(ledger: Reader, trial: Trial, upto: int) -> int:
    """Return the number of sessions in other arms that were shown a placebo of this version."""
    placebo = trial.data.get("placebo") or {}
    if placebo.get("digest") != bundled_digest():
        return 0  # the digests of another version's text are not known
    root_of = {
        event.session_id: event.fact("root")
        for event in ledger.events(types=(SESSION_OUTCOME,), upto=upto)
    }
    tellings = ledger.events(types=(ADVICE_TOLD,), after=trial.opened.position, upto=upto)
    roots = {
        root_of.get(event.session_id)
        for event in tellings
        if event.fact("digest") in placebo_digests() and trial.compares(first_origin(event.meta))
    }
    return sum(root is not None and trial.arm_of(root) != "placebo" for root in roots)


def _key_before(ledger: Reader, opened: Event) -> str:
    """Return the key that a trial opened at this event must have."""
    before = ledger.at([opened.position - 1])
    if before:
        return before[0].chain
    head = ledger.head()
    return genesis(head.playbook, head.origin)
