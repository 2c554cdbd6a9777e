"""How often a proposed pair is a duplicate, and how many duplicates are found.

    python -m benchmarks.duplicates [PLAYBOOK …]

The labelled pairs are those of tests/playbook/duplicate_pairs.tsv. The rule was tuned on one half
of them, chosen by a digest of the texts, and is reported on both. The output is one JSON object.
`--cases` lists the pairs that were judged otherwise. Each PLAYBOOK, a playbook.json, adds the
number of pairs among its bullets, for you to read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import load
from reflector.playbook.duplicates import duplicates, near

PAIRS = Path(__file__).parents[1] / "tests/playbook/duplicate_pairs.tsv"


class Labelled(NamedTuple):
    """Two texts, whether they have the same meaning, and the difficulty of the pair."""

    same: bool
    kind: str
    first: str
    second: str

    @property
    def half(self) -> str:
        return ("tuned", "held_out")[
            hashlib.sha256(f"{self.first}\t{self.second}".encode()).digest()[0] % 2
        ]

    @property
    def proposed(self) -> bool:
        """Whether reflector would propose a merge of the two."""
        found = near(self.first, "pat", [Bullet("pat-001", "pat", self.second)])
        return any(pair.kind != "contradiction" for pair in found)


def labelled() -> list[Labelled]:
    """Return the labelled pairs."""
    lines = PAIRS.read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return [Labelled(label == "same", kind, first, second) for label, kind, first, second in rows]


def measure(pairs: list[Labelled]) -> dict[str, Any]:
    """Return counts, precision and recall of some pairs, and the proposals of each kind."""
    proposed = [pair for pair in pairs if pair.proposed]
    same, right = sum(pair.same for pair in pairs), sum(pair.same for pair in proposed)
    all_of, found_of = (Counter(pair.kind for pair in some) for some in (pairs, proposed))
    return {
        "pairs": len(pairs),
        "same": same,
        "proposed": len(proposed),
        "right": right,
        "precision": round(right / len(proposed), 3) if proposed else None,
        "recall": round(right / same, 3) if same else None,
        "proposed_of_each_kind": {
            kind: (f"{found_of[kind]} of {number}") for kind, number in all_of.items()
        },
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("playbooks", type=Path, nargs="*", metavar="PLAYBOOK")
    parser.add_argument("--cases", action="store_true")
    arguments = parser.parse_args()
    pairs = labelled()
    result: dict[str, Any] = {
        half: measure([pair for pair in pairs if pair.half == half])
        for half in ("tuned", "held_out")
    }
    for path in arguments.playbooks:
        bullets = load(path.read_bytes()).bullets
        kinds = Counter(pair.kind for pair in duplicates(bullets))
        result[path.name] = {"bullets": len(bullets), "pairs": dict(kinds)}
    if arguments.cases:
        result["otherwise"] = [pair._asdict() for pair in pairs if pair.same != pair.proposed]
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
