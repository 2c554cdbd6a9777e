"""How commands show things: tables for people, JSON for machines.

Invariant: no text from outside reaches a terminal with its control characters. Tables are cut to the terminal's
width; a pipe gets every character. JSON is one document a command, and escapes what a terminal would obey.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from reflector.reflection.redaction import clean

#: Characters that JSON may leave as they are but a terminal obeys or hides.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def safe(text: str) -> str:
    """Text of several lines, fit for a terminal."""
    return "\n".join(clean(line, 20_000) for line in text.split("\n"))


def print_json(value: Any) -> None:
    """One JSON document, indented, readable in any language."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False)
    click.echo(_UNSAFE.sub(lambda match: _escaped(match[0]), text).encode("utf-8", "replace"))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def print_json_lines(values: Iterable[Any]) -> None:
    """One compact JSON object a line."""
    for value in values:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        click.echo(_UNSAFE.sub(lambda match: _escaped(match[0]), text).encode("utf-8", "replace"))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Comma-separated values with a header (RFC 4180)."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([["" if cell is None else _cell(cell) for cell in row] for row in rows])
    click.echo(buffer.getvalue().encode("utf-8", "replace"), nl=False)


def _cell(value: object) -> object:
    # A spreadsheet runs a cell that begins like a formula.
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """A table: the last column takes the room that is left on a terminal, and all it needs in a pipe.

    `numbers` are the columns that stand to the right.
    """
    cells = [[clean("" if cell is None else str(cell), 2_000) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size((100, 24)).columns - sum(widths[:-1]) - 2 * (len(columns) - 1)
        widths[-1] = max(12, min(widths[-1], room))
    right = {index for index, name in enumerate(columns) if name in numbers}
    click.secho(_line(list(columns), widths, right), bold=True)
    for row in cells:
        click.echo(_line(row, widths, right))


def _line(cells: list[str], widths: list[int], right: set[int]) -> str:
    parts = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = cell if len(cell) <= width else cell[: width - 1] + "…"
        parts.append(shown.rjust(width) if index in right else shown.ljust(width))
    return "  ".join(parts).rstrip()


def note(text: str) -> None:
    """A line for the person, beside the output, on stderr."""
    click.echo(safe(text), err=True)


def short_time(stamp: str) -> str:
    """`2026-11-21 07:40` of an ISO time."""
    return stamp[:16].replace("T", " ")


def short_id(value: str | None) -> str:
    """The beginning of a session's or event's id, enough to name it."""
    return (value or "")[:8]
