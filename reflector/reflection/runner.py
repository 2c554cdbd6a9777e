"""Reflecting on recorded windows: gate, backend, answer, tags.

Invariant: an answer is in the ledger before anybody reads it. A reflection goes session.recorded →
reflection.answered → reflection.completed with its tags, each step one transaction, and can be taken up
after a crash at any of them without asking the backend again. The backend is called between
transactions, never inside one, and whatever it does ends as an event: the runner raises for the ledger only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

from reflector.ledger import event as ev
from reflector.ledger.canonical import NotCanonical
from reflector.ledger.event import Event, NewEvent, identity
from reflector.ledger.store import BulletRow, Ledger, WindowRow
from reflector.reflection.answers import PARSER_VERSION, ParsedTag, parse_answer
from reflector.reflection.protocol import Answer, Backend, BackendError, Request
from reflector.reflection.redaction import clean, quote, redact
from reflector.reflection.window import still_carried, window_messages
from reflector.transcripts.source import UnknownTranscript

#: A failed reflection waits this long before it is tried again, twice as long after each further failure.
BACKOFF = timedelta(minutes=1)
MAX_ANSWER = 4_000_000
_VERDICTS = frozenset({"helpful", "harmful", "neutral"})

Outcome = Literal["completed", "skipped", "failed", "waiting"]


@dataclass(frozen=True, slots=True)
class Reflected:
    """How one window's reflection ended, and the verdicts that were counted."""

    window_id: str
    outcome: Outcome
    detail: str = ""


def reflection_id_of(window_id: str, backend: str) -> str:
    """The id of a backend's reflection on a window: the same for every attempt."""
    return identity("reflection", window_id, backend)


