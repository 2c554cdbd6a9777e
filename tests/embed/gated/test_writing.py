"""What a step leaves behind: entries of memory in the ledger, and the log of reflections."""

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reflector.embed.gated import _record as record
from reflector.embed.lessons.recall import recall
from reflector.events.event import LESSON_RECORDED
from reflector.gated import (
    FILE_NAME,
    STAGE_ORDINAL,
    GatedConfig,
    ReflectionBundle,
    ReflectionLog,
    ReflectionResult,
    Written,
    after_turn,
    canonical_line,
    entry_id,
    log_record,
    write_entries,
)
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.embed.gated import vectors

OPEN = GatedConfig(allow_reflection=True)
TURN = ReflectionBundle(
    {"agent_id": "AgentA", "turn_id": 1, "now_ms": 12_345}, {}, {"reflection": True}, "Hi!", []
)


def entry(text: Any = "alpha", **more: Any) -> dict[str, Any]:
    return {"owner": "AgentA", "ts": "2026-01-02T03:04:05Z", "text": text, **more}


def lessons(ledger: Ledger) -> list[dict[str, Any]]:
    return [dict(event.data or {}) for event in ledger.events(types=[LESSON_RECORDED])]


def test_entry_id_follows_agent_turn_slot_and_text() -> None:
    assert {parts: entry_id(*parts) for parts in vectors.IDS} == vectors.IDS
    # of whatever is not Unicode, too
    assert entry_id("\ud800", 1, 0, "\ud800").startswith("refl-1-")


def test_entry_is_kept_with_ordered_keys_and_defaults() -> None:
    kept = record(entry("  alpha \n", vec_full=[0.5]), turn=1, slot=0)
    of_turn = {
        "id": "refl-1-AgentA-0-83965f01588e",
        "owner": "AgentA",
        "ts": "2026-01-02T03:04:05Z",
    }
    wanted = {
        **of_turn,
        "kind": "summary",
        "tags": ["reflection"],
        "text": "alpha",
        "vec_full": [0.5],
    }
    assert list(kept.items()) == list(wanted.items())
    assert record({}, turn=0, slot=2)["ts"] == "0000-00-00T00:00:00Z"


def test_an_entry_becomes_a_lesson_of_its_agent(ledger: Ledger) -> None:
    times = iter((0.0, 60.0))
    late = after_turn(TURN, OPEN, ledger=ledger, clock=lambda: next(times))
    assert (late.reason, late.summary, ledger.head().position) == ("reflection_timeout", "hi", 0)
    after_turn(TURN, OPEN, ledger=ledger)
    said = {"kind": "summary", "text": "hi", "owner": "AgentA", "tags": ["reflection"]}
    place = {
        "ts": "1970-01-01T00:00:12.345Z",
        "entry": entry_id("AgentA", 1, 0, "hi"),
        "turn": 1,
        "slot": 0,
    }
    assert lessons(ledger) == [{**said, **place, "embed": True}]
    after_turn(replace(TURN, utter=""), OPEN, ledger=ledger)
    assert [(lesson["text"], lesson["embed"]) for lesson in lessons(ledger)] == [
        ("hi", True),
        ("", False),
    ]
    assert list(verify(ledger)) == []


def test_cap_holds_and_repeated_entries_add_nothing(ledger: Ledger) -> None:
    assert write_entries(None, [entry()], ops_cap=5) == Written(1, reason="index_missing")
    for cap in (0, -1):
        assert write_entries(ledger, [entry()], ops_cap=cap) == Written(1, reason="ops_cap=0")
    assert ledger.head().position == 0
    three = [entry("alpha"), entry("beta"), entry("gamma")]
    later = [entry("alpha", ts="2027-01-01T00:00:00Z"), *three[1:]]  # the first record stands
    reports = [
        write_entries(ledger, entries, ops_cap=2, turn=1) for entries in (three, three, later)
    ]
    assert [(one.attempted, one.written, one.known, one.reason) for one in reports] == [
        (3, 2, 0, None),
        (3, 0, 2, None),
        (3, 0, 2, None),
    ]
    assert {one.ids for one in reports} == {
        ("refl-1-AgentA-0-83965f01588e", "refl-1-AgentA-1-b1adf3aa9872")
    }
    assert [lesson["text"] for lesson in lessons(ledger)] == ["alpha", "beta"]


