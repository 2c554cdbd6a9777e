"""Many processes at once, and processes that die: one order without gaps, nothing lost, nothing
in halves.
"""

import random
import time

import pytest

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger
from tests.ledger.events import added

from .writer import Writer, prepare, writers


def _run(made: list[Writer]) -> None:
    for writer in made:
        writer.begin()
    for writer in made:
        writer.finish()
    assert [writer.error for writer in made] == [None] * len(made)


def _sound(ledger: Ledger) -> None:
    assert [event.position for event in ledger.events()] == list(
        range(1, ledger.head().position + 1)
    )
    assert list(verify(ledger)) == []


@pytest.mark.slow
def test_eight_writers_make_one_order_without_gaps(
    ledger_url: str, open_ledger: OpenLedger
) -> None:
    prepare(ledger_url)
    with writers(ledger_url, *range(8), batches=6) as made:
        _run(made)
    taken: list[int] = []
    for writer in made:
        assert len(writer.acks) == 6
        assert all(ack.last - ack.first == 4 for ack in writer.acks)  # a batch stands together
        assert [ack.first for ack in writer.acks] == sorted(ack.first for ack in writer.acks)
        taken += [position for ack in writer.acks for position in range(ack.first, ack.last + 1)]
    assert sorted(taken) == list(range(11, 8 * 6 * 5 + 11))
    ledger = open_ledger()
    assert [(row.helpful, row.harmful) for row in ledger.rows()] == [(96, 0), (0, 96)]
    _sound(ledger)


@pytest.mark.slow
def test_eight_processes_may_open_first_together(ledger_url: str, open_ledger: OpenLedger) -> None:
    with writers(ledger_url, *range(8), batches=1) as made:
        _run(made)
    ledger = open_ledger()
    assert ledger.head().position == 8 * 6
    _sound(ledger)


@pytest.mark.parametrize(
    "kills",
    [4, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(1200)], id="hundreds")],
)
def test_killed_writers_lose_nothing_acknowledged_or_half(
    ledger_url: str, open_ledger: OpenLedger, kills: int
) -> None:
    prepare(ledger_url)
    chance = random.Random(kills)
    ledger = open_ledger()
    acknowledged = 0
    for number in range(0, kills, 2):
        with writers(ledger_url, number, number + 1, batches=None, tags=10) as made:
            for writer in made:
                writer.begin()
            time.sleep(chance.uniform(0.0, 0.06))
            for writer in made:
                writer.kill()
                assert writer.error is None
                acknowledged = max([acknowledged, *(ack.last for ack in writer.acks)])
        assert ledger.head().position >= acknowledged
        # The next writer goes on at once, on top of everything that was acknowledged.
        (next_,) = ledger.append([added(f"oth-{number:03}")])
        assert next_.position > acknowledged
        # Reading all of a growing history after each kill would take most of the time.
        if number % max(kills // 5, 2) == 0:
            _sound(ledger)
    _sound(ledger)
    assert acknowledged > 0
    tags = list(ledger.events(types=[ev.BULLET_TAGGED]))
    completed = list(ledger.events(types=[ev.REFLECTION_COMPLETED]))
    assert len(tags) == 10 * len(completed)  # no reflection in halves
    assert sum(row.helpful + row.harmful for row in ledger.rows()) == len(tags)
    before = (ledger.rows(), ledger.windows())
    ledger.rebuild()
    assert (ledger.rows(), ledger.windows()) == before


@pytest.mark.slow
def test_killed_first_opening_leaves_it_to_the_next(
    ledger_url: str, open_ledger: OpenLedger
) -> None:
    chance = random.Random(1)
    for number in range(10):
        with writers(ledger_url, number, batches=None, wait=False):
            time.sleep(chance.uniform(0.0, 0.2))
    _sound(open_ledger())
