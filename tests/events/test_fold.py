"""The fold: what a playbook is, as a pure function of its events, each of a type that stands in
the registry.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.events.effects import ChangesNothing
from reflector.events.event import Event
from reflector.events.kinds import Field, Merge, all_fields
from reflector.events.registry import EVENT_TYPES, NAMING_TYPES, fields_of, fold, fold_in, names_in
from reflector.events.renamings import with_names
from reflector.events.state import REDACTED, counted_verdict
from reflector.playbook.bullet import COUNTINGS, Bullet, member
from reflector.playbook.entry import Entry
from tests.ledger import sql


def made(type_: str, data: dict[str, Any] | None = None, **more: Any) -> Event:
    """An event; `at` gives it its position and time."""
    ids = dict.fromkeys(("session_id", "reflection_id", "target_id"))
    header = {"position": 0, "event_id": "", "schema_version": 1, "occurred_at": "", "actor": ""}
    rest = {"recorded_at": "", "data_hash": "", "meta": {}, "chain": ""}
    return Event(type=type_, data=data, **{**header, **ids, **rest, **more})


def at(*events: Event, start: int = 1) -> list[Event]:
    return [
        replace(event, position=n, recorded_at=f"t{n:03d}", event_id=event.event_id or f"e{n}")
        for n, event in enumerate(events, start)
    ]


def bullet(name: str, helpful: int = 0, harmful: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "section": name[:3],
        "text": f"About {name}",
        "helpful": helpful,
        "harmful": harmful,
        **more,
    }


def added(name: str, helpful: int = 0, harmful: int = 0) -> Event:
    return made("bullet.added", bullet(name, helpful, harmful))


def tag(name: Any, tag: Any = "helpful", disposition: str = "counted", **more: Any) -> Event:
    return made("bullet.tagged", {"name": name, "tag": tag, "disposition": disposition}, **more)


def completed(reflection: str, window: str | None = None) -> Event:
    return made(
        "reflection.completed",
        {},
        event_id=f"done-{reflection}",
        reflection_id=reflection,
        target_id=window,
    )


def retracted(target: str) -> Event:
    return made("evidence.retracted", {}, event_id=f"not-{target}", target_id=target)


def adopted(counting: object) -> Event:
    return made("policy.adopted", {"counting": counting})


def counters(*events: Event, name: str = "pat-001") -> tuple[int, int]:
    return fold(at(*events)).counters(name)


@pytest.mark.parametrize(
    "gone",
    [[], [made("bullet.removed", {"name": "pat-001", "reason": "deleted", "into": None})]],
    ids=["live", "removed"],
)
def test_a_second_bullet_of_a_name_changes_nothing(gone: list[Event]) -> None:
    second = made("bullet.added", bullet("pat-001", 9, 9) | {"text": "Something else"})
    book = fold(at(added("pat-001", 1), *gone, second))
    assert (book.entries["pat-001"].text, book.counters("pat-001")) == ("About pat-001", (1, 0))
    assert len(book.bullets()) == (0 if gone else 1)


def test_removed_bullet_keeps_its_counts() -> None:
    book = fold(
        at(
            added("pat-001"),
            made("bullet.revised", {"name": "pat-001", "text": "New"}),
            made("bullet.moved", {"name": "pat-001", "section": "oth"}),
            tag("pat-001"),
            made("bullet.removed", {"name": "pat-001", "reason": "merged", "into": "pat-002"}),
            tag("pat-001", "harmful"),
            made("bullet.revised", {"name": "pat-001"}),
        )
    )
    entry = book.entries["pat-001"]
    assert (entry.section, entry.text) == ("oth", REDACTED)
    assert (entry.status, entry.reason, entry.removed_into) == ("removed", "merged", "pat-002")
    assert book.bullets() == ()
    assert book.counters("pat-001") == (1, 1)


@pytest.mark.parametrize(
    "type_",
    ["bullet.added", "bullet.revised", "playbook.imported", "bullet.tagged", "session.recorded"],
)
def test_an_event_without_data_changes_no_bullet(type_: str) -> None:
    assert fold(at(added("pat-001"), made(type_, None))).bullets() == (
        Bullet("pat-001", "pat", "About pat-001"),
    )


_COUNTED = {"name": "pat-001", "tag": "helpful", "disposition": "counted"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (_COUNTED, ("pat-001", 1)),
        ({**_COUNTED, "tag": "harmful"}, ("pat-001", -1)),
        *(({**_COUNTED, "tag": odd}, None) for odd in ("neutral", "Helpful", ["helpful"])),
        *(({**_COUNTED, "name": odd}, None) for odd in ("", "pat\0", None, ["pat-001"])),
        ({**_COUNTED, "disposition": "neutral"}, None),
        ({"name": "pat-001", "tag": "helpful"}, None),
        ({}, None),
    ],
)
def test_a_tag_counts_only_when_it_is_whole(data: dict[str, Any], expected: object) -> None:
    assert counted_verdict(data) == expected
    assert (fold(at(made("bullet.tagged", data))).updated_at is not None) == (expected is not None)
    assert sum(counters(added("pat-001"), made("bullet.tagged", data))) == (expected is not None)


def test_tag_before_its_bullet_or_recount_is_uncounted() -> None:
    recounted = made("bullet.recounted", {"name": "pat-001", "helpful": 5, "harmful": 5})
    assert counters(tag("pat-001"), added("pat-001", 1), tag("pat-001")) == (2, 0)
    assert counters(added("pat-001"), tag("pat-001"), recounted, tag("pat-001", "harmful")) == (
        5,
        6,
    )


def test_requested_policy_precedes_the_adopted_one() -> None:
    tags = [tag("pat-001", session_id="s1")] * 3
    book = fold(at(added("pat-001"), *tags, adopted("once_per_session")))
    assert (book.counters("pat-001"), book.counters("pat-001", "as_applied")) == ((1, 0), (3, 0))


def test_a_missing_id_never_makes_two_tags_one() -> None:
    assert {member(counting, "e1", None, None) for counting in COUNTINGS} == {"e1"}


_NAMES = st.sampled_from(["pat-001", "pat-002"])
_IDS = st.sampled_from(["r1", "r2", None])
_ANY = st.one_of(
    st.builds(added, _NAMES, st.integers(0, 2), st.integers(0, 2)),
    st.builds(
        tag,
        _NAMES,
        st.sampled_from(["helpful", "harmful", "neutral"]),
        reflection_id=_IDS,
        session_id=_IDS,
    ),
    st.builds(completed, st.sampled_from(["r1", "r2"]), st.sampled_from(["w1", None])),
    st.builds(retracted, st.sampled_from(["w1", "done-r1", "e2", "e3", "not-w1", "not-done-r1"])),
    st.builds(adopted, st.sampled_from(COUNTINGS)),
    st.builds(made, st.just("bullet.recounted"), st.builds(bullet, _NAMES, st.integers(0, 2))),
    st.builds(
        made, st.sampled_from(["session.recorded", "reflection.failed", "unheard.of"]), st.just({})
    ),
)
_HISTORIES = st.lists(_ANY, max_size=12).map(lambda events: at(*_once(events)))


def _once(events: list[Event]) -> list[Event]:
    """Without a second retraction of a target, which no ledger holds."""
    seen: set[str | None] = set()
    kept = []
    for event in events:
        if event.type != "evidence.retracted" or event.target_id not in seen:
            kept.append(event)
            seen.add(event.target_id if event.type == "evidence.retracted" else None)
    return kept


@given(_HISTORIES)
def test_counters_are_at_least_the_baseline(events: list[Event]) -> None:
    book = fold(events)
    for entry in book.entries.values():
        for counting in COUNTINGS:
            pair = book.counters(entry.name, counting)
            assert all(total >= base >= 0 for total, base in zip(pair, entry.baseline, strict=True))


@given(_HISTORIES, st.integers(0, 12))
def test_fold_in_two_parts_equals_fold_at_once(events: list[Event], cut: int) -> None:
    book = fold(events[:cut])
    for name in book.entries:
        book.counters(name, "once_per_session")
    for event in events[cut:]:
        fold_in(book, event)
    assert book == fold(events)


# The registry: documents, columns and renamings follow from what each event type is


def test_idle_type_has_a_reason_for_its_record() -> None:
    idle = [one.effect for one in EVENT_TYPES.values() if isinstance(one.effect, ChangesNothing)]
    assert idle
    assert all(len(effect.because.split()) > 3 for effect in idle)


def test_each_field_of_an_entry_is_a_column() -> None:
    columns = {*sql.tables()["bullet"][0]}
    held = {*Entry._fields} | {"playbook_id", "helpful", "harmful"}
    assert held <= columns, (
        f"migrations/schema.sqlite.sql and a migration lack {', '.join(held - columns)}"
    )
    assert columns <= held, f"Entry in reflector/events/state.py lacks {', '.join(columns - held)}"


def _naming(held: Mapping[str, Field]) -> dict[str, Any]:
    """Return data with a name in every field that may hold one."""
    data: dict[str, Any] = {}
    for key, one in held.items():
        if one.names:
            data[key] = "pat-001" if one.fault("pat-001") is None else ["pat-001", "mis-001"]
        elif any(inner.names for inner in all_fields(one.within)):
            inner = _naming(one.within)
            data[key] = inner if one.fault(inner) is None else [inner, inner]
    return data


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_names_are_renamed_in_every_field(type_: str) -> None:
    data = _naming(fields_of(type_))
    names = {name: f"{name[:-3]}9{name[-2:]}" for name in names_in(type_, data)}
    assert bool(names) == (type_ in NAMING_TYPES)
    there = with_names(type_, data, names)
    assert names_in(type_, there) == set(names.values())
    assert with_names(type_, there, {new: old for old, new in names.items()}) == data
    assert (there == data) == (not names)


def test_promoted_bullet_keeps_its_name_in_its_target() -> None:
    data = {"name": "pat-001", "reason": "promoted", "into": "pat-001"}
    assert with_names("bullet.removed", data, {"pat-001": "pat-002"}) == {**data, "name": "pat-002"}
    merged = {**data, "reason": "merged"}
    assert with_names("bullet.removed", merged, {"pat-001": "pat-002"})["into"] == "pat-002"


def test_only_assertions_and_moves_stay_local() -> None:
    local = [name for name, one in EVENT_TYPES.items() if one.merge is Merge.LOCAL]
    assert local == ["bullet.asserted", "ledger.moved", "ledger.arrived"]
