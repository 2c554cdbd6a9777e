"""A playbook.json that a killed command, or somebody who cleaned the folder, left behind."""

import subprocess

import pytest

from reflector.changes.apply import apply_changes
from reflector.playbook.change import Change
from reflector.playbook_files import playbook_json
from tests.road.agent import Agent


@pytest.fixture
def written(agent: Agent) -> Agent:
    """A project whose playbook.json is up to date."""
    agent.call("add", "pat", "Written before.")
    return agent


def append_only(agent: Agent, text: str) -> None:
    """Append a rule as a command does that is killed before it writes the file."""
    with agent.open_ledger() as ledger:
        apply_changes(ledger, [Change("add", section="pat", text=text)], actor="human")


def test_question_writes_a_missing_file(written: Agent) -> None:
    written.playbook.unlink()
    written.call("list")
    assert "Written before." in written.playbook.read_text()


def test_question_writes_a_file_left_behind(written: Agent) -> None:
    append_only(written, "Of a killed command.")
    written.call("list")
    assert "Of a killed command." in written.playbook.read_text()
    assert written.call("rebuild", "--check").out == ""


def test_question_leaves_an_edited_file(written: Agent) -> None:
    edited = written.playbook.read_text().replace("Written before.", "Edited by hand.")
    written.playbook.write_text(edited)
    append_only(written, "Of a killed command.")
    written.call("list")
    assert written.playbook.read_text() == edited


def test_question_leaves_an_edit_that_it_took_in(written: Agent) -> None:
    written.playbook.write_text(
        written.playbook.read_text().replace("Written before.", "Edited by hand.")
    )
    written.call("list")
    edited = written.playbook.read_text()
    append_only(written, "Of a killed command.")
    assert "Edited by hand." in written.call("list").out
    assert written.playbook.read_text() == edited


def test_question_answers_where_the_file_cannot_be_written(
    written: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    append_only(written, "Of a killed command.")
    monkeypatch.setattr(playbook_json, "replace_read", refuse)
    assert "Of a killed command." in written.call("list").out


def test_question_leaves_a_file_that_git_tracks(written: Agent) -> None:
    git = ["git", "-C", str(written.project)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-f", ".claude/playbook.json"], check=True)
    before = written.playbook.read_bytes()
    append_only(written, "Of a killed command.")
    written.call("list")
    assert written.playbook.read_bytes() == before


def test_question_leaves_a_file_shared_by_git(written: Agent) -> None:
    subprocess.run(["git", "init", "-q"], cwd=written.project, check=True)
    written.call("team")
    written.playbook.unlink()
    written.call("list")
    assert not written.playbook.exists()
