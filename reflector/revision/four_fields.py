"""The answer to the turn's reflection prompt: attempt, issue, strategy and tags, read from what a model wrote.

Invariant: closed in doubt. Without an attempt, an issue and a strategy, each of them not empty, there is no
reflection. Reading takes time linear in the text, of which at most `MOST` characters are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST: Final = 200_000

#: What a label may be called, in its normal form.
LABELS: Final = {
    **dict.fromkeys(("attempt", "attempt_summary", "summary", "what_was_attempted"), "attempt"),
    **dict.fromkeys(("issue", "failure", "failure_analysis", "problem", "analysis", "what_went_wrong"), "issue"),
    **dict.fromkeys(
        ("strategy", "corrective_strategy", "correction", "fix", "improvement_strategy", "next_time"), "strategy"
    ),
    **dict.fromkeys(("tags", "labels"), "tags"),
}
#: The keys of the one-line JSON that some models write instead.
_KEYS: Final = {
    "attempt": ("attempt_summary", "attempt"),
    "issue": ("failure_analysis", "issue"),
    "strategy": ("corrective_strategy", "strategy"),
}
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_PREFIX = re.compile(r"\s*+(?:(?:>|[-*•]\s|\d{1,9}[.)]\s)\s*+)*+")
#: A line that is only the frame of a JSON object or list.
_FRAME = re.compile(r"[\s{}\[\],]++")
_LABEL_ENDS = "*_`[]()# \t"
_VALUE_ENDS = "*_`\"' \t"


@dataclass(frozen=True, slots=True)
class FourFields:
    """What a reflection says; `tags` in order, each once."""

    attempt: str
    issue: str
    strategy: str
    tags: tuple[str, ...] = ()


def parse_four_fields(response: str) -> FourFields | None:
    """Return the fields of a response, None where one of the first three is missing or empty."""
    text = _THINKING.sub("", response[:MOST])
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("```")]
    return _labelled(lines) or _one_line("\n".join(lines))


def _labelled(lines: Iterable[str]) -> FourFields | None:
    found: dict[str, list[str]] = {"attempt": [], "issue": [], "strategy": [], "tags": []}
    current: list[str] | None = None
    for line in lines:
        rest = line[_PREFIX.match(line).end() :]  # type: ignore[union-attr]  # it matches "" as well
        label, colon, value = rest.partition(":")
        if colon and (name := LABELS.get(_normal(label))) is not None:
            current = found[name]
            current.append(value)
        elif current is not None and not _FRAME.fullmatch(rest):
            current.append(rest)
    attempt, issue, strategy = (_joined(found[name]) for name in ("attempt", "issue", "strategy"))
    return _sound(attempt, issue, strategy, (tag for value in found["tags"] for tag in _split(value)))


def _one_line(text: str) -> FourFields | None:
    """Return the fields of a text in the form of JSON, which need not be JSON."""
    attempt, issue, strategy = (
        next(filter(None, (_json_text(text, key) for key in keys)), "") for keys in _KEYS.values()
    )
    listed = re.search(r'"tags"\s*+:\s*+(?:\[([^\[\]]*+)\]|"([^"\\]*+)")', text)
    return _sound(attempt, issue, strategy, _split(listed[1] or listed[2] or "") if listed else ())


def _json_text(text: str, key: str) -> str:
    match = re.search(rf'"{key}"\s*+:\s*+("(?:[^"\\]|\\.)*+")', text, re.DOTALL)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1], strict=False)).strip()
    except ValueError:
        return ""


def _sound(attempt: str, issue: str, strategy: str, tags: Iterable[str]) -> FourFields | None:
    if not (attempt and issue and strategy):
        return None
    return FourFields(attempt, issue, strategy, tuple(dict.fromkeys(filter(None, tags))))


def _normal(label: str) -> str:
    if len(label) > 100:
        return ""
    kept = (
        character.lower() if character.isascii() and character.isalnum() else "_" if character in " -_" else ""
        for character in label.strip(_LABEL_ENDS)
    )
    return "".join(kept).strip("_")


def _joined(values: Iterable[str]) -> str:
    """Return the lines of a field as one. A comma at a line's end is the field's, behind a quote it is JSON's."""
    cleaned = (
        _cleaned(value) + "," * (value.rstrip().endswith(",") and value.rstrip(", ")[-1:] not in _VALUE_ENDS)
        for value in values
    )
    return " ".join(filter(None, cleaned)).rstrip(",")


def _cleaned(value: str) -> str:
    return " ".join(value.strip().rstrip(",").strip(_VALUE_ENDS).split())


def _split(value: str) -> list[str]:
    return [_cleaned(tag.strip("[]{} \t\n")) for tag in value.strip().strip("[]{}").split(",")]
