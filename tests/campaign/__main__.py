"""Play many histories, and print which of them broke what."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.history import History, lines
from tests.campaign.machines import preload, seconds_of_cpu


@dataclass(frozen=True)
class Played:
    """What came of one history."""

    seed: int
    problems: tuple[tuple[str, str], ...]
    figures: Counter[str]
    script: tuple[str, ...]
    cpu: float


def played(seed: int, urls: Sequence[str] = ("", "", ""), steps: frozenset[int] | None = None) -> Played:
    """Play a history in a folder of its own."""
    begun = seconds_of_cpu()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        history = History(seed, Path(folder), urls, steps)
        history.play()
        script = tuple(lines(history))
    return Played(seed, tuple(history.problems), history.figures, script, seconds_of_cpu() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="how many histories to play at once")
    parser.add_argument("--seed", type=int, help="play this one alone, and print its commands")
    given = parser.parse_args()
    preload()
    if given.seed is not None:
        one = played(given.seed)
        print("\n".join(one.script))
        for kind, details in one.problems:
            print(f"# {kind}: {details}")
        return bool(one.problems)
    return _campaign(range(given.from_seed, given.from_seed + given.histories), given.jobs)


def _campaign(seeds: Sequence[int], jobs: int) -> int:
    begun, cpu = time.monotonic(), 0.0
    figures: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, one in enumerate(pool.imap_unordered(played, seeds), start=1):
            figures += one.figures
            cpu += one.cpu
            for kind, details in dict(reversed(one.problems)).items():
                broken.setdefault(kind, []).append(one.seed)
                print(f"seed {one.seed}: {kind}: {details[:700]}", flush=True)
            if number % 20 == 0:
                print(f"{number} histories, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(seeds)} histories, {cpu / len(seeds):.2f} s of CPU each, {time.monotonic() - begun:.0f} s in all")
    print(", ".join(f"{name} {count}" for name, count in sorted(figures.items())))
    for kind, of in sorted(broken.items()):
        print(f"{kind}: {len(of)} histories, seeds {' '.join(map(str, sorted(of)))}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
