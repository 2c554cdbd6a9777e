"""The playbook at a position is the fold up to it, whatever came before and after."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.audit.standing import Standing, verdicts_in
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.fold import Playbook, fold
from reflector.ledger.as_of import Past
from reflector.ledger.errors import AlreadyRetracted, Conflict
from reflector.ledger.store import Ledger
from reflector.playbook.counting import COUNTINGS
from tests.conftest import examples

from .events import added, adopted, changed, history, imported, merged, reflected, retracted, tagged, window

NAMES = ("pat-001", "mis-001", "ctx-001")
NAME = st.sampled_from(NAMES)
TAGS = st.lists(st.tuples(NAME, st.sampled_from(["helpful", "harmful", "neutral"])), min_size=1, max_size=4)
ACTIONS = st.one_of(
    st.tuples(st.just("reflect"), st.sampled_from(["s1", "s2", None]), TAGS),
    st.tuples(st.just("stray"), NAME, st.none()),
    st.tuples(st.just("recount"), NAME, st.integers(0, 9)),
    st.tuples(st.just("retract"), st.integers(0, 60), st.none()),
    st.tuples(st.just("add"), NAME, st.integers(0, 3)),
    st.tuples(st.just("revise"), NAME, st.none()),
    st.tuples(st.just("remove"), NAME, st.none()),
    st.tuples(st.just("policy"), st.sampled_from(COUNTINGS), st.none()),
)


def lived(ledger: Ledger, actions: list[tuple[Any, ...]]) -> None:
    """Append what the actions say, a transaction each."""
    targets: list[NewEvent] = []
    ledger.append([imported(("pat-001", 2, 1))])
    for number, (what, key, more) in enumerate(actions):
        events: list[NewEvent] = []
        if what == "reflect":
            recorded = window(number, key)
            tags = [(name, tag, "neutral" if tag == "neutral" else "counted") for name, tag in more]
            events = [recorded, *reflected(f"r{number}", recorded, *tags)]
        elif what == "retract" and targets:
            events = [retracted(targets[key % len(targets)])]
        elif what != "retract":
            events = [
                {
                    "stray": lambda key=key, number=number: tagged(f"x{number}", 0, key, "helpful", session=None),
                    "recount": lambda key=key, number=number, more=more: changed(
                        ev.BULLET_RECOUNTED, key, number, helpful=more, harmful=1
                    ),
                    "add": lambda key=key, more=more: added(key, helpful=more),
                    "revise": lambda key=key, number=number: changed(
                        ev.BULLET_REVISED, key, number, text=f"Text {number}"
                    ),
                    "remove": lambda key=key, number=number: changed(
                        ev.BULLET_REMOVED, key, number, reason="deleted", into=None
                    ),
                    "policy": lambda key=key, number=number: adopted(key, number),
                }[what]()
            ]
        try:
            ledger.append(events)
        except (AlreadyRetracted, Conflict):
            continue
        targets += [event for event in events if event.type not in {ev.POLICY_ADOPTED}]


def assert_is(past: Past, book: Playbook) -> None:
    assert past.bullets() == book.bullets()
    assert {row.name: row.status for row in past.rows()} == {e.name: e.status for e in book.entries.values()}
    assert (past.counting, past.updated_at) == (book.adopted, book.updated_at)
    for counting in COUNTINGS:
        counters = {row.name: (row.helpful, row.harmful) for row in past.rows(counting)}
        assert counters == {name: book.counters(name, counting) for name in book.entries}
    with past.ledger.asking() as sql:
        given = [one for one in verdicts_in(sql, past.position) if one.tag]
    standing = Standing(past)
    for name in NAMES:
        row = past.row(name)
        assert (row is None) == (name not in book.entries)
        if row is not None:
            counted = [one.position for one in given if one.name == name and standing.fault(one) is None]
            assert counted == [tag[0] for tag in book.counted(name)]
            assert (row.helpful, row.harmful) == book.counters(name)


@settings(max_examples=examples(60))
@given(actions=st.lists(ACTIONS, max_size=14))
def test_the_playbook_at_every_position_is_the_fold_up_to_it(actions: list[tuple[Any, ...]]) -> None:
    with Ledger.open("sqlite://") as ledger:
        lived(ledger, actions)
        for position in range(ledger.head().position + 1):
            assert_is(Past(ledger, position), fold(ledger.history(upto=position)))


def test_both_engines_answer_alike(ledger: Ledger) -> None:
    ledger.append(history())
    later = window(3, "s3")
    ledger.append([later, *reflected("r3", later, ("pat-001", "helpful"), ("ctx-001", "harmful"))])
    ledger.append([retracted(later), changed(ev.BULLET_RECOUNTED, "ctx-001", 1, helpful=1, harmful=1)])
    ledger.append([adopted("once_per_session")])
    for position in range(ledger.head().position + 1):
        assert_is(Past(ledger, position), fold(ledger.history(upto=position)))


def test_tags_that_never_counted_are_left_out_and_those_of_merged_bullets_added(
    ledger: Ledger,
) -> None:
    ledger.append([imported(("pat-001", 2, 1)), added("pat-002")])
    first = window(1)
    completed, *tags = reflected("r1", first, ("pat-001", "helpful"), ("pat-002", "harmful"))
    ledger.append([first, completed, retracted(first), merged("pat-003", "pat-001", "pat-002")])
    middle = ledger.head().position
    ledger.append(tags)  # they come after what was retracted
    later = window(2, "s2")
    ledger.append([later, *reflected("r2", later, ("pat-001", "helpful"), ("pat-003", "harmful"))])
    for position in range(middle, ledger.head().position + 1):
        assert_is(Past(ledger, position), fold(ledger.history(upto=position)))
