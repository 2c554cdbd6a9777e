"""Who changed a file between two looks: an agent, git, you, or somebody unknown."""

import time
from typing import Any

import pytest

from tests.conftest import first_fast
from tests.memory.world import World


def _authors(world: World, scope: Any = "project") -> list[tuple[str, str, str]]:
    return [(event["file"], event["by"], event["session"]) for event in world.events(scope)]


@pytest.fixture
def looked(world: World) -> World:
    """A project at whose files was looked once."""
    assert world.record() == []
    assert world.events() == []
    return world


def test_edit_of_agent_has_session_and_call(looked: World) -> None:
    session = looked.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    looked.record()
    (event,) = looked.events()
    assert event["by"] == "agent"
    assert event["agent"] == "Claude Code"
    assert (event["session"], event["call"]) == (session.id, f"toolu_{session.id[:8]}_2")
    assert event["added"] == [{"line": 3, "text": "- Run make check."}]
    assert event["removed"] == [{"line": 3, "text": "- Run make test."}]


def test_edit_between_sessions_is_yours(looked: World) -> None:
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    looked.record()
    assert _authors(looked) == [("CLAUDE.md", "you", "")]


def test_unexplained_change_of_session_is_unknown(looked: World) -> None:
    session = looked.begins()
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    session.says("Go on.")
    looked.record()
    assert _authors(looked) == [("CLAUDE.md", "unknown", session.id)]


def test_edit_of_a_link_is_the_agents(world: World) -> None:
    target = world.path("docs/agents.md")
    target.parent.mkdir()
    world.path("CLAUDE.md").rename(target)
    world.path("CLAUDE.md").symlink_to("docs/agents.md")
    world.record()
    session = world.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    world.record()
    assert _authors(world) == [("CLAUDE.md", "agent", session.id)]


def test_hand_edit_beside_agents_is_told_apart(looked: World) -> None:
    session = looked.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text(path.read_text() + "- By hand.\n")
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["agent", "unknown"]


def test_later_hand_edit_is_not_the_agents(looked: World) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", "echo '- By a command.' >> CLAUDE.md")
    time.sleep(0.05)  # the clock of the files has ticks
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text(path.read_text() + "- By hand.\n")
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_hand_edit_before_agents_is_told_apart(looked: World) -> None:
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text(path.read_text() + "- By hand.\n")
    looked.begins().edits("CLAUDE.md", "By hand", "By agent")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown", "agent"]


def test_result_shows_hand_edit_before_a_write(looked: World) -> None:
    session = looked.begins()
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text(path.read_text() + "- By hand.\n")
    former = path.read_text()
    path.write_text(former + "- By agent.\n")
    detail = {"originalFile": former}
    session.calls("Write", file_path=str(path), content=path.read_text(), detail=detail)
    looked.record()
    added = [(event["by"], event["added"][0]["text"]) for event in looked.events()]
    assert added == [("unknown", "- By hand."), ("agent", "- By agent.")]


def test_command_before_a_shown_edit_is_the_agents(looked: World) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", "echo '- More.' >> CLAUDE.md")
    former = looked.path("CLAUDE.md").read_text()
    looked.path("CLAUDE.md").write_text(former.replace("make test", "make check"))
    edit = {"old_string": "make test", "new_string": "make check"}
    detail = {"originalFile": former}
    session.calls("Edit", file_path=str(looked.path("CLAUDE.md")), detail=detail, **edit)
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["agent", "agent"]


@pytest.mark.parametrize(
    "command", ["echo '- More.' >> CLAUDE.md", "sed -i s/Rules/More/ CLAUDE.md"]
)
def test_hand_edit_between_command_and_edit_is_unknown(looked: World, command: str) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", command)
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text(path.read_text() + "- By hand.\n")
    session.edits("CLAUDE.md", "make test", "make check", shows=True)
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown", "agent"]


def test_replacing_command_before_shown_edit_is_the_agents(looked: World) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", "sed -i 's/make test/make check/' CLAUDE.md")
    session.edits("CLAUDE.md", "# Rules", "# Ours", shows=True)
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["agent", "agent"]


@pytest.mark.parametrize(("line", "by"), [("- Grüße \u4f60.", "agent"), ("- \ud800", "unknown")])
def test_letters_of_every_language_explain_a_change(looked: World, line: str, by: str) -> None:
    session = looked.begins()
    patch = f"*** Begin Patch\n*** Update File: CLAUDE.md\n+{line}\n*** End Patch\n"
    with looked.changes("CLAUDE.md", "agent") as path:
        path.write_bytes(path.read_bytes() + f"{line}\n".encode("utf-8", "replace"))
    session.calls("Edit", input=patch)
    time.sleep(0.05)  # the clock of the files has ticks
    path.touch()
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == [by]


