"""What a ledger answers with: its rows as frozen values.

Invariant: nothing here is a database's row object, so a value outlives its connection and is the same from
either engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.event import Event
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


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A session window and how far its reflection came."""

    position: int
    event_id: str
    session_id: str | None
    state: str
    attempts: int
    changed_at: str


def event_of(row: Any, kept: Mapping[str, Any] | None = None) -> Event:
    """An event from its row of the table; `kept` stands for data that was redacted.

    Raises LedgerCorrupt for data that is not JSON.
    """
    try:
        data = kept if row.data is None else json.loads(row.data)
        meta = json.loads(row.meta)
    except (ValueError, RecursionError) as error:
        raise LedgerCorrupt(
            f"event {row.position} ({row.type}) does not hold JSON ({error}); run `reflector verify`"
        ) from error
    return Event(
        row.position,
        row.event_id,
        row.type,
        row.schema_version,
        row.occurred_at,
        row.recorded_at,
        row.actor,
        row.session_id,
        row.reflection_id,
        row.target_id,
        data,
        row.data_hash,
        meta,
        row.chain,
    )


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


def projected_of(row: Sequence[Any], kept: Mapping[str, str | None]) -> Projected:
    """A row of these columns, `data` as text; `kept` has the redactions' data by target. Raises LedgerCorrupt."""
    try:
        data = json.loads(row[7]) if row[7] is not None else json.loads(kept.get(row[1]) or "{}").get("kept")
    except (ValueError, AttributeError, RecursionError) as error:
        raise LedgerCorrupt(
            f"event {row[0]} ({row[2]}) does not hold JSON ({error}); run `reflector verify`"
        ) from error
    return Projected(row[0], row[1], row[2], row[3], row[4], row[5], row[6], data)
