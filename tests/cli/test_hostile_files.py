"""Files that somebody else may have put in place: a cloned repository, a broken disk, another program."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.road.agent import HOOK, Agent
from tests.road.sessions import Session

GIGABYTE = 1 << 30


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * GIGABYTE)


ENDLESS: dict[str, Callable[[Path], object]] = {"a pipe": os.mkfifo, "gigabytes": sparse}


def little_memory() -> None:
    """Rather a MemoryError than a machine that swaps."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * GIGABYTE, 2 * GIGABYTE))


def told(agent: Agent, *arguments: str | Path, code: int) -> str:
    """What a command says that gives up at once."""
    err = agent.run(*arguments, code=code, preexec_fn=little_memory).err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("what", ENDLESS)
def test_a_file_that_never_ends_is_told_and_never_waited_for(agent: Agent, tmp_path: Path, what: str) -> None:
    theirs, ours, settings = tmp_path / "theirs.json", tmp_path / "ledger.db", agent.claude / "reflector.toml"
    for path in (theirs, ours):
        ENDLESS[what](path)
    assert str(theirs) in told(agent, "import", theirs, code=1)
    agent.environ["REFLECTOR_LEDGER_URL"] = f"sqlite:///{ours}"
    assert str(ours) in told(agent, "list", code=1)
    agent.environ = {}
    ENDLESS[what](settings)
    assert f"{settings} cannot be read" in told(agent, "list", code=2)
    settings.unlink()
    agent.playbook.unlink()
    ENDLESS[what](agent.playbook)
    assert str(agent.playbook) in told(agent, "list", code=1)
    assert str(agent.playbook) in agent.call("status", code=1).out
    start = {"hook_event_name": "SessionStart", "cwd": str(agent.project)}
    done = subprocess.run(HOOK, input=json.dumps(start).encode(), env=agent.env(), capture_output=True, timeout=120)
    assert done.stdout == b"" or b"the file: is too large" in done.stdout
    assert b"playbook.json" in done.stdout + done.stderr
    assert not agent.playbook.is_file() or agent.playbook.stat().st_size > GIGABYTE


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def test_where_no_file_may_grow_any_more_it_is_told_and_nothing_is_lost(agent: Agent, tmp_path: Path) -> None:
    paths = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(2)]
    agent.call("ingest", paths[0])
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(paths[1]))
    before = agent.playbook.read_bytes()
    # -B: a compiled module that is cut at the limit would break every later start.
    program = [sys.executable, "-I", "-B", "-m", "reflector"]
    err = agent.run("drain", code=1, program=program, preexec_fn=small_files_only).err
    assert str(agent.ledger) in err
    assert "Traceback" not in err
    assert (agent.playbook.read_bytes(), len(agent.deliveries())) == (before, 1)
    agent.call("drain")
    assert (agent.counters()["pat-001"], agent.call("verify").out) == ((2, 0), "")


def test_what_the_hook_says_on_stderr_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path / "a\x1b[31m\x9b2Jb\u202e")
    done = subprocess.run(HOOK, input=b"garbage", env=agent.env(), capture_output=True, timeout=120)
    told = done.stderr.decode()
    assert "broken" in told
    assert told.removesuffix("\n").isprintable()
