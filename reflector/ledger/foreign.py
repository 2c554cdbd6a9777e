"""What a file's event may say of where it came from.

Invariant: whatever passes here, a later merge can read. A file may come from anybody, and its hashes only say that
nobody changed it since. Its data is admitted as everybody's is (`reflector.ledger.admission`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reflector.ledger.cloudevents import NotALine
from reflector.ledger.event import NewEvent

#: As every ledger writes it, so that texts are in the order of time.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def refuse_misplaced(event: NewEvent) -> None:
    """Raises NotALine for an event whose place in another ledger could not be read."""
    came: Any = event.meta.get("merged")
    while came is not None:
        if not isinstance(came, Mapping) or not _is_place(came) or not isinstance(came.get("renamed", {}), Mapping):
            raise NotALine("what its meta says under merged is no place in another ledger")
        came = came.get("merged")


def _is_place(came: Mapping[str, Any]) -> bool:
    times = (came.get("recorded_at"), came.get("moment", came.get("recorded_at")))
    is_there = isinstance(came.get("origin"), str) and type(came.get("position")) is int
    return is_there and all(isinstance(time, str) and _TIME.fullmatch(time) for time in times)