def test_refused_entry_does_not_stop_the_others(ledger: Ledger) -> None:
    key = "ghp_" + "a1B2" * 9
    bad = [entry(7), entry(f"use {key}"), entry("x", kind="novel")]
    report = write_entries(ledger, bad, ops_cap=9, turn=3)
    assert report.errors == ("add_error[0]:TypeError", "add_error[2]:LedgerError")
    assert (report.written, report.reason) == (1, "partial_failure")
    assert [lesson["text"] for lesson in lessons(ledger)] == ["use [redacted:github-token]"]
    assert [one.document.kind for one in recall("use", of=ledger)] == ["summary"]


#: Two turns, in a process of its own: what it prints depends on nothing but them.
_TURNS = """
import json
from reflector.gated import *
said = [
    "日本語のメモを残して。 It is naïve – and TZ matters!",
    "Which port does the staging database use?"]
log, config = ReflectionLog("log"), load_config({"t3": {"allow_reflection": True}})
for number, text in enumerate(said, start=1):
    ctx = {"agent_id": "AgentB", "turn_id": number, "now_ms": 1_000 * number}
    bundle = ReflectionBundle(ctx, {}, {"reflection": True}, text, said)
    result = after_turn(bundle, config, log=log)
    print(json.dumps([result.summary, result.memory_entries, result.metrics]))
    print(entry_id("AgentB", number, 0, result.summary))
print(open("log").read())
"""
_PLACES = (
    {"PYTHONHASHSEED": "0", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "CI": "true"},
    {
        "PYTHONHASHSEED": "4242",
        "TZ": "America/St_Johns",
        "LC_ALL": "C.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "CI": "true",
    },
)


def test_turn_gives_equal_bytes_in_any_environment(tmp_path: Path) -> None:
    told = []
    for number, place in enumerate(_PLACES):
        (folder := tmp_path / str(number)).mkdir()
        command = [sys.executable, "-X", "utf8", "-c", _TURNS]
        told.append(
            subprocess.run(
                command, cwd=folder, env=os.environ | place, capture_output=True, check=True
            )
        )
    assert told[0].stdout == told[1].stdout
    assert told[0].stdout.count(b"refl-") == told[0].stdout.count(b'"turn":') == 2
    assert [one.stderr for one in told] == [b"", b""]


@pytest.fixture
def log(tmp_path: Path) -> ReflectionLog:
    return ReflectionLog(tmp_path / FILE_NAME)


