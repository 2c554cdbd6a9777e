"""All lessons with what became of them, a pure fold over their events; and what outcomes say of a
lesson, as numbers that anybody can compute again.

Invariant: the book is a function of (events, policy). Nothing in it is stored, so another policy
shows another book of the same events, and a larger bank brings evicted lessons back. Lessons and
outcomes are taken in the order in which they happened, not in which they stand, so two ledgers that
merged agree on every number.

Every number is rounded to 6 decimals before it is compared, so 32-bit and 64-bit arithmetic agree
at every boundary. A vector depends on the text alone: SHAKE-256 gives 32 integers, IEEE division
and a square root that is correctly rounded do the rest, so no platform differs in any bit. Equal
texts are close, and all others are far.
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
from reflector.events.event import Event, Moment, as_written, identity, written
from reflector.events.lessons import OUTCOMES, POLARITY
from reflector.events.registry import fold
from reflector.events.state import REDACTED, Playbook
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake, check_share, check_whole
from reflector.quality.signals import rounded
from reflector.text.words import is_unspaced, words_of

State = Literal["active", "decayed", "archived", "needs_review", "retracted"]

#: What the book is made of.
BOOK_TYPES: Final = (
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
BACKGROUND: Final = (
    *("reasoning", "error_identification", "root_cause_analysis", "correct_approach"),
    *("attempt", "issue", "mistake"),
)
#: Summaries are judged by nobody, so none is worse than another.
_UNBANKED: Final = "summary"

#: What each kind of outcome adds to the confidence.
DELTAS: Final = {kind: delta for kind, (_, delta) in OUTCOMES.items()}

#: Confidence without a retry, from a retry that gained nothing, and from one that gained all; and
#: its bounds.
_UNTRIED, _LEAST_TRIED, _MOST_TRIED, _GAIN = 0.62, 0.55, 0.90, 0.35
_LEAST, _MOST = 0.30, 0.97
#: A lesson that failed twice, never succeeded and is trusted less than this is archived.
_ARCHIVED_BELOW: Final = 0.40
#: The confidence from which a lesson is due for promotion, unless it was recorded with another.
PROMOTION: Final = 0.75
#: The effectiveness of a lesson before its first outcome.
UNPROVEN: Final = 0.5
_WORDS_OF_KEY: Final = 10
_DIMENSIONS: Final = 32


@dataclass(frozen=True, slots=True)
class LessonPolicy:
    """How outcomes are read; a view, which changes no event.

    alpha      weight of the newest outcome in the effectiveness, from 0 to 1
    threshold  the least confidence of a lesson that is told
    bank_size  lessons of one kind that are kept
    promotion  the least confidence of a lesson that is due for promotion; None for the lesson's own
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
    """An outcome of a lesson that was not retracted. `observed_at` is ISO 8601 in UTC."""

    event_id: str
    kind: str
    observed_at: str
    source: str
    why: str
    arrived: Moment


