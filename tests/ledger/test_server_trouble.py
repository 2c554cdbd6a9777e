"""A PostgreSQL that refuses, is cut off or is set up otherwise: known by its codes, told with what to do about it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.errors import LedgerAway, LedgerCorrupt, LedgerLocked, LedgerUnavailable
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, with_setting
from tests.scale.clusters import clusters
from tests.servers import postgres_server

from . import sql
from .events import added

pytestmark = pytest.mark.postgres


@contextmanager
def cut_after(url: str, answers: int) -> Iterator[str]:
    """The URL of a way to the server that is closed, as by a crash, once so many of its answers have passed."""
    server = sa.make_url(url)
    host, port = str(server.query["host"]), server.port or 5432
    left = threading.Semaphore(answers)

    def forward(source: socket.socket, target: socket.socket, *, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if counted and not left.acquire(blocking=False):
                    break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(f"{host}/.s.PGSQL.{port}")
                for ends, counted in (((client, behind), False), ((behind, client), True)):
                    threading.Thread(target=forward, args=ends, kwargs={"counted": counted}, daemon=True).start()

    with TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/.s.PGSQL.{port}")
        listening.listen()
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield server.update_query_dict({"host": folder}).render_as_string(hide_password=False)
        listening.shutdown(socket.SHUT_RDWR)


def _used(url: str) -> str:
    """Open a ledger, append to it and read it: the error that this ended with, "" for none."""
    try:
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-002")])
            assert list(verify(ledger)) == []
            ledger.rebuild()
    except LedgerUnavailable as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "answers", [0, 5, 12, 30, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 8, 10, 13, 14, 15, 16))]
)
def test_wherever_the_connection_is_cut_the_error_is_one_and_the_ledger_goes_on(
    postgres: Postgres, capfd: pytest.CaptureFixture[str], answers: int
) -> None:
    with postgres.database() as url:
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-001")])
        with cut_after(url, answers) as cut:
            told = _used(cut)
        assert "check that it runs" in told or not told
        assert "folder" not in told
        assert capfd.readouterr() == ("", "")
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-002")])
            assert [bullet.name for bullet in ledger.bullets()] == ["pat-001", "pat-002"]
            assert list(verify(ledger)) == []


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_is_not_in_utf8_is_refused(postgres: Postgres, encoding: str) -> None:
    with postgres.database(empty=True) as url:
        name = f"{sa.make_url(url).database}_{encoding.lower()}"
        postgres._run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        other = sa.make_url(url).set(database=name).render_as_string(hide_password=False)
        try:
            with pytest.raises(LedgerUnavailable, match=f"in {encoding}, and a ledger needs UTF8; create another"):
                Ledger.open(other)
        finally:
            postgres._run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("language", ["C", "de_DE.utf8"])
def test_a_server_that_may_only_be_read_is_told_in_one_message_whatever_language_it_speaks(
    postgres: Postgres, capfd: pytest.CaptureFixture[str], language: str
) -> None:
    with postgres.database() as url, Ledger.open(url) as ledger:
        ledger.append([added("pat-001")])
        standby = with_setting(url, "default_transaction_read_only", "on")
        with suppress(psycopg.errors.InvalidParameterValue):  # not every server has every language
            postgres._run(f"SET lc_messages = '{language}'")
            standby = with_setting(standby, "lc_messages", language)
        with (
            Ledger.open(standby) as again,
            pytest.raises(LedgerUnavailable, match=r"may only be read .*; name the"),
        ):
            again.append([added("pat-002")])
        assert capfd.readouterr() == ("", "")


def test_a_statement_that_the_server_stops_is_told_with_its_limit(postgres: Postgres) -> None:
    with postgres.database() as url, Ledger.open(url) as ledger, psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM playbook FOR UPDATE")
        with (
            Ledger.open(with_setting(url, "statement_timeout", "1000")) as limited,
            pytest.raises(LedgerLocked, match="statement_timeout"),
        ):
            limited.append([added("pat-001")])
        other.rollback()
        ledger.append([added("pat-001")])


@pytest.mark.parametrize(
    ("wrong", "is_away", "way_out"),
    [
        ({"database": "nowhere"}, False, "check the user, the password, the database and the options of the URL"),
        ({"username": "nobody"}, False, "check the user, the password, the database and the options of the URL"),
        ({"query": {"host": "/nowhere"}}, True, "check that it runs and takes connections"),
    ],
)
def test_a_server_that_takes_no_connection_is_away_only_where_that_passes_by_itself(
    postgres: Postgres, wrong: dict[str, Any], is_away: bool, way_out: str
) -> None:
    with pytest.raises(LedgerUnavailable) as caught:
        Ledger.open(postgres.server.set(**wrong).render_as_string(hide_password=False))
    assert isinstance(caught.value, LedgerAway) is is_away
    assert way_out in str(caught.value)
    assert "folder" not in str(caught.value)


@pytest.mark.parametrize("option", ["colour=red", "connect_timeout=soon"])
def test_an_option_that_libpq_does_not_take_is_refused_for_good_and_no_drain_waits_for_the_server(option: str) -> None:
    with pytest.raises(LedgerUnavailable, match=f"{option.partition('=')[0]}.*options of the URL") as caught:
        Ledger.open(f"postgresql://me@127.0.0.1:1/team?{option}")
    assert not isinstance(caught.value, LedgerAway)


@pytest.mark.postgres
def test_a_search_path_without_a_schema_is_named_and_not_the_servers_log(postgres: Postgres) -> None:
    with postgres.database() as url, pytest.raises(LedgerUnavailable) as caught:
        Ledger.open(with_setting(url, "search_path", "nowhere"))
    assert "is in no schema that the user may use" in str(caught.value)
    assert "correct the search_path of the URL or role" in str(caught.value)


def test_a_ledger_without_one_of_its_tables_is_told_from_one_that_could_not_be_used(ledger: Ledger) -> None:
    ledger.append([added("pat-001")])
    sql.run(ledger, "DROP TABLE record")
    with pytest.raises(LedgerCorrupt, match=r"record.*un `reflector verify`, and restore a backup"):
        ledger.rebuild()
    assert "the table record is missing" in " ".join(map(str, verify(ledger)))


@pytest.mark.slow
def test_a_wrong_password_is_told_at_once_and_no_drain_waits_for_the_server() -> None:
    with postgres_server() as url:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("CREATE ROLE alice LOGIN PASSWORD 'right'")
            (rules,) = owner.execute("SHOW hba_file").fetchone() or ("",)
            file = Path(rules)
            file.write_text(f"local all alice scram-sha-256\n{file.read_text()}")
            owner.execute("SELECT pg_reload_conf()")
        for password, refused in (("wrong", "password authentication failed"), (None, "no password supplied")):
            alice = sa.make_url(url).set(username="alice", password=password).render_as_string(hide_password=False)
            with pytest.raises(LedgerUnavailable, match=refused) as caught:
                Ledger.open(alice)
            assert not isinstance(caught.value, LedgerAway)
            assert "wrong" not in str(caught.value)
        # A server's lockout counts each.
        log = (file.parent.parent / "log").read_text()
        assert log.count('FATAL:  password authentication failed for user "alice"') == 1


@pytest.mark.slow
def test_a_server_that_fails_over_is_told_as_a_server_at_each_step_and_the_ledger_goes_on() -> None:
    """It was once told as a disk without space, and as a folder without permissions."""
    with clusters(1) as (server,), Ledger.open(server.url) as ledger:
        ledger.append([added("pat-001")])

        def told() -> str:
            with pytest.raises(LedgerAway) as caught:
                ledger.append([added("pat-002")])
            assert "disk" not in str(caught.value)
            assert "space" not in str(caught.value)
            assert "folder" not in str(caught.value)
            assert "permissions" not in str(caught.value)
            return str(caught.value)

        server.kill()
        for _ in range(2):  # by the connection that it had, and by a new one
            assert "check that it runs" in told()
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        assert "may only be read" in told()
        assert [bullet.name for bullet in ledger.bullets()] == ["pat-001"]
        with psycopg.connect(server.url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
        ledger.append([added("pat-002")])
        assert [bullet.name for bullet in ledger.bullets()] == ["pat-001", "pat-002"]
        assert list(verify(ledger)) == []


def test_a_connection_that_an_administrator_ends_is_told_and_the_next_append_goes_on(postgres: Postgres) -> None:
    name = f"ended_{os.getpid()}"
    with postgres.database() as url, Ledger.open(with_setting(url, "application_name", name)) as ledger:
        ledger.append([added("pat-001")])
        with pytest.raises(LedgerUnavailable, match=r"when it is up|check that it runs"), ledger.asking() as sql:  # noqa: PT012
            _end_all(postgres, name)
            sql.execute("SELECT 1")
        ledger.append([added("pat-002")])
        assert ledger.head().position == 2


def _end_all(postgres: Postgres, name: str) -> None:
    """End every connection of an application, and wait until they are gone."""
    with postgres._connected() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        while connection.execute(ended, [name]).fetchall():
            sleep(0.01)
