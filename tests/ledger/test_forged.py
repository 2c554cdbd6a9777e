"""What the worst member of a team appends by hand hinders nobody else, and one command of the
owner's puts it aside.
"""

import json
from contextlib import suppress
from typing import Any

import pytest

from reflector.audit.log import select
from reflector.events import event as ev
from reflector.events.registry import fold
from reflector.exchange.transfer import exported
from reflector.ledger.canonical import digest, next_chain
from reflector.ledger.errors import LedgerCorrupt, LedgerError
from reflector.ledger.migration import HEAD_REVISION
from reflector.ledger.rows import Stored
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.proof.heads import mend_head
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, first_fast

from . import sql
from .events import add_bullet, history, retracted, window

_BULLET: dict[str, Any] = {
    "name": "pat-050",
    "section": "pat",
    "text": "Forged",
    "helpful": 0,
    "harmful": 0,
}
_DEEP = "[" * 200_000 + "]" * 200_000


def _bullet(**changes: Any) -> dict[str, str]:
    return {"data": json.dumps({**_BULLET, **changes})}


def _of(type_: str, **data: Any) -> dict[str, str]:
    return {"type": type_, "data": json.dumps(data)}


#: Rows that are no events, by what differs from a bullet.added.
NO_EVENTS: dict[str, dict[str, str]] = {
    "no JSON": {"data": "{"},
    "no object": {"data": "[]"},
    "a tag that is no object": {"type": ev.BULLET_TAGGED, "data": "5"},
    "deep": {"data": _DEEP},
    "a deep one of no type": {"type": "x.y", "data": _DEEP},
    "half a character": {"data": json.dumps(_BULLET).replace("Forged", "\\ud800")},
    "meta without JSON": {"meta": "{"},
    "meta without an object": {**_of(ev.SESSION_RECORDED, cited=[]), "meta": "[]"},
    "a chain that is none": {"chain": "x"},
    "a chain with half a byte": {"chain": "pl1:abc"},
    "no time": {"recorded_at": ""},
    "a time before": {"recorded_at": "2000-01-01T00:00:00.000000Z"},
    "a move to nowhere": _of(ev.LEDGER_MOVED),
}
#: Rows that have the form of events, and of which nothing can be read.
UNREADABLE: dict[str, dict[str, str]] = {
    "meta from no place": {"meta": '{"merged":{}}'},
    "a text that is null": _bullet(text=None),
    "a count without end": _bullet(helpful=10**30),
    "a name with NUL": _bullet(name="pat-0\0"),
    "a citation that is a number": _of(ev.SESSION_RECORDED, cited=5),
    "a window that is a text": _of(ev.SESSION_RECORDED, window="x"),
    "a merge of nothing": _of(ev.LEDGER_MERGED, renamed=5, origin=7),
    "a count that is a text": _of(ev.BULLET_RECOUNTED, name="pat-001", helpful="x", harmful=[]),
    "a proposal of nothing": _of(ev.CHANGE_PROPOSED),
    "half an assertion": _of(ev.BULLET_ASSERTED, name="pat-001", helpful=1),
    "a message that is a number": _of(ev.REFLECTION_FAILED, stage="parse", message=5),
}
#: Rows that can be read and that somebody has no right to.
READABLE: dict[str, dict[str, str]] = {
    "a move": _of(ev.LEDGER_MOVED, to="sqlite:///nowhere"),
    "a text with NUL": _bullet(text="a\0b"),
    "an unknown type": _of("no.such"),
}
FORGED = {
    name: row for name, row in (NO_EVENTS | UNREADABLE | READABLE).items() if "chain" not in row
}


def insert(connection: Any, ledger: Ledger, *, head: bool, **row: str) -> None:
    """Insert an event behind the last one, with the hashes that it has to have; set the head to
    it, or leave it.
    """
    at = ledger.head()
    given = {"type": ev.BULLET_ADDED, "meta": "{}", "recorded_at": at.recorded_at} | _bullet() | row
    header = (
        at.position + 1,
        "f" * 32,
        given["type"],
        1,
        at.recorded_at,
        given["recorded_at"],
        "human",
    )
    of, of_meta = digest(given["data"]), digest(given["meta"])
    chain = row.get("chain") or next_chain(at.chain, (*header, None, None, None), of, of_meta)
    sql_ = Statements(connection.cursor(), ledger.engine.dialect, ledger.playbook_id)
    sql_.insert(
        "event",
        Stored._fields,
        [(*header, None, None, None, given["data"], of, given["meta"], chain)],
    )
    if head:
        update = "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?"
        sql_.execute(update, at.position + 1, chain, given["recorded_at"], ledger.playbook_id)


