"""A text is erased for ever; what was counted stays counted, and the chain still verifies."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import Appended, NewEvent, identity
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES, fold
from reflector.events.state import REDACTED
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.errors import LedgerError, NoSuchTarget
from reflector.ledger.redaction import Takes
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, first_fast

from . import sql
from .events import (
    about,
    added,
    adopted,
    changed,
    history,
    imported,
    learned,
    merged,
    reflected,
    window,
)

SECRET = "The key is hunter2 of Köln"


def _redact(ledger: Ledger, event_id: str, reason: str = "a secret", *names: str) -> Appended:
    """Erase what an event says, or the texts of these bullets of an import alone."""
    takes: Takes | None = (lambda text: text.removeprefix("About ") in names) if names else None
    (answer,) = ledger.redact([event_id], reason=reason, actor="human", takes=takes)
    return answer


def test_redaction_needs_an_event_with_text(ledger: Ledger) -> None:
    moved = changed(ev.BULLET_MOVED, "pat-001", section="oth")
    events = [moved, *reflected("r1", window(), ("pat-001", "helpful"))]
    ledger.append([window(), *events])
    for event in (events[0], events[2]):
        with pytest.raises(LedgerError, match="contains no text"):
            _redact(ledger, event.event_id)
    with pytest.raises(NoSuchTarget, match="event nowhere is not in the ledger"):
        ledger.redact(["nowhere"], reason="x", actor="human")
    assert ledger.head().position == 4


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_redacted_text_is_in_no_sqlite_file(ledger: Ledger, tmp_path: Path) -> None:
    secret = b"hunter2-hunter2-hunter2"
    first = window()
    answer = changed(ev.BULLET_REVISED, "pat-001", text=secret.decode() * 400)
    ledger.append([added("pat-001"), answer, first])
    ledger.append(
        [e for n in range(30) for e in reflected(f"r{n}", first, *[("pat-001", "helpful")] * 20)]
    )

    def holding() -> list[str]:
        return [
            path.name
            for path in tmp_path.iterdir()
            if path.is_file() and secret in path.read_bytes()
        ]

    assert holding()
    _redact(ledger, answer.event_id)
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
    """A merge, a proposal that was approved and measured, one that was rejected, and the wish
    behind them.
    """
    change = {"kind": "revise", "name": "pat-700", "text": "x"}
    quote = {"text": "z", "by": "person"}
    basis = [{"name": "pat-700", "digest": "0"}]
    proposal = {
        "change": change,
        "origin": "human",
        "trust": "person",
        "reason": "y",
        "evidence": [quote],
    }
    proposal["basis"] = basis
    one, other = (
        NewEvent(ev.CHANGE_PROPOSED, identity(ev.CHANGE_PROPOSED, number), proposal, "human")
        for number in (1, 2)
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


def test_tests_append_an_event_of_each_type() -> None:
    of_merges = {ev.BULLET_RECOUNTED, ev.BULLET_RESTORED, ev.BULLET_UNMERGED}
    elsewhere = of_merges | {
        ev.EVENT_REDACTED,
        ev.LEDGER_MERGED,
        ev.LEDGER_MOVED,
        ev.LEDGER_ARRIVED,
    }
    unused = EVENT_TYPES.keys() - elsewhere - {event.type for event in _every_type()}
    assert not unused, (
        f"add an event of {', '.join(sorted(unused))} to learned() in tests/ledger/events.py"
    )


def _holds(ledger: Ledger, folder: Path) -> list[object]:
    """Everything in which the secret stands: rows, exports, and the files of a SQLite ledger."""
    tables = ("SELECT * FROM event", "SELECT * FROM bullet", "SELECT * FROM sessions")
    found: list[object] = [
        row for query in tables for row in sql.rows(ledger, query) if SECRET in str(row)
    ]
    found += [
        line
        for line in (*exported(ledger), str(ledger.rows()), str(list(ledger.events())))
        if SECRET in line
    ]
    return found + [
        path
        for path in folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize(
    "type_",
    first_fast(8, sorted(type_ for type_, kind in EVENT_TYPES.items() if kind.holds_prose)),
)
def test_what_a_type_holds_can_be_erased(
    ledger: Ledger, open_ledger: OpenLedger, tmp_path: Path, type_: str
) -> None:
    events = _every_type()
    has_one = type_ == ev.EVENT_REDACTED or type_ in {event.type for event in events}
    assert has_one, (
        f"{type_} holds prose: add an event of it to learned() in tests/ledger/events.py"
    )
    if type_ == ev.EVENT_REDACTED:
        ledger.append(events)
        ledger.redact([events[0].event_id], reason=SECRET, actor="human")
    else:
        fields = EVENT_TYPES[type_].fields
        ledger.append(
            [replace(e, data=_filled(fields, e.data)) if e.type == type_ else e for e in events]
        )
    assert _holds(ledger, tmp_path)
    state = (
        [(r.name, r.section, r.status, r.helpful, r.harmful) for r in ledger.rows()],
        ledger.windows(),
    )
    targets = [event.event_id for event in ledger.events(types=[type_])]
    assert targets
    answers = ledger.redact(targets, reason="a secret", actor="human")
    assert [answer.added for answer in answers] == [True] * len(targets)
    assert _holds(ledger, tmp_path) == []
    for reader in (ledger, open_ledger()):
        assert (
            [(r.name, r.section, r.status, r.helpful, r.harmful) for r in reader.rows()],
            reader.windows(),
        ) == state
        assert list(verify(reader)) == []
    ledger.rebuild()
    _reads_elsewhere(ledger)


def _reasons(ledger: Ledger) -> list[str]:
    return [
        event.data["reason"] for event in ledger.events(types=[ev.EVENT_REDACTED]) if event.data
    ]


def _reads_elsewhere(ledger: Ledger) -> None:
    assert list(verify(ledger)) == []
    with Ledger.open("sqlite://") as other:
        assert load_ledger(other, exported(ledger)) == ledger.head()
        assert list(verify(other)) == []
        assert (other.rows(), list(other.events())) == (ledger.rows(), list(ledger.events()))


def test_import_texts_are_erased_one_by_one(ledger: Ledger) -> None:
    names = [f"pat-{number:03d}" for number in range(1, 11)]
    event = imported(*((name, 3, 1) for name in names))
    ledger.append([event])
    for name in names[:-1]:
        assert _redact(ledger, event.event_id, f"secret {name}", name).added
    assert [(b.text, b.helpful, b.harmful) for b in ledger.bullets()] == [
        *[(REDACTED, 3, 1)] * 9,
        ("About pat-010", 3, 1),
    ]
    assert not any("About pat-009" in str(row) for row in sql.content(ledger))
    assert _reasons(ledger) == [f"secret {name}" for name in names[:-1]]
    ledger.rebuild()
    assert fold(ledger.events()).bullets() == ledger.bullets()
    assert ledger.bullets()[-1].text == "About pat-010"
    again = _redact(ledger, event.event_id, "x", "pat-007")
    assert (again.added, again.position) == (False, 10)
    _reads_elsewhere(ledger)


def test_reason_of_a_redaction_is_erased_alone(ledger: Ledger) -> None:
    event = imported(("pat-001", 3, 1), ("pat-002", 0, 2))
    ledger.append([event])
    _redact(ledger, event.event_id, SECRET, "pat-001")
    _redact(ledger, event.event_id, "another", "pat-002")
    first, second = ledger.events(types=[ev.EVENT_REDACTED])
    _redact(ledger, first.event_id, "a third")
    assert _reasons(ledger) == [REDACTED, "another", "a third"]
    assert not any(SECRET in str(row) for row in sql.content(ledger))
    assert not _redact(ledger, second.event_id, "x", "nobody").added
    assert [(b.name, b.text) for b in ledger.bullets()] == [
        ("pat-001", REDACTED),
        ("pat-002", REDACTED),
    ]
    assert list(verify(ledger)) == []


def test_window_with_erased_reasons_stays_in_views(ledger: Ledger) -> None:
    recorded = window(1, "s1", keys=[1, 2, 3])
    ledger.append([added(), recorded])
    _redact(ledger, recorded.event_id, "one")
    before = sql.rows(ledger, "SELECT * FROM sessions")
    _redact(ledger, recorded.event_id, "none")
    (redaction,) = ledger.events(types=[ev.EVENT_REDACTED])
    _redact(ledger, redaction.event_id, "two")
    assert sql.rows(ledger, "SELECT * FROM sessions") == before
    assert ledger.seen([1, 2, 3, 4]) == {1, 2, 3}
    assert list(verify(ledger)) == []


@pytest.mark.parametrize("ours", [True, False])
def test_erasure_on_either_machine_holds_after_a_merge(ledger: Ledger, ours: bool) -> None:
    event = imported(*((f"pat-00{number}", 3, 1) for number in range(1, 5)))
    ledger.append([event])
    with Ledger.open("sqlite://") as other:
        before = list(exported(ledger))
        load_ledger(other, before)
        if ours:
            _redact(ledger, event.event_id, "ours", "pat-001")
        for name in ("pat-001", "pat-002", "pat-003")[ours:]:
            _redact(other, event.event_id, name, name)
            if ours:  # else all of them come at once
                merge_ledger(ledger, lambda: list(exported(other)))
        merge_ledger(ledger, lambda: list(exported(other)))
    assert ledger.bullets()[0].text == REDACTED
    assert ours or [b.text for b in ledger.bullets()] == [REDACTED] * 3 + ["About pat-004"]
    assert not any("About pat-001" in str(row) for row in sql.content(ledger))
    assert [(b.helpful, b.harmful) for b in ledger.bullets()] == [(3, 1)] * 4
    assert list(verify(ledger)) == []
    assert [
        merge_ledger(ledger, lambda lines=lines: lines).added
        for lines in (before, list(exported(ledger)))
    ] == [0, 0]
