"""Opening what is not a sound ledger of this version: a clear error, and not a byte changed."""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reflector.ledger import lock
from reflector.ledger.errors import (
    LedgerAway,
    LedgerCorrupt,
    LedgerError,
    LedgerLocked,
    LedgerTooNew,
    LedgerUnavailable,
)
from reflector.ledger.migration import HEAD_REVISION
from reflector.ledger.sqlite_file import SOUND_SQLITE, sqlite_module
from reflector.ledger.statements import CODE_VERSION
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, Postgres

from . import sql
from .events import added, history, tagged

pytestmark = pytest.mark.migrates


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed SQLite ledger with some pages of events."""
    path = tmp_path / "state" / "ledger.db"
    with Ledger.open_file(path) as ledger:
        ledger.append([*history(), *[tagged(None, n, "pat-001", "helpful") for n in range(100)]])
    assert sorted(file.name for file in path.parent.iterdir()) == ["ledger.db", "ledger.db.lock"]
    return path


def _refused(path: Path, error: type[LedgerError], message: str) -> None:
    """Opening or reading fails with the path in the message, and leaves the folder as it was."""

    def files() -> dict[str, object]:
        return {file.name: file.read_bytes() if file.is_file() else None for file in path.parent.iterdir()}

    before = files()
    with pytest.raises(error, match=message) as caught, Ledger.open_file(path) as ledger:
        list(ledger.events())
    assert str(path) in str(caught.value)
    after = files()
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) <= {f"{path.name}-wal", f"{path.name}-shm"}


# -- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_url", [True, False])
def test_a_new_ledger_is_its_owners_alone_whatever_the_umask(tmp_path: Path, by_url: bool) -> None:
    folder = tmp_path / "new"
    before = os.umask(0)
    try:
        if by_url:
            folder.mkdir(0o755)
        open_ = Ledger.open(sqlite_url(folder / "ledger.db")) if by_url else Ledger.open_file(folder / "ledger.db")
        with open_ as ledger:
            ledger.append([added()])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == (0o755 if by_url else 0o700)


def test_an_empty_file_becomes_a_ledger_where_there_was_none(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    with Ledger.open_file(path) as ledger:
        ledger.append([added()])
        assert list(verify(ledger)) == []


def test_a_ledger_that_was_emptied_is_not_begun_anew(path: Path) -> None:
    path.write_bytes(b"")
    _refused(path, LedgerCorrupt, r"is empty, but ledger.db.lock shows that there was one; restore a backup")


def test_a_ledger_that_is_missing_is_not_begun_anew(path: Path) -> None:
    path.unlink()
    _refused(path, LedgerCorrupt, r"is missing, but ledger.db.lock shows .* or begin a new ledger with")
    Path(f"{path}.lock").unlink()
    with Ledger.open_file(path) as ledger:
        assert ledger.head().position == 0


def test_a_truncated_file_is_refused(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 4096 // 2 * 4096)
    _refused(path, LedgerCorrupt, "is not a sound ledger .database disk image is malformed.")


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_file_is_an_error_or_a_finding_and_never_a_wrong_answer(path: Path, seed: int) -> None:
    with Ledger.open_file(path) as ledger:
        events, rows = list(ledger.events()), ledger.rows()
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(3):
        at = chance.randrange(4096, len(content) - 512)
        content[at : at + 512] = chance.randbytes(512)
    path.write_bytes(content)
    message, findings, same = "", [], False
    try:
        with Ledger.open_file(path) as ledger:
            findings = list(verify(ledger))
            same = list(ledger.events()) == events and ledger.rows() == rows
    except LedgerError as error:
        message = str(error)
    assert findings or same or str(path) in message or "run `reflector verify`" in message


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    _refused(tmp_path / "ledger.db", LedgerUnavailable, "is not a regular file; put the file itself there")


def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO users (name) VALUES ('Ada')")
    connection.close()
    _refused(path, LedgerCorrupt, r"holds tables that are not a ledger's \(users\); nothing was changed")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["other.db"]


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["event", "alembic_version", "playbook"])
def test_a_table_of_another_program_in_the_way_is_refused_untouched(postgres: Postgres, table: str) -> None:
    import psycopg

    with postgres.database(empty=True) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (version_num TEXT)")  # type: ignore[call-overload]
        with pytest.raises(LedgerCorrupt, match=rf"holds tables that are not a ledger's \({table}\); nothing"):
            Ledger.open(url)
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        assert found == [(table,)]


# -- versions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "error", "message"),
    [
        ("9999", LedgerTooNew, f"is at revision 9999, this reflector knows {HEAD_REVISION}; upgrade reflector"),
        ("a1b2c3", LedgerCorrupt, "is at revision a1b2c3, which is not reflector's"),
        ("", LedgerCorrupt, "which is not reflector's"),
    ],
)
def test_a_newer_or_unknown_revision_is_refused_untouched(
    ledger: Ledger, open_ledger: OpenLedger, revision: str, error: type[LedgerError], message: str
) -> None:
    ledger.append(history())
    sql.run(ledger, f"UPDATE alembic_version SET version_num = '{revision}'")
    before = [*sql.content(ledger), *sql.rows(ledger, "SELECT * FROM bullet")]
    with pytest.raises(error, match=message):
        open_ledger()
    assert [*sql.content(ledger), *sql.rows(ledger, "SELECT * FROM bullet")] == before
    assert sql.rows(ledger, "SELECT version_num FROM alembic_version") == [(revision,)]


def test_tables_of_a_newer_projection_are_refused_and_of_an_older_one_rebuilt(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    ledger.append(history())
    rows = ledger.rows()
    sql.run(ledger, f"UPDATE projection SET code_version = {CODE_VERSION + 1}", "UPDATE bullet SET helpful = 77")
    with pytest.raises(LedgerTooNew, match="written by a newer reflector"):
        open_ledger()
    assert {row.helpful for row in ledger.rows()} == {77}
    for older in (f"UPDATE projection SET code_version = {CODE_VERSION - 1}", "DELETE FROM projection"):
        sql.run(ledger, older, "UPDATE bullet SET helpful = 77")
        assert open_ledger().rows() == rows
        assert list(verify(ledger)) == []


# -- locks, space, permissions --------------------------------------------------------------------------------


def _patience(monkeypatch: pytest.MonkeyPatch, milliseconds: int = 150) -> None:
    monkeypatch.setattr(lock, "BUSY_TIMEOUT_MS", milliseconds)


def test_a_writer_that_hangs_in_front_of_the_database_is_not_waited_for_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _patience(monkeypatch)
    holder = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with Ledger.open_file(path) as ledger:
        position = ledger.head().position
        with pytest.raises(LedgerLocked, match=rf"another process holds the ledger {path}"):
            ledger.append([added("oth-001")])
        os.close(holder)
        assert ledger.append([added("oth-001")])[0].position == position + 1


def test_a_locked_database_is_an_error_that_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _patience(monkeypatch)
    other = sqlite_module().connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger.open_file(path) as ledger:
        position = ledger.head().position  # a reader does not wait for writers
        with pytest.raises(LedgerLocked, match=rf"the ledger {path} is locked by another process"):
            ledger.append([added("oth-001")])
        other.execute("ROLLBACK")
        assert ledger.append([added("oth-001")])[0].position == position + 1
    other.close()


@pytest.mark.postgres
@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_locked_playbook_on_a_server_is_an_error_that_says_so(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    _patience(monkeypatch)
    ledger = open_ledger()
    with ledger.engine.alchemy().connect() as holder:
        holder.exec_driver_sql("SELECT 1 FROM playbook FOR UPDATE")
        with pytest.raises(LedgerLocked, match="is locked by another process"):
            ledger.append([added()])
    assert ledger.append([added()])[0].position == 1


def test_a_disk_that_is_full_loses_nothing_and_can_go_on_later(path: Path) -> None:
    with Ledger.open_file(path) as ledger:
        # A pool of one connection: the limit is that of the connection.
        with ledger.engine.connection() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages + 8}")
        _fill(ledger)
        with ledger.engine.connection() as connection:
            connection.execute("PRAGMA max_page_count=1000000")
        ledger.append([added("oth-001")])
        assert list(verify(ledger)) == []


def _fill(ledger: Ledger) -> None:
    """Append until there is no space, and see that all that was acknowledged is there."""
    acknowledged = ledger.head().position

    def fill() -> None:
        nonlocal acknowledged
        for batch in range(10_000):
            answers = ledger.append([tagged(f"fill-{batch}", n, "pat-001", "helpful") for n in range(50)])
            acknowledged = answers[-1].position

    with pytest.raises(LedgerUnavailable, match=r"the ledger .* has no space left .*; free some and run it again"):
        fill()
    assert ledger.head().position == acknowledged
    assert len(list(ledger.events())) == acknowledged


@pytest.fixture
def read_only(path: Path) -> Iterator[Callable[[], None]]:
    """Makes the ledger's folder read-only, for root too where that can be done."""
    folder = path.parent
    mounted = []

    def freeze() -> None:
        if os.geteuid() != 0:
            for file in folder.iterdir():
                file.chmod(0o400)
            folder.chmod(0o500)
            return
        if subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True).returncode != 0:
            pytest.skip("root can write anywhere, and nothing can be mounted here")
        mounted.append(folder)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)

    yield freeze
    for one in mounted:
        subprocess.run(["umount", str(one)], check=True)
    folder.chmod(0o700)