@pytest.mark.parametrize("name", NO_EVENTS)
def test_database_refuses_a_row_that_is_no_event(ledger: Ledger, name: str) -> None:
    ledger.append(history())
    before = sql.content(ledger)
    if name == "half a character" and not sql.is_postgres(ledger):
        pytest.skip("SQLite's JSON has half characters; readers refuse them")
    with (
        ledger.engine.connection() as connection,
        pytest.raises(Exception, match=r"append-only|json|stack depth|Unicode"),
    ):
        insert(connection, ledger, head=True, **NO_EVENTS[name])
    assert sql.content(ledger) == before
    add_bullet(ledger, "pat", "It goes on.")


def test_row_ahead_of_events_is_an_error(ledger: Ledger) -> None:
    ledger.append(history())
    ahead = ledger.head().position + 1
    sql.run(ledger, f"INSERT INTO session_window VALUES (1, {ahead}, 'x', NULL, 'pending', 0, '')")
    with pytest.raises(
        LedgerCorrupt,
        match=(
            r"contains a row that does not come from an event .*; run `reflector rebuild`\. On a "
            r"server, only the ledger's owner can run this command"
        ),
    ):
        ledger.append([window(3, "s3")])
    ledger.rebuild()
    ledger.append([window(3, "s3")])
    assert list(verify(ledger)) == []


def test_earlier_ledger_with_a_forged_row_is_upgraded(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    ledger.append(history())
    row = {
        name: value for one in NO_EVENTS.values() for name, value in one.items() if name != "chain"
    }
    with sql.triggers_off(ledger) as connection:
        insert(connection.connection.driver_connection, ledger, head=True, **row)
    sql.run(ledger, "UPDATE alembic_version SET version_num = '0008'")
    again = open_ledger()
    assert sql.rows(again, "SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
    add_bullet(again, "pat", "It goes on.")


@pytest.mark.parametrize(
    ("name", "head"),
    first_fast(
        10,
        [
            *((name, True) for name in FORGED),
            *((name, False) for name in ("no object", "a text that is null", "a move")),
        ],
    ),
)
def test_forged_row_is_named_and_put_aside(ledger: Ledger, name: str, head: bool) -> None:
    ledger.append(history())
    bullets, position = ledger.bullets(), ledger.head().position + 1
    with sql.triggers_off(ledger) as connection:
        insert(connection.connection.driver_connection, ledger, head=head, **FORGED[name])
    hindered = name == "a move" or not head
    if hindered:
        with pytest.raises(LedgerError, match=r"moved from|`reflector rebuild --fix`"):
            add_bullet(ledger, "pat", "It goes on.")
    else:
        add_bullet(ledger, "pat", "It goes on.")
    assert len(list(exported(ledger))) == ledger.head().position + 1
    shown = select(ledger)[position - 1]
    assert (shown.position, bool(shown.fault)) == (position, shown.data is None)
    ledger.rebuild()
    assert [bullet for bullet in ledger.bullets() if bullet in bullets] == list(bullets)
    assert {one.position for one in verify(ledger) if one.code != "head"} == (
        set() if name in READABLE else {position}
    )
    # whoever appended it may have taken it back: that puts nothing aside
    if head and name in UNREADABLE:
        ledger.append([retracted(ledger.at([position], unreadable=True)[0])])
    if not head and name not in READABLE:
        with pytest.raises(
            LedgerError,
            match=(
                rf"at position {position} .* `reflector rebuild "
                r"--fix --why REASON`"
            ),
        ):
            mend_head(ledger)
    mend_head(ledger, "appended by hand")
    add_bullet(ledger, "pat", "It goes on again.")
    ledger.rebuild()
    assert list(verify(ledger)) == []
    assert fold(ledger.history()).bullets() == ledger.bullets()
    with suppress(ValueError):
        *_, last = ledger.events(after=position, types=[ev.EVIDENCE_RETRACTED])
        assert last.data == {"reason": "appended by hand"}
