"""The quality of an answer: its signals and their score (requirements D-02 to D-06), and the gate
policies that choose the turns and steps to reflect on.

Invariant: a score and a decision are pure functions of the signals. Numbers are rounded to 6
decimals before each comparison, so 32-bit and 64-bit arithmetic agree at a boundary. Triggers are
tried in the policy's order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from reflector.locate import parse_toml
from reflector.mistakes import check_share, check_whole
from reflector.resources import resource_dir

#: The number of decimals that a figure keeps for comparisons.
DECIMALS = 6
STATUSES = ("success", "error", "skipped")

#: The most that failed tools, a truncated answer and failure patterns each subtract.
_ERRORS = 0.4
_TRUNCATED = 0.15
_PATTERNS = 0.25
#: The share of the iterations above which further ones subtract from the score, and the factor.
_MANY, _EXCESS = 0.7, 0.5


def rounded(value: float) -> float:
    """Return a figure in the form for comparison: with 6 decimals, never a negative zero."""
    return round(value, DECIMALS) + 0.0


@dataclass(frozen=True, slots=True)
class QualitySignals:
    """The signals of an answer's quality.

    tool_error_rate       errors of all tool calls, from 0 to 1; skipped calls are not errors
    iterations_used       rounds that the agent took
    max_iterations        rounds that it could have taken; 0 for no limit
    was_truncated         whether the answer was cut off
    has_failure_patterns  whether its text gives up, asserts without a reason, or reports an error
                          without its structure
    is_empty_response     whether it is blank
    """

    tool_error_rate: float = 0.0
    iterations_used: int = 0
    max_iterations: int = 0
    was_truncated: bool = False
    has_failure_patterns: bool = False
    is_empty_response: bool = False

    def __post_init__(self) -> None:
        check_share("tool_error_rate", self.tool_error_rate)

    def score(self) -> float:
        """Return the score, from 0 (useless, or empty) to 1 (no signal is against the answer)."""
        if self.is_empty_response:
            return 0.0
        score = 1.0 - _ERRORS * self.tool_error_rate - _PATTERNS * self.has_failure_patterns
        score -= _TRUNCATED * self.was_truncated
        share = (
            rounded(self.iterations_used / self.max_iterations) if self.max_iterations > 0 else 0.0
        )
        if share > _MANY:
            score -= _EXCESS * (share - _MANY)
        return rounded(max(score, 0.0))


def quality_signals_for_response(
    content: str,
    tool_results: Sequence[Mapping[str, Any]],
    iterations_used: int,
    max_iterations: int,
    was_truncated: bool = False,
) -> QualitySignals:
    """Return the signals of an answer.

    A tool result is a mapping with `name`, `status` (success, error or skipped) and, for an error,
    `error`.

    Raises: ValueError for another status.
    """
    for result in tool_results:
        if (status := result.get("status")) not in STATUSES:
            raise ValueError(
                f"the status of the tool result {result.get('name')!r} is {status!r}; it must be "
                f"one of {', '.join(STATUSES)}"
            )
    errors = sum(result["status"] == "error" for result in tool_results)
    detectors = (
        detect_failure_patterns,
        detect_assertive_uncertainty,
        detect_missing_debug_structure,
    )
    return QualitySignals(
        tool_error_rate=errors / len(tool_results) if tool_results else 0.0,
        iterations_used=iterations_used,
        max_iterations=max_iterations,
        was_truncated=was_truncated,
        has_failure_patterns=any(detect(content) for detect in detectors),
        is_empty_response=not content.strip(),
    )


def detect_failure_patterns(text: str) -> bool:
    """Return whether a text gives up or reports that something failed."""
    return has_any(text, "failure_patterns")


def detect_assertive_uncertainty(text: str) -> bool:
    """Return whether a text makes an emphatic claim instead of giving a reason."""
    return has_any(text, "assertive_uncertainty")


def detect_missing_debug_structure(text: str) -> bool:
    """Return whether a text is about a defect and lacks its cause, or a way to verify it."""
    is_whole = has_any(text, "root_cause") and has_any(text, "verification")
    return has_any(text, "debug_context") and not is_whole


def has_any(text: str, words: str) -> bool:
    """Return whether a text contains a word of the list with this name, in any case and also as
    part of another word.
    """
    text = text.lower()
    return any(word in text for word in word_lists()[words])


@lru_cache(maxsize=1)
def word_lists() -> dict[str, list[str]]:
    """Return the lists of `prompts/words.toml` by name, in lower case."""
    return parse_toml((resource_dir("prompts") / "words.toml").read_text("utf-8"))


class ReflectionTrigger(StrEnum):
    """The reasons to start a reflection, the first one first."""

    LOW_CONFIDENCE = "low_confidence"
    HIGH_RISK = "high_risk"
    GOAL_DRIFT = "goal_drift"
    TOOL_FAILURE = "tool_failure"
    USER_CRITICAL = "user_critical"
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True)
class Signs:
    """The facts about a turn or a step for the decision of the gate.

    confidence     the estimated quality of the answer, from 0 to 1: the agent's own figure, or the
                   score of `signals`
    risk_level, goal_drift  from 0 to 1
    tool_failures  calls that failed
    step_number    the step of a task; 0 for a turn that is not a step
    is_final_step  whether the task ends with it
    """

    confidence: float
    risk_level: float = 0.0
    goal_drift: float = 0.0
    tool_failures: int = 0
    step_number: int = 0
    is_final_step: bool = False
    signals: QualitySignals | None = None

    def __post_init__(self) -> None:
        for name in _FACTS[:3]:
            check_share(name, getattr(self, name))
        for name in _FACTS[3:5]:
            check_whole(name, getattr(self, name))

    @property
    def facts(self) -> dict[str, float | int | bool]:
        """The figures that a decision's event keeps, so that another policy can be compared."""
        return {name: getattr(self, name) for name in _FACTS}

    @classmethod
    def of(cls, signals: QualitySignals, tool_failures: int = 0) -> Signs:
        """Return the signs of an answer with known signals. Their score is the confidence."""
        return cls(signals.score(), tool_failures=tool_failures, signals=signals)


