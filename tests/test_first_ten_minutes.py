"""docs/first-ten-minutes.md is played: one shell, an empty home, each command in turn, each output as it is shown."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reflector
from reflector.sessions import locks
from tests.pages import agrees, commands, without_times
from tests.road.agent import Agent

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "first-ten-minutes.md").read_text("utf-8")
END = "--- end of a command ---"


class Shell:
    """A bash of a person with an empty home, who reads an answer to its end and types slower than a drain drains."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.agent = Agent(home / "shop", home)
        programs = home / "bin"
        programs.mkdir(parents=True)
        shim = programs / "reflector"
        shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m reflector "$@"\n')
        shim.chmod(0o755)
        environ = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        self.bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=environ,
            text=True,
        )

    def type(self, command: str) -> list[str]:
        """The lines that a command prints, as the page writes them."""
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        # Another stdin than ours, or a command could read the rest of the session.
        self.bash.stdin.write(f"{{ {command}\n}} < /dev/null; echo '{END}'\n")
        self.bash.stdin.flush()
        lines = list(iter(lambda: self.line(), END))
        self.wait_for_drain()
        return lines

    def line(self) -> str:
        assert self.bash.stdout is not None
        line = self.bash.stdout.readline()
        assert line, "the shell ended"
        return as_shown(line.rstrip("\n"), self.home)

    def wait_for_drain(self) -> None:
        """Until nothing lies in the spool and nobody is at work."""
        if self.agent.spool.exists():
            self.agent.wait_until(lambda: not self.agent.deliveries())
            with locks.held(self.agent.state, "drain.lock", wait=True):
                pass


def as_shown(line: str, home: Path) -> str:
    """A line with the page's home, interpreter and package, and without what differs from run to run."""
    package = Path(reflector.__file__).parent
    environment = "/home/you/.venvs/reflector"
    line = line.replace(str(package), f"{environment}/lib/python3.11/site-packages/reflector")
    line = line.replace(sys.executable, f"{environment}/bin/python3").replace(str(home), "/home/you")
    return without_times(line)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "you")
    yield shell
    shell.bash.kill()
    shell.bash.communicate()


@pytest.mark.slow
def test_each_command_of_the_page_prints_what_the_page_shows(shell: Shell) -> None:
    for command, shown in commands(PAGE):
        told = shell.type(command)
        assert agrees(told, [without_times(line) for line in shown]), (command, told)


def test_the_page_plays_every_step_of_a_first_visit() -> None:
    played = " ".join(command for command, _ in commands(PAGE))
    steps = "demo|install --dry-run|install|doctor|add|hook|list|blame|log|import-history|verify|uninstall"
    assert [step for step in steps.split("|") if f"reflector {step}" not in played] == []
