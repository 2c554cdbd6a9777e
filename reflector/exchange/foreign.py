"""What a file's event may say of where it came from.

Invariant: whatever passes here, a later merge can read. A file may come from anybody, and its hashes only say that
nobody changed it since. Its data is admitted as everybody's is (`reflector.ledger.admission`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reflector.exchange.cloudevents import Line, NotALine

#: As every ledger writes it, so that texts are in the order of time.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


#: No event could follow one of the last moment of time.
_END = "9999"


def refuse_misplaced(line: Line) -> None:
    """Raises NotALine for an event whose time, or whose place in another ledger, could not be read."""
    if not _is_time(line.recorded_at):
        raise NotALine(
            f"time is {line.recorded_at[:40]!r}, it must be one before the year {_END}, "
            "in the form of 2026-01-02T03:04:05.000000Z"
        )
    came: Any = line.event.meta.get("merged")
    while came is not None:
        if not isinstance(came, Mapping) or not _is_place(came) or not isinstance(came.get("renamed", {}), Mapping):
            raise NotALine("what its meta says under merged is no place in another ledger")
        came = came.get("merged")


def _is_place(came: Mapping[str, Any]) -> bool:
    is_there = isinstance(came.get("origin"), str) and type(came.get("position")) is int
    return is_there and _is_time(came.get("recorded_at")) and _is_time(came.get("moment", came.get("recorded_at")))


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not _TIME.fullmatch(value) or value >= _END:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:  # there is no such day or hour
        return False
    return True
