"""Transcripts are found wherever the client keeps them, and belong to the folder that their records name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflector.transcripts.discovery import find_transcript, find_transcripts, look_at
from tests.transcripts.agents import SESSION, Codex, Copilot, Pi, Session

RECORD = {"type": "user", "uuid": "u", "sessionId": "s", "timestamp": "2026-01-02T03:04:05Z", "cwd": "/home/me/shop"}


def write(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_folder_and_time_are_read_from_the_first_records_that_have_them(tmp_path: Path) -> None:
    later = {**RECORD, "uuid": "v", "timestamp": "2026-01-03T03:04:05Z", "cwd": "/elsewhere"}
    found = look_at(path := write(tmp_path / "s.jsonl", {"type": "summary", "leafUuid": "u"}, RECORD, later))
    assert (found.cwd, found.started_at, found.bytes) == (RECORD["cwd"], RECORD["timestamp"], path.stat().st_size)


def test_subagents_are_found_and_what_is_no_transcript_is_not(tmp_path: Path) -> None:
    places = ("-p/s.jsonl", "-p/s/subagents/agent-1.jsonl", "-p/s/subagents/workflows/w/journal.jsonl")
    *wanted, _ = (write(tmp_path / place, RECORD) for place in places)
    (tmp_path / "-p" / "folder.jsonl").mkdir()
    (tmp_path / "-p" / "memory.md").touch()
    assert {found.path for found in find_transcripts(tmp_path)} == set(wanted)


def test_a_broken_file_belongs_to_nobody_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\x00{{{\n" * 1000)
    (tmp_path / "b.jsonl").write_bytes(b"x" * 20_000_000)
    write(tmp_path / "c.jsonl", {"cwd": 7, "timestamp": None}, {"cwd": "/p", "timestamp": "t"})
    assert [found.cwd for found in find_transcripts(tmp_path)] == ["", "", "/p"]


@pytest.mark.parametrize("session", [Codex(), Copilot(), Pi()], ids=lambda session: session.agent)
def test_the_folder_is_where_each_agent_puts_it(tmp_path: Path, session: Session) -> None:
    found = look_at(session.cites("pat-001").write(tmp_path / "s.jsonl"))
    assert found.cwd == "/home/ada/shop"
    assert found.started_at


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("CODEX_HOME", f"sessions/2026/09/02/rollout-2026-09-02T13-53-17-{SESSION}.jsonl"),
        ("COPILOT_HOME", f"session-state/{SESSION}/events.jsonl"),
    ],
)
def test_a_session_whose_hook_named_no_transcript_is_found_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    assert find_transcript(SESSION) is None
    path = write(tmp_path / place)
    assert find_transcript(SESSION) == path
    for other in (None, "", "*", f"*{SESSION[1:]}", "../../etc/passwd"):
        assert find_transcript(other) is None
