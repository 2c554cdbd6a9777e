"""The offline twin of a trial: tasks that a command says pass or fail, done with and without advice in turn.

Invariant: the two arms differ by the advice alone, in the files that agents read by themselves. Each task is done with,
without, without and with it (A B B A), each time in a fresh copy of its files, so that neither what an arm leaves
behind nor a machine that grows slower speaks for one of them. No hook of ours says or records anything.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import comb
from pathlib import Path
from typing import Final

from reflector.files import write_durably
from reflector.mistakes import Mistake
from reflector.reflection.backends import consent

#: Where Claude Code and other agents look for instructions.
_READ: Final = ("CLAUDE.md", "AGENTS.md")
_OURS: Final = ("CLAUDE_PROJECT_DIR", "REFLECTOR_PROJECT")
_LONGEST: Final = 3600
_COST: Final = re.compile(r'"total_cost_usd": *(\d+(?:\.\d+)?(?:[eE]-?\d+)?)', re.ASCII)


@dataclass(frozen=True, slots=True)
class Task:
    """A folder with a `prompt.md`, a shell script `check` that exits 0 for a task that was done and, where the task
    begins with some, `files/`."""

    name: str
    prompt: str
    check: str
    files: Path


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt at a task. `cost` is in US dollars, None where the command does not print it as Claude Code does."""

    told: bool
    passed: bool
    seconds: float
    cost: float | None


def tasks_in(folder: Path) -> list[Task]:
    """Return the tasks of a folder, by name. Raises Mistake where there is none, OSError."""
    found = [
        Task(one.name, (one / "prompt.md").read_text("utf-8"), (one / "check").read_text("utf-8"), one / "files")
        for one in sorted(folder.iterdir())
        if (one / "prompt.md").is_file() and (one / "check").is_file()
    ]
    if not found:
        raise Mistake(f"{folder} has no task: a folder in it needs a prompt.md and a shell script named check")
    return found


def digest_of(tasks: Sequence[Task], command: str) -> str:
    """Return by what a person's agreement to run these commands is known again."""
    return sha256(json.dumps([command, *([one.name, one.prompt, one.check] for one in tasks)]).encode()).hexdigest()


def perform(tasks: Sequence[Task], command: str, advice: str) -> Iterator[Run]:
    """Do each task four times, with and without the advice; the command gets its prompt on stdin and as $PROMPT. Raises
    OSError."""
    guards, word = consent.open_folder("guard"), secrets.token_hex(16)
    environ = {name: value for name, value in os.environ.items() if name not in _OURS} | {"REFLECTOR_JUDGING": word}
    try:
        for task in tasks:
            for told in (True, False, False, True):
                write_durably(guards, b"", word)  # a judge of the person's may have swept the folder
                with tempfile.TemporaryDirectory(prefix="reflector-task-") as folder:
                    given = environ | {"PROMPT": task.prompt}
                    yield _attempt(task, command, advice if told else "", Path(folder), given)
    finally:
        Path(guards, word).unlink(missing_ok=True)


def _attempt(task: Task, command: str, advice: str, folder: Path, environ: dict[str, str]) -> Run:
    if task.files.is_dir():
        shutil.copytree(task.files, folder, dirs_exist_ok=True)
    for name in _READ if advice else ():
        file = folder / name
        before = file.read_text("utf-8") + "\n" if file.exists() else ""
        file.write_text(before + advice, "utf-8")

    def run(script: str, given: str) -> tuple[int, str]:
        with subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace", cwd=folder, env=environ, start_new_session=True,
        ) as begun:  # fmt: skip
            try:
                printed, _ = begun.communicate(given, _LONGEST)
            except subprocess.TimeoutExpired:
                printed = ""
            finally:
                with suppress(ProcessLookupError):  # what it started would be waited for
                    os.killpg(begun.pid, signal.SIGKILL)
        return begun.returncode, printed

    began = time.monotonic()
    _, printed = run(command, task.prompt)
    seconds = time.monotonic() - began
    code, _ = run(task.check, "")
    costs = _COST.findall(printed)
    return Run(bool(advice), code == 0, seconds, float(costs[-1]) if costs else None)


def sign_test(better: int, worse: int) -> float:
    """Return how often chance alone would part pairs that differ at least as unevenly: exact, for both sides."""
    n = better + worse
    return min(1.0, 2 * sum(comb(n, k) for k in range(min(better, worse) + 1)) / (1 << n))


def pairs(runs: Sequence[Run]) -> tuple[int, int]:
    """Return in how many pairs only the run with the advice passed, and in how many only the one without."""
    found = [(one, two) if one.told else (two, one) for one, two in zip(runs[::2], runs[1::2], strict=False)]
    return sum(a.passed > b.passed for a, b in found), sum(a.passed < b.passed for a, b in found)
