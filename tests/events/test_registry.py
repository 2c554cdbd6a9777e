"""The registry: each event type is one value, and a type that leaves something out cannot be imported."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from reflector.events.effects import ChangesNothing
from reflector.events.kinds import EventType, Merge
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES, names_in
from reflector.events.renames import renamed
from reflector.events.state import Entry
from reflector.ledger import tables
from tests.ledger.events import changed, history, window

PAGE = Path(__file__).parents[2] / "docs" / "ledger-format.md"


def test_the_page_lists_every_event_type() -> None:
    rows = [
        f"| `{name}` | {one.since} | {one.meaning} | {one.target.event if one.target else ''} |"
        for name, one in EVENT_TYPES.items()
    ]
    wanted = "\n".join(["| type | since | says | target |", "|---|---|---|---|", *rows, ""])
    assert wanted in PAGE.read_text("utf-8"), wanted


@pytest.mark.parametrize("left_out", ["effect", "summary", "meaning", "since", "name"])
def test_a_type_without_one_of_its_parts_is_refused(left_out: str) -> None:
    with pytest.raises(TypeError, match="needs a name, a meaning, a revision, an effect and a summary"):
        replace(EVENT_TYPES["bullet.added"], **{left_out: "" if left_out in ("name", "meaning") else 0})
    with pytest.raises(TypeError, match=left_out):
        EventType(  # type: ignore[call-arg]
            **{
                one.name: getattr(EVENT_TYPES["bullet.added"], one.name)
                for one in fields(EventType)
                if one.name != left_out
            }
        )


def test_a_type_that_changes_nothing_says_why_it_is_recorded() -> None:
    idle = [one.effect for one in EVENT_TYPES.values() if isinstance(one.effect, ChangesNothing)]
    assert idle
    assert all(len(effect.because.split()) > 3 for effect in idle)


def test_every_field_of_a_bullets_entry_is_a_column_of_its_table() -> None:
    columns = {column.name for column in tables.bullet.columns}
    assert {one.name for one in fields(Entry)} | {"playbook_id", "helpful", "harmful"} == columns


def test_names_are_renamed_wherever_an_event_may_hold_one() -> None:
    seen = set()
    cites = replace(window(9), data={**window(9).data, "cited": ["pat-001"], "carried": ["mis-001"]})
    recount = changed("bullet.recounted", "pat-001", helpful=1, harmful=0)
    for event in (*history(), cites, recount):
        names = {name: f"{name[:-3]}9{name[-2:]}" for name in names_in(event.type, event.data)}
        there = renamed(event.type, event.data, names)
        assert names_in(event.type, there) == set(names.values())
        assert renamed(event.type, there, {new: old for old, new in names.items()}) == event.data
        assert (there is event.data) == (not names)
        seen |= {event.type} if names else set()
    assert seen == set(NAMING_TYPES)


def test_a_bullet_given_to_the_users_playbook_keeps_the_name_that_it_has_there() -> None:
    data = {"name": "pat-001", "reason": "promoted", "into": "pat-001"}
    assert renamed("bullet.removed", data, {"pat-001": "pat-002"}) == {**data, "name": "pat-002"}
    merged = {**data, "reason": "merged"}
    assert renamed("bullet.removed", merged, {"pat-001": "pat-002"})["into"] == "pat-002"


def test_only_an_assertion_stays_in_its_ledger() -> None:
    assert [name for name, one in EVENT_TYPES.items() if one.merge is Merge.LOCAL] == ["bullet.asserted"]
