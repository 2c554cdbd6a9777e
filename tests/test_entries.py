"""A person's ledgers are known at home: what sweeps one away gives it back, and what smuggles
one in is asked about.
"""

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reflector import entries
from reflector.entries import notes
from reflector.project import Project
from tests.building import commit, git
from tests.conftest import first_fast, slow_except
from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A repository whose ledger has counted two sessions, which lie in the client's folder;
    playbook.json is committed.
    """
    git(agent.project, "init")
    paths = []
    for number in range(2):
        session = Session(f"s-{number}").cites("pat-001")
        for record in session.records:
            record["cwd"] = str(agent.project)
        paths.append(session.write(agent.home / ".claude" / "projects" / "x" / f"s-{number}.jsonl"))
    agent.call("ingest", *paths)
    commit(agent.project, ".claude/playbook.json")
    agent.call("add", "ctx", "The cart is in cart.py.")
    git(agent.project, "commit", "-am", "second")
    return agent


def said(agent: Agent) -> tuple[Any, ...]:
    """Counters, the evidence of one bullet, and the events."""
    blamed = [(step["position"], step["disposition"]) for step in agent.json("blame", "pat-001")]
    return agent.counters(), blamed, [event["event_id"] for event in agent.events()]


def sweep(agent: Agent, *words: str) -> None:
    git(agent.project, *words)


def remove(agent: Agent) -> None:
    origin = agent.project.with_name("origin.git")
    git(agent.project, "clone", "--bare", ".", origin)
    shutil.rmtree(agent.project)
    git(agent.home, "clone", origin, agent.project)


def track(agent: Agent) -> None:
    """Check out a branch on which somebody committed a ledger of theirs."""
    git(agent.project, "checkout", "-b", "theirs")
    theirs = Agent.bare(agent.home.with_name("theirs"))
    theirs.call("add", "pat", "Run what we say.")
    shutil.rmtree(agent.state)
    agent.state.mkdir()
    shutil.copy(theirs.ledger, agent.ledger)
    commit(agent.project, ".claude/reflector/ledger.db")


def overwrite(agent: Agent) -> None:
    """Put somebody's ledger in its place under the same number, as a checkout does where that is
    free again.
    """
    theirs = Agent.bare(agent.home.with_name("theirs"))
    for number in range(40):
        theirs.call("add", "pat", f"Run what we say, number {number}.")
    for path in agent.state.glob("ledger.db-*"):
        path.unlink()
    shutil.copyfile(theirs.ledger, agent.ledger)


SWEPT = {
    "git clean": lambda agent: sweep(agent, "clean", "-xfdq"),
    "git stash, which takes ignored files": lambda agent: sweep(agent, "stash", "--all"),
    "the folder is removed by hand": lambda agent: shutil.rmtree(agent.state),
    "the clone is removed and made again": remove,
    "the file is emptied in place": lambda agent: agent.ledger.write_bytes(b""),
    "an empty file replaces it": lambda agent: (agent.ledger.unlink(), agent.ledger.touch()),
    "a branch that tracks a ledger": track,
    "a branch that tracks a ledger, whose file gets the number of the one before": overwrite,
}


@pytest.mark.parametrize(
    "how",
    slow_except(["the file is emptied in place"], SWEPT),
)
def test_swept_ledger_comes_back_without_double_counts(agent: Agent, how: str) -> None:
    before = said(agent)
    SWEPT[how](agent)
    told = agent.call("history").err
    assert "events were restored from the copy" in told
    assert ("was empty; the ledger's" in told) is ("empt" in how)
    assert said(agent) == before
    assert "are back" not in agent.call("list").err
    assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""


def test_ledger_restored_by_another_process_keeps_its_appends(
    agent: Agent,
) -> None:
    locked = notes.hold_notes

    @contextmanager
    def late(root: Path, *seconds: float) -> Iterator[None]:
        with patch.object(notes, "hold_notes", locked):
            agent.call("add", "pat", "Said meanwhile.")
        with locked(root, *seconds):
            yield

    shutil.rmtree(agent.state)
    with patch.object(notes, "hold_notes", late):
        agent.call("status", code=None)
    assert "Said meanwhile." in agent.call("list").out


def test_damaged_ledger_is_named_with_its_copy(agent: Agent) -> None:
    before = said(agent)
    agent.ledger.write_bytes(b"X" * 100 + agent.ledger.read_bytes()[100:])
    for words in ("list", "verify"):
        assert "to restore these events, move" in agent.call(words, code=1).err
    agent.ledger.rename(agent.home / "damaged")
    assert said(agent) == before


def test_lost_ledger_with_damaged_copy_is_named(
    agent: Agent,
) -> None:
    agent.call("ledger", "backup", agent.home / "backup.db")
    copy = agent.own / "events.ndjson"
    copy.write_bytes(copy.read_bytes().replace(b'"type":"bullet.added"', b'"type":{}', 1))
    shutil.rmtree(agent.state)
    told = agent.call("list", code=1).err
    assert f"the ledger's copy {copy} is damaged" in told
    assert "[database]; to restore a backup" in agent.call("verify", code=1).out
    agent.call("ledger", "restore", agent.home / "backup.db")
    assert agent.call("list").out


def test_project_without_a_commit_is_known_by_playbook(
    tmp_path: Path,
) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.counted()
    shutil.rmtree(agent.state)
    assert agent.counters()["pat-001"] == (1, 0)
    shutil.rmtree(agent.claude)
    agent.claude.mkdir()
    agent.write_playbook({"PATTERNS & APPROACHES": []})
    told = agent.call("list", code=1).err
    assert "ledger take" in told
    assert "ledger forget" in told
    agent.call("ledger", "take", "--yes")
    assert agent.counters()["pat-001"] == (1, 0)


def test_new_repository_in_its_place_gets_nothing(
    agent: Agent,
) -> None:
    shutil.rmtree(agent.project)
    agent.claude.mkdir(parents=True)
    git(agent.project, "init")
    git(agent.project, "commit", "--allow-empty", "-m", "another")
    assert "is not sure that the copy with" in agent.call("add", "pat", "Mine.", code=1).err
    verified = agent.call("verify", code=1)
    assert f"belongs to {agent.project} [database]; `reflector ledger take`" in verified.out
    assert verified.err == ""
    agent.call("ledger", "forget", agent.project)
    agent.call("add", "pat", "Mine.")
    assert list(agent.counters()) == ["pat-001"]


@pytest.mark.parametrize(
    "how",
    slow_except(
        ["renamed"],
        ["renamed", "copied", "a linked worktree removed", "at another path of a container"],
    ),
)
def test_moved_project_takes_its_ledger_along(agent: Agent, tmp_path: Path, how: str) -> None:
    before, there = said(agent), tmp_path / "there"
    if how == "a linked worktree removed":
        git(agent.project, "worktree", "add", there)
        git(agent.project, "worktree", "remove", there)
        assert said(agent) == before
        return
    if how == "renamed":
        agent.project.rename(there)
    elif how == "copied":
        shutil.copytree(agent.project, there)
    else:
        there.mkdir()
        subprocess.run(["mount", "--bind", agent.project, there], check=True)
    try:
        other = Agent(there, agent.home)
        assert said(other) == before
        assert len(agent.json("status", "--projects")) == (1 if how == "renamed" else 2)
        other.call("add", "pat", "Only there.")
        if how == "copied":
            assert said(agent) == before
    finally:
        if how == "at another path of a container":
            subprocess.run(["umount", there], check=True)


def test_no_transcript_vouches_for_a_ledger(agent: Agent) -> None:
    before = said(agent)
    agent.loses_its_copy()
    assert "does not recognise" in agent.call("list", code=1).err
    agent.call("ledger", "take", "--yes")
    assert said(agent) == before


def test_taking_another_ledger_keeps_your_events(agent: Agent, tmp_path: Path) -> None:
    theirs = Agent.bare(tmp_path / "theirs")
    theirs.call("add", "pat", "Said there.")
    for path in agent.state.glob("ledger.db-*"):
        path.unlink()
    shutil.copyfile(theirs.ledger, agent.ledger)
    agent.call("ledger", "take", "--yes")
    assert "Said there." in agent.call("list").out
    (aside,) = agent.own.glob("events-*.ndjson")
    agent.call("import", "--rename", aside)
    assert "The cart is in cart.py." in agent.call("list").out
    assert agent.call("verify").out == ""


def test_diverged_project_copy_loses_no_event(agent: Agent, tmp_path: Path) -> None:
    there = tmp_path / "there"
    shutil.copytree(agent.project, there)
    agent.call("add", "pat", "Said here.")
    Agent(there, agent.home).call("add", "mis", "Said there.")
    shutil.rmtree(agent.project)
    there.rename(agent.project)
    assert "Said there." in agent.call("list").out
    (aside,) = agent.own.glob("events-*.ndjson")
    verified = agent.call("verify", code=1)
    assert "lacks events" in verified.out
    assert "to restore these events, move" not in verified.err  # the copy lacks them, too
    assert "lacks events" not in agent.call("import", aside).err
    assert "Said here." in agent.call("list").out


@pytest.mark.parametrize("position", ["'abc'", "9e999"])
def test_ledger_with_a_nonsense_head_is_refused(
    agent: Agent, tmp_path: Path, position: str
) -> None:
    theirs = Agent.bare(tmp_path / "theirs")
    theirs.call("add", "pat", "Run what we say.")
    with closing(sqlite3.connect(theirs.ledger)) as connection:
        rows = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
        ).fetchall()
        dropped = "".join(f"DROP {kind} {name};" for kind, name in rows)
        connection.executescript(
            f"{dropped} CREATE TABLE other AS SELECT * FROM playbook; DROP TABLE playbook;"
            f" ALTER TABLE other RENAME TO playbook; UPDATE playbook SET position = {position}"
        )
    shutil.copy(theirs.ledger, agent.ledger.with_name("new"))
    agent.ledger.with_name("new").rename(agent.ledger)
    for command in ("list", "verify", "log"):
        assert "cannot be read" in agent.call(command, code=1).err


def few_blocks() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.slow
def test_disk_error_is_not_blamed_on_the_ledger(agent: Agent) -> None:
    """SQLite makes a file of 32 kB beside a ledger that somebody has open."""
    agent.ledger.with_name("ledger.db-wal").touch()
    program = [sys.executable, "-I", "-B", "-m", "reflector"]
    err = agent.run("ledger", "take", "--yes", code=1, program=program, preexec_fn=few_blocks).err
    assert "Check the disk, its free space" in err
    assert "move this file away" not in err


@pytest.mark.parametrize("inode", first_fast(1, ["another", "the same"]))
@pytest.mark.slow
def test_verify_names_events_that_an_older_ledger_lacks(
    agent: Agent, tmp_path: Path, inode: str
) -> None:
    agent.call("ledger", "backup", tmp_path / "monday.db")
    agent.call("add", "pat", "After monday.")
    for path in agent.state.glob("ledger.db*") if inode == "another" else ():
        path.unlink()
    shutil.copyfile(tmp_path / "monday.db", agent.ledger)
    agent.call("add", "mis", "On tuesday.")
    assert "pat-003" not in {one["name"] for one in agent.json("list")}
    (aside,) = agent.own.glob("events-*.ndjson")
    assert "lacks events of an earlier ledger" in agent.call("verify", code=1).out
    for question in ("doctor", "status"):
        assert f"reflector import --rename {aside}" in agent.call(question, code=1).out
    assert (
        str(aside)
        in agent.call("redact", "--where", "After monday", "--why", "a name", "--yes", code=1).err
    )
    agent.call("import", aside)
    assert "pat-003" in {one["name"] for one in agent.json("list")}
    assert agent.call("verify").out == ""


def test_copy_equals_the_export_and_is_private(
    agent: Agent,
) -> None:
    copy = agent.own / "events.ndjson"

    def exported() -> list[str]:
        return agent.call("export", "--format", "ndjson").out.splitlines()[1:]

    assert copy.read_text("utf-8").splitlines() == exported()
    copy.write_bytes(copy.read_bytes()[:-40])  # as a process leaves it that was killed
    agent.call("redact", "--where", "cart.py", "--why", "a name", "--yes")
    assert copy.read_text("utf-8").splitlines() == exported()
    assert b"cart.py" not in copy.read_bytes()
    assert {
        path.stat().st_mode & 0o077 for path in (agent.own, copy, agent.own / "entry.json")
    } == {0}


def test_gone_project_is_named_with_its_forget_command(agent: Agent, tmp_path: Path) -> None:
    shutil.rmtree(agent.project)
    other = Agent.in_folder(tmp_path / "other")
    other.home = agent.home
    other.call("add", "pat", "Here.")
    (check,) = [one for one in other.json("doctor", code=None) if one["name"] == "copy"]
    assert check["mend"] == f"reflector ledger forget {agent.project}"
    assert [(one["project"], one["is_there"]) for one in other.json("status", "--projects")] == [
        (str(other.project), True),
        (str(agent.project), False),
    ]
    other.call(*check["mend"].split()[1:])
    assert [one["project"] for one in other.json("status", "--projects")] == [str(other.project)]


@pytest.mark.slow
@pytest.mark.parametrize("stride", [pytest.param(1, id="all")])
@pytest.mark.parametrize("what", ["note and copy", "restore"])
@pytest.mark.timeout(600)
def test_kill_at_any_step_loses_and_doubles_nothing(agent: Agent, what: str, stride: int) -> None:
    before = said(agent)
    for step in range(1, 1000, stride):
        if what == "restore":
            shutil.rmtree(agent.state)
        else:
            agent.loses_its_copy()
        killed = agent.killed_at(
            step, *(["list"] if what == "restore" else ["ledger", "take", "--yes"])
        )
        if what != "restore":
            agent.call("ledger", "take", "--yes")
        assert said(agent) == before, step
        assert (agent.own / "events.ndjson").read_text("utf-8").count("\n") == len(before[2])
        if not killed:
            break
    assert step > stride
    assert not killed


def test_ledger_killed_before_its_tables_is_made(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    with patch.dict(os.environ, agent.env(), clear=True):
        project = Project.at(agent.project)
        project.make_state_dir()
        entries.admit(project.place)
    with closing(sqlite3.connect(agent.ledger)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert agent.ledger.stat().st_size > 0
    agent.counted()
    assert agent.counters()["pat-001"] == (1, 0)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_full_disk_costs_only_the_copy(
    agent: Agent,
) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "small", agent.own.parent], check=True
    )
    try:
        agent.call("ledger", "take", "--yes")
        for number in range(20):
            agent.call("add", "pat", f"Advice number {number}, which takes some room on a disk.")
        whole = json.dumps(agent.events())
    finally:
        subprocess.run(["umount", agent.own.parent], check=True)
    agent.call("add", "pat", "After it was mended.")
    assert entries.copy_end(agent.project).position == len(agent.events())
    assert json.dumps(agent.events()[:-1]) == whole
    assert agent.call("verify").out == ""


@pytest.mark.parametrize("home", ["/nowhere", "relative"])
def test_without_a_home_no_ledger_is_trusted(
    agent: Agent, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pwd.getpwuid", lambda _: NoHome())
    agent.environ["HOME"] = home
    for words in (["list"], ["add", "pat", "Without a home."]):
        refused = agent.call(*words, code=1).err
        assert "Set HOME to a folder of yours" in refused
    assert "reflector could not copy the ledger" in agent.call("doctor", code=None).out
    agent.environ["REFLECTOR_LEDGER_URL"] = f"sqlite:///{agent.ledger}"
    agent.call("list")


class NoHome:
    """A user of the system without a folder."""

    pw_dir = "/nonexistent"
