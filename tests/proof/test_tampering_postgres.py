"""Whatever a superuser changes in a ledger on PostgreSQL with its triggers switched off, `verify` finds it."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from reflector.ledger.statements import LEDGER_TABLES
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger
from tests.ledger import sql
from tests.ledger.events import added, history, retracted, window

from .forger import UNPROVED, other_value

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True),
]
COLUMNS = [
    (table, column) for table, (columns, _) in sql.tables().items() for column in columns if column not in UNPROVED
]


@pytest.fixture
def told(open_ledger: OpenLedger) -> Ledger:
    open_ledger("other").append([added("oth-001")])
    ledger = open_ledger()
    ledger.append(history())
    out = window(9)
    ledger.append([out, retracted(out)])
    ledger.redact(ledger.events().__next__().event_id, reason="a name", actor="human")
    assert list(verify(ledger)) == []
    return ledger


def _forge(ledger: Ledger, statement: str, values: dict[str, Any]) -> int:
    """Run a statement with every trigger and reference switched off; how many rows it changed."""
    with ledger.engine.alchemy().begin() as connection:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        return connection.execute(sa.text(statement), values).rowcount


@pytest.mark.parametrize("rows_of_each", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_every_column_of_every_table_is_compared(told: Ledger, open_ledger: OpenLedger, rows_of_each: int) -> None:
    other = open_ledger("other")
    chance = random.Random(0)
    missed = []
    for table, column in [*COLUMNS, ("alembic_version", "version_num")]:
        _, key = sql.tables().get(table, ([], ["version_num"]))
        only = " WHERE name = 'tables'" if table == "projection" else ""
        with told.engine.alchemy().connect() as connection:
            rows = connection.exec_driver_sql(f"SELECT * FROM {table}{only}").mappings().all()
        where = " AND ".join(f'"{name}" = :old_{name}' for name in key)
        for row in chance.sample(rows, min(rows_of_each, len(rows))):
            value = other_value(chance, row[column], [one[column] for one in rows])
            if isinstance(value, str):
                value = value.replace("\0", "")
            if value == row[column]:
                continue
            update = f'UPDATE {table} SET "{column}" = :value WHERE {where}'
            with suppress(sa.exc.DBAPIError):  # a constraint that no role switches off
                changed = _forge(told, update, {"value": value, **{f"old_{name}": row[name] for name in key}})
                assert changed == 1
                if [*verify(told), *verify(other)] == []:
                    missed.append((table, column, row[column], value))
                back = {name: value if name == column else row[name] for name in key}
                _forge(told, update, {"value": row[column], **{f"old_{name}": back[name] for name in key}})
    assert missed == []
    assert [*verify(told), *verify(other)] == []


_EXTRA = "CREATE TRIGGER {} AFTER INSERT ON bullet FOR EACH ROW EXECUTE FUNCTION reflector_event_no_delete()"


def test_a_trigger_that_is_not_the_ledgers_is_gone_after_the_statement_that_verify_names(told: Ledger) -> None:
    sql.run(told, _EXTRA.format('"Not ours"'))
    (finding,) = verify(told)
    sql.run(told, finding.remedy.partition("then drop it: ")[2])
    assert list(verify(told)) == []


_A_ROW = "DELETE FROM {table} WHERE ctid = (SELECT ctid FROM {table} WHERE {of} ORDER BY random() LIMIT 1)"
_CHANGES = {
    "DROP INDEX event_by_type": "the index event_by_type of event is missing",
    "CREATE INDEX extra ON tag (name)": "the index extra of tag is not the ledger's",
    "ALTER TABLE event ADD COLUMN extra text": "the column event.extra is not the ledger's",
    "ALTER TABLE event ALTER COLUMN actor DROP NOT NULL": "the column event.actor was changed",
    "DROP VIEW bullets CASCADE; ALTER TABLE bullet ALTER COLUMN helpful TYPE numeric": "bullet.helpful was changed",
    "ALTER TABLE bullet DROP CONSTRAINT helpful_not_negative": "helpful_not_negative of bullet is missing",
    "ALTER TABLE event DROP CONSTRAINT event_target_exists": "of event is missing",
    "ALTER TABLE event DROP CONSTRAINT event_id_once CASCADE": "of event is missing",
    "CREATE RULE quiet AS ON DELETE TO event DO INSTEAD NOTHING": "the rule quiet is not the ledger's",
    "ALTER TABLE event ENABLE ROW LEVEL SECURITY": "the table event hides rows",
    _EXTRA.format("extra"): "the trigger extra is not the ledger's",
    "DROP VIEW bullets CASCADE; CREATE VIEW bullets AS SELECT 1": "the view bullets was changed",
    "DROP VIEW reflections": "the view reflections is missing",
} | {
    _A_ROW.format(table=table, of="name = 'tables'" if table == "projection" else "true"): ""
    for table in LEDGER_TABLES
    if table != "cached_usage"
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", _CHANGES)
def test_a_changed_schema_and_a_deleted_row_are_found(told: Ledger, open_ledger: OpenLedger, statement: str) -> None:
    other = open_ledger("other")
    _forge(told, statement, {})
    findings = [*verify(told), *verify(other)]
    assert any(_CHANGES[statement] in finding.message for finding in findings), findings
    assert all(finding.message and finding.remedy for finding in findings)
