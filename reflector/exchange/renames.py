"""Bullets of another ledger under other names: two machines gave one name to two bullets, and a name means one forever.

Invariant: a renaming is one to one, and touches names where an event says which bullet it means and no prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reflector.events.event import identity
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES, fields_of
from reflector.events.state import Data

Names = Mapping[str, str]


def renamed(type_: str, data: Data, names: Names) -> Data:
    """Return an event's data with its bullets under their new names; the very same object if it names none of them."""
    return _renamed(fields_of(type_), data, names)


def _renamed(fields: Mapping[str, Field], value: Data, names: Names) -> Data:
    changed: dict[str, Any] = {}
    for key, one in fields.items():
        here = value.get(key)
        if one.names and not (one.elsewhere is not None and one.elsewhere(value)):
            if isinstance(here, str) and here in names:
                changed[key] = names[here]
            elif isinstance(here, list) and any(name in names for name in here):
                changed[key] = [names.get(name, name) for name in here]
        elif one.within and isinstance(here, list):
            inner = [_renamed(one.within, item, names) for item in here]
            if any(new is not old for new, old in zip(inner, here, strict=True)):
                changed[key] = inner
        elif one.within and isinstance(here, Mapping):
            whole = _renamed(one.within, here, names)
            changed |= {} if whole is here else {key: whole}
    return {**value, **changed} if changed else value


def renamed_ids(names: Names) -> dict[str, str]:
    """Return the new ids of events whose identity is a bullet's name, by the old ones."""
    types = [name for name, one in EVENT_TYPES.items() if one.id_is_name]
    return {identity(type_, old): identity(type_, new) for type_ in types for old, new in names.items()}
