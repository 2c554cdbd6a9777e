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

from tests.processes import HOOK, run
from tests.road.agent import Agent
from tests.road.sessions import Session

GIGABYTE = 1 << 30


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * GIGABYTE)


ENDLESS: dict[str, Callable[[Path], object]] = {
    "a link to what never ends": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "gigabytes": sparse,
}


#: One of them is enough for each further command that reads its file by the same way.
ONE_AND_ALL = ["a pipe", *(pytest.param(what, marks=pytest.mark.slow) for what in ENDLESS if what != "a pipe")]


def little_memory() -> None:
    """Rather a MemoryError than a machine that swaps."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * GIGABYTE, 2 * GIGABYTE))


def told(agent: Agent, *arguments: str | Path, code: int) -> str:
    """What a command says that gives up at once."""
    process = agent.start(*arguments, preexec_fn=little_memory)
    try:
        _, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == code, err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("what", ENDLESS)
def test_a_playbook_that_never_ends_is_told_and_never_waited_for(agent: Agent, what: str) -> None:
    agent.playbook.unlink()
    ENDLESS[what](agent.playbook)
    assert str(agent.playbook) in told(agent, "list", code=1)
    assert str(agent.playbook) in agent.call("status", code=1).out
    start = {"hook_event_name": "SessionStart", "cwd": str(agent.project)}
    done = run(HOOK, input=json.dumps(start).encode(), env=agent.env(), capture_output=True, timeout=120)
    assert done.stdout == b"" or b"the file: is too large" in done.stdout
    assert b"playbook.json" in done.stdout + done.stderr
    assert agent.playbook.is_symlink() or not agent.playbook.is_file() or agent.playbook.stat().st_size > GIGABYTE


@pytest.mark.parametrize("what", ONE_AND_ALL)
def test_settings_that_never_end_are_told_and_never_waited_for(agent: Agent, what: str) -> None:
    settings = agent.claude / "reflector.toml"
    ENDLESS[what](settings)
    assert f"{settings} cannot be read" in told(agent, "list", code=2)


@pytest.mark.parametrize("what", ONE_AND_ALL)
def test_a_file_to_import_that_never_ends_is_told_and_never_waited_for(agent: Agent, tmp_path: Path, what: str) -> None:
    ENDLESS[what](tmp_path / "theirs.json")
    assert "theirs.json" in told(agent, "import", tmp_path / "theirs.json", code=1)
    assert len(agent.counters()) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\xff",
        b"backend = ",
        b"[" * 10_000,
        b'backend = "rules"\nbackend = "rules"',
        b"\xef\xbb\xbf",
        b"idle_minutes = " + b"1" * 5_000,
        b"idle_minutes = 0x" + b"f" * 5_000,
        b"pinned = " + b"[" * 10_000 + b"]" * 10_000,
        b"worktrees." * 100_000 + b"own = 1",
        b"'worktrees' . \"a b\"." + b"'='." * 200_000 + b"own = 1",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_settings_that_are_none_are_named_and_nothing_is_done(agent: Agent, content: bytes) -> None:
    settings = agent.claude / "reflector.toml"
    settings.write_bytes(content)
    ran = agent.call("add", "pat", "Be kind.", code=2)
    assert str(settings) in ran.err
    assert not agent.state.exists()


def test_settings_that_are_empty_are_the_defaults(agent: Agent) -> None:
    (agent.claude / "reflector.toml").touch()
    agent.call("add", "pat", "Be kind.")


NO_DELIVERY: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)),
    "cut off": b'{"v":1,"received_at_ns":1,"project":null,"transcript_bytes":null,"payload":{"hook_ev',
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "enormous": b'{"v":1,"payload":{"hook_event_name":"SessionEnd","x":"' + b"x" * (9 << 20) + b'"}}',
}


@pytest.mark.parametrize("what", NO_DELIVERY)
def test_a_file_in_the_spool_that_is_no_delivery_is_kept_aside_and_shown(agent: Agent, what: str) -> None:
    agent.ended()
    (agent.spool / "00000000000000000001-1-1.json").write_bytes(NO_DELIVERY[what])
    drained = agent.call("drain", code=1)
    assert agent.counters()["pat-001"] == (1, 0)
    (kept,) = (agent.spool / "broken").iterdir()
    assert kept.read_bytes() == NO_DELIVERY[what]
    assert f"{kept}: not a hook payload" in " ".join(drained.err.split())
    agent.call("drain")
    assert kept.name in agent.call("status", code=1).out
    kept.unlink()
    agent.call("status")


@pytest.mark.parametrize("left", [b"{", b'{"v": 99, "payload": {}}'])
def test_a_question_leaves_a_file_that_is_not_a_delivery_to_the_drain_which_names_it(agent: Agent, left: bytes) -> None:
    agent.spool.mkdir(mode=0o700, parents=True)
    (agent.spool / "00000000000000000001-1-1.json").write_bytes(left)
    agent.call("list")
    said = agent.json("drain", code=1)["failed"]
    assert [Path(one["delivery"]).name for one in said] == [path.name for path in agent.spool.glob("*/*.json")]
    assert len(said) == 1


def test_a_question_that_records_deliveries_names_the_file_among_them_that_is_not_one(agent: Agent) -> None:
    agent.ended()
    (agent.spool / "00000000000000000001-1-1.json").write_bytes(b"{")
    told = agent.call("list").err
    (kept,) = (agent.spool / "broken").iterdir()
    assert f"{kept}: not a hook payload" in " ".join(told.split())


def test_a_delivery_that_only_a_newer_reflector_knows_is_told_by_the_drain_that_sets_it_aside(agent: Agent) -> None:
    agent.spool.mkdir(mode=0o700, parents=True)
    (agent.spool / "00000000000000000001-1-1.json").write_text('{"v": 99, "payload": {}}')
    (agent.spool / "00000000000000000002-1-1.json").write_text("{")
    said = agent.json("drain", code=1)["failed"]
    assert [Path(one["delivery"]).parent.name for one in said] == ["failed", "broken"]
    assert "newer" in said[0]["error"]
    assert "not a hook payload" in said[1]["error"]
    assert agent.json("drain")["failed"] == []


@pytest.mark.parametrize("what", ["empty", "binary", "a link to what never ends", "a pipe"])
def test_a_ledger_that_is_none_loses_nothing_of_the_playbook(agent: Agent, what: str) -> None:
    agent.state.mkdir(mode=0o700)
    if what == "empty":
        agent.ledger.touch()
    elif what == "binary":
        agent.ledger.write_bytes(bytes(range(256)) * 64)
    else:
        ENDLESS[what](agent.ledger)
    before = agent.playbook.read_bytes()
    process = agent.start("list", preexec_fn=little_memory)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    if what == "empty":  # as a new one
        assert "pat-002" in out
        assert agent.counters()["pat-002"] == (3, 1)
    else:
        assert str(agent.ledger) in err
        assert process.returncode == 1
        assert agent.playbook.read_bytes() == before


def test_a_transcript_that_shrank_since_it_was_delivered_gives_what_is_left(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1").cites("pat-001")
    path = session.write(tmp_path / "1.jsonl")
    kept = len(session.records)
    session.cites("mis-001").write(path)
    agent.hook("PreCompact", session_id="s-1", transcript_path=str(path))
    session.records = session.records[:kept]
    session.write(path)
    agent.call("drain")
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert agent.call("verify").out == ""


def test_a_transcript_that_was_replaced_since_it_was_delivered_is_read_as_it_is(agent: Agent, tmp_path: Path) -> None:
    path = agent.ended()
    other = Session("s-1").cites("mis-001").write(tmp_path / "2.jsonl")
    other.replace(path)
    agent.call("drain")
    assert agent.counters() == {"pat-001": (0, 0), "pat-002": (3, 1), "mis-001": (1, 0)}
    assert agent.call("verify").out == ""


def test_a_transcript_that_grows_while_it_is_read_is_taken_in_once_and_whole(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-1")
    for number in range(60):
        session.user("What is in cart.py?").agent("The cart.")
        if number in {20, 40}:
            session.cites("pat-001" if number == 20 else "mis-001")
    path, whole = tmp_path / "1.jsonl", tmp_path / "whole.jsonl"
    session.write(whole)
    path.touch()
    # In pieces that end anywhere, as a client's writes may be seen; a quarter whenever it is told to go on.
    client = (
        "import sys, time\n"
        "whole, path = open(sys.argv[1], 'rb').read(), open(sys.argv[2], 'ab', buffering=0)\n"
        "for quarter in range(4):\n"
        "    input()\n"
        "    for at in range(len(whole) * quarter // 4, end := len(whole) * (quarter + 1) // 4, 211):\n"
        "        path.write(whole[at:min(at + 211, end)])\n"
        "        time.sleep(0.005)\n"
        "    print(flush=True)\n"
    )
    command = [sys.executable, "-c", client, whole, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin
        assert writer.stdout
        for _ in range(4):
            writer.stdin.write("\n")
            writer.stdin.flush()
            agent.call("ingest", path, code=None)  # 1 while not even the first line is whole
            writer.stdout.readline()
            agent.call("ingest", path, code=None)
    agent.call("ingest", path)
    windows = [event["data"]["window"]["records"] for event in agent.events("session.recorded")]
    assert len(windows) > 3
    assert sum(windows) == len(session.records)
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (3, 1), "mis-001": (1, 0)}
    assert agent.call("verify").out == ""


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def test_where_no_file_may_grow_any_more_it_is_told_and_nothing_is_lost(agent: Agent, tmp_path: Path) -> None:
    paths = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(2)]
    agent.call("ingest", paths[0])
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(paths[1]))
    before = agent.playbook.read_bytes()
    # -B: a compiled module that is cut at the limit would break every later start.
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-m", "reflector", "--project", agent.project, "drain"],
        stderr=subprocess.PIPE,
        text=True,
        env=agent.env(),
        preexec_fn=small_files_only,
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert str(agent.ledger) in err
    assert "Traceback" not in err
    assert agent.playbook.read_bytes() == before
    assert len(agent.deliveries()) == 1
    agent.call("drain")
    assert agent.counters()["pat-001"] == (2, 0)
    assert agent.call("verify").out == ""


def test_a_transcript_below_a_file_cannot_be_read_and_its_delivery_is_kept(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(tmp_path / "file" / "1.jsonl"))
    assert "Not a directory" in agent.call("drain", code=1).err
    assert [name.partition("/")[0] for name in agent.deliveries()] == ["failed"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_transcript_that_may_not_be_read_is_told_and_its_delivery_is_kept(agent: Agent, tmp_path: Path) -> None:
    path = Session("s-1").cites("pat-001").write(tmp_path / "1.jsonl")
    path.chmod(0)
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    assert "Permission denied" in agent.call("drain", code=1).err
    path.chmod(0o600)
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)


def test_what_the_hook_says_on_stderr_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path / "a\x1b[31m\x9b2Jb\u202e")
    done = run(HOOK, input=b"garbage", env=agent.env(), capture_output=True, timeout=120)
    told = done.stderr.decode()
    assert "broken" in told
    assert told.removesuffix("\n").isprintable()


def test_a_ledgers_url_with_a_null_character_is_refused_with_the_way_out(agent: Agent) -> None:
    agent.environ["REFLECTOR_LEDGER_URL"] = "sqlite:///%00"
    assert "holds a null character, which no path has; write it without" in told(agent, "list", code=1)


def test_a_transcripts_path_with_half_a_surrogate_pair_ends_no_drain(agent: Agent) -> None:
    agent.hook("SessionEnd", session_id="s-1", transcript_path="/tmp/\ud800.jsonl")
    agent.ended(id="s-2")
    agent.call("drain", code=None)
    assert agent.counters()["pat-001"] == (1, 0)
