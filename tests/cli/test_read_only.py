"""Questions in a project that can only be read, asked by a process that permissions hold, be it
root's.
"""

import ctypes
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from tests.building import OLDER
from tests.conftest import first_fast, slow_except
from tests.road.agent import Agent, Ran

#: The version of capset's header, and the capabilities with which root passes by permissions.
_VERSION, _PASSES_BY = 0x20080522, 1 << 1 | 1 << 2
QUESTIONS = (
    "list",
    "blame pat-001",
    "show pat-001",
    "log",
    "status",
    "stats",
    "review",
    "trial status",
    "trial plan",
    "stats --doubles",
    "diff 0..",
    "lessons",
    "verify",
    "export",
    "export --format ndjson",
    "rebuild --check",
    "ledger head",
    "ledger revisions",
    "check --dry-run",
    "sql SELECT(1)",
)


def held_by_permissions() -> None:
    """Take root's right to pass by permissions from this process."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    #: Effective, permitted and inheritable capabilities, the lower 32 of each first.
    capabilities = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, capabilities) == 0
    capabilities[0] &= ~_PASSES_BY
    assert libc.capset(header, capabilities) == 0


class Project:
    """A project with a bullet and a line of advice."""

    def __init__(self, folder: Path) -> None:
        self.agent = Agent.bare(folder, {"REFLECTOR_NO_SPAWN": "1"})
        self.folder, self.root, self.ledger = folder, self.agent.project, self.agent.ledger
        (self.root / "CLAUDE.md").write_text("- Always run the tests before you commit.\n")
        self.agent.call("add", "pat", "first")

    def run(self, *commands: str) -> list[Ran]:
        """Run commands, one after another, in a forked process that permissions hold."""
        answers = self.folder / "answers.json"
        child = os.fork()
        if child == 0:
            try:
                held_by_permissions()
                ran = [self.agent.call(*command.split(), code=None) for command in commands]
                answers.write_text(json.dumps([astuple(each) for each in ran]))
            except BaseException:  # noqa: BLE001 - the child must not go on with the tests
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return [Ran(*answer) for answer in json.loads(answers.read_text())]

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
    "the state folder": lambda project: project.ledger.parent.chmod(0o500),
    "the file": lambda project: project.ledger.chmod(0o400),
    "the lock": lambda project: project.ledger.with_name("ledger.db.lock").chmod(0o400),
    "what git sees": lambda project: (project.root / ".claude").chmod(0o500),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="setuid and mounts of Linux")
@pytest.mark.parametrize("way", first_fast(1, slow_except(["everything", "a mount"], WAYS)))
def test_every_question_is_answered(project: Project, way: str) -> None:
    WAYS[way](project)
    try:
        answers = project.run(*QUESTIONS)
        failed = [pair for pair in zip(QUESTIONS, answers, strict=True) if pair[1].code]
        assert not failed
        assert "first" in answers[QUESTIONS.index("list")].out
    finally:
        subprocess.run(["umount", str(project.root)], capture_output=True)


def test_nothing_is_written_to_a_copy(project: Project) -> None:
    project.close()
    ran, listed = project.run("add pat second", "list")
    assert (ran.code, "Permission denied" in ran.err) == (1, True)
    assert "second" not in listed.out
    assert not list(Path(tempfile.gettempdir()).glob("reflector-ledger-*"))


@pytest.mark.slow
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
    assert "after a kill" in project.run("list")[0].out


def test_an_older_ledger_is_not_called_upgraded(project: Project) -> None:
    older = gzip.decompress((OLDER / "one-machine.db.gz").read_bytes())
    project.ledger.write_bytes(older)
    project.agent.call("ledger", "take", "--yes")
    project.ledger.write_bytes(older)
    project.close()
    (ran,) = project.run("list")
    assert (ran.code, ran.err) == (0, "")
    assert project.ledger.read_bytes() == older


def test_a_playbook_without_a_ledger_is_shown(project: Project) -> None:
    shutil.rmtree(project.ledger.parent)
    shutil.rmtree(project.folder / "home")
    project.close()
    assert "first" in project.run("list")[0].out
