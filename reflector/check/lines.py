"""Lines of files: which are rules, and how a place names them."""

from __future__ import annotations

from collections.abc import Iterable

from reflector.instructions.kinds import Kind
from reflector.playbook_files.watching import PLAYBOOK, Line


def is_fact(line: Line) -> bool:
    """Return whether a line is a fact on the page: a fact or a command."""
    return line.kind != Kind.RULE


def rules_of(lines: Iterable[Line]) -> list[Line]:
    """Return the rules: the lines that a judge is asked about."""
    return [line for line in lines if not is_fact(line)]


def place_of(line: Line) -> str:
    """Return FILE:LINE of a line, the name of a rule of the playbook."""
    if line.file == PLAYBOOK and line.name:
        return line.name
    return f"{line.file}:{line.number}"
