"""Output of commands: tables for users, JSON for programs.

Invariant: no text from outside reaches a terminal with its control characters. Tables are cut to
the terminal's width, other lines are broken between words, and a pipe gets every character. JSON is
one document for each command, and escapes characters that control a terminal.
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
from functools import lru_cache
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, TextIO, TypeVar

import click

from reflector.events.event import Event, time_of
from reflector.ledger.rows import Head
from reflector.mistakes import os_error_words as os_error_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.names import SECTIONS
from reflector.text.bounds import clean, visible
from reflector.text.phrases import named
from reflector.text.width import broken, cut, width

T = TypeVar("T")

#: Characters that JSON need not escape but that a terminal obeys or hides.
_UNSAFE = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"

#: Seconds until the first note of a long command, and between two later notes.
_FIRST_NOTE, _NEXT_NOTE = 2.0, 10.0

#: The least width of prose while other columns can be made narrower, and the least width of every
#: column.
_LAST = 24
_LEAST = 6

#: The width of an output that is not a terminal.
_ENDLESS = sys.maxsize

#: The part of a short time that a narrow table omits: this year ({}), or the hour of a day in
#: another year.
_LEFT_OUT = r"^{}-(?=\d\d-\d\d \d\d:\d\d$)|(?<=^\d\d\d\d-\d\d-\d\d) \d\d:\d\d$"

#: A command to copy: `reflector list`, or the end of a line, such as `Next: reflector list`.
_COMMAND = re.compile(r"`[^`]+`|(?<=: )(?<!^Error: )reflector (?!.*: reflector ).*$")
#: Takes the place of a space at which a line is not broken. No safe text contains it.
_JOINT = "\0"

#: A number in a table: 7, -1.50, 12,000, 40%, or two counters, 7/2.
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?%?(/\d+)?", re.ASCII)

#: The cell for a missing number.
NONE = "-"

#: Characters other than a line feed that end or overwrite a line.
_BREAKS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


#: The names of folders and files that have a line break, each with the name that is shown.
_shown_names: dict[str, str] = {}


def hide_breaks(paths: Iterable[str]) -> None:
    """Show the names in these paths on one line in each text from now on."""
    names = {name for path in paths for name in path.split("/") if "\n" in name}
    for name in names:
        # click removes the colours of an error before it is shown.
        _shown_names[name] = _shown_names[click.unstyle(name)] = clean(name, len(name))


def safe(text: str) -> str:
    """Return a text of several lines that is safe for a terminal, with its indentation."""
    for name, shown in _shown_names.items():
        text = text.replace(name, shown)
    return "\n".join(_BREAKS.sub(" ", visible(line))[:20_000].rstrip() for line in text.split("\n"))


def say(text: str = "", *, bold: bool = False) -> None:
    """Print text of several lines, on a terminal in lines that fit."""
    for line in _fitting(text, _room()):
        click.echo(click.style(line, bold=True) if bold else line)


def _fitting(text: str, room: int) -> Iterator[str]:
    """Yield the lines of a text, safe and of at most `room` columns.

    A longer line is broken between words, with its indentation. A path or a command stays whole, so
    that you can copy it. A command that is wider than the room is broken, too.
    """
    for line in safe(text).split("\n"):
        if width(line) <= room:
            yield line
            continue
        words = line.lstrip(" ")
        indent = line[: len(line) - len(words)]
        columns = max(room - len(indent), _LAST)
        for part in broken(_joined_commands(words, columns), columns, words=False):
            yield indent + part.replace(_JOINT, " ")


def _joined_commands(line: str, columns: int) -> str:
    """Return a safe line with `_JOINT` for each space in a command of at most `columns` columns."""

    def joined(command: re.Match[str]) -> str:
        fits = width(command[0]) <= columns
        return command[0].replace(" ", _JOINT) if fits else command[0]

    return _COMMAND.sub(joined, line)


def json_of(value: Any) -> Any:
    """Return a value for JSON.

    - A dataclass has the fields of its repr. Their names lose a `_` at the end.
    - A head and a path are in the form that users type.
    - A change is as in events.
    - A bullet has its section's title.
    - An event lacks the packed keys of its window's records.
    """
    if isinstance(value, Path) or type(value) is Head:  # not a subclass, which has more fields
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


def shaped(kind: type[T], /, *values: object, **more: Any) -> T:
    """Return values as a dataclass for JSON.

    A field that is not in `more` is the attribute of this name of the first value that has it.
    """
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in more:
            value = next(value for value in values if hasattr(value, field.name))
            more[field.name] = getattr(value, field.name)
    return kind(**more)


def print_json(value: Any) -> None:
    """Print one JSON document, indented, with characters of every language."""
    print_lines([json.dumps(json_of(value), indent=2, ensure_ascii=False)])


def print_lines(lines: Iterable[str]) -> None:
    """Print any number of lines that are JSON or safe.

    Characters that a terminal obeys are escaped.
    """
    out = sys.stdout.buffer
    for line in lines:
        shown = re.sub(_UNSAFE, lambda match: json.dumps(match[0])[1:-1], line)
        out.write(shown.encode("utf-8", "replace") + b"\n")
    out.flush()


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print comma-separated values with a header (RFC 4180).

    They are printed row by row, so that memory does not grow with their number.
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
    rows: Iterable[Sequence[object]],
    *,
    prose: Sequence[str] = (),
    extra: Sequence[str] = (),
    whole: bool = False,
    below: str = "",
    notes: Sequence[str] = (),
    empty: str = "",
) -> list[str]:
    """Print a table, and return the names of the omitted columns. Without rows, note `empty`.

    In a pipe, each column is as wide as it needs. A terminal gets a narrower table, in these steps:

    - Only columns of `prose` are cut (default: the last column), so that the cells that identify a
      row stay whole.
    - If that does not fit, times are shortened. Then the columns `extra` are omitted, the first of
      them first. A note names them. Empty extra columns are always omitted.
    - If the rest still does not fit, all columns are cut.

    `whole` breaks the last column into lines instead of cutting it. They are below each row if the
    other columns take the whole width. If not all columns fit, the column `below` is printed below
    each row in lines. It is before the second line of the last column if it fits there. The note of
    a row is the last line below it, unless it is "". A column of numbers is aligned to the right.
    """
    shown = _columns_of(columns, rows)
    number = len(shown[0].cells)
    if not number and empty:
        note(empty)
        return []
    room = _room()
    omitted: list[str] = []
    texts = [""] * number
    if below and _whole_width(shown) > room:
        texts = shown.pop(columns.index(below)).cells
    if room < _ENDLESS:
        shown, omitted = _fitted(shown, prose or columns[-1:], extra, room)
    click.secho(_row(shown, [column.name for column in shown], room), bold=True)
    _print_rows(shown, texts, notes or [""] * number, room, whole=whole)
    if omitted:
        note(f"The screen is too narrow for these columns: {', '.join(omitted)}.")
    return omitted


def _print_rows(
    columns: Sequence[_Column],
    texts: Sequence[str],
    notes: Sequence[str],
    room: int,
    *,
    whole: bool,
) -> None:
    """Print the rows of a table, each with its text and its note below it."""
    lead = sum(column.width + 2 for column in columns[:-1])
    last_width = columns[-1].width
    is_below = whole and _whole_width(columns) > room
    if is_below:  # no column has room beside the others
        lead, last_width = 2, max(room - 2, _LAST)
    rows = zip(*(column.cells for column in columns), strict=True)
    for row, text, row_note in zip(rows, texts, notes, strict=True):
        *cells, last = row
        parts = broken(last, last_width) if whole else [last]
        first = "" if is_below else parts.pop(0)
        click.echo(_row(columns, [*cells, first], room))
        for line in _below(parts, text, lead, room):
            click.echo(line)
        if row_note:
            click.echo(cut(f"  {_line_of(row_note)}", room))


def _row(columns: Sequence[_Column], cells: Sequence[str], room: int) -> str:
    """Return the cells of a row in one line."""
    shown = (column.shown(cell) for column, cell in zip(columns, cells, strict=True))
    return cut("  ".join(shown).rstrip(), max(room, _LAST))


def _columns_of(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[_Column]:
    """Return the columns of rows. The rows are not kept, because a table may have many."""
    cells: list[list[str]] = [[] for _ in names]
    for row in rows:
        for of_column, value in zip(cells, row, strict=True):
            of_column.append(_line_of(value))
    return [_Column(name, of_column) for name, of_column in zip(names, cells, strict=True)]


def _line_of(value: object) -> str:
    """Return a value as one line of text; "" for None."""
    return _cleaned("" if value is None else str(value))


@lru_cache(maxsize=1024)
def _cleaned(text: str) -> str:
    """Return a text on one line; the same object for the same text, of which a table has many."""
    return clean(text, 2_000)


def _below(others: list[str], text: str, lead: int, room: int) -> Iterator[str]:
    """Yield the lines below a row: the rest of its last column, and a text.

    The rest begins after `lead` columns. The text is before it if it fits there.
    """
    if text and others and width(text) + 3 < lead:
        yield f"  {text}".ljust(lead) + others.pop(0)
        text = ""
    for other in others:
        yield " " * lead + other
    for line in broken(text, room - 2) if text else ():
        yield f"  {line}"


class _Column:
    """A column of a table. At first it is as wide as its widest cell."""

    def __init__(self, name: str, cells: list[str]) -> None:
        self.name = name
        self.cells = cells
        self.width = max(map(width, chain([self.name], self.cells)))
        self.is_number = any(self.cells) and all(
            cell == NONE or _NUMBER.fullmatch(cell) for cell in self.cells if cell
        )

    def with_short_times(self) -> _Column:
        """Return the column with shorter times: without this year, or without the hour of other
        years.
        """
        left_out = _LEFT_OUT.format(datetime.now().year)
        return _Column(self.name, [re.sub(left_out, "", cell, count=1) for cell in self.cells])

    def shown(self, cell: str) -> str:
        """Return a cell in the width of the column."""
        shown = cut(cell, self.width)
        padding = " " * (self.width - width(shown))
        return padding + shown if self.is_number else shown + padding


def _fitted(
    columns: Sequence[_Column], prose: Sequence[str], extra: Sequence[str], room: int
) -> tuple[list[_Column], list[str]]:
    """Return the columns that fit a terminal, and the names of the omitted ones.

    First, times lose this year or their hour. Then extra columns are omitted, and then prose gets
    narrower. If that is not enough, all columns get narrower.
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
    """Make prose narrower until the columns fit. If that is not enough, narrow all columns."""
    while _whole_width(columns) > room:
        wide = [column for column in columns if column.width > _LEAST]
        if not wide:
            break
        max(wide, key=lambda column: (column.name in prose, column.width)).width -= 1


