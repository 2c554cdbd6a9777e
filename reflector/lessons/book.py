"""All lessons with what became of them: a pure fold over their events.

Invariant: the book is a function of (events, policy). Nothing in it is stored, so another policy shows another book of
the same events, and a larger bank brings evicted lessons back. Lessons and outcomes are taken in the order in which
they happened, not in which they stand, so two ledgers that merged agree on every number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.event import Event, Moment, first_moment, identity
from reflector.events.lessons import POLARITY
from reflector.events.state import REDACTED, Playbook
from reflector.ledger.as_of import Past
from reflector.lessons.journal import Journal
from reflector.lessons.outcomes import (
    UNPROVEN,
    State,
    ema,
    merge_outcome_signals,
    promotion_confidence,
    score_improvement,
    state_of,
    strategy_key,
    tally,
)
from reflector.mistakes import Mistake, check_share, check_whole
from reflector.quality.signals import rounded

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


@dataclass(frozen=True, slots=True)
class LessonPolicy:
    """How outcomes are read; a view, which changes no event.

    alpha      weight of the newest outcome in the effectiveness, from 0 to 1
    threshold  the least confidence of a lesson that is told
    bank_size  lessons of one kind that are kept
    promotion  the least confidence of a lesson that is due for promotion
    """

    alpha: float = 0.2
    threshold: float = 0.5
    bank_size: int = 100
    promotion: float = 0.75

    def __post_init__(self) -> None:
        for name in ("alpha", "threshold", "promotion"):
            check_share(name, getattr(self, name))
        check_whole("bank_size", self.bank_size, 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome of a lesson that was not retracted. `observed_at` is ISO 8601 in UTC."""

    event_id: str
    position: int
    kind: str
    observed_at: str
    source: str
    why: str
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson and its worth under a policy.

    id             of the event that recorded it
    data           of that event: kind, text and the rest
    signals        the outcomes that the confidence counts; of a reflection one of each kind
    worth          the effectiveness after each outcome that spoke for or against it, oldest first
    improvement    what its retry gained, from 0 to 1; None without one
    times_applied  how many times it was shown to a session or a task
    banked         False once a better one took its place
    proposal       the id of the proposal that it was promoted by, `bullet` the name that it became
    """

    id: str
    position: int
    created_at: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    actor: str
    data: Mapping[str, Any]
    outcomes: tuple[Outcome, ...] = ()
    signals: tuple[Outcome, ...] = ()
    worth: tuple[float, ...] = ()
    improvement: float | None = None
    confidence: float = 0.0
    successes: int = 0
    failures: int = 0
    state: State = "active"
    times_applied: int = 0
    banked: bool = True
    proposal: str | None = None
    bullet: str | None = None

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
    def effectiveness(self) -> float:
        """The moving average of its outcomes, from 0 to 1."""
        return self.worth[-1] if self.worth else UNPROVEN

    @property
    def is_tellable(self) -> bool:
        """Whether it may be told: in the bank, neither erased, retracted, archived nor contradicted."""
        there = bool(self.text.strip()) and self.text != REDACTED
        return there and self.banked and self.state in ("active", "decayed")

    @property
    def is_kept(self) -> bool:
        """Whether the bank has it as a mistake. One that fails often sinks in it, and is the first to go."""
        there = self.banked and self.state != "retracted" and self.text != REDACTED
        return there and self.kind == "mistake"

    def is_due(self, policy: LessonPolicy) -> bool:
        """Return whether it is due for promotion, now or later than its session (D-18)."""
        trusted = self.confidence >= policy.promotion
        return trusted and self.proposal is None and self.state == "active" and self.is_tellable


@dataclass(frozen=True, slots=True)
class LessonBook:
    """The lessons by id, in the order in which they were recorded."""

    policy: LessonPolicy
    lessons: Mapping[str, Lesson] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Lesson]:
        return iter(self.lessons.values())

    def named(self, beginning: str) -> Lesson:
        """Return the lesson of an id, or of the unique beginning of one. Raises Mistake."""
        found = [one for id, one in self.lessons.items() if beginning and id.startswith(beginning.strip().lower())]
        if len(found) != 1:
            what = f"{len(found)} lessons' ids begin" if found else "no lesson's id begins"
            raise Mistake(f"{what} with {beginning[:80]!r}; see `reflector lessons`")
        return found[0]

    def best(self) -> list[Lesson]:
        """Return the lessons that may be told and are trusted, the best first."""
        trusted = [one for one in self if one.is_tellable and one.confidence >= self.policy.threshold]
        return sorted(trusted, key=lambda one: (-one.confidence, -one.effectiveness, one.position))


def lesson_book(of: Journal | Past, policy: LessonPolicy | None = None) -> LessonBook:
    """Return the book of a ledger or a `Memory`, or of a moment of a ledger. Raises LedgerError."""
    return fold_lessons(_events(of, *BOOK_TYPES), policy)


def _events(of: Journal | Past, *types: str) -> Iterator[Event]:
    journal, upto = (of.ledger, of.position) if isinstance(of, Past) else (of, None)
    return journal.events(types=types, upto=upto)


def fold_lessons(events: Iterable[Event], policy: LessonPolicy | None = None) -> LessonBook:
    """Return the book that events make, in whatever order they stand; other types are passed over."""
    policy = policy or LessonPolicy()
    taken = sorted(events, key=lambda event: (event.occurred_at, _arrived(event)))
    covers = Playbook()
    by_type: dict[str, list[Event]] = defaultdict(list)
    for event in taken:
        by_type[event.type].append(event)
    for event in by_type[ev.EVIDENCE_RETRACTED]:
        covers.retract(event)
    drafts = {event.event_id: _Draft(event) for event in by_type[ev.LESSON_RECORDED]}
    bank: dict[str, list[_Draft]] = defaultdict(list)
    for event in taken:
        draft = drafts.get((event.event_id if event.type == ev.LESSON_RECORDED else event.target_id) or "")
        window = (event.data or {}).get("window") if event.type == ev.OUTCOME_OBSERVED else None
        if draft is None or not all(covers.active(id) for id in (event.event_id, window) if id):
            continue
        if event.type == ev.LESSON_RECORDED and _counts(event, covers):
            _store(bank[draft.kind], draft, policy)
        elif event.type == ev.OUTCOME_OBSERVED:
            draft.observe(event, policy)
        elif event.type == ev.REVISION_ATTEMPTED and event.data:
            draft.improvement = score_improvement(float(event.data["initial"]), float(event.data["retried"]))
        elif event.type in (ev.BULLET_PROPOSED, ev.CHANGE_PROPOSED):
            draft.proposal = event.event_id
    for event in by_type[ev.ADVICE_TOLD]:
        for id in set((event.data or {}).get("lessons", ())):
            if id in drafts:
                drafts[id].times_applied += 1
    bullets = {event.target_id: str((event.data or {}).get("name")) for event in by_type[ev.BULLET_ADDED]}
    made = [draft.lesson(bullets.get(draft.proposal)) for draft in drafts.values()]
    counted = {id for id, draft in drafts.items() if _counts(draft.event, covers)}
    made = _contradicted([one if one.id in counted else replace(one, state="retracted") for one in made])
    return LessonBook(policy, {one.id: one for one in sorted(made, key=lambda one: one.position)})


def figures(of: Journal | Past) -> dict[str, Any]:
    """Return how often a gate reflected, what retries gained, and what the bank keeps. Raises LedgerError."""
    decided = [event.data or {} for event in _events(of, ev.GATE_DECIDED)]
    retries = [event.data or {} for event in _events(of, ev.REVISION_ATTEMPTED)]
    return {
        "total_reflections": sum(bool(data.get("reflects")) for data in decided),
        "retries_triggered": len(retries),
        "improvements_made": sum(bool(data.get("improved")) for data in retries),
        **bank_figures(lesson_book(of)),
    }


def bank_figures(book: LessonBook) -> dict[str, float | int]:
    """Return how many mistakes the bank keeps, how many it could, and their average effectiveness, 0.0 without one."""
    bank = [one for one in book if one.is_kept]
    average = sum(one.effectiveness for one in bank) / len(bank) if bank else 0.0
    return {
        "lessons_stored": len(bank),
        "bank_capacity": book.policy.bank_size,
        "average_lesson_effectiveness": rounded(average),
    }


def is_used(found: dict[str, Any]) -> bool:
    """Return whether anything was counted."""
    return any(found[name] for name in ("total_reflections", "retries_triggered", "lessons_stored"))


def _arrived(event: Event) -> Moment:
    """Return when an event was first recorded, in whichever ledger."""
    return first_moment(event.meta, (event.recorded_at, "", event.position))


@dataclass(slots=True)
class _Draft:
    """A lesson while its events are folded."""

    event: Event
    outcomes: list[Outcome] = field(default_factory=list)
    arrived: dict[str, Moment] = field(default_factory=dict)
    worth: list[float] = field(default_factory=list)
    improvement: float | None = None
    times_applied: int = 0
    banked: bool = True
    proposal: str | None = None

    def __post_init__(self) -> None:
        stated = (self.event.data or {}).get("improvement")
        self.improvement = float(stated) if stated is not None else None

    @property
    def effectiveness(self) -> float:
        return self.worth[-1] if self.worth else UNPROVEN

    @property
    def kind(self) -> str:
        return str((self.event.data or {}).get("kind"))

    def observe(self, event: Event, policy: LessonPolicy) -> None:
        data = event.data or {}
        kind = str(data.get("kind"))
        if kind not in POLARITY:
            return  # of a newer version
        source, why = str(data.get("source")), str(data.get("why") or "")
        about = (event.event_id, event.position, kind, event.occurred_at, source, why, event.session_id)
        self.outcomes.append(Outcome(*about))
        self.arrived[event.event_id] = _arrived(event)
        if POLARITY[kind]:
            self.worth.append(ema(self.effectiveness, float(POLARITY[kind] > 0), policy.alpha))

    def lesson(self, bullet: str | None) -> Lesson:
        signals: Sequence[Outcome] = self.outcomes
        if self.kind == "reflection":
            signals = merge_outcome_signals((), sorted(self.outcomes, key=lambda one: self.arrived[one.event_id]))
        confidence = promotion_confidence(self.improvement, signals)
        successes, failures = tally(signals)
        lately = failures if self.kind == "reflection" else _failures_lately(signals)
        event = self.event
        return Lesson(
            id=event.event_id,
            position=event.position,
            created_at=event.occurred_at,
            session_id=event.session_id,
            reflection_id=event.reflection_id,
            target_id=event.target_id,
            actor=event.actor,
            data=event.data or {},
            outcomes=tuple(self.outcomes),
            signals=tuple(signals),
            worth=tuple(self.worth),
            improvement=self.improvement,
            confidence=confidence,
            successes=successes,
            failures=failures,
            state=state_of(confidence, successes, lately),
            times_applied=self.times_applied,
            banked=self.banked,
            proposal=self.proposal,
            bullet=bullet if self.proposal else None,
        )


def _failures_lately(outcomes: Iterable[Outcome]) -> int:
    """Return the failures since the last success: of a lesson whose every outcome counts, a few say nothing."""
    failures = 0
    for one in outcomes:
        failures = 0 if POLARITY[one.kind] > 0 else failures + (POLARITY[one.kind] < 0)
    return failures


def _store(bank: list[_Draft], draft: _Draft, policy: LessonPolicy) -> None:
    """Put a lesson into the bank of its kind, in the place of the worst where it is full (E-11)."""
    if draft.kind == _UNBANKED:
        return
    if len(bank) == policy.bank_size:
        worst = min(bank, key=lambda one: (one.effectiveness, one.event.occurred_at, one.event.event_id))
        worst.banked = False
        bank.remove(worst)
    bank.append(draft)


def _counts(event: Event, covers: Playbook) -> bool:
    """Return whether neither a lesson nor its reflection nor its window was retracted."""
    reflection = identity(ev.REFLECTION_COMPLETED, event.reflection_id) if event.reflection_id else None
    return all(covers.active(id) for id in (event.event_id, reflection, event.target_id) if id)


def _contradicted(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return the lessons; those of one kind and key of which some only succeeded and some only failed need a review."""
    one_sided: dict[tuple[str, str], list[Lesson]] = defaultdict(list)
    for one in lessons:
        if one.state != "retracted" and (one.successes == 0) != (one.failures == 0):
            one_sided[one.kind, strategy_key(one.text)].append(one)
    both = [group for group in one_sided.values() if len({one.successes > 0 for one in group}) == 2]
    disputed = {one.id for group in both for one in group}
    return [replace(one, state="needs_review") if one.id in disputed else one for one in lessons]
