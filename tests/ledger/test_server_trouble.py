"""A PostgreSQL that refuses, is cut off or is set up otherwise: known by its codes, told with
what to do about it.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.errors import LedgerAway, LedgerCorrupt, LedgerLocked, LedgerUnavailable
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, with_setting
from tests.servers import postgres_server

from . import sql
from .events import added

pytestmark = pytest.mark.postgres


@contextmanager
def at_a_port(url: str, port: int = 0, *, answers: int | None = None) -> Iterator[int]:
    """A port of loopback (0: any) that leads to a server behind a socket's file; a number of
    `answers` after which the connection is closed, as by a crash.
    """
    server = sa.make_url(url)
    path = f"{server.query['host']}/.s.PGSQL.{server.port or 5432}"
    left = None if answers is None else threading.Semaphore(answers)

    def forward(
        source: socket.socket, target: socket.socket, left: threading.Semaphore | None
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if left is not None and not left.acquire(blocking=False):
                    break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(path)
                for ends in ((client, behind, None), (behind, client, left)):
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def nobody() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def spelled(url: str, spelling: str, *ports: int, **more: str) -> str:
    """A server's URL with these ports of loopback as its servers, and more of what it says."""
    known = sa.make_url(url)
    hosts = [f"127.0.0.1:{port}" for port in ports]
    query = {
        name: str(value) for name, value in known.query.items() if name not in ("host", "port")
    } | more
    if spelling == "libpq":
        return (
            f"postgresql://{known.username}@{','.join(hosts)}/{known.database}?{urlencode(query)}"
        )
    query_of_hosts = [*(("host", host) for host in hosts), *query.items()]
    return f"postgresql://{known.username}@/{known.database}?{urlencode(query_of_hosts)}"


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
    "answers", [5, 12, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 2, 8, 13, 16, 30))]
)
def test_wherever_the_connection_is_cut_the_error_is_one_and_the_ledger_goes_on(
    postgres: Postgres, capfd: pytest.CaptureFixture[str], answers: int
) -> None:
    with postgres.database() as url:
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-001")])
        with at_a_port(url, answers=answers) as cut:
            told = _used(spelled(url, "libpq", cut))
        assert "check that the server runs" in told or not told
        assert "folder" not in told
        assert capfd.readouterr() == ("", "")
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-002")])
            assert [bullet.name for bullet in ledger.bullets()] == ["pat-001", "pat-002"]
            assert list(verify(ledger)) == []


def test_a_database_that_is_not_in_utf8_is_refused(postgres: Postgres) -> None:
    with postgres.database(empty=True) as url:
        name = f"{sa.make_url(url).database}_latin"
        postgres._run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        other = sa.make_url(url).set(database=name).render_as_string(hide_password=False)
        try:
            with pytest.raises(
                LedgerUnavailable, match=("in LATIN1, and a ledger needs UTF8; create another")
            ):
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
            pytest.raises(LedgerUnavailable, match=r"accepts connections and writes"),
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


_REFUSED = (
    "refuses the connection permanently .*check the user, the password, the database and the "
    "options of the URL"
)


@pytest.mark.parametrize(
    ("wrong", "is_away", "told"),
    [
        ({"database": "nowhere"}, False, f"nowhere.* {_REFUSED}"),
        ({"username": "nobody"}, False, _REFUSED),
        (
            {"query": {"host": "/nowhere"}},
            True,
            "check that the server runs and accepts connections",
        ),
        (
            {"options": "-csearch_path=nowhere"},
            False,
            f"{_REFUSED}, the search_path of the role",
        ),
    ],
)
def test_a_server_that_takes_no_connection_is_away_only_where_that_passes_by_itself(
    postgres: Postgres, wrong: dict[str, Any], is_away: bool, told: str
) -> None:
    with postgres.database() as known:
        url = sa.make_url(known)
        url = url.update_query_dict(wrong) if "options" in wrong else url.set(**wrong)
        with pytest.raises(LedgerUnavailable, match=told) as caught:
            Ledger.open(url.render_as_string(hide_password=False))
    assert isinstance(caught.value, LedgerAway) is is_away
    assert "folder" not in str(caught.value)


