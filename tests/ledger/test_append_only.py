"""Whoever has the database's password still cannot change what was appended, except by taking a
trigger down.
"""

import pytest
from sqlalchemy.exc import DBAPIError

from reflector.events import event as ev
from reflector.ledger import append
from reflector.ledger.errors import LedgerCorrupt, LedgerMoved, LedgerUnavailable, translated
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import ON_A_SERVER

from . import sql
from .events import added, arrived, history, imported, moved, redacted, reflected, retracted, window

_COLUMNS = (
    "playbook_id, position, event_id, type, schema_version, occurred_at, recorded_at, actor, "
    "session_id,"
    " reflection_id, target_id, data, data_hash, meta, chain"
)


def _copied(verb: str, where: str = "position = 2", **changes: str) -> str:
    """An INSERT of an existing event with some columns changed to SQL expressions."""
    values = ", ".join(changes.get(column, column) for column in _COLUMNS.split(", "))
    return (
        f"{verb} INTO event ({_COLUMNS}) SELECT {values} FROM event WHERE playbook_id = 1 AND "
        f"{where}"
    )


ON_BOTH = [
    "UPDATE event SET data = '{}' WHERE position = 2",
    "UPDATE event SET data = NULL WHERE position = 2",
    "UPDATE event SET meta = '{}'",
    "UPDATE event SET position = position + 100",
    "DELETE FROM event WHERE position = (SELECT max(position) FROM event)",
    "DELETE FROM playbook",
    "UPDATE playbook SET position = position - 1",
    "UPDATE playbook SET origin = 'x'",
    "UPDATE playbook SET name = 'x'",
    "UPDATE playbook SET chain = 'x'",
    "UPDATE playbook SET recorded_at = '1999', position = position + 1",
    _copied("INSERT"),
    _copied("INSERT", position="position + 100", event_id="'new'"),
    _copied("INSERT", position="0", event_id="'new'"),
    _copied("INSERT", position="(SELECT max(position) + 1 FROM event)"),
    _copied(
        "INSERT",
        "type = 'evidence.retracted'",
        position=("(SELECT max(position) + 1 FROM event)"),
        event_id="'x'",
    ),
]

ON_SQLITE = [
    _copied("INSERT OR REPLACE", data="'{}'"),
    _copied("INSERT OR REPLACE", position="(SELECT max(position) + 1 FROM event)", data="'{}'"),
    _copied("INSERT OR REPLACE", event_id="'new'"),
    _copied(
        "INSERT OR REPLACE",
        "type = 'evidence.retracted'",
        position="(SELECT max(position) + 1 FROM event)",
        event_id="'x'",
        data="'{}'",
    ),
    "UPDATE OR REPLACE event SET position = 2 WHERE position = 3",
    (
        "UPDATE OR REPLACE event SET event_id = (SELECT event_id FROM event WHERE position = 1) "
        "WHERE "
        "position = 2"
    ),
    "REPLACE INTO playbook SELECT id, name, 'forged', 0, chain, recorded_at FROM playbook",
    "INSERT OR REPLACE INTO playbook SELECT 9, name, 'forged', 0, chain, recorded_at FROM playbook",
    "UPDATE OR REPLACE playbook SET id = 2",
    f"INSERT INTO event ({_COLUMNS}) SELECT {_COLUMNS} FROM event WHERE position = 2"
    " ON CONFLICT DO UPDATE SET data = '{}'",
    "INSERT INTO playbook SELECT * FROM playbook WHERE true ON CONFLICT DO UPDATE SET position = 0",
]

ON_POSTGRESQL = [
    _copied("INSERT", position="(SELECT max(position) + 1 FROM event)", event_id="'another chain'"),
    "TRUNCATE event",
    "TRUNCATE event, playbook CASCADE",
    "TRUNCATE playbook CASCADE",
    _copied("INSERT", position="(SELECT max(position) + 1 FROM event)")
    + " ON CONFLICT ON CONSTRAINT event_id_once DO UPDATE SET data = '{}'",
    _copied("INSERT") + " ON CONFLICT (playbook_id, position) DO UPDATE SET data = '{}'",
    "INSERT INTO playbook SELECT * FROM playbook ON CONFLICT (id) DO UPDATE SET position = 0",
    "MERGE INTO event USING (SELECT 2 AS p) AS s ON event.position = s.p WHEN MATCHED THEN DELETE",
    (
        "MERGE INTO event USING (SELECT 2 AS p) AS s ON event.position = s.p WHEN MATCHED THEN "
        "UPDATE "
        "SET data = '{}'"
    ),
    "WITH gone AS (DELETE FROM event WHERE position = 16 RETURNING *) SELECT count(*) FROM gone",
]


