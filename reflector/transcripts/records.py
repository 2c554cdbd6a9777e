"""JSON Lines from a file that nobody controls: hostile, growing, cut off, or another format
altogether.

Invariant: reading never raises for what a line contains and never holds more than `LINE_LIMIT`
bytes of it. What could not be read is counted in a `Tally`; a last line that is not complete yet is
left where it is, so that the next reader finds it whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from struct import Struct
from typing import Any, BinaryIO

from reflector.transcripts.message import Tally

#: Longer lines are passed over. The longest in 1.3 GB of real transcripts has 2.1 MB (an image).
LINE_LIMIT = 32 * 1024 * 1024

#: Types beyond this many are counted together: a hostile file must not fill the tally.
_TYPE_NAMES_LIMIT = 64

#: Where a whole record may begin behind one that was cut off in the middle (the client died while
#: writing, and a resumed session appended). Nested objects never begin with this key.
RECORD_START = '{"parentUuid":'

_KEY = Struct(">q24x").unpack
_WHITESPACE = re.compile(r"[ \t\r\n\0]*")

#: strict=False lets NUL and control characters stand in strings; NaN and Infinity become null.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)


def _integer(digits: str) -> int | None:
    """CPython refuses integers of more than 4,300 digits with a plain ValueError."""
    try:
        return int(digits)
    except ValueError:
        return None


_PATIENT_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_integer)


def record_key(uuid: str) -> int:
    """Return the 64-bit identity of a record: the first 8 bytes of SHA-256(uuid), signed,
    big-endian.
    """
    key: int = _KEY(sha256(uuid.encode("utf-8", "surrogatepass")).digest())[0]
    return key


def record_uuid(record: dict[str, Any], text: bytes) -> str:
    """Return the record's own `uuid`, or `sha256:<hex>` of its JSON text where it has none."""
    uuid = record.get("uuid")
    if isinstance(uuid, str) and uuid:
        return uuid
    return "sha256:" + sha256(text).hexdigest()


def read_lines(
    file: BinaryIO, limit: int | None, tally: Tally, start: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset, line) of every complete, non-blank line from `start`, where `file`
    stands, up to `limit`.

    The line's end is stripped. A last line without one is given when it is complete JSON, else its
    length goes to `tally.unfinished_bytes`. A file that grows meanwhile is read to where it ends at
    that moment; one that shrinks simply ends.
    """
    offset = start
    while True:
        budget = LINE_LIMIT + 1 if limit is None else min(LINE_LIMIT + 1, limit - offset)
        line = file.readline(budget) if budget > 0 else b""
        if not line:
            return
        start, offset = offset, offset + len(line)
        if line.endswith(b"\n"):
            if line := line.strip():
                tally.lines += 1
                yield start, line
        elif len(line) > LINE_LIMIT:
            passed, ended = _pass_over(file, None if limit is None else limit - offset)
            offset += passed
            if ended:
                tally.lines += 1
                tally.oversized += 1
            else:
                tally.unfinished_bytes = offset - start
        elif is_complete(line):
            tally.lines += 1
            yield start, line.strip()
        elif line.strip():
            tally.unfinished_bytes = len(line)


def _pass_over(file: BinaryIO, budget: int | None) -> tuple[int, bool]:
    """Read to the end of the current line: bytes read, and whether its end was among them."""
    passed = 0
    while budget is None or passed < budget:
        piece = file.readline(1 << 20 if budget is None else min(1 << 20, budget - passed))
        if not piece:
            break
        passed += len(piece)
        if piece.endswith(b"\n"):
            return passed, True
    return passed, False


def is_complete(line: bytes) -> bool:
    """Return whether `line` holds JSON values from its first byte to its last."""
    probe = Tally()
    return bool(parse_line(line, probe)) and probe.malformed == 0


def parse_line(line: bytes, tally: Tally) -> list[tuple[dict[str, Any], bytes]]:
    """Return every JSON object on one line, with its own text in UTF-8; usually one, two where
    records were glued. What is not a JSON object counts as malformed, once per line at most for
    each stretch.
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
    return [(value, line)]


def _parse_stretches(text: str, tally: Tally) -> list[tuple[dict[str, Any], bytes]]:
    """Return the long way, for what is not exactly one object."""
    text = text.removeprefix("\ufeff")
    found: list[tuple[dict[str, Any], bytes]] = []
    position = _skip(text, 0)
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
            found.append((value, text[position:end].encode()))
        else:
            tally.malformed += 1
        position = _skip(text, end)
    tally.records += len(found)
    if len(found) > 1:
        tally.glued += 1
    return found


def _skip(text: str, position: int) -> int:
    return _WHITESPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches "" as well


def count_type(tally: Tally, name: object) -> None:
    """Count a record type that the reader does not know, so that drift of the format shows."""
    label = name[:64] if isinstance(name, str) else "(none)"
    if label not in tally.unknown_types and len(tally.unknown_types) >= _TYPE_NAMES_LIMIT:
        label = "(others)"
    tally.unknown_types[label] = tally.unknown_types.get(label, 0) + 1
