"""A year of two machines with merges of merges, undone merges, prunes, restores and late evidence, and the oracle."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.exchange.transfer import exported, load
from reflector.ledger.store import Ledger
from tests.curation.lives import KINDS, Life
from tests.curation.merge_oracle import Oracle
from tests.curation.test_merges import agree, holds, meet
from tests.ledger.histories import Fresh, fresh

__all__ = ["fresh"]

#: What else happens between sessions; nothing is erased, so that the oracle has every text.
_BETWEEN = [kind for kind in KINDS if kind not in ("session", "late", "redact")]


def _year(
    a: Ledger, b: Ledger, sessions: int, chance: random.Random, meetings: list[tuple[str, str]]
) -> list[NewEvent]:
    """Play a year on two machines that meet at even distances, and a last time in the end; all that was appended."""
    log: list[NewEvent] = []
    lives = {"a": Life(a, "a", log), "b": Life(b, "b", log)}
    for _ in range(12):
        lives["a"].step("add", chance)
    load(b, list(exported(a)))
    every = sessions // (len(meetings) + 1)
    left = iter(meetings)
    for number in range(1, sessions + 1):
        life = lives[chance.choice("ab")]
        life.step("late" if chance.random() < 0.1 else "session", chance)
        if chance.random() < 0.15:
            life.step(chance.choice(_BETWEEN), chance)
        if number % every == 0 and (who := next(left, None)) is not None:
            meet(lives[who[0]].ledger, lives[who[1]].ledger)
    for one, other in ((a, b), (b, a)):
        meet(one, other)
    return log


def _is_the_oracles(a: Ledger, b: Ledger, log: list[NewEvent], chance: random.Random) -> Counter[str]:
    wanted = Oracle(log).rows()
    assert holds(a) == wanted
    assert holds(b) == wanted
    for ledger in (a, b):
        head = ledger.head().position
        agree(ledger, *(chance.randint(1, head) for _ in range(5)))
    return Counter(event.type for event in log)


_ORDERS = [
    [("a", "b"), ("b", "a")],
    [("b", "a"), ("b", "a"), ("a", "b")],
    [("a", "b"), ("a", "b")],
    [],
]


@pytest.mark.timeout(600)
def test_a_month_of_two_machines_is_the_oracles(fresh: Fresh) -> None:
    chance = random.Random(1)
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        log = _year(a, b, 120, chance, _ORDERS[1])
        _is_the_oracles(a, b, log, chance)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("order", range(len(_ORDERS)))
def test_a_year_of_two_thousand_sessions_is_the_oracles_in_every_order_of_meetings(fresh: Fresh, order: int) -> None:
    chance = random.Random(order)
    with fresh() as first, fresh() as second, Ledger.open(first) as a, Ledger.open(second) as b:
        log = _year(a, b, 2_000, chance, _ORDERS[order])
        times = _is_the_oracles(a, b, log, chance)
    assert times[ev.SESSION_RECORDED] == 2_000
    for kind in (ev.BULLET_MERGED, ev.BULLET_UNMERGED, ev.BULLET_RESTORED, ev.BULLET_REMOVED, ev.BULLET_RECOUNTED):
        assert times[kind] >= 10, (kind, times)
