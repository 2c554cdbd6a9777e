"""All lessons and their outcomes as a pure fold over their events, and the worth of a lesson,
computed from its outcomes.

Invariant: the book is a function of (events, policy). None of it is stored, so another policy gives
another book of the same events, and a larger bank brings evicted lessons back. Lessons and outcomes
are read in the order in which they happened, not by position, so two merged ledgers agree on every
number.

Every number is rounded to 6 decimals before it is compared, so 32-bit and 64-bit arithmetic agree
at every boundary. A vector depends only on the text: it is computed from 32 integers of SHAKE-256
by IEEE division and a correctly rounded square root, so it has the same bits on every platform.
Equal texts are close, and all others are far.
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import shake_256
from typing import Any, Final, Literal

from reflector.events import event as ev
from reflector.events.event import Event, Moment, as_written, completion_id, written
from reflector.events.folds import fold_ledger
from reflector.events.lessons import OUTCOMES, POLARITY
from reflector.events.registry import fold
from reflector.events.state import REDACTED
from reflector.ledger.as_of import Past
from reflector.ledger.reader import Reader
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake, check_share, check_whole
from reflector.quality.signals import rounded
from reflector.text.words import is_unspaced, words_of

State = Literal["active", "decayed", "archived", "needs_review", "retracted"]

#: The event types of the book.
BOOK_TYPES = (
    ev.LESSON_RECORDED,
    ev.OUTCOME_OBSERVED,
    ev.ADVICE_TOLD,
    ev.REVISION_ATTEMPTED,
    ev.EVIDENCE_RETRACTED,
    ev.BULLET_PROPOSED,
    ev.CHANGE_PROPOSED,
    ev.BULLET_ADDED,
)
#: Texts of a lesson besides `text`: how it came about.
BACKGROUND = (
    "reasoning",
    "error_identification",
    "root_cause_analysis",
    "correct_approach",
    "attempt",
    "issue",
    "mistake",
)
#: Summaries are not judged, so none is worse than another.
_UNBANKED = "summary"

#: The amount that each kind of outcome adds to the confidence.
DELTAS = {kind: delta for kind, (_, delta) in OUTCOMES.items()}

#: Confidence without a retry.
_UNTRIED = 0.62
#: Confidence after a retry without improvement, after a perfect retry, and the difference.
_LEAST_TRIED = 0.55
_MOST_TRIED = 0.90
_GAIN = 0.35
#: Bounds of the confidence.
_LEAST = 0.30
_MOST = 0.97
#: A lesson is archived if it failed twice, never succeeded and is trusted less than this.
_ARCHIVED_BELOW = 0.40
#: The confidence from which a lesson is due for promotion, unless it was recorded with another.
PROMOTION = 0.75
#: The effectiveness of a lesson before its first outcome.
UNPROVEN = 0.5
_WORDS_OF_KEY = 10
_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class LessonPolicy:
    """The weights of outcomes. A policy is a view, so it changes no event.

    alpha      weight of the newest outcome in the effectiveness, from 0 to 1
    threshold  the minimum confidence of a lesson that is shown
    bank_size  the maximum number of lessons of one kind
    promotion  the minimum confidence for promotion; None for the lesson's own
    """

    alpha: float = 0.2
    threshold: float = 0.5
    bank_size: int = 100
    promotion: float | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "threshold"):
            check_share(name, getattr(self, name))
        if self.promotion is not None:
            check_share("promotion", self.promotion)
        check_whole("bank_size", self.bank_size, 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome of a lesson that is not retracted. `observed_at` is ISO 8601 in UTC."""

    event_id: str
    kind: str
    observed_at: str
    source: str
    why: str
    arrived: Moment


