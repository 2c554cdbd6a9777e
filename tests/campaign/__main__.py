"""Play many histories, and say which of them broke what."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.campaign.history import History, lines
from tests.campaign.machines import preload, seconds_of_cpu


def played(seed: int, steps: set[int] | None = None, urls: tuple[str, str, str] = ("", "", "")) -> History:
    """A history that was played in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        history = History(seed, Path(folder), urls, steps)
        history.play()
    return history


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="play this one alone, and print its commands")
    given = parser.parse_args()
    preload()
    if given.seed is not None:
        history = played(given.seed)
        print("\n".join(lines(history)))
        for kind, details in history.problems:
            print(f"# {kind}: {details}")
        return bool(history.problems)
    figures: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    first: dict[str, str] = {}
    begun, cpu = time.monotonic(), seconds_of_cpu()
    for number, seed in enumerate(range(given.from_seed, given.from_seed + given.histories), start=1):
        history = played(seed)
        figures += history.figures
        for kind in dict.fromkeys(kind for kind, _ in history.problems):
            broken.setdefault(kind, []).append(seed)
            first.setdefault(kind, next(details for one, details in history.problems if one == kind))
        if sys.stderr.isatty() or number % 20 == 0:
            count = sum(map(len, broken.values()))
            print(f"{number} histories, {count} findings, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    each = (seconds_of_cpu() - cpu) / given.histories
    print(f"{given.histories} histories, {each:.2f} s of CPU each, {time.monotonic() - begun:.0f} s in all")
    print(", ".join(f"{name} {count}" for name, count in sorted(figures.items())))
    for kind, seeds in broken.items():
        print(f"{kind}: {len(seeds)} histories, seeds {' '.join(map(str, seeds[:12]))}\n  {first[kind][:600]}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
