"""A trial: its plan, its opening and closing, the sessions of each arm, and its state.

Invariant: a session is one conversation, whatever resumes, forks or compacts it, and its outcome is
settled a day after its first window was recorded. Which sessions a trial compares depends on what
was known before each began: that it began after the opening, and that a hook of ours reported it.
Every session that was drawn counts in its arm, whatever it was really told. The answer follows from
the ledger up to a position and a time: now, that of the last event of an earlier moment, or that of
the closing.

The key of a trial is the chain of the event before its opening, taken while nobody else appends.
The hook withholds by a note in the person's own folder, which says what the ledger's trial says,
and is not there without one. A trial decides only where it was opened: a command of the person
makes the note, and no import does. So a trial compares the sessions of the ledger in which it was
opened, wherever a merge took them. A ledger that `ledger_url` names is one place for all who use
it. A plan is measured on trials that are simulated with this project's own figures and decided as
`trial status` decides, so half of the real ones end by what it calls the half, if the difference is
the true one.
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

from reflector.events import event as ev
from reflector.events.event import HUMAN, Event, NewEvent, first_origin, identity, time_of
from reflector.events.folds import fold_ledger
from reflector.files import write_durably
from reflector.handover import MAX_TOLD, TRIAL, TRIAL_HEADS, WITHOUT, open_own, read_own
from reflector.ledger.append import append, later_than, prepare, utc_now
from reflector.ledger.canonical import CHAIN, genesis
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.locate import own_folder
from reflector.mistakes import Finding, Mistake
from reflector.reflection.window import own_messages, window_names
from reflector.transcripts.reading import UnknownTranscript
from reflector.trials.draw import MILLION, is_withheld
from reflector.trials.outcome import OUTCOMES, joined_facts, outcome_event, read_outcome
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

#: After this long an outcome is settled.
SETTLES = timedelta(days=1)
#: A trial that nobody stops is over after a year.
_LONGEST = timedelta(days=365)
#: How often the head is noted while a trial runs.
_NOTED = timedelta(days=7)
_HEAD = re.compile(r"^(\d{1,15}):(pl1:[0-9a-f]{64})  # (\S+)$", re.MULTILINE | re.ASCII)
_MOST_HEADS = 1 << 20
#: What decides when a trial ends, as its opening says it. Earlier trials compare the sessions of
#: all ledgers.
_STOP_OF_ALL = {
    "alpha": str(ALPHA),
    "least": LEAST,
    "margin": str(MARGIN),
    "method": "beta-binomial",
}
_STOP = {**_STOP_OF_ALL, "sessions": "of-this-ledger"}

#: What a person reads of a trial that is open elsewhere.
ELSEWHERE = "open elsewhere; it withholds nothing here"

#: The differences that a plan speaks of, in points.
POINTS = (5, 10, 20, 30)
#: Beyond so many sessions nothing is simulated: a year of 100 a week.
_MOST = 5_200
_WEEKS = 52
#: The sessions that a plan looks at, the last ones.
_LAST = 200


@dataclass(frozen=True, slots=True)
class Ended:
    """A session and its outcome.

    is_hooked  whether a hook reported it
    origin     the ledger that recorded it first, "" for this one
    """

    root: str
    first: datetime
    facts: dict[str, Any]
    is_hooked: bool
    origin: str

    @property
    def began(self) -> datetime:
        """The time of its first record if that has one; else the time when its first window was
        recorded.
        """
        return time_of(self.facts.get("began")) or self.first


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as its events say. `closed` is the event that ended it, None while it is open."""

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
        """When it ends at the latest."""
        return time_of(self.data["until"]) or datetime.max.replace(tzinfo=UTC)

    @property
    def closed_at(self) -> datetime | None:
        """The time of its result; None of an open one, and of one that an earlier version closed,
        which took the time of the last event before.
        """
        return time_of(self.closed.facts.get("at")) if self.closed is not None else None

    @property
    def share(self) -> float:
        return float(self.data["share"]) / MILLION

    @property
    def origin(self) -> str:
        """The ledger in which it was opened, "" for this one."""
        return first_origin(self.opened.meta)

    def compares(self, origin: str) -> bool:
        """Whether it compares the sessions that a ledger recorded first; `origin` is "" for this
        one.
        """
        return origin == self.origin or "sessions" not in self.data["stop"]

    @property
    def is_sound(self) -> bool:
        """Whether this version can compare it: a newer one may ask another outcome."""
        data = self.data
        if not CHAIN.fullmatch(str(data.get("key"))):
            return False
        return data.get("outcome") in OUTCOMES and 0 < data.get("share", 0) < MILLION

    def compares_session(self, session: Ended) -> bool:
        """Whether a session counts in one of the arms when its outcome is settled."""
        if not session.is_hooked or not self.compares(session.origin):
            return False
        return self.began <= session.began < self.until


