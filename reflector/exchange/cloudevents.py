"""A ledger as lines of CloudEvents 1.0 JSON: the form in which one is moved, and read by other programs.

Invariant: a line holds all that the chain commits to: every field of the header, `data` and `meta` as they are stored,
and the hashes. So the file alone can be proved, and reading a line gives the very event that was
written to it. The first line says whose history it is and where it ends; it is a CloudEvent too, so that a program
which knows CloudEvents and not us reads every line.

The names and what they hold are a documented contract (docs/team.md). Attributes that are not ours are passed over:
brokers add their own. A file may come from anywhere, and its hashes only say that it was not changed since. So a
line is refused if a later merge could not read its time or its place in another ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.rows import Stored, read
from reflector.playbook.names import is_name

FORMAT: Final = "reflector.ledger"
VERSION: Final = 1
EXPORTED: Final = "ledger.exported"
_SOURCE: Final = "urn:reflector:ledger:"
#: As every ledger writes it, so that texts are in the order of time.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
#: No event could follow one of the last moment of time.
_END: Final = "9999"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class NotALine(ValueError):
    """A line that is not in this form; the text says what was found where what should be."""


@dataclass(frozen=True, slots=True)
class Header:
    """Whose history follows, and the head at which it ends."""

    playbook: str
    origin: str
    position: int
    chain: str


class Line(NamedTuple):
    """What a line says: an event, and what the ledger that wrote it knew besides. `erased` where it has no data."""

    event: NewEvent
    erased: bool
    position: int
    recorded_at: str
    data_hash: str
    chain: str


def header_line(header: Header) -> str:
    """Return the first line of a file, without a newline."""
    return _encode(
        {
            "specversion": "1.0",
            "id": header.chain,
            "source": _SOURCE + header.origin,
            "type": EXPORTED,
            "datacontenttype": "application/json",
            "data": {"format": FORMAT, "version": VERSION, **asdict(header)},
        }
    )


def event_line(stored: Stored, origin: str) -> str:
    """Return an event's line, without a newline."""
    attributes: dict[str, object] = {
        "specversion": "1.0",
        "id": stored.event_id,
        "source": _SOURCE + origin,
        "type": stored.type,
        "time": stored.recorded_at,
        "position": stored.position,
        "schemaversion": stored.schema_version,
        "occurredat": stored.occurred_at,
        "actor": stored.actor,
        "datahash": stored.data_hash,
        "meta": stored.meta,
        "chain": stored.chain,
    }
    # An attribute that has no value is left out: the specification knows no null.
    for name, value in (
        ("sessionid", stored.session_id),
        ("reflectionid", stored.reflection_id),
        ("targetid", stored.target_id),
        ("subject", _subject(stored)),
    ):
        if value is not None:
            attributes[name] = value
    if stored.data is None:
        return _encode(attributes)
    attributes["datacontenttype"] = "application/json"
    return f'{_encode(attributes)[:-1]},"data":{stored.data}}}'


def _subject(stored: Stored) -> str | None:
    """Return the bullet that an event is about: consumers filter by it without reading `data`."""
    data, _ = read(stored.type, stored.recorded_at, stored.data) if stored.type.startswith("bullet.") else (None, "")
    name = (data or {}).get("name")
    return name if is_name(name) else None


def header_of(text: str | bytes) -> Header:
    """Return the header of a file's first line. Raises NotALine."""
    value = _object(text)
    data = value.get("data")
    if value.get("type") != EXPORTED or not isinstance(data, dict) or data.get("format") != FORMAT:
        raise NotALine("it is not the header of a ledger; write a file with `reflector export --format ndjson`")
    if data.get("version") != VERSION:
        raise NotALine(f"it is of version {data.get('version')!r}, this reflector reads {VERSION}; upgrade reflector")
    origin = _text(data, "origin")
    if re.fullmatch("[0-9a-f]{32}", origin) is None:
        raise NotALine(f"origin is {_shown(origin)}, it must be 32 hex digits")
    return Header(_text(data, "playbook"), origin, _number(data, "position", least=0), _text(data, "chain"))


def line_of(text: str | bytes, origin: str) -> Line:
    """Return what an event's line says. `origin` is its header's. Raises NotALine."""
    value = _object(text)
    if value.get("source") != _SOURCE + origin:
        raise NotALine(f"source is {_shown(value.get('source'))}, the header's ledger is {_SOURCE + origin}")
    data = value.get("data")
    if "data" in value and not isinstance(data, dict):
        raise NotALine(f"data is {_shown(data)}, it must be an object")
    type_ = _text(value, "type")
    version = _number(value, "schemaversion", least=1)
    if type_ not in EVENT_TYPES or version > ev.SCHEMA_VERSION:
        raise NotALine(f"this reflector knows no {type_[:60]!r} of version {version}; upgrade reflector")
    event = NewEvent(
        type_,
        _text(value, "id"),
        data or {},
        _text(value, "actor"),
        _text(value, "occurredat"),
        _optional(value, "sessionid"),
        _optional(value, "reflectionid"),
        _optional(value, "targetid"),
        _meta(value),
        version,
    )
    return Line(
        event,
        data is None,
        _number(value, "position", least=1),
        _recorded_at(value),
        _text(value, "datahash"),
        _text(value, "chain"),
    )


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotALine(f"it is not JSON, or was cut off ({error})") from error
    if not isinstance(value, dict) or value.get("specversion") != "1.0":
        raise NotALine("it is not a CloudEvent: an object with specversion 1.0 is wanted")
    return value


def _meta(value: Mapping[str, Any]) -> dict[str, Any]:
    text = _text(value, "meta")
    if text == "{}":
        return {}
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotALine(f"meta is not JSON ({error})") from error
    if not isinstance(meta, dict):
        raise NotALine(f"meta is {_shown(meta)}, it must be an object")
    came: Any = meta.get("merged")
    while came is not None:
        if not isinstance(came, dict) or not _is_place(came):
            raise NotALine("what its meta says under merged is not a place in another ledger")
        came = came.get("merged")
    return meta


def _is_place(came: Mapping[str, Any]) -> bool:
    times = (came.get("recorded_at"), came.get("moment", came.get("recorded_at")))
    is_there = isinstance(came.get("origin"), str) and type(came.get("position")) is int
    return is_there and all(map(_is_time, times)) and isinstance(came.get("renamed", {}), dict)


def _recorded_at(value: Mapping[str, Any]) -> str:
    time = _text(value, "time")
    if not _is_time(time):
        form = "in the form of 2026-01-02T03:04:05.000000Z"
        raise NotALine(f"time is {time[:40]!r}, it must be one before the year {_END}, {form}")
    return time


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not _TIME.fullmatch(value) or value >= _END:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:  # a day or an hour that does not exist
        return False
    return True


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise NotALine(f"{name} is {_shown(found)}, it must be a text")
    return found


def _optional(value: Mapping[str, Any], name: str) -> str | None:
    return _text(value, name) if name in value else None


def _number(value: Mapping[str, Any], name: str, *, least: int) -> int:
    found = value.get(name)
    if type(found) is not int or found < least:
        raise NotALine(f"{name} is {_shown(found)}, it must be a whole number from {least}")
    return found


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:80]
