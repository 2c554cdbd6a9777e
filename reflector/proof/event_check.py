"""One pass over a playbook's events: chain, order and redactions checked, the playbook folded.

Invariant: each event is read once, in order, and found sound or named with what is wrong; what the fold gives in the
end is what the tables must hold. No row is trusted: one that cannot be read is a finding, and the walk continues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from reflector.events import event as ev
from reflector.events.fold import apply, verdict
from reflector.events.record_keys import unpack_keys
from reflector.events.registry import EVENT_TYPES, WINDOW_TYPES, window_step
from reflector.ledger import tables
from reflector.ledger.admission import fault_of
from reflector.ledger.canonical import digest, genesis, next_chain
from reflector.ledger.projection import storable
from reflector.ledger.redaction import what_is_left
from reflector.ledger.rows import Anchor, Projected, redaction_data
from reflector.mistakes import Finding
from reflector.proof.drift import Folded
from reflector.proof.remedies import MEND_HEAD, RESTORE
from reflector.proof.tag_rows import COLUMNS as _TAG_COLUMNS
from reflector.proof.tag_rows import TagRows

_BATCH = 1000
_COLUMNS = (
    "position, event_id, type, schema_version, occurred_at, recorded_at, actor, session_id, reflection_id,"
    " target_id, data, data_hash, meta, chain"
)


class Walk:
    """One pass over the events: chain, order and redactions checked, the playbook folded."""

    def __init__(self, connection: sa.Connection, playbook_id: int, anchors: Sequence[Anchor]) -> None:
        self.connection = connection
        self.id = playbook_id
        self.anchors = anchors
        #: The position of the event that is looked at.
        self.position = 0
        self.folded = Folded()
        self.foldable = True
        self.wrong: Finding | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield every finding of the events, of the head, of the anchors and of the tags' rows."""
        table = tables.playbook
        head = self.connection.execute(sa.select(table).where(table.c.id == self.id)).one_or_none()
        if head is None:
            yield Finding("head", None, "the playbook's row is gone", RESTORE)
            self.foldable = False
            return
        chain = genesis(head.name, head.origin)
        position, last = 0, ""
        there = {Anchor(0, chain)}
        wanted = {anchor.position for anchor in self.anchors}
        kept = self._kept()
        tag_rows = TagRows(self._rows("tag", _TAG_COLUMNS))
        self.folded.active = tag_rows.active
        meta, meta_hash = "{}", digest("{}")
        for row in self._rows("event", _COLUMNS):
            data = row[10]
            if row[0] != position + 1:
                yield Finding("order", row[0], f"position {row[0]} follows {position}", RESTORE)
            self.position = position = row[0]
            if data is None or row[1] in kept:
                yield from self._erased(row, kept)
            if data is not None and digest(data) != row[11]:
                yield Finding("data", position, f"the data of this {row[2]} is not what was appended", RESTORE)
            if row[12] != meta:  # most events have the meta of the event before
                meta, meta_hash = row[12], digest(row[12])
            expected = next_chain(chain, row[:10], row[11], meta_hash)
            # An absent field is hashed as an empty text, which no field is.
            if expected != row[13] or "" in row[7:10]:
                yield Finding("chain", position, f"this {row[2]} or the event before it was changed", RESTORE)
                chain = row[13] if _well_formed(row[13]) else expected
            else:
                chain = expected
            if row[5] < last:
                yield Finding("order", position, f"recorded at {row[5]}, before its predecessor ({last})", RESTORE)
            last = row[5]
            if position in wanted:
                there.add(Anchor(position, chain))
            try:
                self._fold(row, data, kept, tag_rows)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                self.foldable = False
                yield Finding("data", position, f"the data of this {row[2]} cannot be read ({error!r})", RESTORE)
            if self.wrong is not None:
                yield self.wrong
                self.wrong = None
        if position != head.position:
            yield Finding("head", position, f"the events end at {position}, the head says {head.position}", MEND_HEAD)
        elif chain != head.chain or (position and last != head.recorded_at):
            yield Finding("head", position, "the head's chain or time is not the last event's", MEND_HEAD)
        for anchor in dict.fromkeys(self.anchors):
            if anchor not in there:
                what = f"the published head {anchor.position} is not in this history, which ends at {position}"
                yield Finding("anchor", anchor.position, what, RESTORE)
        self.folded.playbook.position = position
        if self.foldable:
            yield from tag_rows.findings()

    def _rows(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE playbook_id = {self.id:d} ORDER BY position"  # noqa: S608
        raw = self.connection.connection
        # The driver's own rows, a batch at a time; on PostgreSQL only a named cursor leaves the rest at the server.
        cursor = raw.cursor(table) if self.connection.dialect.name == "postgresql" else raw.cursor()
        try:
            cursor.execute(query)
            while batch := cursor.fetchmany(_BATCH):
                yield from batch
        finally:
            cursor.close()

    def unreadable_from(self) -> int | None:
        """Return the position of the first event that SQLite cannot give; None if it is unknown.

        A batch is given whole or not at all, and a driver reads one row ahead, so this asks for them one by one.
        """
        if self.connection.dialect.name == "postgresql" or not isinstance(self.position, int):
            return None
        query = f"SELECT {_COLUMNS} FROM event WHERE playbook_id = {self.id:d} AND position = ?"  # noqa: S608
        cursor = self.connection.connection.cursor()
        for position in range(self.position + 1, self.position + _BATCH + 2):
            try:
                cursor.execute(query, (position,)).fetchone()
            except Exception:  # noqa: BLE001 - the error that is being located, of any class
                return position
        return None

    def _fold(
        self, row: tuple[Any, ...], text: str | None, kept: dict[str, dict[str, Any] | None], tag_rows: TagRows
    ) -> None:
        type_, folded = row[2], self.folded
        if type_ == ev.BULLET_TAGGED:
            name, value, tag = _judged(text or "{}")
            if value:
                folded.playbook.take_tag(name, (row[0], row[1], tag, row[7], row[8]), row[5])
            tag_rows.take(row[0], (row[0], name, value, row[7], row[8]))
            return
        data: Mapping[str, Any] | None = kept.get(row[1]) if text is None else json.loads(text)
        if data is not None and (fault := fault_of(type_, data)):
            what = f"this {type_} holds data that is not admitted: {fault}"
            self.wrong = Finding("data", row[0], what, _TAKEN_IN)
        apply(folded.playbook, Projected(row[0], row[1], type_, row[5], row[7], row[8], row[9], data))
        if type_ in WINDOW_TYPES:
            folded.windows[row[1]] = (row[0], row[7], "pending", 0, row[5])
            folded.keys.update(unpack_keys((data or {}).get("window", {}).get("keys", "")))
        elif step := window_step(type_, data or {}):
            self._window(row[9], *step, row[5])
        elif type_ == ev.BULLET_ASSERTED and data:
            self.wrong = self._assertion(row[0], data)

    def _window(self, event_id: str | None, state: str, attempts: int, recorded_at: str) -> None:
        window = self.folded.windows.get(event_id or "")
        if window is not None and event_id and window[2] != "completed":
            self.folded.windows[event_id] = (window[0], window[1], state, window[3] + attempts, recorded_at)

    def _assertion(self, position: int, data: Mapping[str, Any]) -> Finding | None:
        name, playbook = data["name"], self.folded.playbook
        if name not in playbook.entries:
            what, remedy = f"{name} is asserted but does not exist", "look at `reflector log`"
            return Finding("assertion", position, what, remedy)
        counted = playbook.counters(name)
        if counted == (data["helpful"], data["harmful"]):
            return None
        what = f"{name} was asserted at {data['helpful']}/{data['harmful']}, "
        what += f"the events give {counted[0]}/{counted[1]}"
        return Finding("assertion", position, what, f"look at `reflector blame {name}`")

    def _kept(self) -> dict[str, dict[str, Any] | None]:
        """Return what is left of each event that an event.redacted erased, by its id."""
        table = tables.event
        # The literal lets the planner take the index of the rare types; without it every event is read once more.
        query = sa.select(table.c.target_id, table.c.event_id, table.c.data).where(
            table.c.playbook_id == self.id, table.c.type == ev.EVENT_REDACTED, sa.text("type <> 'bullet.tagged'")
        )
        rows = self.connection.execute(query)
        by_target = {target: (event_id, redaction_data(data)) for target, event_id, data in rows}
        return {target: what_is_left(target, by_target) for target in by_target}

    def _erased(self, row: tuple[Any, ...], kept: dict[str, dict[str, Any] | None]) -> Iterator[Finding]:
        if row[10] is not None:
            yield Finding("redaction", row[0], f"the text of this {row[2]} is back, though it was redacted", _AGAIN)
        elif row[1] not in kept:
            yield Finding("redaction", row[0], "the data was erased without an event.redacted", RESTORE)
        elif not (row[2] in EVENT_TYPES and EVENT_TYPES[row[2]].all_prose) and kept[row[1]] is None:
            yield Finding("redaction", row[0], f"the facts of this {row[2]} were erased with its text", RESTORE)


_TAKEN_IN = "an older version took it in with a file; remove the bullet from playbook.json, or restore a backup"
_AGAIN = "find out who put it back; restore a backup from after the redaction"


@lru_cache(maxsize=8192)
def _judged(text: str) -> tuple[str, int, str]:
    """Return (name, 1, -1 or 0, tag) of a tag's data. A tag says little, so a history says the same again and again."""
    data = json.loads(text)
    judged = verdict(data)
    return (*judged, data["tag"]) if judged is not None else (storable(data.get("name")), 0, "")


def _well_formed(chain: object) -> bool:
    return isinstance(chain, str) and re.fullmatch(r"pl1:[0-9a-f]{64}", chain) is not None
