"""Bad days: no space, no permission, no database, and files that are not what they should be or
that others put.
"""

import errno
import fcntl
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from reflector.changes.apply import apply_changes
from reflector.playbook.change import Change
from reflector.sessions import drain, locks
from reflector.sessions.spool import MOST_ATTEMPTS
from tests.conftest import Postgres, slow_except
from tests.road.agent import HOOK, Agent
from tests.road.sessions import Session

ID = "d41aab57-908c-4dea-8826-6bc3d5f161e6"
AS_BYTES = pytest.mark.skipif(
    not os.supports_bytes_environ or sys.platform == "darwin", reason="names are text there"
)


def assert_told(agent: Agent, *arguments: str | Path, about: str | Path, code: int = 1) -> str:
    """The command fails with one message that names the thing. The way out follows after a
    semicolon, or in a sentence of its own.
    """
    ran = agent.call(*arguments, code=code)
    assert str(about) in ran.err
    assert "; " in ran.err or ". " in ran.err
    assert "Traceback" not in ran.err
    return ran.err


def test_bad_transcripts_are_named_and_others_recorded(agent: Agent, tmp_path: Path) -> None:
    bad = [tmp_path / what for what in ("missing", "a pipe", "a hook's payload")]
    os.mkfifo(bad[1])
    assert_told(agent, "adopt", bad[1], about=bad[1])
    bad[2].write_text(
        '{"hook_event_name": "SessionEnd", "session_id": "s", "transcript_path": "/x"}'
    )
    good = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(2)]
    told = agent.call("ingest", good[0], *bad, good[1], code=1).err.splitlines()
    assert [
        line
        for line, path in zip(told, bad, strict=True)
        if not line.startswith(f"reflector: {path}")
    ] == []
    assert agent.counters()["pat-001"] == (2, 0)


def _noted(agent: Agent, **more: int) -> None:
    """As if the failed delivery had been tried long ago, and so often."""
    (note,) = (agent.spool / "failed").glob("*.error")
    told = json.loads(note.read_bytes())
    note.write_text(
        json.dumps({**told, "failed_at_ns": told["failed_at_ns"] - 86_400 * 10**9, **more})
    )


def test_unreadable_transcript_is_recorded_later(
    agent: Agent,
) -> None:
    path = agent.ended()
    whole = path.read_bytes()
    path.unlink()
    assert "reflector reflect" in agent.call("drain", code=1).err
    assert agent.call("drain").err == ""  # not at once
    assert str(path) in agent.call("status", code=1).out
    _noted(agent)
    assert f"{path}: No such file or directory" in agent.call("drain", code=1).err
    path.write_bytes(whole)
    _noted(agent, attempts=MOST_ATTEMPTS)
    agent.call("drain")
    assert "given up" in agent.call("status", code=1).out
    _noted(agent, attempts=2)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["failed"] == []


def test_stop_from_a_fast_clock_waits_for_nothing(agent: Agent, tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    agent.hook("Stop", session_id="s-1", transcript_path=str(path))
    (stop,) = (agent.spool / "waiting").iterdir()
    received = json.loads(stop.read_bytes())["received_at_ns"]
    agent.change_delivery(stop, received_at_ns=received + 86_400 * 10**9)
    agent.call("drain")
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((1, 0), [])


def test_silent_session_is_no_failure(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    agent.hook(
        "SessionEnd",
        session_id="s-1",
        transcript_path=str(tmp_path / "empty.jsonl"),
        reason="other",
    )
    agent.hook("SessionEnd", session_id="s-1", reason="other")
    agent.hook(
        "SubagentStop",
        session_id="s-1",
        agent_id="a-1",
        agent_transcript_path=str(tmp_path / "a.jsonl"),
    )
    agent.call("drain")
    assert [name.partition("/")[0] for name in agent.deliveries()] == ["silent"]
    assert "1 ended without a message or a transcript" in agent.call("status").out
    # A client may write a subagent's transcript after its end.
    Session("s-1", agent_id="a-1").cites("pat-001").write(tmp_path / "a.jsonl")
    agent.call("drain", "--retry-failed")
    assert [one["data"]["agent_id"] for one in agent.events("session.recorded")] == ["a-1"]


def test_broken_state_folder_and_long_path_are_named(agent: Agent) -> None:
    agent.call("drain")
    agent.state.rename(agent.claude / "kept")
    agent.state.write_text("")
    for command in ("status", "doctor", "verify", "list"):
        ran = agent.call(command, code=1)
        assert "none yet" not in ran.out
        assert str(agent.state) in ran.out + ran.err
    below = agent.project.joinpath(*["d" * 100] * 5)
    below.mkdir(parents=True)
    assert "SQLite's limit of 500" in agent.call("--project", below, "add", "pat", "x", code=1).err


def _opened_and_left(agent: Agent) -> Path:
    """What Claude Code 2.1.329 hands over when it is quit at once: a transcript that it never
    writes.
    """
    path = agent.home / f".claude/projects/-home-ada-shop/{ID}.jsonl"
    session = {"session_id": ID, "transcript_path": str(path), "cwd": str(agent.project)}
    agent.hook("SessionStart", **session, source="startup", model="claude-sonnet-4-6")
    agent.hook(
        "SessionEnd",
        **session,
        reason="prompt_input_exit",
        prompt_id="fc5ce539-3185-4901-b7ff-69dc5b042324",
    )
    return path


@pytest.mark.parametrize("event", ["PreCompact", "Stop"])
def test_end_of_a_known_session_needs_its_transcript(
    agent: Agent, tmp_path: Path, event: str
) -> None:
    said = Session(ID).cites("pat-001").write(tmp_path / "moved.jsonl")
    agent.hook(event, session_id=ID, transcript_path=str(said))
    agent.call("drain")
    _opened_and_left(agent)
    assert "No such file" in agent.call("drain", code=1).err


def test_text_written_after_the_end_is_recorded(agent: Agent) -> None:
    path = agent.ended()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"Perfect")])
    agent.hook("SessionEnd", session_id="s-2", transcript_path=str(path))
    path.write_bytes(whole)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)


