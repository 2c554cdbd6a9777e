"""The events that a reflection leaves, and the recorder that appends them for one backend.

Invariant: an event's id comes from the window, the backend and a count of what was there before,
never from words, a clock or a random number. So a step that is repeated after a crash is the same
event.

An answer is in the ledger before anybody reads it. The backend is called between transactions,
never inside one, and whatever it does ends as an event: what is raised comes from the ledger only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from reflector.config import Config
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.judges.protocol import (
    Answer,
    Backend,
    BackendError,
    Mode,
    judge_named,
)
from reflector.ledger.canonical import NotCanonical
from reflector.ledger.store import Ledger, WindowRow
from reflector.playbook.bullet import VERDICTS
from reflector.reflection.gate import Gate
from reflector.reflection.trouble import trouble_of
from reflector.text.bounds import clean, encodable, whole_end
from reflector.text.secrets import quote, redact
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.judges.answers import Parsed, ParsedTag
    from reflector.judges.evidence import Ground
    from reflector.prices import Usage

MAX_ANSWER = 4_000_000
Outcome = Literal["completed", "skipped", "failed", "waiting"]


def reflection_id_of(window_id: str, backend: str, about: Sequence[str | int] = ()) -> str:
    """Return the id of a backend's reflection on a window, or on some of it: the same for every
    attempt.
    """
    return identity("reflection", window_id, backend, *about)


def answer_id(reflection_id: str, iteration: int, part: int, tries: int = 1) -> str:
    """Return the id of the event of an answer; `tries` counts how often its question was asked."""
    place = (iteration,) if part == 1 else (iteration, part)
    return identity(
        ev.REFLECTION_ANSWERED, reflection_id, *(place if tries == 1 else (iteration, part, tries))
    )


def answered(
    recorded: Event,
    backend: str,
    mode: Mode,
    answer: Answer,
    *,
    place: tuple[int, int] = (1, 1),
    tries: int = 1,
    about: Sequence[str | int] = (),
    asked: Mapping[str, Any] = MappingProxyType({}),
) -> NewEvent:
    """Return a raw answer without secrets.

    `place` is (how many times the whole window was asked about, the part of it), `tries` how often
    this part was in this place. `about` tells several reflections of one backend on a window apart:
    each verdict of a person is one. `asked` has the fields of the event that say what a model was
    asked: whoever has them needs evidence.
    """
    iteration, part = place
    reflection_id = reflection_id_of(recorded.event_id, backend, about)
    data: dict[str, Any] = {
        "mode": mode,
        "backend": backend,
        "model": answer.model,
        "prompt_sha256": answer.prompt_sha256,
        "template_sha256": answer.template_sha256,
        "answer": redact(encodable(answer.text[: whole_end(answer.text, MAX_ANSWER)])),
        "iteration": iteration,
        **asked,
    }
    if part > 1:
        data["part"] = part
    if answer.unquoted:
        data["unquoted"] = True
    if answer.left_out:
        data["left_out"] = dict(answer.left_out)
    event_id = answer_id(reflection_id, iteration, part, tries)
    ids: Any = {
        "session_id": recorded.session_id,
        "reflection_id": reflection_id,
        "target_id": recorded.event_id,
    }
    return NewEvent(ev.REFLECTION_ANSWERED, event_id, data, backend, meta=answer.meta, **ids)


def completed(
    recorded: Event,
    reflection_id: str,
    parsed: Parsed,
    given: Event | NewEvent,
    status: Mapping[str, str],
    tags: Sequence[ParsedTag],
    grounds: Mapping[int, Ground] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
) -> list[NewEvent]:
    """Return the reflection as it was read, with `more` in its data, and those of its tags that add
    something. `given` is its last answer, `grounds` what its tags rest on by their index; none
    where they need no evidence.
    """
    from reflector.judges.answers import PARSER_VERSION

    said: Mapping[str, Any] = given.data or {}
    # A verdict is of its session's time, whenever a judge gave it.
    about: Any = {
        "actor": given.actor,
        "session_id": recorded.session_id,
        "reflection_id": reflection_id,
    }
    about["occurred_at"] = recorded.occurred_at if given.actor != ev.HUMAN else None
    worded = [tag for tag in parsed.tags if tag.rationale or tag.quote]
    read = {
        "analysis": parsed.analysis,
        "rationales": [
            {"index": tag.index, "rationale": tag.rationale} | _quoted(tag, grounds.get(tag.index))
            for tag in worded
        ],
        "parser": PARSER_VERSION,
        "strategy": parsed.strategy,
        "problems": list(parsed.problems),
        "backend": said.get("backend"),
        "model": said.get("model"),
        **more,
    }
    event_id = identity(ev.REFLECTION_COMPLETED, reflection_id)
    events = [
        NewEvent(ev.REFLECTION_COMPLETED, event_id, read, target_id=recorded.event_id, **about)
    ]
    for tag in tags:
        data = {"index": tag.index, "name": tag.name, "tag": tag.tag}
        data |= {"disposition": _disposition(tag, status, grounds.get(tag.index))}
        data |= {"followed": tag.followed} if tag.followed else {}
        data |= (
            {"unquoted": True} if said.get("unquoted") and data["disposition"] == "counted" else {}
        )
        events.append(
            NewEvent(
                ev.BULLET_TAGGED,
                identity(ev.BULLET_TAGGED, reflection_id, tag.index),
                data,
                **about,
            )
        )
    return events


def skipped(
    window: WindowRow, recorded: Event, backend: str, reason: str, before: int = 0
) -> NewEvent:
    """Return a gate that was closed; `before` counts how often it was, where answers came in
    between.
    """
    place = (window.attempts, before)[: 2 if before else 1] if window.attempts or before else ()
    event_id = identity(ev.REFLECTION_SKIPPED, recorded.event_id, *place)
    data, of = {"reason": reason, "trigger": recorded.facts.get("trigger")}, recorded.event_id
    return NewEvent(
        ev.REFLECTION_SKIPPED, event_id, data, backend, session_id=recorded.session_id, target_id=of
    )


def failed(
    window: WindowRow,
    backend: str,
    stage: str,
    message: str,
    *,
    attempts: int = 1,
    final: bool = False,
    actor: str | None = None,
    parser: int | None = None,
    retry_after: float = 0.0,
    usage: Usage | None = None,
    place: Sequence[int] = (),
    client: str = "",
    answer: Event | None = None,
) -> NewEvent:
    """Anything that went wrong; a `final` one is not tried again by itself. `retry_after` is how
    many seconds an API wants to be left alone, `usage` what its requests took or may have taken,
    `place` the answer that could not be read where the window has several, with that `answer`,
    `client` whom the backend asked, where it asks more than one.
    """
    reflection_id = reflection_id_of(window.event_id, backend)
    data: dict[str, Any] = {
        "stage": clean(stage, 40),
        "message": quote(message, 500),
        "attempts": attempts,
        "backend": backend,
        **({} if parser is None else {"parser": parser}),
        **({"final": True} if final else {}),
        **({"client": clean(client, 40)} if client else {}),
        **({"part": [*place[:2]], "answer": answer.event_id} if answer is not None else {}),
    }
    meta: dict[str, object] = {"retry_after": ceil(retry_after)} if retry_after > 0 else {}
    if usage is not None and usage.total:
        meta |= usage.meta()
    event_id = identity(ev.REFLECTION_FAILED, reflection_id, *(place or (window.attempts + 1,)))
    ids: Any = {
        "session_id": window.session_id,
        "reflection_id": reflection_id,
        "target_id": window.event_id,
    }
    return NewEvent(ev.REFLECTION_FAILED, event_id, data, actor or backend, meta=meta, **ids)


def retraction(
    of: Event | NewEvent,
    reason: str,
    actor: str,
    *,
    reflection_id: str | None = None,
    target: str = "",
) -> NewEvent:
    """Return the event that takes another out of the count, or a `target` that put it back."""
    target = target or of.event_id
    ids: Any = {"session_id": of.session_id, "reflection_id": reflection_id, "target_id": target}
    return NewEvent(
        ev.EVIDENCE_RETRACTED,
        identity(ev.EVIDENCE_RETRACTED, target),
        {"reason": reason},
        actor,
        **ids,
    )


def _quoted(tag: ParsedTag, ground: Ground | None) -> dict[str, Any]:
    if ground is None or not tag.quote:
        return {}
    return {"turn": tag.turn, "quote": tag.quote, "words": ground.words, "sure": tag.sure}


def _disposition(tag: ParsedTag, status: Mapping[str, str], ground: Ground | None) -> str:
    """Return what becomes of a tag: only `counted` counts, the rest is kept as a fact."""
    if tag.malformed is not None or tag.name is None:
        return "malformed"
    if tag.tag not in VERDICTS:
        return "unknown_tag"
    if tag.name not in status:
        return "unknown_bullet"
    # Late evidence on a merged bullet counts, for the one that has its evidence too.
    if status[tag.name] not in ("live", "merged"):
        return "retired_bullet"
    if (
        ground is not None
        and ground.fault
        and (tag.tag != "neutral" or ground.fault == "not_asked")
    ):
        return ground.fault
    return "neutral" if tag.tag == "neutral" else "counted"


@dataclass(frozen=True, slots=True)
class Reflected:
    """How one window's reflection ended, and the verdicts that were counted.

    stage    where it failed
    again    whether a failed one is tried again by itself
    dropped  the helpful and harmful verdicts that do not count, each with the reason
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
        """What came of a completed one: the verdicts that count and those that do not; "" where
        all are neutral.
        """
        instead = (f"not by {self.instead_of}, which gave no answer",) if self.instead_of else ()
        return ", ".join(filter(None, (self.detail, *self.dropped, *instead)))


