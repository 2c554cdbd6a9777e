"""A project that was moved: `check` names the folder that has its sessions."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture(name="agent_here")
def one_with_a_rule(tmp_path: Path) -> Agent:
    """A project with a CLAUDE.md, in which no session worked."""
    agent = Agent.bare(tmp_path)
    (agent.project / "CLAUDE.md").write_text("- Run `make lint` before you commit.\n")
    agent.commit_long_ago()
    return agent


def _works_in(agent: Agent, folder: Path, *ids: str, names: str = "CLAUDE.md") -> Path:
    """Write sessions that worked in a folder and named a file in it; return the folder of their
    transcripts.
    """
    kept = agent.home / ".claude/projects" / str(folder).replace("/", "-")
    for session_id in ids:
        session = Session(session_id).user("Go.").runs("make lint && git commit -m x", "ok")
        session.runs(f"cat {folder}/{names}", "ok")
        for record in session.records:
            record["cwd"] = str(folder)
        session.write(kept / f"{session_id}.jsonl")
    return kept


def _next(agent: Agent) -> str:
    """Return the page in one line."""
    return " ".join(agent.call("check").out.split())


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("gone/project", "a folder that no longer exists and had this project's name"),
        ("gone/project/src", "a folder that no longer exists and had this project's name"),
        ("old-name", "a folder that no longer exists and had this project's files"),
    ],
)
def test_former_folder_is_named(agent_here: Agent, folder: str, why: str) -> None:
    former = agent_here.project.parent / folder
    kept = _works_in(agent_here, former, "s-1", "s-2")
    shown = _next(agent_here)
    assert f", {why}. To count these sessions: reflector ingest {kept}/*.jsonl" in shown
    assert "2 sessions ran in " in shown


def test_named_command_counts_the_sessions(agent_here: Agent) -> None:
    kept = _works_in(agent_here, agent_here.project.parent / "old-name", "s-1", "s-2")
    agent_here.call("ingest", *sorted(kept.glob("*.jsonl")))
    shown = _next(agent_here)
    assert "2 sessions since " in shown
    assert "(2 of 2 sessions)" in shown


def test_clone_of_the_repository_is_named(agent_here: Agent) -> None:
    clone = agent_here.project.parent / "clone"
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "clone", "-q", agent_here.project, clone], check=True, env=quiet)
    _works_in(agent_here, clone, "s-1")
    # A long path takes two lines.
    words = f"1 session ran in {clone}, another clone of this repository."
    assert "".join(words.split()) in "".join(_next(agent_here).split())


@pytest.mark.parametrize("folder", ["elsewhere/other", "other", "there/project"])
def test_folder_of_another_project_is_not_named(agent_here: Agent, folder: str) -> None:
    """Neither one that is gone and has other files, nor one that is still there."""
    other = agent_here.project.parent / folder
    if folder.startswith("there"):
        other.mkdir(parents=True)
    _works_in(agent_here, other, "s-1", names="main.py")
    assert "ingest" not in _next(agent_here)


def test_project_with_sessions_needs_no_other(agent_here: Agent) -> None:
    _works_in(agent_here, agent_here.project, "s-3")
    _works_in(agent_here, agent_here.project.parent / "old-name", "s-1", "s-2")
    assert "ingest" not in _next(agent_here)


def test_folder_of_several_projects_lists_files(agent_here: Agent) -> None:
    kept = _works_in(agent_here, agent_here.project.parent / "old-name", "s-1")
    other = _works_in(agent_here, agent_here.home / "far", "s-2")
    shutil.move(other / "s-2.jsonl", kept / "s-2.jsonl")
    assert f"reflector ingest {shlex.quote(str(kept / 's-1.jsonl'))} && " in _next(agent_here)