@dataclass(frozen=True, slots=True)
class TrialStatus:
    """A trial and what it shows. Differences are told minus without, from -1 to 1.

    state        open, over (its end has come, and nothing is withheld any more), closed, elsewhere
                 (it is open where it was opened, and withholds nothing here)
    bullets      that are withheld; none of them for the whole playbook
    exempt       that every session is told all the same
    share        of sessions that go without
    outcome      what a good session is
    told, without   the arms
    unsettled    sessions of less than a day, which count tomorrow
    unknown      sessions that were told something since the opening and have no outcome, in neither
                 arm
    difference   of the rates; null without sessions in both arms
    low, high    the interval that stands; null while it is early
    verdict      early (fewer than 40 sessions), helps, harms, no-difference (within 15 points
                 either way), undecided
    sentence     the same in words
    sessions_sha256  over the sessions that count, each with its arm and whether it ended well
    weeks        in which half of such trials would end from here on; null where more than a year
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


def sessions(ledger: Reader, upto: int | None = None, more: Iterable[Event] = ()) -> list[Ended]:
    """Return the sessions up to a position, by their beginning; `more` are outcomes of windows that
    the ledger does not have.
    """
    windows: dict[str, list[Event]] = {}
    for event in (*more, *ledger.events(types=(ev.SESSION_OUTCOME,), upto=upto)):
        if root := event.facts.get("root"):
            windows.setdefault(root, []).append(event)
    ended = []
    for root, events in windows.items():
        earliest = min(events, key=_moment)
        first = _moment(earliest)
        within = [event for event in events if _moment(event) <= first + SETTLES]
        is_hooked = any(event.actor.startswith("hook:") for event in within)
        facts = joined_facts(event.facts for event in within)
        ended.append(Ended(root, first, facts, is_hooked, first_origin(earliest.meta)))
    return sorted(ended, key=lambda session: (session.began, session.root))


def trials(ledger: Reader, upto: int | None = None) -> list[Trial]:
    """Return the trials up to a position, in the order in which they were opened anywhere."""
    if not ledger.has(ev.TRIAL_OPENED):
        return []
    return fold_ledger(TrialFold(), ledger, upto)


class TrialFold:
    """The trials that this version can compare, in the order in which they were opened anywhere."""

    types: Final = (ev.TRIAL_OPENED, ev.TRIAL_CLOSED)

    def __init__(self) -> None:
        self._opened: list[Event] = []
        self._closed: dict[str | None, Event] = {}

    def apply(self, event: Event) -> None:
        if event.type == ev.TRIAL_OPENED:
            self._opened.append(event)
        elif event.type == ev.TRIAL_CLOSED:
            self._closed[event.target_id] = event

    def answer(self) -> list[Trial]:
        trials = [Trial(event, self._closed.get(event.event_id)) for event in self._opened]
        sound = [trial for trial in trials if trial.is_sound]
        return sorted(sound, key=lambda trial: (trial.began, trial.opened.event_id))


def trial_place(project: Project) -> Path | None:
    """Return where a trial of a project decides: in the project, or None for all who use the ledger
    at a `ledger_url`.
    """
    return None if project.config.ledger_url else project.root


def running(ledger: Reader, root: Path | None = None, upto: int | None = None) -> Trial | None:
    """Return the trial that decides what sessions are told, the newest of several.

    root  as `trial_place` gives it: the note of a project says which trial a command opened or took
          there; None for every trial that was opened in the ledger
    """
    opened = [trial for trial in trials(ledger, upto) if not trial.closed]
    opened = [trial for trial in opened if not trial.origin]
    if root is not None:
        note = read_own(os.fspath(root), TRIAL, MAX_TOLD).decode("utf-8", "replace")
        key, *_ = note.split(" ")
        opened = [trial for trial in opened if trial.data["key"] == key]
    return opened[-1] if opened else None


def elsewhere(ledger: Reader, root: Path | None, after: int = 0) -> list[Trial]:
    """Return the open trials behind a position that were opened in another place than this one,
    `root` as above.
    """
    decides = running(ledger, root)
    own_id = decides.opened.event_id if decides else None
    opened = [trial for trial in trials(ledger) if not trial.closed]
    others = [trial for trial in opened if trial.opened.event_id != own_id]
    return [trial for trial in others if trial.opened.position > after]


class Compared(NamedTuple):
    """The sessions of a trial: both arms, the number of sessions of less than a day, and the digest
    over all that count.
    """

    told: Arm
    without: Arm
    unsettled: int
    digest: str


def _compared(ledger: Reader, trial: Trial, upto: int, now: datetime) -> Compared:
    """Return a trial's sessions up to a position, as they are at a time."""
    lines: list[str] = []
    counts = {True: [0, 0], False: [0, 0]}
    unsettled = 0
    data = trial.data
    for session in sessions(ledger, upto):
        if not trial.compares_session(session):
            continue
        if session.first + SETTLES > now:
            unsettled += 1
            continue
        withheld = is_withheld(data["key"], data["share"], session.root)
        is_good = OUTCOMES[data["outcome"]](session.facts)
        counts[withheld][0] += 1
        counts[withheld][1] += is_good
        lines.append(f"{session.root}\t{withheld:d}\t{is_good:d}\n")
    digest = sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()
    return Compared(Arm(*counts[False]), Arm(*counts[True]), unsettled, digest)