@dataclass(slots=True)
class Lesson:
    """A lesson and its worth under a policy; `data` is what was recorded of it, nothing where it
    was erased.

    worth          each value that the effectiveness had after an outcome that spoke for or against
                   it, oldest first
    improvement    what its retry gained, from 0 to 1; null without one
    promotion      the confidence from which it is due, unless the policy has another
    times_applied  how many times it was shown to a session or a task
    banked         false once a better one took its place
    due            whether it is due for promotion, now or later than its session (D-18)
    proposal       the id of the proposal that it was promoted by, `bullet` the name that it became
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
    #: The outcomes that the confidence counts; of a reflection one of each kind.
    signals: Sequence[Outcome] = field(default=(), repr=False)

    @classmethod
    def of(cls, event: Event) -> Lesson:
        """Return the lesson of an event that recorded it."""
        where = event.event_id, event.position, event.occurred_at, event.session_id
        stated, promotion = event.facts.get("improvement"), event.facts.get("promotion", PROMOTION)
        improvement = None if stated is None else float(stated)
        return cls(*where, event.facts, improvement=improvement, promotion=float(promotion))

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
        """Whether it may be told: in the bank, neither erased, retracted, archived nor
        contradicted.
        """
        there = bool(self.text.strip()) and self.text != REDACTED
        return there and self.banked and self.state in ("active", "decayed")

    @property
    def is_kept(self) -> bool:
        """Whether the bank has it as a mistake. One that fails often sinks in it, and is the
        first to go.
        """
        there = self.banked and self.state != "retracted" and self.text != REDACTED
        return there and self.kind == "mistake"

    def observe(self, event: Event, policy: LessonPolicy) -> None:
        """Take an outcome into account that came after the others."""
        kind = str(event.facts.get("kind"))
        if kind not in POLARITY:
            return  # of a newer version
        source, why = str(event.facts.get("source")), str(event.facts.get("why") or "")
        self.outcomes += (
            Outcome(event.event_id, kind, event.occurred_at, source, why, event.arrived),
        )
        if POLARITY[kind]:
            self.effectiveness = ema(self.effectiveness, float(POLARITY[kind] > 0), policy.alpha)
            self.worth += (self.effectiveness,)

    def conclude(self) -> None:
        """Set what follows from all outcomes."""
        self.signals = self.outcomes
        if self.kind == "reflection":
            self.signals = merge_outcome_signals(
                (), sorted(self.outcomes, key=lambda one: one.arrived)
            )
        self.confidence = promotion_confidence(self.improvement, self.signals)
        self.successes, self.failures = tally(self.signals)
        lately = self.failures if self.kind == "reflection" else _failures_lately(self.signals)
        self.state = state_of(self.confidence, self.successes, lately)


@dataclass(frozen=True, slots=True)
class LessonBook:
    """The lessons by id, in the order in which they were recorded."""

    policy: LessonPolicy
    lessons: Mapping[str, Lesson] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Lesson]:
        return iter(self.lessons.values())

    def named(self, beginning: str) -> Lesson:
        """Return the lesson of an id, or of the unique beginning of one. Raises Mistake."""
        found = [
            one
            for id, one in self.lessons.items()
            if beginning and id.startswith(beginning.strip().lower())
        ]
        if len(found) != 1:
            what = f"{len(found)} lessons' ids begin" if found else "no lesson's id begins"
            raise Mistake(f"{what} with {beginning[:80]!r}; see `reflector lessons`")
        return found[0]

    def best(self) -> list[Lesson]:
        """Return the lessons that may be told and are trusted, the best first."""
        trusted = [
            one for one in self if one.is_tellable and one.confidence >= self.policy.threshold
        ]
        return sorted(trusted, key=lambda one: (-one.confidence, -one.effectiveness, one.position))


def lesson_book(of: Ledger | Past, policy: LessonPolicy | None = None) -> LessonBook:
    """Return the book of a ledger, or of a moment of one. Raises LedgerError."""
    return fold_lessons(_events(of, *BOOK_TYPES), policy)


def _events(of: Ledger | Past, *types: str) -> Iterator[Event]:
    ledger, upto = (of.ledger, of.position) if isinstance(of, Past) else (of, None)
    return ledger.events(types=types, upto=upto)


def fold_lessons(events: Iterable[Event], policy: LessonPolicy | None = None) -> LessonBook:
    """Return the book that events make, in whatever order they stand; other types are passed
    over.
    """
    policy = policy or LessonPolicy()
    taken = sorted(events, key=lambda event: (event.occurred_at, event.arrived))
    by_type: dict[str, list[Event]] = defaultdict(list)
    for event in taken:
        by_type[event.type].append(event)
    covers = fold(by_type[ev.EVIDENCE_RETRACTED])
    recorded = {event.event_id: event for event in by_type[ev.LESSON_RECORDED]}
    lessons = {id: Lesson.of(event) for id, event in recorded.items()}
    bank: dict[str, list[Lesson]] = defaultdict(list)
    for event in taken:
        one = lessons.get(
            (event.event_id if event.type == ev.LESSON_RECORDED else event.target_id) or ""
        )
        window = event.facts.get("window") if event.type == ev.OUTCOME_OBSERVED else None
        if one is None or not all(covers.active(id) for id in (event.event_id, window) if id):
            continue
        if event.type == ev.LESSON_RECORDED and _counts(event, covers):
            _store(bank[one.kind], one, policy)
        elif event.type == ev.OUTCOME_OBSERVED:
            one.observe(event, policy)
        elif event.type == ev.REVISION_ATTEMPTED and event.data:
            one.improvement = score_improvement(
                float(event.data["initial"]), float(event.data["retried"])
            )
        elif event.type in (ev.BULLET_PROPOSED, ev.CHANGE_PROPOSED):
            one.proposal = event.event_id
    for event in by_type[ev.ADVICE_TOLD]:
        for id in lessons.keys() & event.facts.get("lessons", ()):
            lessons[id].times_applied += 1
    bullets = {event.target_id: str(event.facts.get("name")) for event in by_type[ev.BULLET_ADDED]}
    for one in lessons.values():
        one.conclude()
        one.bullet = bullets.get(one.proposal) if one.proposal else None
        if not _counts(recorded[one.id], covers):
            one.state = "retracted"
    _dispute(lessons.values())
    for one in lessons.values():
        is_trusted = one.confidence >= rounded(
            one.promotion if policy.promotion is None else policy.promotion
        )
        one.due = is_trusted and one.proposal is None and one.state == "active" and one.is_tellable
    return LessonBook(
        policy, {one.id: one for one in sorted(lessons.values(), key=lambda one: one.position)}
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """What gates, retries and the bank of lessons did; the average effectiveness is 0.0 for an
    empty bank.
    """

    total_reflections: int
    retries_triggered: int
    improvements_made: int
    lessons_stored: int
    bank_capacity: int
    average_lesson_effectiveness: float


def figures(of: Ledger | Past) -> Figures | None:
    """Return how often a gate reflected, what retries gained, and what the bank keeps; None where
    nothing did. Raises LedgerError.
    """
    reflected = sum(bool(event.facts.get("reflects")) for event in _events(of, ev.GATE_DECIDED))
    retries = [bool(event.facts.get("improved")) for event in _events(of, ev.REVISION_ATTEMPTED)]
    found = Figures(reflected, len(retries), sum(retries), **bank_figures(lesson_book(of)))
    return found if reflected or retries or found.lessons_stored else None


def bank_figures(book: LessonBook) -> dict[str, Any]:
    """Return how many mistakes the bank keeps, how many it could, and their average
    effectiveness, 0.0 without one.
    """
    bank = [one for one in book if one.is_kept]
    average = sum(one.effectiveness for one in bank) / len(bank) if bank else 0.0
    return {
        "lessons_stored": len(bank),
        "bank_capacity": book.policy.bank_size,
        "average_lesson_effectiveness": rounded(average),
    }


def _failures_lately(outcomes: Iterable[Outcome]) -> int:
    """Return the failures since the last success: of a lesson whose every outcome counts, a few
    say nothing.
    """
    failures = 0
    for one in outcomes:
        failures = 0 if POLARITY[one.kind] > 0 else failures + (POLARITY[one.kind] < 0)
    return failures


def _store(bank: list[Lesson], lesson: Lesson, policy: LessonPolicy) -> None:
    """Put a lesson into the bank of its kind, in the place of the worst where it is full (E-11)."""
    if lesson.kind == _UNBANKED:
        return
    if len(bank) == policy.bank_size:
        worst = min(bank, key=lambda one: (one.effectiveness, one.created_at, one.id))
        worst.banked = False
        bank.remove(worst)
    bank.append(lesson)


def _counts(event: Event, covers: Playbook) -> bool:
    """Return whether neither a lesson nor its reflection nor its window was retracted."""
    reflection = (
        identity(ev.REFLECTION_COMPLETED, event.reflection_id) if event.reflection_id else None
    )
    return all(covers.active(id) for id in (event.event_id, reflection, event.target_id) if id)


def _dispute(lessons: Iterable[Lesson]) -> None:
    """Lessons of one kind and key of which some only succeeded and some only failed need a
    review.
    """
    one_sided: dict[tuple[str, str], list[Lesson]] = defaultdict(list)
    for one in lessons:
        if one.state != "retracted" and (one.successes == 0) != (one.failures == 0):
            # A strategy key is made of ASCII: of a script without spaces it holds nothing.
            key = " ".join(words_of(one.text)) if is_unspaced(one.text) else strategy_key(one.text)
            one_sided[one.kind, key].append(one)
    for group in one_sided.values():
        if len({one.successes > 0 for one in group}) == 2:
            for one in group:
                one.state = "needs_review"


def label_of(kind: str) -> str:
    """Return a kind of outcome in words."""
    return kind.replace("_", " ").capitalize().replace("Pre execution", "Pre-execution")


@dataclass(frozen=True, slots=True)
class OutcomeSignal:
    """An outcome that was observed at a time (ISO 8601; default: now).

    Raises ValueError for a kind that does not exist.
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
    """Return one signal of each kind, in order of `observed_at`: the last one to come stands
    (D-15).
    """
    by_kind: dict[str, Any] = {}
    for signal in (*stored, *incoming):
        by_kind[signal.kind] = signal
    return tuple(sorted(by_kind.values(), key=lambda signal: as_written(signal.observed_at)))


