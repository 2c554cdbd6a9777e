"""An upgrade leaves a copy of the ledger beside it, with which the older version goes on."""

import gzip
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

import reflector.ledger
from reflector.ledger.migration import HEAD_REVISION
from reflector.ledger.sqlite_copy import before_upgrade
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.building import OLDER
from tests.exchange.older import LANDED, Machine, code_of, has_commit
from tests.road.agent import Agent

_OLDER = ["one-machine", "every-type", "merged-and-redacted"]
_ROOT = Path(__file__).parents[2]


def older(path: Path, name: str = "one-machine") -> str:
    """Put an older ledger into a file; return its revision."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress((OLDER / f"{name}.db.gz").read_bytes()))
    return revision_of(path)


def asked(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def revision_of(path: Path) -> str:
    return str(asked(path, "SELECT version_num FROM alembic_version")[0][0])


def events_of(path: Path) -> list[tuple[object, ...]]:
    return asked(path, "SELECT event_id, data, chain FROM event ORDER BY playbook_id, position")


def beside(path: Path) -> set[str]:
    return {one.name for one in path.parent.iterdir()} - {path.name, f"{path.name}.lock"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(reflector.ledger, "tell", told.append)
    return told


@pytest.mark.parametrize("name", _OLDER)
def test_upgrade_keeps_the_ledger_from_before(path: Path, lines: list[str], name: str) -> None:
    revision = older(path, name)
    events = events_of(path)
    with Ledger.open_file(path) as ledger:
        assert list(verify(ledger)) == []
    kept = path.with_name(f"ledger.db.revision-{revision}")
    assert beside(path) == {kept.name}
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (revision_of(kept), events_of(kept)) == (revision, events)
    (line,) = lines
    assert f"from revision {revision} to {HEAD_REVISION}" in line
    assert f"restore {kept}` with the older version" in line
    Ledger.open_file(path).close()
    assert lines == [line]


def test_only_the_newest_copy_is_kept(path: Path) -> None:
    revision = older(path)
    earlier = path.with_name("ledger.db.revision-0000")
    earlier.write_bytes(b"of another upgrade")
    Ledger.open_file(path).close()
    assert beside(path) == {f"ledger.db.revision-{revision}"}
    before = before_upgrade(path)
    assert before is not None
    assert before.revision == revision


def test_new_and_current_ledgers_are_not_copied(path: Path, lines: list[str]) -> None:
    for _ in range(2):
        Ledger.open_file(path).close()
    assert (beside(path), lines) == (set(), [])


def test_upgrade_of_tables_alone_keeps_a_copy(path: Path, lines: list[str]) -> None:
    older(path)
    Ledger.open_file(path).close()
    before_upgrade(path).file.unlink()
    lines.clear()
    with Ledger.open_file(path) as ledger, ledger.engine.connection() as connection:
        connection.execute("UPDATE projection SET code_version = 1")
        connection.commit()
    Ledger.open_file(path).close()
    assert beside(path) == {f"ledger.db.revision-{HEAD_REVISION}"}
    (line,) = lines
    assert "the ledger was upgraded; to go back" in line


def test_interrupted_upgrade_keeps_the_older_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the migration and the rebuild a process may die: the ledger is no longer the one
    from before.
    """
    revision = older(path)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "rebuild", dies)
        with pytest.raises(KeyboardInterrupt):
            Ledger.open_file(path)
    assert revision_of(path) == HEAD_REVISION
    with Ledger.open_file(path) as ledger:
        assert list(verify(ledger)) == []
    assert beside(path) - {"ledger.db-wal", "ledger.db-shm"} == {f"ledger.db.revision-{revision}"}