def _whole_width(columns: Iterable[_Column]) -> int:
    """Return the width of columns with the space between them."""
    return sum(column.width + 2 for column in columns) - 2


def _least_width(columns: Iterable[_Column], prose: Sequence[str]) -> int:
    """Return the width of columns when prose is as narrow as possible."""
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
    """Print events as a table `without` one of its columns. See `table`.

    what  returns the text about an event
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
    """Return the width of the terminal that a stream (stdout) prints to; endless without one."""
    if not (stream or sys.stdout).isatty():
        return _ENDLESS
    from shutil import get_terminal_size  # not needed in a pipe

    return get_terminal_size((100, 24)).columns


def print_facts(
    rows: Iterable[tuple[str, str]], name_width: int, indent: int = 0, *, begun: bool = False
) -> None:
    """Print names of at most `name_width` characters, each with its value on one line.

    A terminal gets long values broken into lines.

    begun  whether the indentation of the first line is already printed
    """
    room = _room() - indent - name_width - 1
    for name, value in rows:
        shown = safe(value).replace("\n", " ")
        fits = width(shown) <= room or room < _LAST
        for line in [shown] if fits else broken(shown, room, words=False):
            click.echo(f"{'' if begun else ' ' * indent}{name:<{name_width}} {line}".rstrip())
            name, begun = "", False


def print_difference(lines: Iterable[str]) -> None:
    """Print the lines of a difference.

    On a terminal, each part of a long line begins with the line's sign.
    """
    room = _room()
    for line in lines:
        text = line[1:]
        for part in broken(text, room - 1) if room < width(line) else [text]:
            click.echo(safe(line[:1] + part))


def note(text: str) -> None:
    """Print a sentence to stderr, on a terminal in lines that fit."""
    for line in _fitting(text, _room(sys.stderr)):
        click.echo(line, err=True)


def warn(text: str) -> None:
    """Print a message that begins with the program's name to stderr."""
    note(named(text))


