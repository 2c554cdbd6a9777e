"""Runs the tests of what changed since main: `make check` runs it behind the linter and the types.

A changed test is run; of a changed module, the tests that bear its name, else those that hold its defects in
tests/mutations.py, else those that import it. What takes longer than the time that is left is stopped, and said to be:
`make test` runs it all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutations import MUTATIONS

#: Seconds for the tests, so that all of `make check` takes less than half a minute.
_SECONDS = 15
_ALWAYS = ("tests/test_architecture.py", "tests/test_release.py", "tests/hooks/test_imports.py")


def changed() -> list[str]:
    """Return the files that differ from where this branch left main, and those that git does not know."""
    base = _git("merge-base", "HEAD", "origin/main") or _git("merge-base", "HEAD", "main") or ["HEAD"]
    return [
        *_git("diff", "--name-only", "--diff-filter=d", base[0]),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def tests_of(file: str) -> list[str]:
    """Return the test files of one that changed."""
    path = Path(file)
    if file.startswith("tests/") and path.name.startswith("test_"):
        return [file]
    if not file.startswith("reflector/") or path.suffix != ".py":
        return []
    near = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    found = {test.partition("::")[0] for one in MUTATIONS if one.file == file for test in one.tests}
    name = ".".join(path.with_suffix("").parts)
    users = (one for one in sorted(Path("tests").rglob("test_*.py")) if name in one.read_text("utf-8"))
    return [str(near)] if near.is_file() else sorted(found) or [str(one) for one in users]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    chosen = list(dict.fromkeys([*_ALWAYS, *(test for file in changed() for test in tests_of(file))]))
    options = ["-q", "-x", "-n", "0", "-m", "not slow and not client and not scale and not browser and not postgres"]
    running = subprocess.Popen([sys.executable, "-m", "pytest", *options, *chosen])
    try:
        sys.exit(running.wait(_SECONDS))
    except subprocess.TimeoutExpired:
        running.terminate()
        running.wait()
        print(
            f"stopped after {_SECONDS} s, nothing had failed so far. To the end: {sys.executable} -m pytest -q "
            f"{' '.join(chosen)}"
        )
