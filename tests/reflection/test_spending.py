"""What a person's ledgers tell each other of the month's tokens, whatever becomes of the record."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.reflection.spending import Spending


@pytest.fixture
def spending(tmp_path: Path) -> Spending:
    return Spending({"HOME": str(tmp_path)})


def record(spending: Spending) -> Path:
    assert spending.path is not None
    return spending.path


def test_a_ledger_is_told_what_the_others_took_and_have_reserved(spending: Spending) -> None:
    spending.write("a", 100)
    spending.write("b", 20, 3)
    assert [spending.total(origin, 0) for origin in ("a", "b", "c")] == [123, 120, 123]
    spending.write("b", 20)
    assert spending.total("a", 100) == 120
    assert [path.stat().st_mode & 0o777 for path in (record(spending), record(spending).parent)] == [0o600, 0o700]
    spending.write("a", 40)  # an older ledger that came back frees nothing
    assert (spending.total("a", 40), spending.total("b", 20)) == (120, 120)
    record(spending).unlink()  # a lost record leaves each ledger its own sum and is written again by each
    assert spending.total("a", 100) == 100
    spending.write("a", 100)
    spending.write("b", 25)
    assert spending.total("a", 100) == 125


@given(st.binary(max_size=200), st.booleans())
def test_damage_costs_the_ledger_that_asks_nothing_and_the_next_line_stands(damage: bytes, end: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spending = Spending({"HOME": folder})
        spending.write("a", 7)
        with record(spending).open("ab" if end else "wb") as file:
            file.write(damage)
        assert spending.total("a", 50) >= 50
        spending.write("b", 9)
        assert spending.total("a", 50) >= 59


def test_of_two_that_would_go_beyond_the_limit_together_neither_does(spending: Spending) -> None:
    spending.write("b", 0, 60)
    assert spending.reserve("a", 0, 60, 100) == 20
    assert spending.total("b", 0) == 0
    assert spending.reserve("a", 0, 40, 100) == 0
    assert spending.total("b", 0) == 40
    assert spending.reserve("c", 0, 1000, None) == 0


def take(home: str, origin: str) -> None:
    spending = Spending({"HOME": home})
    own = 0
    for _ in range(50):
        if not spending.reserve(origin, own, 10, 1_000):
            own += 10
            spending.write(origin, own)


def test_many_processes_at_once_lose_no_line_and_stay_within_the_limit(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=take, args=(str(tmp_path), f"ledger-{number}")) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    # Each wanted half of the limit.
    spending = Spending({"HOME": str(tmp_path)})
    assert 900 <= spending.total("", 0) <= 1_000
    # Who sees half of a line at the end of a page of memory writes an empty line before its own.
    lines = [line for line in record(spending).read_bytes().splitlines() if line]
    assert len(lines) == 4 * 50 * 2
    assert all(line.count(b" ") == 2 for line in lines)


def test_each_month_has_a_record_of_its_own_and_without_a_home_each_ledger(tmp_path: Path) -> None:
    november, december = (
        Spending({"XDG_STATE_HOME": str(tmp_path)}, datetime(2026, month, 1, tzinfo=UTC)) for month in (11, 12)
    )
    november.write("a", 7)
    assert record(november) == tmp_path / "reflector" / "tokens-2026-11"
    assert (november.total("b", 0), december.total("b", 0)) == (7, 0)
    alone = Spending({})
    alone.write("a", 7)
    assert (alone.path, alone.total("b", 5), alone.reserve("b", 5, 3, 8)) == (None, 5, 0)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_record_is_an_error_and_holds_nobody_up(spending: Spending, make: Callable[[Path], object]) -> None:
    path = record(spending)
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(OSError, match="Errno"):
        spending.write("a", 7)
    assert not (path.parent / "elsewhere").exists()
