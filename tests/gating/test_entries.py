"""Entries of memory in the ledger: their ids, the cap, what is refused, and what writing them again does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.events.event import LESSON_RECORDED
from reflector.exchange.transfer import exported
from reflector.gated import (
    GatedConfig,
    ReflectionBundle,
    ReflectionLog,
    Written,
    after_turn,
    entry_id,
    reflect,
    write_entries,
)
from reflector.gating.summary import record
from reflector.ledger.store import Ledger
from reflector.lessons.recall import recall
from reflector.proof.verify import verify
from tests.gating import vectors

OPEN = GatedConfig(allow_reflection=True)
TURN = ReflectionBundle({"agent_id": "AgentA", "turn_id": 1, "now_ms": 12_345}, {}, {"reflection": True}, "Hi!", [])


def entry(text: Any = "alpha", **more: Any) -> dict[str, Any]:
    return {"owner": "AgentA", "ts": "2026-01-02T03:04:05Z", "text": text, **more}


def lessons(ledger: Ledger) -> list[dict[str, Any]]:
    return [dict(event.data or {}) for event in ledger.events(types=[LESSON_RECORDED])]


@pytest.mark.parametrize("parts", vectors.IDS)
def test_the_id_of_an_entry_is_made_from_agent_turn_slot_and_text(parts: tuple[str, int, int, str]) -> None:
    assert entry_id(*parts) == vectors.IDS[parts]


@given(st.text(), st.integers(), st.integers(), st.text())
def test_every_text_has_an_id(agent: str, turn: int, slot: int, text: str) -> None:
    assert entry_id(agent, turn, slot, text).startswith(f"refl-{turn}-{agent}-{slot}-")


def test_an_entry_is_kept_with_its_keys_in_order_and_the_defaults() -> None:
    kept = record(entry("  alpha \n", vec_full=[0.5]), turn=1, slot=0)
    of_turn = {"id": "refl-1-AgentA-0-83965f01588e", "owner": "AgentA", "ts": "2026-01-02T03:04:05Z"}
    wanted = {**of_turn, "kind": "summary", "tags": ["reflection"], "text": "alpha", "vec_full": [0.5]}
    assert list(kept.items()) == list(wanted.items())
    assert record({}, turn=0, slot=2)["ts"] == "0000-00-00T00:00:00Z"


def test_an_entry_becomes_a_lesson_of_its_agent(ledger: Ledger) -> None:
    times = iter((0.0, 60.0))
    late = after_turn(TURN, OPEN, ledger=ledger, clock=lambda: next(times))
    assert late is not None
    assert (late.reason, late.summary, ledger.head().position) == ("reflection_timeout", "hi", 0)
    after_turn(TURN, OPEN, ledger=ledger)
    said = {
        "kind": "summary",
        "text": "hi",
        "owner": "AgentA",
        "tags": ["reflection"],
        "ts": "1970-01-01T00:00:12.345Z",
    }
    place = {"entry": entry_id("AgentA", 1, 0, "hi"), "turn": 1, "slot": 0}
    assert lessons(ledger) == [{**said, **place, "embed": True}]
    empty = after_turn(replace(TURN, utter=""), OPEN, ledger=ledger)
    assert empty is not None
    assert "vec_full" not in empty.memory_entries[0]
    assert [(lesson["text"], lesson["embed"]) for lesson in lessons(ledger)] == [("hi", True), ("", False)]
    assert list(verify(ledger)) == []


def test_the_cap_is_held_and_the_same_entries_again_add_nothing(ledger: Ledger) -> None:
    assert write_entries(None, [entry()], ops_cap=5) == Written(1, reason="index_missing")
    for cap in (0, -1):
        assert write_entries(ledger, [entry()], ops_cap=cap) == Written(1, reason="ops_cap=0")
    assert ledger.head().position == 0
    three = [entry("alpha"), entry("beta"), entry("gamma")]
    later = [entry("alpha", ts="2027-01-01T00:00:00Z"), *three[1:]]  # the first record stands
    reports = [write_entries(ledger, entries, ops_cap=2, turn=1) for entries in (three, three, later)]
    assert [(one.attempted, one.written, one.known, one.reason) for one in reports] == [
        (3, 2, 0, None), (3, 0, 2, None), (3, 0, 2, None),
    ]  # fmt: skip
    assert {one.ids for one in reports} == {("refl-1-AgentA-0-83965f01588e", "refl-1-AgentA-1-b1adf3aa9872")}
    assert [lesson["text"] for lesson in lessons(ledger)] == ["alpha", "beta"]


def test_an_entry_that_is_refused_does_not_stop_the_others(ledger: Ledger) -> None:
    bad = [entry(7), entry("fine"), entry("x", kind="novel"), entry("too long " * 20_000), entry("y", owner="a\nb")]
    report = write_entries(ledger, bad, ops_cap=9, turn=3)
    assert report.errors == (
        "add_error[0]:TypeError",
        "add_error[2]:LedgerError",
        "add_error[3]:LedgerError",
        "add_error[4]:LedgerError",
    )
    assert (report.written, report.reason) == (1, "partial_failure")
    assert [lesson["text"] for lesson in lessons(ledger)] == ["fine"]


def test_a_ledger_that_fails_is_a_reason_in_the_log_and_no_harm(tmp_path: Path) -> None:
    class Broken:
        def append(self, events: object) -> None:
            raise OSError("the disk is gone")

    broken: Any = Broken()
    log = ReflectionLog(tmp_path / "log")
    result = after_turn(TURN, OPEN, ledger=broken, log=log)
    assert result is not None
    assert result.summary == "hi"
    told = json.loads(log.path.read_text())
    assert (told["ops_written"], told["reason"]) == (0, "partial_failure")
    assert write_entries(broken, [entry()], ops_cap=1).errors == ("add_error[0]:OSError",)


def test_a_secret_in_an_answer_is_not_kept(ledger: Ledger) -> None:
    key = "ghp_" + "a1B2" * 9
    after_turn(TURN, replace(OPEN, backend="llm"), ledger=ledger, adapter=lambda _: f"use {key}")
    (kept,) = lessons(ledger)
    assert kept["text"] == "use [redacted:github-token]"
    assert kept["entry"] == entry_id("AgentA", 1, 0, kept["text"])


def test_what_is_erased_is_not_written_again(ledger: Ledger) -> None:
    write_entries(ledger, [entry("Jane Doe called")], ops_cap=1, turn=1)
    (event,) = ledger.events(types=[LESSON_RECORDED])
    ledger.redact(event.event_id, reason="GDPR", actor="human")
    assert write_entries(ledger, [entry("Jane Doe called")], ops_cap=1, turn=1).written == 0
    assert "Jane" not in "".join(exported(ledger))
    assert list(verify(ledger)) == []


def test_a_summary_is_found_by_later_retrieval_and_not_before_it_is_written(ledger: Ledger) -> None:
    result = reflect(TURN, OPEN)
    assert ledger.head().position == 0
    assert recall("hi", of=ledger) == []
    write_entries(ledger, result.memory_entries, ops_cap=OPEN.ops_reflection, turn=TURN.turn)
    assert [(one.document.kind, one.document.text) for one in recall("Hi?", of=ledger)] == [("summary", "hi")]
