"""Ledgers that older versions made: what they say today is what they said then, and they go on."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from reflector.events.registry import fold
from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.migration import HEAD_REVISION, upgrade_sql
from reflector.ledger.store import Ledger
from reflector.playbook.document import dump
from reflector.proof.verify import verify
from tests.building import OLDER
from tests.conftest import Postgres, first_fast

from . import sql
from .clients import run_client, schema_faults
from .events import added

_TABLES = ("bullet", "tag", "session_window", "record", "retraction", "projection")
#: `one-machine`, `retracted-…` and `merged-…` are older than the registry of event types;
#: `every-type` and `two-machines` are of the version with checkpoints of tallies: answers in parts,
#: redactions of redactions, a move there and back, a merge. Each release adds one of its own,
#: `version-1.2.3` (.ci/keep_ledger.py).
_NAMES = sorted(path.name.removesuffix(".db.gz") for path in OLDER.glob("*.db.gz"))


def _tables(ledger: Ledger) -> list[list[tuple[object, ...]]]:
    return [sorted(sql.rows(ledger, f"SELECT * FROM {table}"), key=repr) for table in _TABLES]


def _says_the_same(url: str, name: str, events: list[tuple[object, ...]]) -> None:
    wanted = (OLDER / f"{name}.json").read_bytes()
    with Ledger.open(url) as ledger:
        assert sql.rows(ledger, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
        assert [row[1:15] for row in events] == [
            row[1:15]
            for row in sql.rows(ledger, ("SELECT * FROM event ORDER BY playbook_id, position"))
        ]
        before = sql.content(ledger), _tables(ledger)
        for again in (lambda: None, ledger.rebuild):
            again()
            assert (sql.content(ledger), _tables(ledger)) == before
            assert dump(ledger.bullets(), ledger.updated_at()) == wanted
            assert list(verify(ledger)) == []
        assert fold(ledger.events()).bullets() == ledger.bullets()
        with Ledger.open("sqlite://") as other:
            load_ledger(other, exported(ledger))
            assert dump(other.bullets(), other.updated_at()) == wanted
        ledger.append([added("oth-099")])
        assert list(verify(ledger)) == []


@pytest.mark.parametrize("name", first_fast(1, _NAMES))
def test_older_ledger_opens_unchanged_and_continues(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.db"
    path.write_bytes(gzip.decompress((OLDER / f"{name}.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as older:
        events = older.execute("SELECT * FROM event ORDER BY playbook_id, position").fetchall()
    _says_the_same(f"sqlite:///{path}", name, events)


@pytest.mark.postgres
def test_older_ledger_on_a_server_continues(postgres: Postgres) -> None:
    with postgres.database(empty=True) as url:
        with psycopg.connect(url, autocommit=True) as older:
            older.execute(gzip.decompress((OLDER / "every-type-postgresql.sql.gz").read_bytes()))
        with psycopg.connect(url) as older:
            events = older.execute("SELECT * FROM event ORDER BY playbook_id, position").fetchall()
        _says_the_same(url, "every-type-postgresql", events)


@pytest.mark.parametrize("name", _NAMES)
def test_printed_sql_upgrades_an_older_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.db"
    path.write_bytes(gzip.decompress((OLDER / f"{name}.db.gz").read_bytes()))
    run_client(f"sqlite:///{path}", upgrade_sql(f"sqlite:///{path}"))
    with Ledger.open(f"sqlite:///{path}") as upgraded:
        assert schema_faults(upgraded) == []


@pytest.mark.postgres
def test_printed_sql_upgrades_an_older_server(postgres: Postgres) -> None:
    with postgres.database(empty=True) as url:
        with psycopg.connect(url, autocommit=True) as older:
            older.execute(gzip.decompress((OLDER / "every-type-postgresql.sql.gz").read_bytes()))
        run_client(url, upgrade_sql(url))
        with Ledger.open(url) as upgraded:
            assert schema_faults(upgraded) == []
