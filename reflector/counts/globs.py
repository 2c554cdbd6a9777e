"""Patterns of paths, such as `src/**/*.ts`, as regular expressions.

Invariant: the search takes linear time for each place at which a path may begin, because a
repository brings the patterns and a session the paths. So each star except the last takes its first
match and keeps it. A later one could not find more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reflector.text.lazy import lazy_pattern

_CHOICE = lazy_pattern(r"\{([^{}]*)\}")
#: A pattern with more choices is not expanded.
_MOST_CHOICES = 64
_FOLDERS = lazy_pattern(r"(?:\*\*/)+")


def glob_expression(pattern: str, name: str = "[^/]") -> str:
    """Return an expression for the paths that a pattern describes, without an anchor.

    `*` stands for a part of a name, `**` for folders, and `{a,b}` for a choice. Other signs have no
    meaning, because folders have names such as `[id]`.

    name  an expression for one character of a file's name
    """
    plain = pattern.removeprefix("./").rstrip("/")
    paths = [_of_folders(choice, name) for choice in _choices_of(plain)]
    return paths[0] if len(paths) == 1 else f"(?:{'|'.join(paths)})"


def _choices_of(pattern: str) -> list[str]:
    """Return the patterns without choices that a pattern stands for."""
    patterns = [pattern]
    while len(patterns) <= _MOST_CHOICES and _CHOICE.search(patterns[0]):
        patterns = [choice for each in patterns for choice in _first_choice(each)]
    return patterns if len(patterns) <= _MOST_CHOICES else [pattern]


def _first_choice(pattern: str) -> list[str]:
    choice = _CHOICE.search(pattern)
    if choice is None:
        return [pattern]
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    return [f"{before}{option}{after}" for option in choice[1].split(",")]


def _of_folders(pattern: str, name: str) -> str:
    folder = f"(?:{name}+/)*"
    whole = f"{pattern}/*" if pattern == "**" or pattern.endswith("/**") else pattern
    return _joined(folder, [_of_names(section, name) for section in _FOLDERS.split(whole)])


def _of_names(pattern: str, name: str) -> str:
    return "/".join(_of_name(each, name) for each in pattern.split("/"))


def _of_name(pattern: str, name: str) -> str:
    return _joined(f"{name}*", [*map(re.escape, re.split(r"\*+", pattern))])


def _joined(between: str, pieces: Sequence[str]) -> str:
    """Return an expression for pieces with something between them; only the last may be sought
    again.
    """
    first, *others = pieces
    kept = "".join(f"(?>{between}?{piece})" for piece in others[:-1])
    return first + kept + "".join(between + piece for piece in others[-1:])
