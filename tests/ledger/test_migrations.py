"""The schema: what the migrations make is what the code expects, from any earlier revision, with data in it."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger import migration, tables
from reflector.ledger.engines import open_engine, schema_transaction
from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.migration import HEAD_REVISION, ensure_current, is_citus, triggers, upgrade
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.ledger.views import VIEWS, view_sql
from reflector.proof.verify import verify
from reflector.resources import resource_dir
from tests.conftest import Postgres

from . import sql
from .events import added, changed, history

pytestmark = pytest.mark.migrates

#: The newest revision, and digests of the views and the triggers that it makes.
_MADE_BY_REVISION = ("0008", "588959deff9c09e3", "ed431ef6149688cf")


def _revisions() -> list[str]:
    return sorted(path.name[:4] for path in (resource_dir("migrations") / "versions").glob("[0-9]*.py"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "empty.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database(empty=True) as url:
        yield url


def test_the_code_knows_the_newest_revision_and_revisions_sort_as_they_follow() -> None:
    files = _revisions()
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")))
    revisions = [script.revision for script in reversed(list(ScriptDirectory.from_config(config).walk_revisions()))]
    assert revisions == files
    assert revisions[-1] == HEAD_REVISION
    assert all(re.fullmatch(r"\d{4}", revision) for revision in revisions)


def test_the_migrations_make_the_tables_that_the_code_declares(ledger: Ledger) -> None:
    with ledger.engine.alchemy().connect() as connection:
        numbered = sql.is_postgres(ledger) and is_citus(lambda query: connection.exec_driver_sql(query).first())
        opts = {
            "compare_type": True,
            "compare_server_default": True,
            # Citus numbers playbooks by a default.
            "include_object": lambda _, name, kind, *__: not (numbered and (kind, name) == ("column", "id")),
        }
        context = MigrationContext.configure(connection, opts=opts)
        assert [
            difference
            for difference in compare_metadata(context, tables.metadata)
            # SQLite numbers the rows of such a table by itself; the default of `recorded_by` comes with its trigger.
            if not re.search(r"alembic_version|Identity\(|modify_default.*'recorded_by'", str(difference))
        ] == []


def test_keys_constraints_and_partial_indexes_are_the_declared_ones_too(ledger: Ledger, tmp_path: Path) -> None:
    """Alembic compares neither primary keys nor checks nor the conditions of partial indexes: made anew, they agree."""

    def described(inspector: sa.Inspector) -> dict[str, object]:
        return {
            name: {
                "columns": {c["name"]: (str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)},
                "key": inspector.get_pk_constraint(name)["constrained_columns"],
                "unique": sorted(tuple(u["column_names"]) for u in inspector.get_unique_constraints(name)),
                "foreign": sorted(
                    (tuple(f["constrained_columns"]), f["referred_table"]) for f in inspector.get_foreign_keys(name)
                ),
                "checks": sorted(
                    (str(c["name"]), c["sqltext"].strip("()")) for c in inspector.get_check_constraints(name)
                ),
                "indexes": sorted(
                    (str(i["name"]), tuple(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(name)
                ),
            }
            for name in tables.metadata.tables
        }

    migrated = described(sa.inspect(ledger.engine.alchemy()))
    if sql.is_postgres(ledger):
        with ledger.engine.alchemy().connect() as connection:
            own = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
            connection.exec_driver_sql(f"CREATE SCHEMA {own}_declared")
            connection.exec_driver_sql(f"SET search_path = {own}_declared")
            tables.metadata.create_all(connection)
            declared = described(sa.inspect(connection))
            conditions = (
                "SELECT indexname, regexp_replace(indexdef, ' ON [^ ]+\\.', ' ON ')"
                " FROM pg_indexes WHERE schemaname = '{}'"
            )
            indexes = [
                {row[0]: row[1] for row in connection.exec_driver_sql(conditions.format(schema))}
                for schema in (own, f"{own}_declared")
            ]
            indexes[0].pop("alembic_version_pkc")
            assert indexes[0] == indexes[1]
    else:
        engine = open_engine(sqlite_url(tmp_path / "declared.db"))
        tables.metadata.create_all(engine.alchemy())
        declared = described(sa.inspect(engine.alchemy()))
        query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index')"
        query += " AND name NOT LIKE {}"
        with engine.alchemy().connect() as connection:
            made = {name: _words(text) for name, text in connection.exec_driver_sql(query.format("'sqlite_%'"))}
        engine.close()
        standing = {str(name): _words(str(text)) for name, text in sql.rows(ledger, query.format("'sqlite_%'"))}
        standing.pop("alembic_version")
        differ = ", ".join(name for name in made if made[name] != standing.get(name))
        assert standing == made, (
            f"{differ}: the migrations make it otherwise than reflector/ledger/tables.py; "
            "a column that a migration adds stands there behind the older ones"
        )
    assert migrated == declared


def _words(statement: str) -> list[str]:
    return re.findall(r"[^\s(),\"]+|[(),]", statement)


def test_every_trigger_has_a_file_on_each_engine_and_stands_in_a_new_ledger(ledger: Ledger) -> None:
    names = {name for name, _ in sql.standing_triggers(ledger)}
    assert names == set(triggers(ledger.engine.dialect))
    assert len(names) >= 6


@pytest.mark.parametrize("start", _revisions())
def test_a_ledger_of_any_revision_is_upgraded_with_its_data_and_its_triggers(empty_url: str, start: str) -> None:
    engine = open_engine(empty_url)
    with schema_transaction(engine) as connection:
        upgrade(connection, start)
        _insert_history(connection)
    with engine.alchemy().connect() as connection:
        before = [tuple(row) for row in connection.exec_driver_sql("SELECT event_id, data, chain FROM event")]
    engine.close()
    with Ledger.open(empty_url) as ledger:
        assert sql.rows(ledger, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
        assert sql.rows(ledger, "SELECT event_id, data, chain FROM event") == before
        assert [finding for finding in verify(ledger) if finding.code in ("trigger", "view")] == []
        ledger.rebuild()
        ledger.append([added("oth-001")])
        assert [finding for finding in verify(ledger) if finding.code != "projection"] == []
        for statement in ("UPDATE event SET data = NULL", "DELETE FROM event"):
            with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                sql.run(ledger, statement)


def test_views_and_triggers_that_change_come_with_a_new_revision() -> None:
    """Without one the ledgers that are there keep the old ones, and `verify` takes them for tampered with."""
    engines = ("sqlite", "postgresql")
    views = _digest(view_sql(dialect, name) for dialect in engines for name in VIEWS)
    made = (HEAD_REVISION, views, _digest(sql for dialect in engines for sql in triggers(dialect).values()))
    is_new = made[0] > _MADE_BY_REVISION[0]
    assert made == _MADE_BY_REVISION, (
        f"write _MADE_BY_REVISION = {made} here"
        if is_new
        else "add a revision to migrations/versions, even an empty one"
    )


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256(" ".join("\n".join(texts).split()).encode()).hexdigest()[:16]


@pytest.mark.parametrize("start", _revisions())
def test_a_proposal_in_a_ledger_of_any_revision_can_be_erased_after_the_upgrade(empty_url: str, start: str) -> None:
    engine = open_engine(empty_url)
    with schema_transaction(engine) as connection:
        upgrade(connection, start)
        _insert_history(connection, _PROPOSAL)
    engine.close()
    with Ledger.open(empty_url) as ledger:
        ledger.redact(_PROPOSAL.event_id, reason="a secret", actor="human")
        assert not [row for row in sql.content(ledger) if "hunter2" in str(row)]
        ledger.rebuild()
        assert list(verify(ledger)) == []


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_ledger_of_before_the_views_is_refused_untouched_where_a_name_is_taken(postgres: Postgres, kind: str) -> None:
    with postgres.database(empty=True) as url:
        engine = open_engine(url)
        with schema_transaction(engine) as connection:
            if kind == "TABLE":
                upgrade(connection, "0001")
                _insert_history(connection)
            connection.exec_driver_sql(f"CREATE {kind} tags {'(id INTEGER)' if kind == 'TABLE' else 'AS SELECT 1'}")
        with pytest.raises(LedgerCorrupt, match=r"holds tags, and the ledger needs that name for a view; nothing"):
            Ledger.open(url)
        tables = sa.inspect(engine.alchemy()).get_table_names()
        assert ("event" in tables) == (kind == "TABLE")
        engine.close()


_PROPOSAL = changed(ev.BULLET_PROPOSED, "pat-001", section="pat", text="Use hunter2", reason="seen")


def _insert_history(connection: sa.Connection, *more: NewEvent) -> None:
    """Events as the first revision could hold them; later columns must have a default."""
    with Ledger.open("sqlite://") as source:
        source.append([*history(), *more])
        playbook = sql.rows(source, "SELECT id, name, origin, 0, chain, recorded_at FROM playbook")[0]
        columns = [column.name for column in tables.event.columns if column.name != "recorded_by"]
        rows = sql.rows(source, f"SELECT {', '.join(columns)} FROM event ORDER BY position")
        head = sql.rows(source, "SELECT position, chain, recorded_at FROM playbook")[0]
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    names = "id, name, origin, position, chain, recorded_at"
    connection.exec_driver_sql(f"INSERT INTO playbook ({names}) VALUES ({', '.join([mark] * 6)})", playbook)
    insert = f"INSERT INTO event ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"
    for row in rows:
        connection.exec_driver_sql(insert, row)
    connection.exec_driver_sql(f"UPDATE playbook SET position = {mark}, chain = {mark}, recorded_at = {mark}", head)


def test_an_interrupted_migration_leaves_the_database_as_it_was(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    engine = open_engine(empty_url)
    with monkeypatch.context() as patched:
        # env.py takes it from there, after the tables were made.
        patched.setattr(migration, "create_triggers", fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            ensure_current(engine)
    assert sa.inspect(engine.alchemy()).get_table_names() == []
    engine.close()
    with Ledger.open(empty_url) as ledger:
        assert list(verify(ledger)) == []


def test_a_current_ledger_is_opened_without_alembic(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("migrations ran on a current ledger")

    monkeypatch.setattr(migration, "upgrade", fail)
    with Ledger.open(ledger.engine.url.text) as again:
        assert again.head() == ledger.head()


_BATCH = """
from alembic import op