def told(log: ReflectionLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def bundle(agent: str = "AgentA", turn: int = 1) -> ReflectionBundle:
    return ReflectionBundle(
        {"agent_id": agent, "turn_id": turn}, {}, {"reflection": True}, f"{agent} on {turn}", []
    )


def test_the_line_of_a_record_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = ReflectionResult(" ".join("w" * 87), [], {}, ms=12.5)
    assert canonical_line(log_record(OPEN, result, agent="AgentA", turn=1, ops_written=1)) == (
        '{"agent":"AgentA","backend":"rulebased","embed":true,"ms":0.0,"ops_written":1,'
        '"reason":null,"summary_len":87,'
        '"turn":1}'
    )
    result = ReflectionResult("a b", [], {"backend": "llm-fixture", "fixture_key": "0123456789ab"})
    record = log_record(GatedConfig(backend="llm"), result, agent="A", turn=2, ops_written=0)
    assert (record["backend"], record["fixture_key"]) == ("llm", "0123456789ab")
    assert STAGE_ORDINAL == 10


@pytest.mark.parametrize(
    ("ci", "ms"), [("true", 0.0), ("TRUE", 0.0), ("false", 1.5), ("1", 1.5), ("", 1.5)]
)
def test_milliseconds_are_0_under_ci(
    ci: str, ms: float, log: ReflectionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    ticks = itertools.count()
    after_turn(bundle(), OPEN, log=log, clock=lambda: next(ticks) * 0.0015)
    assert told(log)[0]["ms"] == ms


def test_log_reports_the_entries_that_were_written(ledger: Ledger, log: ReflectionLog) -> None:
    for ledger_of_turn, cap in ((ledger, 5), (ledger, 5), (None, 5), (ledger, 0)):
        after_turn(bundle(), replace(OPEN, ops_reflection=cap), ledger=ledger_of_turn, log=log)
    found = [(line["ops_written"], line["reason"]) for line in told(log)]
    assert found == [(1, None), (0, None), (0, "index_missing"), (0, "ops_cap=0")]


def test_agents_share_a_log_losing_only_bad_records(log: ReflectionLog) -> None:
    turns = [(agent, turn) for agent in ("a10", "é") for turn in (2, 10, 1)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(after_turn, config=OPEN, log=log), (bundle(*one) for one in turns)))
    after_turn(bundle(), replace(OPEN, log=False), log=log)
    log.add({"ms": object()})
    (away := ReflectionLog(log.path / "in a file")).add({})
    assert log.path.stat().st_mode & 0o777 == 0o600
    assert sorted((line["agent"], line["turn"]) for line in told(log)) == sorted(turns)
    assert (log.lost, away.lost) == (1, 1)


class Nameless:
    def __str__(self) -> str:
        raise KeyError("name")


def _nested(depth: int) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for _ in range(depth):
        record = {"inner": record}
    return record


@pytest.mark.parametrize("record", [{"agent": Nameless()}, _nested(200_000)], ids=["agent", "deep"])
def test_log_counts_an_unwritable_record(log: ReflectionLog, record: dict[str, Any]) -> None:
    log.add(record)
    assert (log.lost, log.path.exists()) == (1, False)


def lines_of_a_batch(path: Path, agents: str) -> list[str]:
    """Return the log's lines after agents reflected in parallel, each once the one before it was
    done.
    """
    log, turns = ReflectionLog(path), {agent: threading.Event() for agent in agents}

    def reflects(agent: str) -> None:
        before = agents[agents.index(agent) - 1] if agent != agents[0] else None
        if before is not None:
            turns[before].wait(10)
        for turn in (10, 2):
            after_turn(bundle(agent, turn), OPEN, log=log)
        turns[agent].set()

    with log.in_order(), ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(reflects, agents))
    return path.read_text().splitlines()


def test_parallel_agents_give_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    first, second = (lines_of_a_batch(tmp_path / agents, agents) for agents in ("ABC", "CBA"))
    assert first == second
    records = [json.loads(line) for line in first]
    assert [(one["agent"], one["turn"]) for one in records] == [
        (a, turn) for a in "ABC" for turn in (2, 10)
    ]


def test_overlapping_batches_are_written_by_the_last(log: ReflectionLog) -> None:
    outer, inner = log.in_order(), log.in_order()
    with suppress(RuntimeError), inner:
        outer.__enter__()
        after_turn(bundle("B"), OPEN, log=log)
        raise RuntimeError("one of the batches fails")
    after_turn(bundle("A"), OPEN, log=log)
    assert not log.path.exists()
    outer.__exit__(None, None, None)
    after_turn(bundle("0"), OPEN, log=log)
    assert [line["agent"] for line in told(log)] == ["A", "B", "0"]


def test_a_host_may_stage_the_records_itself() -> None:
    class Stage(list[Any]):
        def add(self, record: Mapping[str, Any]) -> None:
            self.append((STAGE_ORDINAL, record["agent"]))

    stage = Stage()
    after_turn(bundle(), OPEN, log=stage)
    assert stage == [(10, "AgentA")]


def test_a_log_that_raises_harms_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def add(self, record: Mapping[str, Any]) -> None:
            raise RuntimeError("the stage is closed")

    assert after_turn(bundle(), OPEN, log=Broken()).summary == "agenta on 1"
    assert "the stage is closed" in caplog.text


@pytest.mark.parametrize("is_full", [False, True], ids=["nobody reads", "the reader stopped"])
def test_a_pipe_as_log_holds_no_turn(is_full: bool, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    log, reader = ReflectionLog(pipe), None
    if is_full:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        for _ in range(2_000):
            log.add({"text": "x" * 1_000})
    before = log.lost
    turn = threading.Thread(
        target=after_turn, args=(bundle(), OPEN), kwargs={"log": log}, daemon=True
    )
    turn.start()
    turn.join(5)
    if reader is not None:
        os.close(reader)
    assert not turn.is_alive()
    assert log.lost == before + 1
