"""The changed lines of a file as a ledger holds them: with their numbers, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from reflector.text.bounds import visible
from reflector.text.secrets import redact

_MOST_LINES = 200
_MAX_LINE = 1_000
#: More pairs of lines than this are not compared: the whole part counts as replaced.
_MOST_PAIRS = 4_000_000
HIDDEN = "[redacted]"


class Numbered(NamedTuple):
    """A line of a file; the number is 0 if it is not known."""

    number: int
    text: str


class LineChange(NamedTuple):
    """The lines that a change adds and removes."""

    added: list[Numbered]
    removed: list[Numbered]

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of an event."""
        facts: dict[str, Any] = {"added": _kept(self.added), "removed": _kept(self.removed)}
        if max(len(self.added), len(self.removed)) > _MOST_LINES:
            facts["more"] = len(self.added) + len(self.removed)
        return facts


def line_change(before: bytes | None, after: bytes | None) -> LineChange:
    """Return the lines that lead from one content of a file to the next."""
    old = _lines(before)
    new = _lines(after)
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    old_part = old[first : len(old) - last]
    new_part = new[first : len(new) - last]
    if len(old_part) * len(new_part) > _MOST_PAIRS:
        return LineChange(_numbered(new_part, first, new), _numbered(old_part, first, old))
    change = LineChange([], [])
    matcher = SequenceMatcher(None, old_part, new_part, autojunk=False)
    shown_old = _numbered(old_part, first, old)
    shown_new = _numbered(new_part, first, new)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            change.removed.extend(shown_old[old_start:old_end])
            change.added.extend(shown_new[new_start:new_end])
    return change


def lines_of(content: bytes) -> list[Numbered]:
    """Return the lines of a part of a file, whose numbers are not known."""
    lines = _lines(content)
    return [Numbered(0, line.text) for line in _numbered(lines, 0, lines)]


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines at the beginning are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    differing = (number for number, (left, right) in pairs if left != right)
    return next(differing, min(len(one), len(other)))


def _numbered(lines: Sequence[str], first: int, whole: Sequence[str]) -> list[Numbered]:
    """Return lines without secrets; a key has several lines, so the whole text is looked at."""
    text = "\n".join(whole)
    redacted = redact(visible(text))
    plain = None if redacted == text else set(redacted.split("\n"))
    return [
        Numbered(number, line if plain is None or line in plain else _masked(line))
        for number, line in enumerate(lines, start=first + 1)
    ]


def _masked(line: str) -> str:
    shown = visible(line)
    redacted = redact(shown)
    return redacted if redacted != shown or shown != line else HIDDEN


def _kept(lines: Iterable[Numbered]) -> list[dict[str, Any]]:
    return [{"line": line.number, "text": cut(line.text)} for line in list(lines)[:_MOST_LINES]]


def cut(text: str) -> str:
    """Return a line as long as an event has it."""
    return text[:_MAX_LINE] + "…" * (len(text) > _MAX_LINE)
