"""Bad days: no space, no permission, no database, files that are not what they should be."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from reflector.ledger import lock
from reflector.ledger.store import Ledger
from reflector.sessions import drain, fallback
from reflector.sessions.spool import MOST_ATTEMPTS
from tests.conftest import Postgres
from tests.ledger.events import added
from tests.proof import forger
from tests.road.agent import Agent
from tests.road.sessions import Session, as_bytes


def assert_told(agent: Agent, *arguments: str | Path, about: str | Path, code: int = 1) -> str:
    """The command fails with one message that names the thing; the way out stands behind a semicolon."""
    ran = agent.call(*arguments, code=code)
    assert str(about) in ran.err
    assert ";" in ran.err
    assert "Traceback" not in ran.err
    return ran.err


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A small file system of its own on `folder`; skips where that cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip("a file system cannot be mounted here (needs root)")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path: Path) -> None:
    """Write a file until nothing fits any more."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_a_full_disk_is_told_and_what_was_not_taken_in_waits(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "1200k"):
        agent = Agent.in_folder(disk)
        sessions = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(3)]
        agent.call("ingest", sessions[0])
        agent.hook("SessionEnd", session_id="s-1", transcript_path=str(sessions[1]))
        filler = disk / "filler"
        fill(filler)
        for command in (["ingest", sessions[2]], ["drain"], ["config", "set", "idle_minutes", "3"]):
            assert "space" in assert_told(agent, *command, about=disk)
        (ledger,) = (check for check in agent.json("doctor", code=1) if check["name"] == "ledger")
        assert "backup" not in ledger["mend"]
        assert json.loads(agent.playbook.read_bytes())
        assert len(agent.deliveries()) == 1
        filler.unlink()
        agent.call("drain")
        assert agent.counters()["pat-001"] == (2, 0)
        agent.call("ingest", sessions[2])
        assert agent.counters()["pat-001"] == (3, 0)
        assert agent.call("verify").out == ""


def test_a_read_only_project_is_told_and_nothing_changes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "4m"):
        agent = Agent.in_folder(disk)
        agent.call("drain")
        session = Session().cites("pat-001").write(tmp_path / "1.jsonl")
        agent.home = tmp_path / "home"
        agent.home.mkdir()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        changes = (["add", "pat", "More."], ["config", "set", "idle_minutes", "3"], ["install", "--scope", "project"])
        for command in (["ingest", session], ["drain"], ["list"], *changes):
            assert_told(agent, *command, about=disk)
        (ledger,) = (check for check in agent.json("doctor", code=1) if check["name"] == "ledger")
        assert "writable" in ledger["mend"]
        assert "backup" not in ledger["mend"]
        process = agent.start_hook("SessionEnd", session_id="s-1", transcript_path=str(session))
        assert process.wait() == 0
        assert agent.json("status", code=1)["spool"]["elsewhere"] == 1
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        agent.call("drain")
        assert agent.counters()["pat-001"] == (1, 0)
        assert agent.json("status")["spool"]["elsewhere"] == 0


def test_a_new_project_in_a_read_only_folder_is_told(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "1m"):
        agent = Agent(disk / "project", tmp_path)
        agent.project.mkdir()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert "--project" in assert_told(agent, "add", "pat", "Be kind.", about=agent.claude)


