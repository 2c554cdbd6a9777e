"""Output of commands: tables for users, JSON for programs.

Invariant: no text from outside reaches a terminal with its control characters. Tables are cut to
the terminal's width, and a pipe gets every character. JSON is one document for each command, and
escapes characters that control a terminal.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, TextIO, TypeVar

import click

from reflector.events.event import Event
from reflector.ledger.rows import Head
from reflector.mistakes import os_error_words as os_error_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.names import SECTIONS
from reflector.text.bounds import clean, visible
from reflector.text.width import broken, cut, width

T = TypeVar("T")

#: Characters that JSON may leave as they are but a terminal obeys or hides.
_UNSAFE = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"

#: Seconds until a long command says what it does, and from then on between two notes.
_FIRST_NOTE, _NEXT_NOTE = 2.0, 10.0

#: Columns of a terminal that prose keeps while anything else can give way, and that every column
#: keeps.
_LAST = 24
_LEAST = 6

#: What a narrow table leaves out of what `short_time` gives: this year ({}), or the hour of a day
#: of another year.
_LEFT_OUT = r"^{}-(?=\d\d-\d\d \d\d:\d\d$)|(?<=^\d\d\d\d-\d\d-\d\d) \d\d:\d\d$"

#: A number as tables have them: 7, -1.50, 12,000, 40%, and two counters, 7/2.
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?%?(/\d+)?", re.ASCII)

#: The cell of a number that nothing has.
NONE = "-"

#: What ends or overwrites a line besides a line feed.
_BREAKS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def safe(text: str) -> str:
    """Text of several lines, fit for a terminal; its indentation stays."""
    return "\n".join(_BREAKS.sub(" ", visible(line))[:20_000].rstrip() for line in text.split("\n"))


def say(text: str = "") -> None:
    """Print text of several lines."""
    click.echo(safe(text))


def json_of(value: Any) -> Any:
    """Return a value as JSON has it: a dataclass by the fields of its repr, whose names lose a `_`
    at their end; a head and a path as they are typed, a change as events have it, a bullet with its
    section's title, an event without the packed keys of its window's records.
    """
    if isinstance(value, Path) or type(value) is Head:  # not one whose parts are the answer
        return str(value)
    if isinstance(value, Change):
        return value.to_data()
    if isinstance(value, Bullet):
        return _fields_of(replace(value, section=SECTIONS[value.section]))
    if is_dataclass(value):
        return _without_keys(_fields_of(value)) if isinstance(value, Event) else _fields_of(value)
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _fields_of(value: Any) -> dict[str, Any]:
    shown = (field.name for field in fields(value) if field.repr)
    return {name.rstrip("_"): json_of(getattr(value, name)) for name in shown}


def _without_keys(event: dict[str, Any]) -> dict[str, Any]:
    window = (event["data"] or {}).get("window")
    if isinstance(window, dict):
        window.pop("keys", None)
    return event


def shaped(kind: type[T], value: object, /, **more: Any) -> T:
    """Return a value as a dataclass for JSON: the fields that `more` lacks are its attributes of
    the same names.
    """
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(value, name) for name in names if name not in more}, **more)


def print_json(value: Any) -> None:
    """One JSON document, indented, readable in any language."""
    print_lines([json.dumps(json_of(value), indent=2, ensure_ascii=False)])


def print_lines(lines: Iterable[str]) -> None:
    """Lines that are JSON already, or safe, however many, without a character that a terminal
    obeys.
    """
    out = sys.stdout.buffer
    for line in lines:
        shown = re.sub(_UNSAFE, lambda match: json.dumps(match[0])[1:-1], line)
        out.write(shown.encode("utf-8", "replace") + b"\n")
    out.flush()


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Comma-separated values with a header (RFC 4180), row by row: memory does not grow with
    their number.
    """
    import csv

    writer = csv.writer(codecs.getwriter("utf-8")(sys.stdout.buffer, "replace"))
    for row in chain([columns], rows):
        writer.writerow(["" if cell is None else _cell(cell) for cell in row])


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    # A spreadsheet runs a cell that begins like a formula.
    quoted = f"'{value}" if value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
    return "\n".join(visible(line) for line in quoted.split("\n"))


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    prose: Sequence[str] = (),
    extra: Sequence[str] = (),
    whole: bool = False,
    below: str = "",
    notes: Sequence[str] = (),
    empty: str = "",
) -> list[str]:
    """Print a table, or without rows the note `empty`, if it is not ""; return the names of the
    columns that were left out.

    In a pipe each column takes all it needs. On a terminal only `prose` is cut (default: the last
    column), so what identifies a row stays whole. If that does not fit, times are shortened, and
    the columns `extra` are left out, the first of them first; a note names those. They are also
    left out if they are empty. What does not fit even so is cut. `whole` breaks the last column
    into lines instead of cutting it. If not all columns fit, the column `below` is printed below
    each row, in lines, or before the second line of the last column if it fits there. A note of a
    row, if it is not "", is the last line below it. A column of numbers is aligned to the right.
    """
    if not rows and empty:
        note(empty)
        return []
    columns_of = [
        _Column(name, [_line_of(row[at]) for row in rows]) for at, name in enumerate(columns)
    ]
    room = _room()
    omitted: list[str] = []
    texts = [""] * len(rows)
    if room and below and _whole_width(columns_of) > room:
        texts = columns_of.pop(columns.index(below)).cells
    if room:
        columns_of, omitted = _fitted(columns_of, prose or columns[-1:], extra, room)

    def print_line(cells: Iterable[str], *, bold: bool = False) -> None:
        line = "  ".join(
            column.shown(cell) for column, cell in zip(columns_of, cells, strict=True)
        ).rstrip()
        click.secho(cut(line, max(room, _LAST)) if room else line, bold=bold or None)

    lead = sum(column.width + 2 for column in columns_of[:-1])
    print_line((column.name for column in columns_of), bold=True)
    parts = [*(column.cells for column in columns_of), texts, notes or [""] * len(rows)]
    for *row, text, row_note in zip(*parts, strict=True):
        first, *others = broken(row[-1], columns_of[-1].width) if whole else row[-1:]
        print_line([*row[:-1], first])
        for line in (*_below(others, text, lead, room), *_note_line(row_note, room)):
            click.echo(line)
    if omitted:
        note(f"Not shown, because the screen is narrow: {', '.join(omitted)}.")
    return omitted