class Missing(NamedTuple):
    """A window that an earlier version recorded without an outcome, and its outcome."""

    window: Event
    outcome: NewEvent


def missing_outcomes(ledger: Reader, newest: int = 0) -> Iterator[Missing]:
    """Yield each window of a root session without an outcome whose transcript is still there: of
    the `newest` windows, 0 for all. Raises LedgerError.
    """
    known = {event.target_id for event in ledger.events(types=(ev.SESSION_OUTCOME,))}
    for event in [*ledger.events(types=(ev.SESSION_RECORDED,))][-newest:]:
        window = event.facts.get("window") or {}
        is_root = event.session_id and not event.facts.get("agent_id")
        if event.event_id in known or not is_root or window.get("mode") != "new":
            continue
        try:
            outcome = read_outcome(own_messages(event), answered=bool(window.get("after")))
        except (OSError, UnknownTranscript):
            continue
        yield Missing(event, outcome_event(event, event.session_id, outcome))


def _moment(event: Event) -> datetime:
    return time_of(event.arrived[0]) or datetime.min.replace(tzinfo=UTC)


def standing(
    ledger: Reader, root: Path | None = None, upto: int | None = None
) -> TrialStatus | None:
    """Return the state of the trial that decides here, else of the last one; None if there never
    was one. `root` is that of `running`. Raises LedgerError.
    """
    trial = running(ledger, root, upto)
    if trial is not None:
        return trial_status(ledger, trial, upto)
    known = trials(ledger, upto)
    if not known:
        return None
    status = trial_status(ledger, known[-1], upto)
    return replace(status, state="elsewhere") if status.state == "open" else status


