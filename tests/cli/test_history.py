"""The sessions from before: found, shown, taken in once, oldest first."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger.store import Ledger
from tests.road.agent import BULLETS, PATIENCE, Agent
from tests.road.sessions import Session
from tests.test_locate import git


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project with a playbook, and a client that still has three of its sessions and one of another."""
    agent = Agent.in_folder(tmp_path)
    for number, (day, place) in enumerate([(3, agent.project), (1, agent.project / "src"), (2, agent.project)]):
        keep(agent, f"s-{number}", f"2026-01-0{day}", place)
    keep(agent, "other", "2026-01-01", tmp_path / "other")
    return agent


def keep(agent: Agent, name: str, day: str, cwd: Path) -> None:
    """Put a session into the client's folder, under a name that says nothing."""
    path = Session(name).cites("pat-001", "helpful").write(agent.home / ".claude" / "projects" / "x" / f"{name}.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["cwd"] = str(cwd)
        if "timestamp" in record:
            record["timestamp"] = day + record["timestamp"][10:]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def sessions(agent: Agent) -> list[str]:
    return [event["session_id"] for event in agent.json("log", "--type", "session.recorded", "-n", "0")]


def test_the_projects_own_sessions_are_taken_in_once_oldest_first(agent: Agent) -> None:
    told = agent.call("import-history")
    assert "3 of 3 files had something new" in told.err
    assert sessions(agent) == ["s-1", "s-2", "s-0"]
    assert agent.counters()["pat-001"] == (3, 0)
    assert "0 of 3 files had something new" in agent.call("import-history").err
    assert agent.counters()["pat-001"] == (3, 0)


def test_a_dry_run_shows_what_would_be_taken_in_and_takes_nothing(agent: Agent) -> None:
    told = agent.call("import-history", "--dry-run").out
    assert "2026-01-01  2026-01-03" in told
    assert not agent.ledger.exists()


@pytest.mark.parametrize("cwd", ["D:\\shop", "shop", "", ".", "/a\0b", "/\ud800", "/" + "a" * 300])
def test_a_folder_that_is_no_path_here_is_in_no_project(agent: Agent, cwd: str) -> None:
    put(agent, Session("odd").cites("pat-001"), "odd", "2026-01-01", cwd=cwd)
    assert "3 of 3 files" in agent.call("import-history").err
    assert "odd" not in sessions(agent)
    told = agent.call("import-history", "--all", "--dry-run").err
    assert told.startswith("2 sessions left out")  # this one, and that of another project, whose folder is gone


def test_older_sessions_are_left_out_on_request(agent: Agent) -> None:
    agent.call("import-history", "--since", "2026-01-02")
    assert sessions(agent) == ["s-2", "s-0"]


def test_all_projects_that_still_exist_get_their_own_sessions(agent: Agent, tmp_path: Path) -> None:
    other = Agent(tmp_path / "other", agent.home)
    other.claude.mkdir(parents=True)
    other.write_playbook(BULLETS)
    (tmp_path / "bare").mkdir()
    for name in ("gone", "bare"):
        keep(agent, name, "2026-01-01", tmp_path / name)
    told = agent.call("import-history", "--all").err
    assert "1 session left out: their folder is gone" in told
    assert "1 session left out: their project has no playbook" in told
    assert sessions(agent) == ["s-1", "s-2", "s-0"]
    assert sessions(other) == ["other"]
    assert list((tmp_path / "bare").iterdir()) == []


@pytest.mark.parametrize("everything", [(), ("--all",)])
def test_sessions_of_worktrees_belong_to_the_main_checkout_also_when_the_folder_is_gone(
    agent: Agent, tmp_path: Path, everything: tuple[str, ...]
) -> None:
    git(agent.project, "init")
    git(agent.project, "commit", "--allow-empty", "-m", "first")
    for name in ("kept", "deleted"):
        git(agent.project, "worktree", "add", tmp_path / name)
        (tmp_path / name / "src").mkdir()
        keep(agent, name, "2026-01-05", tmp_path / name / "src")
    shutil.rmtree(tmp_path / "deleted")
    agent.call("import-history", *everything)
    assert sessions(agent) == ["s-1", "s-2", "s-0", "deleted", "kept"]


@pytest.mark.parametrize("where", ["../fix", ".claude/worktrees/fix"])
def test_a_removed_worktrees_sessions_count_once_in_the_project_of_their_sub_folder(agent: Agent, where: str) -> None:
    git(agent.project, "init")
    inner = Agent(agent.project / "src", agent.home)
    inner.claude.mkdir(parents=True)
    inner.write_playbook(BULLETS)
    git(agent.project, "add", ".")
    git(agent.project, "commit", "-m", "two playbooks")
    git(agent.project, "worktree", "add", where)
    worktree = (agent.project / where).resolve()
    keep(agent, "there", "2026-01-05", worktree / "src")
    inner.call("import-history")
    shutil.rmtree(worktree)
    for who in (agent, inner):
        who.call("import-history")
    assert sessions(agent) == ["s-2", "s-0"]
    assert sessions(inner) == ["s-1", "there"]


def test_sessions_of_a_folder_with_a_playbook_of_its_own_are_not_the_outer_projects(agent: Agent) -> None:
    inner = Agent(agent.project / "src", agent.home)
    inner.claude.mkdir(parents=True)
    inner.write_playbook(BULLETS)
    agent.call("import-history")
    assert sessions(agent) == ["s-2", "s-0"]


def test_a_file_that_cannot_be_taken_in_is_named_and_stops_nothing(agent: Agent) -> None:
    path = agent.home / ".claude" / "projects" / "x" / "bad.jsonl"
    path.write_text(json.dumps({"cwd": str(agent.project), "kind": "nobody's"}) + "\n")
    told = agent.call("import-history", code=1)
    assert "bad.jsonl" in told.err
    assert agent.counters()["pat-001"] == (3, 0)


def test_nobody_is_asked_for_money_without_a_yes(agent: Agent) -> None:
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    told = agent.call("import-history", code=2).err
    assert "up to 3 sessions" in told
    assert "--yes" in told
    assert not agent.ledger.exists()


def test_a_folder_that_is_named_and_not_there_is_an_error(agent: Agent, tmp_path: Path) -> None:
    assert "is not a folder" in agent.call("import-history", "--folder", str(tmp_path / "none"), code=1).err


def test_nothing_to_import_is_no_error_and_says_where_it_looked(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    told = agent.call("import-history", "--folder", str(tmp_path / "empty")).err
    assert told == f"Nothing to import: no sessions of this project lie in {tmp_path / 'empty'}.\n"
    shutil.rmtree(agent.home / ".claude")
    told = agent.call("import-history").err
    assert told.startswith(f"Nothing to import: there is no {agent.home / '.claude' / 'projects'}, ")
    assert not agent.ledger.exists()


def test_only_what_is_new_is_asked_money_for(agent: Agent) -> None:
    agent.call("import-history", "--since", "2026-01-02")
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    told = agent.call("import-history", code=2).err
    assert "up to 1 session," in told
    del agent.environ["REFLECTOR_BACKEND"]
    agent.call("import-history")
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    told = agent.call("import-history").err
    assert "0 of 3 files had something new" in told


def ledger(agent: Agent) -> list[dict[str, Any]]:
    """Every event, without what tells when it was recorded: times, and the hashes that cover them."""
    with Ledger.open_file(agent.ledger) as opened:
        events = [asdict(event) for event in opened.events()]
    for event in events:
        if event["occurred_at"] == event["recorded_at"]:
            del event["occurred_at"]
        del event["recorded_at"], event["chain"]
    return events


def begin_again(agent: Agent) -> None:
    """The project as it was before anything was taken in."""
    shutil.rmtree(agent.claude)
    agent.claude.mkdir()
    agent.write_playbook(BULLETS)


def make_history(agent: Agent) -> None:
    """Sessions that cite and such that do not, a fork, a subagent, a growing one, one without a word, one broken."""
    names = ("pat-001", "pat-002", "mis-001", "mis-999")
    for number in range(28):
        session = Session(f"s-{number}")
        for at in range(number % 3):
            session.cites(names[(number + at) % 4], ("helpful", "harmful", None)[(number + at) % 3])
        session.user("Go on.").runs("make test", "1 failed, 3 passed")
        if number % 9 == 4:
            session.user(f"Always run linter {number} before you push.")
        put(agent, session, f"{number}", f"2026-01-{number + 1:02d}")
    origin = Session("origin").cites("pat-001", None)
    put(agent, origin, "origin", "2026-02-01")
    put(agent, origin.fork("fork").user("Perfect, that works. Thanks!"), "fork", "2026-02-02")
    put(agent, Session("origin", agent_id="a1").cites("pat-002"), "agent-a1", "2026-02-03")
    put(agent, Session("origin").cites("pat-001", None).user("No, that is wrong, revert it."), "grown", "2026-02-04")
    (folder(agent) / "bad.jsonl").write_text(json.dumps({"cwd": str(agent.project), "kind": "nobody's"}) + "\n")


def folder(agent: Agent) -> Path:
    return agent.home / ".claude" / "projects" / "x"


def put(agent: Agent, session: Session, name: str, day: str, *, cwd: str | None = None) -> None:
    """Put a session into the client's folder that worked in the agent's project, or elsewhere."""
    for record in session.records:
        record |= {"cwd": str(agent.project) if cwd is None else cwd, "timestamp": day + record["timestamp"][10:]}
    session.write(folder(agent) / f"{name}.jsonl")


@pytest.mark.slow
def test_an_import_that_is_killed_goes_on_where_it_was(agent: Agent) -> None:
    make_history(agent)
    agent.call("import-history", code=1)
    alone = ledger(agent), agent.counters()
    begin_again(agent)
    for size in (3, 50):
        kill_when_written(agent, size)
    agent.call("import-history", code=1)
    assert (ledger(agent), agent.counters()) == alone


def kill_when_written(agent: Agent, size: int) -> None:
    """Import, and kill the process that writes as soon as there are more than so many events."""
    process = agent.start("import-history")
    agent.wait_until(lambda: process.poll() is not None or written(agent) > size)
    process.kill()
    process.communicate()


def written(agent: Agent) -> int:
    """How many events there are by now."""
    if not agent.ledger.exists():
        return 0
    with closing(sqlite3.connect(f"file:{agent.ledger}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])
        except sqlite3.Error:  # it is being made
            return 0


@pytest.mark.slow
def test_an_interrupt_ends_it_at_once_and_keeps_what_is_in(agent: Agent) -> None:
    make_history(agent)
    process = agent.start("import-history", start_new_session=True)
    agent.wait_until(lambda: written(agent) > 3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of them
    err = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("what was recorded stays, run the same command again\n")
    agent.call("import-history", code=1)
    assert agent.call("verify").out == ""