def test_a_read_only_ledger_is_an_error_that_says_so(path: Path, read_only: Callable[[], None]) -> None:
    content = path.read_bytes()
    read_only()
    with pytest.raises(LedgerUnavailable, match=rf"{path}") as caught, Ledger.open_file(path) as ledger:
        ledger.append([added("oth-001")])
    assert "check" in str(caught.value)
    assert path.read_bytes() == content


# -- engines and URLs -------------------------------------------------------------------------------------------


def test_sqlite_runs_with_write_ahead_log_full_sync_and_foreign_keys(path: Path) -> None:
    with Ledger.open_file(path) as ledger, ledger.engine.alchemy().connect() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert values == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_the_newest_sqlite_that_is_installed_is_the_one_that_runs(path: Path) -> None:
    chosen = sqlite_module()
    assert chosen.sqlite_version_info >= sqlite3.sqlite_version_info
    try:
        import pysqlite3
    except ImportError:
        assert chosen is sqlite3
    else:
        assert chosen.sqlite_version_info >= min(SOUND_SQLITE, pysqlite3.sqlite_version_info)
    with Ledger.open_file(path) as ledger:
        assert sql.rows(ledger, "SELECT sqlite_version()") == [(chosen.sqlite_version,)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3cret@127.0.0.1:1/ledger",
        "postgresql://127.0.0.1:1/ledger?user=ada&password=s3cret",
        "postgresql://ada:s3cret@127.0.0.1:1/ledger?sslmode=s0me",
        "postgresql://ada:s3cret@127.0.0.1:1/ledger?bogus=1",
        "postgresql://ada:s3cret@127.0.0.1:port/ledger",
        "postgresql://ada:123/s3cret@127.0.0.1/ledger",
        "postgresql+nothing://ada:s3cret@127.0.0.1/ledger",
        "nothing://ada:s3cret@127.0.0.1/ledger",
        "mysql://ada:s3cret@127.0.0.1/ledger",
        "postgresql:/ada:s3cret@127.0.0.1/ledger",
        "ada:s3cret@127.0.0.1/ledger",
        "",
    ],
)
def test_an_url_that_does_not_work_is_an_error_without_its_password(url: str) -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        Ledger.open(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada@127.0.0.1:99999/ledger",
        "postgresql://ada@127.0.0.1:65536,127.0.0.1:99999/ledger",
        "postgresql://ada@/ledger?host=127.0.0.1:99999&host=127.0.0.1:65536",
        "postgresql://ada@/ledger?host=127.0.0.1&port=99999",
        "postgresql://ada@/ledger?host=/var/run,/tmp&port=65536,99999",
    ],
)
def test_a_port_that_no_server_has_is_refused_for_good(url: str) -> None:
    with pytest.raises(LedgerUnavailable, match="from 1 to 65535") as caught:
        Ledger.open(url)
    assert not isinstance(caught.value, LedgerAway)


def test_an_error_of_a_server_names_the_database(postgres: Postgres) -> None:
    with postgres.database() as url:
        pass
    with pytest.raises(LedgerUnavailable, match=r"t_\d+_\d+.* is refused, .*does not exist"):
        Ledger.open(url)


def test_a_missing_driver_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerUnavailable, match=r"no driver .* -m pip install 'psycopg"):
        Ledger.open("postgresql://ada:s3cret@127.0.0.1:1/ledger")


@pytest.mark.parametrize("name", ["a 'quoted' name", "päd/ü", "-", "x" * 200, "'; DROP TABLE event; --"])
def test_a_playbook_may_have_any_name(open_ledger: OpenLedger, name: str) -> None:
    ledger = open_ledger(name)
    ledger.append([added()])
    again = open_ledger(name)
    assert (again.head().playbook, again.head().position) == (name, 1)
    assert again.playbook_id == ledger.playbook_id
    assert list(verify(again)) == []