def test_a_locked_database_is_told(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.call("drain")
    monkeypatch.setattr(lock, "BUSY_TIMEOUT_MS", 200)
    (file,) = agent.state.glob("ledger.db*.lock")
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "locked" in assert_told(agent, "add", "pat", "More.", about=agent.ledger)
    agent.call("add", "pat", "More.")


@pytest.mark.parametrize(
    ("change", "commands", "way_out"),
    [
        ("DELETE FROM event WHERE type = 'bullet.tagged'", ["list", "show pat-001", "blame pat-001"], "verify"),
        ("UPDATE playbook SET chain = 'pl1:x'", ["add pat More.", "revise pat-001 More."], "verify"),
        ("UPDATE event SET data = '' WHERE type = 'bullet.tagged'", [], "verify"),
        ('UPDATE event SET data = replace(data, \'"keys":"\', \'"keys":"!\')', [], "verify"),
        ("UPDATE bullet SET section = 'x'", ["list", "add pat More."], "rebuild"),
    ],
)
def test_a_damaged_row_is_told_without_a_traceback(
    agent: Agent, change: str, commands: list[str], way_out: str
) -> None:
    agent.counted()
    before = agent.call("list").out
    with forger.forging(agent.ledger) as connection:
        connection.execute(change)
    for command in commands:
        assert f"reflector {way_out}" in agent.call(*command.split(), code=1).err
    assert agent.call("verify", code=1).out
    if way_out == "rebuild":
        agent.call("rebuild")
        assert agent.call("verify").out == ""
        assert agent.call("list").out == before


@pytest.mark.parametrize("made", ["a folder", "text", "another database", "a cut ledger"])
def test_a_ledger_that_is_none_is_told_and_left_as_it_is(agent: Agent, made: str) -> None:
    if made == "a cut ledger":
        agent.counted()
        whole = agent.ledger.read_bytes()
        agent.ledger.write_bytes(whole[: len(whole) // 3])
    else:
        agent.state.mkdir()
    if made == "a folder":
        agent.ledger.mkdir()
    elif made == "text":
        agent.ledger.write_text("This is not a database. " * 500)
    elif made == "another database":
        with sqlite3.connect(agent.ledger) as connection:
            connection.execute("CREATE TABLE notes (text)")
        connection.close()
    before = None if made == "a folder" else agent.ledger.read_bytes()
    playbook = agent.playbook.read_bytes()
    for command in (["list"], ["drain"], ["add", "pat", "More."], ["status"], ["verify"]):
        ran = agent.call(*command, code=1)
        assert str(agent.ledger) in ran.err + ran.out, command
        assert "Traceback" not in ran.err
    assert (None if made == "a folder" else agent.ledger.read_bytes()) == before
    assert agent.playbook.read_bytes() == playbook


def test_a_playbook_that_is_a_folder_is_told(agent: Agent) -> None:
    agent.playbook.unlink()
    agent.playbook.mkdir()
    assert_told(agent, "list", about=agent.playbook)
    assert agent.call("status", code=1).err == ""


def test_a_template_of_ones_own_that_cannot_be_used_is_told_and_counting_goes_on(agent: Agent, tmp_path: Path) -> None:
    template = agent.state / "prompts" / "playbook.txt"
    template.parent.mkdir(parents=True)
    template.write_text("There is no place for the points.")
    ran = agent.call("ingest", Session().cites("pat-001").write(tmp_path / "1.jsonl"))
    assert str(template) in ran.err
    assert len(ran.err.splitlines()) == 1
    assert agent.counters()["pat-001"] == (1, 0)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


REFUSED: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(missing_ok=True),
    "empty": lambda path: path.touch(),
    "a folder": lambda path: path.mkdir(),
    "a pipe": fifo,
    "a link to itself": loop,
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 300),
    "prose": lambda path: path.write_text("Dear diary,\n" * 1000),
    "a number": lambda path: path.write_text("7"),
    "deep": lambda path: path.write_text("[" * 200_000),
    "another agent's": lambda path: path.write_text(json.dumps({"sessionId": "g", "messages": [{"type": "gemini"}]})),
    "UTF-16": lambda path: path.write_text('{"type": "user"}\n', "utf-16"),
    "a hook's without its event": lambda path: path.write_text('{"session_id": "s", "transcript_path": "/x"}'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_transcript_is_named_and_the_others_are_taken_in(agent: Agent, tmp_path: Path, what: str) -> None:
    bad = tmp_path / "bad.jsonl"
    REFUSED[what](bad)
    good = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(2)]
    ran = agent.call("ingest", good[0], bad, good[1], code=1)
    assert f"reflector: {bad}" in ran.err
    assert len(ran.err.splitlines()) == 1
    assert agent.counters()["pat-001"] == (2, 0)


@pytest.mark.parametrize(
    "noise",
    [
        b"\xef\xbb\xbf",
        b"\r\n\r\n",
        b"\x00\x00\x00\n",
        b"\xff\xfe broken \n",
        b'{"type":"user"}\n',
        b"[" * 100_000 + b"\n",
        b'{"type":"assistant","message":{"content":[7,null,"[pat-002]"]},"uuid":"\\ud800"}\n',
        b'{"parentUuid":null,"type":"user","message":{"role":"user","content":"'
        + b"a" * 3_000_000
        + b'"},"uuid":"u"}\n',
        b"9" * 10_000 + b"\n",
    ],
    ids=["a byte order mark", "blank", "NUL", "no UTF-8", "bare", "deep", "odd types", "a long line", "a long number"],
)
def test_a_damaged_transcript_gives_what_is_whole_in_it(agent: Agent, tmp_path: Path, noise: bytes) -> None:
    session = Session().cites("pat-001")
    path = tmp_path / "t.jsonl"
    path.write_bytes(noise + noise.join(line + b"\n" for line in as_bytes(session.records).splitlines()))
    agent.call("ingest", path)
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.call("verify").out == ""


def test_hook_json_is_taken_in_as_a_hook_would(agent: Agent, tmp_path: Path) -> None:
    transcript = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    delivered = tmp_path / "hook.json"
    payload = {"hook_event_name": "SessionEnd", "session_id": "s-1", "transcript_path": str(transcript)}
    delivered.write_text(json.dumps(payload))
    for expected in ("pat-001 helpful", "nothing new"):
        assert expected in agent.call("ingest", delivered).out
    assert agent.events("session.recorded")[0]["actor"] == "hook:SessionEnd"
    delivered.write_text(json.dumps({**payload, "hook_event_name": "UserPromptSubmit"}))
    assert "this event does not end a session or turn" in agent.call("ingest", delivered).out
    delivered.write_text(json.dumps({**payload, "transcript_path": "/no/such.jsonl"}))
    assert "/no/such.jsonl" in agent.call("ingest", delivered, code=1).err
    assert len(agent.json("status", code=1)["spool"]["failed"]) == 1


def test_a_delivery_that_failed_is_tried_again_when_its_user_says_so(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("not yet")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    assert "reflector reflect" in agent.call("drain", code=1).err
    assert agent.call("drain").err == ""
    assert str(path) in agent.call("status", code=1).out
    Session().cites("pat-001").write(path)
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.call("status").err == ""


def _pause_over(agent: Agent) -> None:
    """As if each failed delivery had been tried long ago."""
    for note in (agent.state / "spool" / "failed").glob("*.error"):
        told = json.loads(note.read_bytes())
        note.write_text(json.dumps(told | {"failed_at_ns": told["failed_at_ns"] - 86_400 * 10**9}))


@pytest.mark.parametrize("what", ["missing", "a folder", "a pipe", "a link to itself", "prose"])
def test_a_transcript_that_could_not_be_read_for_a_while_is_taken_in_by_a_later_drain(agent: Agent, what: str) -> None:
    path = agent.ended()
    whole = path.read_bytes()
    path.unlink()
    REFUSED[what](path)
    agent.call("drain", code=1)
    agent.call("drain")  # not at once
    _pause_over(agent)
    agent.call("drain", code=1)
    (failure,) = agent.json("status", code=1)["spool"]["failed"]
    assert failure["attempts"] == 2
    if what != "missing":
        (path.rmdir if what == "a folder" else path.unlink)()
    path.write_bytes(whole)
    _pause_over(agent)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["failed"] == []


def test_a_delivery_that_was_tried_for_a_month_waits_for_its_user(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("not yet")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    agent.call("drain", code=1)
    (note,) = (agent.state / "spool" / "failed").glob("*.error")
    note.write_text(json.dumps(json.loads(note.read_bytes()) | {"attempts": MOST_ATTEMPTS}))
    Session().cites("pat-001").write(path)
    _pause_over(agent)
    agent.call("drain")
    assert "given up" in agent.call("status", code=1).out
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)


@pytest.mark.parametrize("ended", [False, True])
def test_a_stop_that_was_heard_while_the_clock_was_ahead_is_taken_in_an_hour_after_it_is_right(
    agent: Agent, tmp_path: Path, ended: bool
) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    agent.hook("Stop", session_id="s-1", transcript_path=str(path))
    (stop,) = (agent.state / "spool" / "waiting").iterdir()
    to_come = json.loads(stop.read_bytes())["received_at_ns"] + 12 * 365 * 86_400 * 10**9
    stop.write_text(json.dumps(json.loads(stop.read_bytes()) | {"received_at_ns": to_come}))
    os.utime(stop, ns=(to_come, to_come))
    if ended:
        agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (int(ended), 0)
    assert agent.json("status")["spool"]["waiting"] == 1
    os.utime(stop, ns=(0, stop.stat().st_mtime_ns - 3_601 * 10**9))  # as if an hour had passed
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["waiting"] == 0


def test_a_session_in_which_nothing_was_said_is_no_failure(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(tmp_path / "empty.jsonl"), reason="other")
    agent.hook("SessionEnd", session_id="s-1", reason="other")
    agent.call("drain")
    assert agent.deliveries() == []
    agent.call("status")


def test_a_session_whose_transcript_is_missing_stays_with_its_error(agent: Agent, tmp_path: Path) -> None:
    kept = agent.ended()
    kept.unlink()
    for event in ("Stop", "SessionEnd"):  # something was said, wherever it is
        agent.hook(event, session_id="s-2", transcript_path=str(tmp_path / "2.jsonl"))
    told = agent.call("drain", code=1).err
    assert f"{kept}: No such file or directory; kept and tried again later, or now with: reflector reflect" in told
    assert len(agent.json("status", code=1)["spool"]["failed"]) == 2


def _opened_and_left(agent: Agent, **more: str) -> None:
    """What Claude Code 2.1.329 hands over when it is quit at once: a transcript that it never writes."""
    path = agent.home / ".claude/projects/-home-ada-shop/d41aab57-908c-4dea-8826-6bc3d5f161e6.jsonl"
    session = {"session_id": path.stem, "transcript_path": str(path), "cwd": str(agent.project)}
    agent.hook("SessionStart", **session, source="startup", model="claude-sonnet-4-6")
    agent.hook("SessionEnd", **session, reason="prompt_input_exit", **more)


@pytest.mark.parametrize("more", [{}, {"prompt_id": "fc5ce539-3185-4901-b7ff-69dc5b042324"}])
def test_a_session_that_was_opened_and_left_without_a_word_is_no_failure(agent: Agent, more: dict[str, str]) -> None:
    _opened_and_left(agent, **more)
    agent.call("drain")
    assert "1 ended without a word or a transcript" in agent.call("status").out


def test_a_session_that_seemed_to_be_without_a_word_is_taken_in_when_its_transcript_turns_up(agent: Agent) -> None:
    _opened_and_left(agent)
    agent.call("drain")
    session = Session("d41aab57-908c-4dea-8826-6bc3d5f161e6").cites("pat-001")
    session.write(agent.home / ".claude/projects/-home-ada-shop/d41aab57-908c-4dea-8826-6bc3d5f161e6.jsonl")
    agent.call("drain", "--retry-failed")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["silent"] == 0


def test_the_end_of_a_session_that_was_heard_of_needs_its_transcript(agent: Agent, tmp_path: Path) -> None:
    said = Session("d41aab57-908c-4dea-8826-6bc3d5f161e6").cites("pat-001").write(tmp_path / "moved.jsonl")
    agent.hook("PreCompact", session_id="d41aab57-908c-4dea-8826-6bc3d5f161e6", transcript_path=str(said))
    agent.call("drain")
    _opened_and_left(agent)
    assert "No such file" in agent.call("drain", code=1).err


def test_the_end_of_a_summariser_whose_transcript_never_exists_is_no_failure(agent: Agent, tmp_path: Path) -> None:
    agent.hook("SubagentStop", session_id="s-1", agent_id="a-1", agent_transcript_path=str(tmp_path / "a.jsonl"))
    agent.call("drain")
    agent.call("status")


def test_what_the_client_writes_after_the_end_is_taken_in_too(agent: Agent, tmp_path: Path) -> None:
    session = Session().cites("pat-001")
    whole = as_bytes(session.records)
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole[: whole.index(b"Perfect")])
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    path.write_bytes(whole)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)


SECRETS = {
    "github": "ghp_" + "a1B2" * 9,
    "anthropic": "sk-ant-api03-" + "Zz9_" * 12,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "password": "hunter2-correct-horse",
}


def test_no_secret_of_a_transcript_is_in_any_file_that_is_kept(agent: Agent, tmp_path: Path) -> None:
    words = (
        f"token {SECRETS['github']} and {SECRETS['anthropic']} and {SECRETS['aws']}, DB_PASSWORD={SECRETS['password']}"
    )
    session = Session().user(f"Fix it with {words}").agent(f"As [pat-001] says, I use {words}.")
    session.runs(f"curl -H 'Authorization: Bearer {SECRETS['github']}'", f"error: bad {words}", is_error=True)
    session.user(f"No, that is wrong, revert it: {words}").agent(f"Sorry, I take back {words}.")
    session.agent("Then [pat-002].").user(f"Perfect, that works. Thanks! {words}").agent("Fine.")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(session.write(tmp_path / "t.jsonl")))
    agent.call("drain")
    assert agent.counters()["pat-001"] != (0, 0)
    for folder, _, names in os.walk(agent.project):
        for name in names:
            kept = Path(folder, name).read_bytes()
            for kind, secret in SECRETS.items():
                assert secret.encode() not in kept, (kind, name)


