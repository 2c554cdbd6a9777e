"""The log of reflections: a line's bytes, its order, and a log that cannot be written."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reflector.gated import (
    FILE_NAME,
    STAGE_ORDINAL,
    GatedConfig,
    ReflectionBundle,
    ReflectionLog,
    ReflectionResult,
    after_turn,
    canonical_line,
    log_record,
)
from reflector.ledger.store import Ledger

OPEN = GatedConfig(allow_reflection=True)


def bundle(agent: str = "AgentA", turn: Any = 1) -> ReflectionBundle:
    return ReflectionBundle({"agent_id": agent, "turn_id": turn}, {}, {"reflection": True}, f"{agent} on {turn}", [])


def ticking() -> Any:
    """A clock that goes on by a millisecond and a half at each look."""
    times: Iterator[int] = itertools.count()
    return lambda: next(times) * 0.0015


def test_the_line_of_a_record_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = ReflectionResult(" ".join("w" * 87), [], {}, ms=12.5)
    record = log_record(OPEN, result, agent="AgentA", turn=1, ops_written=1)
    assert canonical_line(record) == (
        '{"agent":"AgentA","backend":"rulebased","embed":true,"ms":0.0,"ops_written":1,"reason":null,"summary_len":87,'
        '"turn":1}'
    )
    result = ReflectionResult("a b", [], {"backend": "llm-fixture", "fixture_key": "0123456789ab"})
    record = log_record(GatedConfig(backend="llm"), result, agent="A", turn=2, ops_written=0, reason="ops_cap=0")
    assert (record["backend"], record["fixture_key"], record["reason"]) == ("llm", "0123456789ab", "ops_cap=0")


@pytest.mark.parametrize(("ci", "ms"), [("true", 0.0), ("TRUE", 0.0), ("false", 1.5), ("1", 1.5), ("", 1.5)])
def test_the_milliseconds_are_zero_under_ci_alone(
    ci: str, ms: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", ci)
    log = ReflectionLog(tmp_path / FILE_NAME)
    after_turn(bundle(), OPEN, log=log, clock=ticking())
    assert json.loads(log.path.read_text())["ms"] == ms


def test_the_log_says_what_the_ledger_has_and_not_what_was_produced(ledger: Ledger, tmp_path: Path) -> None:
    log = ReflectionLog(tmp_path / FILE_NAME)
    for ledger_of_turn, cap in ((ledger, 5), (ledger, 5), (None, 5), (ledger, 0)):
        config = GatedConfig(allow_reflection=True, ops_reflection=cap)
        after_turn(bundle(), config, ledger=ledger_of_turn, log=log)
    told = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(line["ops_written"], line["reason"]) for line in told] == [
        (1, None),
        (0, None),  # the ledger has it already
        (0, "index_missing"),
        (0, "ops_cap=0"),
    ]


def test_agents_that_reflect_in_parallel_are_logged_by_agent_and_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    turns = [(agent, turn) for agent in ("a10", "a2", "b", "é") for turn in (2, 10, 1)]
    written = set()
    for run in range(3):
        log = ReflectionLog(tmp_path / f"{run}.jsonl")
        shuffled = random.Random(run).sample(turns, len(turns))
        with log.in_order(), ThreadPoolExecutor(4) as pool:
            list(pool.map(partial(after_turn, config=OPEN, log=log), (bundle(*one) for one in shuffled)))
        written.add(log.path.read_bytes())
    (content,) = written
    told = [json.loads(line) for line in content.splitlines()]
    assert [(line["agent"], line["turn"]) for line in told] == sorted(turns)
    assert STAGE_ORDINAL == 10


def test_what_was_held_back_is_written_when_an_agent_fails_and_the_rest_at_once(tmp_path: Path) -> None:
    log = ReflectionLog(tmp_path / FILE_NAME)
    with suppress(RuntimeError), log.in_order():
        with log.in_order():
            after_turn(bundle(turn=2), OPEN, log=log)
        after_turn(bundle(turn=1), OPEN, log=log)
        for record in ({}, {"agent": "a", "turn": "x"}, {"agent": "a", "turn": 1, "ms": object()}):
            log.add(record)
        raise RuntimeError
    for turn in (4, 3):
        after_turn(bundle(turn=turn), OPEN, log=log)
        after_turn(bundle(turn=9), replace(OPEN, log=False), log=log)
        assert json.loads(log.path.read_text().splitlines()[-1])["turn"] == turn
    assert [json.loads(line)["turn"] for line in log.path.read_text().splitlines()] == [1, 2, 4, 3]
    assert log.lost == 3


@pytest.mark.parametrize("where", ["missing/log", "folder", "a\0b", "pipe", "/dev/full"])
def test_a_log_that_cannot_be_written_never_harms_the_turn(where: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    log = ReflectionLog(tmp_path / where)
    for guard in (log.in_order, lambda: ReflectionLog(tmp_path / "other").in_order()):
        with guard():
            result = after_turn(bundle(), OPEN, log=log)
            assert result is not None
            assert result.summary == "agenta on 1"
    assert log.lost == 2