def killed(step: int, work: Callable[[], object]) -> bool:
    """Do something in a process that is killed at its n-th file to open, rename or remove;
    return whether it was.
    """
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, _: object) -> None:
            nonlocal left
            if event in ("open", "os.rename", "os.remove"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.slow
def test_kill_leaves_a_usable_ledger(path: Path) -> None:
    Ledger.open_file(path.with_name("warm.db")).close()
    kills, step = 0, 0
    while True:
        step += 1
        for left in path.parent.iterdir():
            left.unlink()
        revision = older(path)
        events = events_of(path)
        was_killed = killed(step, lambda: Ledger.open_file(path).close())
        if (before := before_upgrade(path)) is not None:
            assert (revision_of(before.file), events_of(before.file)) == (revision, events)
        with Ledger.open_file(path) as ledger:
            assert list(verify(ledger)) == []
        kept = path.with_name(f"ledger.db.revision-{revision}")
        assert beside(path) == {kept.name}
        assert (revision_of(kept), events_of(kept)) == (revision, events)
        kills += was_killed
        if not was_killed:
            break
    assert kills > 5


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", range(0, 400, 10))
def test_kill_at_any_time_loses_no_event(tmp_path: Path, milliseconds: int) -> None:
    agent = Agent.bare(tmp_path)
    revision = older(agent.ledger, "merged-and-redacted")
    events = events_of(agent.ledger)
    process = agent.start("ledger", "take", "--yes")
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.3 + milliseconds / 1000)
    process.kill()
    process.communicate()
    agent.call("ledger", "take", "--yes")
    kept = agent.ledger.with_name(f"ledger.db.revision-{revision}")
    assert (revision_of(kept), events_of(kept)) == (revision, events)
    assert events_of(agent.ledger) == events
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_full_disk_stops_the_upgrade(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    revision = older(agent.ledger)
    limit = agent.ledger.stat().st_size // 2

    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    # -B: a compiled module that is cut at the limit would break every later start.
    program = [sys.executable, "-I", "-B", "-m", "reflector"]
    ran = agent.run("ledger", "take", "--yes", code=1, program=program, preexec_fn=no_space)
    assert "reflector could not copy this ledger (" in ran.err
    assert "Free " in ran.err
    assert revision_of(agent.ledger) == revision
    assert not [name for name in beside(agent.ledger) if "revision" in name]
    agent.call("ledger", "take", "--yes")
    assert revision_of(agent.ledger) == HEAD_REVISION


def test_status_names_the_copy(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    revision = older(agent.ledger)
    agent.call("ledger", "take", "--yes")
    kept = f"{agent.ledger}.revision-{revision}"
    assert kept in agent.call("status").out
    found = agent.json("status")["upgrade"]
    assert (found["revision"], found["file"]) == (revision, kept)
    Path(kept).unlink()
    assert agent.json("status")["upgrade"] is None


def test_redaction_removes_the_copy_with_the_text(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    revision = older(agent.ledger)
    agent.call("ledger", "take", "--yes")
    kept = Path(f"{agent.ledger}.revision-{revision}")
    added = agent.call("add", "ctx", "Call Jane Doe.")
    agent.call("redact", "--where", "Jane Doe", "--why", "they asked", "--yes")
    assert kept.exists(), added
    (first, *_) = agent.events("bullet.added") or agent.events("playbook.imported")
    told = agent.call("redact", str(first["position"]), "--why", "they asked", "--yes").err
    assert f"reflector removed {kept}" in told
    assert not kept.exists()


def test_redaction_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    """A process may die after the erasure and before it removes the copy; nothing in the ledger
    holds the text then.
    """
    agent = Agent.bare(tmp_path)
    revision = older(agent.ledger)
    agent.call("ledger", "take", "--yes")
    kept = Path(f"{agent.ledger}.revision-{revision}")
    whole = kept.read_bytes()
    text = agent.json("list")[0]["text"]
    agent.call("redact", "--where", text, "--why", "they asked", "--yes")
    assert not kept.exists()
    kept.write_bytes(whole)
    agent.call("redact", "--where", text, "--why", "they asked", "--yes")
    assert not kept.exists()


@pytest.mark.slow
def test_imported_erasure_removes_the_copy(tmp_path: Path) -> None:
    agent, other = Agent.bare(tmp_path / "a"), Agent.bare(tmp_path / "b")
    for one in (agent, other):
        revision = older(one.ledger)
        one.call("ledger", "take", "--yes")
    text = other.json("list")[0]["text"]
    other.call("redact", "--where", text, "--why", "they asked", "--yes")
    kept = Path(f"{agent.ledger}.revision-{revision}")
    agent.call("add", "ctx", "The shop is in Lyon.")
    (tmp_path / "b.ndjson").write_text(other.call("export", "--format", "ndjson").out)
    assert f"reflector removed {kept}" in agent.call("import", tmp_path / "b.ndjson").err
    assert not kept.exists()


def test_restore_of_an_older_backup_leaves_no_copy(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    older(tmp_path / "backup.db")
    told = agent.call("ledger", "restore", tmp_path / "backup.db")
    assert "upgraded" not in told.err
    assert not [name for name in beside(agent.ledger) if "revision" in name]
    assert agent.call("verify").out == ""


def gone_back(folder: Path, version: str) -> tuple[Machine, Machine]:
    """Return an older version's machine that restored the copy of an upgrade, and the newer
    version on it.
    """
    if not has_commit(LANDED[version]):
        pytest.skip("the clone is shallow")
    machine = Machine.new(code_of(LANDED[version], folder / "code"), folder / "machine")
    newer = Machine(_ROOT, machine.folder)
    machine.says("add", "pat", "Run the tests")
    machine.says("ingest", "session.jsonl")
    listed, revision = machine.says("list"), revision_of(machine.ledger)
    newer.run("ledger", "take", "--yes")
    newer.says("add", "pat", "Added after the upgrade")
    kept = f"{machine.ledger}.revision-{revision}"
    command = (
        ["restore"]
        if machine.run("ledger", "restore", "--help").returncode
        else ["ledger", "restore"]
    )
    assert "lacks" in machine.says(*command, kept, code=1)
    machine.says(*command, "--force", kept)
    # A version that keeps copies of its own reports the events that the backup lacks.
    assert machine.says("list").startswith(listed)
    if version == "0009":  # the first whose verify compares the ledger with its copy
        assert "lacks events that it had before" in machine.says("verify", code=1)
    else:
        machine.says("verify")
    return machine, newer


@pytest.mark.slow
@pytest.mark.parametrize("version", LANDED)
def test_older_version_goes_back(tmp_path: Path, version: str) -> None:
    """Each landed version restores the copy that the upgrade of its ledger left. Upgraded again,
    the ledger gets the events that were added after the first upgrade from this home's copy.
    """
    _, newer = gone_back(tmp_path, version)
    assert "the ledger was upgraded from revision" in newer.says("list")
    (command,) = re.findall("`reflector (import [^`]+)`", newer.says("verify", code=1))
    newer.says(*command.split())
    assert newer.says("verify") == ""
    assert "Added after the upgrade" in newer.says("list")


@pytest.mark.slow
def test_newer_version_takes_what_the_older_added(tmp_path: Path) -> None:
    machine, newer = gone_back(tmp_path, "0008")
    machine.says("add", "pat", "Added after going back")
    assert "Added after going back" in newer.says("list")


@pytest.mark.slow
def test_older_version_of_one_revision_goes_on(tmp_path: Path) -> None:
    """Nothing of such a ledger is upgraded, so there is no copy, and either version works on it."""
    version = next((name for name in LANDED if name.startswith(HEAD_REVISION)), None)
    if version is None or not has_commit(LANDED[version]):
        pytest.skip("no landed version has this revision, or the clone is shallow")
    machine = Machine.new(code_of(LANDED[version], tmp_path / "code"), tmp_path / "machine")
    machine.says("add", "pat", "Run the tests")
    newer = Machine(_ROOT, machine.folder)
    newer.run("ledger", "take", "--yes")
    newer.says("add", "pat", "Added by the newer version")
    assert before_upgrade(machine.ledger) is None
    assert "Added by the newer version" in machine.says("list")
