"""What an event of a file must be, besides what every append must be.

Invariant: whatever passes here, the tables and a later merge can read. What this program appends itself has these
shapes by the way it is made; a file may come from anybody, and its hashes only say that nobody changed it since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.cloudevents import NotALine
from reflector.ledger.event import NewEvent
from reflector.ledger.record_keys import unpack_keys

_LISTS = ("cited", "retired", "unknown", "carried")
_HEX = frozenset("0123456789abcdef")
#: As every ledger writes it, so that texts are in the order of time.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def refuse_misshapen(event: NewEvent) -> None:
    """Raises NotALine for an event that the projection or a merge could not read."""
    came: Any = event.meta.get("merged")
    while came is not None:
        if not isinstance(came, Mapping) or not _is_place(came) or not isinstance(came.get("renamed", {}), Mapping):
            raise NotALine("what its meta says under merged is no place in another ledger")
        came = came.get("merged")
    if event.type == ev.SESSION_RECORDED and event.data:
        _refuse_session(event.data)
    elif event.type == ev.LEDGER_MERGED:
        _refuse_merge(event.data)


def _is_place(came: Mapping[str, Any]) -> bool:
    times = (came.get("recorded_at"), came.get("moment", came.get("recorded_at")))
    is_there = isinstance(came.get("origin"), str) and type(came.get("position")) is int
    return is_there and all(isinstance(time, str) and _TIME.fullmatch(time) for time in times)


def _refuse_session(data: Mapping[str, Any]) -> None:
    window = data.get("window", {})
    keys: Any = window.get("keys") if isinstance(window, Mapping) else 0
    try:
        if keys is not None:
            unpack_keys(keys)
    except (ValueError, TypeError) as error:
        raise NotALine(f"the record keys of its window cannot be read ({error})") from error
    for name in _LISTS:
        listed = data.get(name) or []
        if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
            raise NotALine(f"{name} is {listed!r:.80}, it must be a list of names")


def _refuse_merge(data: Mapping[str, Any]) -> None:
    after, here, renamed = (data.get(name) for name in ("after", "here", "renamed"))
    sound = (
        isinstance(data.get("playbook"), str)
        and isinstance(data.get("origin"), str)
        and _is_head(data)
        and isinstance(after, Mapping)
        and _is_head(after)
        and isinstance(here, list)
        and all(_is_here(entry) for entry in here)
        and isinstance(renamed, Mapping)
        and all(isinstance(name, str) for name in renamed.values())
    )
    if not sound:
        raise NotALine("its data is no record of a merge")


def _is_head(value: Mapping[str, Any]) -> bool:
    return type(value.get("position")) is int and isinstance(value.get("chain"), str)


def _is_here(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 4 or type(entry[0]) is not int:
        return False
    return all(isinstance(text, str) for text in entry[1:]) and len(entry[3]) == 64 and set(entry[3]) <= _HEX
