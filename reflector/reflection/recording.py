"""What became of a recorded window: an answer, or why there is none, each as an event.

Invariant: an answer is in the ledger before anybody reads it. The backend is called between transactions, never inside
one, and whatever it does ends as an event: what is raised comes from the ledger only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from reflector.config import Config
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent
from reflector.ledger.canonical import NotCanonical
from reflector.ledger.store import Ledger, WindowRow
from reflector.reflection import reflection_events as events_of
from reflector.reflection.gate import Gate
from reflector.reflection.protocol import Answer, Backend, BackendError, trouble_of
from reflector.text.secrets import quote
from reflector.transcripts.reading import UnknownTranscript

Outcome = Literal["completed", "skipped", "failed", "waiting"]


@dataclass(frozen=True, slots=True)
class Reflected:
    """How one window's reflection ended, and the verdicts that were counted.

    stage  where it failed
    again  whether a failed one is tried again by itself
    """

    session_id: str | None
    window_id: str
    outcome: Outcome
    detail: str = ""
    stage: str = ""
    again: bool = False
    #: The cited bullets that count and got no helpful or harmful verdict; no document has them.
    undecided: tuple[str, ...] = field(default=(), repr=False)


class Recorder:
    """Records for one ledger what one backend says of its windows."""

    def __init__(self, ledger: Ledger, backend: Backend, *, gate: Gate | None = None, max_attempts: int = 5) -> None:
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
        """Return the answer to one question, appended as what `kept` makes of it; whatever else came is an event
        too."""
        try:
            try:
                answer = ask()
            except (OSError, UnknownTranscript) as error:
                return self.failed(window, "transcript", str(error))
            except BackendError as error:
                if error.stage == "budget":
                    return self.skipped(window, recorded, f"what is left of the monthly budget is too little: {error}")
                facts: Any = {"final": error.final, "retry_after": error.retry_after, "usage": error.usage}
                return self.failed(window, error.stage, str(error), error.attempts, **facts)
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

    def completed(self, window: WindowRow, detail: str) -> Reflected:
        """Return how a window ended whose reflection was appended."""
        return Reflected(window.session_id, window.event_id, "completed", detail)

    def skipped(self, window: WindowRow, recorded: Event, reason: str) -> Reflected:
        """Record that the gate is closed."""
        if window.state != "skipped":  # one that was asked about by hand is skipped already, perhaps for another reason
            made = partial(events_of.skipped, window, recorded, self.backend.name, quote(reason, 500))
            # Of a trajectory, some questions may have been answered since the gate was closed for the first time.
            known = [
                one.event_id for one in self.ledger.targeting(window.event_id) if one.type == ev.REFLECTION_SKIPPED
            ]
            self.ledger.append([made(len(known)) if made().event_id in known else made()])
        return Reflected(window.session_id, window.event_id, "skipped", reason)

    def failed(
        self,
        window: WindowRow,
        stage: str,
        message: str,
        attempts: int = 1,
        *,
        final: bool = False,
        **facts: Any,
    ) -> Reflected:
        """Record what went wrong; `facts` are further ones of its event."""
        facts |= {"attempts": attempts, "final": final}
        self.ledger.append([events_of.failed(window, self.backend.name, stage, message, **facts)])
        trouble = trouble_of(self.ledger.targeting(window.event_id))
        again = not final and trouble is not None and trouble.attempts < self.max_attempts
        said = f"{stage}: {quote(message, 500)}"
        return Reflected(window.session_id, window.event_id, "failed", said, stage, again)
