"""A host with the gate closed writes the bytes that it wrote before it had the step: other process, other place.

The host is an agent loop of somebody else's, small and whole: it retrieves, plans, speaks, applies, and logs each
stage. `python -m tests.gating.test_identity FOLDER MODE` plays four turns of two agents. MODE is `without` (the loop
before anybody wrote a reflection step), `config`, `plan` or `dry` (the gate is closed in that way), or `open`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector.gated import FILE_NAME, ReflectionBundle, ReflectionLog, after_turn, entry_id, load_config

ROOT = Path(__file__).parents[2]
PLACES = [
    {"PYTHONHASHSEED": "0", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "CI": "true"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8", "CI": "true"},
]
SAID = [
    ("AgentA", "Which port does the staging database use?"),
    ("AgentB", "日本語のメモを残して。 It is naïve – and TZ matters!"),
    ("AgentA", "And the port of the cache?"),
    ("AgentB", "Repeat the memo, please."),
]
DOCUMENTS = ["The staging database listens on port 5433.", "The cache listens on port 6380.", "A memo has one author."]


def play(folder: Path, mode: str) -> None:
    """Play the turns, and write each stage's log and the memory into a folder."""
    memory: list[dict[str, Any]] = [{"id": f"doc-{n}", "text": text} for n, text in enumerate(DOCUMENTS)]
    for number, (agent, said) in enumerate(SAID, start=1):
        words = {word.strip("?.,!;").lower() for word in said.split()}
        found = sorted(memory, key=lambda one: (-len(words & {*one["text"].lower().split()}), one["id"]))[:3]
        plan, utter = {"ops": ["answer"], "reflection": mode != "plan"}, f"{agent}: {found[0]['text']}"
        print(utter)
        stages = {"t2": [one["id"] for one in found], "t4": plan["ops"], "apply": len(memory), "turn": utter}
        for stage, told in stages.items():
            if (stage, mode) != ("apply", "dry"):
                with (folder / f"{stage}.jsonl").open("a", encoding="utf-8", newline="\n") as file:
                    file.write(json.dumps({"turn": number, "agent": agent, "told": told}) + "\n")
        ctx = {"agent_id": agent, "turn_id": number, "now_ms": 1_000 * number, "_dry_run_until_t4": mode == "dry"}
        result = mode != "without" and after_turn(
            ReflectionBundle(ctx, {}, plan, utter, [one["text"] for one in found]),
            load_config({"t3": {"allow_reflection": mode != "config"}}),
            log=ReflectionLog(folder / FILE_NAME),
        )
        for slot, entry in enumerate(result.memory_entries if result else ()):
            memory.append({"id": entry_id(agent, number, slot, entry["text"]), **entry})
    (folder / "memory.json").write_text(json.dumps(memory), encoding="utf-8")


def played(folder: Path, mode: str, place: dict[str, str]) -> dict[str, bytes]:
    """What a host that ran in a process of its own said and wrote, by file."""
    folder.mkdir()
    command = [sys.executable, "-X", "utf8", "-m", "tests.gating.test_identity", str(folder), mode]
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


def test_an_open_gate_writes_the_same_everywhere_and_changes_no_turn_that_it_follows(tmp_path: Path) -> None:
    without = played(tmp_path / "without", "without", PLACES[0])
    first, second = (played(tmp_path / str(n), "open", place) for n, place in enumerate(PLACES))
    assert first == second
    assert first.keys() - without.keys() == {FILE_NAME}
    for stage in ("t2.jsonl", "t4.jsonl", "turn.jsonl", "apply.jsonl"):
        assert first[stage].splitlines()[0] == without[stage].splitlines()[0]
    told = [json.loads(line) for line in first[FILE_NAME].splitlines()]
    assert [(line["agent"], line["turn"]) for line in told] == [(one[0], n) for n, one in enumerate(SAID, start=1)]
    assert b'"refl-' in b"".join(first["t2.jsonl"].splitlines()[1:])


if __name__ == "__main__":
    play(Path(sys.argv[1]), sys.argv[2])
