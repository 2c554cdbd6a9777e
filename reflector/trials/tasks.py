"""The offline form of a trial: tasks that a command passes or fails, done in turn with and without
advice.

Invariant: the two arms differ only by the advice in the files that agents read on their own. Each
task is done with, without, without and with it (A B B A), each time in a fresh copy of its files.
So neither the remains of an arm nor a machine that becomes slower favours one of them. No hook of
ours prints or records anything.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from math import comb
from pathlib import Path
from typing import NamedTuple

from reflector.files import Brought, read_bounded, read_brought, read_folder, write_durably
from reflector.judges import consent
from reflector.mistakes import Mistake
from reflector.text.lazy import lazy_pattern

#: The files in which Claude Code and other agents look for instructions.
_READ = ("CLAUDE.md", "AGENTS.md")
_OURS = ("CLAUDE_PROJECT_DIR", "REFLECTOR_PROJECT")
_LONGEST = 3600
#: A prompt and a check are arguments of a process, which the system bounds. Files are kept in
#: memory.
_MOST_TEXT = 100_000
_MOST_FILES = 20_000
_MOST_BYTES = 256 << 20
_COST = lazy_pattern(r'"total_cost_usd": *(\d+(?:\.\d+)?(?:[eE]-?\d+)?)', re.ASCII)


class Task(NamedTuple):
    """A folder with a `prompt.md`, a shell script `check` that exits 0 if the task was done, and
    optionally `files/`, with which the task begins.

    All of it is read at once, so that reflector runs exactly the files that you agreed to.
    """

    name: str
    prompt: str
    check: str
    files: tuple[Brought, ...]

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each of its files, by the path in the folder of tasks."""
        contents = {"prompt.md": self.prompt.encode(), "check": self.check.encode()}
        for file in self.files:
            if file.content is not None:
                contents[f"files/{file.path}"] = file.content
        return {
            f"{self.name}/{path}": sha256(content).hexdigest() for path, content in contents.items()
        }


class Run(NamedTuple):
    """One attempt at a task. `cost` is in US dollars; None if the command does not print it as
    Claude Code does.
    """

    told: bool
    passed: bool
    seconds: float
    cost: float | None


def tasks_in(folder: Path) -> list[Task]:
    """Return the tasks of a folder, by name.

    Raises: Mistake if there is none; OSError with the name for a link, for anything but a regular
    file and for too many bytes.
    """
    places = [place for place in sorted(folder.iterdir()) if _is_task(place)]
    if not places:
        raise Mistake(
            f"{folder} does not contain a task. A task is a folder with a prompt.md and a shell "
            "script named check"
        )
    return [_task(place) for place in places]


def _is_task(place: Path) -> bool:
    return place.is_dir() and all(os.path.lexists(place / name) for name in ("prompt.md", "check"))


def _task(place: Path) -> Task:
    prompt, check = (_text(place / name) for name in ("prompt.md", "check"))
    files = tuple(read_folder(place / "files", _MOST_FILES, _MOST_BYTES))
    for file in files:
        if file.path in _READ and file.content is None:
            folder = place / "files" / file.path
            raise Mistake(
                f"{folder} is a folder, but `trial run` writes the advice to a file with this "
                "name; rename the folder"
            )
    return Task(place.name, prompt, check, files)


def _text(path: Path) -> str:
    return text_of(path, read_brought(path, _MOST_TEXT))


def text_of(path: Path, content: bytes) -> str:
    """Return a file's content as text that a shell can take, without the mark and the line ends of
    Windows.

    Raises: Mistake if it is not UTF-8 or contains NUL.
    """
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Mistake(f"line {line} of {path} is not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise Mistake(
            f"{path} contains a NUL character, which cannot be passed to a command; remove this "
            "character"
        )
    return text


