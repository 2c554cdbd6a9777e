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
from typing import Any, Final

from reflector.events.event import MERGED, SCHEMA_VERSION, came_through, is_place
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.rows import Stored, object_in
from reflector.playbook.names import is_name

FORMAT: Final = "reflector.ledger"
VERSION: Final = 1
EXPORTED: Final = "ledger.exported"
_SOURCE: Final = "urn:reflector:ledger:"
#: As every ledger writes it, so that texts are in the order of time.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
#: No event could follow one of the last moment of time.
_END: Final = "9999"

#: The attributes of an event's line, in order, and which fields of the event they are.
_ATTRIBUTES: Final = {
    "id": "event_id",
    "type": "type",
    "time": "recorded_at",
    "position": "position",
    "schemaversion": "schema_version",
    "occurredat": "occurred_at",
    "actor": "actor",
    "datahash": "data_hash",
    "meta": "meta",
    "chain": "chain",
}
#: Those without a value are left out: the specification knows no null.
_OPTIONAL: Final = {"sessionid": "session_id", "reflectionid": "reflection_id", "targetid": "target_id"}

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
    """Return an event's line, without a newline. Data that is no JSON object stands in it as the text that it is."""
    facts, fault = object_in(stored.data) if stored.data is not None else ({}, "")
    name = facts.get("name") if stored.type.startswith("bullet.") else None
    attributes = {"specversion": "1.0", "id": stored.event_id, "source": _SOURCE + origin}
    attributes |= {attribute: getattr(stored, field) for attribute, field in _ATTRIBUTES.items()}
    optional = {attribute: getattr(stored, field) for attribute, field in _OPTIONAL.items()}
    # Consumers filter by the bullet that an event is about without reading `data`.
    optional["subject"] = name if is_name(name) else None
    attributes |= {attribute: value for attribute, value in optional.items() if value is not None}
    if stored.data is None:
        return _encode(attributes)
    if fault or "\n" in stored.data:
        return _encode({**attributes, "datacontenttype": "text/plain", "data": stored.data})
    attributes["datacontenttype"] = "application/json"
    return f'{_encode(attributes)[:-1]},"data":{stored.data}}}'


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


def line_of(text: str | bytes, origin: str) -> tuple[Stored, dict[str, Any] | None, dict[str, Any]]:
    """Return the event of a line with its data, None where it was erased, and its meta; both as they are written.

    `origin` is its header's. Raises NotALine.
    """
    value = _object(text)
    if value.get("source") != _SOURCE + origin:
        raise NotALine(f"source is {_shown(value.get('source'))}, the header's ledger is {_SOURCE + origin}")
    data = value.get("data")
    if "data" in value and not isinstance(data, dict):
        raise NotALine(f"data is {_shown(data)}, it must be an object")
    version = _number(value, "schemaversion", least=1)
    fields = {"position": _number(value, "position", least=1), "schema_version": version, "data": None}
    names = {**_ATTRIBUTES, **{name: field for name, field in _OPTIONAL.items() if name in value}}
    texts = {field: _text(value, name) for name, field in names.items() if field not in fields}
    stored = Stored(**dict.fromkeys(_OPTIONAL.values()) | texts | fields)  # type: ignore[arg-type]
    if stored.type not in EVENT_TYPES or version > SCHEMA_VERSION:
        raise NotALine(f"this reflector knows no {stored.type[:60]!r} of version {version}; upgrade reflector")
    if not _is_time(stored.recorded_at):
        form = "in the form of 2026-01-02T03:04:05.000000Z"
        raise NotALine(f"time is {stored.recorded_at[:40]!r}, it must be one before the year {_END}, {form}")
    return stored, data, _meta(stored.meta)


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotALine(f"it is not JSON, or was cut off ({error})") from error
    if not isinstance(value, dict) or value.get("specversion") != "1.0":
        raise NotALine("it is not a CloudEvent: an object with specversion 1.0 is wanted")
    return value


def _meta(text: str) -> dict[str, Any]:
    meta, fault = object_in(text)
    if fault:
        raise NotALine(f"meta is {_shown(text)}: {fault}")
    places = [meta, *came_through(meta)]
    if MERGED in places[-1] or not all(map(_is_place, places[1:])):
        raise NotALine("what its meta says under merged is not a place in another ledger")
    return meta


def _is_place(came: Mapping[str, Any]) -> bool:
    return is_place(came) and all(_is_time(came[key]) for key in ("recorded_at", "moment") if key in came)


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


def _number(value: Mapping[str, Any], name: str, *, least: int) -> int:
    found = value.get(name)
    if type(found) is not int or found < least:
        raise NotALine(f"{name} is {_shown(found)}, it must be a whole number from {least}")
    return found


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:80]
