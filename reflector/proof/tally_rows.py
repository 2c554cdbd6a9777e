"""The checkpoints of tallies, compared with those that the events give.

Invariant: each row is read once, each difference is one sentence, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reflector.ledger.canonical import digest
from reflector.ledger.projection import KEPT
from reflector.ledger.statements import Statements
from reflector.proof.reading import stream


def tally_drift(sql: Statements, made: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """Differences between the table and the checkpoints that the events give: their digests by name and position."""
    kinds = {kind.name for kind in KEPT}
    left, unknown = dict(made), set()
    for name, position, state in stream(sql, "tally", "name, position, state", order="name, position"):
        wanted = left.pop((name, position), None)
        if name not in kinds:
            if name not in unknown:
                yield f"no tally is called {str(name)[:60]!r}"
            unknown.add(name)
        elif wanted is None:
            yield f"the table holds a tally {name} at {position}, where none is kept"
        elif digest(state) != wanted:
            yield _unlike(name, position)
    for name, position in left:
        yield _unlike(name, position)


def _unlike(name: str, position: int) -> str:
    return f"the tally {name} at {position} is not what the events say"