@dataclass(slots=True)
class Lesson:
    """A lesson and its worth under a policy. `data` is its recorded content; it is empty if the
    lesson was erased.

    worth          the effectiveness after each outcome for or against the lesson, oldest first
    improvement    the improvement by the lesson's retry, from 0 to 1; null without a retry
    promotion      the lesson's own minimum of confidence for a promotion; null for the policy's
    times_applied  how many times the lesson was shown to a session or a task
    banked         false if a better lesson took its place
    due            whether the lesson is due for promotion, now or later than its session (D-18)
    proposal       the id of the proposal that promoted the lesson; `bullet` names the new rule
    """

    id: str
    position: int
    created_at: str
    session_id: str | None
    data: Mapping[str, Any]
    confidence: float = 0.0
    effectiveness: float = UNPROVEN
    worth: tuple[float, ...] = ()
    successes: int = 0
    failures: int = 0
    state: State = "active"
    times_applied: int = 0
    banked: bool = True
    due: bool = False
    proposal: str | None = None
    bullet: str | None = None
    improvement: float | None = None
    promotion: float = PROMOTION
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    #: The outcomes that count for the confidence: of a reflection, one of each kind.
    signals: Sequence[Outcome] = field(default=(), repr=False)

    @classmethod
    def of(cls, event: Event) -> Lesson:
        """Return the lesson of an event that recorded it."""
        improvement = event.fact("improvement")
        return cls(
            id=event.event_id,
            position=event.position,
            created_at=event.occurred_at,
            session_id=event.session_id,
            data=event.facts,
            improvement=None if improvement is None else float(improvement),
            promotion=float(event.fact("promotion", PROMOTION)),
        )

    @property
    def kind(self) -> str:
        """insight, reflection, mistake or summary."""
        return str(self.data.get("kind"))

    @property
    def text(self) -> str:
        return str(self.data.get("text", REDACTED))

    @property
    def task(self) -> str:
        """The task, or the type of task; "" for none."""
        return str(self.data.get("task") or "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.data.get("tags", ()))

    @property
    def is_tellable(self) -> bool:
        """Whether it may be shown: it is in the bank, and not erased, retracted, archived or
        contradicted.
        """
        has_text = bool(self.text.strip()) and self.text != REDACTED
        return has_text and self.banked and self.state in ("active", "decayed")

    @property
    def is_kept(self) -> bool:
        """Whether the bank contains it as a mistake. A mistake that fails often is the first to
        leave the bank.
        """
        if not self.banked or self.state == "retracted":
            return False
        return self.text != REDACTED and self.kind == "mistake"

    def observe(self, event: Event, policy: LessonPolicy) -> None:
        """Count an outcome that came after the others."""
        kind = str(event.fact("kind"))
        if kind not in POLARITY:
            return  # of a newer version
        outcome = Outcome(
            event_id=event.event_id,
            kind=kind,
            observed_at=event.occurred_at,
            source=str(event.fact("source")),
            why=str(event.fact("why") or ""),
            arrived=event.arrived,
        )
        self.outcomes += (outcome,)
        if POLARITY[kind]:
            self.effectiveness = ema(self.effectiveness, float(POLARITY[kind] > 0), policy.alpha)
            self.worth += (self.effectiveness,)

    def conclude(self) -> None:
        """Compute the values that follow from all outcomes."""
        is_reflection = self.kind == "reflection"
        self.signals = self.outcomes
        if is_reflection:
            # Only the last outcome of each kind counts (D-15).
            by_arrival = sorted(self.outcomes, key=lambda outcome: outcome.arrived)
            self.signals = merge_outcome_signals((), by_arrival)
        self.confidence = promotion_confidence(self.improvement, self.signals)
        self.successes, self.failures = tally(self.signals)
        failures = self.failures if is_reflection else _failures_since_success(self.signals)
        self.state = lesson_state(self.confidence, self.successes, failures)


@dataclass(frozen=True, slots=True)
class LessonBook:
    """The lessons by id, in the order in which they were recorded."""

    policy: LessonPolicy
    lessons: Mapping[str, Lesson] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Lesson]:
        return iter(self.lessons.values())

    def named(self, beginning: str) -> Lesson:
        """Return the lesson with an id, or with a unique beginning of an id.

        Raises:
            Mistake: no lesson or several lessons have an id with this beginning.
        """
        prefix = beginning.strip().lower()
        ids = [id_ for id_ in self.lessons if beginning and id_.startswith(prefix)]
        if len(ids) != 1:
            count = (
                f"the ids of {len(ids)} lessons begin"
                if ids
                else ("no lesson has an id that begins")
            )
            raise Mistake(f"{count} with {beginning[:80]!r}; see `reflector lessons`")
        return self.lessons[ids[0]]

    def best(self) -> list[Lesson]:
        """Return the trusted lessons that may be shown, the best first."""
        tellable = [lesson for lesson in self if lesson.is_tellable]
        trusted = [lesson for lesson in tellable if lesson.confidence >= self.policy.threshold]
        return sorted(trusted, key=lambda own: (-own.confidence, -own.effectiveness, own.position))