def _line_of(value: object) -> str:
    """Return a value as one line of text; "" for None."""
    return clean("" if value is None else str(value), 2_000)


def _below(others: list[str], text: str, lead: int, room: int) -> Iterator[str]:
    """Yield the lines below a row: the rest of its last column, which begins after `lead` columns,
    and a text, before that rest if it fits there.
    """
    if text and others and width(text) + 3 < lead:
        yield f"  {text}".ljust(lead) + others.pop(0)
        text = ""
    for other in others:
        yield " " * lead + other
    for line in broken(text, room - 2) if text else ():
        yield f"  {line}"


def _note_line(text: str, room: int) -> Iterator[str]:
    """Yield the line of a row's note, if it has one."""
    if text:
        line = f"  {_line_of(text)}"
        yield cut(line, room) if room else line


class _Column:
    """A column of a table, as wide as its widest cell until it is made narrower."""

    def __init__(self, name: str, cells: list[str]) -> None:
        self.name = name
        self.cells = cells
        self.width = max(map(width, [self.name, *self.cells]))
        filled = [cell for cell in self.cells if cell]
        self.is_number = bool(filled) and all(
            cell == NONE or _NUMBER.fullmatch(cell) for cell in filled
        )

    def with_short_times(self) -> _Column:
        """Return the column with times of this year without it, and others without the hour."""
        left_out = _LEFT_OUT.format(datetime.now().year)
        return _Column(self.name, [re.sub(left_out, "", cell, count=1) for cell in self.cells])

    def shown(self, cell: str) -> str:
        """Return a cell as wide as the column."""
        shown = cut(cell, self.width)
        padding = " " * (self.width - width(shown))
        return padding + shown if self.is_number else shown + padding


def _fitted(
    columns: Sequence[_Column], prose: Sequence[str], extra: Sequence[str], room: int
) -> tuple[list[_Column], list[str]]:
    """Return the columns that fit a terminal, and the names of those that were left out.

    First times lose this year or their hour, then extra columns are left out, then prose gets
    narrower; if that is not enough, all columns do.
    """
    columns = [column for column in columns if column.name not in extra or any(column.cells)]
    if _least_width(columns, prose) > room:
        columns = [column.with_short_times() for column in columns]
    omitted: list[str] = []
    for name in extra:
        if _least_width(columns, prose) > room and name in (column.name for column in columns):
            columns = [column for column in columns if column.name != name]
            omitted.append(name)
    _narrow(columns, prose, room)
    return columns, omitted


def _narrow(columns: Sequence[_Column], prose: Sequence[str], room: int) -> None:
    """Make prose narrower until the columns fit; if that is not enough, all of them."""
    while _whole_width(columns) > room:
        wide = [column for column in columns if column.width > _LEAST]
        if not wide:
            break
        max(wide, key=lambda column: (column.name in prose, column.width)).width -= 1


def _whole_width(columns: Iterable[_Column]) -> int:
    """Return how wide columns are with the space between them."""
    return sum(column.width + 2 for column in columns) - 2


