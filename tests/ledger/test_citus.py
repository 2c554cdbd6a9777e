"""Citus, where a ledger's tables and triggers are on a worker: what it refuses, shows and tells otherwise.

The other tests of the ledger run on it too, as tests/conftest.py says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import (
    AlreadyRetracted,
    HeadMisplaced,
    LedgerAway,
    LedgerUnavailable,
    NoSuchTarget,
    translated,
)
from reflector.ledger.grants import policies
from reflector.ledger.migration import create_triggers
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, is_on_citus, with_setting
from tests.road.agent import Agent

from . import sql
from .events import added, history

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A ledger with a history, on Citus."""
    if not is_on_citus(postgres.server.render_as_string(hide_password=False)):
        pytest.skip("the server is no Citus; name one in REFLECTOR_TEST_CITUS_URL")
    with postgres.database() as url:
        with Ledger.open(url) as ledger:
            ledger.append(history())
        yield url


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("append-only: the next position is one above the last (position: 20)", HeadMisplaced),
        ("append-only: recorded more than a minute ahead of the server's clock (2999)", LedgerUnavailable),
        ('violates "event_target_once_102008"', AlreadyRetracted),
        ('in table "event_102008" violates foreign key constraint "event_target_exists_102008"', NoSuchTarget),
        ('verletzt Fremdschlüssel-Constraint "event_target_exists_102008"', NoSuchTarget),
    ],
)
def test_what_comes_back_under_a_general_code_is_known_by_its_words(
    postgres: Postgres, words: str, wanted: type[Exception]
) -> None:
    """A worker's refusal of many rows at once loses its code on the way; any server can raise the same."""
    raised = sa.literal(words).compile(compile_kwargs={"literal_binds": True})
    with postgres._connected() as connection, pytest.raises(wanted), translated("here"):
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = {raised}, ERRCODE = 'XX000'; END $$")


def _raised(words: str, code: str, behind: str) -> str:
    """A statement that fails so, and whose context has a comment in it."""
    text = str(sa.literal(words).compile(compile_kwargs={"literal_binds": True}))
    return (
        f"DO $$ BEGIN EXECUTE $q$ DO $i$ BEGIN RAISE EXCEPTION USING MESSAGE = {text}, ERRCODE = '{code}'; END $i$"
        f" -- {behind}\n$q$; END $$"
    )


@pytest.mark.parametrize(
    ("code", "words", "behind", "told"),
    [
        (
            "08006",
            "connection to the remote node me@w2:5432 failed with the following error: Connection refused",
            "",
            r"needs the Citus server w2:5432, which does not answer \(Connection refused\); start that server or wait",
        ),
        ("08006", "connection to the remote node me@w2:5432 failed", "", "needs the Citus server w2:5432, which"),
        ("58030", "failed to COPY to shard 102008 on w2:5432", "", "needs the Citus server w2:5432, which"),
        ("XX000", "SSL SYSCALL error: EOF detected", "while executing command on w2:5432", "Citus server w2:5432"),
        ("57P01", "terminating connection", "while executing command on w2:5432", "Citus server w2:5432, which"),
        ("XX000", "could not commit transaction for shard 7 on at least one active node", "", "a server of its Citus"),
    ],
)
def test_a_worker_that_is_away_is_named_as_a_server_that_does_not_answer(
    postgres: Postgres, code: str, words: str, behind: str, told: str
) -> None:
    with postgres._connected() as connection, pytest.raises(LedgerAway, match=told), translated("here"):
        connection.execute(_raised(words, code, behind))


@pytest.mark.parametrize(
    ("code", "words", "told"),
    [
        (
            "42P01",
            'relation "event_102008" does not exist',
            "let the owner of the ledger run `reflector rebuild --mend",
        ),
        ("XX000", "unrecognized RTE kind: 7", "let the owner of the ledger run `reflector rebuild --mend`"),
        ("XX000", "nextval(sequence) calls in worker nodes are not supported", "name the coordinator in the URL"),
    ],
)
def test_what_a_person_can_mend_about_citus_is_told_with_the_way_out(
    postgres: Postgres, code: str, words: str, told: str
) -> None:
    with postgres._connected() as connection, pytest.raises(LedgerUnavailable, match=told), translated("here"):
        connection.execute(_raised(words, code, ""))