def lesson_book(source: Ledger | Past, policy: LessonPolicy | None = None) -> LessonBook:
    """Return the lessons of a ledger, now or at an earlier moment.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    ledger, upto = _history(source)
    return fold_ledger(LessonFold(policy), ledger, upto)


def _history(source: Ledger | Past) -> tuple[Reader, int | None]:
    """Return the ledger, and the position of the moment; None for now."""
    return (source.ledger, source.position) if isinstance(source, Past) else (source, None)


class LessonFold:
    """The lessons of a history under a policy. The order in which events arrive does not matter."""

    types: Final = BOOK_TYPES

    def __init__(self, policy: LessonPolicy | None = None) -> None:
        self._policy = policy or LessonPolicy()
        self._events: list[Event] = []

    def apply(self, event: Event) -> None:
        if event.type in BOOK_TYPES:
            self._events.append(event)

    def answer(self) -> LessonBook:
        in_time = sorted(self._events, key=lambda event: (event.occurred_at, event.arrived))
        return _BookInMaking(in_time, self._policy).book()


class _BookInMaking:
    """A book that takes events in the order in which they happened.

    Retractions come first, whenever they happened, because they remove everything about their
    target.
    """

    def __init__(self, events: Sequence[Event], policy: LessonPolicy) -> None:
        self.policy = policy
        self.retractions = fold(event for event in events if event.type == ev.EVIDENCE_RETRACTED)
        self.recorded = {
            event.event_id: event for event in events if event.type == ev.LESSON_RECORDED
        }
        self.lessons = {id_: Lesson.of(event) for id_, event in self.recorded.items()}
        self.banks: dict[str, list[Lesson]] = defaultdict(list)
        #: The name of the bullet that a proposal became, by the proposal's id.
        self.bullets: dict[str | None, str] = {}
        for event in events:
            self._take(event)

    def book(self) -> LessonBook:
        """Return the book, with the values that follow from all outcomes of each lesson."""
        for lesson in self.lessons.values():
            lesson.conclude()
            if lesson.proposal:
                lesson.bullet = self.bullets.get(lesson.proposal)
            if not self._counts(self.recorded[lesson.id]):
                lesson.state = "retracted"
        _dispute(self.lessons.values())
        for lesson in self.lessons.values():
            lesson.due = self._is_due(lesson)
        in_order = sorted(self.lessons.values(), key=lambda lesson: lesson.position)
        return LessonBook(self.policy, {lesson.id: lesson for lesson in in_order})

    def _take(self, event: Event) -> None:
        """Apply an event to the lessons that it concerns."""
        match event.type:
            case ev.LESSON_RECORDED:
                if self._counts(event):
                    lesson = self.lessons[event.event_id]
                    _bank(self.banks[lesson.kind], lesson, self.policy)
            case ev.OUTCOME_OBSERVED:
                if applied := self._lesson_of(event, event.fact("window")):
                    applied.observe(event, self.policy)
            case ev.REVISION_ATTEMPTED:
                revised = self._lesson_of(event)
                if revised and event.data:
                    initial = float(event.data["initial"])
                    retried = float(event.data["retried"])
                    revised.improvement = score_improvement(initial, retried)
            case ev.BULLET_PROPOSED | ev.CHANGE_PROPOSED:
                if proposed := self._lesson_of(event):
                    proposed.proposal = event.event_id
            case ev.BULLET_ADDED:
                self.bullets[event.target_id] = str(event.fact("name"))
            case ev.ADVICE_TOLD:
                for lesson_id in self.lessons.keys() & event.fact("lessons", ()):
                    self.lessons[lesson_id].times_applied += 1

    def _lesson_of(self, event: Event, window: str | None = None) -> Lesson | None:
        """Return the lesson that an event is about; None if the event is retracted, or the window
        in which it was found.
        """
        if not self._active(event.event_id, window):
            return None
        return self.lessons.get(event.target_id or "")

    def _counts(self, recorded: Event) -> bool:
        """Return whether a lesson counts: it, its reflection and its window are not retracted."""
        reflection = None
        if recorded.reflection_id:
            reflection = completion_id(recorded.reflection_id)
        return self._active(recorded.event_id, reflection, recorded.target_id)

    def _active(self, *event_ids: str | None) -> bool:
        return all(self.retractions.active(event_id) for event_id in event_ids if event_id)

    def _is_due(self, lesson: Lesson) -> bool:
        """Return whether a lesson is trusted enough for a proposal, and was not proposed yet."""
        least = lesson.promotion if self.policy.promotion is None else self.policy.promotion
        if lesson.confidence < rounded(least) or lesson.proposal is not None:
            return False
        return lesson.state == "active" and lesson.is_tellable


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of gates, retries and the bank of lessons. The average effectiveness is 0.0 for
    an empty bank.
    """

    total_reflections: int
    retries_triggered: int
    improvements_made: int
    lessons_stored: int
    bank_capacity: int
    average_lesson_effectiveness: float