def short_time(stamp: str) -> str:
    """Return an ISO time as `2026-11-21 07:40`, a form for options, in this machine's zone."""
    time = _local(stamp)
    if time is None:
        return stamp[:16].replace("T", " ")
    return time.strftime("%Y-%m-%d %H:%M")


def day_words(stamp: str) -> str:
    """Return the day of an ISO time in this machine's zone: `today`, `25 Nov`, `25 Nov 2025`."""
    time = _local(stamp)
    if time is None:
        return stamp[:10]
    day = time.date()
    today = datetime.now().astimezone().date()
    words = {today: "today", today - timedelta(days=1): "yesterday"}
    year = "" if day.year == today.year else f" {day.year}"
    return words.get(day, f"{day:%-d %b}{year}")


def _local(stamp: str) -> datetime | None:
    """Return an ISO time in this machine's zone; None for another text of a forged ledger. An agent
    writes a time without a zone in UTC.
    """
    try:
        return time.astimezone() if (time := time_of(stamp)) else None
    except (ValueError, OverflowError):
        return None


def short_id(value: str | None) -> str:
    """Return the beginning of a session's or event's id, which is enough to name it."""
    return (value or "")[:8]


def counting(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield items. After two seconds, and then every ten, note their number so far."""
    due = monotonic() + _FIRST_NOTE
    for number, item in enumerate(items, start=1):
        yield item
        if monotonic() >= due:
            note(f"{what}: {number:,} so far")
            due = monotonic() + _NEXT_NOTE


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Print a note about the work if it takes more than two seconds."""
    from threading import Timer  # a session's end loads this file without it

    timer = Timer(_FIRST_NOTE, note, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def progress(length: int, label: str) -> Any:
    """Return a progress bar on stderr. It is hidden if stderr is not a terminal."""
    hidden = not sys.stderr.isatty()
    return click.progressbar(
        length=length, label=label, show_pos=True, file=sys.stderr, hidden=hidden
    )
