"""What changed between two moments.

Invariant: a difference is that of two playbooks, each the fold up to its position, so it is the same from whichever
side it is looked at; and the tags that are listed explain how the counters moved from one to the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.ledger.as_of import Past
from reflector.playbook.counting import Counting, member

if TYPE_CHECKING:
    from reflector.ledger.rows import BulletRow
    from reflector.ledger.store import Ledger


@dataclass(slots=True)
class Moved:
    """By how much a bullet counts more for a session's tags (or, below 0, less)."""

    session_id: str | None
    helpful: int = 0
    harmful: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """A bullet in which two playbooks differ; `before` or `after` is None where it is not there.

    sessions   whose tags count for more or for less, each side under its own policy; with what the baselines differ by
               they add up to what the counters moved
    recounted  the baseline was set by hand in between
    """

    name: str
    before: BulletRow | None
    after: BulletRow | None
    sessions: tuple[Moved, ...]
    recounted: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """The bullets in which two playbooks differ, in order of creation, and the policies in force."""

    first: int
    last: int
    counting: tuple[Counting, Counting]
    bullets: tuple[Changed, ...]


def difference(ledger: Ledger, first: int, last: int) -> Difference:
    """What became of the playbook from one position to another, which may be an earlier one. Raises LedgerError."""
    past, then = Past(ledger, first), Past(ledger, last)
    before = {row.name: row for row in past.rows()}
    after = {row.name: row for row in then.rows()}
    moved = _moved(ledger, past, then)
    found = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        by_hand = [
            entry.recounted_at if entry is not None and entry.recounted_at > entry.position else 0
            for entry in (past.entries.get(name), then.entries.get(name))
        ]
        recounted = by_hand[0] != by_hand[1]
        sessions = tuple(moved.get(name, {}).values())
        if old != new or recounted:
            found.append(Changed(name, old, new, sessions, recounted))
    return Difference(first, last, (past.counting, then.counting), tuple(found))


def _moved(ledger: Ledger, past: Past, then: Past) -> dict[str, dict[str | None, Moved]]:
    """By bullet and session, what its tags count for in one of the two playbooks and not in the other."""
    covered = set(past.covered()), set(then.covered())
    members: dict[tuple[str, int, str | None], tuple[set[str], set[str]]] = {}
    for position, name, tag, session_id, reflection_id in _tags_between(ledger, past, then, covered):
        for index, (side, out) in enumerate(zip((past, then), covered, strict=True)):
            if _counts(side, out, name, position):
                for bullet in (name, *side.heirs(name, position)):
                    found = members.setdefault((bullet, tag, session_id), (set(), set()))[index]
                    found.add(member(side.counting, str(position), reflection_id, session_id))
    moved: dict[str, dict[str | None, Moved]] = {}
    for (name, tag, session_id), (before, after) in members.items():
        if by := len(after) - len(before):
            one = moved.setdefault(name, {}).setdefault(session_id, Moved(session_id))
            if tag > 0:
                one.helpful += by
            else:
                one.harmful += by
    return moved


_Tag = tuple[int, str, int, str | None, str | None]


def _tags_between(
    ledger: Ledger, past: Past, then: Past, covered: tuple[Collection[int], Collection[int]]
) -> list[_Tag]:
    """(position, bullet's name, 1 or -1, session's id, reflection's id) of the tags that may differ between the two."""
    low, high = sorted((past.position, then.position))
    fields = "SELECT position, name, tag, session_id, reflection_id FROM tag WHERE playbook_id = ? AND tag <> 0"
    start = [
        {name: [(one, side.entries[one].recounted_at) for one in (name, *side.heirs(name))] for name in side.entries}
        for side in (past, then)
    ]
    rebased = [name for name in {**start[0], **start[1]} if start[0].get(name) != start[1].get(name)]
    with ledger.asking() as sql:
        if (past.counting, then.counting) != ("as_applied", "as_applied"):
            # A tag that is new may be one with an old one.
            return [tuple(row) for row in sql.run(f"{fields} AND position <= ? ORDER BY position", high).fetchall()]
        rows = sql.run(f"{fields} AND position > ? AND position <= ?", low, high).fetchall()
        # Older ones too: a retraction, a new baseline or an undone merge takes them out of the count.
        gone = set(covered[0]) ^ set(covered[1])
        among, values = sql.among("position", [position for position in gone if position <= low])
        rows += sql.run(f"{fields} AND {among}", values).fetchall()
        among, values = sql.among("name", rebased)
        rows += sql.run(f"{fields} AND position <= ? AND {among}", low, values).fetchall()
    return sorted({tuple(row) for row in rows})


def _counts(past: Past, covered: Collection[int], name: str, position: int) -> bool:
    entry = past.entries.get(name)
    return entry is not None and entry.recounted_at < position <= past.position and position not in covered
