"""What outcomes say of a lesson, and the vector of its text, as numbers that anybody can compute again.

Invariant: pure, and every number is rounded to 6 decimals before it is compared, so 32-bit and 64-bit arithmetic agree
at every boundary. A vector depends on the text alone: SHAKE-256 gives 32 integers, IEEE division and a square root that
is correctly rounded do the rest, so no platform differs in any bit. Equal texts are close, and all others are far.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import shake_256
from typing import Any, Final, Literal

from reflector.events.lessons import OUTCOMES, POLARITY
from reflector.mistakes import Mistake
from reflector.quality.signals import rounded

State = Literal["active", "decayed", "archived", "needs_review", "retracted"]

#: What each kind of outcome adds to the confidence.
DELTAS: Final = {kind: delta for kind, (_, delta) in OUTCOMES.items()}

#: Confidence without a retry, from a retry that gained nothing, and from one that gained all; and its bounds.
_UNTRIED, _LEAST_TRIED, _MOST_TRIED, _GAIN = 0.62, 0.55, 0.90, 0.35
_LEAST, _MOST = 0.30, 0.97
#: A lesson that failed twice, never succeeded and is trusted less than this is archived.
_ARCHIVED_BELOW: Final = 0.40
#: The effectiveness of a lesson before its first outcome.
UNPROVEN: Final = 0.5
_WORDS_OF_KEY: Final = 10
_DIMENSIONS: Final = 32


def label_of(kind: str) -> str:
    """Return a kind of outcome in words."""
    return kind.replace("_", " ").capitalize().replace("Pre execution", "Pre-execution")


@dataclass(frozen=True, slots=True)
class OutcomeSignal:
    """An outcome that was observed at a time (ISO 8601 in UTC). Raises ValueError for a kind that does not exist."""

    kind: str
    observed_at: str
    summary: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in DELTAS:
            raise Mistake(f"{self.kind!r} is not a kind of outcome; the kinds are {', '.join(DELTAS)}")


def merge_outcome_signals(stored: Iterable[Any], incoming: Iterable[Any]) -> tuple[Any, ...]:
    """Return one signal of each kind, in order of `observed_at`: the last one to come stands (D-15)."""
    by_kind: dict[str, Any] = {}
    for signal in (*stored, *incoming):
        by_kind.pop(signal.kind, None)
        by_kind[signal.kind] = signal
    return tuple(sorted(by_kind.values(), key=lambda signal: signal.observed_at))


def score_improvement(initial: float, retried: float) -> float:
    """Return the share of the gap to 1 that a retry closed, from 0 to 1 (D-12)."""
    if not retried > initial:  # NaN as well
        return 0.0
    return rounded(min(1.0, (retried - initial) / max(1 - initial, 1e-9)))


def promotion_confidence(improvement: float | None, signals: Iterable[Any]) -> float:
    """Return how far a lesson is trusted, from 0.30 to 0.97 (D-13). `improvement` is that of its retry, from 0 to 1."""
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
    """Return active, decayed or archived (D-17). The book decides whether two lessons contradict each other."""
    fails_only = failures >= 2 and successes == 0
    if failures >= 3 or (fails_only and rounded(confidence) < _ARCHIVED_BELOW):
        return "archived"
    return "decayed" if fails_only else "active"


def strategy_key(text: str) -> str:
    """Return the first ten words, lower-case and joined by hyphens: lessons of one key advise the same (D-17)."""
    words = re.sub(r"[^0-9A-Za-z]+", " ", text).lower().split()
    return "-".join(words[:_WORDS_OF_KEY]) or "reflection-strategy"


def ema(effectiveness: float, outcome: float, alpha: float) -> float:
    """Return the effectiveness after an outcome, 1 for success and 0 for failure: a moving average (E-10)."""
    return rounded(effectiveness + alpha * (outcome - effectiveness))


def embed(text: str) -> list[float]:
    """Return the text's vector: 32 floats of norm 1. Raises UnicodeEncodeError for a lone surrogate."""
    integers = struct.unpack(f"<{_DIMENSIONS}I", shake_256(text.encode()).digest(4 * _DIMENSIONS))
    vector = [integer / 0xFFFFFFFF * 2 - 1 for integer in integers]
    norm = math.sqrt(math.fsum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]
