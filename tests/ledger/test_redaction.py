"""A text is erased for ever; what was counted stays counted, and the chain still verifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fold import REDACTED, fold
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES
from reflector.exchange.merge import merge
from reflector.exchange.transfer import exported, load
from reflector.ledger.errors import LedgerError, NoSuchTarget
from reflector.ledger.redaction import Takes
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger

from . import slow, sql
from .events import about, added, adopted, changed, history, imported, learned, merged, reflected, window

SECRET = "The key is hunter2 of Köln"


def test_an_earlier_text_does_not_come_back_when_its_revision_is_redacted(ledger: Ledger) -> None:
    revision = changed(ev.BULLET_REVISED, "pat-001", text="The key is hunter2")
    ledger.append([added("pat-001", "The first text"), revision])
    ledger.redact(revision.event_id, reason="a secret", actor="human")
    assert ledger.bullets()[0].text == REDACTED
    ledger.append([changed(ev.BULLET_REVISED, "pat-001", 2, text="The third text")])
    assert ledger.bullets()[0].text == "The third text"
    assert list(verify(ledger)) == []


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


def _filled(fields: Mapping[str, Field], data: Mapping[str, Any]) -> dict[str, Any]:
    """Data with the secret in each field that holds prose."""
    filled = dict(data)
    for name, field in fields.items():
        if field.prose is not None:
            filled[name] = [SECRET] if field.fault(SECRET) else SECRET
        elif field.within and isinstance(data.get(name, []), list):
            filled[name] = [_filled(field.within, item) for item in data.get(name) or [{}]]
        elif field.within:
            filled[name] = _filled(field.within, data[name])
    return filled


def _curated(heard: NewEvent) -> list[NewEvent]:
    """A merge, a proposal that was approved and measured, one that was rejected, and the wish behind them."""
    change = {"kind": "revise", "name": "pat-700", "text": "x"}
    quote = {"text": "z", "by": "person"}
    basis = [{"name": "pat-700", "digest": "0"}]
    proposal = {"change": change, "origin": "human", "trust": "person", "reason": "y", "evidence": [quote]}
    proposal["basis"] = basis
    one, other = (
        NewEvent(ev.CHANGE_PROPOSED, identity(ev.CHANGE_PROPOSED, number), proposal, "human") for number in (1, 2)
    )
    approved = about(ev.CHANGE_APPROVED, one, change=change, inverse=[change], edited=False)
    wish = {"kind": "standing", "form": "always", "section": "pat", "text": "x", "quote": "y"}
    return [
        *(added(name) for name in ("pat-700", "pat-701")),
        merged("pat-702", "pat-700", "pat-701"),
        *(one, approved, about(ev.CHANGE_MEASURED, approved, verdict="kept", told=9, reason="z")),
        *(other, about(ev.CHANGE_REJECTED, other, how="rejected", reason="z")),
        about(ev.WISH_HEARD, heard, **wish),
    ]


def _every_type() -> list[NewEvent]:
    first, second = window(3, "s3", keys=[7]), window(4, "s3", keys=[8])
    return [
        *history(),
        changed(ev.BULLET_PROPOSED, "pat-009", section="pat", text="x", reason="y"),
        first,
        about(ev.REFLECTION_SKIPPED, first, reason="the gate"),
        second,
        adopted("as_applied"),
        *_curated(first),
        *learned(),
    ]


def _holds(ledger: Ledger, folder: Path) -> list[object]:
    """Everything in which the secret stands: rows, exports, and the files of a SQLite ledger."""
    tables = ("SELECT * FROM event", "SELECT * FROM bullet", "SELECT * FROM sessions")
    found: list[object] = [row for query in tables for row in sql.rows(ledger, query) if SECRET in str(row)]
    found += [line for line in (*exported(ledger), str(ledger.rows()), str(list(ledger.events()))) if SECRET in line]
    return found + [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("type_", sorted(type_ for type_, kind in EVENT_TYPES.items() if kind.holds_prose))
def test_what_an_event_of_any_type_can_hold_can_be_erased(
    ledger: Ledger, open_ledger: OpenLedger, tmp_path: Path, type_: str
) -> None:
    events = _every_type()
    has_one = type_ == ev.EVENT_REDACTED or type_ in {event.type for event in events}
    assert has_one, f"{type_} holds prose: add an event of it to _every_type() here"
    if type_ == ev.EVENT_REDACTED:
        ledger.append(events)
        ledger.redact(events[0].event_id, reason=SECRET, actor="human")
    else:
        fields = EVENT_TYPES[type_].fields
        ledger.append([replace(e, data=_filled(fields, e.data)) if e.type == type_ else e for e in events])
    assert _holds(ledger, tmp_path)
    state = [(r.name, r.section, r.status, r.helpful, r.harmful) for r in ledger.rows()], ledger.windows()
    targets = [event.event_id for event in ledger.events(types=[type_])]
    assert targets
    answers = ledger.redact_all(targets, reason="a secret", actor="human")
    assert [answer.added for answer in answers] == [True] * len(targets)
    assert _holds(ledger, tmp_path) == []
    for reader in (ledger, open_ledger()):
        assert ([(r.name, r.section, r.status, r.helpful, r.harmful) for r in reader.rows()], reader.windows()) == state
        assert list(verify(reader)) == []
    ledger.rebuild()
    assert list(verify(ledger)) == []
    with Ledger.open("sqlite://") as other:
        assert load(other, exported(ledger)) == ledger.head()
        assert list(verify(other)) == []
        assert (other.rows(), list(other.events())) == (ledger.rows(), list(ledger.events()))


def _only(name: str) -> Takes:
    return lambda bullet, _: bullet.get("name") == name


def test_one_text_of_an_import_after_another_is_erased_and_the_others_stay(ledger: Ledger) -> None:
    names = [f"pat-{number:03d}" for number in range(1, 41)]
    event = imported(*((name, 3, 1) for name in names))
    ledger.append([event])
    for number, name in enumerate(names[:-1], start=1):
        assert ledger.redact(event.event_id, reason=f"secret {number}", actor="human", takes=_only(name)).added
    assert [b.text for b in ledger.bullets()] == [REDACTED] * 39 + ["About pat-040"]
    assert {(b.helpful, b.harmful) for b in ledger.bullets()} == {(3, 1)}
    assert not any("About pat-039" in str(row) for row in sql.content(ledger))
    assert [e.data["reason"] for e in ledger.events(types=[ev.EVENT_REDACTED]) if e.data] == [
        f"secret {number}" for number in range(1, 40)
    ]
    ledger.rebuild()
    assert ledger.bullets()[-1].text == "About pat-040"
    assert fold(ledger.events()).bullets() == ledger.bullets()
    assert list(verify(ledger)) == []
    again = ledger.redact(event.event_id, reason="x", actor="human", takes=_only("pat-007"))
    assert (again.added, again.position) == (False, 40)
    with Ledger.open("sqlite://") as other:
        assert load(other, exported(ledger)) == ledger.head()
        assert list(verify(other)) == []


def test_the_reason_of_any_redaction_of_a_line_can_be_erased_alone(ledger: Ledger) -> None:
    event = imported(("pat-001", 3, 1), ("pat-002", 0, 2))
    ledger.append([event])
    ledger.redact(event.event_id, reason=SECRET, actor="human", takes=_only("pat-001"))
    ledger.redact(event.event_id, reason="another", actor="human", takes=_only("pat-002"))
    first, second = ledger.events(types=[ev.EVENT_REDACTED])
    ledger.redact(first.event_id, reason="a third", actor="human")
    assert [e.data["reason"] for e in ledger.events(types=[ev.EVENT_REDACTED]) if e.data] == [
        REDACTED,
        "another",
        "a third",
    ]
    assert not any(SECRET in str(row) for row in sql.content(ledger))
    assert not ledger.redact(second.event_id, reason="x", actor="human", takes=lambda *_: False).added
    assert [(b.name, b.text) for b in ledger.bullets()] == [("pat-001", REDACTED), ("pat-002", REDACTED)]
    assert list(verify(ledger)) == []


def test_a_window_whose_reasons_were_erased_too_is_still_seen_by_the_views(ledger: Ledger) -> None:
    recorded = window(1, "s1", keys=[1, 2, 3])
    ledger.append([added(), recorded])
    ledger.redact(recorded.event_id, reason="one", actor="human")
    before = sql.rows(ledger, "SELECT * FROM sessions"), slow.doubles(ledger)
    ledger.redact(recorded.event_id, reason="none", actor="human")
    (redaction,) = ledger.events(types=[ev.EVENT_REDACTED])
    ledger.redact(redaction.event_id, reason="two", actor="human")
    assert (sql.rows(ledger, "SELECT * FROM sessions"), slow.doubles(ledger)) == before
    assert ledger.seen([1, 2, 3, 4]) == {1, 2, 3}
    assert list(verify(ledger)) == []


@pytest.mark.parametrize("theirs", [["pat-002"], ["pat-002", "pat-003"], ["pat-002", "pat-003", "pat-004"]])
def test_what_was_erased_here_does_not_come_back_with_another_machines_redactions(
    ledger: Ledger, theirs: list[str]
) -> None:
    event = imported(*((f"pat-00{number}", 3, 1) for number in range(1, 6)))
    ledger.append([event])
    with Ledger.open("sqlite://") as other:
        load(other, exported(ledger))
        ledger.redact(event.event_id, reason="ours", actor="human", takes=_only("pat-001"))
        for name in theirs:
            other.redact(event.event_id, reason=name, actor="human", takes=_only(name))
            merge(ledger, lambda: list(exported(other)))
            assert ledger.bullets()[0].text == REDACTED
            assert not any("About pat-001" in str(row) for row in sql.content(ledger))
            assert list(verify(ledger)) == []
    assert [(b.helpful, b.harmful) for b in ledger.bullets()] == [(3, 1)] * 5
    assert ledger.bullets()[4].text == "About pat-005"


def test_a_second_text_that_another_machine_erased_is_erased_here_by_a_merge(ledger: Ledger) -> None:
    event = imported(("pat-001", 3, 1), ("pat-002", 0, 2))
    ledger.append([event])
    with Ledger.open("sqlite://") as other:
        load(other, exported(ledger))
        merge(other, lambda: exported(ledger))
        for name in ("pat-001", "pat-002"):
            other.redact(event.event_id, reason=name, actor="human", takes=_only(name))
        ledger.append([added("ctx-001")])
        merge(ledger, lambda: list(exported(other)))
    assert [b.text for b in ledger.bullets()][:2] == [REDACTED] * 2
    assert not any("About pat-00" in str(row) for row in sql.content(ledger))
    assert list(verify(ledger)) == []
    assert merge(ledger, lambda: list(exported(ledger))).added == 0
