"""How the page names the place of a line."""

from __future__ import annotations

from reflector.playbook_files.watching import Line

#: In the place of a file, for a rule of the playbook that no file of the project contains.
PLAYBOOK = "playbook"


def place_of(line: Line) -> str:
    """Return FILE:LINE of a line, the name of a rule of the playbook."""
    if line.file == PLAYBOOK and line.name:
        return line.name
    return line.place