def figures(source: Ledger | Past) -> Figures | None:
    """Return the numbers of reflections and retries, and the mistakes in the bank; None without
    any.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    ledger, upto = _history(source)
    decisions = ledger.events(types=[ev.GATE_DECIDED], upto=upto)
    reflections = sum(bool(decision.fact("reflects")) for decision in decisions)
    revisions = ledger.events(types=[ev.REVISION_ATTEMPTED], upto=upto)
    improved = [bool(revision.fact("improved")) for revision in revisions]
    bank = bank_figures(lesson_book(source))
    if not reflections and not improved and not bank["lessons_stored"]:
        return None
    return Figures(reflections, len(improved), sum(improved), **bank)


def bank_figures(book: LessonBook) -> dict[str, Any]:
    """Return the number of mistakes in the bank, its size, and their average effectiveness, which
    is 0.0 for an empty bank.
    """
    bank = [lesson for lesson in book if lesson.is_kept]
    average = sum(lesson.effectiveness for lesson in bank) / len(bank) if bank else 0.0
    return {
        "lessons_stored": len(bank),
        "bank_capacity": book.policy.bank_size,
        "average_lesson_effectiveness": rounded(average),
    }


def _failures_since_success(outcomes: Iterable[Outcome]) -> int:
    """Return the number of failures since the last success.

    For a lesson whose every outcome counts, a few earlier failures mean little.
    """
    failures = 0
    for outcome in outcomes:
        polarity = POLARITY[outcome.kind]
        if polarity > 0:
            failures = 0
        elif polarity < 0:
            failures += 1
    return failures


def _bank(bank: list[Lesson], lesson: Lesson, policy: LessonPolicy) -> None:
    """Put a lesson into the bank of its kind; if the bank is full, it replaces the worst one
    (E-11).
    """
    if lesson.kind == _UNBANKED:
        return
    if len(bank) == policy.bank_size:
        worst = min(bank, key=lambda banked: (banked.effectiveness, banked.created_at, banked.id))
        worst.banked = False
        bank.remove(worst)
    bank.append(lesson)


def _dispute(lessons: Iterable[Lesson]) -> None:
    """Mark lessons of one kind and key for review if they contradict each other: some only
    succeeded, some only failed.
    """
    one_sided: dict[tuple[str, str], list[Lesson]] = defaultdict(list)
    for lesson in lessons:
        is_one_sided = (lesson.successes == 0) != (lesson.failures == 0)
        if lesson.state == "retracted" or not is_one_sided:
            continue
        key = strategy_key(lesson.text)
        if is_unspaced(lesson.text):  # a strategy key is ASCII, and would be empty
            key = " ".join(words_of(lesson.text))
        one_sided[lesson.kind, key].append(lesson)
    for group in one_sided.values():
        if len({lesson.successes > 0 for lesson in group}) == 2:
            for lesson in group:
                lesson.state = "needs_review"


def label_of(kind: str) -> str:
    """Return the words for a kind of outcome."""
    return kind.replace("_", " ").capitalize().replace("Pre execution", "Pre-execution")


@dataclass(frozen=True, slots=True)
class OutcomeSignal:
    """An outcome that was observed at a time (ISO 8601; default: now).

    Raises:
        ValueError: the kind does not exist.
    """

    kind: str
    observed_at: str = field(default_factory=lambda: written(datetime.now(UTC)))
    summary: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in DELTAS:
            raise Mistake(
                f"{self.kind!r} is not a kind of outcome; the kinds are {', '.join(DELTAS)}"
            )


def merge_outcome_signals(stored: Iterable[Any], incoming: Iterable[Any]) -> tuple[Any, ...]:
    """Return the last signal of each kind, in order of `observed_at` (D-15)."""
    by_kind: dict[str, Any] = {}
    for signal in (*stored, *incoming):
        by_kind[signal.kind] = signal
    return tuple(sorted(by_kind.values(), key=lambda signal: as_written(signal.observed_at)))


def score_improvement(initial: float, retried: float) -> float:
    """Return the share of the gap to 1 that a retry closed, from 0 to 1 (D-12)."""
    if not retried > initial:  # also for NaN
        return 0.0
    return rounded(min(1.0, (retried - initial) / max(1 - initial, 1e-9)))


def promotion_confidence(improvement: float | None, signals: Iterable[Any]) -> float:
    """Return the confidence in a lesson, from 0.30 to 0.97 (D-13).

    improvement  of its retry, from 0 to 1; None without a retry
    """
    base = _UNTRIED
    if improvement is not None:
        base = min(_MOST_TRIED, max(_LEAST_TRIED, _LEAST_TRIED + _GAIN * improvement))
    confidence = rounded(base + sum(DELTAS[signal.kind] for signal in signals))
    return min(_MOST, max(_LEAST, confidence))


def tally(signals: Iterable[Any]) -> tuple[int, int]:
    """Return (successes, failures) among signals (D-16)."""
    polarities = [POLARITY[signal.kind] for signal in signals]
    return polarities.count(1), polarities.count(-1)


def lesson_state(confidence: float, successes: int, failures: int) -> State:
    """Return active, decayed or archived (D-17).

    The book decides whether two lessons contradict each other.
    """
    fails_only = failures >= 2 and successes == 0
    if failures >= 3 or (fails_only and rounded(confidence) < _ARCHIVED_BELOW):
        return "archived"
    return "decayed" if fails_only else "active"


def strategy_key(text: str) -> str:
    """Return the first ten words, lower-case and joined by hyphens. Lessons with the same key give
    the same advice (D-17).
    """
    words = re.sub(r"[^0-9A-Za-z]+", " ", text).lower().split()
    return "-".join(words[:_WORDS_OF_KEY]) or "reflection-strategy"


def ema(effectiveness: float, outcome: float, alpha: float) -> float:
    """Return the effectiveness after an outcome: a moving average of 1 for success and 0 for
    failure (E-10).
    """
    return rounded(effectiveness + alpha * (outcome - effectiveness))


def embed(text: str) -> list[float]:
    """Return the text's vector: 32 floats of norm 1.

    Raises:
        UnicodeEncodeError: the text has a lone surrogate.
    """
    integers = struct.unpack(f"<{_DIMENSIONS}I", shake_256(text.encode()).digest(4 * _DIMENSIONS))
    vector = [integer / 0xFFFFFFFF * 2 - 1 for integer in integers]
    norm = math.sqrt(math.fsum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]