def test_a_ledger_that_leaves_its_worker_takes_events_again_once_its_triggers_are_mended(
    url: str, tmp_path: Path
) -> None:
    agent = Agent(tmp_path / "project", tmp_path, environ={"REFLECTOR_LEDGER_URL": url})
    agent.project.mkdir()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT citus_schema_undistribute(current_schema()::regnamespace)")
    with Ledger.open(url) as ledger:
        before = ledger.head().position
        with pytest.raises(LedgerUnavailable, match="run `reflector rebuild --mend`"):
            ledger.append([added("oth-001")])
        agent.call("rebuild", "--mend")
        ledger.append([added("oth-001")])
        assert ledger.head().position == before + 1
        assert list(verify(ledger)) == []


def test_a_worker_begins_no_playbook_and_says_where_one_is_begun(url: str) -> None:
    place = sa.make_url(_shard(url)[1])
    there = sa.make_url(url).difference_update_query(["host"]).set(host=place.host, port=place.port)
    with pytest.raises(LedgerUnavailable, match="name the coordinator in the URL"):
        Ledger.open(there.render_as_string(hide_password=False), "new")


def test_an_error_of_a_worker_that_answers_is_not_told_as_its_absence(postgres: Postgres) -> None:
    for code, words in (("XX000", "cache lookup failed for type 7"), ("58030", "could not read block 7")):
        with postgres._connected() as connection, pytest.raises(LedgerUnavailable) as caught, translated("here"):
            connection.execute(_raised(words, code, "while executing command on w2:5432"))
        assert not isinstance(caught.value, LedgerAway)
        assert words in str(caught.value)


def _shard(url: str) -> tuple[str, str]:
    """The events' table on its worker, and a superuser's URL of the worker."""
    with psycopg.connect(url) as connection:
        host, port, name, schema = connection.execute(
            "SELECT nodename, nodeport, shard_name, current_schema() FROM citus_shards"
            " WHERE table_name = to_regclass('event')"
        ).fetchone() or ("", 0, "", "")
    worker = sa.make_url(url).difference_update_query(["host", "options"]).set(host=host, port=port)
    return f"{schema}.{name.rpartition('.')[2]}", worker.render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("ALTER TABLE {shard} DISABLE TRIGGER event_no_update_{number}", "is missing or disabled on its worker"),
        ("DROP TRIGGER event_no_update_{number} ON {shard}", "is missing or disabled on its worker"),
        (
            "CREATE OR REPLACE FUNCTION {schema}.reflector_event_no_update() RETURNS trigger LANGUAGE plpgsql"
            " SET search_path = {schema}, pg_temp AS $$ BEGIN RETURN NEW; END $$",
            "was changed on its worker",
        ),
        (
            "ALTER FUNCTION {schema}.reflector_event_no_update() RESET ALL",
            "does not look for its tables in {schema} alone on its worker",
        ),
    ],
)
def test_a_trigger_that_was_taken_down_on_a_worker_is_found_and_mended(url: str, change: str, found: str) -> None:
    shard, worker = _shard(url)
    schema, _, table = shard.partition(".")
    names = {"shard": shard, "number": table.rpartition("_")[2], "schema": schema}
    with Ledger.open(url) as ledger:
        assert list(verify(ledger)) == []
        with psycopg.connect(worker, autocommit=True) as connection:
            connection.execute("SET citus.enable_ddl_propagation = off")
            connection.execute(change.format(**names))  # type: ignore[call-overload]
        assert [one.message for one in verify(ledger)] == [
            f"the trigger event_no_update {found.format(**names)}, so the database itself no longer refuses changes"
        ]
        with write_transaction(ledger.engine) as mending:
            create_triggers(mending, "postgresql")
        assert list(verify(ledger)) == []


def test_a_ledger_that_is_moved_to_another_worker_goes_on_and_keeps_its_triggers(url: str) -> None:
    worker = sa.make_url(_shard(url)[1])
    nodes = "SELECT nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards AND (nodename, nodeport) <> (%s, %s)"
    with psycopg.connect(url, autocommit=True) as connection:
        other = connection.execute(nodes, [worker.host, worker.port]).fetchone()
        if other is None:
            pytest.skip("this Citus has one worker")
        move = "SELECT citus_schema_move(current_schema()::regnamespace, %s, %s, 'block_writes')"
        with Ledger.open(url) as ledger:
            ledger.append([added("oth-001")])
            connection.execute(move, other)
            ledger.append([added("oth-002")])
            assert list(verify(ledger)) == []
            assert sa.make_url(_shard(url)[1]).port == other[1]
            with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                sql.run(ledger, "DELETE FROM event")


