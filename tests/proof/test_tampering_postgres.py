"""Whatever a superuser changes in a ledger on PostgreSQL with its triggers switched off, `verify` finds it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from reflector.ledger.statements import LEDGER_TABLES
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger
from tests.ledger import sql
from tests.ledger.events import added, history, retracted, window

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True),
]


@pytest.fixture
def told(open_ledger: OpenLedger) -> Ledger:
    open_ledger("other").append([added("oth-001")])
    ledger = open_ledger()
    ledger.append(history())
    out = window(9)
    ledger.append([out, retracted(out)])
    ledger.redact([ledger.events().__next__().event_id], reason="a name", actor="human")
    assert list(verify(ledger)) == []
    return ledger


def _forge(ledger: Ledger, statement: str, values: dict[str, Any]) -> int:
    """Run a statement with every trigger and reference switched off; how many rows it changed."""
    with ledger.engine.alchemy().begin() as connection:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        return connection.execute(sa.text(statement), values).rowcount


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
    "CREATE OR REPLACE FUNCTION reflector_event_no_delete() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN OLD; END $$": "the trigger event_no_delete was changed",
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