def score_improvement(initial: float, retried: float) -> float:
    """Return the share of the gap to 1 that a retry closed, from 0 to 1 (D-12)."""
    if not retried > initial:  # NaN as well
        return 0.0
    return rounded(min(1.0, (retried - initial) / max(1 - initial, 1e-9)))


def promotion_confidence(improvement: float | None, signals: Iterable[Any]) -> float:
    """Return how far a lesson is trusted, from 0.30 to 0.97 (D-13). `improvement` is that of its
    retry, from 0 to 1.
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


def state_of(confidence: float, successes: int, failures: int) -> State:
    """Return active, decayed or archived (D-17). The book decides whether two lessons contradict
    each other.
    """
    fails_only = failures >= 2 and successes == 0
    if failures >= 3 or (fails_only and rounded(confidence) < _ARCHIVED_BELOW):
        return "archived"
    return "decayed" if fails_only else "active"


def strategy_key(text: str) -> str:
    """Return the first ten words, lower-case and joined by hyphens: lessons of one key advise
    the same (D-17).
    """
    words = re.sub(r"[^0-9A-Za-z]+", " ", text).lower().split()
    return "-".join(words[:_WORDS_OF_KEY]) or "reflection-strategy"


def ema(effectiveness: float, outcome: float, alpha: float) -> float:
    """Return the effectiveness after an outcome, 1 for success and 0 for failure: a moving
    average (E-10).
    """
    return rounded(effectiveness + alpha * (outcome - effectiveness))


def embed(text: str) -> list[float]:
    """Return the text's vector: 32 floats of norm 1. Raises UnicodeEncodeError for a lone
    surrogate.
    """
    integers = struct.unpack(f"<{_DIMENSIONS}I", shake_256(text.encode()).digest(4 * _DIMENSIONS))
    vector = [integer / 0xFFFFFFFF * 2 - 1 for integer in integers]
    norm = math.sqrt(math.fsum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]