class Recorder:
    """Records for one ledger what one backend says of its windows."""

    def __init__(
        self, ledger: Ledger, backend: Backend, *, gate: Gate | None = None, max_attempts: int = 5
    ) -> None:
        self.ledger = ledger
        self.backend = backend
        self.gate = Gate(Config(), Path(), {}) if gate is None else gate
        self.max_attempts = max_attempts

    def put(
        self,
        window: WindowRow,
        recorded: Event,
        ask: Callable[[], Answer],
        kept: Callable[[Answer], NewEvent],
    ) -> Event | Reflected:
        """Return the answer to one question, appended as what `kept` makes of it; whatever else
        came is an event too.
        """
        try:
            try:
                answer = ask()
            except (OSError, UnknownTranscript) as error:
                return self.failed(window, "transcript", str(error))
            except BackendError as error:
                if error.stage == "budget":
                    return self.skipped(
                        window,
                        recorded,
                        f"what is left of the monthly budget is too little: {error}",
                    )
                facts: Any = {
                    "attempts": error.attempts,
                    "final": error.final,
                    "retry_after": error.retry_after,
                }
                return self.failed(window, error.stage, str(error), **facts, usage=error.usage)
            except Exception as error:  # noqa: BLE001  a backend's bug is a recorded failure, never a lost session
                return self.failed(window, "backend", f"{type(error).__name__}: {error}")
            try:
                event = kept(answer)
                self.ledger.append([event])
            except NotCanonical as error:
                return self.failed(window, "answer", str(error))
            stored = self.ledger.event(event.event_id)
            assert stored is not None  # it was appended above
            return stored
        finally:
            if self.backend.is_model:
                self.gate.settle(self.ledger)

    def skipped(self, window: WindowRow, recorded: Event, reason: str) -> Reflected:
        """Record that the gate is closed."""
        # one that was asked about by hand is skipped already, perhaps for another reason
        if window.state != "skipped":
            made = partial(skipped, window, recorded, self.backend.name, quote(reason, 500))
            # Of a trajectory, some questions may have been answered since the gate was closed for
            # the first time.
            story = self.ledger.targeting(window.event_id)
            known = [one.event_id for one in story if one.type == ev.REFLECTION_SKIPPED]
            self.ledger.append([made(len(known)) if made().event_id in known else made()])
        return Reflected(window.session_id, window.event_id, "skipped", reason)

    def who(self, window: WindowRow) -> str:
        """Return whom the backend asks about a window, "" where it asks one alone."""
        return ""

    def failed(self, window: WindowRow, stage: str, message: str, **facts: Any) -> Reflected:
        """Record what went wrong; `facts` are further ones of its event, as the function of this
        name has them.
        """
        client = self.who(window)
        self.ledger.append(
            [failed(window, self.backend.name, stage, message, client=client, **facts)]
        )
        trouble = trouble_of(
            self.ledger.targeting(window.event_id), judge_named(self.backend.name, client)
        )
        again = trouble is not None and not trouble.is_over(self.max_attempts)
        said = f"{stage}: {quote(message, 500)}"
        return Reflected(window.session_id, window.event_id, "failed", said, stage, again)
