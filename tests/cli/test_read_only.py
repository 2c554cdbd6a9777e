"""Questions in a project that can only be read, asked by a process that permissions hold, be it
root's.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.road.agent import REFLECTOR

#: Of prctl: drop a capability; those with which root passes by permissions.
_DROP, _CAPABILITIES = 24, (1, 2)
QUESTIONS = (
    *(
        "list",
        "blame pat-001",
        "show pat-001",
        "log",
        "status",
        "stats",
        "review",
        "trial status",
        "trial plan",
    ),
    *(
        "stats --doubles",
        "diff 0..",
        "lessons",
        "verify",
        "export",
        "export --format ndjson",
        "rebuild --check",
    ),
    *("ledger head", "check --dry-run", "sql SELECT(1)"),
)


def held_by_permissions() -> None:
    """Take root's right to pass by permissions from the process that is started."""
    for capability in _CAPABILITIES if os.geteuid() == 0 else ():
        ctypes.CDLL(None).prctl(_DROP, capability, 0, 0, 0)


class Project:
    """A project with a bullet and a line of advice."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "project"
        self.ledger = self.root / ".claude" / "reflector" / "ledger.db"
        for made in (self.root, folder / "home"):
            made.mkdir()
        (self.root / "CLAUDE.md").write_text("- Always run the tests before you commit.\n")
        assert self.run("add pat first").returncode == 0

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "REFLECTOR_NO_SPAWN": "1",
        }
        return subprocess.run(
            [*REFLECTOR, "--project", str(self.root), *command.split()],
            env=env,
            cwd=self.folder,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=held_by_permissions,
        )

    def close(self) -> None:
        """Take the right to write from every file and folder."""
        for path in (*self.root.rglob("*"), self.root):
            path.chmod(path.stat().st_mode & 0o555)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)
    for path in (tmp_path / "project", *(tmp_path / "project").rglob("*")):
        path.chmod(0o700)


def mounted(project: Project) -> None:
    """Mount the project read-only over itself, or skip the test where that is refused."""
    for options in (["--bind"], ["-o", "remount,ro,bind"]):
        if subprocess.run(
            ["mount", *options, str(project.root), str(project.root)], capture_output=True
        ).returncode:
            pytest.skip("nothing can be mounted here")


WAYS: dict[str, Callable[[Project], object]] = {
    "everything": Project.close,
    "a mount": mounted,
    "the state folder": lambda one: one.ledger.parent.chmod(0o500),
    "the file": lambda one: one.ledger.chmod(0o400),
    "the lock": lambda one: one.ledger.with_name("ledger.db.lock").chmod(0o400),
    "what git sees": lambda one: (one.root / ".claude").chmod(0o500),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="setuid and mounts of Linux")
@pytest.mark.parametrize("close", WAYS.values(), ids=WAYS.keys())
def test_every_question_is_answered(project: Project, close: Callable[[Project], object]) -> None:
    close(project)
    try:
        for question in QUESTIONS:
            ran = project.run(question)
            assert ran.returncode == 0, (question, ran.stderr)
        assert "first" in project.run("list").stdout
    finally:
        subprocess.run(["umount", str(project.root)], capture_output=True)


def test_nothing_is_written_to_a_copy(project: Project) -> None:
    project.close()
    ran = project.run("add pat second")
    assert (ran.returncode, "Permission denied" in ran.stderr) == (1, True)
    assert "second" not in project.run("list").stdout
    assert not list(Path(tempfile.gettempdir()).glob("reflector-ledger-*"))


def test_what_a_killed_process_left_is_read(project: Project) -> None:
    checkout, ledger = str(Path(__file__).parents[2]), str(project.ledger)
    program = (
        f"import os, sys; sys.path.insert(0, {checkout!r})\n"
        "from pathlib import Path; from reflector.ledger.store import Ledger; from "
        "tests.ledger.events import added\n"
        f"one = Ledger.open_file(Path({ledger!r})); one.append([added('pat-777', 'after a "
        "kill')])\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert project.ledger.with_name("ledger.db-wal").stat().st_size
    project.ledger.with_name("ledger.db-shm").unlink()
    project.close()
    assert "after a kill" in project.run("list").stdout


def test_a_playbook_without_a_ledger_is_shown(project: Project) -> None:
    shutil.rmtree(project.ledger.parent)
    shutil.rmtree(project.folder / "home")
    project.close()
    assert "first" in project.run("list").stdout
