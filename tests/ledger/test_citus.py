"""Citus, where a ledger's tables and triggers are on a worker: what it refuses, shows and tells
otherwise.

The other tests of the ledger run on it too, as tests/conftest.py says.
"""

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
    LedgerAway,
    LedgerCorrupt,
    LedgerError,
    LedgerUnavailable,
    NoSuchTarget,
    translated,
)
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


_AWAY = "needs the Citus server w2:5432, which does not answer"
_MEND = "let the owner of the ledger run `reflector rebuild --mend`"
_LOST = "connection to the remote node me@w2:5432 failed"
_COMMAND = "while executing command on w2:5432"


@pytest.mark.parametrize(
    ("code", "words", "behind", "wanted", "told"),
    [
        # A worker's refusal of many rows at once loses its code on the way; its words say what it
        # was.
        ("XX000", "append-only: the next position is one above the last", "", LedgerCorrupt, "."),
        (
            "XX000",
            "append-only: recorded more than a minute ahead",
            "",
            LedgerUnavailable,
            "clock of this machine",
        ),
        ("XX000", 'violates "event_target_once_102008"', "", AlreadyRetracted, "."),
        (
            "XX000",
            ('verletzt Fremdschlüssel-Constraint "event_target_exists_102008"'),
            "",
            NoSuchTarget,
            ".",
        ),
        # A worker that is away is named, as a server that does not answer.
        (
            "08006",
            f"{_LOST} with the following error: refused",
            "",
            LedgerAway,
            rf"{_AWAY} \(.*refused\); start that",
        ),
        ("08006", _LOST, "", LedgerAway, _AWAY),
        ("58030", "failed to COPY to shard 102008 on w2:5432", "", LedgerAway, _AWAY),
        ("XX000", "SSL SYSCALL error: EOF detected", _COMMAND, LedgerAway, _AWAY),
        ("57P01", "terminating connection", _COMMAND, LedgerAway, _AWAY),
        (
            "XX000",
            "could not commit transaction for shard 7",
            "",
            LedgerAway,
            "a server of its Citus",
        ),
        # What a person can mend is told with the way out.
        ("42P01", 'relation "event_102008" does not exist', "", LedgerUnavailable, _MEND),
        ("XX000", "unrecognized RTE kind: 7", "", LedgerUnavailable, _MEND),
        (
            "XX000",
            "nextval(sequence) calls in worker nodes",
            "",
            LedgerUnavailable,
            "name the coordinator in the URL",
        ),
        # A worker that answers is not away.
        (
            "XX000",
            "cache lookup failed for type 7",
            _COMMAND,
            LedgerUnavailable,
            "cache lookup failed",
        ),
        ("58030", "could not read block 7", _COMMAND, LedgerUnavailable, "could not read block 7"),
    ],
)
def test_what_only_a_citus_says_is_known_by_its_words(
    postgres: Postgres, code: str, words: str, behind: str, wanted: type[LedgerError], told: str
) -> None:
    """Any server can raise the same, in a statement whose context has what is `behind` in it."""
    text = str(sa.literal(words).compile(compile_kwargs={"literal_binds": True}))
    statement = (
        f"DO $$ BEGIN EXECUTE $q$ DO $i$ BEGIN RAISE EXCEPTION USING MESSAGE = {text}, ERRCODE = "
        f"'{code}'; END $i$"
        f" -- {behind}\n$q$; END $$"
    )
    with (
        postgres._connected() as connection,
        pytest.raises(wanted, match=told) as caught,
        translated("here"),
    ):
        connection.execute(statement)
    assert type(caught.value) is wanted


@pytest.fixture
def agent(url: str, tmp_path: Path) -> Agent:
    """A project whose ledger is that one."""
    return Agent.bare(tmp_path, {"REFLECTOR_LEDGER_URL": url})


