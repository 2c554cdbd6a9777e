"""The log from before the first look: each Write and Edit, and each commit."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from reflector.events.memory import UNSEEN
from reflector.memory.backfill import fill_back
from reflector.memory.looks import plain_digest
from reflector.memory.recording import Recorder
from reflector.project import Project
from tests.memory.world import World


def _filled(world: World) -> int:
    project = Project.at(world.root)
    project.make_state_dir()
    with project.open_ledger() as ledger:
        recorder = Recorder(project, lambda: ledger, world.root, "project")
        return fill_back(recorder, sorted(world.transcripts.rglob("*.jsonl")))


def _calls(world: World) -> list[tuple[str, str, str]]:
    """The file, session and id of each Write and Edit of a transcript."""
    calls = []
    for path in sorted(world.transcripts.rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            for block in record["message"]["content"]:
                if isinstance(block, dict) and block.get("name") in ("Write", "Edit"):
                    file = Path(block["input"]["file_path"]).relative_to(world.root).as_posix()
                    calls.append((file, record["sessionId"], block["id"]))
    return calls


@pytest.fixture
def past(world: World) -> World:
    """50 sessions that changed watched files and another one."""
    draw = random.Random(49)
    for number in range(50):
        session = world.begins()
        for _ in range(draw.randint(1, 4)):
            file = draw.choice(("CLAUDE.md", ".claude/rules/a.md", "AGENTS.md"))
            if world.path(file).exists() and draw.random() < 0.6:
                lines = world.path(file).read_text().splitlines(keepends=True)
                session.edits(file, draw.choice(lines), f"- Edit {draw.random()}.\n")
            else:
                session.writes(file, f"# Session {number}\n- Rule {draw.random()}.\n")
        session.calls("Write", file_path=str(world.path("notes.md")), content="No memory.\n")
    return world


def test_each_write_and_edit_is_in_the_log(past: World) -> None:
    _filled(past)
    logged = [(event["file"], event["session"], event["call"]) for event in past.events()]
    watched = [call for call in _calls(past) if call[0] != "notes.md"]
    assert sorted(logged[1:]) == sorted(watched)


def test_contents_are_replayed_from_the_first_whole_one(past: World) -> None:
    _filled(past)
    ends = {event["file"]: event["after"] for event in past.events()}
    assert ends[".claude/rules/a.md"] == past.digest(".claude/rules/a.md")
    assert UNSEEN not in {event["after"] for event in past.events()[-20:]}


def test_filling_back_twice_adds_nothing(past: World) -> None:
    assert _filled(past) > 50
    assert _filled(past) == 0


def test_look_after_history_records_no_call_again(past: World) -> None:
    _filled(past)
    before = len(past.events())
    past.record()
    past.record()
    assert len(past.events()) == before


def test_call_after_first_look_is_left_to_looks(world: World) -> None:
    world.record()
    world.begins().edits("CLAUDE.md", "make test", "make check")
    world.record()
    before = len(world.events())
    _filled(world)
    assert [event["by"] for event in world.events()][before:] == ["commit"]


def test_calls_without_a_difference_are_left_out(world: World) -> None:
    world.record()
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    session.edits("CLAUDE.md", "make check", "make test")
    world.record()
    _filled(world)
    assert {event["by"] for event in world.events()} == {"commit"}


def test_commits_have_author_and_committer(world: World) -> None:
    with world.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    world.git("commit", "-qam", "mine", "--author", "Bob <bob@example.org>")
    _filled(world)
    events = world.events()
    assert [event["author"] for event in events] == ["Ana", "Bob (committed by Ana)"]
    assert [event["kind"] for event in events] == ["created", "edited"]
    assert events[1]["after"] == plain_digest(b"# Mine\n")


def test_edit_of_unseen_file_has_its_lines(world: World) -> None:
    world.begins().edits("CLAUDE.md", "- Run make test.", "- Run make check.")
    _filled(world)
    event: dict[str, Any] = world.events()[-1]
    assert (event["before"], event["after"]) == (UNSEEN, UNSEEN)
    assert event["added"] == [{"line": 0, "text": "- Run make check."}]


def test_fork_repeats_no_call(world: World) -> None:
    session = world.begins()
    session.writes("AGENTS.md", "# Agents\n")
    copy = world.transcripts / "fork.jsonl"
    copy.write_text(session.path.read_text())
    _filled(world)
    assert [event["by"] for event in world.events()].count("agent") == 1
