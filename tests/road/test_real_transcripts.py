"""Real sessions of Claude Code, in whatever order and however often they come.

The transcripts are not part of the project. No public one cites a playbook, so citations, and a person's thanks
for them, are planted in copies; every record keeps its uuid.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.reading import read_messages, scan
from tests.road.agent import Agent

SHARED = Path(os.environ.get("REFLECTOR_TRANSCRIPTS") or Path(__file__).parents[3] / "shared" / "transcripts")
FILES = sorted(SHARED.glob("*.jsonl")) if SHARED.is_dir() else []

pytestmark = pytest.mark.skipif(not FILES, reason="set REFLECTOR_TRANSCRIPTS to a folder of real transcripts")

GROWING = ("growing-1.jsonl", "growing-2-glued-line.jsonl")
FORK = ("fork-original.jsonl", "fork-new-session-id.jsonl")
THANKS = "Perfect, that works. Thanks!"


def shared(*names: str) -> list[Path]:
    if missing := [name for name in names if not (SHARED / name).exists()]:
        pytest.skip(f"{', '.join(missing)} is not in {SHARED}")
    return [SHARED / name for name in names]


@pytest.mark.parametrize("seed", range(3))
def test_every_file_twice_in_any_order_takes_each_record_in_once(agent: Agent, seed: int) -> None:
    chance = random.Random(seed)
    first, second = (chance.sample(FILES, len(FILES)) for _ in range(2))
    agent.call("ingest", *first)
    events = agent.events()
    told = agent.call("ingest", *second).out.splitlines()[1:]
    assert all(line.endswith("nothing new") for line in told)
    assert agent.events() == events
    windows = [event["data"]["window"] for event in events if event["type"] == "session.recorded"]
    distinct = {key for path in FILES for key in scan(path).keys}
    assert sum(window["records"] for window in windows) == len(distinct)
    assert agent.call("verify").out == ""
    assert agent.counters()["pat-001"] == (0, 0)


def test_a_fork_adds_only_the_records_that_its_original_lacks(agent: Agent) -> None:
    original, fork = shared(*FORK)
    agent.call("ingest", original)
    agent.call("ingest", fork)
    of_original, of_fork = (event["data"]["window"]["records"] for event in agent.events("session.recorded"))
    assert of_original == len(scan(original).keys)
    assert of_fork == len(set(scan(fork).keys) - set(scan(original).keys))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("names", [GROWING, FORK], ids=["a file that grows", "a fork"])
def test_each_citation_counts_once_in_two_files_that_share_records(
    agent: Agent, tmp_path: Path, names: tuple[str, str], backwards: bool
) -> None:
    short, long = shared(*names)
    known, new = scan(short).keys, set(scan(long).keys) - set(scan(short).keys)
    planted = [
        plant(path, tmp_path / path.name, {"pat-001": exchange(long, known), "mis-001": exchange(long, new)})
        for path in (short, long)
    ]
    for path in reversed(planted) if backwards else planted:
        agent.call("ingest", path)
    agent.call("ingest", *planted)
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (3, 1), "mis-001": (1, 0)}
    agent.call("verify")


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "subagent-file"], ids=lambda path: path.stem)
def test_a_compaction_and_then_the_end_count_a_citation_once(agent: Agent, tmp_path: Path, path: Path) -> None:
    planted = plant(path, tmp_path / path.name, {"pat-001": exchange(path, scan(path).keys)})
    for event in ("PreCompact", "SessionEnd", "SessionEnd"):
        agent.hook(event, session_id=scan(path).session_id, transcript_path=str(planted))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert len(agent.events("session.recorded")) == 1


def test_a_session_cut_at_any_line_is_taken_in_whole_and_counts_once(agent: Agent, tmp_path: Path) -> None:
    (path,) = shared("growing-2-glued-line.jsonl")
    planted = plant(path, tmp_path / "planted.jsonl", {"pat-001": exchange(path, scan(path).keys)})
    whole = planted.read_bytes()
    growing = tmp_path / "growing.jsonl"
    for share in (0.2, 0.41, 0.6, 0.83, 1.0):
        growing.write_bytes(whole[: int(len(whole) * share)])
        agent.call("ingest", growing)
    records = sum(event["data"]["window"]["records"] for event in agent.events("session.recorded"))
    assert records == len(scan(planted).keys)
    assert agent.counters()["pat-001"] == (1, 0)


Exchange = tuple[str, str]


def exchange(path: Path, within: Iterable[int]) -> Exchange:
    """uuids of the model's words and of the next record of a user, the last of such pairs on the main chain."""
    wanted, whole = frozenset(within), {record.get("uuid") for record in records(path)}
    found, words = None, None
    for message in read_messages(path):
        if message.chain or message.key not in wanted or message.uuid not in whole:
            continue
        if message.origin == "model" and message.text:
            words = message.uuid
        elif message.role == "user" and words is not None:
            found, words = (words, message.uuid), None
    assert found is not None, f"nobody answers the model in {path}"
    return found


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records that have a line to themselves."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def plant(path: Path, copy: Path, exchanges: dict[str, Exchange]) -> Path:
    """A copy in which the model cites each name and a person thanks it for that."""
    cited = {words: f"As [{name}] says, I do it." for name, (words, _) in exchanges.items()}
    thanked = {answer for _, answer in exchanges.values()}

    def change(record: dict[str, Any]) -> bool:
        if record.get("uuid") in cited:
            record["message"]["content"] = [{"type": "text", "text": cited[record["uuid"]]}]
        elif record.get("uuid") in thanked:
            record["message"]["content"] = THANKS
            for key in ("toolUseResult", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "origin"):
                record.pop(key, None)
        else:
            return False
        return True

    return rewritten(path, copy, change)


def rewritten(path: Path, copy: Path, change: Callable[[dict[str, Any]], bool]) -> Path:
    """A copy in which the records that `change` changed, as it says, are other ones."""
    lines = []
    for raw in path.read_bytes().splitlines(keepends=True):
        line = raw
        with suppress(ValueError):
            record = json.loads(raw)
            if isinstance(record, dict) and change(record):
                line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        lines.append(line)
    copy.write_bytes(b"".join(lines))
    return copy
