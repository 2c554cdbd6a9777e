"""Opening what is not a sound ledger of this version: a clear error, and not a byte changed."""

import fcntl
import os
import re
import sqlite3
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from reflector.ledger import sqlite_file
from reflector.ledger.errors import (
    LedgerAway,
    LedgerCorrupt,
    LedgerError,
    LedgerLocked,
    LedgerTooNew,
    LedgerUnavailable,
)
from reflector.ledger.migration import HEAD_REVISION
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


@pytest.mark.parametrize("by_url", [True, False])
def test_new_ledger_is_private_despite_the_umask(tmp_path: Path, by_url: bool) -> None:
    folder = tmp_path / "new"
    before = os.umask(0)
    try:
        if by_url:
            folder.mkdir(0o755)
        open_ = (
            Ledger.open(sqlite_url(folder / "ledger.db"))
            if by_url
            else Ledger.open_file(folder / "ledger.db")
        )
        with open_ as ledger:
            ledger.append([added()])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(
        ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"), 0o600
    )
    assert stat.S_IMODE(folder.stat().st_mode) == (0o755 if by_url else 0o700)


def _other_program(path: Path) -> None:
    path.unlink()
    Path(f"{path}.lock").unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _sql(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statement)

    return change


#: In the place of a table, a question that never ends.
_ENDLESS = (
    "ALTER TABLE projection RENAME TO other; CREATE VIEW projection AS WITH RECURSIVE n(x) AS"
    " (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT other.* FROM other, n WHERE n.x < 0"
)
_LOCK = "ledger.db.lock shows that it existed; restore a backup .* To start a new ledger .*, remove"


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda path: path.write_bytes(b""), LedgerCorrupt, f"is empty, but {_LOCK}"),
        (Path.unlink, LedgerCorrupt, f"is missing, but {_LOCK}"),
        (
            lambda path: os.truncate(path, path.stat().st_size // 4096 // 2 * 4096),
            LedgerCorrupt,
            "image is malformed",
        ),
        (_folder, LedgerUnavailable, "is not a regular file; put the ledger's file at this path"),
        (
            lambda path: Path(f"{path}-journal").write_bytes(b"x"),
            LedgerUnavailable,
            "a file that reflector never writes",
        ),
        (_sql(_ENDLESS), LedgerCorrupt, "projection is a view instead of a table"),
        (
            _sql("DROP TABLE cached_usage"),
            LedgerCorrupt,
            "lacks the table cached_usage, because an unreleased",
        ),
        (
            _other_program,
            LedgerCorrupt,
            r"has tables of another program \(users\); nothing was changed",
        ),
    ],
    ids=[
        "emptied",
        "missing",
        "truncated",
        "a folder",
        "a journal",
        "a view",
        "no table",
        "another program's",
    ],
)
def test_unsound_ledger_is_refused_and_stays_unchanged(
    path: Path, damage: Callable[[Path], object], error: type[LedgerError], message: str
) -> None:
    damage(path)

    def files() -> dict[str, object]:
        return {
            file.name: file.read_bytes() if file.is_file() else None
            for file in path.parent.iterdir()
        }

    before = files()
    with pytest.raises(error, match=message) as caught, Ledger.open_file(path) as ledger:
        list(ledger.events())
    assert str(path) in str(caught.value)
    after = files()
    assert {name: after.get(name) for name in before} == before
    assert set(after) - set(before) <= {f"{path.name}-wal", f"{path.name}-shm"}


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["event", "alembic_version"])
def test_foreign_table_in_the_way_is_refused(postgres: Postgres, table: str) -> None:
    import psycopg

    with postgres.database(empty=True) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (version_num TEXT)")  # type: ignore[call-overload]
        with pytest.raises(
            LedgerCorrupt,
            match=(
                r"has tables of another program "
                rf"\({table}\); nothing"
            ),
        ):
            Ledger.open(url)
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall()
        assert found == [(table,)]


