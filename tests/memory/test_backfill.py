"""The log from before the first look: each Write and Edit, and each commit."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.attribution.steps import Step, plain_digest
from reflector.events.event import NewEvent
from reflector.events.memory import UNSEEN
from reflector.memory import recording
from reflector.project import Project
from tests.memory.world import World, patch_detail


def _filled(world: World) -> int:
    project = Project.at(world.root)
    project.make_state_dir()
    before = len(world.events())
    assert world.fill() == []
    return len(world.events()) - before


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


@pytest.mark.slow
def test_filling_back_twice_adds_nothing(past: World) -> None:
    assert _filled(past) > 50
    assert _filled(past) == 0


@pytest.mark.slow
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


@pytest.mark.parametrize("user", ["~\0x", "~\ud800"])
def test_odd_path_hides_no_later_call(world: World, user: str) -> None:
    session = world.begins()
    session.calls("Write", file_path=f"{user}/CLAUDE.md", content="x")
    session.edits("CLAUDE.md", "make test", "make check")
    _filled(world)
    assert "agent" in [event["by"] for event in world.events()]


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


def test_original_file_gives_exact_digests(world: World) -> None:
    before = world.path("CLAUDE.md").read_bytes()
    session = world.begins()
    edit = {"old_string": "make test", "new_string": "make check"}
    detail = {"originalFile": before.decode()}
    session.calls("Edit", file_path=str(world.path("CLAUDE.md")), detail=detail, **edit)
    _filled(world)
    event = world.events()[-1]
    after = before.replace(b"make test", b"make check")
    assert (event["before"], event["after"]) == (plain_digest(before), plain_digest(after))
    assert [line["line"] for line in event["added"]] == [3]


_LONG = "".join(f"- Rule {number}.\n" for number in range(40))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_LONG, _LONG.replace("- Rule 9.\n", "- Rule 9.\n- More.\n")),
        (_LONG, _LONG.replace("- Rule 3.\n", "").replace("Rule 30", "Law 30")),
        (_LONG, f"# Top\n{_LONG}- End.\n"),
        ("", _LONG),
        (_LONG, "- Rule 1.\n"),
    ],
)
def test_patch_gives_the_earlier_version(world: World, before: str, after: str) -> None:
    detail = patch_detail(before, after)
    file = str(world.path("CLAUDE.md"))
    world.begins().calls("Write", file_path=file, content=after, detail=detail)
    _filled(world)
    event = world.events()[-1]
    digests = (plain_digest(before.encode()), plain_digest(after.encode()))
    assert (event["before"], event["after"]) == digests


@pytest.mark.parametrize(
    "odd",
    [
        {"lines": ["+- Other.", " - Rule 1."]},
        {"lines": ["+- Rule 0.", "\\ No newline at end of file"]},
        {"lines": [None]},
        {"lines": "+"},
        {"newStart": None},
    ],
)
def test_odd_patch_gives_no_earlier_version(world: World, odd: dict[str, Any]) -> None:
    detail = patch_detail(_LONG.replace("- Rule 0.\n", ""), _LONG)
    detail["structuredPatch"][0] |= odd
    file = str(world.path("CLAUDE.md"))
    world.begins().calls("Write", file_path=file, content=_LONG, detail=detail)
    _filled(world)
    assert world.events()[-1]["before"] == UNSEEN


def test_patch_of_a_file_with_tabs_is_ignored(world: World) -> None:
    """Claude Code shows a leading tab of a patch as spaces."""
    after = f"- List:\n\t- Part.\n{_LONG}- End.\n"
    detail = patch_detail(after.removesuffix("- End.\n"), after)
    file = str(world.path("CLAUDE.md"))
    world.begins().calls("Write", file_path=file, content=after, detail=detail)
    _filled(world)
    assert world.events()[-1]["before"] == UNSEEN


def test_created_file_had_no_content(world: World) -> None:
    session = world.begins()
    file = str(world.path("AGENTS.md"))
    session.calls("Write", file_path=file, content="# New\n", detail={"type": "create"})
    _filled(world)
    event = world.events()[-1]
    assert (event["kind"], event["before"]) == ("created", "")


def test_fork_repeats_no_call(world: World) -> None:
    session = world.begins()
    session.writes("AGENTS.md", "# Agents\n")
    copy = world.transcripts / "fork.jsonl"
    copy.write_text(session.path.read_text())
    _filled(world)
    assert [event["by"] for event in world.events()].count("agent") == 1


@pytest.mark.parametrize("name", [b"\xff.md", "a\u200bb.md".encode(), b"a\nb.md"])
def test_commit_of_an_odd_name_stops_nothing(world: World, name: bytes) -> None:
    rules = world.path(".claude/rules")
    rules.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(rules) + b"/" + name)).write_text("x\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "odd")
    _filled(world)
    assert [event["file"] for event in world.events()] == ["CLAUDE.md"]


def test_far_year_of_a_commit_is_bounded(world: World) -> None:
    world.path("CLAUDE.md").write_text("# Mine\n")
    world.git("commit", "-qam", "far", began="@253402300800 +0000")
    _filled(world)
    assert len(world.events()) == 2


def test_long_session_id_is_shortened(world: World) -> None:
    session = world.begins()
    session.id = "s" * 2_000
    session.writes("AGENTS.md", "# Agents\n")
    _filled(world)
    assert world.events()[-1]["session"].startswith("sss")


def test_refused_event_is_dropped_with_a_note(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.record()
    with world.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    with world.changes("AGENTS.md", "you") as path:
        path.write_text("# Agents\n")
    of = recording.event_of

    def odd(project: Project, step: Step, source: str, **options: Any) -> NewEvent:
        event = of(project, step, source, **options)
        return replace(event, session_id="s" * 2_000) if step.file == "AGENTS.md" else event

    with monkeypatch.context() as patched:
        patched.setattr(recording, "event_of", odd)
        (note,) = world.record()
    assert note.startswith("a change of 'AGENTS.md' was not recorded: ")
    assert world.record() == []
    assert [event["file"] for event in world.events()] == ["CLAUDE.md"]


@pytest.fixture(params=["link", "config", "home"])
def users(world: World, request: pytest.FixtureRequest) -> World:
    """A project in which CLAUDE.md is the user's own: a link, their own folder, or their home."""
    own = world.path("~/.claude/CLAUDE.md")
    own.write_text("# Mine\n")
    if request.param == "link":
        world.path("CLAUDE.md").unlink()
        world.path("CLAUDE.md").symlink_to(own)
        return world  # its commits are passed over, too, because the file leads out of the project
    world.root = world.home / ".claude" if request.param == "config" else world.home
    world.git("init", "-q", "-b", "main")
    world.git("add", "-A")
    world.git("commit", "-qm", "dotfiles")
    return world


