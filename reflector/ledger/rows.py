"""The rows of a ledger as frozen values.

Invariant: no value is a database's row object. So a value outlives its connection, and both engines
return the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from reflector.events.event import BULLET_TAGGED, Event, came_through, is_place
from reflector.events.registry import EVENT_TYPES


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was published earlier."""

    position: int
    chain: str

    def __str__(self) -> str:
        """Return the head as it is published."""
        return f"{self.position}:{self.chain}"


@dataclass(frozen=True, slots=True)
class Head(Anchor):
    """The end of a playbook's history: position 0 and the genesis chain before the first event."""

    playbook: str
    origin: str
    recorded_at: str


#: The format of times in the ledger.
_TIME = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d"
    r"|2[0-3]):[0-5]\d:[0-5]\d"
)


class WindowRow(NamedTuple):
    """A session window and the state of its reflection."""

    position: int
    event_id: str
    session_id: str | None
    state: str
    attempts: int
    changed_at: str


def event_of(row: Sequence[Any], kept: Mapping[str, Any] | None = None) -> Event:
    """Return an event from the columns of its fields, in their order. `kept` replaces redacted
    data.
    """
    data, fault = read_data(row[2], row[5], row[10], row[12], kept)
    meta, _ = _meta(row[12])
    return Event(*row[:10], data, row[11], meta, *row[13:], fault)  # type: ignore[call-arg]


def read_data(
    type_: str, recorded_at: str, text: str | None, meta: str, kept: Mapping[str, Any] | None = None
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the data of an event and "", or None and the reason why the event cannot be read.

    `kept` is the data that remains of a redacted event. This is the only check of an event that is
    read. Each event was admitted when it was appended, but a user with all rights on the database
    can change it later. An event that fails the check changes nothing. `log` marks it, and `verify`
    names it.
    """
    if not _TIME.match(recorded_at):
        return None, f"the event was recorded at {recorded_at!r:.40}, which is not a time"
    if odd := _meta(meta)[1]:
        return None, f"in the event's meta: {odd}"
    if type_ == BULLET_TAGGED and text is not None:
        return _tag(text)
    data, fault = (kept, "") if text is None else object_in(text)
    one = EVENT_TYPES.get(type_)
    if data is not None and not fault and one:
        fault = one.unreadable(data) or ""
    return (None, fault) if fault else (data, "")


@lru_cache(maxsize=64)
def _meta(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the object in an event's meta and its fault, "" for none. The object must not be
    changed, because most events share the object of the previous event.
    """
    meta, fault = object_in(text)
    return meta, fault if all(
        map(is_place, came_through(meta))
    ) else "`merged` must contain an origin, a position and a time (recorded_at)"


@lru_cache(maxsize=8192)
def _tag(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the data of a tag and its fault, as `read_data`. The data must not be changed, because
    a history repeats the same tags.
    """
    data, fault = object_in(text)
    fault = fault or EVENT_TYPES[BULLET_TAGGED].unreadable(data) or ""
    return (None, fault) if fault else (data, "")


def object_in(text: str) -> tuple[dict[str, Any], str]:
    """Return the JSON object in a column of an event and "", or an empty object and the fault of
    the column.
    """
    try:
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # half a character cannot be stored or shown
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return {}, f"the text is not JSON ({error})"
    return (found, "") if isinstance(found, dict) else ({}, "the text is not a JSON object")


class Stored(NamedTuple):
    """An event as the event table contains it. `data` (None once it was redacted) and `meta` are
    canonical texts.
    """

    position: int
    event_id: str
    type: str
    schema_version: int
    occurred_at: str
    recorded_at: str
    actor: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    data: str | None
    data_hash: str
    meta: str
    chain: str
