"""A rebuild beside the tables that are read: it goes on where it was killed, and is never seen half-way."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
import sqlalchemy as sa

from reflector.events.event import NewEvent
from reflector.events.fold import fold
from reflector.ledger import tables
from reflector.ledger.engines import open_engine, sqlite_url
from reflector.ledger.projection import CODE_VERSION
from reflector.ledger.rebuilding import Progress
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, Postgres

from .events import added, adopted, reflected, retracted, window

SECRET = "The password is swordfish"
#: A page holds 2,000 events.
PAGES = 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger that lived, to be copied."""
    path = tmp_path_factory.mktemp("lived") / "ledger.db"
    with Ledger.open_file(path) as ledger:
        _live(ledger)
    return path


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Iterator[str]:
    """The same on the server."""
    with postgres.database() as url:
        with Ledger.open(url) as ledger:
            _live(ledger)
        yield url


@pytest.fixture
def path(file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(file, tmp_path))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def ledger_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a copy of the ledger that lived."""
    if request.param == "sqlite":
        yield sqlite_url(request.getfixturevalue("path"))
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database(like=request.getfixturevalue("database")) as url:
        yield url


def _live(ledger: Ledger) -> None:
    """Three pages of windows with two tags each, one window retracted."""
    ledger.append([added("pat-001", text=SECRET), added("mis-001", helpful=2)])
    for start in range(0, PAGES * 500, 500):
        events: list[NewEvent] = []
        for number in range(start, start + 500):
            recorded = window(number, f"s{number % 50}", keys=[number])
            events += [recorded, *reflected(f"r{number}", recorded, ("pat-001", "helpful"), ("mis-001", "harmful"))]
        ledger.append(events)
    ledger.append([retracted(window(3, "s3"))])


def rows(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the tables that a rebuild fills."""
    with ledger.engine.connect() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(sa.select(table)).fetchall()), key=repr)
            for table in (*tables.REBUILDABLE, tables.projection)
        }


class Stopped(Exception):
    pass


def stop_at(position: int) -> Progress:
    def progress(reached: int) -> None:
        if reached >= position:
            raise Stopped

    return progress


def test_a_rebuild_that_was_stopped_goes_on_with_the_page_behind(ledger: Ledger) -> None:
    before = rows(ledger)
    with pytest.raises(Stopped):
        ledger.rebuild(stop_at(4000))
    assert rows(ledger) == before
    reached: list[int] = []
    ledger.rebuild(reached.append)
    assert reached[0] > 4000
    assert reached[-1] == ledger.head().position
    assert rows(ledger) == before
    assert list(verify(ledger)) == []


def test_what_is_appended_during_a_rebuild_is_in_the_new_rows_once(ledger: Ledger, open_ledger: OpenLedger) -> None:
    other = open_ledger()
    seen = []

    def progress(reached: int) -> None:
        number = 10_000 + reached
        recorded = window(number, "late", keys=[number])
        if reached < 5_000:
            other.append([recorded, *reflected(f"r{number}", recorded, ("pat-001", "harmful"))])
        if reached < 3_000:
            other.append([adopted("once_per_session")])
        seen.append({row.name for row in other.rows()})

    ledger.rebuild(progress)
    assert all(names == {"pat-001", "mis-001"} for names in seen)
    book = fold(ledger.history())
    assert {row.name: (row.helpful, row.harmful) for row in ledger.rows()} == {
        name: book.counters(name) for name in book.entries
    }
    assert ledger.counting() == "once_per_session"
    assert list(verify(ledger)) == []


def test_a_text_erased_during_a_rebuild_is_in_none_of_the_rows(ledger: Ledger, open_ledger: OpenLedger) -> None:
    other = open_ledger()
    erased = []

    def progress(_: int) -> None:
        if not erased:
            erased.append(other.redact(added("pat-001").event_id, reason="a secret", actor="human"))

    ledger.rebuild(progress)
    assert erased
    assert SECRET not in repr(rows(ledger))
    assert list(verify(ledger)) == []


def test_a_text_erased_after_a_stopped_rebuild_is_staged_no_more(ledger: Ledger) -> None:
    with pytest.raises(Stopped):
        ledger.rebuild(stop_at(2000))
    assert SECRET in _staged(ledger)
    ledger.redact(added("pat-001").event_id, reason="a secret", actor="human")
    assert SECRET not in _staged(ledger)
    ledger.rebuild()
    assert SECRET not in repr(rows(ledger))


def _staged(ledger: Ledger) -> str:
    """Everything that a rebuild left beside the tables."""
    if ledger.engine.dialect.name == "sqlite":
        file = Path(str(ledger.engine.url.database))
        return "".join(path.read_bytes().decode("latin-1") for path in file.parent.glob(f"{file.name}.rebuild*"))
    with ledger.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT table_schema FROM information_schema.tables").fetchall()
        schemas = {row[0] for row in found if row[0].startswith("reflector_rebuild")}
        return "".join(repr(connection.exec_driver_sql(f"SELECT * FROM {name}.bullet").fetchall()) for name in schemas)


