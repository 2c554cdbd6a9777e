"""Nothing that was changed behind the ledger's back stays unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from reflector.events import event as ev
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.canonical import digest, genesis, leaf, next_chain
from reflector.ledger.migration import create_triggers, triggers
from reflector.ledger.store import Ledger
from reflector.proof.verify import Anchor, verify, verify_since
from tests.conftest import OpenLedger
from tests.ledger import sql
from tests.ledger.events import added, adopted, changed, history, learned, merged, reflected, retracted, window


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    ledger.append(history())
    return ledger


def _codes(ledger: Ledger, *anchors: Anchor) -> set[tuple[str, int | None]]:
    return {(finding.code, finding.where) for finding in verify(ledger, *anchors)}


def _forge(ledger: Ledger, *statements: str) -> None:
    with sql.triggers_off(ledger) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_sound_ledger_has_no_findings_however_often_it_is_asked_and_is_not_changed(told: Ledger) -> None:
    before = sql.content(told)
    assert list(verify(told)) == []
    assert list(verify(told)) == []
    assert sql.content(told) == before


#: Of the tag at position 6, and of the events around it.
_TAG = "UPDATE event SET {} WHERE position = 6"
_FORGED = '{"forged":true}'
_COPIED = (
    "INSERT INTO event SELECT playbook_id, 19, 'forged', type, schema_version, occurred_at, recorded_at, actor,"
    " session_id, reflection_id, target_id, data, data_hash, meta, chain, recorded_by FROM event WHERE position = 13"
)
#: What somebody did to events or the head, and the findings that there have to be, among others.
_TAMPERINGS: list[tuple[list[str], set[tuple[str, int | None]]]] = [
    *(([_TAG.format(f"data = {text}")], {("data", 6)}) for text in ('\'{"reason":"x"}\'', "data || ' '", "'no json'")),
    ([_TAG.format("data = NULL")], {("redaction", 6)}),
    *(
        ([_TAG.format(change)], {("chain", 6)})
        for change in (
            *("meta = '{\"ms\":1}'", "actor = 'somebody'", "session_id = 'other'", "session_id = NULL"),
            *("session_id = ''", "reflection_id = 'other'", "occurred_at = '2000'", "recorded_at = '9999'"),
            *("schema_version = 2", "type = 'reflection.skipped'", "event_id = 'other'", "data_hash = 'x'"),
            *("chain = 'x'", "chain = 'pl1:' || data_hash"),
        )
    ),
    *(
        ([f"UPDATE event SET {column} = '' WHERE position = 2"], {("chain", 2)})
        for column in ("session_id", "reflection_id")
    ),
    (  # what the reference asks for
        ["UPDATE event SET event_id = '' WHERE position = 1", "UPDATE event SET target_id = '' WHERE position = 2"],
        {("chain", 2)},
    ),
    *(  # whoever also mends the hash of the data moves the break from the data to the chain
        (
            [f"UPDATE event SET data = '{_FORGED}', data_hash = '{digest(_FORGED)}' WHERE position = {position}"],
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
    (["UPDATE event SET position = position + 1 WHERE position = 19", _COPIED], {("chain", 19), ("chain", 20)}),
    (["UPDATE playbook SET origin = 'other'"], {("chain", 1)}),
    *(
        ([f"UPDATE playbook SET {change}"], {("head", 19)})
        for change in ("recorded_at = '9999'", "position = position - 1", "position = position + 1")
    ),
    *(
        ([f"UPDATE event SET data = '{text}' WHERE position = 1"], {("data", 1)})
        for text in ("[]", "1", '"x"', "null", '{"bullets":[1]}', '{"bullets":[{"name":[]}]}', "[" * 99999)
    ),
]


@pytest.mark.parametrize(
    ("statements", "found"), _TAMPERINGS, ids=[statements[0][:60] for statements, _ in _TAMPERINGS]
)
def test_a_changed_history_is_found_where_it_was_changed(
    told: Ledger, statements: list[str], found: set[tuple[str, int | None]]
) -> None:
    assert told.head().position == 19
    _forge(told, *statements)
    assert found <= _codes(told)


def test_a_wholly_rewritten_history_is_found_by_an_anchor_alone(told: Ledger) -> None:
    published = Anchor(told.head().position, told.head().chain)
    rows = sql.rows(told, "SELECT * FROM event ORDER BY position")
    head = told.head()
    chain, statements = genesis(head.playbook, head.origin), []
    for row in rows:
        values = list(row)
        if values[1] == len(rows):  # the assertion, which no table is made from
            values[11] = str(values[11]).replace("pat-001", "ctx-001").replace("4", "0").replace("2", "0")
        values[12] = digest(str(values[11]))
        chain = next_chain(chain, tuple(values[1:11]), values[12], digest(str(values[13])))  # type: ignore[arg-type]
        statements.append(
            f"UPDATE event SET data = '{values[11]}', data_hash = '{values[12]}', chain = '{chain}'"
            f" WHERE position = {values[1]}".replace("%", "%%")
        )
    _forge(told, *statements, f"UPDATE playbook SET chain = '{chain}'")
    assert list(verify(told)) == []
    assert _codes(told, published) == {("anchor", published.position)}


def test_removed_last_events_are_found_by_the_head_and_with_a_forged_head_by_an_anchor(told: Ledger) -> None:
    head = told.head()
    last = head.position - 1
    anchor = Anchor(head.position, head.chain)
    _forge(told, f"DELETE FROM event WHERE position > {last}")
    assert _codes(told) == {("head", last)}
    _forge(
        told,
        "UPDATE playbook SET position = position - 1, chain = (SELECT chain FROM event ORDER BY position DESC LIMIT 1)",
    )
    assert list(verify(told)) == []
    assert _codes(told, anchor) == {("anchor", head.position)}


def test_every_head_that_ever_was_is_an_anchor(told: Ledger) -> None:
    head = told.head()
    anchors = [Anchor(0, genesis(head.playbook, head.origin))]
    anchors += [Anchor(event.position, event.chain) for event in told.events()]
    assert [list(verify(told, anchor)) for anchor in anchors] == [[]] * len(anchors)
    assert list(verify(told, *anchors)) == []
    for wrong in (Anchor(0, head.chain), Anchor(3, head.chain), Anchor(head.position + 1, head.chain)):
        assert _codes(told, wrong) == {("anchor", wrong.position)}
        assert _codes(told, *anchors, wrong) == {("anchor", wrong.position)}


def test_time_that_goes_back_is_found_even_where_the_chain_agrees(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    ledger.append([added("pat-001")])
    ledger.append([added("pat-002")])
    one, two = ledger.events()
    head = ledger.head()
    header = (1, one.event_id, one.type, 1, one.occurred_at, "9998-01-01T00:00:00.000000Z", one.actor, None, None, None)
    first = next_chain(genesis(head.playbook, head.origin), header, one.data_hash, digest("{}"))
    header = (2, two.event_id, two.type, 1, two.occurred_at, two.recorded_at, two.actor, None, None, None)
    second = next_chain(first, header, two.data_hash, digest("{}"))
    _forge(
        ledger,
        f"UPDATE event SET recorded_at = '9998-01-01T00:00:00.000000Z', chain = '{first}' WHERE position = 1",
        f"UPDATE event SET chain = '{second}' WHERE position = 2",
        f"UPDATE playbook SET chain = '{second}'",
    )
    assert _codes(ledger) == {("order", 2)}


#: A change of a table's row, and how each of the findings begins that there are.
_ROWS = {
    "UPDATE bullet SET helpful = 40 WHERE name = 'pat-001'": "bullet pat-001: helpful is '40' in the table, '4' by the",
    "UPDATE bullet SET harmful = 0 WHERE name = 'pat-001'": "bullet pat-001: harmful",
    "UPDATE bullet SET baseline_helpful = 1, helpful = 2 WHERE name = 'ctx-001'": "bullet ctx-001: baseline_helpful",
    "UPDATE bullet SET text = 'x' WHERE name = 'pat-001'": "bullet pat-001: text",
    "UPDATE bullet SET section = 'pat' WHERE name = 'ctx-001'": "bullet ctx-001: section",
    "UPDATE bullet SET status = 'live' WHERE name = 'mis-001'": "bullet mis-001: status",
    "UPDATE bullet SET removed_into = 'ctx-001' WHERE name = 'mis-001'": "bullet mis-001: removed_into",
    "UPDATE bullet SET reason = 'x' WHERE name = 'mis-001'": "bullet mis-001: reason",
    "UPDATE bullet SET recounted_at = 9 WHERE name = 'ctx-001'": "bullet ctx-001: recounted_at",
    "UPDATE bullet SET position = 9 WHERE name = 'ctx-001'": "bullet ctx-001: position",
    "UPDATE bullet SET ordinal = ordinal + 10 WHERE name = 'pat-001'": "bullet pat-001: ordinal",
    "DELETE FROM bullet WHERE name = 'ctx-001'": "bullet ctx-001 is missing in the table",
    "INSERT INTO bullet SELECT playbook_id, 'oth-001', 9, section, text, status, reason, removed_into, position,"
    " recounted_at, 0, 0, 0, 0 FROM bullet WHERE name = 'ctx-001'": "bullet oth-001 is in the table, and the events",
    "UPDATE tag SET active = 0 WHERE position = 6": "tag 6: active",
    "UPDATE tag SET tag = -1 WHERE position = 6": "tag 6: tag",
    "UPDATE tag SET name = 'ctx-001' WHERE position = 6": "tag 6: name",
    "UPDATE tag SET session_id = NULL WHERE position = 6": "tag 6: session_id is nothing in the table, 's1' by the",
    "UPDATE tag SET reflection_id = 'other' WHERE position = 6": "tag 6: reflection_id",
    "DELETE FROM tag WHERE position = 6": "tag 6 is missing in the table",
    "INSERT INTO tag SELECT playbook_id, 2, name, tag, active, session_id, reflection_id"
    " FROM tag WHERE position = 6": "tag 2 is in the table, and the events have none there",
    "UPDATE session_window SET state = 'pending', session_id = NULL WHERE session_id = 's1'": "session_window 3: sess",
    "UPDATE session_window SET attempts = 7": "session_window",
    "DELETE FROM session_window": "session_window",
    "UPDATE retraction SET active = 0": "retraction",
    "UPDATE retraction SET target_id = 'x'": "retraction",
    "DELETE FROM retraction": "retraction",
    "DELETE FROM record WHERE key = 1": "record 1 is missing in the table",
    "INSERT INTO record VALUES (1, 77)": "record 77 is in the table, and the events have none there",
    "UPDATE projection SET policy_id = 'once_per_session' WHERE name = 'tables'": "projection tables: policy_id",
    "UPDATE projection SET updated_at = '1999' WHERE name = 'tables'": "projection tables: updated_at",
    "UPDATE projection SET updated_at = NULL WHERE name = 'tables'": "projection tables: updated_at is nothing in the",
    "DELETE FROM projection": "projection tables is missing in the table",
}


def test_every_change_of_a_table_is_named_alone_and_a_rebuild_mends_it(told: Ledger) -> None:
    for statement, said in _ROWS.items():
        _forge(told, statement)
        findings = list(verify(told))
        assert findings, statement
        for finding in findings:
            assert (finding.code, finding.remedy) == ("projection", "run `reflector rebuild`"), statement
            assert finding.message.startswith(said), (statement, finding.message)
            assert "None" not in finding.message
            assert "(" not in finding.message
        told.rebuild()
        assert list(verify(told)) == [], statement


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_row_that_a_constraint_forbids_is_damage_of_the_file(told: Ledger) -> None:
    negative = "UPDATE bullet SET helpful = -1 WHERE name = 'pat-001'"
    sql.run(told, "PRAGMA ignore_check_constraints = ON", negative, "PRAGMA ignore_check_constraints = OFF")
    assert ("database", None) in _codes(told)


def test_an_assertion_that_the_events_do_not_bear_out_is_found_where_it_stands(told: Ledger) -> None:
    told.append([changed(ev.BULLET_ASSERTED, "pat-001", 2, helpful=4, harmful=2)])
    assert list(verify(told)) == []
    told.append([changed(ev.BULLET_ASSERTED, "pat-001", 3, helpful=5, harmful=2)])
    told.append([changed(ev.BULLET_ASSERTED, "oth-404", 1, helpful=0, harmful=0)])
    last = told.head().position
    assert _codes(told) == {("assertion", last - 1), ("assertion", last)}
    messages = [finding.message for finding in verify(told)]
    assert messages[0] == "pat-001 was asserted at 5/2, the events give 4/2"


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", triggers("sqlite"))
def test_a_dropped_trigger_of_sqlite_is_found(told: Ledger, name: str) -> None:
    sql.run(told, f"DROP TRIGGER {name}")
    _trigger_found(told, name, "is missing or disabled")


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", triggers("sqlite"))
def test_a_hollow_trigger_of_sqlite_is_found(told: Ledger, name: str) -> None:
    table, when = name.split("_")[0], {"delete": "DELETE", "update": "UPDATE"}.get(name.split("_")[-1], "INSERT")
    hollow = f"CREATE TRIGGER {name} BEFORE {when} ON {table} BEGIN SELECT 1; END"
    sql.run(told, f"DROP TRIGGER {name}", hollow)
    _trigger_found(told, name, "was changed")


_POSTGRESQL = [
    pytest.param("ALTER TABLE {table} DISABLE TRIGGER {name}", "is missing or disabled", id="disabled"),
    pytest.param(
        "ALTER TABLE {table} ENABLE REPLICA TRIGGER {name}",
        "is missing or disabled",
        id="replica",
        marks=pytest.mark.slow,
    ),
    pytest.param("DROP TRIGGER {name} ON {table}", "is missing or disabled", id="dropped", marks=pytest.mark.slow),
    pytest.param(
        "CREATE OR REPLACE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW WHEN (false)"
        " EXECUTE FUNCTION reflector_event_in_order()",
        "was changed",
        id="hollow",
    ),
]


@pytest.mark.postgres
@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("statement", "what"), _POSTGRESQL)
@pytest.mark.parametrize("name", triggers("postgresql"))
def test_a_disabled_dropped_or_hollow_trigger_of_postgresql_is_found(
    told: Ledger, name: str, statement: str, what: str
) -> None:
    sql.run(told, statement.format(name=name, table=name.split("_")[0]))
    _trigger_found(told, name, what)


@pytest.mark.postgres
@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_function_that_was_emptied_under_its_trigger_is_found(told: Ledger) -> None:
    sql.run(
        told,
        "CREATE OR REPLACE FUNCTION reflector_event_no_delete() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN OLD; END $$",
    )
    _trigger_found(told, "event_no_delete", "was changed")


def _trigger_found(ledger: Ledger, name: str, what: str) -> None:
    findings = list(verify(ledger))
    assert [finding.code for finding in findings] == ["trigger"]
    assert f"the trigger {name} {what}" in findings[0].message
    ledger.mend_triggers()
    assert list(verify(ledger)) == []


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_bytes_that_are_no_text_are_a_finding_not_a_crash(told: Ledger) -> None:
    _forge(told, "UPDATE event SET data = CAST(x'7b22ff227d' AS TEXT) WHERE position = 4")
    assert ("data", 4) in _codes(told)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_reference_that_points_nowhere_is_found(told: Ledger) -> None:
    with told.engine.alchemy().connect() as connection:
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        for name in triggers("sqlite"):
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        connection.exec_driver_sql("DELETE FROM event WHERE position = 3")
        create_triggers(connection.connection.driver_connection, "sqlite")
        connection.commit()
    assert "reference" in {finding.code for finding in verify(told)}


def test_a_renamed_playbook_is_found_from_the_one_that_began_in_its_place(
    told: Ledger, open_ledger: OpenLedger
) -> None:
    _forge(told, "UPDATE playbook SET name = 'mine'")
    (finding,) = verify(open_ledger())
    assert "'mine' did not begin under this name" in finding.message
    assert ("chain", 1) in _codes(open_ledger("mine"))


def test_a_redacted_text_that_is_back_is_found_though_its_hash_fits(told: Ledger) -> None:
    (first,) = told.at([1])
    (text,) = sql.rows(told, "SELECT data FROM event WHERE position = 1")[0]
    told.redact(first.event_id, reason="a name", actor="human")
    assert list(verify(told)) == []
    with sql.triggers_off(told) as connection:
        connection.execute(sa.text("UPDATE event SET data = :text WHERE position = 1"), {"text": text})
    assert ("redaction", 1) in _codes(told)


def test_prose_that_was_erased_without_a_redaction_is_found_though_a_redaction_keeps_nothing_of_it(
    told: Ledger,
) -> None:
    answered = next(told.events(types=[ev.REFLECTION_ANSWERED]))
    assert EVENT_TYPES[answered.type].all_prose
    _forge(told, f"UPDATE event SET data = NULL WHERE position = {answered.position}")
    assert _codes(told) == {("redaction", answered.position)}


@pytest.mark.parametrize("policy", ["as_applied", "once_per_session", "once_per_reflection"])
def test_a_merged_bullet_whose_counters_were_set_by_hand_is_compared_by_the_tags_behind_that(
    told: Ledger, policy: str
) -> None:
    told.append([adopted(policy), merged("pat-777", "pat-001", "ctx-001")])
    for number in (100, 101):
        of = window(number, f"s{number}")
        told.append([of, *reflected(f"held-{number}", of, ("pat-001", "helpful"), ("pat-777", "harmful"))])
        if number == 100:
            told.append([changed(ev.BULLET_RECOUNTED, "pat-777", helpful=7, harmful=5)])
    assert [(row.helpful, row.harmful) for row in told.rows() if row.name == "pat-777"] == [(8, 6)]
    assert list(verify(told)) == []


def test_a_tag_table_that_was_emptied_is_told_in_a_few_findings(told: Ledger) -> None:
    for number in range(100, 110):
        of = window(number)
        told.append([of, *reflected(f"held-{number}", of, *[("pat-001", "helpful")] * 5)])
    sql.run(told, "DELETE FROM tag")
    findings = [finding for finding in verify(told) if "tag" in finding.message]
    assert len(findings) < 30
    assert "more rows of tag" in findings[20].message
    told.rebuild()
    assert list(verify(told)) == []


def test_findings_come_in_order_and_say_what_to_do(told: Ledger) -> None:
    _forge(told, "UPDATE event SET actor = 'x' WHERE position IN (5, 9)")
    sql.run(told, "UPDATE bullet SET helpful = 9 WHERE name = 'pat-001'")
    findings = list(verify(told))
    assert [finding.where for finding in findings] == [5, 9, None]
    assert all(finding.message and finding.remedy for finding in findings)


def test_verifying_is_not_disturbed_by_appends_meanwhile(told: Ledger, open_ledger: OpenLedger) -> None:
    writer = open_ledger()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reflector.proof.reading._BATCH", 2)

        def appending(original: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object) -> object:
                number = writer.head().position
                writer.append([added(f"oth-{number:03d}")])
                return original(*arguments)

            return step

        patched.setattr("reflector.proof.walk.leaf", appending(leaf))
        assert list(verify(told)) == []
    assert told.head().position == len(history()) * 2


def test_history_uses_every_type_of_event_that_ledgers_hold() -> None:
    first = window()
    more = [adopted("as_applied"), retracted(first), *reflected("r", first), changed(ev.BULLET_RECOUNTED, "pat-001")]
    more.append(changed(ev.BULLET_PROPOSED, "pat-001", section="pat", text="Keep it short.", reason=None))
    more += [
        merged("pat-002", "pat-001"),
        changed(ev.BULLET_UNMERGED, "pat-002"),
        changed(ev.BULLET_RESTORED, "pat-002"),
    ]
    used = {event.type for event in [*history(), *more, *learned()]}
    decided = {name for name in EVENT_TYPES if name.startswith(("change.", "wish."))}
    ledgers = {ev.LEDGER_MERGED, ev.LEDGER_MOVED, ev.LEDGER_ARRIVED}
    elsewhere = {ev.REFLECTION_SKIPPED, ev.EVENT_REDACTED, *ledgers}
    unused = EVENT_TYPES.keys() - used - decided - elsewhere
    assert not unused, f"add an event of {', '.join(sorted(unused))} to history() or learned(), or to `more` here"
    assert EVENT_TYPES.keys() - used - decided == elsewhere


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_copy_of_the_file_is_a_ledger(told: Ledger, tmp_path: Path) -> None:
    copy = tmp_path / "backup" / "copy.db"
    copy.parent.mkdir()
    with told.engine.alchemy().connect() as connection:
        connection.connection.driver_connection.execute(f"VACUUM INTO '{copy}'")  # type: ignore[union-attr]
    with Ledger.open_file(copy) as ledger:
        assert list(verify(ledger, Anchor(told.head().position, told.head().chain))) == []
        assert ledger.rows() == told.rows()
        ledger.append([added("oth-001")])
        with ledger.engine.alchemy().connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def _since(ledger: Ledger, since: Anchor, *anchors: Anchor) -> set[tuple[str, int | None]]:
    return {(finding.code, finding.where) for finding in verify_since(ledger, since, *anchors)}


def test_behind_a_known_head_only_what_is_new_is_read_and_all_of_it_is_proved(told: Ledger) -> None:
    known = Anchor(told.head().position, told.head().chain)
    told.append([added("oth-001"), added("oth-002")])
    last = told.head().position
    assert _since(told, known) == set()
    assert _since(told, Anchor(last, told.head().chain)) == set()
    # What it says that it leaves out, it leaves out.
    _forge(told, "UPDATE event SET actor = 'x' WHERE position = 4", "UPDATE bullet SET helpful = 9")
    assert _since(told, known) == set()
    _forge(told, f"UPDATE event SET actor = 'x' WHERE position = {last - 1}")
    assert _since(told, known) == {("chain", last - 1)}
    _forge(told, f"DELETE FROM event WHERE position = {last}")
    assert _since(told, known) == {("chain", last - 1), ("head", last - 1), ("head", None)}


def test_a_history_that_does_not_go_through_the_known_head_is_found(told: Ledger) -> None:
    head = told.head()
    events = {event.position: event.chain for event in told.events()}
    for position in (0, 5, head.position + 3):
        assert _since(told, Anchor(position, head.chain)) == {("anchor", position)}
    start = Anchor(0, genesis(head.playbook, head.origin))
    assert _since(told, start, start, *(Anchor(*one) for one in events.items())) == set()
    # Heads before the known one are looked up.
    known = Anchor(5, events[5])
    assert _since(told, known, start, Anchor(3, events[3]), Anchor(9, events[9])) == set()
    assert _since(told, known, Anchor(3, head.chain), Anchor(9, head.chain)) == {("anchor", 3), ("anchor", 9)}


def test_a_renamed_playbook_is_found_behind_a_known_head(told: Ledger) -> None:
    known = Anchor(told.head().position, told.head().chain)
    _forge(told, "UPDATE playbook SET name = 'mine'")
    assert _since(told, known) == {("head", None)}