def test_a_ledger_without_one_of_its_tables_is_told_from_one_that_could_not_be_used(
    ledger: Ledger,
) -> None:
    ledger.append([added("pat-001")])
    sql.run(ledger, "DROP TABLE record")
    with pytest.raises(
        LedgerCorrupt,
        match=(
            r"record.*run `reflector verify`, and restore a "
            r"backup"
        ),
    ):
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
        for password, refused in (
            ("wrong", ("password authentication failed")),
            (None, "no password supplied"),
        ):
            alice = (
                sa.make_url(url)
                .set(username="alice", password=password)
                .render_as_string(hide_password=False)
            )
            with pytest.raises(LedgerUnavailable, match=refused) as caught:
                Ledger.open(alice)
            assert not isinstance(caught.value, LedgerAway)
            assert "wrong" not in str(caught.value)
        # A server's lockout counts each.
        log = (file.parent.parent / "log").read_text()
        assert log.count('FATAL:  password authentication failed for user "alice"') == 1


def test_a_connection_that_an_administrator_ends_is_told_and_the_next_append_goes_on(
    postgres: Postgres,
) -> None:
    name = f"ended_{os.getpid()}"
    with (
        postgres.database() as url,
        Ledger.open(with_setting(url, "application_name", name)) as ledger,
    ):
        ledger.append([added("pat-001")])
        with (  # noqa: PT012
            pytest.raises(LedgerUnavailable, match="check that the server runs"),
            ledger.asking() as sql,
        ):
            with postgres._connected() as administrator:
                ended = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                    "application_name = %s"
                )
                while administrator.execute(ended, [name]).fetchall():
                    sleep(0.01)
            sql.execute("SELECT 1")
        ledger.append([added("pat-002")])
        assert ledger.head().position == 2


# -- a URL that names several servers: the one that takes writes is used, and none stops a program
# for long ----------


@pytest.mark.parametrize("spelling", ["libpq", "sqlalchemy"])
def test_a_url_may_name_several_servers_in_both_spellings(
    postgres: Postgres, spelling: str
) -> None:
    with postgres.database() as url, at_a_port(url) as port:
        with Ledger.open(spelled(url, spelling, nobody(), port)) as ledger:
            ledger.append([added("pat-001")])
        with Ledger.open(url) as ledger:
            assert ledger.head().position == 1


def test_among_servers_that_may_only_be_read_there_is_none_to_use(postgres: Postgres) -> None:
    with postgres.database() as url, at_a_port(url) as port:
        standby = with_setting(url, "default_transaction_read_only", "on")
        with pytest.raises(LedgerAway, match="session is read-only"):
            Ledger.open(spelled(standby, "libpq", port, port))


_ANY = {"connect_timeout": "7", "target_session_attrs": "any"}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [({}, {"connect_timeout": "3", "target_session_attrs": "read-write"}), (_ANY, _ANY)],
)
def test_a_silent_server_keeps_nobody_long(
    postgres: Postgres, more: dict[str, str], wanted: dict[str, str]
) -> None:
    with (
        postgres.database() as url,
        at_a_port(url) as port,
        Ledger.open(spelled(url, "libpq", port, nobody(), **more)) as ledger,
        ledger.engine.connection() as driver,
    ):
        told = driver.info.get_parameters()
    # a default of libpq is not told
    assert {name: told.get(name, "any") for name in wanted} == wanted
    # A machine that is gone says nothing: without these the system waits for two hours.
    assert (
        int(told["keepalives_idle"])
        + int(told["keepalives_interval"]) * int(told["keepalives_count"])
        <= 60
    )
    assert int(told["tcp_user_timeout"]) <= 60_000
