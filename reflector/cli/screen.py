"""The first screen of `reflector`, and the list of every command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from reflector.cli.table import GROUPS, MORE, Entry

#: The first screen fits in a terminal of 24 rows and 80 columns.
WIDTH = 80
_PROMISE = "See which rules help your coding agent, which rules the agent breaks, and why."
_OPTIONS = (
    ("--project DIRECTORY", "Work on the playbook of another folder."),
    ("--user", "Work on your own playbook, which applies everywhere."),
    ("--version", "Show the version."),
    ("-h, --help", "Explain a command, as in reflector list --help."),
)


def first_screen() -> str:
    """Return the commands that a user needs in the first month, two in a row."""
    lines = [_PROMISE, ""]
    for title, group in GROUPS.items():
        lines.append(title)
        lines += _rows(group)
    more = f"For more, run `reflector help --all`: {' '.join(MORE)}."
    lines += ["", *textwrap.wrap(more, WIDTH), "To start, run: reflector check"]
    return "\n".join(lines)


def every_command() -> str:
    """Return every command that users type, one in a row, and their common options."""
    groups: Mapping[str, Mapping[str, Entry]] = {**GROUPS, "More": MORE}
    width = max(len(name) for group in groups.values() for name in group)
    lines = [_PROMISE]
    for title, group in groups.items():
        lines += ["", title]
        lines += (f"  {name:<{width}}  {entry.summary}" for name, entry in group.items())
    lines += ["", "Options (type them before the command)"]
    lines += _pairs(_OPTIONS)
    return "\n".join(lines)


def _rows(group: Mapping[str, Entry]) -> Iterator[str]:
    """Yield the commands of a group, two in a row."""
    names = max(len(name) for titled in GROUPS.values() for name in titled)
    cells = [f"  {name:<{names}} {entry.summary}" for name, entry in group.items()]
    for left, right in zip_longest(cells[::2], cells[1::2], fillvalue=""):
        yield f"{left:<{WIDTH // 2}}{right}".rstrip()


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return names and their descriptions in two columns."""
    width = max(len(name) for name, _ in pairs)
    return [f"  {name:<{width}}  {text}" for name, text in pairs]
