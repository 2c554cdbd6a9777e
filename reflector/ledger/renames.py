"""Bullets of another ledger under other names: two machines gave one name to two bullets, and it means one for ever.

Invariant: a renaming is one to one, touches names where an event says which bullet it means and no prose, and is undone
by its inverse. So the event as the other ledger has it, and its hash, can be had back from the one that is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.event import identity

Names = Mapping[str, str]

_NAMED = frozenset(
    {
        ev.BULLET_ADDED,
        ev.BULLET_REVISED,
        ev.BULLET_MOVED,
        ev.BULLET_REMOVED,
        ev.BULLET_RECOUNTED,
        ev.BULLET_ASSERTED,
        ev.BULLET_TAGGED,
    }
)
_LISTS = ("cited", "retired", "unknown", "carried")


def renamed(type_: str, data: Mapping[str, Any], names: Names) -> Mapping[str, Any]:
    """An event's data with its bullets under their new names; the very same object where it names none of them."""
    changed: dict[str, Any] = {}
    if type_ in _NAMED:
        # A bullet that was given to the user's own playbook went into one of that playbook.
        fields = ("name",) if data.get("reason") == "promoted" else ("name", "into")
        changed = {key: names[data[key]] for key in fields if isinstance(data.get(key), str) and data[key] in names}
    elif type_ == ev.PLAYBOOK_IMPORTED:
        bullets = [{**b, "name": names[b["name"]]} if b.get("name") in names else b for b in data.get("bullets", ())]
        changed = {"bullets": bullets} if bullets != data.get("bullets") else {}
    elif type_ == ev.SESSION_RECORDED:
        for key in _LISTS:
            if any(name in names for name in data.get(key) or ()):
                changed[key] = [names.get(name, name) for name in data[key]]
    return {**data, **changed} if changed else data


def mentioned(type_: str, data: Mapping[str, Any]) -> set[str]:
    """Every name at a place that `renamed` may touch, of bullets that are there or not."""
    if type_ in _NAMED:
        return {data[key] for key in ("name", "into") if isinstance(data.get(key), str)}
    if type_ == ev.PLAYBOOK_IMPORTED:
        return {bullet["name"] for bullet in data.get("bullets", ())}
    if type_ == ev.SESSION_RECORDED:
        return {name for key in _LISTS for name in data.get(key) or () if isinstance(name, str)}
    return set()


def renamed_ids(names: Names) -> dict[str, str]:
    """The new ids of events whose identity is a bullet's name."""
    return {identity(ev.BULLET_ADDED, old): identity(ev.BULLET_ADDED, new) for old, new in names.items()}


def inverse(names: Names) -> dict[str, str]:
    """The renaming that takes this one back."""
    return {new: old for old, new in names.items()}
