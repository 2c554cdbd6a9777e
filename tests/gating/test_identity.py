"""A host with the gate closed writes the bytes that it wrote before it had the step: other process, other place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = [
    {"PYTHONHASHSEED": "0", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "CI": "true"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8", "CI": "true"},
]


def played(folder: Path, mode: str, place: dict[str, str]) -> dict[str, bytes]:
    """What a host that ran in a process of its own said and wrote, by file."""
    folder.mkdir()
    command = [sys.executable, "-X", "utf8", "-m", "tests.gating.host", str(folder), mode]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **place}, capture_output=True, check=True)
    assert done.stderr == b""
    return {"stdout": done.stdout, **{path.name: path.read_bytes() for path in sorted(folder.iterdir())}}


@pytest.mark.parametrize("mode", ["config", "plan", "dry"])
def test_a_closed_gate_leaves_every_byte_as_it_was_without_the_feature(mode: str, tmp_path: Path) -> None:
    without = played(tmp_path / "without", "without", PLACES[0])
    closed = played(tmp_path / "closed", mode, PLACES[1])
    assert len(without) == 6
    if mode == "dry":  # it applies nothing, with and without the step
        del without["apply.jsonl"]
    assert closed == without


def test_an_open_gate_gives_the_same_log_and_memory_everywhere_and_changes_no_turn_that_it_follows(
    tmp_path: Path,
) -> None:
    without = played(tmp_path / "without", "without", PLACES[0])
    first, second = (played(tmp_path / str(n), "open", place) for n, place in enumerate(PLACES))
    assert first == second
    assert first.keys() - without.keys() == {"t3_reflection.jsonl"}
    for stage in ("t2.jsonl", "t4.jsonl", "turn.jsonl", "apply.jsonl"):
        assert first[stage].splitlines()[0] == without[stage].splitlines()[0]
    told = [json.loads(line) for line in first["t3_reflection.jsonl"].splitlines()]
    assert [(line["agent"], line["turn"]) for line in told] == [
        (agent, turn) for turn, agent in enumerate(("AgentA", "AgentB", "AgentA", "AgentB"), start=1)
    ]
    retrieved = [json.loads(line)["retrieved"] for line in first["t2.jsonl"].splitlines()]
    assert any(name.startswith("refl-") for names in retrieved[1:] for name in names)
