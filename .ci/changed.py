"""Runs the tests of what changed since main: `make check` runs it after the linter and the types.

The tests that changed run first, and have a minute. Then those near what changed run: of a module
the tests that bear its name, else those that hold its defects in tests/mutations.py, else those
that import it; of any other file those of `_OF_FILES`. They are stopped when their seconds are
over: `make test` runs everything.

The exit code is that of pytest, or 3 if the changed tests were stopped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from tests.mutations import MUTATIONS

#: Seconds for the tests near a change, so that all of `make check` takes about half a minute, and
#: for the changed ones.
_SECONDS, _MOST_SECONDS = 15, 60
_STOPPED = 3
_ALWAYS = ("tests/test_architecture.py", "tests/test_release.py", "tests/hooks/test_imports.py")
#: The tests of files that are not modules, by pattern.
_OF_FILES = {
    "migrations/*": (
        "tests/ledger/test_migrations.py",
        "tests/ledger/test_older_versions.py",
        "tests/audit/test_views.py",
    ),
    "*.tsv": ("tests/judges/rules",),
    "prompts/*": ("tests/judges/test_prompts.py",),
    "reflector/report/templates/*": ("tests/report",),
    "*.md": ("tests/test_docs.py", "tests/test_contributing.py"),
}
_OPTIONS = (
    "-q",
    "-x",
    "-n",
    "0",
    "-m",
    "not slow and not client and not scale and not browser and not postgres",
)


def changed() -> list[str]:
    """Return the files that git does not know, and those that differ from where this branch left
    main.
    """
    base = (
        _git("merge-base", "HEAD", "origin/main") or _git("merge-base", "HEAD", "main") or ["HEAD"]
    )
    return [
        *_git("ls-files", "--others", "--exclude-standard"),
        *_git("diff", "--name-only", "--diff-filter=d", base[0]),
    ]


def is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).name.startswith("test_")


def tests_near(file: str) -> list[str]:
    """Return the test files of a file that is not a test."""
    path = Path(file)
    of_file = [
        test for pattern, tests in _OF_FILES.items() if fnmatch(file, pattern) for test in tests
    ]
    if of_file or path.suffix != ".py" or path.parts[0] not in ("reflector", "tests"):
        return of_file
    near = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    name = ".".join(path.with_suffix("").parts)
    users = [
        str(one)
        for one in sorted(Path("tests").rglob("test_*.py"))
        if name in one.read_text("utf-8")
    ]
    if path.parts[0] == "tests":  # what tests share
        return users
    defects = sorted(
        {test.partition("::")[0] for one in MUTATIONS if one.file == file for test in one.tests}
    )
    return [str(near)] if near.is_file() else defects or users


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _run(tests: Sequence[str], seconds: float) -> int | None:
    """Return the exit code of the tests; None if they were stopped."""
    if not tests:
        return 0
    running = subprocess.Popen([sys.executable, "-m", "pytest", *_OPTIONS, *tests])
    try:
        return running.wait(seconds)
    except subprocess.TimeoutExpired:
        running.terminate()
        running.wait()
        print(
            f"stopped after {seconds} s; all of them: {sys.executable} -m pytest {' '.join(tests)}"
        )
        return None


def main() -> int:
    files = changed()
    own = list(dict.fromkeys(filter(is_test, files)))
    near = [test for file in files if not is_test(file) for test in tests_near(file)]
    code = _run(own, _MOST_SECONDS)
    if code:
        return code
    if code is None:
        print("the tests that changed did not end")
        return _STOPPED
    return (
        _run([test for test in dict.fromkeys([*_ALWAYS, *near]) if test not in own], _SECONDS) or 0
    )


if __name__ == "__main__":
    sys.exit(main())
