"""What another gate policy would have reflected on in the recorded sessions, and what that would cost.

Invariant: nothing is appended and nobody is asked. A decision depends on the policy and on what the transcript's own
records say; a window whose transcript is gone has none. The cost is that of asking a model about the window with
today's playbook: what the ledger recorded where the model has answered, an estimate elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.quality.policy import Decision, GatePolicy, Signs
from reflector.reflection.gate import signs_of
from reflector.reflection.judging import Judge, Judgement, case_of
from reflector.reflection.window import quality_of

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.quality.window import WindowQuality


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A recorded window under another policy.

    quality   None where the transcript cannot be read; `lack` says why
    decision  None for the same reason
    tokens    what a model would be sent about it; None where it would not be asked, or cannot be
    """

    window: WindowRow
    quality: WindowQuality | None
    decision: Decision | None
    tokens: int | None = None
    lack: str = ""

    @property
    def reflects_now(self) -> bool:
        """Whether somebody reflected on the window, or will."""
        return self.window.state != "skipped"

    @property
    def reflects_then(self) -> bool:
        """Whether the other policy would have."""
        return self.decision is not None and self.decision.reflects


def shadow(ledger: Ledger, policy: GatePolicy, judge: Judge) -> Iterator[Shadowed]:
    """Yield each recorded window under a policy, oldest first, with what asking `judge` costs. Raises LedgerError."""
    for window in ledger.windows():
        recorded = ledger.event(window.event_id)
        quality = quality_of(recorded)
        if recorded is None or isinstance(quality, str):
            yield Shadowed(window, None, None, lack=str(quality))
            continue
        decision = policy.decide(signs_of(recorded, quality))
        yield Shadowed(window, quality, decision, _tokens(ledger, window, judge) if decision.reflects else None)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Recorded decisions about an embedder's turns and steps: how many reflect, then and under the other policy."""

    decided: int
    reflected: int
    would: int


def shadow_decisions(ledger: Ledger, policy: GatePolicy) -> Decisions:
    """Return what a policy would have decided where a gate was asked about a turn or a step. Raises LedgerError.

    How often a step was reflected on is counted as the policy itself would have reflected.
    """
    started: Counter[tuple[object, ...]] = Counter()
    decided = reflected = 0
    for event in ledger.events(types=[ev.GATE_DECIDED]):
        data = event.data or {}
        try:
            signs = Signs.read(data["signals"])
        except (KeyError, TypeError, ValueError):
            continue  # redacted, or of a program that looks at something else
        decided += 1
        reflected += data["reflects"] is True
        step = (event.session_id, data.get("task"), data.get("turn"), data.get("step"))
        started[step] += policy.decide(signs, started[step]).reflects
    return Decisions(decided, reflected, started.total())


def _tokens(ledger: Ledger, window: WindowRow, judge: Judge) -> int | None:
    case = case_of(ledger, window)
    if case is None:
        return None
    planned = judge.plan(case)
    if isinstance(planned, Judgement):
        return planned.spent.tokens or None
    return planned
