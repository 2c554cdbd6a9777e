"""An event that could not be folded or read is refused at the door; one that an older version
took wedges nothing.
"""

from dataclasses import replace
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.exchange.transfer import load_ledger
from reflector.judges.rules.judge import RulesBackend
from reflector.ledger.canonical import NotCanonical
from reflector.ledger.errors import LedgerCorrupt, LedgerError
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import MAX_COUNT, MAX_TEXT
from reflector.playbook.document import dump
from reflector.proof.verify import verify
from reflector.reflection.runner import Runner
from tests.building import forged
from tests.conftest import OpenLedger

from . import sql
from .events import (
    add_bullet,
    added,
    changed,
    imported,
    lesson,
    outcome,
    reflected,
    retracted,
    told,
    trajectory,
    window,
)


def _keyed(keys: object) -> NewEvent:
    return replace(window(), data={**window().data, "window": {"keys": keys}})


_COMPLETED = reflected("r1", window())[0]
#: Events that nobody appends, each with what its refusal says behind its type.
REFUSED: list[tuple[NewEvent, str]] = [
    (replace(added(), type="bullet.invented"), "' is not an event type"),
    (replace(added(), actor="a\nb"), "actor 'a\\\\nb' must be 1 to 1024 characters"),
    (replace(added(), session_id=""), "session_id '' must be"),
    (replace(added(), event_id="x" * 1025), "event_id 'x+' must be"),
    (replace(added(), target_id="a\0b"), "target_id .* must be"),
    (replace(added(), session_id="\ud800"), "session_id .* lone surrogate"),
    (added(text=""), "text is '': the text is empty"),
    (added(text="a\0b"), "the text contains the character U\\+0000 at index 1"),
    (added(text="a" * (MAX_TEXT + 1)), "text is 'aaa"),
    (added("pat-1]"), "name is 'pat-1]'"),
    (added(helpful=-1), "helpful is -1: must be a whole number from 0"),
    (replace(added(), data={**added().data, "harmful": 1.0}), "harmful is '1.000000'"),
    (imported(("pat-001", 0, 0), ("pat-002", 0, -3)), "bullets 2: harmful is -3"),
    (changed(ev.BULLET_REVISED, "pat-001"), "text is missing"),
    (changed(ev.BULLET_REVISED, "pat-001", text="a\u202e"), "U\\+202E"),
    (changed(ev.BULLET_RECOUNTED, "pat-001", helpful=MAX_COUNT + 1, harmful=0), "helpful is "),
    (changed(ev.BULLET_MOVED, "pat-001", section="zz"), "section is 'zz'"),
    (replace(retracted(added()), target_id=None), "target_id is missing"),
    (replace(_COMPLETED, target_id=None), "target_id is missing"),
    (replace(_COMPLETED, event_id="other"), "'other' does not identify the reflection 'r1'"),
    # What verify could not read, or nobody could read again.
    (_keyed("not base64!"), "keys "),
    (_keyed("QUJD"), "keys "),
    (changed(ev.BULLET_ASSERTED, "pat-001", helpful=1), "harmful "),
    (changed(ev.BULLET_ASSERTED, "pat-001", harmful=1), "helpful "),
    (NewEvent(ev.BULLET_ASSERTED, "asserted", {"helpful": 0, "harmful": 0}, "human"), "name "),
    (
        NewEvent(
            ev.SESSION_RECORDED, "w-1", {"trigger": "ingest", "window": [], "cited": []}, "me"
        ),
        "window is ",
    ),
    (NewEvent(ev.REFLECTION_SKIPPED, "k-1", {"reason": None}, "me"), "reason is None"),
    (
        NewEvent(ev.REFLECTION_FAILED, "f-1", {"stage": "parse", "message": None}, "me"),
        "message is None",
    ),
    # What parts B to E say.
    (
        lesson(kind="rumour"),
        "kind is 'rumour': must be one of insight, reflection, mistake, summary",
    ),
    (lesson(text="x" * 100_001), "must be a text of at most 100,000 characters"),
    (lesson(tags=["a"] * 101), "must be a list of at most 100 tags"),
    (lesson(improvement=1.5), "improvement is '1.500000': must be a number from 0 to 1"),
    (outcome(lesson(), "perfect"), "kind is 'perfect': must be one of retry_improved"),
    (outcome(lesson(), why="x" * 100_001), "why is 'xxx"),
    (told(lesson(), via="rumour"), "via is 'rumour'"),
    (trajectory(status="done"), "status is 'done': must be one of success, failure"),
    (trajectory(query="x" * 4_000_001), "must be a text of at most 4,000,000 characters"),
    (trajectory(cited=["../x"]), "must be a list of names of rules"),
]


