"""Nothing that was changed behind the ledger's back stays unseen."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from reflector.events import event as ev
from reflector.events.registry import EVENT_TYPES
from reflector.exchange.transfer import exported
from reflector.ledger.canonical import digest, genesis, leaf
from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.errors import LedgerCorrupt, LedgerError
from reflector.ledger.migration import make_triggers_and_views, triggers
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.proof.heads import mend_head
from reflector.proof.verify import Anchor, verify
from tests.conftest import ON_A_SERVER, OpenLedger, first_fast
from tests.ledger import sql
from tests.ledger.events import added, changed, history, reflected, window

from .forger import UNPROVED, other_value


def _codes(ledger: Ledger, *anchors: Anchor) -> set[tuple[str, int | None]]:
    return {(finding.code, finding.position) for finding in verify(ledger, *anchors)}


#: Of the tag at position 6, and of the events around it.
_TAG = "UPDATE event SET {} WHERE position = 6"
_FORGED = '{"forged":true}'
_COPIED = (
    "INSERT INTO event SELECT playbook_id, 19, 'forged', type, schema_version, occurred_at, "
    "recorded_at, actor,"
    " session_id, reflection_id, target_id, data, data_hash, meta, chain, recorded_by FROM event "
    "WHERE position = 13"
)
#: What somebody did to events or the head, and the findings that there have to be, among others.
_TAMPERINGS: list[tuple[list[str], set[tuple[str, int | None]]]] = [
    *(
        ([_TAG.format(f"data = {text}")], {("data", 6)})
        for text in ('\'{"reason":"x"}\'', "data || ' '", "'no json'")
    ),
    ([_TAG.format("data = NULL")], {("redaction", 6)}),
    *(
        ([_TAG.format(change)], {("chain", 6)})
        for change in (
            *(
                "meta = '{\"ms\":1}'",
                "actor = 'somebody'",
                "session_id = 'other'",
                "session_id = NULL",
            ),
            *(
                "session_id = ''",
                "reflection_id = 'other'",
                "occurred_at = '2000'",
                "recorded_at = '9999'",
            ),
            *(
                "schema_version = 2",
                "type = 'reflection.skipped'",
                "event_id = 'other'",
                "data_hash = 'x'",
            ),
            *("chain = 'x'", "chain = 'pl1:' || data_hash"),
        )
    ),
    *(
        ([f"UPDATE event SET {column} = '' WHERE position = 2"], {("chain", 2)})
        for column in ("session_id", "reflection_id")
    ),
    (  # what the reference asks for
        [
            "UPDATE event SET event_id = '' WHERE position = 1",
            "UPDATE event SET target_id = '' WHERE position = 2",
        ],
        {("chain", 2)},
    ),
    *(  # whoever also mends the hash of the data moves the break from the data to the chain
        (
            [
                f"UPDATE event SET data = '{_FORGED}', data_hash = '{digest(_FORGED)}' WHERE "
                f"position = {position}"
            ],
            {("chain", position)},
        )
        for position in (1, 7, 18)
    ),
    (["DELETE FROM event WHERE position = 14"], {("order", 15), ("chain", 15)}),
    (
        [
            "UPDATE event SET position = 1000 WHERE position = 6",
            "UPDATE event SET position = 6 WHERE position = 7",
            "UPDATE event SET position = 7 WHERE position = 1000",
        ],
        {("chain", 6), ("chain", 7)},
    ),
    (
        ["UPDATE event SET position = position + 1 WHERE position = 19", _COPIED],
        {("chain", 19), ("chain", 20)},
    ),
    (["UPDATE playbook SET origin = 'other'"], {("chain", 1)}),
    *(
        ([f"UPDATE playbook SET {change}"], {("head", 19)})
        for change in ("recorded_at = '9999'", "position = position - 1", "position = position + 1")
    ),
    *(
        ([f"UPDATE event SET data = '{text}' WHERE position = 1"], {("data", 1)})
        for text in (
            "[]",
            "1",
            '"x"',
            "null",
            '{"bullets":[1]}',
            '{"bullets":[{"name":[]}]}',
            "[" * 99999,
        )
    ),
]


@pytest.mark.parametrize(
    ("statements", "found"),
    _TAMPERINGS,
    ids=[statements[0][:60] for statements, _ in _TAMPERINGS],
)
def test_a_change_is_found_where_it_is(
    told: Ledger, statements: list[str], found: set[tuple[str, int | None]]
) -> None:
    assert told.head().position == 19
    sql.forge(told, *statements)
    assert found <= _codes(told)


def test_removed_events_are_found_by_head_or_anchor(
    told: Ledger,
) -> None:
    head = told.head()
    last = head.position - 1
    anchor = Anchor(head.position, head.chain)
    sql.forge(told, f"DELETE FROM event WHERE position > {last}")
    assert _codes(told) == {("head", last)}
    sql.forge(
        told,
        (
            "UPDATE playbook SET position = position - 1, "
            "chain = (SELECT chain FROM event ORDER BY "
            "position DESC LIMIT 1)"
        ),
    )
    assert list(verify(told)) == []
    assert _codes(told, anchor) == {("anchor", head.position)}


def test_every_head_that_ever_was_is_an_anchor(told: Ledger) -> None:
    head = told.head()
    anchors = [Anchor(0, genesis(head.playbook, head.origin))]
    anchors += [Anchor(event.position, event.chain) for event in told.events()]
    assert [list(verify(told, anchor)) for anchor in anchors] == [[]] * len(anchors)
    assert list(verify(told, *anchors)) == []
    for wrong in (
        Anchor(0, head.chain),
        Anchor(3, head.chain),
        Anchor(head.position + 1, head.chain),
    ):
        assert _codes(told, wrong) == {("anchor", wrong.position)}
        assert _codes(told, *anchors, wrong) == {("anchor", wrong.position)}


#: A change of a table's row, and how each of the findings begins that there are.
_ROWS = {
    (
        "UPDATE bullet SET helpful = 40 WHERE name = 'pat-001'"
    ): "bullet pat-001: helpful is '40' in the table but '4' in the",
    (
        "UPDATE bullet SET baseline_helpful = 1, helpful = 2 WHERE name = 'ctx-001'"
    ): "bullet ctx-001: baseline_helpful",
    "DELETE FROM bullet WHERE name = 'ctx-001'": "bullet ctx-001 is missing from the table",
    "INSERT INTO bullet (playbook_id, name, ordinal, section, text, status, position, recounted_at,"
    " baseline_helpful, baseline_harmful, helpful, harmful)"
    " SELECT playbook_id, 'oth-001', 9, section, text, status, position, recounted_at,"
    " 0, 0, 0, 0 FROM bullet WHERE name = 'ctx-001'": ("bullet oth-001 is in the table but not in"),
    "UPDATE tag SET session_id = NULL WHERE position = 6": (
        "tag 6: session_id is nothing in the table but 's1' in the"
    ),
    "DELETE FROM tag WHERE position = 6": "tag 6 is missing from the table",
    "INSERT INTO tag SELECT playbook_id, 2, name, tag, active, session_id, reflection_id"
    " FROM tag WHERE position = 6": "tag 2 is in the table but not in the events",
    "DELETE FROM session_window": "session_window",
    "DELETE FROM retraction": "retraction",
    "DELETE FROM record WHERE key = 1": "record 1 is missing from the table",
    "INSERT INTO record VALUES (1, 77)": ("record 77 is in the table but not in the events"),
    (
        "UPDATE projection SET updated_at = NULL WHERE name = 'tables'"
    ): "projection tables: updated_at is nothing in the",
    "DELETE FROM projection": "projection tables is missing from the table",
}


def test_changed_table_is_named_and_rebuilt(told: Ledger) -> None:
    for statement, said in _ROWS.items():
        sql.forge(told, statement)
        findings = list(verify(told))
        assert findings, statement
        for finding in findings:
            assert (finding.code, finding.remedy) == ("projection", "run `reflector rebuild`"), (
                statement
            )
            assert finding.message.startswith(said), (statement, finding.message)
            assert "None" not in finding.message
            assert "(" not in finding.message
        told.rebuild()
        assert list(verify(told)) == [], statement


def test_table_of_a_changed_event_is_not_rebuilt(told: Ledger) -> None:
    sql.forge(told, "UPDATE event SET data = replace(data, 'Read', 'Rexd') WHERE position = 2")
    remedies = {finding.code: finding.remedy for finding in verify(told)}
    assert remedies["projection"] == remedies["data"]


@pytest.mark.parametrize("rows_of_each", first_fast(1, [1, 4]))
def test_every_column_of_every_table_is_compared(
    told: Ledger, open_ledger: OpenLedger, rows_of_each: int
) -> None:
    other = open_ledger("other")
    other.append([added("oth-001")])
    told.redact([next(told.events()).event_id], reason="a name", actor="human")
    chance = random.Random(0)
    missed, found = [], 0
    columns = [
        (table, column, key) for table, (columns, key) in sql.tables().items() for column in columns
    ]
    for table, column, key in [*columns, ("alembic_version", "version_num", ["version_num"])]:
        only = " WHERE name = 'tables'" if table == "projection" else ""
        with told.engine.alchemy().connect() as connection:
            rows = connection.exec_driver_sql(f"SELECT * FROM {table}{only}").mappings().all()
        where = " AND ".join(f'"{name}" = :old_{name}' for name in key)
        update = sa.text(f'UPDATE {table} SET "{column}" = :value WHERE {where}')
        for row in (
            chance.sample(rows, min(rows_of_each, len(rows))) if column not in UNPROVED else ()
        ):
            value = other_value(chance, row[column], [one[column] for one in rows])
            value = (value.replace("\0", "") or "x") if isinstance(value, str) else value
            if value == row[column]:
                continue
            there = {f"old_{name}": row[name] for name in key}
            with suppress(sa.exc.DBAPIError):  # a constraint
                with sql.triggers_off(told) as connection:
                    connection.execute(update, {**there, "value": value})
                found += 1
                if not (list(verify(told)) or list(verify(other))):
                    missed.append((table, column, row[column], value))
                back = there | ({f"old_{column}": value} if column in key else {})
                with sql.triggers_off(told) as connection:
                    connection.execute(update, {**back, "value": row[column]})
    assert (missed, found > 40) == ([], True)
    assert [*verify(told), *verify(other)] == []


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_row_against_a_constraint_is_file_damage(told: Ledger) -> None:
    negative = "UPDATE bullet SET helpful = -1 WHERE name = 'pat-001'"
    sql.run(
        told,
        "PRAGMA ignore_check_constraints = ON",
        negative,
        "PRAGMA ignore_check_constraints = OFF",
    )
    assert ("database", None) in _codes(told)


def test_unfounded_assertion_is_found_in_its_place(
    told: Ledger,
) -> None:
    told.append([changed(ev.BULLET_ASSERTED, "pat-001", 2, helpful=4, harmful=2)])
    assert list(verify(told)) == []
    told.append([changed(ev.BULLET_ASSERTED, "pat-001", 3, helpful=5, harmful=2)])
    told.append([changed(ev.BULLET_ASSERTED, "oth-404", 1, helpful=0, harmful=0)])
    last = told.head().position
    assert _codes(told) == {("assertion", last - 1), ("assertion", last)}
    messages = [finding.message for finding in verify(told)]
    assert (
        messages[0]
        == "this event records 5 helpful, 2 harmful for pat-001, but the sum of the earlier events "
        "is 4 helpful, 2 harmful"
    )


_DROPPED, _CHANGED = "is missing or disabled", "was changed"
_HOLLOW = "CREATE TRIGGER {name} BEFORE {when} ON {table} BEGIN SELECT 1; END"
#: What is done to a trigger on an engine, and what is said of it then.
_BROKEN: list[tuple[str, list[str], str]] = [
    ("sqlite", ["DROP TRIGGER {name}"], _DROPPED),
    ("sqlite", ["DROP TRIGGER {name}", _HOLLOW], _CHANGED),
    ("postgresql", ["DROP TRIGGER {name} ON {table}"], _DROPPED),
    ("postgresql", ["ALTER TABLE {table} DISABLE TRIGGER {name}"], _DROPPED),
    ("postgresql", ["ALTER TABLE {table} ENABLE REPLICA TRIGGER {name}"], _DROPPED),
    (
        "postgresql",
        [
            "CREATE OR REPLACE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW WHEN (false)"
            " EXECUTE FUNCTION reflector_event_in_order()"
        ],
        _CHANGED,
    ),
]


@pytest.mark.parametrize(
    ("ledger_url", "statements", "what"),
    [
        pytest.param(
            *one,
            marks=pytest.mark.postgres if one[0] == "postgresql" else (),
            id=f"{one[0]}: {one[1][-1]}",
        )
        for one in _BROKEN
    ],
    indirect=["ledger_url"],
)
def test_changed_trigger_is_found(told: Ledger, statements: list[str], what: str) -> None:
    for name in triggers(told.engine.dialect):
        table, when = (
            name.split("_")[0],
            {"delete": "DELETE", "update": "UPDATE"}.get(name.split("_")[-1], "INSERT"),
        )
        sql.run(told, *(one.format(name=name, table=table, when=when) for one in statements))
        (finding,) = verify(told)
        assert (finding.code, f"the trigger {name} {what}" in finding.message) == ("trigger", True)
        told.repair_triggers()
        assert list(verify(told)) == []


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_undecodable_bytes_are_a_finding(told: Ledger) -> None:
    sql.forge(told, "UPDATE event SET data = CAST(x'7b22ff227d' AS TEXT) WHERE position = 4")
    assert ("data", 4) in _codes(told)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_reference_that_points_nowhere_is_found(told: Ledger) -> None:
    with told.engine.alchemy().connect() as connection:
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        for name in triggers("sqlite"):
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        connection.exec_driver_sql("DELETE FROM event WHERE position = 3")
        make_triggers_and_views(connection.connection.driver_connection, "sqlite")
        connection.commit()
    assert "reference" in {finding.code for finding in verify(told)}


def test_renamed_playbook_is_found_from_its_successor(
    told: Ledger, open_ledger: OpenLedger
) -> None:
    sql.forge(told, "UPDATE playbook SET name = 'mine'")
    (finding,) = verify(open_ledger())
    assert "'mine' began with another name" in finding.message
    assert ("chain", 1) in _codes(open_ledger("mine"))


def test_restored_redacted_text_is_found(told: Ledger) -> None:
    (first,) = told.at([1])
    (text,) = sql.rows(told, "SELECT data FROM event WHERE position = 1")[0]
    told.redact([first.event_id], reason="a name", actor="human")
    assert list(verify(told)) == []
    with sql.triggers_off(told) as connection:
        connection.execute(
            sa.text("UPDATE event SET data = :text WHERE position = 1"), {"text": text}
        )
    assert ("redaction", 1) in _codes(told)


def test_prose_erased_without_redaction_is_found(told: Ledger) -> None:
    answered = next(told.events(types=[ev.REFLECTION_ANSWERED]))
    assert EVENT_TYPES[answered.type].all_prose  # so a redaction would keep nothing of it
    sql.forge(told, f"UPDATE event SET data = NULL WHERE position = {answered.position}")
    assert _codes(told) == {("redaction", answered.position)}


def test_emptied_tag_table_gives_few_findings(told: Ledger) -> None:
    for number in range(100, 110):
        of = window(number)
        told.append([of, *reflected(f"held-{number}", of, *[("pat-001", "helpful")] * 5)])
    sql.run(told, "DELETE FROM tag")
    findings = [finding for finding in verify(told) if "tag" in finding.message]
    assert len(findings) < 30
    assert "more rows of the table tag" in findings[20].message
    told.rebuild()
    assert list(verify(told)) == []


def test_verifying_is_not_disturbed_by_appends_meanwhile(
    told: Ledger, open_ledger: OpenLedger
) -> None:
    writer = open_ledger()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reflector.proof.reading._BATCH", 2)

        def appending(original: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object) -> object:
                number = writer.head().position
                writer.append([added(f"oth-{number:03d}")])
                return original(*arguments)

            return step

        patched.setattr("reflector.proof.verify.leaf", appending(leaf))
        assert list(verify(told)) == []
    assert told.head().position == len(history()) * 2


# A head that somebody moved is refused, named, and set back by a command

_LATEST = "9999-12-31T23:59:59.999999Z"
_FORGERIES = [
    f"UPDATE playbook SET position = 999999, chain = 'x', recorded_at = '{_LATEST}'",
    f"UPDATE playbook SET recorded_at = '{_LATEST}'",
    "UPDATE playbook SET position = position - 1",
    "UPDATE playbook SET chain = 'x'",
]


@pytest.mark.parametrize("forgery", first_fast(2, _FORGERIES))
def test_moved_head_is_an_error_with_a_remedy(
    told: Ledger, open_ledger: OpenLedger, forgery: str
) -> None:
    head, rows = told.head(), told.rows()
    sql.forge(told, forgery)
    with pytest.raises(LedgerError, match="rebuild --fix"):
        told.append([added("oth-001")])
    assert {(one.code, one.remedy.split("`")[1]) for one in verify(told)} == {
        ("head", "reflector rebuild --fix")
    }
    assert f"{head.position:,}" in mend_head(told)[0]
    assert (told.head(), told.rows()) == (head, rows)
    assert list(verify(told)) == []
    assert mend_head(told) == []
    other = open_ledger()
    other.append([added("oth-001")])
    assert list(verify(other)) == []


def test_questions_with_a_lost_head_name_the_remedy(told: Ledger) -> None:
    sql.forge(told, _FORGERIES[0])
    for question in (lambda: told.position_at("2998"), lambda: list(exported(told))):
        with pytest.raises(
            LedgerCorrupt,
            match=(
                r"does not point to the playbook's last event.*rebuild "
                r"--fix"
            ),
        ):
            question()


def test_repaired_head_does_not_accept_a_forged_event(told: Ledger) -> None:
    head = told.head()
    sql.forge(
        told,
        "UPDATE playbook SET position = 999999",
        "UPDATE event SET actor = 'somebody' WHERE position = (SELECT max(position) FROM event)",
    )
    with pytest.raises(
        LedgerCorrupt,
        match=(
            r"were changed after they were written .* not changed; restore "
            r"a backup"
        ),
    ):
        mend_head(told)
    assert told.head() != head


def test_time_at_the_end_of_all_is_named(tmp_path: Path) -> None:
    """A clock that was set to it, on an engine that has no other clock to ask."""
    with (
        Ledger.open(sqlite_url(tmp_path / "ledger.db")) as ledger,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr("reflector.ledger.append.utc_now", lambda: _LATEST)
        ledger.append([added("pat-001")])
        with pytest.raises(LedgerCorrupt, match="cannot compute a time after"):
            ledger.append([added("pat-002")])


# Whatever a superuser changes on PostgreSQL with its triggers switched off

_EXTRA = (
    "CREATE TRIGGER {} AFTER INSERT ON bullet FOR EACH ROW EXECUTE FUNCTION "
    "reflector_event_no_delete()"
)


@ON_A_SERVER
def test_foreign_trigger_is_removed_by_the_named_statement(
    told: Ledger,
) -> None:
    sql.run(told, _EXTRA.format('"Not ours"'))
    (finding,) = verify(told)
    sql.run(told, finding.remedy.partition("then drop it: ")[2])
    assert list(verify(told)) == []


_A_ROW = (
    "DELETE FROM {table} WHERE ctid = (SELECT ctid FROM {table} WHERE {of} ORDER BY random() "
    "LIMIT 1)"
)
_CHANGES = {
    "DROP INDEX event_by_type": "the index event_by_type of event is missing",
    "CREATE INDEX extra ON tag (name)": "the index extra of tag does not belong to the ledger",
    "ALTER TABLE event ADD COLUMN extra text": (
        "the column event.extra does not belong to the ledger"
    ),
    "ALTER TABLE event ALTER COLUMN actor DROP NOT NULL": "the column event.actor was changed",
    (
        "DROP VIEW bullets CASCADE; ALTER TABLE bullet ALTER COLUMN helpful TYPE numeric"
    ): "bullet.helpful was changed",
    (
        "ALTER TABLE bullet DROP CONSTRAINT helpful_not_negative"
    ): "helpful_not_negative of bullet is missing",
    "ALTER TABLE event DROP CONSTRAINT event_target_exists": "of event is missing",
    "ALTER TABLE event DROP CONSTRAINT event_id_once CASCADE": "of event is missing",
    (
        "CREATE RULE quiet AS ON DELETE TO event DO INSTEAD NOTHING"
    ): "the rule quiet does not belong to the ledger",
    "ALTER TABLE event ENABLE ROW LEVEL SECURITY": "the table event hides rows",
    "CREATE OR REPLACE FUNCTION reflector_event_no_delete() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN OLD; END $$": "the trigger event_no_delete was changed",
    _EXTRA.format("extra"): "the trigger extra does not belong to the ledger",
    "DROP VIEW bullets CASCADE; CREATE VIEW bullets AS SELECT 1": "the view bullets was changed",
    "DROP VIEW reflections": "the view reflections is missing",
} | {
    _A_ROW.format(table=table, of="name = 'tables'" if table == "projection" else "true"): ""
    for table in LEDGER_TABLES
    if table != "cached_usage"
}


@pytest.mark.slow
@ON_A_SERVER
@pytest.mark.parametrize("statement", _CHANGES)
def test_changed_schema_and_deleted_row_are_found(
    told: Ledger, open_ledger: OpenLedger, statement: str
) -> None:
    other = open_ledger("other")
    other.append([added("oth-001")])
    sql.run(told, "SET LOCAL session_replication_role = replica", statement)
    findings = [*verify(told), *verify(other)]
    assert any(_CHANGES[statement] in finding.message for finding in findings), findings
    assert all(finding.message and finding.remedy for finding in findings)
