"""The format in which the page names the place of a line."""

from __future__ import annotations

from reflector.playbook_files.watching import PLAYBOOK, Line


def place_of(line: Line) -> str:
    """Return FILE:LINE of a line, the name of a rule of the playbook."""
    if line.file == PLAYBOOK and line.name:
        return line.name
    return line.place