@pytest.mark.parametrize(
    ("command", "by"),
    [("echo '- By a command.' >> CLAUDE.md", "agent"), ("touch CLAUDE.md", "unknown")],
)
def test_running_command_needs_the_words(looked: World, command: str, by: str) -> None:
    def change() -> None:
        with looked.changes("CLAUDE.md", "you") as path:
            path.write_text("# Rules\n\n- Run make test.\n- By a command.\n")
        looked.record()

    session = looked.begins()
    session.runs("CLAUDE.md", command, change)
    looked.record()
    assert _authors(looked) == [("CLAUDE.md", by, session.id)]


def test_commands_of_two_sessions_name_nobody(looked: World) -> None:
    for session in (looked.begins(), looked.begins()):
        session.runs("CLAUDE.md", f"echo '- By {session.id}.' >> CLAUDE.md")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_commands_of_one_session_are_the_agents(looked: World) -> None:
    session = looked.begins()
    for line in ("One", "Two"):
        session.runs("CLAUDE.md", f"echo '- {line}.' >> CLAUDE.md")
    looked.record()
    assert _authors(looked) == [("CLAUDE.md", "agent", session.id)]


def test_command_after_hand_edit_names_nobody(looked: World) -> None:
    session = looked.begins()
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    time.sleep(0.05)  # the clock of the files has ticks
    session.runs("CLAUDE.md", "touch -r CLAUDE.md other")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_deletion_after_appending_command_is_unknown(looked: World) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", "echo '- More.' >> CLAUDE.md")
    with looked.changes("CLAUDE.md", "you") as path:
        path.unlink()
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_shown_lines_of_windows_are_the_same(looked: World) -> None:
    path = looked.path("CLAUDE.md")
    path.write_bytes(b"# Rules\r\n\r\n- Run make test.\r\n")
    looked.record()
    session = looked.begins()
    path.write_bytes(b"# Rules\r\n\r\n- Run make check.\r\n")
    edit = {"old_string": "make test", "new_string": "make check"}
    detail = {"originalFile": "# Rules\n\n- Run make test.\n"}
    session.calls("Edit", file_path=str(path), detail=detail, **edit)
    looked.record()
    assert [by for _, by, _ in _authors(looked)][1:] == ["agent"]