revision = "9998"
down_revision = "{head}"


def upgrade() -> None:
    with op.batch_alter_table("event") as batch:
        batch.alter_column("actor", nullable=False)
    op.execute("DROP INDEX IF EXISTS event_by_session")
"""


def test_a_migration_that_makes_the_event_table_anew_keeps_its_rows_and_its_triggers(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch migration recreates a table and silently drops its triggers; PostgreSQL alters it in place."""
    ledger.append(history())
    before = sql.content(ledger)
    folder = tmp_path / "migrations"
    shutil.copytree(resource_dir("migrations"), folder)
    (folder / "versions" / "9998_batch.py").write_text(_BATCH.format(head=HEAD_REVISION))
    with monkeypatch.context() as patched:
        patched.setattr(migration, "resource_dir", lambda _: folder)
        patched.setattr(migration, "HEAD_REVISION", "9998")
        with Ledger.open(ledger.engine.url.text) as upgraded:
            # PostgreSQL's schema is compared with the code's own tables, which the dropped index is one of.
            assert [finding for finding in verify(upgraded) if finding.code != "schema"] == []
            assert sql.content(upgraded) == before
            upgraded.append([added("oth-001")])
            assert sql.rows(upgraded, "SELECT version_num FROM alembic_version") == [("9998",)]
            for statement in ("UPDATE event SET actor = 'x'", "DELETE FROM event", "DELETE FROM playbook"):
                with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                    sql.run(upgraded, statement)
            if not sql.is_postgres(upgraded):
                assert sql.rows(upgraded, "PRAGMA foreign_keys") == [(1,)]