class Runner:
    """Finishes open windows of one ledger with one backend."""

    def __init__(self, ledger: Ledger, backend: Backend, *, max_attempts: int = 5) -> None:
        self.ledger = ledger
        self.backend = backend
        self.max_attempts = max_attempts

    def finish_pending(self, *, retry_failed: bool = False) -> list[Reflected]:
        """Finish every open window, oldest first; those that failed lately wait for their backoff."""
        return [
            self.finish(window) if retry_failed or self._is_due(window) else Reflected(window.event_id, "waiting")
            for window in self.ledger.open_windows()
        ]

    def _is_due(self, window: WindowRow) -> bool:
        if window.state != "failed":
            return True
        if window.attempts >= self.max_attempts:
            return False
        since = datetime.fromisoformat(window.changed_at)
        wait: timedelta = BACKOFF * 2 ** (window.attempts - 1)
        return datetime.now(UTC) - since >= wait

    def finish(self, window: WindowRow) -> Reflected:
        """Take one window through the steps it still lacks."""
        recorded = self.ledger.event(window.event_id)
        if recorded is None or recorded.data is None:
            return self._failed(window, None, "window", "the session's event was redacted before it was judged")
        reflection_id = reflection_id_of(window.event_id, self.backend.name)
        answered = self._answer_of(window, reflection_id)
        if answered is not None:
            return self._complete(window, recorded, answered)
        rows = self.ledger.rows()
        live = {row.name: row for row in rows if row.status == "live"}
        carried = still_carried(self.ledger, recorded)
        cited = tuple(name for name in dict.fromkeys([*carried, *recorded.data["cited"]]) if name in live)
        closed = self._closed(cited, live)
        if closed:
            return self._skip(window, recorded, closed)
        request = Request(
            session_id=recorded.session_id or "",
            playbook=tuple(row.bullet for row in live.values()),
            cited=cited,
            messages=partial(window_messages, self.ledger, recorded, carried),
        )
        try:
            answer = self.backend.answer(request)
        except (OSError, UnknownTranscript) as error:
            return self._failed(window, recorded, "transcript", str(error))
        except BackendError as error:
            return self._failed(window, recorded, error.stage, str(error), error.attempts)
        except Exception as error:  # noqa: BLE001  a backend's bug is a recorded failure, never a lost session
            return self._failed(window, recorded, "backend", f"{type(error).__name__}: {error}")
        try:
            event = self._answered_event(window, recorded, request, answer)
            self.ledger.append([event])
        except NotCanonical as error:
            return self._failed(window, recorded, "answer", str(error))
        stored = self.ledger.event(event.event_id)
        assert stored is not None  # it was appended above
        return self._complete(window, recorded, stored)

    def _closed(self, cited: Sequence[str], live: Mapping[str, BulletRow]) -> str | None:
        """Why the gate is closed, or None. `rules` judges citations only; a model could learn from the rest."""
        if not live:
            return "the playbook is empty"
        if not cited:
            return "the window cites nothing"
        return None

    def _answer_of(self, window: WindowRow, reflection_id: str) -> Event | None:
        if window.state == "pending":
            return None
        answers = [
            event
            for event in self.ledger.targeting(window.event_id)
            if event.type == ev.REFLECTION_ANSWERED and event.reflection_id == reflection_id
        ]
        return answers[-1] if answers else None

    def _answered_event(self, window: WindowRow, recorded: Event, request: Request, answer: Answer) -> NewEvent:
        reflection_id = reflection_id_of(window.event_id, self.backend.name)
        return NewEvent(
            ev.REFLECTION_ANSWERED,
            identity(ev.REFLECTION_ANSWERED, reflection_id, 1),
            {
                "mode": request.mode,
                "backend": self.backend.name,
                "model": answer.model,
                "prompt_sha256": answer.prompt_sha256,
                "template_sha256": answer.template_sha256,
                "answer": redact(_storable(answer.text[:MAX_ANSWER])),
                "iteration": 1,
            },
            actor=self.backend.name,
            session_id=recorded.session_id,
            reflection_id=reflection_id,
            target_id=window.event_id,
            meta=answer.meta,
        )

    def _complete(self, window: WindowRow, recorded: Event, answered: Event) -> Reflected:
        if answered.data is None:
            return self._failed(window, recorded, "answer", "the answer was redacted before it was read")
        parsed = parse_answer(answered.data["answer"])
        if parsed.failed:
            reason = "; ".join(parsed.problems) or "the answer holds no JSON object"
            return self._failed(window, recorded, "parse", reason)
        reflection_id = answered.reflection_id or ""
        status = {row.name: row.status for row in self.ledger.rows()}
        tags = parsed.tags
        completed = NewEvent(
            ev.REFLECTION_COMPLETED,
            identity(ev.REFLECTION_COMPLETED, reflection_id),
            {
                "analysis": parsed.analysis,
                "rationales": [{"index": tag.index, "rationale": tag.rationale} for tag in tags if tag.rationale],
                "parser": PARSER_VERSION,
                "strategy": parsed.strategy,
                "problems": list(parsed.problems),
                "backend": self.backend.name,
                "model": answered.data["model"],
            },
            actor=self.backend.name,
            session_id=recorded.session_id,
            reflection_id=reflection_id,
            target_id=window.event_id,
        )
        tagged = [_tag_event(tag, status, reflection_id, recorded, self.backend.name) for tag in tags]
        self.ledger.append([completed, *tagged])
        counted = [f"{e.data['name']} {e.data['tag']}" for e in tagged if e.data["disposition"] == "counted"]
        return Reflected(window.event_id, "completed", ", ".join(counted))

    def _skip(self, window: WindowRow, recorded: Event, reason: str) -> Reflected:
        event = NewEvent(
            ev.REFLECTION_SKIPPED,
            identity(ev.REFLECTION_SKIPPED, window.event_id),
            {"reason": reason, "trigger": recorded.data["trigger"] if recorded.data else None},
            actor=self.backend.name,
            session_id=recorded.session_id,
            target_id=window.event_id,
        )
        self.ledger.append([event])
        return Reflected(window.event_id, "skipped", reason)

    def _failed(
        self, window: WindowRow, recorded: Event | None, stage: str, message: str, attempts: int = 1
    ) -> Reflected:
        text = quote(message, 500)
        reflection_id = reflection_id_of(window.event_id, self.backend.name)
        event = NewEvent(
            ev.REFLECTION_FAILED,
            identity(ev.REFLECTION_FAILED, reflection_id, window.attempts + 1),
            {"stage": clean(stage, 40), "message": text, "attempts": attempts, "backend": self.backend.name},
            actor=self.backend.name,
            session_id=recorded.session_id if recorded else window.session_id,
            reflection_id=reflection_id,
            target_id=window.event_id,
        )
        self.ledger.append([event])
        return Reflected(window.event_id, "failed", f"{stage}: {text}")


def _tag_event(tag: ParsedTag, status: Mapping[str, str], reflection_id: str, recorded: Event, actor: str) -> NewEvent:
    data: dict[str, Any] = {
        "index": tag.index,
        "name": tag.name,
        "tag": tag.tag,
        "disposition": _disposition(tag, status),
    }
    return NewEvent(
        ev.BULLET_TAGGED,
        identity(ev.BULLET_TAGGED, reflection_id, tag.index),
        data,
        actor=actor,
        session_id=recorded.session_id,
        reflection_id=reflection_id,
    )


def _disposition(tag: ParsedTag, status: Mapping[str, str]) -> str:
    """What becomes of a tag: only `counted` counts, the rest is kept as a fact."""
    if tag.malformed is not None or tag.name is None:
        return "malformed"
    if tag.tag not in _VERDICTS:
        return "unknown_tag"
    if tag.name not in status:
        return "unknown_bullet"
    if status[tag.name] != "live":
        return "retired_bullet"
    return "neutral" if tag.tag == "neutral" else "counted"


def _storable(text: str) -> str:
    """Text that has a canonical form: lone surrogates replaced."""
    return text.encode("utf-8", "replace").decode()
