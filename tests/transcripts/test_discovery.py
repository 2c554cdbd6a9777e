"""Transcripts are found wherever the client keeps them, and belong to the folder that their records name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflector.locate import agent_folder
from reflector.transcripts.discovery import find_transcripts, look_at
from tests.transcripts.agents import Codex, Copilot, Pi, Session


def write(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_folder_and_time_are_read_from_the_first_records_that_have_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        {"type": "summary", "leafUuid": "u"},
        {"type": "user", "uuid": "u", "sessionId": "s", "timestamp": "2026-01-02T03:04:05Z", "cwd": "/home/me/shop"},
        {"type": "user", "uuid": "v", "sessionId": "s", "timestamp": "2026-01-03T03:04:05Z", "cwd": "/elsewhere"},
    )
    found = look_at(path)
    assert (found.cwd, found.started_at) == ("/home/me/shop", "2026-01-02T03:04:05Z")
    assert found.bytes == path.stat().st_size


def test_subagents_are_found_and_what_is_no_transcript_is_not(tmp_path: Path) -> None:
    record = {"type": "user", "uuid": "u", "sessionId": "s", "cwd": "/p"}
    wanted = {
        write(tmp_path / "-p" / "s.jsonl", record),
        write(tmp_path / "-p" / "s" / "subagents" / "agent-1.jsonl", record),
    }
    write(tmp_path / "-p" / "s" / "subagents" / "workflows" / "w" / "journal.jsonl", record)
    (tmp_path / "-p" / "folder.jsonl").mkdir()
    (tmp_path / "-p" / "memory.md").touch()
    assert {found.path for found in find_transcripts(tmp_path)} == wanted


def test_a_broken_file_belongs_to_nobody_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\x00{{{\n" * 1000)
    (tmp_path / "b.jsonl").write_bytes(b"x" * 20_000_000)
    write(tmp_path / "c.jsonl", {"cwd": 7, "timestamp": None}, {"cwd": "/p", "timestamp": "t"})
    assert [(found.path.name, found.cwd) for found in find_transcripts(tmp_path)] == [
        ("a.jsonl", ""),
        ("b.jsonl", ""),
        ("c.jsonl", "/p"),
    ]


@pytest.mark.parametrize("session", [Codex(), Copilot(), Pi()], ids=lambda session: session.agent)
def test_the_folder_is_where_each_agent_puts_it(tmp_path: Path, session: Session) -> None:
    session.cites("pat-001")
    found = look_at(session.write(tmp_path / "s.jsonl"))
    assert found.cwd == "/home/ada/shop"
    assert found.started_at


def test_the_clients_folder_is_where_its_configuration_is() -> None:
    assert agent_folder({"HOME": "/h"}) == "/h/.claude"
    assert agent_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == "/c"