_FACTS = (
    "confidence",
    "risk_level",
    "goal_drift",
    "tool_failures",
    "step_number",
    "is_final_step",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a gate. `trigger` is None if the gate stays closed; `reason` is the reason in
    words.
    """

    trigger: ReflectionTrigger | None
    reason: str

    @property
    def reflects(self) -> bool:
        return self.trigger is not None

    @property
    def facts(self) -> dict[str, Any]:
        """The decision in the form that its event keeps."""
        return {
            "reflects": self.reflects,
            "trigger": self.trigger and str(self.trigger),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The conditions for a reflection.

    triggers   the triggers to try, in this order; without any, the gate stays closed
    threshold  LOW_CONFIDENCE: the confidence is below it
    risk, drift  HIGH_RISK and GOAL_DRIFT: the figure is above it
    period     PERIODIC: the number of steps from one reflection to the next; 0 for never
    per_step   the most reflections on one step; None for no limit
    """

    triggers: tuple[ReflectionTrigger, ...] = (ReflectionTrigger.LOW_CONFIDENCE,)
    threshold: float = 0.6
    risk: float = 0.7
    drift: float = 0.4
    period: int = 0
    per_step: int | None = None

    def __post_init__(self) -> None:
        for name in ("threshold", "risk", "drift"):
            check_share(name, getattr(self, name))
        check_whole("period", self.period)
        check_whole("per_step", self.per_step or 0)

    @property
    def id(self) -> str:
        """The policy's id: 16 hex digits of the SHA-256 of its values."""
        values = {
            name: rounded(value) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }
        return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def decide(self, signs: Signs, started: int = 0) -> Decision:
        """Return the decision about a turn, or about a step that has `started` reflections."""
        if self.per_step is not None and started >= self.per_step:
            said = (
                f"step {signs.step_number} already has {started} reflections, and "
                f"{self.per_step} are allowed"
            )
            return Decision(None, said)
        for trigger in self.triggers:
            if reason := self._reason(trigger, signs):
                return Decision(trigger, reason)
        what = "confidence" if signs.signals is None else "quality score"
        return Decision(
            None,
            f"no trigger, {what} {signs.confidence:.2f}" if self.triggers else "reflection is off",
        )

    def _reason(self, trigger: ReflectionTrigger, signs: Signs) -> str:
        """Return the reason why a trigger fires; "" if it does not."""
        step = signs.step_number
        is_due = self.period and step > 0 and step % self.period == 0
        match trigger:
            case ReflectionTrigger.LOW_CONFIDENCE:
                return _low(signs, self.threshold)
            case ReflectionTrigger.HIGH_RISK:
                return _above("Risk level", signs.risk_level, self.risk)
            case ReflectionTrigger.GOAL_DRIFT:
                return _above("Goal drift", signs.goal_drift, self.drift)
            case ReflectionTrigger.TOOL_FAILURE if signs.tool_failures > 0:
                return f"Tool calls failed: {signs.tool_failures}"
            case ReflectionTrigger.USER_CRITICAL if signs.is_final_step:
                return "The final step"
            case ReflectionTrigger.PERIODIC if is_due:
                return f"Step {step}: the agent reflects on one of every {self.period} steps"
        return ""


def _above(what: str, value: float, limit: float) -> str:
    return f"{what} {value:.2f} above {limit:.2f}" if rounded(value) > rounded(limit) else ""


def _low(signs: Signs, threshold: float) -> str:
    if rounded(signs.confidence) >= rounded(threshold):
        return ""
    signals = signs.signals
    what = "Confidence" if signals is None else "Quality score"
    reason = f"{what} {signs.confidence:.2f} below threshold {threshold:.2f}"
    if signals:
        reason += (f" (tool errors: {signals.tool_error_rate * 100:.0f}%)") * (
            signals.tool_error_rate > 0
        )
        reason += " (truncated)" * signals.was_truncated
        reason += " (failure patterns detected)" * signals.has_failure_patterns
    return reason


#: The gate of a turn (D-07) and that of a step (E-02 to E-04).
PRESETS: Final[Mapping[str, GatePolicy]] = {
    "turn": GatePolicy(),
    "step": GatePolicy(triggers=tuple(ReflectionTrigger), threshold=0.5, period=5, per_step=2),
}
