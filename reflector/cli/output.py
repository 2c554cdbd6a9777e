"""How commands show things: tables for people, JSON for machines.

Invariant: no text from outside reaches a terminal with its control characters. Tables are cut to the terminal's
width; a pipe gets every character. JSON is one document a command, and escapes what a terminal would obey.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Self

import click

from reflector.playbook.names import SECTIONS
from reflector.text.bounds import clean, visible

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.playbook.bullet import Bullet

#: Characters that JSON may leave as they are but a terminal obeys or hides.
_UNSAFE = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"

#: Columns of a terminal that prose keeps while anything else can give way, and that every column keeps.
_LAST = 24
_LEAST = 6

#: What `short_time` gives.
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d"

#: Rows of CSV that are written at once; memory does not grow with their number.
_PAGE = 1000

#: What ends or overwrites a line besides a line feed.
_BREAKS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def safe(text: str) -> str:
    """Text of several lines, fit for a terminal; its indentation stays."""
    return "\n".join(_BREAKS.sub(" ", visible(line))[:20_000].rstrip() for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class CountersJson:
    """The counters of a bullet."""

    helpful: int
    harmful: int


@dataclass(frozen=True, slots=True)
class BulletJson:
    """A bullet with its counters; `section` is the section's title."""

    name: str
    section: str
    text: str
    helpful: int
    harmful: int

    @classmethod
    def all(cls, bullets: Iterable[Bullet]) -> list[BulletJson]:
        """Return bullets as JSON has them."""
        return [cls(one.name, SECTIONS[one.section], one.text, one.helpful, one.harmful) for one in bullets]


@dataclass(frozen=True, slots=True)
class EventJson:
    """An event; docs/ledger-format.md describes its fields and what `data` holds by type."""

    position: int
    event_id: str
    type: str
    schema_version: int
    occurred_at: str | None
    recorded_at: str
    actor: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    data: dict[str, Any] | None
    data_hash: str
    meta: dict[str, Any]
    chain: str
    recorded_by: str | None

    @classmethod
    def of(cls, event: Event, **more: Any) -> Self:
        """Return an event as JSON has it; `more` are the fields of a subclass."""
        from reflector.audit.log import as_json

        return cls(**as_json(event), **more)


