"""Pages of the documents that are played: each command in turn, each output as the page shows it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from tests.road.agent import Agent

DOCS = Path(__file__).parents[1] / "docs"

#: A line that stands for any number of lines, none included.
LEFT_OUT = "…"
#: What this process cannot print for a shell, the status line too: it writes past `sys.stdout`.
_WITH_A_SHELL = re.compile(r"[|<>]|^(?!reflector )|statusline")


def section(page: str, title: str) -> str:
    """The part of a page of docs/ below one of its headings of the second level."""
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## (?![A-Z]+ )|\Z)", (DOCS / page).read_text("utf-8"), re.M | re.S
    )
    assert found, f"docs/{page} lacks the part {title}"
    return found[1]


def commands(page: str) -> list[tuple[str, list[str]]]:
    """(what is typed, the lines that the page shows for it) of every console block, in order."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and not found[-1][1]:
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


def without_times(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?Z?)?( [A-Z]{3,4})?", "TIME", line)
    return re.sub(r"\b\d+\.\d+\.\d+ \(", "VERSION (", line)


def play(page: str, agent: Agent) -> None:
    """Type each command of a page in a project, and compare what it prints."""
    bin = agent.home / "bin"
    bin.mkdir()
    (bin / "reflector").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m reflector "$@"\n')
    (bin / "reflector").chmod(0o755)
    for typed, shown in commands(page):
        told = [without_times(line.replace(str(agent.home), "/home/you")) for line in printed(typed, agent, bin)]
        assert agrees(told, [without_times(line) for line in shown]), f"{typed}\n" + "\n".join(told)


def printed(typed: str, agent: Agent, bin: Path) -> list[str]:
    """What a command prints: ours alone in this process, others in a shell."""
    if not _WITH_A_SHELL.search(typed):
        with chdir(agent.project):
            ran = agent.call(*shlex.split(typed)[1:], code=None)
        return (ran.out + ran.err).splitlines()
    environ = agent.env(PATH=f"{bin}:{agent.env()['PATH']}", LC_ALL="C.UTF-8", REFLECTOR_NO_SPAWN="1")
    bash = ["bash", "--noprofile", "--norc", "-c", typed]
    done = subprocess.run(bash, cwd=agent.project, env=environ, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def lacking(page: str, head: str, rows: Sequence[str]) -> list[str]:
    """The rows that a page's table lacks or has elsewhere, each with the line that it belongs behind."""
    if "\n".join([head, *rows, ""]) in page:
        return []
    pairs = list(zip([head.splitlines()[-1], *rows[:-1]], rows, strict=True))
    absent = [pair for pair in pairs if pair[1] not in page]
    misplaced = [pair for pair in pairs if "\n".join((*pair, "")) not in page]
    top = head.replace("\n\n", ": ").split("\n")[0]
    said = [f"behind {top if row == rows[0] else before}\n  {row}" for before, row in absent or misplaced]
    return said or [f"a row too much behind {rows[-1]}"]
