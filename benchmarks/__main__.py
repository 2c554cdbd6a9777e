"""Run the named benchmarks, or all: `python -m benchmarks [--quick | --big] [hook …]`.

Each `bench_<name>.py` here has `rows(quick) -> list[Row]`. One with ledgers of many events also has
a parameter `big` for ten times as many events, which takes an hour and 20 GB of disk. Each
benchmark prints its table when it is measured. Unless quick, the table replaces the last one in
RESULTS.md, and its short form replaces the one in the README. For each missed goal, MISSES.md lists
the attempts and the possible floor. The exit code is 1 if a goal was missed.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path

from benchmarks import readme_block
from benchmarks.harness import Row, machine, table

FOLDER = Path(__file__).parent
HOW = """\
Each table is that of the last run of its benchmark. Each ratio is the median of pairs measured in
turn; times are medians. [MISSES.md](MISSES.md) says of each goal that was missed what was tried and
what the floor would be.
"""


def main(arguments: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    quick, big = "--quick" in arguments, "--big" in arguments
    named = [argument for argument in arguments if argument not in {"--quick", "--big"}]
    if unknown := [name for name in named if name not in known]:
        print(
            f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    rows: list[Row] = []
    for name in named or known:
        begun = time.perf_counter()
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        module = import_module(f"benchmarks.bench_{name}")
        found = (
            module.rows(quick, big=True)
            if big and "big" in signature(module.rows).parameters
            else module.rows(quick)
        )
        print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
        print(table(found), flush=True)
        rows += found
        if not quick:
            _keep(
                name, "python -m benchmarks --big" if big else "python -m benchmarks", table(found)
            )
    return 0 if all(row.met for row in rows) else 1


def _keep(name: str, command: str, printed: str) -> None:
    """Write a benchmark's table to RESULTS.md, between the tables that are there. Write the
    README's part of it, too.
    """
    file = FOLDER / "RESULTS.md"
    _, *parts = file.read_text("utf-8").split("\n## ")
    tables = dict(part.split("\n\n", 1) for part in parts) | {name: printed}
    head = f"# Measured\n\nMeasured with `{command}` on {machine(_sqlite_versions())}.\n{HOW}"
    results = "\n".join(
        [head, *(f"## {name}\n\n{tables[name].strip()}\n" for name in sorted(tables))]
    )
    file.write_text(results, "utf-8")
    readme_block.fill(FOLDER.parent / "docs" / "install.md", results)


def _sqlite_versions() -> list[str]:
    """Return the version of the interpreter's SQLite, and of the wheel's SQLite if that is used
    instead.
    """
    versions = [f"{import_module('sqlite3').sqlite_version} (interpreter)"]
    with suppress(ImportError):
        versions.append(f"{import_module('pysqlite3').sqlite_version} (pysqlite3)")
    return versions


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
