"""The registry: each event type is one value, from which documents, columns and renamings follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from reflector.events.effects import ChangesNothing
from reflector.events.kinds import Field, Merge
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES, fields_of, names_in
from reflector.events.state import Entry
from reflector.exchange.agreement import renamed
from tests.ledger import sql


def test_a_type_that_changes_nothing_says_why_it_is_recorded() -> None:
    idle = [one.effect for one in EVENT_TYPES.values() if isinstance(one.effect, ChangesNothing)]
    assert idle
    assert all(len(effect.because.split()) > 3 for effect in idle)


def test_every_field_of_a_bullets_entry_is_a_column_of_its_table() -> None:
    columns = {*sql.tables()["bullet"][0]}
    held = {one.name for one in fields(Entry)} | {"playbook_id", "helpful", "harmful"}
    assert held <= columns, f"migrations/schema.sql and a migration lack {', '.join(held - columns)}"
    assert columns <= held, f"Entry in reflector/events/state.py lacks {', '.join(columns - held)}"


def _naming(held: Mapping[str, Field]) -> dict[str, Any]:
    """Return data with a name in every field that may hold one."""
    data: dict[str, Any] = {}
    for key, one in held.items():
        if one.names:
            data[key] = "pat-001" if one.fault("pat-001") is None else ["pat-001", "mis-001"]
        elif one.holds_names:
            inner = _naming(one.within)
            data[key] = inner if one.fault(inner) is None else [inner, inner]
    return data


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_names_are_renamed_wherever_an_event_may_hold_one(type_: str) -> None:
    data = _naming(fields_of(type_))
    names = {name: f"{name[:-3]}9{name[-2:]}" for name in names_in(type_, data)}
    assert bool(names) == (type_ in NAMING_TYPES)
    there = renamed(type_, data, names)
    assert names_in(type_, there) == set(names.values())
    assert renamed(type_, there, {new: old for old, new in names.items()}) == data
    assert (there is data) == (not names)


def test_a_bullet_given_to_the_users_playbook_keeps_the_name_that_it_has_there() -> None:
    data = {"name": "pat-001", "reason": "promoted", "into": "pat-001"}
    assert renamed("bullet.removed", data, {"pat-001": "pat-002"}) == {**data, "name": "pat-002"}
    merged = {**data, "reason": "merged"}
    assert renamed("bullet.removed", merged, {"pat-001": "pat-002"})["into"] == "pat-002"


def test_only_an_assertion_and_a_move_stay_in_their_ledger() -> None:
    local = [name for name, one in EVENT_TYPES.items() if one.merge is Merge.LOCAL]
    assert local == ["bullet.asserted", "ledger.moved", "ledger.arrived"]
