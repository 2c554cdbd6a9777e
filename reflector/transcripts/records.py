"""JSON Lines from a file that may be hostile, growing, cut off, or of another format.

Every reader of transcripts gets its records from here.

Invariant: reading never raises because of the content of a line, and never holds more than
`LINE_LIMIT` bytes of it. Texts that cannot be read are counted in a `Tally`. A last line that is
not complete yet is not consumed, so that the next reading finds it whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from struct import Struct
from typing import Any, BinaryIO, Literal, NamedTuple

from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import Tally

JsonObject = dict[str, Any]

#: Longer lines are skipped. The longest in 1.3 GB of real transcripts has 2.1 MB (an image).
LINE_LIMIT = 32 * 1024 * 1024
#: An oversized line is skipped in pieces of this size.
_PIECE = 1 << 20

#: Types above this number are counted together, so that a hostile file cannot fill the tally.
_TYPE_NAMES_LIMIT = 64

#: The beginning of a complete record after one that was cut off, because the client died while
#: writing and a resumed session appended. Nested objects never begin with this key.
RECORD_START = '{"parentUuid":'

_KEY = Struct(">q24x").unpack
_WHITESPACE = lazy_pattern(r"[ \t\r\n\0]*")

#: strict=False accepts NUL and control characters in strings; NaN and Infinity become null.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _parse_integer(digits: str) -> int | None:
    """Return an integer; None above 4,300 digits, because CPython refuses those with a
    ValueError.
    """
    try:
        return int(digits)
    except ValueError:
        return None


_PATIENT_DECODER = json.JSONDecoder(
    strict=False, parse_constant=lambda _: None, parse_int=_parse_integer
)


def record_key(uuid: str) -> int:
    """Return the 64-bit identity of a record: the first 8 bytes of SHA-256(uuid), signed,
    big-endian.
    """
    digest = sha256(uuid.encode("utf-8", "surrogatepass")).digest()
    key: int = _KEY(digest)[0]
    return key


def record_uuid(record: JsonObject, text: bytes) -> str:
    """Return the record's own `uuid`, or `sha256:<hex>` of its JSON text if it has none."""
    uuid = record.get("uuid")
    if isinstance(uuid, str) and uuid:
        return uuid
    return "sha256:" + sha256(text).hexdigest()


class Line(NamedTuple):
    """A line of a file: the offset of its first byte, its size including the line end, and its text
    without surrounding white space. The text is empty for an oversized or unfinished line.
    """

    offset: int
    size: int
    text: bytes
    ending: Literal["complete", "oversized", "unfinished"] = "complete"


class Record(NamedTuple):
    """A JSON object of a line, and its own JSON text in UTF-8."""

    value: JsonObject
    text: bytes


class _Rest(NamedTuple):
    """The rest of an oversized line: the number of bytes read, and whether the line's end was
    read.
    """

    size: int
    is_ended: bool


def read_lines(file: BinaryIO, limit: int | None, tally: Tally, start: int = 0) -> Iterator[Line]:
    """Yield every complete line that is not blank.

    start  the current offset of `file`
    limit  the offset at which reading stops, None for the end of the file

    A last line without a line break is yielded if it is complete JSON. Otherwise its size goes to
    `tally.unfinished_bytes`. A file that grows is read to its current end. If a file shrinks, the
    reading ends earlier.
    """
    offset = start
    while line := _next_line(file, offset, limit):
        offset += line.size
        if _count_line(line, tally):
            yield line


def _count_line(line: Line, tally: Tally) -> bool:
    """Count a line; return whether its text can be parsed."""
    if line.ending == "unfinished":
        tally.unfinished_bytes = line.size
    elif line.ending == "oversized":
        tally.oversized += 1
        tally.lines += 1
    elif line.text:
        tally.lines += 1
    return line.text != b""


def _next_line(file: BinaryIO, offset: int, limit: int | None) -> Line | None:
    """Return the line at an offset, None at the end of the file or at the limit."""
    most = LINE_LIMIT + 1
    budget = most if limit is None else min(most, limit - offset)
    raw = file.readline(budget) if budget > 0 else b""
    if not raw:
        return None
    size = len(raw)
    text = raw.strip()
    if raw.endswith(b"\n"):
        return Line(offset, size, text)
    if size > LINE_LIMIT:
        rest = _pass_over(file, None if limit is None else limit - offset - size)
        return Line(offset, size + rest.size, b"", "oversized" if rest.is_ended else "unfinished")
    if text and not is_complete(raw):
        return Line(offset, size, b"", "unfinished")
    return Line(offset, size, text)


def _pass_over(file: BinaryIO, budget: int | None) -> _Rest:
    """Skip the rest of the current line, at most `budget` bytes."""
    passed = 0
    while budget is None or passed < budget:
        most = _PIECE if budget is None else min(_PIECE, budget - passed)
        piece = file.readline(most)
        passed += len(piece)
        if piece.endswith(b"\n"):
            return _Rest(passed, is_ended=True)
        if not piece:
            break
    return _Rest(passed, is_ended=False)


def is_complete(line: bytes) -> bool:
    """Return whether a line consists of JSON objects from its first byte to its last."""
    probe = Tally()
    records = parse_line(line, probe)
    return bool(records) and probe.malformed == 0


def parse_line(line: bytes, tally: Tally) -> list[Record]:
    """Return the JSON objects of one line: usually one, two if records were glued together.

    Each stretch of other text between two objects counts as malformed once.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "replace")
        line = text.encode()
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return _parse_stretches(text, tally)
    if end != len(text) or not isinstance(value, dict):
        return _parse_stretches(text, tally)
    tally.records += 1
    return [Record(value, line)]


def _parse_stretches(text: str, tally: Tally) -> list[Record]:
    """Return the JSON objects of a line that is not exactly one object."""
    text = text.removeprefix("\ufeff")
    records: list[Record] = []
    position = _skip_blanks(text, 0)
    while position < len(text):
        try:
            value, end = _PATIENT_DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            tally.malformed += 1
            position = text.find(RECORD_START, position + 1)
            if position < 0:
                break
            continue
        if isinstance(value, dict):
            records.append(Record(value, text[position:end].encode()))
        else:
            tally.malformed += 1
        position = _skip_blanks(text, end)
    tally.records += len(records)
    if len(records) > 1:
        tally.glued += 1
    return records


def _skip_blanks(text: str, position: int) -> int:
    """Return the position of the next character that is not white space."""
    return _WHITESPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches "" too


def count_type(tally: Tally, name: object) -> None:
    """Count a type of record that its reader does not know."""
    label = name[:64] if isinstance(name, str) else "(none)"
    if label not in tally.unknown_types and len(tally.unknown_types) >= _TYPE_NAMES_LIMIT:
        label = "(others)"
    tally.unknown_types[label] = tally.unknown_types.get(label, 0) + 1