def digest_of(tasks: Sequence[Task], command: str, scripts: Mapping[str, str]) -> str:
    """Return the digest that identifies your agreement to run these commands. It is computed from
    the command, the tasks with their files, and the `scripts` that the command names.
    """
    files = [[task.name, task.hashes, _modes(task)] for task in tasks]
    return sha256(json.dumps([command, files, scripts], sort_keys=True).encode()).hexdigest()


def _modes(task: Task) -> list[tuple[str, int]]:
    return [(file.path, file.mode & 0o111) for file in task.files]


def scripts_in(command: str, root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that a word of a command names below a folder, by its path. A
    repository may contain such a file and change it.

    Raises: OSError.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # the shell reports the fault
        words = command.split()
    paths = [Path(word).absolute() for word in words if "\0" not in word]
    hashes: dict[str, str] = {}
    for path in paths:
        is_inside = path.is_relative_to(root) or path.resolve().is_relative_to(root.resolve())
        if is_inside and path.is_file():
            hashes[str(path)] = sha256(read_bounded(path, _MOST_BYTES)).hexdigest()
    return hashes


def perform(tasks: Sequence[Task], command: str, advice: str) -> Iterator[Run]:
    """Do each task four times, with and without the advice. The command gets the task's prompt on
    stdin and as $PROMPT.

    Our hooks ignore its sessions while the file that $REFLECTOR_JUDGING names exists.

    Raises: OSError.
    """
    guards = consent.open_folder("guard")
    guard = secrets.token_hex(16)
    environ = {name: value for name, value in os.environ.items() if name not in _OURS}
    environ["REFLECTOR_JUDGING"] = guard
    try:
        for task in tasks:
            # In this order, a model that gets better or worse over time favors neither side.
            for has_advice in (True, False, False, True):
                # A judge of the user may have swept the folder.
                write_durably(guards, b"", guard)
                with tempfile.TemporaryDirectory(prefix="reflector-task-") as folder:
                    environ["PROMPT"] = task.prompt
                    text = advice if has_advice else ""
                    yield _attempt(task, command, text, Path(folder), environ)
    finally:
        Path(guards, guard).unlink(missing_ok=True)


def _attempt(task: Task, command: str, advice: str, folder: Path, environ: dict[str, str]) -> Run:
    _lay_out(task.files, folder)
    if advice:
        for name in _READ:
            file = folder / name
            present = file.read_bytes() + b"\n" if file.exists() else b""
            file.write_bytes(present + advice.encode())
    began = time.monotonic()
    printed = _shell(command, task.prompt, folder, environ).stdout
    seconds = time.monotonic() - began
    is_done = _shell(task.check, "", folder, environ).returncode == 0
    costs = _COST.findall(printed)
    return Run(bool(advice), is_done, seconds, float(costs[-1]) if costs else None)


def _shell(
    script: str, stdin: str, folder: Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script for at most an hour, and end the processes that it started."""
    with subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        cwd=folder,
        env=environ,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(stdin, _LONGEST)
        except subprocess.TimeoutExpired:
            printed = ""
        finally:
            with suppress(ProcessLookupError):  # otherwise reflector would wait for them
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(script, process.returncode, printed)


def _lay_out(files: Sequence[Brought], folder: Path) -> None:
    """Write a task's files into an empty folder. They are in the order of their paths, so a folder
    comes before its content.
    """
    for file in files:
        path = folder / file.path
        if file.content is None:
            path.mkdir()
            continue
        path.write_bytes(file.content)
        path.chmod(file.mode | 0o600)


def sign_test(better: int, worse: int) -> float:
    """Return the probability that chance alone divides the pairs at least as unevenly. This is the
    exact sign test, for both sides.
    """
    n = better + worse
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / (1 << n))


def pairs(runs: Sequence[Run]) -> tuple[int, int]:
    """Return the number of pairs in which only the run with the advice passed, and the number in
    which only the run without it passed.
    """
    uneven = [
        first if first.passed else second
        for first, second in zip(runs[::2], runs[1::2], strict=False)
        if first.passed != second.passed
    ]
    with_advice = sum(run.told for run in uneven)
    return with_advice, len(uneven) - with_advice