def test_checkout_with_line_ends_of_windows_is_named(world: World) -> None:
    world.path(".gitattributes").write_text("* text eol=crlf\n")
    world.path("CLAUDE.md").write_bytes(b"# One\r\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "one")
    world.git("checkout", "-qb", "other")
    world.path("CLAUDE.md").write_bytes(b"# Two\r\n")
    world.git("commit", "-qam", "two")
    world.record()
    world.git("checkout", "-q", "main")
    world.record()
    assert [by for _, by, _ in _authors(world)] == ["checkout"]
    assert world.events()[-1]["after"] == world.digest("CLAUDE.md")


@pytest.mark.parametrize(
    "command",
    first_fast(
        4,
        [
            "echo '- More.' >> CLAUDE.md",
            "sed -i s/test/check/ CLAUDE.md",
            "rm ./CLAUDE.md",
            "cp .gitignore CLAUDE.md",
            "cat README 2>/dev/null; mv CLAUDE.md AGENTS.md",
            "python3 -c \"open('CLAUDE.md', 'w').write('x')\"",
            "printf x | tee CLAUDE.md >/dev/null",
        ],
    ),
)
def test_command_that_writes_is_the_agents(looked: World, command: str) -> None:
    session = looked.begins()
    session.runs("CLAUDE.md", command)
    looked.record()
    assert ("CLAUDE.md", "agent", session.id) in _authors(looked)


@pytest.mark.parametrize(
    "command",
    first_fast(
        4,
        [
            "cat CLAUDE.md 2>/dev/null",
            "grep test CLAUDE.md > out.txt",
            "wc -l CLAUDE.md",
            "cp CLAUDE.md /tmp/b.md",
            "ln -s CLAUDE.md other",
            "python3 -c \"print(open('CLAUDE.md').read().replace('a', 'b'))\"",
            "python3 -c \"import sys; sys.stdout.write(open('CLAUDE.md').read())\"",
        ],
    ),
)
def test_command_that_reads_names_nobody(looked: World, command: str) -> None:
    session = looked.begins()
    session.calls("Bash", command=command)
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_file_that_came_and_went_names_nobody_later(looked: World) -> None:
    session = looked.begins()
    session.writes("AGENTS.md", "# Agents\n")
    looked.record()
    session.runs("AGENTS.md", "rm AGENTS.md")
    looked.record()
    session.writes("AGENTS.md", "# Again\n")
    session.runs("AGENTS.md", "rm AGENTS.md")
    looked.record()
    with looked.changes("AGENTS.md", "you") as path:
        path.write_text("# Mine\n")
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["agent", "agent", "unknown"]


def test_refused_call_names_nobody(looked: World) -> None:
    session = looked.begins()
    session.calls("Write", is_error=True, file_path=str(looked.path("CLAUDE.md")), content="x\n")
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    session.says("Go on.")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_waiting_call_names_nobody(looked: World) -> None:
    session = looked.begins()
    session.asks("Write", file_path=str(looked.path("CLAUDE.md")), content="x\n")
    with looked.changes("CLAUDE.md", "you") as path:
        path.write_text("# Mine\n")
    looked.record()
    assert [by for _, by, _ in _authors(looked)] == ["unknown"]


def test_two_agents_have_their_own_changes(looked: World) -> None:
    first = looked.begins()
    second = looked.begins()
    first.edits("CLAUDE.md", "make test", "make check")
    second.edits("CLAUDE.md", "# Rules", "# Our rules")
    first.edits("CLAUDE.md", "make check", "make all")
    looked.record()
    assert [session for _, _, session in _authors(looked)] == [first.id, second.id, first.id]


def test_checkout_and_commit_are_named(looked: World) -> None:
    looked.git("checkout", "-qb", "other")
    with looked.changes("CLAUDE.md", "git") as path:
        path.write_text("# Other\n")
    looked.git("commit", "-qam", "other")
    looked.record()
    looked.tracked_change("checkout", "-q", "main")
    looked.record()
    looked.tracked_change("merge", "-q", "other")
    looked.record()
    events = looked.events()
    assert [event["by"] for event in events] == ["commit", "checkout", "checkout"]
    assert events[0]["author"] == "Ana"
    assert events[0]["commit"] == looked.git("rev-parse", "other").strip()


def test_stash_is_named_by_its_commit(looked: World) -> None:
    looked.path("CLAUDE.md").write_text("# Mine\n")
    looked.record()
    looked.git("stash")
    looked.record()
    stash = looked.git("rev-parse", "refs/stash").strip()
    named = [(event["by"], event["commit"]) for event in looked.events()]
    assert named == [("you", ""), ("stash", stash)]


def test_reset_to_head_is_a_checkout(looked: World) -> None:
    looked.path("CLAUDE.md").write_text("# Mine\n")
    looked.record()
    looked.git("reset", "-q", "--hard")
    looked.record()
    assert [event["by"] for event in looked.events()] == ["you", "checkout"]


@pytest.mark.parametrize("command", ["checkout -qb side", "reset -q", "reset -q --hard"])
def test_move_that_kept_a_file_names_nobody(looked: World, command: str) -> None:
    path = looked.path("CLAUDE.md")
    path.write_text("# Draft\n")
    looked.record()
    path.write_text("# Mine\n")
    looked.git("commit", "-qam", "mine")
    looked.git(*command.split())
    looked.record()
    assert [event["by"] for event in looked.events()] == ["you", "you"]


def test_checkout_of_the_same_file_names_nobody(looked: World) -> None:
    path = looked.path("CLAUDE.md")
    committed = path.read_text()
    path.write_text("# Draft\n")
    looked.record()
    path.write_text(committed)
    looked.git("checkout", "-qb", "side")
    looked.record()
    assert [event["by"] for event in looked.events()] == ["you", "you"]


def test_committed_change_of_an_agent_is_its_own(looked: World) -> None:
    session = looked.begins()
    session.edits("CLAUDE.md", "make test", "make check")
    looked.git("commit", "-qam", "agent's")
    looked.record()
    assert _authors(looked) == [("CLAUDE.md", "agent", session.id)]


def test_memory_folder_is_in_users_ledger(looked: World) -> None:
    slug = looked.transcripts.name
    looked.record("user")
    session = looked.begins()
    session.writes(f"~/.claude/projects/{slug}/memory/MEMORY.md", "- Likes tests.\n")
    looked.record()
    looked.record("user")
    assert looked.events() == []
    file = f"~/.claude/projects/{slug}/memory/MEMORY.md"
    assert _authors(looked, "user") == [(file, "agent", session.id)]
    assert looked.events("user")[0]["kind"] == "created"