@pytest.mark.parametrize("beside", [(), ("ledger.db-wal", "ledger.db-shm")])
def test_a_ledger_that_is_gone_is_told_and_a_new_one_counts_each_session_once(
    agent: Agent, tmp_path: Path, beside: tuple[str, ...]
) -> None:
    sessions = [Session(f"s-{n}").cites("pat-001").write(tmp_path / f"{n}.jsonl") for n in range(3)]
    agent.call("ingest", *sessions)
    agent.call("rebuild", "--new-ledger", code=2)  # it is there
    agent.ledger.unlink()
    for name in beside:
        (agent.state / name).write_bytes(b"left behind")
    assert "is missing" in assert_told(agent, "list", about=agent.ledger)
    for command in ("doctor", "status", "verify"):
        told = agent.call(command, code=1).out
        assert f"{agent.ledger} is missing" in told, command
        assert "rebuild --new-ledger" in told, command
    ran = agent.call("rebuild", "--new-ledger")
    assert "kept as" in ran.err
    assert agent.counters()["pat-001"] == (0, 0)
    agent.call("ingest", *sessions)
    assert agent.counters()["pat-001"] == (3, 0)
    assert agent.call("verify").out == ""
    agent.call("status")


def test_a_backup_is_restored_where_the_ledger_is_gone_and_its_write_ahead_log_is_not(
    agent: Agent, tmp_path: Path
) -> None:
    session = Session().cites("pat-001").write(tmp_path / "1.jsonl")
    agent.call("ingest", session)
    agent.call("ledger", "backup", str(tmp_path / "backup.db"))
    with Ledger.open_file(agent.ledger) as ledger:
        ledger.append([added("pat-009")])
        left = {name: (agent.state / name).read_bytes() for name in ("ledger.db-wal", "ledger.db-shm")}
    agent.ledger.unlink()
    for name, content in left.items():
        (agent.state / name).write_bytes(content)
    agent.call("ledger", "restore", str(tmp_path / "backup.db"))
    assert agent.call("verify").out == ""
    assert agent.counters()["pat-001"] == (1, 0)
    assert "pat-009" not in agent.counters()


