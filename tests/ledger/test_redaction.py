"""A text is erased for ever; what was counted stays counted, and the chain still verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflector.ledger import event as ev
from reflector.ledger.errors import LedgerError, NoSuchTarget
from reflector.ledger.store import Ledger
from reflector.ledger.verify import verify
from reflector.playbook.fold import REDACTED, fold
from tests.conftest import OpenLedger

from . import sql
from .events import added, changed, history, imported, reflected, window

_WITH_TEXT = [
    ev.PLAYBOOK_IMPORTED,
    ev.BULLET_ADDED,
    ev.BULLET_REVISED,
    ev.SESSION_RECORDED,
    ev.REFLECTION_ANSWERED,
    ev.REFLECTION_COMPLETED,
    ev.REFLECTION_FAILED,
    ev.EVIDENCE_RETRACTED,
]


@pytest.mark.parametrize("type_", _WITH_TEXT)
def test_counters_names_windows_and_chain_outlive_the_text(ledger: Ledger, open_ledger: OpenLedger, type_: str) -> None:
    ledger.append(history())
    target = next(event for event in ledger.events() if event.type == type_)

    def state() -> object:
        counted = [(r.name, r.section, r.status, r.removed_into, r.helpful, r.harmful) for r in ledger.rows()]
        keys = ledger.seen(range(-10, 10))
        return counted, ledger.windows(), keys, [(e.event_id, e.data_hash, e.chain) for e in ledger.events(upto=17)]

    before = state()
    answer = ledger.redact(target.event_id, reason="a secret", actor="human")
    assert (answer.added, answer.position) == (True, len(history()) + 1)
    assert state() == before
    for reader in (ledger, open_ledger()):
        assert list(verify(reader)) == []
        assert fold(reader.events()).bullets() == reader.bullets()
    ledger.rebuild()
    assert state() == before
    assert sql.rows(ledger, f"SELECT data FROM event WHERE position = {target.position}") == [(None,)]


def test_a_bullets_text_is_gone_wherever_it_was_read(ledger: Ledger) -> None:
    ledger.append([added("pat-001", "The key is hunter2", helpful=3)])
    ledger.redact(added("pat-001").event_id, reason="a secret", actor="human")
    assert [(bullet.text, bullet.helpful) for bullet in ledger.bullets()] == [(REDACTED, 3)]
    stored = ledger.event(added().event_id)
    assert stored is not None
    assert stored.data is not None
    assert (stored.data["name"], stored.data["text"]) == ("pat-001", REDACTED)
    assert not [
        row for row in (*sql.content(ledger), *sql.rows(ledger, "SELECT * FROM bullet")) if "hunter2" in str(row)
    ]


def test_an_earlier_text_does_not_come_back_when_its_revision_is_redacted(ledger: Ledger) -> None:
    revision = changed(ev.BULLET_REVISED, "pat-001", text="The key is hunter2")
    ledger.append([added("pat-001", "The first text"), revision])
    ledger.redact(revision.event_id, reason="a secret", actor="human")
    assert ledger.bullets()[0].text == REDACTED
    ledger.append([changed(ev.BULLET_REVISED, "pat-001", 2, text="The third text")])
    assert ledger.bullets()[0].text == "The third text"
    assert list(verify(ledger)) == []


def test_only_the_named_bullets_of_an_import_lose_their_texts(ledger: Ledger) -> None:
    event = imported(("pat-001", 3, 1), ("pat-002", 0, 2))
    ledger.append([event])
    ledger.redact(event.event_id, reason="a secret", actor="human", takes=lambda bullet, _: bullet["name"] == "pat-002")
    assert [(b.text, b.helpful, b.harmful) for b in ledger.bullets()] == [("About pat-001", 3, 1), (REDACTED, 0, 2)]


def test_redacting_again_adds_nothing_whatever_the_reason(ledger: Ledger) -> None:
    ledger.append([added()])
    first = ledger.redact(added().event_id, reason="a secret", actor="human")
    for reason in ("a secret", "another"):
        again = ledger.redact(added().event_id, reason=reason, actor="human")
        assert (again.position, again.added) == (first.position, False)


def test_an_event_without_text_and_an_event_that_is_not_there_are_refused(ledger: Ledger) -> None:
    moved = changed(ev.BULLET_MOVED, "pat-001", section="oth")
    events = [moved, *reflected("r1", window(), ("pat-001", "helpful"))]
    ledger.append([window(), *events])
    for event in (events[0], events[2]):
        with pytest.raises(LedgerError, match="holds no text of its own"):
            ledger.redact(event.event_id, reason="x", actor="human")
    with pytest.raises(NoSuchTarget, match="event nowhere is not in the ledger"):
        ledger.redact("nowhere", reason="x", actor="human")
    assert ledger.head().position == 4


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_no_file_of_a_sqlite_ledger_holds_the_text_afterwards(ledger: Ledger, tmp_path: Path) -> None:
    secret = b"hunter2-hunter2-hunter2"
    first = window()
    answer = changed(ev.BULLET_REVISED, "pat-001", text=secret.decode() * 400)
    ledger.append([added("pat-001"), answer, first])
    ledger.append([e for n in range(30) for e in reflected(f"r{n}", first, *[("pat-001", "helpful")] * 20)])

    def holding() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if path.is_file() and secret in path.read_bytes()]

    assert holding()
    ledger.redact(answer.event_id, reason="a secret", actor="human")
    assert holding() == []
    assert list(verify(ledger)) == []
    assert ledger.bullets()[0].helpful == 600