def test_unreadable_event_is_refused_at_append(
    ledger: Ledger,
) -> None:
    ledger.append([lesson("there")])
    for event, message in REFUSED:
        with pytest.raises(LedgerError, match=f"{event.type}.*{message}") as caught:
            pytest.fail(f"appended {ledger.append([added('oth-001'), event])} ({message})")
        assert not isinstance(caught.value, LedgerCorrupt)
        assert ledger.head().position == 1, message
    for value in (float("nan"), 2**53, "\ud800", object()):
        with pytest.raises(NotCanonical):
            ledger.append([NewEvent(ev.REFLECTION_SKIPPED, "x", {"value": value}, "rules")])
    assert ledger.head().position == 1


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> Any:
    """Appends as an older version did, which checked nothing."""

    def append(*events: NewEvent) -> None:
        with monkeypatch.context() as older:
            older.setattr("reflector.ledger.append.check_facts", lambda *_, **__: None)
            ledger.append(events)

    return append


def test_ledger_that_an_older_version_blocked_continues(
    ledger: Ledger, unchecked: Any, open_ledger: OpenLedger
) -> None:
    unchecked(
        added("pat-001"), replace(added("pat-002"), data={**added("pat-002").data, "section": "zz"})
    )
    older = "UPDATE bullet SET section = 'zz' WHERE name = 'pat-002'", "DROP INDEX bullet_merged"
    sql.run(ledger, *older, "UPDATE alembic_version SET version_num = '0002'")
    again = open_ledger()
    assert [(row.name, row.section) for row in again.rows()] == [
        ("pat-001", "pat"),
        ("pat-002", "oth"),
    ]
    assert add_bullet(again, "pat", "It goes on.").name == "pat-003"
    assert b"It goes on." in dump(again.bullets(), again.updated_at())
    again.rebuild()
    assert list(verify(again)) == []


def test_what_a_file_could_bring_before_is_read(ledger: Ledger, unchecked: Any) -> None:
    bare: dict[str, object] = {"trigger": "ingest", "window": {}, "cited": None}
    old = [
        imported(("pat-001", 10**12, 0)),
        NewEvent(ev.SESSION_RECORDED, "w-1", bare, "import", session_id="s-1"),
    ]
    unchecked(*old)
    assert [event.data for event in ledger.events()] == [event.data for event in old]
    ledger.rebuild()
    assert ledger.bullets()[0].helpful == 10**12
    assert list(verify(ledger)) == []
    (judged,) = Runner(ledger, RulesBackend()).finish_pending(retry="all")
    assert judged.outcome == "skipped"


def test_odd_number_or_forged_id_blocks_no_add(
    ledger: Ledger,
) -> None:
    load_ledger(
        ledger, forged(replace(added("pat-001"), event_id=identity(ev.BULLET_ADDED, "pat-002")))
    )
    assert add_bullet(ledger, "pat", "It goes on.").name == "pat-002"
    ledger.append([added("pat-" + "9" * 60), added("pat-999999999")])
    assert [add_bullet(ledger, "pat", text).name for text in ("One.", "Two.")] == [
        "pat-1000000000",
        "pat-1000000001",
    ]
