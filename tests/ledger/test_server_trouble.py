"""A PostgreSQL that refuses, is cut off or is set up otherwise: known by its codes, told with
what to do about it.
"""

import os
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.errors import LedgerAway, LedgerCorrupt, LedgerLocked, LedgerUnavailable
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, with_setting
from tests.servers import at_a_port, nobody, postgres_server, spelled

from . import sql
from .events import added

pytestmark = pytest.mark.postgres


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
def test_cut_connection_is_one_error_and_ledger_continues(
    postgres: Postgres, capfd: pytest.CaptureFixture[str], answers: int
) -> None:
    with postgres.database() as url:
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-001")])
        with at_a_port(url, answers=answers) as cut:
            told = _used(spelled(url, "libpq", cut))
        assert "Check that the server runs" in told or not told
        assert "folder" not in told
        assert capfd.readouterr() == ("", "")
        with Ledger.open(url) as ledger:
            ledger.append([added("pat-002")])
            assert [bullet.name for bullet in ledger.bullets()] == ["pat-001", "pat-002"]
            assert list(verify(ledger)) == []


def test_database_that_is_not_utf8_is_refused(postgres: Postgres) -> None:
    with postgres.database(empty=True) as url:
        name = f"{sa.make_url(url).database}_latin"
        postgres._run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        other = sa.make_url(url).set(database=name).render_as_string(hide_password=False)
        try:
            with pytest.raises(
                LedgerUnavailable, match=("in LATIN1, but a ledger needs UTF8; create another")
            ):
                Ledger.open(other)
        finally:
            postgres._run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("language", ["C", "de_DE.utf8"])
def test_read_only_server_has_one_message_everywhere(
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


@pytest.mark.slow
def test_stopped_statement_is_named_with_its_limit(postgres: Postgres) -> None:
    with postgres.database() as url, Ledger.open(url) as ledger, psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM playbook FOR UPDATE")
        with (
            Ledger.open(with_setting(url, "statement_timeout", "500")) as limited,
            pytest.raises(LedgerLocked, match="statement_timeout"),
        ):
            limited.append([added("pat-001")])
        other.rollback()
        ledger.append([added("pat-001")])


_REFUSED = (
    "refuses the connection .*Check the user, the password, the database and the options of the URL"
)


@pytest.mark.parametrize(
    ("wrong", "is_away", "told"),
    [
        ({"database": "nowhere"}, False, f"nowhere.* {_REFUSED}"),
        ({"username": "nobody"}, False, _REFUSED),
        (
            {"query": {"host": "/nowhere"}},
            True,
            "Check that the server runs and accepts connections",
        ),
        (
            {"options": "-csearch_path=nowhere"},
            False,
            f"{_REFUSED}. Also check the search_path of the role",
        ),
    ],
)
def test_refused_connection_is_away_only_if_it_passes(
    postgres: Postgres, wrong: dict[str, Any], is_away: bool, told: str
) -> None:
    with postgres.database() as known:
        url = sa.make_url(known)
        url = url.update_query_dict(wrong) if "options" in wrong else url.set(**wrong)
        with pytest.raises(LedgerUnavailable, match=told) as caught:
            Ledger.open(url.render_as_string(hide_password=False))
    assert isinstance(caught.value, LedgerAway) is is_away
    assert "folder" not in str(caught.value)


def test_missing_table_is_named_with_a_remedy(
    ledger: Ledger,
) -> None:
    ledger.append([added("pat-001")])
    sql.run(ledger, "DROP TABLE record")
    with pytest.raises(
        LedgerCorrupt,
        match=(
            r"record.*run `reflector verify`, then restore a "
            r"backup"
        ),
    ):
        ledger.rebuild()
    assert "the table record is missing" in " ".join(map(str, verify(ledger)))


@pytest.mark.slow
def test_wrong_password_is_reported_at_once() -> None:
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


def test_ended_connection_is_reported_and_appends_continue(
    postgres: Postgres,
) -> None:
    name = f"ended_{os.getpid()}"
    with (
        postgres.database() as url,
        Ledger.open(with_setting(url, "application_name", name)) as ledger,
    ):
        ledger.append([added("pat-001")])
        with (  # noqa: PT012
            pytest.raises(LedgerUnavailable, match="Check that the server runs"),
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
def test_url_may_name_several_servers(postgres: Postgres, spelling: str) -> None:
    with postgres.database() as url, at_a_port(url) as port:
        with Ledger.open(spelled(url, spelling, nobody(), port)) as ledger:
            ledger.append([added("pat-001")])
        with Ledger.open(url) as ledger:
            assert ledger.head().position == 1


def test_read_only_servers_are_all_away(postgres: Postgres) -> None:
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
