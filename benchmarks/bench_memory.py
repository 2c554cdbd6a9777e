"""The most memory that each reading command takes, on ledgers of very different lengths."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import made
from benchmarks.harness import Row
from benchmarks.process import Asked

#: How much more a command may take on the longest ledger than on the shortest.
_GOAL = 1.3
#: The commands that read, each as somebody would type it.
_COMMANDS = (
    ("list", "--json"),
    ("show", made.MARKED),
    ("status",),
    ("log",),
    ("blame", made.MARKED),
    ("stats", "--json"),
    ("citations", "--json"),
    ("double-counts", "--json"),
    ("orphans", "--json"),
    ("prune", "--dry-run"),
    ("failures",),
    ("diff", "9000..9900"),
    ("bisect", made.MARKED, "--when", "helpful > 10"),
    ("list", "--as-of", "9000"),
    ("replay", "--counting", "once_per_session"),
    ("export",),
    ("export", "--format", "ndjson"),
    ("verify",),
)


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Peaks at 10^4 events against 10^5 when quick, else 10^6, 10^7 when big."""
    least, most = 10**4, 10**5 if quick else 10**7 if big else 10**6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = made.ledgers([least, most])
        small, large = Asked(folder, files[least]), Asked(folder, files[most])
        found = []
        for command in _COMMANDS:
            one, other = (asked.run(*command).peak / 2**20 for asked in (small, large))
            part = f"`{' '.join(command)}`: memory at {most:,} events"
            found.append(Row(part, one, other, other / one, _GOAL, f"whole process; floor: at {least:,} events", "MiB"))
    return found