def test_users_own_file_is_in_no_projects_log(users: World) -> None:
    own = users.path("~/.claude/CLAUDE.md")
    session = users.begins()
    for path in filter(Path.exists, (own, users.root / "CLAUDE.md")):
        session.calls("Edit", file_path=str(path), old_string="Mine", new_string="Ours")
    _filled(users)
    users.record()
    own.write_text("# Ours\n")
    users.record()
    assert users.events() == []


def test_command_is_not_filled_back(world: World) -> None:
    session = world.begins()
    session.writes("AGENTS.md", "# Agents\n")
    session.runs("AGENTS.md", "sed -i s/Agents/Agent/ AGENTS.md")
    session.edits("AGENTS.md", "# Agent\n", "# The agent\n")
    _filled(world)
    agents = [event for event in world.events() if event["by"] == "agent"]
    assert [event["after"] for event in agents] == [plain_digest(b"# Agents\n"), UNSEEN]


def test_part_of_a_line_is_not_kept(world: World) -> None:
    path = world.path("CLAUDE.md")
    path.write_text("# Rules\n\n- The key is hunter2-correct-horse.\n- Lint.\n")
    session = world.begins()
    session.edits("CLAUDE.md", "hunter2-correct-horse", "battery9-staple-torque")
    session.edits("CLAUDE.md", "- Lint.", "- Lint first.")
    _filled(world)
    edits = [event for event in world.events() if event["by"] == "agent"]
    assert "hunter2" not in str(edits)
    assert "battery9" not in str(edits)
    assert [line["text"] for line in edits[1]["added"]] == ["- Lint first."]
