"""The schema: what the migrations make is what the code expects, from any earlier revision, with
data in it.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from reflector.events import event as ev
from reflector.ledger import migration
from reflector.ledger.canonical import genesis
from reflector.ledger.engines import migration_transaction, open_engine
from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.migration import HEAD_REVISION, ensure_current
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from reflector.resources import resource_dir
from tests.conftest import OpenLedger, Postgres

from . import sql
from .events import added, changed, history

pytestmark = pytest.mark.migrates


def test_the_code_knows_the_newest_revision_and_revisions_sort_as_they_follow() -> None:
    files = sorted(
        path.name[:4] for path in (resource_dir("migrations") / "versions").glob("[0-9]*.py")
    )
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")))
    revisions = [
        script.revision
        for script in reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
    ]
    assert revisions == files
    assert revisions[-1] == HEAD_REVISION
    assert all(re.fullmatch(r"\d{4}", revision) for revision in revisions)


def made_first(url: str) -> list[tuple[object, ...]]:
    """Make a ledger as the first version did, with a history; id, data and chain of its events."""
    engine = open_engine(url)
    with Ledger.open("sqlite://") as source:
        source.append([*history(), _PROPOSAL])
        # that came later
        columns = [column for column in sql.tables()["event"][0] if column != "recorded_by"]
        playbooks = sql.rows(source, f"SELECT {_OF_PLAYBOOK}, chain, recorded_at FROM playbook")
        events = sql.rows(source, f"SELECT {', '.join(columns)} FROM event ORDER BY position")
        made = sql.rows(source, "SELECT event_id, data, chain FROM event ORDER BY position")
    with migration_transaction(engine) as connection:
        for statement in _FIRST.format(**migration._WORDS[engine.dialect]).split(";\n"):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(migration.VERSION)
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
        mark = "%s" if engine.dialect == "postgresql" else "?"

        def insert(table: str, columns: str, rows: list[tuple[object, ...]]) -> None:
            for row in rows:
                marks = ", ".join([mark] * len(row))
                connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)

        insert(
            "playbook",
            f"{_OF_PLAYBOOK}, chain, recorded_at",
            [(*row[:3], 0, genesis(*row[1:3]), row[5]) for row in playbooks],
        )
        insert("event", ", ".join(columns), events)
        move = f"UPDATE playbook SET position = {mark}, chain = {mark}, recorded_at = {mark}"
        connection.exec_driver_sql(move, playbooks[0][3:])
    engine.close()
    return made


_OF_PLAYBOOK = "id, name, origin, position"
_PROPOSAL = changed(ev.BULLET_PROPOSED, "pat-001", section="pat", text="Use hunter2", reason="seen")
_FIRST = (Path(__file__).parent / "made_by_older_versions" / "0001_ledger.sql").read_text("utf-8")


def test_a_ledger_of_the_first_version_is_upgraded_with_its_data_and_its_triggers(
    ledger_url: str,
) -> None:
    before = made_first(ledger_url)
    with Ledger.open(ledger_url) as ledger:
        assert sql.rows(ledger, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
        assert (
            sql.rows(ledger, ("SELECT event_id, data, chain FROM event ORDER BY position"))
            == before
        )
        assert list(verify(ledger)) == []
        ledger.rebuild()
        ledger.append([added("oth-001")])
        ledger.redact([_PROPOSAL.event_id], reason="a secret", actor="human")
        assert not [row for row in sql.content(ledger) if "hunter2" in str(row)]
        assert list(verify(ledger)) == []
        for statement in ("UPDATE event SET data = NULL", "DELETE FROM event"):
            with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                sql.run(ledger, statement)


_STATUSES = (
    "CREATE TABLE bullet_status (playbook_id INTEGER NOT NULL, name TEXT NOT NULL,"
    " position INTEGER NOT NULL, status TEXT NOT NULL,"
    " FOREIGN KEY(playbook_id) REFERENCES playbook (id))"
)


def test_upgrade_drops_the_table_of_statuses(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    ledger.append(history())
    before = sql.content(ledger)
    row = "INSERT INTO bullet_status VALUES (1, 'pat-001', 1, 'live')"
    sql.run(ledger, _STATUSES, row, "UPDATE alembic_version SET version_num = '0009'")
    again = open_ledger()
    assert "bullet_status" not in sa.inspect(again.engine.alchemy()).get_table_names()
    assert sql.content(again) == before
    assert list(verify(again)) == []


def test_a_current_ledger_is_opened_without_importing_alembic(ledger: Ledger) -> None:
    opens = (
        "import sys; from reflector.ledger.store import Ledger; Ledger.open(sys.argv[1]).close()"
    )
    command = [
        sys.executable,
        "-c",
        f"{opens}; sys.exit('alembic' in sys.modules)",
        ledger.engine.url.text,
    ]
    subprocess.run(command, check=True)


def test_triggers_and_views_of_an_earlier_version_are_replaced_and_no_others(
    open_ledger: OpenLedger,
) -> None:
    ledger = open_ledger()
    on = " ON event" if sql.is_postgres(ledger) else ""
    changed = f"DROP TRIGGER event_no_delete{on}", "DROP VIEW tags"
    sql.run(ledger, *changed, "UPDATE projection SET state_hash = ''")
    again = open_ledger()
    if on:  # on a server they are its owner's
        again.mend_triggers()
    assert list(verify(again)) == []
    assert sql.rows(ledger, "SELECT state_hash FROM projection") == [(migration.made_digest(),)]
    sql.run(ledger, *changed)
    assert {finding.code for finding in verify(open_ledger())} == {"trigger", "schema"}
    ledger.mend_triggers()
    assert list(verify(ledger)) == []


def test_triggers_and_views_are_those_of_the_last_commit() -> None:
    last = "7edaf699a04777344ddcd22091a9117e722452d3333387108e41785c83f459f2"
    now = migration.made_digest()
    assert now == last, (
        f"put {last} into EARLIER (ledger/migration.py), else ledgers look "
        f"forged; and {now} in here"
    )


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_ledger_of_before_the_views_is_refused_untouched_where_a_name_is_taken(
    postgres: Postgres, kind: str
) -> None:
    with postgres.database(empty=True) as url:
        engine = open_engine(url)
        if kind == "TABLE":
            made_first(url)
        with engine.alchemy().begin() as connection:
            connection.exec_driver_sql(
                f"CREATE {kind} tags {'(id INTEGER)' if kind == 'TABLE' else 'AS SELECT 1'}"
            )
        with pytest.raises(
            LedgerCorrupt,
            match=(
                r"holds tags, and the ledger needs that name for "
                r"a view; nothing"
            ),
        ):
            Ledger.open(url)
        tables = sa.inspect(engine.alchemy()).get_table_names()
        assert ("event" in tables) == (kind == "TABLE")
        engine.close()


def test_an_interrupted_migration_leaves_what_there_was(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    engine = open_engine(ledger_url)
    with monkeypatch.context() as patched:
        patched.setattr(migration, "create_triggers", fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            ensure_current(engine)
    assert sa.inspect(engine.alchemy()).get_table_names() == []
    engine.close()
    with Ledger.open(ledger_url) as ledger:
        assert list(verify(ledger)) == []


_BATCH = """
from alembic import op

