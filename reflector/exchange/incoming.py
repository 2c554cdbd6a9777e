"""How this ledger stores an event of another one.

Invariant: what an event says here and where it comes from give the event of that ledger, hash for hash. So its
bullets may have other names here, and its id may be another one, and the other ledger is still proved by this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import identity
from reflector.events.registry import EVENT_TYPES
from reflector.events.renames import renamed
from reflector.exchange.survey import Survey
from reflector.exchange.transfer import Checked
from reflector.ledger.canonical import plain, sealed
from reflector.ledger.reader import line_of
from reflector.ledger.redaction import texts_of
from reflector.ledger.rows import Stored
from reflector.ledger.statements import Statements
from reflector.proof.merge_proof import MERGED, came_through


class Item(NamedTuple):
    """A line as this ledger would store it, with its own names of bullets; the tables are written from `facts`."""

    one: Checked
    event_id: str
    target_id: str | None
    data: str | None
    data_hash: str
    facts: Mapping[str, Any] | None


def incoming(one: Checked, found: Survey, ids: Mapping[str, str]) -> Item:
    """Return a line under the names that its bullets have here; `ids` are those of events that a name identifies."""
    stored = one.stored
    facts = found.kept.get(stored.event_id) if one.facts is None else one.facts
    data, data_hash = stored.data, stored.data_hash
    if found.names and facts is not None:
        then = _renamed(stored, facts, found)
        if then is not facts and one.facts is not None:
            data, data_hash = sealed(then)
        facts = then
    target_id = ids.get(stored.target_id or "", stored.target_id)
    event_id = stored.event_id
    if EVENT_TYPES[stored.type].id_is_name:
        event_id = ids.get(event_id, event_id)
    elif target_id != stored.target_id and event_id == identity(stored.type, stored.target_id or ""):
        event_id = identity(stored.type, target_id or "")
    return Item(one, event_id, target_id, data, data_hash, facts)


def _renamed(stored: Stored, facts: Mapping[str, Any], found: Survey) -> Mapping[str, Any]:
    if stored.type != ev.EVENT_REDACTED or not isinstance(facts.get("kept"), Mapping):
        return renamed(stored.type, facts, found.names)
    kept = renamed(found.types.get(stored.target_id or "", ""), facts["kept"], found.names)
    return facts if kept is facts["kept"] else {**facts, "kept": kept}


def meta_here(item: Item, found: Survey, event_id: str, target_id: str | None) -> dict[str, Any]:
    """Return an event's meta, and where it comes from: all that its leaf there needs and that is not the same here."""
    stored, meta = item.one.stored, plain(item.one.event.meta)
    came: dict[str, Any] = {
        "origin": found.header.origin,
        "position": stored.position,
        "recorded_at": stored.recorded_at,
    }
    if stored.position in found.late:
        came["moment"] = found.late[stored.position]
    if event_id != stored.event_id:
        came["event_id"] = stored.event_id
    if target_id != stored.target_id:
        came["target_id"] = stored.target_id
    if item.data_hash != stored.data_hash:
        came |= {"data_hash": stored.data_hash, "renamed": dict(found.names)}
        if stored.type == ev.EVENT_REDACTED:
            came["of"] = found.types[stored.target_id or ""]
    if MERGED in meta:
        came[MERGED] = meta[MERGED]
    return {**meta, MERGED: came}


def came_as(meta: Mapping[str, Any]) -> list[str]:
    """Return the other ids that an event had in the ledgers through which it came."""
    return [came["event_id"] for came in came_through(meta) if isinstance(came.get("event_id"), str)]


def beside_id(item: Item) -> str:
    """Return the id under which an event is stored beside one that has its id and other data."""
    return identity(item.one.stored.type, "beside", item.event_id, item.data_hash)


def brings_back(sql: Statements, target_id: str, found: Survey) -> bool:
    """Return whether what the file's redactions leave of an event holds a text that was erased here.

    Such a redaction is not appended, nor the one of it in a later merge.
    """
    line = line_of(sql, target_id)
    if len(line) < 2 or line[-1].data is None:
        return False
    left, here = found.kept.get(line[0].event_id), line[-1].data.get("kept", {})
    type_ = line[0].type
    return left is not None and not set(texts_of(type_, left)) <= set(texts_of(type_, here))
