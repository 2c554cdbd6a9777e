"""Run the benchmarks named on the command line, else all: `python -m benchmarks [--quick | --big] [hook …]`.

Each `bench_<name>.py` here has `rows(quick) -> list[Row]`; one with ledgers of many events has a parameter `big`
besides, for ten times as many, which takes an hour and 20 GB of disk. A full run prints one table, a part of it as soon
as it is measured, and writes it to RESULTS.md and, in short, to the README; a partial one only prints. MISSES.md says
of each goal that the full run missed what was tried and what the floor would be. Exits 1 where a goal was missed.
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
MISSES = "[MISSES.md](MISSES.md) says of each goal that was missed what was tried and what the floor would be.\n"


def main(arguments: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    quick, big = "--quick" in arguments, "--big" in arguments
    named = [argument for argument in arguments if argument not in {"--quick", "--big"}]
    if unknown := [name for name in named if name not in known]:
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    print(table([]), end="")
    for name in named or known:
        begun = time.perf_counter()
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        module = import_module(f"benchmarks.bench_{name}")
        found = (
            module.rows(quick, big=True) if big and "big" in signature(module.rows).parameters else module.rows(quick)
        )
        print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
        print("\n".join(table(found).splitlines()[2:]), flush=True)
        rows += found
    if not named and not quick:
        command = "python -m benchmarks --big" if big else "python -m benchmarks"
        where = f"Measured with `{command}` on {machine(_sqlite_versions())}.\n"
        how = "Each ratio is the median of pairs measured in turn in one run; times are medians.\n"
        results = f"# Measured\n\n{where}{how}{MISSES}\n{table(rows)}"
        (FOLDER / "RESULTS.md").write_text(results, "utf-8")
        readme_block.fill(FOLDER.parent / "README.md", results)
    return 0 if all(row.met for row in rows) else 1


def _sqlite_versions() -> list[str]:
    """The interpreter's SQLite, and the one from the wheel that is used instead where there is one."""
    versions = [f"{import_module('sqlite3').sqlite_version} (interpreter)"]
    with suppress(ImportError):
        versions.append(f"{import_module('pysqlite3').sqlite_version} (pysqlite3)")
    return versions


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
