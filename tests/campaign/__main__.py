"""Play many histories, and print which of them broke what."""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.history import History, lines
from tests.campaign.machines import preload, seconds_of_cpu
from tests.conftest import Postgres, private_server


@dataclass(frozen=True)
class Played:
    """What came of one history."""

    seed: int
    problems: tuple[tuple[str, str], ...]
    figures: Counter[str]
    script: tuple[str, ...]
    cpu: float


def played(
    seed: int, server: Postgres | None = None, steps: frozenset[int] | None = None
) -> Played:
    """Play a history in a folder of its own; with a server, one to three machines have their
    ledger there.
    """
    begun = seconds_of_cpu()
    on_server = (
        random.Random(f"campaign {seed} on PostgreSQL").randint(1, 3) if server is not None else 0
    )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="campaign-"))
        urls = (
            [stack.enter_context(server.database()) for _ in range(on_server)]
            if server is not None
            else []
        )
        history = History(seed, Path(folder), [*urls, *[""] * (3 - on_server)], steps)
        history.play()
        script = tuple(lines(history))
    return Played(seed, tuple(history.problems), history.figures, script, seconds_of_cpu() - begun)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """The server of the tests."""
    server = Postgres(private_server())
    try:
        yield server
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument(
        "--postgres", type=int, default=0, help=("how many of them are played on PostgreSQL")
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many histories to play at once")
    parser.add_argument(
        "--seed", type=int, help=("play this one alone, and print its commands for a shell")
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help=("with --seed: first leave out all steps that it breaks without"),
    )
    given = parser.parse_args()
    preload()
    with ExitStack() as stack:
        server = stack.enter_context(postgres()) if given.postgres else None
        if given.seed is not None:
            return _one(given.seed, server, shrinks=given.shrink)
        seeds = range(given.from_seed, given.from_seed + given.histories)
        return _campaign(
            [
                (seed, server if number < given.postgres else None)
                for number, seed in enumerate(seeds)
            ],
            given.jobs,
        )


def _one(seed: int, server: Postgres | None, *, shrinks: bool) -> int:
    one = played(seed, server)
    if shrinks and one.problems:
        one = _shrunk(one, server)
    print("\n".join(one.script))
    for kind, details in one.problems:
        print(f"# {kind}: {details}")
    return bool(one.problems)


def _shrunk(whole: Played, server: Postgres | None) -> Played:
    """The history with as few steps as break what the whole one broke last."""
    kind = whole.problems[-1][0]
    steps, least, size = set(range(1, whole.figures["last step"] + 1)), whole, 8
    while size:
        for step in range(1, whole.figures["last step"] + 1, size):
            without = frozenset(steps - set(range(step, step + size)))
            if without == steps:
                continue
            one = played(whole.seed, server, without)
            if kind in dict(one.problems):
                steps, least = set(without), one
                print(f"{len(steps)} steps", file=sys.stderr)
        size //= 2
    return least


#: What the processes of a campaign play; a server's connection cannot be sent to them, so they are
#: forked with it.
_HISTORIES: list[tuple[int, Postgres | None]] = []


def _played(number: int) -> Played:
    return played(*_HISTORIES[number])


def _campaign(histories: Sequence[tuple[int, Postgres | None]], jobs: int) -> int:
    begun, cpu = time.monotonic(), 0.0
    figures: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    _HISTORIES[:] = histories
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, one in enumerate(pool.imap_unordered(_played, range(len(histories))), start=1):
            figures += one.figures
            cpu += one.cpu
            for kind, details in dict(reversed(one.problems)).items():
                broken.setdefault(kind, []).append(one.seed)
                print(f"seed {one.seed}: {kind}: {details[:700]}", flush=True)
            if number % 20 == 0:
                print(
                    f"{number} histories, {time.monotonic() - begun:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    print(
        f"{len(histories)} histories, {cpu / len(histories):.2f} s of CPU each, "
        f"{time.monotonic() - begun:.0f} s in all"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(figures.items())))
    for kind, of in sorted(broken.items()):
        print(f"{kind}: {len(of)} histories, seeds {' '.join(map(str, sorted(of)))}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
