"""What git knows of a project's files: the last edit, and paths of rules that are gone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reflector.check.project_files import last_edit, missing_paths
from tests.road.agent import Agent

RULE = "Put translations into `locales/`."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one commit of 2020, whose folder of translations is gone since."""
    agent = Agent.bare(tmp_path)
    (agent.project / "locales").mkdir()
    (agent.project / "locales/de.txt").write_text("ja")
    (agent.project / "CLAUDE.md").write_text(f"- {RULE}\n")
    agent.commit_long_ago()
    (agent.project / "locales/de.txt").unlink()
    (agent.project / "locales").rmdir()
    return agent.project


def test_a_path_that_is_gone_is_named(root: Path) -> None:
    assert missing_paths(root, [RULE]) == {RULE: "locales/"}


@pytest.mark.parametrize(
    "path",
    ["src/", "../locales/", "a/../../locales/", "x" * 300 + "/y", "CLAUDE.md/"],
    ids=["never there", "outside", "outside by a detour", "too long", "a file"],
)
def test_no_other_path_is_gone(root: Path, path: str) -> None:
    assert missing_paths(root, [f"Use `{path}`."]) == {}


def test_a_folder_that_is_there_is_not_gone(root: Path) -> None:
    (root / "locales").mkdir()
    assert missing_paths(root, [RULE]) == {}


def test_last_edit_is_that_of_the_last_commit(root: Path) -> None:
    assert last_edit(root, ["CLAUDE.md"]) == datetime(2020, 1, 1, tzinfo=UTC)


def test_uncommitted_change_is_the_last_edit(root: Path) -> None:
    (root / "CLAUDE.md").write_text("- Answer in English.\n")
    edited = last_edit(root, ["CLAUDE.md"])
    assert edited is not None
    assert edited > datetime(2025, 1, 1, tzinfo=UTC)


def test_without_git_nothing_is_claimed(tmp_path: Path) -> None:
    assert last_edit(tmp_path, ["CLAUDE.md"]) is None
    assert missing_paths(tmp_path, [RULE]) == {}