def test_the_doctor_names_the_place_of_the_tables_and_each_server_that_refuses_triggers(
    url: str, tmp_path: Path
) -> None:
    def row(of: str, code: int) -> dict[str, Any]:
        agent = Agent(tmp_path / "project", tmp_path, environ={"REFLECTOR_LEDGER_URL": of})
        agent.project.mkdir(exist_ok=True)
        return next(check for check in agent.json("doctor", code=code) if check["name"] == "citus")

    worker = sa.make_url(_shard(url)[1])
    well = row(url, 1)  # there are no hooks
    assert (well["state"], well["mend"]) == ("ok", "")
    assert well["text"] == f"the tables are on {worker.host}:{worker.port}; citus.enable_unsafe_triggers is on"
    off = row(with_setting(url, "citus.enable_unsafe_triggers", "off"), 1)
    assert off["state"] == "error"
    assert off["text"].endswith("citus.enable_unsafe_triggers is off on this server")
    assert off["mend"].startswith("set it to on in the configuration of the coordinator and of each worker")


@pytest.mark.usefixtures("url")
def test_a_ledger_is_not_begun_where_triggers_are_refused(postgres: Postgres) -> None:
    with postgres.database(empty=True) as empty:
        with pytest.raises(
            LedgerUnavailable, match=r"citus\.enable_unsafe_triggers is off on this server; set it to on"
        ):
            Ledger.open(with_setting(empty, "citus.enable_unsafe_triggers", "off"))
        with psycopg.connect(empty) as connection:
            found = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        assert found == []


@pytest.fixture
def refusing(postgres: Postgres, url: str) -> Iterator[tuple[str, str]]:
    """A role for whose sessions one worker, and no other server, refuses triggers; and that worker."""
    role, worker = f"refused_{os.getpid()}", _shard(url)[1]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} SUPERUSER LOGIN")
    try:
        with psycopg.connect(worker, autocommit=True) as connection:
            connection.execute("SET citus.enable_ddl_propagation = off")
            connection.execute(f"ALTER ROLE {role} SET citus.enable_unsafe_triggers = off")
        place = sa.make_url(worker)
        yield role, f"{place.host}:{place.port}"
    finally:
        postgres._run(f"DROP ROLE {role}")


def test_one_worker_that_refuses_triggers_is_named_by_the_doctor_and_by_the_first_command(
    postgres: Postgres, url: str, refusing: tuple[str, str], tmp_path: Path
) -> None:
    role, worker = refusing
    why = f"citus.enable_unsafe_triggers is off on {worker}"

    def of_role(known: str) -> Agent:
        url = sa.make_url(known).set(username=role).render_as_string(hide_password=False)
        agent = Agent(tmp_path / "project", tmp_path, environ={"REFLECTOR_LEDGER_URL": url})
        agent.project.mkdir(exist_ok=True)
        return agent

    (found,) = (check for check in of_role(url).json("doctor", code=1) if check["name"] == "citus")
    assert (found["state"], found["text"].endswith(why)) == ("error", True)
    assert f"{why}; set it to on" in of_role(url).call("rebuild", "--mend", code=1).err
    with postgres.database(empty=True) as empty:
        assert f"{why}; set it to on" in of_role(empty).call("list", code=1).err
        with psycopg.connect(empty) as connection:
            assert connection.execute("SELECT to_regclass('event')").fetchone() == (None,)


def test_a_worker_that_ends_its_connections_is_named_and_the_next_append_goes_on(url: str) -> None:
    shard, worker = _shard(url)
    place = sa.make_url(worker)
    lock = "SELECT position FROM playbook FOR UPDATE"
    with Ledger.open(url) as ledger, psycopg.connect(worker, autocommit=True) as connection:
        before = ledger.head().position
        connection.execute("SET citus.override_table_visibility = off")
        with ledger.engine.connection() as driver:
            driver.execute(lock)
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM (SELECT DISTINCT pid FROM pg_locks"
                " JOIN pg_class c ON c.oid = relation AND c.relnamespace = %s::regnamespace) AS held",
                [shard.partition(".")[0]],
            )
            assert ended.fetchall() == [(True,)]
            named = f"needs the Citus server {place.host}:{place.port}, which does not answer"
            with pytest.raises(LedgerAway, match=named), translated("here"):
                driver.execute(lock)
        ledger.append([added("oth-001")])
        assert ledger.head().position == before + 1
        assert list(verify(ledger)) == []


def test_policies_by_playbook_are_refused_with_the_way_out(url: str) -> None:
    with Ledger.open(url) as ledger, pytest.raises(LedgerUnavailable, match="a ledger in a schema of its own"):
        list(policies(ledger.engine))
