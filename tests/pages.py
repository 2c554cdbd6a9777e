"""Pages of the documents that are played: each command and program in turn, each output as the page shows it."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path

import reflector
from reflector.sessions import locks
from tests.road.agent import Agent

DOCS = Path(__file__).parents[1] / "docs"

#: A line that stands for any number of lines, none included.
LEFT_OUT = "…"
#: What this process cannot print for a shell, the status line too: it writes past `sys.stdout`.
_WITH_A_SHELL = re.compile(r"[|<>]|^(?!reflector )|statusline")


def section(page: str, title: str) -> str:
    """The part of a page of docs/ below one of its headings of the second level."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## (?![A-Z]+ )|\Z)", text, re.M | re.S)
    assert found, f"docs/{page} lacks the part {title}"
    return found[1]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, content) of every block of a page, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(what is typed, the lines that the page shows for it) of a console block, in order."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif (line == ">" or line.startswith("> ")) and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


def agrees(told: list[str], shown: list[str]) -> bool:
    """Whether the lines are those of the page, where a line of LEFT_OUT is any number of them."""
    if not shown:
        return not told
    if shown[0] == LEFT_OUT:
        return any(agrees(told[start:], shown[1:]) for start in range(len(told) + 1))
    return bool(told) and told[0] == shown[0] and agrees(told[1:], shown[1:])


class Reader:
    """A person who types what a page shows, in a folder below a home, and reads each answer to its end."""

    def __init__(self, agent: Agent, folder: Path, *, spawns: bool = False) -> None:
        self.agent, self.folder, self.spawns = agent, folder, spawns
        self.bin = agent.home / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "reflector").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m reflector "$@"\n')
        (self.bin / "reflector").chmod(0o755)

    def play(self, page: str) -> int:
        """Type each command and run each program of a page; how many."""
        played, printed = 0, ""
        for language, content in blocks(page):
            if language == "python":
                with chdir(self.folder), redirect_stdout(io.StringIO()) as out:
                    exec(compile(content, "page", "exec"), {"__name__": "page"})
                printed, played = out.getvalue(), played + 1
            elif language == "text" and printed:
                assert printed == content
                printed = ""
            for typed, shown in commands(content) if language == "console" else ():
                wanted = [self._as_shown(line) for line in shown]
                told = [[self._as_shown(line) for line in lines] for lines in self.type(typed)]
                assert any(agrees(lines, wanted) for lines in told), f"{typed}\n" + "\n".join(told[-1])
                played += 1
        return played

    def type(self, typed: str) -> list[list[str]]:
        """The lines that a command prints, without what goes to stderr and with it."""
        if place := re.fullmatch(r"cd (\S+)", typed):
            self.folder /= place[1]
            return [[]]
        command, _, file = typed.partition(" > ")
        if _WITH_A_SHELL.search(command) or " " in file:
            out, err = self._shell(typed)
        else:
            with chdir(self.folder):
                ran = self.agent.call(*shlex.split(command)[1:], code=None)
                out, err = ran.out, ran.err
                if file:
                    Path(file).write_text(out, "utf-8")
                    out = ""
        if self.spawns and self.agent.spool.exists():
            self.agent.wait_until(lambda: not self.agent.deliveries())
            with locks.held(self.agent.state, "drain.lock", wait=True):
                pass
        return [out.splitlines(), (out + err).splitlines()]

    def _shell(self, typed: str) -> tuple[str, str]:
        environ = self.agent.env(PATH=f"{self.bin}:{self.agent.env()['PATH']}", LC_ALL="C.UTF-8")
        environ |= {} if self.spawns else {"REFLECTOR_NO_SPAWN": "1"}
        bash = ["bash", "--noprofile", "--norc", "-c", typed]
        done = subprocess.run(bash, cwd=self.folder, env=environ, capture_output=True, text=True)
        return done.stdout, done.stderr

    def _as_shown(self, line: str) -> str:
        """A line with the page's home, interpreter and package, and without what differs from run to run."""
        environment = "/home/you/.venvs/reflector"
        package = str(Path(reflector.__file__).parent)
        line = line.replace(package, f"{environment}/lib/python3.11/site-packages/reflector")
        line = line.replace(sys.executable, f"{environment}/bin/python3").replace(str(self.agent.home), "/home/you")
        line = re.sub(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?Z?)?( [A-Z]{3,4})?", "TIME", line)
        line = re.sub(r"\b\d+:pl1:[0-9a-f]{64}\b", "HEAD", line)
        return re.sub(r"\b\d+\.\d+\.\d+ \(", "VERSION (", line)