def _accepted(ledger: Ledger, statements: list[str]) -> list[str]:
    """The statements that were not refused or that changed history all the same."""
    before = sql.content(ledger)
    accepted = []
    for statement in statements:
        try:
            sql.run(ledger, statement)
        except DBAPIError:
            if sql.content(ledger) == before:
                continue
        accepted.append(statement)
    # An erasure that is announced and was not done is a finding of its own.
    assert [finding for finding in verify(ledger) if finding.code != "redaction"] == [], accepted
    return accepted


def test_every_statement_that_changes_history_is_refused(told: Ledger) -> None:
    assert (
        _accepted(told, [*ON_BOTH, *(ON_POSTGRESQL if sql.is_postgres(told) else ON_SQLITE)]) == []
    )


def test_refused_head_change_names_verify(told: Ledger) -> None:
    refused = pytest.raises(
        LedgerCorrupt,
        match=(
            r"only moves forward.*find the cause with "
            r"`reflector verify`"
        ),
    )
    with refused, translated("here"), told.engine.connection() as connection:
        connection.execute("UPDATE playbook SET position = position - 1")


def test_no_room_for_shared_memory_is_full_disk() -> None:
    error = sqlite_module().OperationalError("disk I/O error")
    error.sqlite_errorcode = 4874
    refused = pytest.raises(LedgerUnavailable, match=r"is full \(disk I/O error\); free some space")
    with refused, translated("here"):
        raise error


@ON_A_SERVER
def test_temporary_table_does_not_replace_the_events(told: Ledger) -> None:
    """PostgreSQL looks for a table without a schema among the session's temporary ones first."""
    before, schema = sql.content(told), sql.schema(told)
    forged = (
        "UPDATE pg_temp.event SET position = {}, chain = 'x', recorded_at = "
        "'2999-01-01T00:00:00.000000Z'"
    )
    insert = _copied("INSERT", position="6000", event_id="'new'").replace(
        "event", f"{schema}.event", 1
    )
    insert = insert.replace("FROM event", f"FROM {schema}.event")
    head = (
        f"UPDATE {schema}.playbook SET position = 9999, chain = 'x', recorded_at = "
        "'2999-01-01T00:00:00.000000Z'"
    )
    for position, statement in ((5999, insert), (9999, head)):
        copied = (
            f"CREATE TEMPORARY TABLE event AS SELECT {_COLUMNS} FROM {schema}.event WHERE "
            "position = 2"
        )
        with pytest.raises(DBAPIError, match="append-only"):
            sql.run(told, copied, forged.format(position), statement)
    assert sql.content(told) == before