def _least_width(columns: Iterable[_Column], prose: Sequence[str]) -> int:
    """Return how wide columns are with prose as narrow as it may be."""
    spare = (max(0, column.width - _LAST) for column in columns if column.name in prose)
    return _whole_width(columns) - sum(spare)


def event_table(
    events: Sequence[Event],
    what: Callable[[Event], str] | None = None,
    *,
    without: str = "",
    whole: bool = False,
    empty: str = "",
) -> None:
    """Print events as a table `without` one of its columns; `what` says what each is about. See
    `table`.
    """
    from reflector.audit.log import summary

    columns: dict[str, Callable[[Event], object]] = {
        "position": lambda event: event.position,
        "when": lambda event: short_time(event.occurred_at),
        "event": lambda event: event.type,
        "actor": lambda event: event.actor,
        "session": lambda event: short_id(event.session_id),
        "what": what or summary,
    }
    columns.pop(without, None)
    rows = [[cell(event) for cell in columns.values()] for event in events]
    table(tuple(columns), rows, extra=("actor", "when"), whole=whole, empty=empty)


def _room(stream: TextIO | None = None) -> int:
    """Return the columns of the terminal that a stream (stdout) prints to, 0 if it is not one."""
    if not (stream or sys.stdout).isatty():
        return 0
    from shutil import get_terminal_size  # a pipe needs none of it

    return get_terminal_size((100, 24)).columns


def print_facts(
    rows: Iterable[tuple[str, str]], name_width: int, indent: int = 0, *, begun: bool = False
) -> None:
    """Print names of at most `name_width` characters, each with its value; a terminal gets long
    values broken into lines.

    `begun` says that the indentation of the first line is printed already.
    """
    room = _room() - indent - name_width - 1
    for name, value in rows:
        shown = safe(value)
        for line in broken(shown, room, words=False) if room >= _LAST else [shown]:
            click.echo(f"{'' if begun else ' ' * indent}{name:<{name_width}} {line}".rstrip())
            name, begun = "", False


def prose(text: str) -> None:
    """Print a sentence, on a terminal in lines that fit."""
    room = _room()
    for line in broken(text, room) if room else [text]:
        click.echo(safe(line))


def print_difference(lines: Iterable[str]) -> None:
    """Print the lines of a difference; on a terminal, the parts of a long one begin with its
    sign.
    """
    room = _room()
    for line in lines:
        text = line[1:]
        for part in broken(text, room - 1) if 0 < room < width(line) else [text]:
            click.echo(safe(line[:1] + part))


def note(text: str) -> None:
    """Print a sentence to stderr, on a terminal in lines that fit."""
    room = _room(sys.stderr)
    for line in text.split("\n"):
        for part in broken(line, room, words=False) if 0 < room < len(line) else [line]:
            click.echo(safe(part), err=True)


def short_time(stamp: str) -> str:
    """`2026-11-21 07:40` of an ISO time, in this machine's zone: as options take a time."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):  # of a forged ledger
        return stamp[:16].replace("T", " ")


def day_words(stamp: str) -> str:
    """Return the day of an ISO time, in this machine's zone: `today`, `25 Nov`, `25 Nov 2025`."""
    try:
        day = datetime.fromisoformat(stamp).astimezone().date()
    except (ValueError, OverflowError):  # of a forged ledger
        return stamp[:10]
    today = datetime.now().astimezone().date()
    words = {today: "today", today - timedelta(days=1): "yesterday"}
    year = "" if day.year == today.year else f" {day.year}"
    return words.get(day, f"{day:%-d %b}{year}")


def short_id(value: str | None) -> str:
    """Return the beginning of a session's or event's id, enough to name it."""
    return (value or "")[:8]


def span(first: int, last: int) -> str:
    """Return the positions from one to another as a command takes them: `41`, `41..43`."""
    return str(first) if first == last else f"{first}..{last}"


def counting(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield items; after two seconds, and then every ten, note how many there were."""
    due = monotonic() + _FIRST_NOTE
    for number, item in enumerate(items, start=1):
        yield item
        if monotonic() >= due:
            note(f"{what}: {number:,} so far")
            due = monotonic() + _NEXT_NOTE


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Note what is done, if that takes more than two seconds."""
    from threading import Timer  # a session's end, which needs none, loads this file

    timer = Timer(_FIRST_NOTE, note, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def progress(length: int, label: str) -> Any:
    """Return a progress bar on stderr, where that is a terminal: a pipe gets the answer alone."""
    hidden = not sys.stderr.isatty()
    return click.progressbar(
        length=length, label=label, show_pos=True, file=sys.stderr, hidden=hidden
    )