@pytest.fixture
def no_locks(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project on a file system on which no file can be locked, as some that come over a network are."""
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{fd}").resolve().is_relative_to(agent.project):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    return agent


def test_where_no_file_can_be_locked_a_sqlite_ledger_is_refused_and_the_delivery_waits(no_locks: Agent) -> None:
    no_locks.ended()
    for command in (["drain"], ["add", "pat", "More."]):
        told = assert_told(no_locks, *command, about=no_locks.ledger)
        assert "No locks available" in told
        assert "ledger_url" in told
    assert len(no_locks.deliveries()) == 1
    for command in (["doctor"], ["status"]):
        assert "No locks available" in no_locks.call(*command, code=1).out


@pytest.mark.postgres
def test_where_no_file_can_be_locked_a_ledger_on_a_server_does_everything(
    no_locks: Agent, tmp_path: Path, postgres: Postgres
) -> None:
    agent = no_locks
    agent.ended()
    with postgres.database() as url:
        agent.environ |= {"REFLECTOR_LEDGER_URL": url}
        with patch.dict(os.environ, agent.env()):
            assert drain.run(str(agent.project)) == 0
        assert agent.counters()["pat-001"] == (1, 0)
        agent.call("add", "pat", "More.")
        assert agent.call("verify").out == ""
        agent.call("status")
        (check,) = (check for check in agent.json("doctor", code=1) if check["name"] == "locks")
        assert (check["state"], "No locks available" in check["text"]) == ("ok", True)
    (folder,) = tmp_path.glob("reflector-*")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_neither_project_nor_home_can_hold_is_kept_among_the_temporary_files(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    session = Session().cites("pat-001").write(tmp_path / "1.jsonl")
    spool, elsewhere = agent.state / "spool", agent.home / ".local"
    for path in (spool, elsewhere):  # a file in the place of a folder: root may write anywhere else
        path.write_text("")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(session))
    for path in (spool, elsewhere):
        path.unlink()
    assert agent.json("status")["spool"]["elsewhere"] == 1
    assert "1 kept elsewhere" in agent.call("status").out
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["elsewhere"] == 0


@pytest.mark.parametrize("made", ["open to others", "a link", "another's"])
def test_a_folder_among_the_temporary_files_that_is_not_this_users_is_not_used(
    agent: Agent, tmp_path: Path, made: str
) -> None:
    path, outside = tmp_path / f"reflector-{os.geteuid()}", tmp_path / "outside"
    outside.mkdir()
    if made == "a link":
        path.symlink_to(outside)
    else:
        path.mkdir()
        path.chmod(0o777 if made == "open to others" else 0o700)
    if made == "another's":
        try:
            os.chown(path, 12345, 12345)
        except PermissionError:
            pytest.skip("a file cannot be given to another user here (needs root)")
    (path / "spool").mkdir(exist_ok=True)
    (path / "spool" / "1.json").write_text(json.dumps({"v": 1, "project": str(agent.project), "payload": {}}))
    assert agent.json("status")["spool"]["elsewhere"] == 0
    agent.call("drain")
    assert (path / "spool" / "1.json").exists()
    if made != "open to others":
        with patch.dict(os.environ, agent.env()), pytest.raises(OSError, match="reflector-"):
            fallback.open_temporary()


@pytest.mark.slow
def test_an_answer_that_its_reader_cannot_take_is_a_failure_in_one_line(agent: Agent) -> None:
    agent.call("drain")
    with Path("/dev/full").open("w") as full:
        for command in ("list", "status"):
            process = agent.start(command, stdout=full)
            _, err = process.communicate()
            assert (process.returncode, len(err.splitlines())) == (1, 1)
            assert "No space left" in err


@pytest.mark.skipif(not os.supports_bytes_environ or sys.platform == "darwin", reason="names are text there")
def test_a_project_whose_path_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    agent = Agent.in_folder(folder)
    for command in (("list",), ("drain",), ("add", "pat", "Run the tests")):
        told = assert_told(agent, *command, about="is not UTF-8")
        assert "rename the folder" in told
        assert len(told.splitlines()) == 1


@pytest.mark.skipif(not os.supports_bytes_environ or sys.platform == "darwin", reason="names are text there")
def test_a_path_that_python_does_not_read_as_utf8_is_told_as_that(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path / "caf\xe9")
    command = [sys.executable, "-I", "-X", "utf8=0", "-m", "reflector", "list"]
    ran = subprocess.run(command, cwd=agent.project, env=agent.env(LC_ALL="C"), capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith("reflector: Python reads the path")
    assert "caf\\xe9" in ran.stderr
    assert "PYTHONUTF8=1" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    agent.run("list")


def test_too_little_memory_is_told_without_a_traceback(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def drain(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("reflector.sessions.drain.drain", drain)
    assert_told(agent, "drain", about="not enough memory")
