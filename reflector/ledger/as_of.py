"""The playbook as it was at a position of its ledger.

Invariant: each answer equals `fold(ledger.history(upto=position))`, under every policy; a test
compares the two. Only the rare events (bullets, retractions, policies) are folded. The tags, which
are most of a history, are counted as ranges of the index that orders them by bullet.

A tag counts at a position if it comes after its bullet's baseline and no retraction in force then
covers it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.events.registry import RARE_TYPES, fold
from reflector.events.state import Entry, Playbook
from reflector.ledger.counters import tallied
from reflector.ledger.errors import LedgerCorrupt
from reflector.ledger.rows import BulletRow
from reflector.playbook.bullet import MAX_TAGS

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader
    from reflector.ledger.statements import Statements
    from reflector.playbook.bullet import Bullet, Counting


class Past:
    """The playbook of a ledger after the event at `position`: None is the last one, 0 is before
    the first.
    """

    def __init__(self, ledger: Reader, position: int | None = None) -> None:
        self.ledger = ledger
        self.position = ledger.head().position if position is None else position
        self._book: Playbook = fold(ledger.events(types=RARE_TYPES, upto=self.position))
        self._covered: dict[int, str] | None = None

    @property
    def counting(self) -> Counting:
        """The policy that was in force."""
        return self._book.adopted

    @property
    def entries(self) -> dict[str, Entry]:
        """Every bullet by name in order of creation, tombstones included."""
        return self._book.entries

    @cached_property
    def updated_at(self) -> str | None:
        """When a bullet or a count had last changed."""
        query = (
            "SELECT recorded_at FROM event WHERE playbook_id = ? AND position = (SELECT "
            "max(position) FROM tag"
            " WHERE playbook_id = ? AND position <= ? AND tag <> 0)"
        )
        with self.ledger.asking() as sql:
            row = sql.run(query, self.ledger.playbook_id, self.position).fetchone()
        times = [
            time for time in (row[0] if row else None, self._book.updated_at) if time is not None
        ]
        return max(times, default=None)

    def family(self, name: str) -> dict[str, int]:
        """Return the bullets whose evidence counts for one, and the position behind which it does.
        Raises LedgerCorrupt for a bullet that a table alone has.
        """
        if name not in self.entries:
            raise LedgerCorrupt(
                f"a table names the bullet {name!r}, which no event brought; run `reflector "
                "verify`, then "
                "`reflector rebuild`"
            )
        return self._book.family(name)

    def baseline(self, name: str) -> tuple[int, int]:
        """Return (helpful, harmful) of a bullet before any verdict that counts. Raises
        LedgerCorrupt as `family`.
        """
        return self._book.baseline(self.family(name))

    def heirs(self, name: str, position: int | None = None) -> list[str]:
        """Return the bullets for which the evidence of one counts besides itself, or its
        evidence at a position.
        """
        return self._book.heirs(name, position)

    def rows(self, counting: Counting | None = None) -> list[BulletRow]:
        """Return every bullet with its counters, in order of creation, tombstones included; under
        the policy that was in force or another one.
        """
        totals = self.counters(self.entries, counting)
        return [_row(entry, *totals[entry.name]) for entry in self.entries.values()]

    def row(self, name: str) -> BulletRow | None:
        """One bullet, a tombstone too; None for a name that had not been given."""
        entry = self.entries.get(name)
        return _row(entry, *self.counters([name])[name]) if entry is not None else None

    def bullets(self) -> tuple[Bullet, ...]:
        """Return the live bullets with their counters, in order of creation."""
        return tuple(row.bullet for row in self.rows() if row.status == "live")

    def counters(
        self, names: Collection[str], counting: Counting | None = None
    ) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) of these bullets, under the policy that was in force or
        another one.
        """
        return self._counted({name: self.family(name) for name in names}, counting)

    def together(self, names: Iterable[str]) -> tuple[int, int]:
        """Return (helpful, harmful) of these bullets as if they were one: a tag of two of them
        counts once.
        """
        family = {one: after for name in names for one, after in self.family(name).items()}
        return self._counted({"": family})[""]

    def is_active(self, event_id: str | None) -> bool:
        """Return whether no retraction in force covers the event itself."""
        return event_id is None or self._book.active(event_id)

    def covered(self) -> dict[int, str]:
        """The id of a retraction that takes a tag out of the count, by the position of the tag. Of
        one that was undone and done again it is the last, which is in force.
        """
        if self._covered is None:
            by = self._book.retracted_by
            gone = {target: _in_force(by, target) for target in by if not self._book.active(target)}
            with self.ledger.asking() as sql:
                self._covered = _covered(sql, gone, self.position) if gone else {}
        return self._covered

    def _counted(
        self, families: Mapping[str, Mapping[str, int]], counting: Counting | None = None
    ) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) of each family."""
        behind = {
            heir: {name: max(at, self.entries[name].recounted_at) for name, at in family.items()}
            for heir, family in families.items()
        }
        covered = self.covered()
        with self.ledger.asking() as sql:
            more = " AND active IN (0, 1) AND position <= ? AND NOT position IN ?"
            counts = tallied(sql, behind, counting or self.counting, more, self.position, covered)
        found = {}
        for heir, family in families.items():
            helpful, harmful = self._book.baseline(family)
            found[heir] = helpful + counts.get((heir, 1), 0), harmful + counts.get((heir, -1), 0)
        return found


def _row(entry: Entry, helpful: int, harmful: int) -> BulletRow:
    kept = {
        one.name: getattr(entry, one.name)
        for one in fields(BulletRow)
        if one.name not in ("helpful", "harmful")
    }
    return BulletRow(**kept, helpful=helpful, harmful=harmful)


def _in_force(by: Mapping[str, str], target: str) -> str:
    """The last of the retractions that follow from one another: of a target that is out, the one
    that took it out.
    """
    met: set[str] = set()
    while target in by and target not in met:
        met.add(target)  # a forged ledger may hold a circle
        target = by[target]
    return target


def _covered(sql: Statements, gone: dict[str, str], upto: int) -> dict[int, str]:
    """The retraction by the position of each tag that these retracted events (id -> retraction)
    cover.
    """
    fields = (
        "SELECT type, position, event_id, reflection_id, target_id FROM event WHERE playbook_id = ?"
    )
    found = sql.run(f"{fields} AND event_id IN ?", gone).fetchall()
    covered = {row[1]: gone[row[2]] for row in found if row[0] == ev.BULLET_TAGGED}
    found += sql.run(f"{fields} AND target_id IN ? AND position <= ?", gone, upto).fetchall()
    completed = {
        reflection_id: (position, gone.get(event_id) or gone[target_id])
        for type_, position, event_id, reflection_id, target_id in found
        if type_ == ev.REFLECTION_COMPLETED and reflection_id
    }
    query = (
        "SELECT position FROM tag WHERE playbook_id = ? AND position > ? AND position <= ? "
        "AND reflection_id = ?"
    )
    for reflection_id, (start, retraction) in completed.items():
        tags = sql.run(query, start, min(start + MAX_TAGS, upto), reflection_id).fetchall()
        covered.update(dict.fromkeys((position for (position,) in tags), retraction))
    return covered