def test_rows_staged_from_another_history_are_not_used(path: Path) -> None:
    with Ledger.open_file(path) as ledger, pytest.raises(Stopped):
        ledger.rebuild(stop_at(4000))
    for suffix in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with Ledger.open_file(path) as ledger:
        ledger.append([added("ctx-001")])
        ledger.rebuild()
        assert [row.name for row in ledger.rows()] == ["ctx-001"]
        assert list(verify(ledger)) == []


def test_staged_rows_are_their_owners_and_go_with_the_rebuild(path: Path) -> None:
    with Ledger.open_file(path) as ledger:
        with pytest.raises(Stopped):
            ledger.rebuild(stop_at(2000))
        staged = list(path.parent.glob("ledger.db.rebuild*"))
        assert staged
        assert {stat.S_IMODE(file.stat().st_mode) for file in staged} == {0o600}
        ledger.rebuild()
        assert list(path.parent.glob("ledger.db.rebuild*")) == []


@pytest.mark.parametrize("at", [0, 8192 * 3])
def test_a_damaged_staging_file_is_thrown_away(path: Path, at: int) -> None:
    with Ledger.open_file(path) as ledger:
        before = rows(ledger)
        with pytest.raises(Stopped):
            ledger.rebuild(stop_at(4000))
        staged = path.with_name("ledger.db.rebuild")
        with staged.open("r+b") as file:
            file.seek(at)
            file.write(b"damaged " * 4096)
        ledger.rebuild()
        assert rows(ledger) == before
        assert list(path.parent.glob("ledger.db.rebuild*")) == []
        assert list(verify(ledger)) == []


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


def test_a_killed_rebuild_goes_on_where_it_stopped(ledger: Ledger) -> None:
    before = rows(ledger)
    killed = _rebuilding(ledger.engine.url.render_as_string(hide_password=False), 60)
    assert killed.stdout is not None
    position = int(killed.stdout.readline())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert rows(ledger) == before
    reached: list[int] = []
    ledger.rebuild(reached.append)
    assert reached[0] > position
    assert rows(ledger) == before


def test_two_rebuilds_at_once_share_the_pages(ledger: Ledger) -> None:
    before = rows(ledger)
    url = ledger.engine.url.render_as_string(hide_password=False)
    both = [_rebuilding(url, 0.05) for _ in range(2)]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    assert rows(ledger) == before
    assert list(verify(ledger)) == []


def _reads_of_staged_rows(url: str, windows: int) -> int:
    """Rows that were read by going through whole staged tables, once the server has counted this many windows."""
    engine = open_engine(url)
    query = "SELECT sum(seq_tup_read), sum(n_tup_ins) FILTER (WHERE relname = 'session_window')"
    try:
        while True:
            with engine.connect() as connection:
                read, inserted = connection.exec_driver_sql(
                    f"{query} FROM pg_stat_user_tables WHERE schemaname LIKE 'reflector%%'"
                ).one()
            if (inserted or 0) >= windows:
                return int(read)
            sleep(0.01)
    finally:
        engine.dispose()


@pytest.mark.postgres
def test_a_rebuild_reads_no_staged_table_again_and_again_after_autovacuum_saw_it_empty(postgres: Postgres) -> None:
    with postgres.database() as url, Ledger.open(url) as ledger:
        windows = 600  # with so many tags each that a page's windows look like few rows to the planner
        tags = [("pat-001", "helpful"), ("mis-001", "harmful")] * 6
        events: list[NewEvent] = []
        for number in range(windows):
            recorded = window(number, f"s{number}", keys=[number])
            events += [recorded, *reflected(f"r{number}", recorded, *tags)]
        ledger.append(events)
        ledger.rebuild()
        before = _reads_of_staged_rows(url, windows)
        with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in (*tables.REBUILDABLE, tables.projection):
                connection.exec_driver_sql(f"VACUUM ANALYZE reflector_rebuild_{CODE_VERSION}.{table.name}")
        ledger.rebuild()
        assert _reads_of_staged_rows(url, 2 * windows) - before < 20 * windows
        assert list(verify(ledger)) == []


def test_a_ledger_in_memory_is_rebuilt_as_well() -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append([added("pat-001", helpful=3)])
        before = rows(ledger)
        ledger.rebuild()
        assert rows(ledger) == before


def test_a_path_with_spaces_and_quotes_is_rebuilt_as_well(tmp_path: Path) -> None:
    with Ledger.open(sqlite_url(tmp_path / 'it\'s a "ledger" 100%.db')) as ledger:
        ledger.append([added("pat-001", helpful=3)])
        ledger.rebuild()
        assert list(verify(ledger)) == []
