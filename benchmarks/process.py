"""A whole process: its time and memory from its start to its end, with nothing subtracted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Side
from reflector.hooks import fast

#: A process is charged with the memory of its parent, so a small process starts it.
_STARTER = """\
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
streams = [(os.POSIX_SPAWN_DUP2, null, number) for number in (1, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=streams)
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
CHECKOUT = Path(fast.__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Took:
    """CPU seconds of the user and the system, and the peak memory in bytes."""

    seconds: float
    peak: int


def run(command: Sequence[str], environ: dict[str, str]) -> Took:
    """Run a command to its end.

    Raises: RuntimeError if it fails.
    """
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, *command]
    answer = subprocess.run(
        starter, env=environ, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    code, seconds, peak = answer.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return Took(float(seconds), int(peak) * (1 if sys.platform == "darwin" else 1024))


def environ(home: Path) -> dict[str, str]:
    """Return the environment of a process with its home in a folder. The process starts no
    drain.
    """
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE", "PYTHON", "REFLECTOR"))
    }
    return kept | {"HOME": str(home), "PYTHONPATH": str(CHECKOUT), "REFLECTOR_NO_SPAWN": "1"}


class Asked:
    """`reflector` asked about a ledger's file, each time in a new process."""

    def __init__(self, folder: Path, file: Path) -> None:
        # A question writes a missing playbook.json, and refuses that of another ledger.
        project = folder / f"project-{file.stem}"
        (project / ".claude").mkdir(parents=True, exist_ok=True)
        self._at = ["--project", str(project)]
        self._environ = environ(folder) | {"REFLECTOR_LEDGER_URL": f"sqlite:///{file}"}

    def run(self, *arguments: str) -> Took:
        """Ask once."""
        return run([sys.executable, "-m", "reflector", *self._at, *arguments], self._environ)

    def cpu(self, *arguments: str) -> Side:
        """Return a side that gives the CPU seconds of the question."""
        return lambda: self.run(*arguments).seconds
