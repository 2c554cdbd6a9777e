"""Differences between moments: each equals what the folds say."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.audit.difference import difference
from reflector.events import event as ev
from reflector.events.fold import fold
from reflector.ledger.store import Ledger
from tests.conftest import examples
from tests.ledger.events import added, changed, reflected, retracted, window
from tests.ledger.test_as_of import ACTIONS, lived

HISTORIES = st.lists(ACTIONS, max_size=12)


@settings(max_examples=examples(60))
@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_moved_tags_explain_the_way_from_one_playbook_to_another(actions: list[Any], random: Any) -> None:
    with Ledger.open("sqlite://") as ledger:
        lived(ledger, actions)
        head = ledger.head().position
        first, last = random.randint(0, head), random.randint(0, head)
        found = {one.name: one for one in difference(ledger, first, last).bullets}
        before, after = fold(ledger.history(upto=first)), fold(ledger.history(upto=last))
        for name in {*before.entries, *after.entries}:
            one = found.get(name)
            old, new = before.entries.get(name), after.entries.get(name)
            start = before.counters(name) if old else (0, 0)
            end = after.counters(name) if new else (0, 0)
            if one is None:
                assert (old, start) == (new, end)
                continue
            base = [entry.baseline if entry else (0, 0) for entry in (old, new)]
            for index, verdict in enumerate(("helpful", "harmful")):
                moved = sum(getattr(session, verdict) for session in one.sessions)
                assert end[index] - start[index] == moved + base[1][index] - base[0][index]


def test_a_difference_tells_what_happened_to_each_bullet() -> None:
    with Ledger.open("sqlite://") as ledger:
        first, second = window(1, "s1"), window(2, "s2")
        ledger.append([added("pat-001"), added("pat-002"), added("mis-001")])
        ledger.append([first, *reflected("r1", first, ("pat-001", "helpful"))])
        start = ledger.head().position
        ledger.append([second, *reflected("r2", second, ("pat-001", "harmful"))])
        ledger.append([retracted(first)])
        ledger.append([changed(ev.BULLET_REVISED, "pat-002", 1, text="Otherwise")])
        ledger.append([changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"), added("ctx-001")])
        found = {one.name: one for one in difference(ledger, start, ledger.head().position).bullets}
        assert list(found) == ["pat-001", "pat-002", "mis-001", "ctx-001"]
        moved = {one.session_id: (one.helpful, one.harmful) for one in found["pat-001"].sessions}
        assert moved == {"s1": (-1, 0), "s2": (0, 1)}
        assert found["ctx-001"].before is None
        assert found["mis-001"].after is not None
        assert found["mis-001"].after.removed_into == "pat-001"
        assert difference(ledger, start, start).bullets == ()


def test_a_bullet_whose_counters_were_set_by_hand_is_told_so_whenever_it_came() -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append([added("pat-001"), changed(ev.BULLET_RECOUNTED, "pat-001", 1, helpful=5, harmful=1)])
        for first, last, is_set in ((0, 2, True), (2, 0, True), (1, 2, True), (0, 1, False)):
            (one,) = difference(ledger, first, last).bullets
            assert (one.recounted, one.sessions) == (is_set, ())
