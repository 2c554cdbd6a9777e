"""Bullets merged by reference: counters are those of a union, undoing gives everything back, and all sides agree."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflector.audit.blame import blame
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.fold import Playbook, fold
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported, load
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.counting import COUNTINGS
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, examples
from tests.curation.lives import KINDS, Life
from tests.ledger.events import added, adopted, changed, merged, reflected, retracted, window
from tests.ledger.histories import Fresh, fresh

__all__ = ["fresh"]


def holds(ledger: Ledger) -> dict[str, tuple[object, ...]]:
    """What the tables say of each bullet."""
    return {
        row.name: (row.section, row.text, row.status, row.reason, row.removed_into, row.helpful, row.harmful)
        for row in ledger.rows()
    }


def agree(ledger: Ledger, *moments: int) -> None:
    """Tables, fold, the past, a rebuild and a recount all say the same."""
    events = list(ledger.events())
    book = fold(events)
    assert {name: row[5:] for name, row in holds(ledger).items()} == {n: book.counters(n) for n in book.entries}
    assert list(verify(ledger)) == []
    for position in (*moments, len(events)):
        past, book = Past(ledger, position), fold(events[:position])
        for policy in COUNTINGS:
            counters = {name: book.counters(name, policy) for name in book.entries}
            assert past.counters(list(counters), policy) == counters, (position, policy)
        assert {row.name: (row.status, row.removed_into) for row in past.rows()} == {
            name: (of.status, of.removed_into) for name, of in book.entries.items()
        }
    before = ledger.rows()
    ledger.rebuild()
    assert ledger.rows() == before


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    """Three bullets, of which two were counted in one session."""
    ledger = open_ledger()
    first, second = window(1, "s1", [1]), window(2, "s2", [2])
    ledger.append([added("pat-001", helpful=2), added("pat-002", harmful=1), added("pat-003")])
    ledger.append([first, *reflected("r1", first, ("pat-001", "helpful"), ("pat-002", "helpful"))])
    ledger.append([second, *reflected("r2", second, ("pat-001", "harmful"))])
    return ledger


def counters(ledger: Ledger, name: str) -> tuple[int, int]:
    row = ledger.row(name)
    assert row is not None
    return row.helpful, row.harmful


def told(ledger: Ledger, number: int, *tags: tuple[str, str], session: str = "late") -> list[NewEvent]:
    seen = window(number, session, [number])
    events = [seen, *reflected(f"r{number}", seen, *tags)]
    ledger.append(events)
    return events


def test_a_merged_bullet_counts_what_its_sources_counted_and_a_session_once(ledger: Ledger) -> None:
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    assert counters(ledger, "pat-004") == (4, 2)
    ledger.append([adopted("once_per_session")])
    assert counters(ledger, "pat-004") == (3, 2)
    assert counters(ledger, "pat-001") == (3, 1)
    agree(ledger, 3, 6, 9)


def test_late_evidence_on_a_source_counts_up_the_whole_chain(ledger: Ledger) -> None:
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    ledger.append([merged("pat-005", "pat-004", "pat-003")])
    events = told(ledger, 7, ("pat-001", "helpful"), ("pat-004", "harmful"))
    assert [counters(ledger, name) for name in ("pat-001", "pat-004", "pat-005")] == [(4, 1), (5, 3), (5, 3)]
    ledger.append([retracted(events[0])])
    assert [counters(ledger, name) for name in ("pat-001", "pat-004", "pat-005")] == [(3, 1), (4, 2), (4, 2)]
    agree(ledger)


def test_an_undone_merge_gives_every_source_back_and_keeps_the_tags_that_the_merged_one_got(ledger: Ledger) -> None:
    before = holds(ledger)
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    told(ledger, 7, ("pat-004", "helpful"))
    ledger.append([changed(ev.BULLET_UNMERGED, "pat-004", 1)])
    after = holds(ledger)
    assert {name: after[name] for name in before} == before
    assert after["pat-004"][2:] == ("removed", "unmerged", None, 1, 0)
    agree(ledger)


def test_an_inner_merge_can_be_undone_while_the_outer_one_stands(ledger: Ledger) -> None:
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    ledger.append([merged("pat-005", "pat-004", "pat-003")])
    ledger.append([changed(ev.BULLET_UNMERGED, "pat-004", 1)])
    statuses = {name: row[2] for name, row in holds(ledger).items()}
    assert statuses == {
        "pat-001": "live",
        "pat-002": "live",
        "pat-003": "merged",
        "pat-004": "merged",
        "pat-005": "live",
    }
    assert counters(ledger, "pat-005") == (0, 0)
    agree(ledger)


def test_counters_set_by_hand_on_a_merged_bullet_hold_what_its_sources_had(ledger: Ledger) -> None:
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    ledger.append([changed(ev.BULLET_RECOUNTED, "pat-004", 1, helpful=9, harmful=0)])
    told(ledger, 7, ("pat-001", "helpful"))
    assert [counters(ledger, name) for name in ("pat-004", "pat-001")] == [(10, 0), (4, 1)]
    agree(ledger)
    ledger.append([changed(ev.BULLET_UNMERGED, "pat-004", 1)])
    assert counters(ledger, "pat-001") == (4, 1)
    agree(ledger)


def test_a_source_that_is_not_live_stays_what_it_is(ledger: Ledger) -> None:
    ledger.append([changed(ev.BULLET_REMOVED, "pat-002", 1, reason="pruned", into=None)])
    ledger.append([merged("pat-004", "pat-001", "pat-002", "pat-099")])
    assert holds(ledger)["pat-002"][2:4] == ("removed", "pruned")
    assert counters(ledger, "pat-004") == (3, 1)
    ledger.append([changed(ev.BULLET_RESTORED, "pat-001", 1)])
    assert holds(ledger)["pat-001"][2] == "merged"
    ledger.append([changed(ev.BULLET_RESTORED, "pat-002", 2)])
    assert holds(ledger)["pat-002"][2:] == ("live", None, None, 1, 1)
    agree(ledger)


def test_a_source_that_another_machine_removed_stays_gone_when_the_merge_is_undone(ledger: Ledger) -> None:
    ledger.append([merged("pat-004", "pat-001", "pat-002")])
    before = counters(ledger, "pat-004")
    ledger.append([changed(ev.BULLET_REMOVED, "pat-001", 1, reason="pruned", into=None)])
    assert counters(ledger, "pat-004") == before
    ledger.append([changed(ev.BULLET_UNMERGED, "pat-004", 1)])
    assert {name: row[2:4] for name, row in holds(ledger).items() if name < "pat-003"} == {
        "pat-001": ("removed", "pruned"),
        "pat-002": ("live", None),
    }
    agree(ledger)


def test_a_bullet_that_was_removed_into_another_one_is_not_followed(ledger: Ledger) -> None:
    ledger.append([changed(ev.BULLET_REMOVED, "pat-001", 1, reason="merged", into="pat-002")])
    told(ledger, 7, ("pat-001", "helpful"))
    assert counters(ledger, "pat-002") == (1, 1)
    agree(ledger)


def test_a_circle_of_pointers_that_somebody_forged_ends(ledger: Ledger) -> None:
    for name, into in (("pat-001", "pat-002"), ("pat-002", "pat-001")):
        ledger.append([changed(ev.BULLET_REMOVED, name, 1, reason="merged", into=into, follows=True)])
    told(ledger, 7, ("pat-001", "helpful"))
    book: Playbook = fold(ledger.events())
    assert counters(ledger, "pat-001") == book.counters("pat-001") == (5, 2)
    assert list(verify(ledger)) == []


@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(KINDS), max_size=25))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_fold_and_past_agree_after_any_history(fresh: Fresh, seed: int, steps: list[str]) -> None:
    chance = random.Random(seed)
    with fresh() as url, Ledger.open(url) as ledger:
        life = Life(ledger, "a")
        for kind in ("add", "add", "add", *steps):
            life.step(kind, chance)
        head = ledger.head().position
        agree(ledger, *(chance.randint(1, head) for _ in range(3)))
        for position in (head, chance.randint(1, head)):
            past = Past(ledger, position)
            for name, wanted in past.counters([row.name for row in past.rows()]).items():
                steps = blame(ledger, name, past)  # ends at the counters
                assert ((steps[-1].helpful, steps[-1].harmful) if steps else (0, 0)) == wanted, (name, position)


def meet(one: Ledger, other: Ledger) -> None:
    """Take the events of another ledger in."""
    lines = list(exported(other))
    merge(one, lambda: lines, rename=True)


@given(seed=st.integers(0, 2**32), meetings=st.lists(st.sampled_from(["ab", "ba", "-"]), min_size=1, max_size=4))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_machines_come_to_one_playbook_in_whatever_order_they_meet(
    fresh: Fresh, seed: int, meetings: list[str]
) -> None:
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS if kind != "redact"]
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        lives = {"a": Life(a, "a"), "b": Life(b, "b")}
        for _ in range(4):
            lives["a"].step("add", chance)
        load(b, list(exported(a)))
        for meeting in meetings:
            for _ in range(chance.randint(1, 12)):
                lives[chance.choice("ab")].step(chance.choice(kinds), chance)
            if meeting != "-":
                meet(lives[meeting[0]].ledger, lives[meeting[1]].ledger)
        order = chance.choice([(a, b), (b, a)])
        meet(*order)
        meet(*reversed(order))
        assert holds(a) == holds(b)
        agree(a)
        agree(b)


@pytest.fixture
def machines(fresh: Fresh) -> Iterator[tuple[Ledger, Ledger]]:
    """Two machines that both have three bullets, which a session of each tagged."""
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        a.append([added("pat-001", "One", helpful=1), added("pat-002", "Two"), added("pat-003", "Three")])
        load(b, list(exported(a)))
        told(a, 1, ("pat-001", "helpful"), ("pat-002", "helpful"), session="a")
        told(b, 2, ("pat-002", "helpful"), ("pat-003", "harmful"), session="b")
        yield a, b


def meet_both(a: Ledger, b: Ledger) -> None:
    """Bring two machines to one state, which is that of one ledger without a finding."""
    meet(a, b)
    meet(b, a)
    for ledger in (a, b):
        assert list(verify(ledger)) == []
    assert sorted(row[1:] for row in holds(a).values() if row[4] is None) == sorted(
        row[1:] for row in holds(b).values() if row[4] is None
    )


def test_the_same_merge_on_two_machines_is_one(machines: tuple[Ledger, Ledger]) -> None:
    for ledger in machines:
        ledger.append([merged("pat-004", "pat-001", "pat-002", text="Both")])
    meet_both(*machines)
    a, b = machines
    assert holds(a) == holds(b)
    assert counters(a, "pat-004") == (4, 0)


def test_of_two_merges_with_one_name_and_text_the_first_counts(machines: tuple[Ledger, Ledger]) -> None:
    a, b = machines
    a.append([merged("pat-004", "pat-001", "pat-002", text="Both")])
    b.append([merged("pat-004", "pat-002", "pat-003", text="Both")])
    meet_both(a, b)
    assert holds(a) == holds(b)
    assert {name: row[2] for name, row in holds(b).items()} == {
        "pat-001": "merged",
        "pat-002": "merged",
        "pat-003": "live",
        "pat-004": "live",
    }
    assert counters(b, "pat-004") == (4, 0)
    assert counters(b, "pat-003") == (0, 1)


def test_of_two_merges_that_share_a_source_the_first_has_it(machines: tuple[Ledger, Ledger]) -> None:
    a, b = machines
    b.append([merged("pat-004", "pat-002", "pat-003", text="Two and three")])
    a.append([merged("pat-004", "pat-001", "pat-002", text="One and two")])
    meet_both(a, b)
    live = {row[1]: row[5:] for row in holds(a).values() if row[2] == "live"}
    assert live == {"Two and three": (2, 1), "One and two": (2, 0)}


def test_a_source_that_is_counted_anew_after_two_machines_met_changes_nothing_for_its_heir(fresh: Fresh) -> None:
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        a.append([added("pat-001", "One"), added("pat-002", "Two"), adopted("once_per_session")])
        a.append([merged("pat-003", "pat-001", "pat-002")])
        told(a, 1, ("pat-002", "helpful"), session="s1")
        load(b, list(exported(a)))
        told(a, 2, ("pat-001", "helpful"), session="s1")
        b.append([changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=1, harmful=0)])
        told(b, 3, ("pat-001", "helpful"), ("pat-002", "helpful"), session="s2")
        meet_both(a, b)
        for ledger in (a, b):
            assert [counters(ledger, name)[0] for name in ("pat-001", "pat-002", "pat-003")] == [2, 2, 3]