@pytest.mark.parametrize(
    ("revision", "error", "message"),
    [
        (
            "9999",
            LedgerTooNew,
            f"is at revision 9999, but this reflector only knows revisions up to {HEAD_REVISION}; ",
        ),
        ("a1b2c3", LedgerCorrupt, "is at revision a1b2c3, which is not a revision of reflector"),
        ("", LedgerCorrupt, "which is not a revision of reflector"),
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


def test_newer_tables_are_refused_and_older_rebuilt(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    ledger.append(history())
    rows = ledger.rows()
    sql.run(
        ledger,
        f"UPDATE projection SET code_version = {CODE_VERSION + 1}",
        "UPDATE bullet SET helpful = 77",
    )
    with pytest.raises(LedgerTooNew, match="a newer reflector wrote the tables"):
        open_ledger()
    assert {row.helpful for row in ledger.rows()} == {77}
    for older in (
        f"UPDATE projection SET code_version = {CODE_VERSION - 1}",
        "DELETE FROM projection",
    ):
        sql.run(ledger, older, "UPDATE bullet SET helpful = 77")
        assert open_ledger().rows() == rows
        assert list(verify(ledger)) == []


@contextmanager
def _file_locked(ledger: Ledger) -> Iterator[str]:
    holder = os.open(f"{ledger.engine.url.database}.lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    yield f"the ledger {ledger.engine.url.database} has been locked for"
    os.close(holder)


@contextmanager
def _row_locked(ledger: Ledger) -> Iterator[str]:
    with ledger.engine.connection() as other:
        other.execute(
            ("SELECT 1 FROM playbook FOR UPDATE") if sql.is_postgres(ledger) else "BEGIN IMMEDIATE"
        )
        yield f"the ledger {re.escape(ledger.engine.url.shown)} is locked by another process"


@pytest.mark.parametrize("lock_of", [_file_locked, _row_locked])
def test_hanging_writer_is_not_awaited_permanently(
    ledger: Ledger,
    lock_of: Callable[[Ledger], AbstractContextManager[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sql.is_postgres(ledger) and lock_of is _file_locked:
        pytest.skip("a server has no file that is locked")
    ledger.append([added()])
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_MS", 150)
    with Ledger.open(ledger.engine.url.text) as waiting, lock_of(ledger) as told:
        position = waiting.head().position  # a reader does not wait for writers
        with pytest.raises(LedgerLocked, match=told):
            waiting.append([added("oth-001")])
    assert ledger.append([added("oth-001")])[0].position == position + 1


def test_full_disk_loses_nothing_and_appends_later(path: Path) -> None:
    with Ledger.open_file(path) as ledger:
        acknowledged = ledger.head().position

        def fill() -> None:
            nonlocal acknowledged
            for batch in range(10_000):
                answers = ledger.append(
                    [tagged(f"fill-{batch}", n, "pat-001", "helpful") for n in range(50)]
                )
                acknowledged = answers[-1].position

        # There is one connection, whose limit this is.
        with ledger.engine.connection() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages + 8}")
        with pytest.raises(
            LedgerUnavailable,
            match=r"the disk of the ledger .* is full .*; free some space",
        ):
            fill()
        assert ledger.head().position == acknowledged == len(list(ledger.events()))
        with ledger.engine.connection() as connection:
            connection.execute("PRAGMA max_page_count=1000000")
        ledger.append([added("oth-001")])
        assert list(verify(ledger)) == []


def test_sqlite_uses_wal_full_sync_and_foreign_keys(path: Path) -> None:
    with Ledger.open_file(path) as ledger, ledger.engine.alchemy().connect() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert values == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }


_OF_URL = "options of the URL"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://127.0.0.1:1/ledger?user=ada&password=s3cret", "Check that the server runs"),
        ("postgresql://ada:s3cret@127.0.0.1:1/ledger?colour=red", f"colour.*{_OF_URL}"),
        (
            "postgresql://ada:s3cret@127.0.0.1:1/ledger?connect_timeout=soon",
            f"connect_timeout.*{_OF_URL}",
        ),
        ("postgresql://ada:s3cret@127.0.0.1:port/ledger", "cannot be used"),
        (
            "postgresql+nothing://ada:s3cret@127.0.0.1/ledger",
            "is not a database that reflector supports",
        ),
        ("postgresql:/ada:s3cret@127.0.0.1/ledger", "cannot be used"),
        ("ada:s3cret@127.0.0.1/ledger", "cannot be used"),
        ("", "cannot be used"),
    ],
)
def test_broken_url_is_an_error_without_its_password(url: str, told: str) -> None:
    with pytest.raises(LedgerUnavailable, match=told) as caught:
        Ledger.open(url)
    # What does not pass by itself, no drain waits for.
    assert isinstance(caught.value, LedgerAway) == ("runs" in told)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)


def test_missing_driver_is_named_with_its_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        LedgerUnavailable, match=r"the driver .* is missing .* -m pip install 'psycopg"
    ):
        Ledger.open("postgresql://ada:s3cret@127.0.0.1:1/ledger")


@pytest.mark.parametrize("name", ["päd/ü", "x" * 200, "'; DROP TABLE event; --"])
def test_a_playbook_may_have_any_name(open_ledger: OpenLedger, name: str) -> None:
    ledger = open_ledger(name)
    ledger.append([added()])
    again = open_ledger(name)
    assert (again.head().playbook, again.head().position) == (name, 1)
    assert again.playbook_id == ledger.playbook_id
    assert list(verify(again)) == []
