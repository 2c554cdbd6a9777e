"""The drain that a hook starts: when and how, that no agent waits for it, and that it does what
the command does.
"""

import json
import os
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reflector import project as ours
from reflector.hooks import fast
from reflector.hooks.install import SCRIPT
from reflector.sessions import locks, spool
from reflector.sessions.drain import drain_project
from reflector.sessions.spool import look_into
from tests.hooks.conftest import Project, event
from tests.road.sessions import Session

CHECKOUT = Path(fast.__file__).parents[2]

DRAIN = """
import json, os, sys, time
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
seen = {
    "argv": sys.argv[1:], "leader": os.getsid(0) == os.getpid(),
    "cwd": os.getcwd(), "isolated": sys.flags.isolated,
    "open": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in fds
             if os.path.lexists(f"/proc/self/fd/{fd}")},
}
folder = os.environ["SEEN"]
path = f"{folder}/{os.getpid()}"
with open(path + ".new", "w") as file:
    json.dump(seen, file)
os.rename(path + ".new", path + ".started")
while not os.path.exists(f"{folder}/release"):
    time.sleep(0.005)
os.rename(path + ".started", path + ".ended")
"""


class Drains:
    """An interpreter whose `reflector` is a drain that stays until it is released."""

    def __init__(self, folder: Path) -> None:
        self.seen = folder / "seen"
        self.seen.mkdir()
        venv.create(folder / "venv", symlinks=True)
        self.python = folder / "venv/bin/python"
        (package,) = folder.glob("venv/lib/python*/site-packages")
        (package / "reflector").mkdir()
        (package / "reflector/__main__.py").write_text(DRAIN)

    @property
    def command(self) -> list[str]:
        return [str(self.python), "-I", "-S", SCRIPT]

    def started(self, count: int) -> list[dict[str, Any]]:
        """What the drains saw, once `count` of them have started."""
        for _ in range(24_000):
            if len(found := sorted(self.seen.glob("*.started"))) >= count:
                return [json.loads(path.read_text()) for path in found]
            time.sleep(0.005)
        raise AssertionError(f"{len(found)} drains started, not {count}")

    def release(self) -> None:
        (self.seen / "release").touch()
        while list(self.seen.glob("*.started")):
            time.sleep(0.005)


@pytest.fixture
def drains(tmp_path: Path, project: Project) -> Iterator[Drains]:
    made = Drains(tmp_path)
    project.environ = {"REFLECTOR_NO_SPAWN": "", "SEEN": str(made.seen)}
    yield made
    made.release()


def test_the_hook_returns_while_its_drain_still_runs(project: Project, drains: Drains) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    process = project.start(drains.command, pass_fds=[write], start_new_session=True)
    os.close(write)
    assert process.communicate(json.dumps(event("SessionEnd")).encode(), timeout=60) == (b"", b"")
    assert process.returncode == 0
    (seen,) = drains.started(1)  # and runs until it is released
    assert os.read(read, 1) == b""  # the agent's other pipes are closed too
    os.close(read)
    assert seen["argv"] == ["--project", str(project.path), "drain", "--background"]
    assert (seen["leader"], seen["cwd"], seen["isolated"]) == (True, "/", 1)
    assert [seen["open"][fd] for fd in "012"] == ["/dev/null"] * 3
    with pytest.raises(ProcessLookupError):  # the drain is in no group of the hook's
        os.killpg(process.pid, 9)
    drains.release()
    assert len(list(drains.seen.glob("*.ended"))) == 1


def test_start_drains_only_what_an_earlier_session_left(project: Project, drains: Drains) -> None:
    def hook(name: str, **environ: str) -> None:
        command = ["env", *(f"{key}={value}" for key, value in environ.items()), *drains.command]
        project.hook(event(name), command=command)

    project.hook(b"{", command=drains.command)
    hook("SessionStart")
    hook("Stop")
    hook("SubagentStart")
    hook("SessionStart")  # the stop waits
    assert len(drains.started(1)) == 1  # any of the hooks before would have started one before
    (project.spool / "waiting" / "s-1.json").unlink()
    hook("SessionEnd", REFLECTOR_NO_SPAWN="1")
    hook("SessionStart")
    assert len(drains.started(2)) == 2


def test_drain_that_cannot_start_costs_nothing(project: Project, drains: Drains) -> None:
    script = (
        f"import runpy, sys; sys.executable = '/nowhere'; runpy.run_path({fast.__file__!r}, "
        "run_name='__main__')"
    )
    out, err = project.hook(
        event("SessionEnd"), command=[str(drains.python), "-I", "-S", "-c", script]
    )
    assert (out, err.count(b"\n"), b"could not start the process" in err) == (b"", 1, True)
    assert len(list(project.spool.glob("*.json"))) == 1


# What it does


@pytest.fixture
def transcript(project: Project) -> Path:
    return Session("s-1").user("Fix the parser.").write(project.home / "s-1.jsonl")


def background(project: Project, *options: str) -> tuple[int, str]:
    """Exit code and stderr."""
    command = [
        sys.executable,
        *options,
        "-m",
        "reflector",
        "--project",
        str(project.path),
        "drain",
        "--background",
    ]
    process = project.start(command, cwd=CHECKOUT)
    out, err = process.communicate(timeout=60)
    assert out == b""
    return process.returncode, err.decode()


def deliver(project: Project, transcript: Path) -> None:
    project.hook(event("SessionEnd", cwd=str(project.path), transcript_path=str(transcript)))
    assert look_into(project.spool).pending == 1


@pytest.mark.slow
def test_drain_loads_no_command_line(project: Project, transcript: Path) -> None:
    unwanted = {
        "click",
        "alembic.command",
        "anthropic",
        "pydantic",
        "rich",
        "sqlalchemy.dialects.postgresql",
    }
    # alembic makes the ledger
    for first_use in ({"alembic.command", "sqlalchemy.dialects.postgresql"}, set()):
        deliver(project, transcript)
        code, err = background(project, "-X", "importtime")
        assert (code, look_into(project.spool).pending) == (0, 0)
        loaded = {
            line.rpartition("|")[2].strip()
            for line in err.splitlines()
            if line.startswith("import time:")
        }
        assert "reflector.ledger.store" in loaded  # the list is a list
        assert loaded & unwanted <= first_use


def test_error_has_the_commands_words_and_exit_code(project: Project, transcript: Path) -> None:
    deliver(project, transcript)
    project.environ["REFLECTOR_BACKEND"] = "nobody"
    code, err = background(project)
    assert (code, "nobody" in err, "Traceback" in err) == (2, True, False)
    assert look_into(project.spool).pending == 1


def test_drain_reports_failures_although_another_takes_over(
    project: Project, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.spool.mkdir(mode=0o700, parents=True)
    (project.spool / "00000000000000000001-1-1.json").write_bytes(b"{")
    looks = spool.pending_for
    with ExitStack() as other:

        def meanwhile(
            root: Path, part: str = "", aside: list[spool.Failed] | None = None
        ) -> list[spool.Delivery]:
            """Between the lock let go and the next look, a session ends and another process
            takes the lock.
            """
            if aside is None:
                deliver(project, transcript)
                assert other.enter_context(locks.held(project.state, "drain.lock", wait=False))
            return looks(root, part, aside)

        monkeypatch.setattr(spool, "pending_for", meanwhile)
        done = drain_project(ours.Project.at(project.path))
    assert [one.error for one in done.failed] == [spool.NOT_A_PAYLOAD]