def test_kept_files_contain_no_secret_of_a_transcript(agent: Agent, tmp_path: Path) -> None:
    secrets = github, password = "ghp_" + "a1B2" * 9, "hunter2-correct-horse"
    words = f"token {github}, DB_PASSWORD={password}"
    session = Session().user(f"Fix it with {words}").agent(f"As [pat-001] says, I use {words}.")
    session.runs(f"curl -H 'Authorization: Bearer {github}'", f"error: bad {words}", is_error=True)
    session.user(
        f"No, please revert this, it should not be in here and you know it: {words}"
    ).agent(f"Sorry, I take back {words}.")
    session.agent("Then [pat-002].").user(f"Perfect, that works. Thanks! {words}").agent("Fine.")
    agent.hook(
        "SessionEnd", session_id="s-1", transcript_path=str(session.write(tmp_path / "t.jsonl"))
    )
    agent.call("drain")
    assert agent.counters()["pat-001"] != (0, 0)
    kept = {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()}
    assert [
        (path.name, one) for path in kept for one in secrets if one.encode() in kept[path]
    ] == []


def test_lost_ledger_is_named_and_begins_again(agent: Agent, tmp_path: Path) -> None:
    agent.call("ingest", Session("s-1").cites("pat-001").write(tmp_path / "t.jsonl"))
    counted = agent.counters()
    agent.ledger.unlink()
    agent.loses_its_copy()
    assert "is missing" in assert_told(agent, "list", about=agent.ledger)
    assert f"playbook.json, remove {agent.ledger}*" in agent.call("status", code=1).out
    for path in agent.state.glob("ledger.db*"):
        path.unlink()
    agent.call("drain")
    assert agent.counters() == counted


