"""Two judges sent over recorded windows, the ones that cost nothing first.

Invariant: no call is made that cannot lead to a comparison. What costs nothing is judged while the trial is prepared,
and where one side cannot judge a window, the other is not asked about it. So the calls that `prepare`
plans are the most that `rulings` makes, apart from retries and halvings within a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.audit.comparison.agreement import Ruling, Side
from reflector.reflection.judging import Case, Judge, Judgement, case_of

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow

#: The other side could not judge the window.
_NOT_ASKED = Judgement(None)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is to be made, with its prompt's estimated tokens."""

    side: Side
    model: str
    tokens: int


@dataclass(slots=True)
class Trial:
    """A comparison in the making: `prepare`, ask who pays, then `rulings`.

    calls        the calls to make
    passed_over  windows in which there is nothing to compare: they cite no bullet of the playbook, and one of the
                 two judges only what is cited
    redacted     windows whose event was redacted
    """

    ledger: Ledger
    a: Judge
    b: Judge
    calls: list[Call] = field(default_factory=list, init=False)
    passed_over: int = field(default=0, init=False)
    redacted: int = field(default=0, init=False)
    _drawn: list[tuple[WindowRow, Judgement | None, Judgement | None]] = field(default_factory=list, init=False)

    def prepare(self, windows: Sequence[WindowRow]) -> Iterator[WindowRow]:
        """Judge what costs nothing and plan the rest; yields each window when it is done. Raises LedgerError."""
        for window in windows:
            case = case_of(self.ledger, window)
            if case is None:
                self.redacted += 1
            elif not self._is_worth(case):
                self.passed_over += 1
            else:
                self._draw(case)
            yield window

    def rulings(self) -> Iterator[Ruling]:
        """Make the planned calls, window by window, oldest first. Raises LedgerError."""
        for window, a, b in self._drawn:
            if a is None or b is None:
                case = case_of(self.ledger, window)
                if a is None:
                    a = _NOT_ASKED if b is None and self.b.refused else _asked(self.a, case)
                if b is None:
                    b = _NOT_ASKED if a.failure else _asked(self.b, case)
            yield Ruling(window.session_id or "", window.event_id, a, b)

    def _is_worth(self, case: Case) -> bool:
        return bool(case.request.playbook) and (bool(case.request.cited) or (self.a.uncited and self.b.uncited))

    def _draw(self, case: Case) -> None:
        plans: dict[Side, Judgement | int] = {}
        # A model last: its prompt is not even made where the other one fails.
        order: list[Side] = ["b", "a"] if self.a.is_model and not self.b.is_model else ["a", "b"]
        for side in order:
            judge = self.a if side == "a" else self.b
            failed = any(isinstance(plan, Judgement) and plan.verdicts is None for plan in plans.values())
            costs = judge.is_model and not judge.recorded(case)
            plans[side] = _NOT_ASKED if failed and costs else judge.plan(case)
        drawn = {side: plan if isinstance(plan, Judgement) else None for side, plan in plans.items()}
        sides: tuple[tuple[Side, Side], ...] = (("a", "b"), ("b", "a"))
        for side, other in sides:
            failed_there = drawn[other]
            if drawn[side] is None and failed_there is not None and failed_there.verdicts is None:
                drawn[side] = _NOT_ASKED
        for side, plan in plans.items():
            if drawn[side] is None and isinstance(plan, int):
                model = (self.a if side == "a" else self.b).model
                self.calls.append(Call(side, model, plan))
        self._drawn.append((case.window, drawn["a"], drawn["b"]))


def _asked(judge: Judge, case: Case | None) -> Judgement:
    # Redacted between the plan and the call.
    return Judgement(None, "the session's event was redacted") if case is None else judge.ask(case)