def json_of(value: Any) -> Any:
    """Return a value as JSON has it: a dataclass by its fields, whose names lose a `_` at their end."""
    if is_dataclass(value):
        return {one.name.rstrip("_"): json_of(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: json_of(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(one) for one in value]
    return value


def print_json(value: Any) -> None:
    """One JSON document, indented, readable in any language."""
    click.echo(_escaped(json.dumps(json_of(value), indent=2, ensure_ascii=False)))


def _escaped(text: str) -> bytes:
    """JSON without a character that a terminal obeys."""
    return re.sub(_UNSAFE, lambda match: json.dumps(match[0])[1:-1], text).encode("utf-8", "replace")


def print_json_lines(values: Iterable[Any]) -> None:
    """One compact JSON object a line."""
    for value in values:
        click.echo(_escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))


def print_lines(lines: Iterable[str]) -> None:
    """Lines that are JSON already, however many."""
    out = sys.stdout.buffer
    for line in lines:
        out.write(_escaped(line) + b"\n")
    out.flush()


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Comma-separated values with a header (RFC 4180)."""
    import csv

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([_cell(column) for column in columns])
    for number, row in enumerate(rows, 1):
        writer.writerow(["" if cell is None else _cell(cell) for cell in row])
        if number % _PAGE == 0:
            click.echo(buffer.getvalue().encode("utf-8", "replace"), nl=False)
            buffer.seek(0)
            buffer.truncate()
    click.echo(buffer.getvalue().encode("utf-8", "replace"), nl=False)


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
    numbers: Sequence[str] = (),
    prose: Sequence[str] = (),
    extra: Sequence[str] = (),
    whole: bool = False,
    paged: bool = False,
    empty: str = "",
) -> None:
    """Print a table, or without rows the note `empty`, if it is not "".

    In a pipe each column takes all it needs. On a terminal only `prose` is cut (default: the last column), so what
    identifies a row stays whole. Where that does not fit, times are shortened, and the columns `extra` are left out,
    the first of them first; they are also left out where they are empty. What does not fit even so is printed as
    records, one line a value. `whole` breaks the last column into lines instead of cutting it.
    `numbers` are aligned to the right. `paged` shows a table that is higher than the terminal in a pager.
    """
    if not rows and empty:
        note(empty)
        return
    lines = list(_table(columns, rows, frozenset(numbers), frozenset(prose or columns[-1:]), extra, whole))
    if paged and sys.stdout.isatty() and len(lines) >= terminal().lines:
        click.echo_via_pager("\n".join(lines) + "\n")
        return
    for line in lines:
        click.echo(line)


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: frozenset[str],
    prose: frozenset[str],
    extra: Sequence[str],
    whole: bool,
) -> Iterator[str]:
    cells = [[clean("" if cell is None else str(cell), 2_000) for cell in row] for row in rows]
    shown = [_Column(name, [row[index] for row in cells], name in prose) for index, name in enumerate(columns)]
    if sys.stdout.isatty():
        room = terminal().columns
        shown = _fitted(shown, extra, room)
        if sum(column.width + 2 for column in shown) - 2 > max(room, _LAST):
            yield from _records(shown, room)
            return
    right = {index for index, column in enumerate(shown) if column.name in numbers}
    widths = [column.width for column in shown]
    yield click.style(_line([column.name for column in shown], widths, right), bold=True)
    for row in zip(*(column.cells for column in shown), strict=True):
        first, *others = _broken(row[-1], widths[-1]) if whole else row[-1:]
        yield _line([*row[:-1], first], widths, right)
        for other in others:
            yield _line([*[""] * (len(row) - 1), other], widths, right)


def terminal() -> os.terminal_size:
    """Return the terminal's size."""
    import shutil

    return shutil.get_terminal_size((100, 24))


def _records(columns: list[_Column], room: int) -> Iterator[str]:
    """The rows one below the other, each value on its line."""
    names = max(_width(column.name) for column in columns)
    for row in zip(*(column.cells for column in columns), strict=True):
        for column, cell in zip(columns, row, strict=True):
            yield (
                click.style(column.name.ljust(names), bold=True)
                + f"  {_cut(cell, max(room - names - 2, _LEAST))}".rstrip()
            )
        yield ""


class _Column:
    """A column of a table, as wide as its widest cell until it is made narrower."""

    def __init__(self, name: str, cells: list[str], is_prose: bool) -> None:
        self.name = name
        self.is_prose = is_prose
        self.fill(cells)

    def fill(self, cells: list[str]) -> None:
        """Make it a column of these cells."""
        self.cells = cells
        self.width = max(map(_width, [self.name, *cells]))

    @property
    def least(self) -> int:
        """The width below which something else gives way."""
        return min(self.width, _LAST) if self.is_prose else self.width

    def is_of_times(self) -> bool:
        """Whether each cell is a time as `short_time` gives it, or empty."""
        return any(self.cells) and all(not cell or re.fullmatch(_TIME, cell) for cell in self.cells)


def _fitted(columns: list[_Column], extra: Sequence[str], room: int) -> list[_Column]:
    """Return the columns that fit a terminal: times without their year, extra columns left out, times without their
    hour, prose narrower, in that order."""

    def lacks(least: bool = True) -> bool:
        widths = [column.least if least else column.width for column in columns]
        return sum(widths) + 2 * (len(widths) - 1) > room

    columns = [column for column in columns if column.name not in extra or any(column.cells)]
    times = [column for column in columns if column.is_of_times()]
    named = [column.name for column in times]
    if lacks():
        _shorten(times, 5, 16)
    for name in sorted(extra, key=lambda name: name in named):
        if lacks() and name in named:
            _shorten(times, 0, 5)
        if lacks():
            columns = [column for column in columns if column.name != name]
    if lacks():
        _shorten(times, 0, 5)
    while lacks(least=False):
        # A terminal that is too narrow for what identifies a row gets a part of it.
        chosen = [c for c in columns if c.is_prose and c.width > _LEAST] or [c for c in columns if c.width > _LEAST]
        if not chosen:
            break
        max(chosen, key=lambda column: column.width).width -= 1
    return columns


def _shorten(times: list[_Column], start: int, end: int) -> None:
    for column in times:
        column.fill([cell[start:end] if len(cell) > end - start else cell for cell in column.cells])


def _broken(text: str, width: int, *, words: bool = True) -> list[str]:
    """Lines that are not wider than `width`, broken between words where there are any. Without `words`, a longer word
    stays whole, to be copied."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and _width(lines[-1]) + 1 + _width(word) <= width:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for letter in word if words else (word,):
            if lines[-1] and _width(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese letters two, combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[: min(len(text) - 1, width - 1)]
    return text + "…"


def _line(cells: list[str], widths: list[int], right: set[int]) -> str:
    parts = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        shown = _cut(cell, width)
        padding = " " * (width - _width(shown))
        parts.append(padding + shown if index in right else shown + padding)
    return "  ".join(parts).rstrip()


def print_facts(rows: Iterable[tuple[str, str]], width: int, indent: int = 0, *, begun: bool = False) -> None:
    """Print names of at most `width` characters, each with its value; a terminal gets long values broken into lines.

    `begun` says that the indentation of the first line is printed already.
    """
    room = terminal().columns - indent - width - 1 if sys.stdout.isatty() else 0
    for name, value in rows:
        shown = safe(value)
        for line in _broken(shown, room, words=False) if room >= _LAST else [shown]:
            click.echo(f"{'' if begun else ' ' * indent}{name:<{width}} {line}".rstrip())
            name, begun = "", False


def note(text: str) -> None:
    """A line for the person, beside the output, on stderr."""
    click.echo(safe(text), err=True)


#: What a person can do about an error of the system; for others its own words must do.
_WAYS_OUT = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "remove the folder, or name a file",
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EROFS: "remount the file system read-write, or use another folder",
    errno.EMFILE: "close programs or raise the limit (`ulimit -n`), then run the same command again",
    errno.ENFILE: "close programs or raise the limit (`ulimit -n`), then run the same command again",
    errno.ENOSPC: "free some space, then run the same command again",
    errno.EDQUOT: "free some space, then run the same command again",
}


def os_error_words(error: OSError, name: object = None) -> str:
    """Return an error of the system: the file (`name`, else the error's own), what is wrong, the way out."""
    where = name or error.filename
    what = error.strerror or str(error)
    told = f"{where}: {what}" if where is not None else what
    return f"{told}; {_WAYS_OUT[error.errno]}" if error.errno in _WAYS_OUT else told


def short_time(stamp: str) -> str:
    """`2026-11-21 07:40` of an ISO time."""
    return stamp[:16].replace("T", " ")


def short_id(value: str | None) -> str:
    """Return the beginning of a session's or event's id, enough to name it."""
    return (value or "")[:8]


def counted(number: int, noun: str) -> str:
    """`1 bullet`, `2 bullets`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def percent(rate: float | None) -> str:
    """`67%` of 0.67; empty for no rate."""
    return "" if rate is None else f"{rate:.0%}"


def rounded(rate: float | None, digits: int = 6) -> float | None:
    """Return a rate as JSON has it."""
    return None if rate is None else round(rate, digits)


def progress(length: int, label: str, *, hidden: bool = False) -> Any:
    """Return a progress bar on stderr, where that is a terminal: a pipe gets the answer alone."""
    return click.progressbar(
        length=length, label=label, show_pos=True, file=sys.stderr, hidden=hidden or not sys.stderr.isatty()
    )
