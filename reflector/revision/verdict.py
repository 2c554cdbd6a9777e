"""The verdict on a step, read from what a model answered (requirements E-06 and E-07).

Invariant: a verdict is a pure function of the answer and the threshold. An answer that says nothing clear has no
verdict: neither a score nor a retry follows from it. At most `MOST` characters are read, in linear time.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reflector.quality.signals import ReflectionTrigger, rounded
from reflector.reflection.answers import objects_in

MOST: Final = 200_000
UNREADABLE: Final = "the answer holds neither a quality score nor a clear word"

_MOST_ISSUES = 100
#: "no issues", "without any errors" and the like say the opposite of their words.
_NOUN = r"(?:issues?|errors?|problems?)\b"
_NEGATED = re.compile(
    rf"\b(?:no|without|zero|not any|free of)\s+(?:\w+\s+){{0,2}}?{_NOUN}"
    rf"(?:(?:\s*+,\s*+{_NOUN})*+\s*+,?\s*+\bn?or\s++(?:any\s++)?{_NOUN}|\s*+/\s*+{_NOUN})*+",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:incorrect|wrong|missing|incomplete|fails?|failed|inaccurate|errors?|issues?|problems?)\b", re.IGNORECASE
)
_POSITIVE = re.compile(r"\b(?:correct|complete|accurate|good|passes)\b", re.IGNORECASE)
#: A key of an object: `"issues":` says nothing of issues.
_KEY = re.compile(r'"\w++"\s*+:')
_BY_WORDS: Final = {(True, False): 0.3, (False, True): 0.8, (True, True): 0.4}


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """What a reflection on a step found.

    passes_quality_gate  whether the score reaches the threshold; None without a verdict
    quality_score        from 0 to 1; None without a verdict
    should_retry         whether a better answer should be asked for
    retry_guidance       what to tell the agent then; "" for nothing
    reflection_time_ms   how long the answer took to read
    failure              why there is no verdict; "" where there is one
    """

    triggered_by: ReflectionTrigger
    passes_quality_gate: bool | None
    quality_score: float | None
    issues_found: list[str] = field(default_factory=list)
    suggested_fix: str | None = None
    should_retry: bool = False
    retry_guidance: str = ""
    reflection_time_ms: float = 0.0
    failure: str = ""


def read_verdict(llm_response: str, trigger: ReflectionTrigger, threshold: float) -> ReflectionResult:
    """Return what an answer says: by its JSON object, else by its words."""
    begun = time.perf_counter()
    score, issues, fix = _said(llm_response[:MOST])
    took = (time.perf_counter() - begun) * 1000
    if score is None:
        return ReflectionResult(trigger, None, None, issues, fix, reflection_time_ms=took, failure=UNREADABLE)
    passes = rounded(score) >= rounded(threshold)
    guidance = "" if passes else fix or "; ".join(issues)
    return ReflectionResult(trigger, passes, score, issues, fix, not passes, guidance, took)


def _said(text: str) -> tuple[float | None, list[str], str | None]:
    """(score, issues, fix) of an answer."""
    objects = [found.value or {} for found in objects_in(text)]
    chosen = next((one for one in objects if _score(one.get("quality_score")) is not None), None)
    if chosen is not None:
        return _score(chosen["quality_score"]), _issues(chosen), _text(chosen.get("suggested_fix")) or None
    rest = _NEGATED.sub("", _KEY.sub("", text))
    issues = next((found for one in objects if (found := _issues(one))), [])
    return _BY_WORDS.get((bool(_NEGATIVE.search(rest)), bool(_POSITIVE.search(rest)))), issues, None


def _score(value: Any) -> float | None:
    """Return a number, or a text that is one, within 0 and 1; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return None
    return None if not math.isfinite(score) else rounded(min(max(score, 0.0), 1.0))


def _issues(value: Mapping[str, Any]) -> list[str]:
    given = value.get("issues")
    several = given[:_MOST_ISSUES] if isinstance(given, list) else [given]
    return [text for text in map(_text, several) if text]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
