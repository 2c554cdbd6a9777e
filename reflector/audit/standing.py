"""Whether a tag counts at a moment, and if not, the reason.

Invariant: this is the only implementation of the rule in Python. Blame, a session, a difference and
the doubles use it. The views `tags` and `repeated` implement it in SQL, and a test compares the
two.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, NamedTuple

from reflector.playbook.bullet import member

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.statements import Statements

#: The reason why a verdict does not count: its bullet was added later, its counters were set later,
#: a retraction covers it, or an equal verdict already counts under the policy.
Fault = Literal["unknown_bullet", "recounted", "retracted", "double"]


class Verdict(NamedTuple):
    """A tag on a bullet: 1 for helpful, -1 for harmful, 0 for a verdict that never counts."""

    position: int
    name: str
    tag: int
    session_id: str | None
    reflection_id: str | None


def verdicts_in(
    sql: Statements, upto: int, names: Collection[str] | None = None, after: int = 0
) -> list[Verdict]:
    """Return the tags of these bullets, or of all bullets, in order.

    after, upto  positions; `after` is not included, `upto` is
    """
    # The plus prevents the planner from reading all tags of a long history only because they are in
    # order.
    place = "position" if names is None or after else "+position"
    where = f"playbook_id = ? AND {place} <= ? AND {place} > ?"
    values: list[object] = [upto, after]
    if names is not None:
        where += " AND name IN ?"
        values.append(names)
    columns = ", ".join(Verdict._fields)
    query = f"SELECT {columns} FROM tag WHERE {where} ORDER BY {place}"  # noqa: S608
    return [*map(Verdict._make, sql.run(query, *values))]


class Standing:
    """The verdicts that count at a moment, under the policy in force.

    retractions  the id of the retraction that covers a tag, by the position of the tag
    """

    def __init__(self, past: Past) -> None:
        self.past = past
        self.counting = past.counting
        self.retractions = past.covered
        self._first: dict[tuple[str, int, str], int] = {}

    def fault(self, verdict: Verdict, after: int = 0) -> Fault | None:
        """Return why a helpful or harmful verdict does not count, apart from equal verdicts; else
        None.

        after  the position at which the counters of another bullet were set, if the verdict also
               counts for that bullet
        """
        entry = self.past.entries.get(verdict.name)
        if entry is None:
            return "unknown_bullet"
        start = max(after, entry.recounted_at)
        if verdict.position <= start:
            return "recounted" if start > entry.position else "unknown_bullet"
        return "retracted" if verdict.position in self.retractions else None

    def member(self, verdict: Verdict) -> str:
        """Return the member that a verdict counts as. Verdicts with the same member count once."""
        return member(
            self.counting, str(verdict.position), verdict.reflection_id, verdict.session_id
        )

    def repeats(self, name: str, verdict: Verdict) -> int | None:
        """Return the position of an equal verdict that already counts for a bullet.

        None makes this verdict count. Call it only for verdicts without a fault, in the order of
        their positions.
        """
        first = self._first.setdefault((name, verdict.tag, self.member(verdict)), verdict.position)
        return None if first == verdict.position else first

    def why_uncounted(self, verdict: Verdict) -> Fault | None:
        """Return why a verdict does not count for its own bullet; None if it counts.

        Call it in the order of positions.
        """
        fault = self.fault(verdict)
        if fault is None and self.repeats(verdict.name, verdict) is not None:
            return "double"
        return fault
