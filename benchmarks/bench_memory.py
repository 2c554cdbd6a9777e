"""The peak memory of each reading command, on ledgers of very different lengths."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import made
from benchmarks.harness import Row
from benchmarks.process import Asked

#: How much more memory a command may take on the longest ledger than on the shortest.
_GOAL = 1.3
#: The commands that read, as the user types them.
_COMMANDS = (
    f"list --json|show {made.MARKED}|list parser|statusline|status|log|blame "
    f"{made.MARKED}|stats --json|"
    f"list --by cited --json|stats --doubles --json|stats --doubles {made.MARKED}|review find "
    "--dry-run|review|"
    "lessons|undo 1 --dry-run|ledger head|diff 9000..9900|list --as-of 9000|list --counting "
    "once_per_session|export|"
    "export --format ndjson"
).split("|")


def rows(quick: bool, big: bool = False) -> list[Row]:
    """Return the peaks at 10^4 events against 10^5 if quick, else 10^6, and also 10^7 if big."""
    least, *larger = [10**4, 10**5] if quick else [10**4, 10**6, 10**7] if big else [10**4, 10**6]
    note = f"whole process; floor: at {least:,} events"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = {size: Asked(folder, file) for size, file in made.ledgers([least, *larger]).items()}
        found = []
        for command in _COMMANDS:
            one = asked[least].run(*command.split()).peak / 2**20
            for size in larger:
                other = asked[size].run(*command.split()).peak / 2**20
                part = f"`{command}`: memory at {size:,} events"
                found.append(Row(part, one, other, other / one, _GOAL, note, "MiB"))
        return found
