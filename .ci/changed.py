"""Runs the tests of the changes since main: `make check` runs it after the linter and the types.

Five groups run, one after the other, and the first failure ends the run:

- changed: changed and new test files, those first that git does not know yet;
- near: the tests of changed files. A module has the tests that bear its name, else those that
  hold its defects in tests/mutations.py, else those that import it. A module that tests share has
  the tests that import it. Other files have those of `_OF_FILES`;
- users: the tests that import a changed file, if they are so many that they are not near;
- gates: the tests that compare pages, keys, the layers and a release with the code;
- rest: all others, folder by folder, those of the changed folders first.

Each group has its seconds. The tests that did not run are listed at the end. The exit code is 1
if a test failed, and 3 if one of the changed or near tests did not run.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from textwrap import fill
from time import monotonic

import pytest

from tests.mutations import MUTATIONS

_FAILED, _NOT_RUN = 1, 3
#: Seconds of the groups. The changed tests and the near ones have to end.
_SECONDS = {"changed": 120.0, "near": 180.0, "users": 60.0, "gates": 30.0}
#: Importing tests that are near; of more, none says much about the file.
_MOST_NEAR = 12
#: Files of one folder that are listed by name.
_MOST_NAMED = 5
#: The rest runs only within the first seconds.
_REST_UNTIL = 30.0
_GATES = (
    "tests/test_architecture.py",
    "tests/test_prose.py",
    "tests/test_docs.py",
    "tests/test_contributing.py",
    "tests/cli/test_json.py",
    "tests/test_release.py",
    "tests/hooks/test_imports.py",
)
_OF_SCHEMA = (
    "tests/ledger/test_migrations.py",
    "tests/ledger/test_older_versions.py",
    "tests/audit/test_views.py",
)
#: Tests, or folders of tests, by the pattern of the files that they compare with another one.
_OF_FILES = {
    "migrations/*": _OF_SCHEMA,
    "reflector/ledger/tables.py": _OF_SCHEMA,
    "reflector/cli/*": ("tests/cli/test_contract.py", "tests/cli/test_measures.py"),
    "reflector/judges/backends/*": (
        "tests/judges/test_fixtures.py",
        "tests/judges/test_http_api.py",
        "tests/judges/test_consent.py",
        "tests/cli/test_judges.py",
    ),
    "reflector/transcripts/agents/*": ("tests/transcripts",),
    "*.tsv": ("tests/judges/rules",),
    "prompts/*": ("tests/judges",),
    "reflector/report/templates/*": ("tests/report",),
    "*.md": ("tests/test_docs.py", "tests/test_contributing.py", "tests/test_prose.py"),
    "examples/*": ("tests/test_contributing.py", "tests/test_extensions.py"),
    "tests/surface.txt": ("tests/test_docs.py",),
    "Makefile": ("tests/test_release.py", "tests/test_contributing.py"),
    "pyproject.toml": ("tests/test_release.py", "tests/hooks/test_imports.py"),
    ".ci/changed.py": ("tests/test_changed.py",),
}
_OPTIONS = (
    "-q",
    "-x",
    "-n",
    "0",
)
_MARKS = "not slow and not client and not scale and not browser"


def changed() -> list[str]:
    """Return the files that git does not know, those that differ from the last commit, and those
    that differ from where this branch left main.
    """
    base = (
        _git("merge-base", "HEAD", "origin/main") or _git("merge-base", "HEAD", "main") or ["HEAD"]
    )
    files = _git("ls-files", "--others", "--exclude-standard")
    for commit in ("HEAD", base[0]):
        files += _git("diff", "--name-only", "--diff-filter=d", commit)
    return list(dict.fromkeys(files))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def is_test(file: str) -> bool:
    return file.startswith("tests/") and fnmatch(Path(file).name, "test_*.py")


def tests_in(folder: str) -> list[str]:
    """Return the test files of a folder, or the file itself."""
    path = Path(folder)
    return [folder] if path.is_file() else sorted(map(str, path.rglob("test_*.py")))


def tests_of(file: str) -> tuple[list[str], bool]:
    """Return the test files of a file that is not a test, and whether they are near it."""
    of_file = [
        test
        for pattern, places in _OF_FILES.items()
        if fnmatch(file, pattern)
        for place in places
        for test in tests_in(place)
    ]
    path = Path(file)
    is_module = path.suffix == ".py" and path.parts[0] == "reflector"
    own = _tests_of_module(path) if is_module else of_file
    if own or path.parts[0] not in ("tests", "reflector"):
        return [*own, *of_file], True
    users = _importing_tests(_module_name(path))
    if path.suffix != ".py" or path.name == "conftest.py":
        # pytest gives a conftest.py to each test of its folder, and data has no importer
        users = [*tests_in(str(path.parent)), *users]
    return [*of_file, *users], len(users) <= _MOST_NEAR


def _tests_of_module(path: Path) -> list[str]:
    """Return the tests that bear the name of a module, else those that hold its defects."""
    own = Path("tests", *path.parts[1:-1], f"test_{path.name}")
    if own.is_file():
        return [str(own)]
    defects = {
        test.partition("::")[0]
        for mutation in MUTATIONS
        if mutation.file == str(path)
        for test in mutation.tests
    }
    return sorted(defects)


def _module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _importing_tests(module: str) -> list[str]:
    """Return the test files that import a module or name it in a string; if none does, those of
    the modules that tests share and that import it.
    """
    importers = [
        file for file, names in _imports().items() if module in names or module in _text(file)
    ]
    tests = [file for file in importers if is_test(file)]
    shared = {_module_name(Path(file)) for file in importers} - {module}
    if tests or not module.startswith("tests."):
        return tests
    return sorted({test for name in shared for test in _importing_tests(name)})


@cache
def _text(file: str) -> str:
    return Path(file).read_text("utf-8")


@cache
def _imports() -> Mapping[str, set[str]]:
    """Return the modules and names that each file below tests/ imports."""
    return {
        str(path): set(_imported(path.parent.parts, ast.parse(_text(str(path)))))
        for path in sorted(Path("tests").rglob("*.py"))
    }


def _imported(folder: Sequence[str], tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = folder[: len(folder) - node.level + 1] if node.level else ()
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@dataclass
class Group:
    """Test files that run together; `must` if the check is not done without them."""

    title: str
    tests: list[str] = field(default_factory=list)
    must: bool = False


def groups(files: Sequence[str]) -> list[Group]:
    """Return the tests in the order in which they run, each file once."""
    taken = set[str]()

    def fresh(tests: Iterable[str]) -> list[str]:
        new = [test for test in dict.fromkeys(tests) if test not in taken and Path(test).is_file()]
        taken.update(new)
        return new

    own = Group("changed", fresh(filter(is_test, files)), must=True)
    near = Group("near", must=True)
    users = Group("users")
    for file in files:
        if not is_test(file):
            tests, are_near = tests_of(file)
            group = near if are_near else users
            group.tests += fresh(tests)
    found = [own, near, users, Group("gates", fresh(_GATES))]
    rooms = {str(Path(test).parent) for group in found[:2] for test in group.tests}
    folders = sorted(
        {str(Path(test).parent) for test in tests_in("tests")},
        key=lambda folder: (folder not in rooms, folder),
    )
    for folder in folders:
        found.append(Group("rest", fresh(sorted(map(str, Path(folder).glob("test_*.py"))))))
    return [group for group in found if group.tests]


@dataclass(eq=False)
class _Watch:
    """A plugin of pytest that stops at a time, and knows the tests that have not run."""

    until: float
    left: Counter[str] = field(default_factory=Counter)
    is_stopped: bool = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left.update(item.nodeid.partition("::")[0] for item in session.items)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.left[nodeid.partition("::")[0]] -= 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if monotonic() < self.until:
            return None
        self.is_stopped = True
        item.session.shouldstop = "the time is over"
        return True


def run(group: Group, seconds: float) -> tuple[bool, list[str]]:
    """Run tests; return whether none failed, and the files of which a test did not run. Only tests
    of the changes also use PostgreSQL.
    """
    if seconds <= 0:
        return True, group.tests
    watch = _Watch(monotonic() + seconds)
    marks = _MARKS if group.must else f"{_MARKS} and not postgres"
    code = pytest.main([*_OPTIONS, "-m", marks, *group.tests], plugins=[watch])
    left = [test for test in group.tests if watch.left[test]]
    is_stopped = watch.is_stopped and code == pytest.ExitCode.INTERRUPTED
    return is_stopped or code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), left


def listed(tests: Iterable[str]) -> list[str]:
    """Return test files as they are listed: a folder instead of many of its files."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(str(Path(test).parent), []).append(test)
    places: list[str] = []
    for folder, names in files.items():
        every = len([*Path(folder).glob("test_*.py")])
        if len(names) == every:
            places.append(folder)
        elif len(names) <= _MOST_NAMED:
            places += names
        else:
            places.append(f"{folder} ({len(names)} of {every} files)")
    return places


def main() -> int:
    begin = monotonic()
    left: list[str] = []
    is_done = True
    for group in groups(changed()):
        seconds = _SECONDS.get(group.title, begin + _REST_UNTIL - monotonic())
        if seconds > 0:
            print(f"{group.title}: {', '.join(listed(group.tests))}", flush=True)
        is_sound, unfinished = run(group, seconds)
        if not is_sound:
            return _FAILED
        left += unfinished
        is_done = is_done and not (group.must and unfinished)
    if left:
        print(fill(f"Not run, for lack of time: {', '.join(listed(left))}", 80))
    if not is_done:
        print("Tests of your change did not run. Run them yourself, or all of them: make test")
        return _NOT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main())