def trial_status(
    ledger: Reader, trial: Trial, upto: int | None = None, at: datetime | None = None
) -> TrialStatus:
    """Return the state of a trial, at a position or now; of a closed one as it was when it was
    closed.

    at  the time instead of now
    """
    if trial.closed is not None:
        upto = trial.closed.position - 1
        at = trial.closed_at
    elif upto is None:
        upto = ledger.head().position
        at = at or datetime.now(UTC)
    last = ledger.at([upto])
    now = at or (time_of(last[0].recorded_at) if last else None) or trial.began
    told, without, unsettled, digest = _compared(ledger, trial, upto, now)
    low, high = difference_interval(told, without, trial.share)
    verdict = trial_verdict(told, without, low, high)
    difference = None
    if told.rate is not None and without.rate is not None:
        difference = told.rate - without.rate
    weeks = None
    if verdict == "undecided":
        weeks = _weeks(told, without, trial, now, difference or 0.0)
    n = told.sessions + without.sessions
    return TrialStatus(
        id=trial.opened.event_id,
        state=_state(trial, now),
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
        low=_rounded(None if verdict == "early" else low),
        high=_rounded(None if verdict == "early" else high),
        verdict=verdict,
        sentence=_sentence(verdict, n, difference or 0.0, low, high, weeks),
        weeks=weeks,
        sessions_sha256=digest,
    )


def _state(trial: Trial, now: datetime) -> Literal["open", "over", "closed"]:
    if trial.closed:
        return "closed"
    return "over" if now >= trial.until else "open"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sentence(
    verdict: Verdict, n: int, difference: float, low: float, high: float, weeks: int | None
) -> str:
    low = round(100 * low)
    high = round(100 * high)
    if verdict == "early":
        return f"{n} of {LEAST} sessions: nothing is said before"
    if verdict in ("helps", "harms"):
        least, most = sorted((abs(low), abs(high)))
        return f"{verdict} by {round(100 * abs(difference))} points, {least} to {most}"
    if verdict == "no-difference":
        return f"no difference of more than {max(-low, high)} points either way"
    rest = "would not end within a year"
    if weeks:
        rest = f"end in about {weeks} more week{'s' if weeks != 1 else ''}"
    return f"not decided, {low:+d} to {high:+d} points; half of such trials {rest}"


