"""A rebuild is one transaction: readers see the old rows until its end, and a killed one changes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.events.event import NewEvent
from reflector.ledger.projection import REBUILDABLE, Progress
from reflector.ledger.statements import LEDGER_TABLES
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.proof.verify import verify
from tests.conftest import OpenLedger

from . import sql
from .events import added, reflected, retracted, window

#: A page holds 2,000 events.
PAGES = 3


def lived(ledger: Ledger) -> None:
    """Three pages of windows with two tags each, one window retracted."""
    ledger.append([added("pat-001"), added("mis-001", helpful=2)])
    for start in range(0, PAGES * 500, 500):
        events: list[NewEvent] = []
        for number in range(start, start + 500):
            recorded = window(number, f"s{number % 50}", keys=[number])
            events += [recorded, *reflected(f"r{number}", recorded, ("pat-001", "helpful"), ("mis-001", "harmful"))]
        ledger.append(events)
    ledger.append([retracted(window(3, "s3"))])


def test_every_table_is_the_ledgers_a_checkpoint_or_rebuilt() -> None:
    assert {"playbook", "event", "projection", "cached_usage", *REBUILDABLE} == {*LEDGER_TABLES} == {*sql.tables()}


def rows(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the tables that a rebuild fills."""
    return {
        table: sorted(sql.rows(ledger, f"SELECT * FROM {table}"), key=repr) for table in (*REBUILDABLE, "projection")
    }


class Stopped(Exception):
    pass


def stop_at(position: int) -> Progress:
    def progress(reached: int) -> None:
        if reached >= position:
            raise Stopped

    return progress


def test_a_rebuild_that_was_stopped_leaves_the_old_rows(ledger: Ledger) -> None:
    lived(ledger)
    before = rows(ledger)
    with pytest.raises(Stopped):
        ledger.rebuild(stop_at(4000))
    assert rows(ledger) == before
    reached: list[int] = []
    ledger.rebuild(reached.append)
    assert reached[-1] == ledger.head().position
    assert rows(ledger) == before
    assert list(verify(ledger)) == []


def test_readers_see_all_bullets_while_the_tables_are_filled_again(ledger: Ledger, open_ledger: OpenLedger) -> None:
    lived(ledger)
    other = open_ledger()
    before = other.rows()
    seen: list[object] = []
    ledger.rebuild(lambda _: seen.append(other.rows()))
    assert seen == [before] * len(seen)
    assert seen


_REBUILD = """\
import sys, time
from reflector.ledger.store import Ledger

def progress(reached):
    print(reached, flush=True)
    time.sleep(float(sys.argv[2]))

with Ledger.open(sys.argv[1]) as ledger:
    ledger.rebuild(progress)
"""


def _rebuilding(url: str, pause: float) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _REBUILD, url, str(pause)], stdout=subprocess.PIPE, text=True)


def test_a_killed_rebuild_leaves_the_old_rows(ledger: Ledger) -> None:
    lived(ledger)
    before = rows(ledger)
    killed = _rebuilding(ledger.engine.url.text, 60)
    assert killed.stdout is not None
    assert int(killed.stdout.readline()) > 0
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert rows(ledger) == before
    ledger.rebuild()
    assert rows(ledger) == before


def test_two_rebuilds_at_once_wait_for_each_other(ledger: Ledger) -> None:
    lived(ledger)
    before = rows(ledger)
    url = ledger.engine.url.text
    both = [_rebuilding(url, 0.05) for _ in range(2)]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    assert rows(ledger) == before
    assert list(verify(ledger)) == []


def test_a_path_with_spaces_and_quotes_is_rebuilt_as_well(tmp_path: Path) -> None:
    with Ledger.open(sqlite_url(tmp_path / 'it\'s a "ledger" 100%.db')) as ledger:
        ledger.append([added("pat-001", helpful=3)])
        ledger.rebuild()
        assert list(verify(ledger)) == []
