"""The counters of the table of bullets: the policy in force, whose evidence counts for whom, and counting.

Invariant: a counter is a baseline plus the size of a set of tags, or of the union of the sets of a family where bullets
were merged into one. A playbook without merges is counted without a question about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from reflector.events.state import Entry, Playbook
from reflector.ledger.statements import TABLES
from reflector.playbook.counting import DEFAULT, Counting, is_counting

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: How many tags count, in SQL. Under the last two policies a tag without the id is a member by itself.
MEMBERS: Final[dict[Counting, str]] = {
    "as_applied": "count(*)",
    "once_per_reflection": "count(DISTINCT reflection_id) + count(*) - count(reflection_id)",
    "once_per_session": "count(DISTINCT session_id) + count(*) - count(session_id)",
}

#: The policy in force, whether any bullet was merged, and whether a retraction is active: one question, since every
#: append asks it. Its other value is `TABLES`.
IN_FORCE: Final = (
    "SELECT policy_id, EXISTS (SELECT 1 FROM bullet WHERE bullet.playbook_id = projection.playbook_id"
    " AND bullet.status = 'merged'), EXISTS (SELECT 1 FROM retraction WHERE"
    " retraction.playbook_id = projection.playbook_id AND active = 1)"
    " FROM projection WHERE playbook_id = ? AND name = ?"
)
#: The answer to it; None where there is no row.
InForce = Sequence[Any] | None
#: How many tags of several bullets count, each bullet's behind a position of its own.
FAMILY = (
    "SELECT tag, {members} FROM {family} AS family CROSS JOIN tag WHERE tag.playbook_id = ? AND name = family.key"
    " AND tag IN (1, -1) AND position > family.value{more} GROUP BY tag"
)

_MORE: Final = "helpful = helpful + {helpful}, harmful = harmful + {harmful}"
_TO: Final = "helpful = {helpful}, harmful = {harmful}"
_FROM_BASELINE: Final = "helpful = baseline_helpful + {helpful}, harmful = baseline_harmful + {harmful}"

ENTRY_COLUMNS: Final = tuple(one.name for one in fields(Entry))
ENTRIES: Final = f"SELECT {', '.join(ENTRY_COLUMNS)} FROM bullet WHERE playbook_id = ?"  # noqa: S608  the code's own names
_OF_MERGES = (
    f"{ENTRIES} AND (status = 'merged'"  # noqa: S608
    " OR name IN (SELECT removed_into FROM bullet WHERE playbook_id = ? AND status = 'merged'))"
)


class Counters:
    """Counts one playbook's tags on an open transaction."""

    def __init__(self, sql: Statements, in_force: InForce = None) -> None:
        self.sql = sql
        self._known = in_force
        self._families: Playbook | None = None

    def forget(self) -> None:
        """Ask again for the policy in force, for retractions, for who was merged, and for their baselines."""
        self._known = self._families = None

    def _in_force(self) -> Sequence[Any]:
        if self._known is None:
            self._known = self.sql.run(IN_FORCE, TABLES).fetchone() or (DEFAULT, False, False)
        return self._known

    def counting(self) -> Counting:
        """Return the counting policy in force."""
        policy = self._in_force()[0]
        return policy if is_counting(policy) else DEFAULT

    def has_retractions(self) -> bool:
        """Return whether any retraction is active."""
        return bool(self._in_force()[2])

    def families(self) -> Playbook:
        """Return the bullets that were merged, and those that have their evidence."""
        if self._families is None:
            rows = self.sql.run(_OF_MERGES, self.sql.id).fetchall() if self._in_force()[1] else ()
            self._families = Playbook(entries={row[0]: Entry(*row) for row in rows})
        return self._families

    def increase(self, counted: Mapping[tuple[str, int], int]) -> None:
        """Add new tags that count, by the bullet's name and the verdict; their rows are written before."""
        if self.counting() != "as_applied":
            self.recount({name for name, _ in counted})
            return
        more: dict[str, list[int]] = {}
        families = self.families()
        for (name, tag), count in counted.items():
            for one in (name, *families.heirs(name)):
                more.setdefault(one, [0, 0])[tag < 0] += count
        self._set(_MORE, [(*counts, name) for name, counts in more.items()])

    def recount(self, names: Iterable[str] | None) -> None:
        """Count the sets of these bullets (None: of all) again, under the policy in force."""
        families = self.families()
        chosen = sorted({one for name in names for one in (name, *families.heirs(name))}) if names is not None else None
        if chosen == []:
            return
        members = MEMBERS[self.counting()]
        only = "" if chosen is None else f" AND name IN ({', '.join('?' * len(chosen))})"
        # Grouped in the order of the index tag_count, so that it streams; inactive rows fall out here.
        query = f"SELECT name, active, tag, {members} FROM tag WHERE playbook_id = ?{only} GROUP BY name, active, tag"  # noqa: S608
        counts = {(row[0], row[2]): row[3] for row in self.sql.run(query, *(chosen or ())).fetchall() if row[1]}
        bullets = chosen
        if bullets is None:
            rows = self.sql.run("SELECT name FROM bullet WHERE playbook_id = ?").fetchall()
            bullets = [row[0] for row in rows]
        several = {name: families.family(name) for name in bullets if families.sources(name)}
        alone = [(counts.get((n, 1), 0), counts.get((n, -1), 0), n) for n in bullets if n not in several]
        self._set(_FROM_BASELINE, alone)
        self._set(_TO, [(*self._counted_for(families, family), name) for name, family in several.items()])

    def _set(self, sets: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Change the counters of bullets by rows of (helpful, harmful, name)."""
        self.sql.change("bullet", sets, "name = {name}", ("helpful", "harmful", "name"), rows)

    def _counted_for(self, families: Playbook, family: Mapping[str, int]) -> tuple[int, int]:
        """Return the counters of a bullet that others were merged into."""
        rows, values = self.sql.pairs(family)
        query = FAMILY.format(members=MEMBERS[self.counting()], family=rows, more=" AND active = 1")
        found = dict(self.sql.execute(query, values, self.sql.id).fetchall())
        helpful, harmful = families.baseline(family)
        return helpful + found.get(1, 0), harmful + found.get(-1, 0)
