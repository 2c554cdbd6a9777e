"""What a ledger answers with: its rows as frozen values.

Invariant: nothing here is a database's row object, so a value outlives its connection and is the same from
either engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from reflector.events.event import BULLET_TAGGED, Event
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.errors import LedgerCorrupt
from reflector.playbook.bullet import Bullet


@dataclass(frozen=True, slots=True)
class Head:
    """Where a playbook's history ends: position 0 and the genesis chain before the first event."""

    playbook: str
    origin: str
    position: int
    chain: str
    recorded_at: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was published earlier."""

    position: int
    chain: str


@dataclass(frozen=True, slots=True)
class BulletRow:
    """A bullet as the ledger keeps it, tombstones included."""

    name: str
    section: str
    text: str
    status: str
    reason: str | None
    removed_into: str | None
    position: int
    helpful: int
    harmful: int

    @property
    def bullet(self) -> Bullet:
        """The part that readers of a playbook see."""
        return Bullet(self.name, self.section, self.text, self.helpful, self.harmful)

    @property
    def counts(self) -> bool:
        """Whether evidence on the bullet counts: it is live, or was merged into one that has its evidence."""
        return self.status != "removed"

    @property
    def end(self) -> str:
        """What became of the bullet: "removed (pruned)", "merged into pat-004"; "" of a live one."""
        if self.status == "merged":
            return f"merged into {self.removed_into}"
        into = f", into {self.removed_into}" if self.removed_into else ""
        return f"removed ({self.reason}{into})" if self.status == "removed" else ""


_VERIFY = "run `reflector verify`, and restore a backup"

#: As the ledger writes a time.
_TIME = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d")

#: The condition that a window is open, as the partial index on them has it.
OPEN_WINDOW = "state IN ('pending', 'answered', 'failed')"


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A session window and how far its reflection came."""

    position: int
    event_id: str
    session_id: str | None
    state: str
    attempts: int
    changed_at: str


def event_of(row: Sequence[Any], kept: Mapping[str, Any] | None = None) -> Event:
    """Return an event from the columns of its fields, in their order; `kept` replaces data that was redacted.

    Raises LedgerCorrupt for data that no event of its type has.
    """
    position, type_, text, meta_text = row[0], row[2], row[10], row[12]
    if not _TIME.match(row[5]):
        raise LedgerCorrupt(
            f"event {position} ({type_}) was recorded at {row[5]!r:.40}, which is not a time; {_VERIFY}"
        )
    data = kept if text is None else data_of(position, type_, text)
    meta = object_of(position, type_, meta_text) if meta_text != "{}" else {}
    return Event(*row[:10], data, row[11], meta, *row[13:])  # type: ignore[call-arg]


def data_of(position: int, type_: str, text: str) -> Mapping[str, Any]:
    """Return an event's data, which is as its type has it. Raises LedgerCorrupt.

    Every event was looked at when it was appended; somebody with the database's whole powers can change it since.
    """
    data = object_of(position, type_, text)
    check_shape(position, type_, data)
    return data


def check_shape(position: int, type_: str, data: Mapping[str, Any]) -> None:
    """Raise LedgerCorrupt for data that no event of its type has."""
    one = EVENT_TYPES.get(type_) if type_ != BULLET_TAGGED else None
    if one is not None and (fault := one.misshapen(data)):
        raise LedgerCorrupt(f"event {position} ({type_}) holds data that it cannot have: {fault}; {_VERIFY}")


def names_of(position: int, type_: str, text: str | None) -> list[str]:
    """Return a list of names in an event's data, [] where it has none. Raises LedgerCorrupt."""
    names = [] if text is None else _json(position, type_, text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LedgerCorrupt(f"event {position} ({type_}) holds something that is not a list of names; {_VERIFY}")
    return names


def object_of(position: int, type_: str, text: str) -> dict[str, Any]:
    """Return the JSON object in a column of an event, whatever it holds. Raises LedgerCorrupt."""
    found = _json(position, type_, text)
    if not isinstance(found, dict):
        raise LedgerCorrupt(f"event {position} ({type_}) does not hold a JSON object; {_VERIFY}")
    return found


def _json(position: int, type_: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise LedgerCorrupt(f"event {position} ({type_}) does not hold JSON ({error}); {_VERIFY}") from error


class Projected(NamedTuple):
    """The part of an appended event that the projection reads."""

    position: int
    event_id: str
    type: str
    recorded_at: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    data: Mapping[str, Any] | None
    actor: str = ""
    meta: str = "{}"


class Stored(NamedTuple):
    """An event as the event table holds it: `data` (None once it was redacted) and `meta` are canonical texts."""

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


#: The columns of a `Projected`, `data` as text.
PROJECTED = "position, event_id, type, recorded_at, session_id, reflection_id, target_id, data, actor, meta"


def redaction_data(text: str | None) -> Mapping[str, Any] | None:
    """The data of an event.redacted, {} for a text that is not an object: the walk of `verify` names its event."""
    try:
        data = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if data is None or isinstance(data, dict) else {}


def projected_of(row: Sequence[Any], kept: Mapping[str, Any], reads: Callable[[str], bool]) -> Projected:
    """Return a row of `PROJECTED`; `kept` has what redactions left, by target. Raises LedgerCorrupt.

    Data is parsed of the types that `reads` names, of the others it is None: prose is most of a ledger's bytes.
    """
    position, event_id, type_, recorded_at, session_id, reflection_id, target_id, text, actor, meta = row
    data: Mapping[str, Any] | None
    if type_ == BULLET_TAGGED and text is not None:
        try:
            data = tag_data(text)
        except (ValueError, RecursionError):
            data = data_of(position, type_, text)
    elif not reads(type_):
        data = None
    else:
        data = data_of(position, type_, text) if text is not None else kept.get(event_id)
    return Projected(position, event_id, type_, recorded_at, session_id, reflection_id, target_id, data, actor, meta)


@lru_cache(maxsize=8192)
def tag_data(text: str) -> Mapping[str, Any]:
    """A tag's data, not to be changed. A tag says little, so a history says the same again and again: remembering it
    halves what reading a tag costs. Raises ValueError, RecursionError."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("not an object")
    return data