def test_a_ledger_that_leaves_its_worker_takes_events_once_its_triggers_are_mended(
    url: str, agent: Agent
) -> None:
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
        (
            "ALTER TABLE {shard} DISABLE TRIGGER event_no_update_{number}",
            "is missing or disabled on its worker",
        ),
        (
            "DROP TRIGGER event_no_update_{number} ON {shard}",
            "is missing or disabled on its worker",
        ),
        (
            "CREATE OR REPLACE FUNCTION {schema}.reflector_event_no_update() RETURNS trigger "
            "LANGUAGE plpgsql"
            " SET search_path = {schema}, pg_temp AS $$ BEGIN RETURN NEW; END $$",
            "was changed on its worker",
        ),
        (
            "ALTER FUNCTION {schema}.reflector_event_no_update() RESET ALL",
            "does not look for its tables in {schema} alone on its worker",
        ),
    ],
)
def test_a_trigger_that_was_taken_down_on_a_worker_is_found_and_mended(
    url: str, change: str, found: str
) -> None:
    shard, worker = _shard(url)
    schema, _, table = shard.partition(".")
    names = {"shard": shard, "number": table.rpartition("_")[2], "schema": schema}
    with Ledger.open(url) as ledger:
        assert list(verify(ledger)) == []
        with psycopg.connect(worker, autocommit=True) as connection:
            connection.execute("SET citus.enable_ddl_propagation = off")
            connection.execute(change.format(**names))  # type: ignore[call-overload]
        assert [one.message for one in verify(ledger)] == [
            f"the trigger event_no_update {found.format(**names)}, so the database itself no "
            "longer refuses changes"
        ]
        with write_transaction(ledger.engine) as mending:
            create_triggers(mending, "postgresql")
        assert list(verify(ledger)) == []


def test_a_ledger_that_is_moved_to_another_worker_goes_on_and_keeps_its_triggers(url: str) -> None:
    worker = sa.make_url(_shard(url)[1])
    nodes = (
        "SELECT nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards AND (nodename, "
        "nodeport) <> (%s, %s)"
    )
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


def test_the_doctor_names_the_tables_place_and_who_refuses_triggers(
    postgres: Postgres, url: str, agent: Agent
) -> None:
    def row() -> dict[str, Any]:
        return next(check for check in agent.json("doctor", code=1) if check["name"] == "citus")

    worker, role = _shard(url)[1], f"refused_{os.getpid()}"
    at = f"{sa.make_url(worker).host}:{sa.make_url(worker).port}"
    well = row()
    assert (well["state"], well["mend"]) == ("ok", "")
    assert well["text"] == f"the tables are on {at}; citus.enable_unsafe_triggers is on"
    agent.environ["REFLECTOR_LEDGER_URL"] = with_setting(url, "citus.enable_unsafe_triggers", "off")
    off = row()
    assert off["state"] == "error"
    assert off["text"].endswith("citus.enable_unsafe_triggers is off on this server")
    assert off["mend"].startswith(
        "set it to on in the configuration of the coordinator and of each worker"
    )
    # One worker alone, for the sessions of one role.
    postgres._run(f"CREATE ROLE {role} SUPERUSER LOGIN")
    try:
        with psycopg.connect(worker, autocommit=True) as connection:
            connection.execute("SET citus.enable_ddl_propagation = off")
            connection.execute(f"ALTER ROLE {role} SET citus.enable_unsafe_triggers = off")  # type: ignore[call-overload]
        agent.environ["REFLECTOR_LEDGER_URL"] = (
            sa.make_url(url).set(username=role).render_as_string(False)
        )
        assert row()["text"].endswith(f"citus.enable_unsafe_triggers is off on {at}")
    finally:
        postgres._run(f"DROP ROLE {role}")


@pytest.mark.usefixtures("url")
def test_a_ledger_is_not_begun_where_triggers_are_refused(postgres: Postgres) -> None:
    with postgres.database(empty=True) as empty:
        with pytest.raises(
            LedgerUnavailable,
            match=(
                r"citus\.enable_unsafe_triggers is off on this server; set "
                r"it to on"
            ),
        ):
            Ledger.open(with_setting(empty, "citus.enable_unsafe_triggers", "off"))
        with psycopg.connect(empty) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
        assert found == []


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
                " JOIN pg_class c ON c.oid = relation AND c.relnamespace = %s::regnamespace) AS "
                "held",
                [shard.partition(".")[0]],
            )
            assert ended.fetchall() == [(True,)]
            named = f"needs the Citus server {place.host}:{place.port}, which does not answer"
            with pytest.raises(LedgerAway, match=named), translated("here"):
                driver.execute(lock)
        ledger.append([added("oth-001")])
        assert ledger.head().position == before + 1
        assert list(verify(ledger)) == []
