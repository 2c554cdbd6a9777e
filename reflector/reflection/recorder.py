"""The events of a reflection, and the recorder that appends them for one backend.

Invariant: an event's id is derived from the window, the backend and a count of earlier events,
never from words, a clock or a random number. So a step that is repeated after a crash is the same
event.

Every question to a judge goes through `Recorder.ask_and_store`: those about sessions
(`reflector.reflection.runner`), about bullets (`checking`) and about trajectories (`trajectories`).
The raw answer is appended before anything reads it, so a crash in between needs no second question.
The backend is called between transactions, never inside one. Each of its failures becomes an event,
and only the ledger's own errors are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from reflector.config import Config
from reflector.events.event import (
    BULLET_TAGGED,
    EVIDENCE_RETRACTED,
    HUMAN,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_FAILED,
    REFLECTION_SKIPPED,
    Event,
    NewEvent,
    completion_id,
    identity,
)
from reflector.judges.protocol import (
    Answer,
    Backend,
    BackendError,
    Mode,
    judge_named,
)
from reflector.ledger.canonical import NotCanonical
from reflector.ledger.store import BulletRow, Ledger, WindowRow
from reflector.playbook.bullet import VERDICTS
from reflector.reflection.gate import Gate, waiting_words
from reflector.reflection.trouble import trouble_of
from reflector.reflection.window import tags_of
from reflector.text.bounds import clean, encodable, whole_end
from reflector.text.secrets import quote, redact
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.judges.answers import Parsed, ParsedTag
    from reflector.judges.evidence import Ground
    from reflector.prices import Usage

_MAX_ANSWER_CHARACTERS = 4_000_000
_MAX_STAGE_CHARACTERS = 40
_MAX_MESSAGE_CHARACTERS = 500
#: The stop reasons of an answer that the model itself ended.
_WHOLE_STOPS = ("", "end_turn", "stop_sequence")
#: The reason of a failure whose answer has no text any more.
REDACTED_ANSWER = "the answer was redacted before reflector read it"
Outcome = Literal["completed", "skipped", "failed", "waiting"]


class Failure(NamedTuple):
    """Why a window's reflection, or one question about the window, failed.

    stage        the failed step: see `BackendError`, and parse, transcript, window, dataset
    attempts     how many requests were made
    final        whether the window is not tried again automatically
    retry_after  seconds that the API asks to wait
    usage        tokens that the requests took or may have taken
    parser       the version of the parser that found no answer
    place        of the question in a window with several questions
    answer_id    of the unreadable answer, in a window with several questions
    """

    stage: str
    message: str
    attempts: int = 1
    final: bool = False
    retry_after: float = 0.0
    usage: Usage | None = None
    parser: int | None = None
    place: Sequence[int] = ()
    answer_id: str = ""


def reflection_id_of(window_id: str, backend: str, about: Sequence[str | int] = ()) -> str:
    """Return the id of a backend's reflection on a window, or on a part of it: the same for every
    attempt.
    """
    return identity("reflection", window_id, backend, *about)


def answer_id(reflection_id: str, iteration: int, part: int, tries: int = 1) -> str:
    """Return the id of the event of an answer; `tries` counts how often its question was asked."""
    place: tuple[int, ...] = (iteration, part, tries)
    if tries == 1:
        place = (iteration,) if part == 1 else (iteration, part)
    return identity(REFLECTION_ANSWERED, reflection_id, *place)


def answer_event(
    recorded: Event,
    backend: str,
    mode: Mode,
    answer: Answer,
    *,
    place: tuple[int, int] = (1, 1),
    tries: int = 1,
    about: Sequence[str | int] = (),
    question: Mapping[str, Any] = MappingProxyType({}),
) -> NewEvent:
    """Return the event of a raw answer, without secrets.

    place     how often the whole window was asked about, and the part of it
    tries     how often this part was asked in this place
    about     distinguishes several reflections of one backend on a window: each verdict that you
              give is one
    question  the fields about the question to a model; an answer that has them needs evidence
    """
    iteration, part = place
    reflection_id = reflection_id_of(recorded.event_id, backend, about)
    end = whole_end(answer.text, _MAX_ANSWER_CHARACTERS)
    data: dict[str, Any] = {
        "mode": mode,
        "backend": backend,
        "model": answer.model,
        "prompt_sha256": answer.prompt_sha256,
        "template_sha256": answer.template_sha256,
        "answer": redact(encodable(answer.text[:end])),
        "iteration": iteration,
        **question,
    }
    if part > 1:
        data["part"] = part
    if answer.unquoted:
        data["unquoted"] = True
    if answer.left_out:
        data["left_out"] = dict(answer.left_out)
    return NewEvent(
        REFLECTION_ANSWERED,
        answer_id(reflection_id, iteration, part, tries),
        data,
        backend,
        meta=answer.meta,
        session_id=recorded.session_id,
        reflection_id=reflection_id,
        target_id=recorded.event_id,
    )


def completion_events(
    recorded: Event,
    reflection_id: str,
    parsed: Parsed,
    answer: Event | NewEvent,
    rows: Mapping[str, BulletRow],
    tags: Sequence[ParsedTag],
    grounds: Mapping[int, Ground] = MappingProxyType({}),
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> list[NewEvent]:
    """Return the event of an answer's reading, and the events of its tags.

    answer   the last answer that was read
    rows     the bullets, by name
    tags     those that get an event
    grounds  the evidence of tags, by index; empty for a judge that needs no evidence
    extra    further fields of the reading
    """
    from reflector.judges.answers import PARSER_VERSION

    answer_data: Mapping[str, Any] = answer.data or {}
    is_unquoted = bool(answer_data.get("unquoted"))
    # A verdict has the time of its session, whenever a judge gave it.
    common: Any = {
        "actor": answer.actor,
        "occurred_at": None if answer.actor == HUMAN else recorded.occurred_at,
        "session_id": recorded.session_id,
        "reflection_id": reflection_id,
    }
    reading = {
        "analysis": parsed.analysis,
        "rationales": list(_rationales(parsed.tags, grounds)),
        "parser": PARSER_VERSION,
        "strategy": parsed.strategy,
        "problems": list(parsed.problems),
        "backend": answer_data.get("backend"),
        "model": answer_data.get("model"),
        **extra,
    }
    reading_id = completion_id(reflection_id)
    target_id = recorded.event_id
    events = [NewEvent(REFLECTION_COMPLETED, reading_id, reading, target_id=target_id, **common)]
    for tag in tags:
        data = _tag_data(tag, rows, grounds.get(tag.index), is_unquoted=is_unquoted)
        tag_id = identity(BULLET_TAGGED, reflection_id, tag.index)
        events.append(NewEvent(BULLET_TAGGED, tag_id, data, **common))
    return events


def _rationales(
    tags: Sequence[ParsedTag], grounds: Mapping[int, Ground]
) -> Iterator[dict[str, Any]]:
    """Yield the rationale of each tag that has a rationale or a quote. The quote is included if the
    tag has a ground.
    """
    for tag in tags:
        if not (tag.rationale or tag.quote):
            continue
        words = {"index": tag.index, "rationale": tag.rationale}
        ground = grounds.get(tag.index)
        if ground and tag.quote:
            words |= {"turn": tag.turn, "quote": tag.quote, "words": ground.words, "sure": tag.sure}
        yield words


def _tag_data(
    tag: ParsedTag, rows: Mapping[str, BulletRow], ground: Ground | None, *, is_unquoted: bool
) -> dict[str, Any]:
    disposition = _disposition(tag, rows, ground)
    data = {"index": tag.index, "name": tag.name, "tag": tag.tag, "disposition": disposition}
    if tag.followed:
        data["followed"] = tag.followed
    if is_unquoted and disposition == "counted":
        data["unquoted"] = True
    return data


def _disposition(tag: ParsedTag, rows: Mapping[str, BulletRow], ground: Ground | None) -> str:
    """Return the disposition of a tag: only `counted` counts, the rest is kept as a fact."""
    if tag.malformed is not None or tag.name is None:
        return "malformed"
    if tag.tag not in VERDICTS:
        return "unknown_tag"
    if tag.name not in rows:
        return "unknown_bullet"
    # Late evidence on a merged bullet counts for the bullet that has its evidence now.
    if not rows[tag.name].counts:
        return "retired_bullet"
    fault = ground.fault if ground else ""
    if tag.tag == "neutral":
        return fault if fault == "not_asked" else "neutral"
    return fault or "counted"


def skip_event(
    window: WindowRow, recorded: Event, backend: str, reason: str, earlier: int = 0
) -> NewEvent:
    """Return the event that the gate was closed for a window.

    Its id follows from the number of the window's failed attempts. `earlier` is the number of the
    window's earlier events of this type, if one of them already has that id.
    """
    place = [window.attempts] if window.attempts or earlier else []
    if earlier:
        place.append(earlier)
    return NewEvent(
        REFLECTION_SKIPPED,
        identity(REFLECTION_SKIPPED, recorded.event_id, *place),
        {"reason": reason, "trigger": recorded.fact("trigger")},
        backend,
        session_id=recorded.session_id,
        target_id=recorded.event_id,
    )


def failure_event(
    window: WindowRow, backend: str, failure: Failure, *, actor: str | None = None, client: str = ""
) -> NewEvent:
    """Return the event of a failure; `client` is the judge that the backend asked, if it asks more
    than one.
    """
    reflection_id = reflection_id_of(window.event_id, backend)
    data: dict[str, Any] = {
        "stage": clean(failure.stage, _MAX_STAGE_CHARACTERS),
        "message": quote(failure.message, _MAX_MESSAGE_CHARACTERS),
        "attempts": failure.attempts,
        "backend": backend,
    }
    if failure.parser is not None:
        data["parser"] = failure.parser
    if failure.final:
        data["final"] = True
    if client:
        data["client"] = clean(client, _MAX_STAGE_CHARACTERS)
    if failure.answer_id:
        data |= {"part": [*failure.place[:2]], "answer": failure.answer_id}
    meta: dict[str, object] = {}
    if failure.retry_after > 0:
        meta["retry_after"] = ceil(failure.retry_after)
    if failure.usage and failure.usage.total:
        meta |= failure.usage.meta()
    place = failure.place or (window.attempts + 1,)
    return NewEvent(
        REFLECTION_FAILED,
        identity(REFLECTION_FAILED, reflection_id, *place),
        data,
        actor or backend,
        meta=meta,
        session_id=window.session_id,
        reflection_id=reflection_id,
        target_id=window.event_id,
    )


def retraction_event(
    event: Event | NewEvent,
    reason: str,
    actor: str,
    *,
    reflection_id: str | None = None,
    target_id: str = "",
) -> NewEvent:
    """Return the event that takes another event out of the count. If that was put back, `target_id`
    is the event that put it back.
    """
    target_id = target_id or event.event_id
    return NewEvent(
        EVIDENCE_RETRACTED,
        identity(EVIDENCE_RETRACTED, target_id),
        {"reason": reason},
        actor,
        session_id=event.session_id,
        reflection_id=reflection_id,
        target_id=target_id,
    )


def retraction_of(
    ledger: Ledger, event: Event, reason: str, actor: str, reflection_id: str | None = None
) -> NewEvent:
    """Return the event that takes a recorded event out of the count. If that was retracted and put
    back, the target is the event that put it back.
    """
    last = [event, *ledger.retractions(event.event_id)][-1]
    return retraction_event(
        event, reason, actor, reflection_id=reflection_id, target_id=last.event_id
    )


def decisions(line: Sequence[Event]) -> Sequence[Event]:
    """Return a line of retractions without the pairs in which a user's verdict replaced another one
    and was then taken back.
    """
    while len(line) > 1 and line[0].actor == HUMAN and line[0].reflection_id is not None:
        line = line[2:]
    return line


def taken_back_again(ledger: Ledger, old: Event, events: Sequence[NewEvent]) -> Iterator[NewEvent]:
    """Yield retractions of the new tags that repeat a verdict which the user took back or replaced.
    If a verdict of the user replaced it, the tag comes back with the verdict's retraction.

    Every earlier reading by this judge is examined, because the old one may lack the verdict.
    """
    kind = (old.actor, old.fact("mode"))
    taken_back: dict[tuple[Any, Any], Event | None] = {}
    for reading in ledger.targeting(old.target_id or "", [REFLECTION_COMPLETED]):
        if (reading.actor, reading.fact("mode")) != kind:
            continue
        for tag in tags_of(ledger, reading):
            line = decisions(ledger.retractions(tag.event_id))
            is_by_user = len(line) % 2 == 1 and line[-1].actor == HUMAN
            taken_back[tag.fact("name"), tag.fact("tag")] = line[-1] if is_by_user else None
    for event in events:
        if event.type != BULLET_TAGGED:
            continue
        if last := taken_back.get((event.data["name"], event.data["tag"])):
            reason = "you took back or replaced this verdict before"
            yield retraction_event(event, reason, HUMAN, reflection_id=last.reflection_id)


def with_stop_reason(fault: str, answer: Event) -> str:
    """Return why a text is not an answer, with its stop reason if that may be the cause."""
    stop_reason = str(answer.meta.get("stop_reason") or "")
    return fault if stop_reason in _WHOLE_STOPS else f"{fault} (stop_reason {stop_reason})"


@dataclass(frozen=True, slots=True)
class Reflected:
    """How one window's reflection ended, and the verdicts that were counted.

    stage       the failed step
    again       whether a failed one is tried again automatically
    dropped     the helpful and harmful verdicts that do not count, each with the reason
    instead_of  the judge that was asked before and gave no answer; "" without one
    """

    session_id: str | None
    window_id: str
    outcome: Outcome
    detail: str = ""
    stage: str = ""
    again: bool = False
    dropped: tuple[str, ...] = ()
    instead_of: str = ""
    #: The cited bullets that count and got no helpful or harmful verdict; no document has them.
    undecided: tuple[str, ...] = field(default=(), repr=False)

    @property
    def words(self) -> str:
        """The result of a completed one: the verdicts that count and those that do not; "" if all
        are neutral.
        """
        parts = [self.detail, *self.dropped]
        if self.instead_of:
            parts.append(f"instead of {self.instead_of}, which did not answer")
        return ", ".join(filter(None, parts))


class Recorder:
    """Records for one ledger the answers of one backend about its windows."""

    def __init__(
        self, ledger: Ledger, backend: Backend, *, gate: Gate | None = None, max_attempts: int = 5
    ) -> None:
        self.ledger = ledger
        self.backend = backend
        self.gate = Gate(Config(), Path()) if gate is None else gate
        self.max_attempts = max_attempts

    def ask_and_store(
        self,
        window: WindowRow,
        recorded: Event,
        ask: Callable[[], Answer],
        event_of: Callable[[Answer], NewEvent],
    ) -> Event | Reflected:
        """Ask one question about a window and append the raw answer, before anything reads it.

        Return the answer as appended; if there is none, how the window's reflection ended, which
        is recorded too.

        ask       asks the backend
        event_of  returns the event of its answer

        Raises:
            LedgerError: the ledger cannot be read or written.
        """
        try:
            answer = _answer_or_failure(ask)
            if isinstance(answer, Failure):
                return self.record_no_answer(window, recorded, answer)
            event = event_of(answer)
            self.ledger.append([event])
        except NotCanonical as error:
            return self.record_no_answer(window, recorded, Failure("answer", str(error)))
        finally:
            # The event of a failure is in the ledger by now; its tokens are spent as well.
            if self.backend.is_model:
                self.gate.settle(self.ledger)
        stored = self.ledger.event(event.event_id)
        assert stored is not None  # it was appended above
        return stored

    def record_no_answer(self, window: WindowRow, recorded: Event, failure: Failure) -> Reflected:
        """Record why a question has no answer. A spent budget is not a failure: the window waits
        until the budget allows the question.
        """
        if failure.stage != "budget":
            return self.fail(window, failure)
        reason = failure.message
        if not waiting_words(reason):
            reason = f"the rest of the monthly budget is too small: {reason}"
        return self.skip(window, recorded, reason)

    def skip(self, window: WindowRow, recorded: Event, reason: str) -> Reflected:
        """Record that the gate is closed."""
        # A window that was asked about by hand is already skipped, perhaps for another reason.
        if window.state != "skipped":
            new_skip = partial(skip_event, window, recorded, self.backend.name, quote(reason, 500))
            event = new_skip()
            # The gate may have been closed before, and answers about other parts of a trajectory
            # may have followed.
            earlier = self.ledger.targeting(window.event_id, [REFLECTION_SKIPPED])
            if event.event_id in [past.event_id for past in earlier]:
                event = new_skip(len(earlier))
            self.ledger.append([event])
        return Reflected(window.session_id, window.event_id, "skipped", reason)

    def fail(self, window: WindowRow, *failures: Failure) -> Reflected:
        """Record failures of one window, at least one; return how its reflection ended, with the
        message of the last one.
        """
        client = self.who(window)
        backend = self.backend.name
        events = [failure_event(window, backend, failure, client=client) for failure in failures]
        self.ledger.append(events)
        story = self.ledger.targeting(window.event_id)
        trouble = trouble_of(story, judge_named(backend, client))
        is_tried_again = trouble is not None and not trouble.is_over(self.max_attempts)
        stage = failures[-1].stage
        detail = f"{stage}: {events[-1].data['message']}"
        return Reflected(
            window.session_id, window.event_id, "failed", detail, stage, is_tried_again
        )

    def who(self, window: WindowRow) -> str:
        """Return the judge that the backend asks about a window, "" for the only one."""
        return ""


def _answer_or_failure(ask: Callable[[], Answer]) -> Answer | Failure:
    """Return a backend's answer; everything that it raises is a failure."""
    try:
        return ask()
    except (OSError, UnknownTranscript) as error:
        return Failure("transcript", str(error))
    except BackendError as error:
        return Failure(
            error.stage,
            str(error),
            attempts=error.attempts,
            final=error.final,
            retry_after=error.retry_after,
            usage=error.usage,
        )
    except Exception as error:  # noqa: BLE001  a backend's bug is a recorded failure
        return Failure("backend", f"{type(error).__name__}: {error}")
