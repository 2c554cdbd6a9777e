"""A rebuild is one transaction: readers see the old rows until its end, and a killed one changes
nothing.
"""

import subprocess
import sys

import pytest

from reflector.ledger import reader
from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.projection import REBUILDABLE
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger
from tests.ledger.events import lived

from . import sql

#: Events that are read at once, in place of 2,000.
PAGE = 20


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PAGE", PAGE)


def test_every_table_is_known_or_rebuilt() -> None:
    assert {"playbook", "event", "projection", "cached_usage", *REBUILDABLE} == {*LEDGER_TABLES}


def rows(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the tables that a rebuild fills."""
    return {
        table: sorted(sql.rows(ledger, f"SELECT * FROM {table}"), key=repr)
        for table in (*REBUILDABLE, "projection")
    }


def test_stopped_rebuild_leaves_the_old_rows(ledger: Ledger, open_ledger: OpenLedger) -> None:
    lived(ledger)
    before, other = rows(ledger), open_ledger()
    shown, reached, seen = other.rows(), list[int](), list[object]()

    def stop(position: int) -> None:
        if position >= 2 * PAGE:
            raise RuntimeError("stopped")

    def look(position: int) -> None:
        reached.append(position)
        seen.append(other.rows())

    with pytest.raises(RuntimeError, match="stopped"):
        ledger.rebuild(stop)
    assert rows(ledger) == before
    ledger.rebuild(look)
    assert reached[-1] == ledger.head().position
    assert seen == [shown] * len(reached)
    assert rows(ledger) == before
    assert list(verify(ledger)) == []


_REBUILD = """\
import sys, time
from reflector.ledger import reader
from reflector.ledger.store import Ledger

def progress(reached):
    print(reached, flush=True)
    time.sleep(float(sys.argv[2]))

reader._PAGE = int(sys.argv[3])
with Ledger.open(sys.argv[1]) as ledger:
    ledger.rebuild(progress)
"""


@pytest.mark.slow
def test_killed_rebuild_changes_nothing_and_two_take_turns(
    ledger: Ledger,
) -> None:
    lived(ledger)
    before = rows(ledger)

    def rebuilding(pause: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _REBUILD, ledger.engine.url.text, str(pause), str(PAGE)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    killed = rebuilding(60)
    assert int(killed.stdout.readline()) > 0
    killed.kill()
    killed.communicate()
    assert rows(ledger) == before
    both = [rebuilding(0.05) for _ in range(2)]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    assert rows(ledger) == before
    assert list(verify(ledger)) == []