@ON_A_SERVER
def test_event_from_a_fast_clock_is_refused(told: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sql.content(told)
    with monkeypatch.context() as ahead:
        ahead.setattr(append, "utc_now", lambda: "2999-01-01T00:00:00.000000Z")
        with pytest.raises(
            LedgerUnavailable,
            match=(
                r"more than a minute ahead of the server's "
                r"clock.*correct the cl"
            ),
        ):
            told.append([added("pat-009")])
    assert sql.content(told) == before
    told.append([added("pat-009")])


@ON_A_SERVER
def test_server_alone_records_who_appended(told: Ledger) -> None:
    before = sql.content(told)
    assert {event.recorded_by for event in told.events()} == {
        sql.rows(told, "SELECT session_user")[0][0]
    }
    forged = _copied("INSERT", position=f"{_BEHIND} + 1", event_id="'forged'")
    forged = forged.replace(f"({_COLUMNS})", f"({_COLUMNS}, recorded_by)")
    for word in ("'somebody'", "NULL"):
        with pytest.raises(DBAPIError, match="the server says who recorded"):
            sql.run(told, forged.replace(" FROM event WHERE", f", {word} FROM event WHERE"))
    assert sql.content(told) == before


_BEHIND = "(SELECT max(position) FROM event)"


@ON_A_SERVER
def test_events_of_one_statement_follow_without_a_gap(told: Ledger) -> None:
    """Whoever brings several at once is looked at once, and no row of theirs stays behind."""
    before = sql.content(told)
    one = _copied("INSERT", position=f"{_BEHIND} + more", event_id="'new ' || more")

    def insert(*positions: int) -> None:
        rows = ", ".join(f"({position})" for position in positions)
        sql.run(
            told,
            one.replace(
                "FROM event WHERE playbook_id",
                f"FROM event, (VALUES {rows}) AS v (more) WHERE playbook_id",
            ),
        )

    for gap in ((2,), (1, 3), (1, -100)):
        with pytest.raises(DBAPIError, match="one above the last"):
            insert(*gap)
        assert sql.content(told) == before
    with pytest.raises(DBAPIError, match="do not follow from the last one"):
        insert(2, 1)


@pytest.mark.parametrize("column", ["helpful", "harmful"])
def test_counters_below_zero_are_refused_by_the_table(told: Ledger, column: str) -> None:
    with pytest.raises(DBAPIError, match=f"{column}_not_negative"):
        sql.run(told, f"UPDATE bullet SET {column} = -1")


def test_only_the_announced_event_can_be_erased(
    told: Ledger,
) -> None:
    (target,) = [e for e in told.events(types=[ev.REFLECTION_COMPLETED]) if e.reflection_id == "r1"]
    told.append([redacted(target.event_id)])
    erase, here = "UPDATE event SET data = NULL", f"WHERE position = {target.position}"
    others = {"position": "900", "schema_version": "2", "session_id": "NULL"}
    columns = [column for column in _COLUMNS.split(", ") if column not in ("playbook_id", "data")]
    refused = [
        *(erase, f"{erase} WHERE position = {target.position + 1}"),
        *(f"{erase}, {column} = {others.get(column, repr('x'))} {here}" for column in columns),
        *(
            f"UPDATE event SET {change} {here}"
            for change in ("data = '{}'", "data = ''", "meta = '{}'")
        ),
    ]
    assert _accepted(told, refused) == []
    sql.run(told, f"{erase} {here}")
    again = [
        f"UPDATE event SET {change} {here}"
        for change in ("data = NULL", "data = '{}'", "actor = actor")
    ]
    assert _accepted(told, again) == []


def test_facts_behind_counts_cannot_be_erased(ledger: Ledger) -> None:
    ledger.append([*history(), redacted(window().event_id)])
    types = [
        *(
            ev.BULLET_TAGGED,
            ev.BULLET_MOVED,
            ev.BULLET_REMOVED,
            ev.BULLET_ASSERTED,
            ev.EVENT_REDACTED,
        ),
        *(
            ev.PLAYBOOK_IMPORTED,
            ev.BULLET_ADDED,
            ev.BULLET_REVISED,
            ev.SESSION_RECORDED,
            ev.REFLECTION_FAILED,
        ),
    ]
    targets = [next(event for event in ledger.events() if event.type == type_) for type_ in types]
    ledger.append([redacted(target.event_id) for target in targets])
    erasures = [
        (f"UPDATE event SET data = NULL WHERE position = {target.position}") for target in targets
    ]
    assert _accepted(ledger, erasures) == []


def test_an_announcement_in_another_playbook_opens_nothing(ledger: Ledger) -> None:
    first = window()
    events = [imported(("pat-001", 0, 0)), first, *reflected("r1", first), retracted(first)]
    ledger.append(events)
    with Ledger.open(ledger.engine.url.text, "other") as other:
        other.append([*events, redacted(events[2].event_id)])
    assert (
        _accepted(ledger, ["UPDATE event SET data = NULL WHERE playbook_id = 1 AND position = 3"])
        == []
    )


def test_moved_playbook_names_its_target_and_accepts_nothing(
    told: Ledger,
) -> None:
    seal = moved("postgresql://other/ledger")
    told.append([seal])
    sealed = sql.content(told)
    for refused in (
        [added("oth-001")],
        [added("oth-001"), arrived(seal)],
        [moved("postgresql://third/ledger")],
    ):
        with pytest.raises(
            LedgerMoved,
            match=(
                r"moved from .* `ledger_url` to "
                r"postgresql://other/ledger"
            ),
        ):
            told.append(refused)
    with pytest.raises(LedgerMoved):
        told.redact([told.at([2])[0].event_id], reason="a secret", actor="human")
    told.rebuild()
    assert sql.content(told) == sealed
    assert [one.added for one in told.append([seal])] == [False]
    assert list(verify(told)) == []
    told.append([arrived(seal), added("oth-001")])
    assert told.moved() is None
    told.append([added("oth-002")])
    assert list(verify(told)) == []


def test_forged_event_after_a_move_is_found(told: Ledger) -> None:
    told.append([moved()])
    with sql.triggers_off(told) as connection:
        where = f"position = {told.head().position}"
        connection.exec_driver_sql(
            _copied("INSERT", where, position="position + 1", event_id="'x'", type="'wish.heard'")
        )
    assert "move" in {finding.code for finding in verify(told)}