revision = "9998"
down_revision = "{head}"


def upgrade() -> None:
    with op.batch_alter_table("event") as batch:
        batch.alter_column("actor", nullable=False)
    op.execute("DROP INDEX IF EXISTS event_by_session")
"""


def test_remade_tables_keep_rows_and_triggers(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch migration recreates a table and silently drops its triggers; PostgreSQL alters it
    in place.
    """
    ledger.append(history())
    before = sql.content(ledger)
    folder = tmp_path / "migrations"
    shutil.copytree(resource_dir("migrations"), folder)
    (folder / "versions" / "9998_batch.py").write_text(_BATCH.format(head=HEAD_REVISION))
    with monkeypatch.context() as patched:
        patched.setattr(migration, "resource_dir", lambda _: folder)
        patched.setattr(migration, "HEAD_REVISION", "9998")
        with Ledger.open(ledger.engine.url.text) as upgraded:
            # The index that it drops.
            assert [finding for finding in verify(upgraded) if finding.code != "schema"] == []
            assert sql.content(upgraded) == before
            upgraded.append([added("oth-001")])
            for statement in (
                "UPDATE event SET actor = 'x'",
                "DELETE FROM event",
                "DELETE FROM playbook",
            ):
                with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                    sql.run(upgraded, statement)
            if not sql.is_postgres(upgraded):
                assert sql.rows(upgraded, "PRAGMA foreign_keys") == [(1,)]