@pytest.fixture
def no_locks(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project on a file system on which no file can be locked, as some that come over a
    network are.
    """
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{fd}").resolve().is_relative_to(agent.project):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    return agent


def test_unlockable_ledger_is_refused_and_delivery_waits(
    no_locks: Agent,
) -> None:
    no_locks.ended()
    told = assert_told(no_locks, "drain", about=no_locks.ledger)
    assert ("No locks available" in told, "ledger_url" in told) == (True, True)
    assert len(no_locks.deliveries()) == 1
    assert "No locks available" in no_locks.call("doctor", code=1).out


@pytest.mark.postgres
def test_without_locks_a_servers_ledger_does_everything(
    no_locks: Agent, tmp_path: Path, postgres: Postgres
) -> None:
    agent = no_locks
    agent.ended()
    with postgres.database() as url:
        agent.environ |= {"REFLECTOR_LEDGER_URL": url}
        with patch.dict(os.environ, agent.env()):
            assert drain.drain_for_hook(str(agent.project)) == 0
        assert agent.counters()["pat-001"] == (1, 0)
        assert "locks" not in {check["name"] for check in agent.json("doctor", code=1)}
    (folder,) = tmp_path.glob("reflector-*")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_delivery_without_project_or_home_waits_elsewhere(
    agent: Agent,
) -> None:
    agent.call("drain")
    # a file in its place: root may write anywhere else
    for path in (agent.spool, agent.home / ".local" / "state"):
        path.write_text("")
    agent.ended()
    for path in (agent.spool, agent.home / ".local" / "state"):
        path.unlink()
    assert "1 hook event kept in another folder" in agent.call("status").out
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["elsewhere"] == 0


def test_unreadable_payload_of_no_project_is_named(agent: Agent) -> None:
    broken = agent.home / ".local/state/reflector/spool/broken/1.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    shown = agent.call("status", code=1).out
    assert f"{broken}: no hook wrote this" in " ".join(shown.split())
    assert "kept in another folder" not in shown


@pytest.mark.parametrize("made", ["open to others", "a link"])
def test_temporary_folder_of_others_is_not_used(agent: Agent, tmp_path: Path, made: str) -> None:
    path = outside = tmp_path / f"reflector-{os.geteuid()}"
    if made == "a link":
        outside = tmp_path / "outside"
        path.symlink_to(outside)
    delivery = outside / "spool" / "1.json"
    delivery.parent.mkdir(parents=True)
    delivery.write_text(json.dumps({"v": 1, "project": str(agent.project), "payload": {}}))
    path.chmod(0o777 if made == "open to others" else 0o700)
    assert agent.json("status")["spool"]["elsewhere"] == 0
    agent.call("drain")
    assert delivery.exists()
    if made != "open to others":
        with patch.dict(os.environ, agent.env()), pytest.raises(OSError, match="reflector-"):
            locks.open_temporary()


@AS_BYTES
def test_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    agent = Agent.in_folder(folder)
    assert (
        len(assert_told(agent, "list", about=("is not UTF-8; rename the folder")).splitlines()) == 1
    )
    agent = Agent.in_folder(tmp_path / "caf\xe9")
    command = [sys.executable, "-I", "-X", "utf8=0", "-m", "reflector", "list"]
    ran = subprocess.run(
        command, cwd=agent.project, env=agent.env(LC_ALL="C"), capture_output=True, text=True
    )
    assert (ran.returncode, "PYTHONUTF8=1" in ran.stderr, len(ran.stderr.splitlines())) == (
        1,
        True,
        1,
    )


def test_deep_json_in_the_own_folder_is_ignored(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text("# Rules\n\n- Use tabs.\n")
    agent.call("adopt", agent.project / "CLAUDE.md")
    agent.ended(drain=True)
    for name in ("memory-looks.json", "births.json", "rules.json", "ranks.json"):
        (agent.own / name).write_text("[" * 5_000)
    for command in ("log --memory", "check", "list"):
        agent.call(*command.split())


@pytest.mark.parametrize(
    ("command", "shown"), [("list", "a \\u2192 b"), ("export --format md", "a → b")]
)
def test_characters_that_the_locale_lacks_are_printed(
    agent: Agent, command: str, shown: str
) -> None:
    agent.call("add", "pat", "a → b")
    program = [sys.executable, "-m", "reflector"]
    environ = agent.env(PYTHONIOENCODING="latin-1")
    assert shown in agent.run(*command.split(), program=program, env=environ).out


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


@pytest.mark.parametrize("what", slow_except(["a pipe"], ENDLESS))
def test_endless_file_is_named_and_not_awaited(agent: Agent, tmp_path: Path, what: str) -> None:
    theirs, ours, settings = (
        tmp_path / "theirs.json",
        tmp_path / "ledger.db",
        agent.claude / "reflector.toml",
    )
    for path in (theirs, ours):
        ENDLESS[what](path)
    assert str(theirs) in told(agent, "adopt", theirs, code=1)
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
    done = subprocess.run(
        HOOK, input=json.dumps(start).encode(), env=agent.env(), capture_output=True, timeout=120
    )
    assert done.stdout == b"" or b"the file: is too large" in done.stdout
    assert b"playbook.json" in done.stdout + done.stderr
    assert not agent.playbook.is_file() or agent.playbook.stat().st_size > GIGABYTE


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.slow
def test_full_disk_is_reported_and_loses_nothing(agent: Agent, tmp_path: Path) -> None:
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


def test_hook_prints_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path / "a\x1b[31m\x9b2Jb\u202e")
    done = subprocess.run(HOOK, input=b"garbage", env=agent.env(), capture_output=True, timeout=120)
    told = done.stderr.decode()
    assert "broken" in told
    assert told.removesuffix("\n").isprintable()


def test_rebuild_check_names_a_stopped_command(agent: Agent) -> None:
    agent.call("add", "ctx", "The cart.")
    written = agent.playbook.read_bytes()
    with agent.open_ledger() as ledger:
        apply_changes(ledger, [Change("remove", "ctx-001")], actor="human")
    assert agent.playbook.read_bytes() == written
    said = agent.call("rebuild", "--check", code=1).err
    assert "A command was stopped before it wrote playbook.json" in said
    assert "edited" not in said


def test_rebuild_check_names_an_edit(agent: Agent) -> None:
    agent.call("add", "ctx", "The cart.")
    agent.playbook.write_text(agent.playbook.read_text().replace("The cart.", "It is there."))
    said = agent.call("rebuild", "--check", code=1).err
    assert "If you edited playbook.json, the next command records your edits" in said


def test_failed_session_is_named_once(agent: Agent) -> None:
    broken = agent.home / "s-1.jsonl"
    broken.write_text('{"cut')
    for _ in range(2):
        agent.hands("SessionEnd", broken)
    error = agent.call("reflect", code=1).err
    assert error.count(str(broken)) == 1
    assert "contains no records yet" in error
