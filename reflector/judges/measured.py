"""The models whose verdicts were measured, and the words for how reliable a counting judge is.

Invariant: a model is identified only by the name that its own client recorded with the answer, and
only if one of reflector's own judges asked it. The words of an answer, a client of another package
and recorded answers never make a model a measured one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reflector.config import BACKENDS, OFFLINE, Config
from reflector.text.lazy import lazy_pattern


class MeasuredModel(NamedTuple):
    """A class of models with the figures of docs/judging.md.

    title    its name in docs/judging.md
    pattern  of the whole names of its models
    right    how many of 100 verdicts were right, by the model's certainty
    """

    title: str
    pattern: re.Pattern[str]
    right: Mapping[str, int]


#: Claude of the largest class, as Anthropic, Claude Code and clients for several makers name it.
MEASURED: Final = (
    MeasuredModel(
        "`claude-fable`",
        lazy_pattern(r"(?:anthropic/)?claude-fable-[0-9]+(?:[.-][0-9]+)*(?:\[1m\])?", re.ASCII),
        {"sure": 100, "likely": 100},
    ),
)
#: The same figures for a model that was not measured.
_UNMEASURED: Final[Mapping[str, int]] = {"sure": 100}


def counting_words(config: Config, answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the words of certainty with which a judge's verdicts count.

    answer  the data of the answer's event
    """
    return config.counting_words(_measured_right(answer) or _UNMEASURED)


def _measured_right(answer: Mapping[str, Any]) -> Mapping[str, int] | None:
    is_ours = answer.get("backend") in {*BACKENDS} - OFFLINE
    name = str(answer.get("model") or "")
    if not is_ours:
        return None
    return next((model.right for model in MEASURED if model.pattern.fullmatch(name)), None)
