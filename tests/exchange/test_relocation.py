"""A playbook that moves is in one ledger at a time, with one history, whatever is killed on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.exchange import relocation
from reflector.exchange.relocation import Parted, relocate
from reflector.exchange.transfer import copy, exported
from reflector.ledger.errors import LedgerMoved
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.proof.verify import verify
from tests.ledger.events import added, changed, history

Opened = Callable[[str], Ledger]


@pytest.fixture
def elsewhere(ledger_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of another empty ledger, on the same engine."""
    if ledger_url.startswith("sqlite"):
        yield sqlite_url(tmp_path / "elsewhere.db")
        return
    with request.getfixturevalue("postgres").database() as url:
        yield url


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    ledger.append(history())
    return ledger


def _move(source: Ledger, url: str) -> Ledger:
    """The playbook where it is after a move, proved."""
    end = relocate(source, url, actor="human")
    target = Ledger.open(url)
    assert target.head() == end
    assert list(verify(target)) == []
    assert list(verify(source)) == []
    return target


def test_a_moved_playbook_goes_on_there_and_ends_here(told: Ledger, elsewhere: str) -> None:
    before, rows = list(exported(told)), told.rows()
    with _move(told, elsewhere) as target:
        assert list(exported(target, len(before) - 1)) == before
        assert [event.type for event in target.events(after=len(before) - 1)] == [ev.LEDGER_MOVED, ev.LEDGER_ARRIVED]
        assert target.rows() == rows
        target.append([added("oth-001")])
        with pytest.raises(LedgerMoved, match=r"name that ledger in ledgers\.toml") as refused:
            told.append([added("oth-001")])
        assert refused.value.to in str(refused.value)
        assert list(verify(target)) == []


def test_a_move_that_is_repeated_changes_nothing(told: Ledger, elsewhere: str) -> None:
    with _move(told, elsewhere) as target:
        target.append([added("oth-001")])
        head = target.head()
        assert relocate(told, elsewhere, actor="human") == head
        assert target.head() == head


def test_a_playbook_moves_back_and_forth_in_one_history(told: Ledger, ledger_url: str, elsewhere: str) -> None:
    places = [told, Ledger.open(elsewhere)]
    for number, url in enumerate([elsewhere, ledger_url, elsewhere, ledger_url]):
        source = places[number % 2]
        source.append([added(f"oth-{number:03d}")])
        _move(source, url).close()
    there, here = places[1], places[0]
    here.append([added("oth-009")])
    assert [row.name for row in here.rows() if row.name.startswith("oth-")] == [
        *("oth-000", "oth-001", "oth-002", "oth-003", "oth-009")
    ]
    assert there.head().position < here.head().position
    assert list(exported(here, there.head().position))[1:] == list(exported(there))[1:]
    there.close()


def test_a_copy_made_before_is_brought_up_to_the_source(told: Ledger, elsewhere: str) -> None:
    copy(told, elsewhere)
    told.append([added("oth-001")])
    with _move(told, elsewhere) as target:
        assert target.rows() == told.rows()


def test_what_was_erased_meanwhile_is_erased_there(told: Ledger, elsewhere: str) -> None:
    copy(told, elsewhere)
    secret = next(told.events(types=[ev.REFLECTION_COMPLETED])).event_id
    told.redact(secret, reason="a secret", actor="human")
    told.redact(secret, reason="again", actor="human")
    with _move(told, elsewhere) as target:
        erased = target.event(secret)
        assert erased is not None
        assert erased == told.event(secret)
        assert target.rows() == told.rows()


def test_a_place_with_another_history_is_refused_and_left(told: Ledger, elsewhere: str) -> None:
    with Ledger.open(elsewhere) as other:
        other.append([added("oth-001")])
        head = other.head()
        with pytest.raises(Parted, match="another history, of 1 events; nothing was changed"):
            relocate(told, elsewhere, actor="human")
        assert (other.head(), told.seal()) == (head, None)


def test_an_earlier_state_is_not_moved_over_what_came_of_it(told: Ledger, elsewhere: str) -> None:
    copy(told, elsewhere)
    with Ledger.open(elsewhere) as ahead:
        ahead.append([added("oth-001")])
    with pytest.raises(Parted, match="is ahead in"):
        relocate(told, elsewhere, actor="human")


def test_a_playbook_that_moved_is_not_moved_to_a_third_place(told: Ledger, elsewhere: str, tmp_path: Path) -> None:
    third = sqlite_url(tmp_path / "third.db")
    with _move(told, elsewhere), pytest.raises(LedgerMoved):
        relocate(told, third, actor="human")


def test_a_playbook_that_is_there_already_stays_as_it_is(told: Ledger, ledger_url: str) -> None:
    head = told.head()
    assert relocate(told, ledger_url, actor="human") == head == told.head()


#: What the move calls, in the order of their first calls, and how often before it is killed: 0 kills before the call.
_STEPS = [
    *(("locked", 0), ("checked", 0), ("grow", 0), ("project_from", 0), ("_seal", 0)),
    *(("checked", 1), ("grow", 1), ("project_from", 1), ("identity", 1), ("project_from", 2), ("become", 0)),
]


@pytest.mark.parametrize(("step", "calls"), _STEPS)
def test_a_move_that_is_killed_at_any_step_is_completed_by_the_same_command(
    told: Ledger, ledger_url: str, elsewhere: str, step: str, calls: int
) -> None:
    told.append([added("oth-001")])
    told.close()  # a child has no use for its parent's connections

    def die() -> None:
        original, left = getattr(relocation, step), [calls]

        def dying(*arguments: Any, **named: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return original(*arguments, **named)

        setattr(relocation, step, dying)
        with Ledger.open(ledger_url) as source:
            relocate(source, elsewhere, actor="human")

    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with Ledger.open(ledger_url) as source:
        try:
            source.append([added("oth-002")])
        except LedgerMoved as refused:
            assert refused.to  # noqa: PT017  both are right, and nothing in between
        events = [event for event in source.events() if event.type != ev.LEDGER_MOVED]
        with _move(source, elsewhere) as target:
            kept = [event for event in target.events() if not event.type.startswith("ledger.")]
            assert [event.event_id for event in kept] == [event.event_id for event in events]
            target.append([added("oth-003")])


def test_nobodys_event_is_lost_or_doubled_while_a_playbook_moves_there_and_back(
    told: Ledger, ledger_url: str, elsewhere: str
) -> None:
    acknowledged: list[str] = []
    done = threading.Event()

    def write() -> None:
        urls, number = [ledger_url, elsewhere], 0
        while not done.is_set() or number < 20:
            event = changed(
                ev.BULLET_REVISED, "pat-001", "moving", number, text=f"Read the error first, {number} times"
            )
            with Ledger.open(urls[0]) as ledger:
                try:
                    ledger.append([event])
                except LedgerMoved:
                    urls.reverse()
                    continue
            acknowledged.append(event.event_id)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    with Ledger.open(elsewhere) as there:
        for source, url in ((told, elsewhere), (there, ledger_url)):
            relocate(source, url, actor="human")
    done.set()
    writer.join()
    revised = [event.event_id for event in told.events(types=[ev.BULLET_REVISED]) if event.event_id in acknowledged]
    assert revised == acknowledged
    assert list(verify(told)) == []