def _weeks(told: Arm, without: Arm, trial: Trial, now: datetime, difference: float) -> int | None:
    """Return in how many more weeks half of the trials like this one end, if the difference that it
    saw is true.
    """
    n = told.sessions + without.sessions
    weekly = n / max(1.0, (min(now, trial.until) - trial.began).days / 7)
    most = n + ceil(weekly * _WEEKS)
    lengths = ends(difference, told.rate or 0.0, trial.share, most, 200, begun=(told, without))
    half = lengths[len(lengths) // 2]
    return None if half > most else max(1, ceil((half - n) / weekly))


def _unknown(ledger: Reader, trial: Trial, upto: int) -> int:
    """Return the number of sessions that were shown advice since the opening, and have no outcome
    of a known root.
    """
    tellings = ledger.events(types=(ev.ADVICE_TOLD,), after=trial.opened.position, upto=upto)
    told = {event.session_id for event in tellings if trial.compares(first_origin(event.meta))}
    told.discard(None)
    if not told:
        return 0
    outcomes = ledger.events(types=(ev.SESSION_OUTCOME,), upto=upto)
    return len(told - {event.session_id for event in outcomes if event.facts.get("root")})


@dataclass(frozen=True, slots=True)
class Length:
    """How long trials take where the sessions that use what is withheld differ by so many points:
    half of them end after so many `sessions` or `weeks`, nine of ten after `late` weeks; null where
    that is more than a year.
    """

    points: int
    sessions: int | None
    weeks: int | None
    late: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial here can find out, and when.

    sessions  that were looked at, `weekly` so many a week
    rate      of them that ended well, and `known` the share of which anything is known
    used      the share of sessions that use what is withheld: a difference in one of ten is a tenth
              of it in all
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
        """Whether half of the trials take more than half a year even where the difference is 20
        points.
        """
        (weeks,) = (length.weeks for length in self.lengths if length.points == 20)
        return weeks is None or weeks > _WEEKS // 2


def plan(
    ledger: Reader,
    *,
    bullets: Sequence[str] = (),
    share: float = 0.5,
    outcome: str = "correction-free",
) -> Plan:
    """Return how long a trial would take in a ledger's project; `bullets` of it are withheld, none
    for all of them.

    Sessions that an earlier version recorded are read from their transcripts, where these are still
    there. Raises LedgerError.
    """
    missing = missing_outcomes(ledger, _LAST)
    more = (replace(window, data=dict(new.data)) for window, new in missing)
    last = sessions(ledger, more=more)[-_LAST:]
    n = len(last)
    days = (last[-1].began - last[0].began) / timedelta(days=1) if last else 0.0
    weekly = n / max(days / 7, 1.0)
    facts = [session.facts for session in last]
    rate = sum(map(OUTCOMES[outcome], facts)) / n if last else 0.5
    known = sum(map(_is_known, facts)) / n if last else 0.0
    used = _used(ledger, last, bullets) if bullets else 1.0
    most = min(_MOST, ceil(weekly * _WEEKS))
    return Plan(
        sessions=n,
        weekly=round(weekly, 1),
        rate=round(rate, 3),
        known=round(known, 3),
        used=round(used, 3),
        share=share,
        outcome=outcome,
        lengths=[_length(points, used, rate, share, most, weekly) for points in POINTS],
    )


def _is_known(facts: Mapping[str, Any]) -> bool:
    """Return whether anything but the length of a session is known."""
    names = ("words", "refusals", "interruptions", "tests", "build")
    return any(facts.get(name) for name in names)


def _length(
    points: int, used: float, rate: float, share: float, most: int, weekly: float
) -> Length:
    if not most:
        return Length(points, None, None, None)
    lengths = ends(points / 100 * used, rate, share, most)
    half = lengths[len(lengths) // 2]
    late = lengths[len(lengths) * 9 // 10]

    def weeks(count: int) -> int | None:
        return max(1, ceil(count / weekly)) if count <= most else None

    return Length(points, half if half <= most else None, weeks(half), weeks(late))


def _used(ledger: Reader, last: Sequence[Ended], bullets: Sequence[str]) -> float:
    """Return the share of the last sessions that cite one of these bullets."""
    roots = {session.root for session in last}
    names = set(bullets)
    citing = {
        event.session_id
        for event in ledger.events(types=(ev.SESSION_RECORDED,))
        if not names.isdisjoint(window_names(event, "cited"))
    }
    return len(citing & roots) / len(roots) if roots else 0.0


def start(
    ledger: Ledger,
    root: Path | None = None,
    *,
    bullets: Sequence[str],
    exempt: Sequence[str],
    share: float,
    outcome: str,
) -> None:
    """Open a trial. `bullets` are withheld, all where there are none, but never the `exempt` ones;
    `root` is that of `running`. Raises Mistake while one runs, LedgerError.
    """
    if running(ledger, root) is not None:
        raise Mistake(
            "a trial runs already: see `reflector trial status`, end it with `reflector trial stop`"
        )
    data = {
        "bullets": [*bullets],
        "exempt": [*exempt],
        "share": round(share * MILLION),
        "outcome": outcome,
        "stop": _STOP,
        "until": (datetime.now(UTC) + _LONGEST).isoformat(timespec="seconds"),
    }
    with ledger.writing() as writing:
        key = writing.chain
        event = NewEvent(
            ev.TRIAL_OPENED, identity(ev.TRIAL_OPENED, key), data | {"key": key}, HUMAN
        )
        append(writing, [prepare(event, tx=ledger.draw())])


def stop(ledger: Ledger, root: Path | None = None) -> TrialStatus:
    """Close the trial that runs, and return what it shows; `root` is that of `running`. Raises
    Mistake where none runs, LedgerError.
    """
    trial = running(ledger, root)
    if trial is None and (others := elsewhere(ledger, root)):
        raise Mistake(
            f"no trial runs here; {others[-1].opened.event_id[:8]} withholds nothing here, "
            "because it was opened "
            "elsewhere: stop it there, then import that ledger again"
        )
    if trial is None:
        raise Mistake("no trial runs; `reflector trial plan` shows how long one would take")
    with ledger.writing() as writing:
        now = later_than(ledger.head().recorded_at)
        status = trial_status(ledger, trial, at=time_of(now))
        opened = trial.opened.event_id
        event_id = identity(ev.TRIAL_CLOSED, opened)
        result = result_of(status) | {"at": now}
        event = NewEvent(ev.TRIAL_CLOSED, event_id, result, HUMAN, target_id=opened)
        append(writing, [prepare(event, tx=ledger.draw())])
    return replace(status, state="closed")


def result_of(status: TrialStatus) -> dict[str, Any]:
    """Return the data of a closing: the result of a trial in this state."""

    def arm(sessions: Arm) -> dict[str, int]:
        return {"sessions": sessions.sessions, "good": sessions.good}

    def decimal(number: float | None) -> str | None:
        return None if number is None else f"{number:.4f}"

    return {
        "verdict": status.verdict,
        "told": arm(status.told),
        "without": arm(status.without),
        "difference": decimal(status.difference),
        "interval": {"low": decimal(status.low), "high": decimal(status.high)},
        "sessions": status.sessions_sha256,
    }


def keep_note(project: Project, ledger: Reader, *, opens: bool = False) -> None:
    """Keep the note by which the hook withholds as the ledger's trial says, or remove it, and note
    the ledger's head once a week.

    opens  a note that is missing is made: for a command that opened the trial, or took or restored
           the ledger

    Raises LedgerError, OSError.
    """
    root = project.root
    place = trial_place(project)
    trial = running(ledger, place) or (running(ledger) if opens else None)
    if trial is None:
        for name in (TRIAL, WITHOUT):  # the text may hold what is erased later
            Path(own_folder(os.fspath(root)), name).unlink(missing_ok=True)
        return
    data = trial.data
    until = int(trial.until.timestamp() * 1_000_000_000)
    names = [*(data["bullets"] or ["*"]), *(f"-{name}" for name in data["exempt"])]
    note = " ".join([data["key"], str(data["share"]), str(until), *names]).encode() + b"\n"
    if read_own(os.fspath(root), TRIAL, len(note) + 1) != note:
        write_durably(open_own(os.fspath(root)), note, TRIAL)
    now = utc_now()
    heads = noted(root)
    last = time_of(heads[-1][1]) if heads else None
    if last is None or last < trial.began or last + _NOTED <= (time_of(now) or last):
        heads.append((ledger.head(), now))
        lines = "".join(f"{anchor}  # {time}\n" for anchor, time in heads)
        write_durably(open_own(os.fspath(root)), lines.encode(), TRIAL_HEADS)


def noted(root: Path) -> list[tuple[Anchor, str]]:
    """Return the heads that were noted in a project while trials ran, each with its time, oldest
    first.
    """
    text = read_own(os.fspath(root), TRIAL_HEADS, _MOST_HEADS).decode("ascii", "replace")
    return [(Anchor(int(head[1]), head[2]), head[3]) for head in _HEAD.finditer(text)]


def trial_findings(ledger: Reader) -> list[Finding]:
    """Return the faults of a ledger's trials: a key that was chosen, a result that does not follow.

    Events that a merge brought were checked where they were appended. Raises LedgerError.
    """
    findings = []
    for trial in trials(ledger):
        opened = trial.opened
        closed = trial.closed
        if not trial.origin and trial.data["key"] != _key_before(ledger, opened):
            message = (
                "the trial's key is not the chain of the event before it, so its draw may have "
                "been chosen"
            )
            remedy = "do not rely on this trial; open another"
            findings.append(Finding("trial", opened.position, message, remedy))
        if closed is None or closed.data is None or first_origin(closed.meta):
            continue
        # a later version may decide otherwise
        is_ours = trial.data["stop"] in (_STOP, _STOP_OF_ALL)
        result = dict(closed.data)
        at = result.pop("at", closed.recorded_at)
        is_timely = _recorded_before(ledger, closed) <= at <= closed.recorded_at
        if is_ours and (not is_timely or result != result_of(trial_status(ledger, trial))):
            message = (
                "the trial's result does not follow from the key, the sessions and their "
                "outcomes before it"
            )
            remedy = "see `reflector trial status` for the true one"
            findings.append(Finding("trial", closed.position, message, remedy))
    return findings


def _recorded_before(ledger: Reader, event: Event) -> str:
    """Return when the event before this one was recorded."""
    return str(ledger.at([event.position - 1])[0].recorded_at)


def _key_before(ledger: Reader, opened: Event) -> str:
    """Return the key that a trial opened at this event must have."""
    before = ledger.at([opened.position - 1])
    if before:
        return before[0].chain
    head = ledger.head()
    return genesis(head.playbook, head.origin)
