"""Counting the tags of a history as they pass, without keeping them.

Whether a tag counts, and for whom, is known only at the end: a retraction or a new baseline may follow. So a walk
counts by the final state that the tables give. The tables are compared with the events as well: where they are right,
so was the count; where they are wrong, the tags are counted once more by what the events said.

Invariant: the counters are those of the pure fold, `Playbook.counters`, for the standing that was given; a test
compares the two. Memory grows with bullets and retractions, not with tags.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Self

from reflector.events.fold import MAX_TAGS, Entry, Playbook
from reflector.ledger.checkpoints import TABLES
from reflector.ledger.counters import ENTRIES
from reflector.ledger.statements import Statements
from reflector.playbook.counting import DEFAULT, Counting, is_counting, member
from reflector.proof.scratch import Scratch, SortedSet


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides at some moment which tags count, and for whom.

    counting   the policy
    behind     by the name of a bullet: the position behind which its tags count, and the other bullets for which they
               do, each with a position of its own
    retracted  ids of the events that a retraction in force covers
    """

    counting: Counting
    behind: dict[str, tuple[int, tuple[tuple[str, int], ...]]]
    retracted: frozenset[str]

    @classmethod
    def of(cls, book: Playbook) -> Self:
        """Return the standing of a playbook's bullets, retractions and policy."""
        others: dict[str, list[tuple[str, int]]] = {name: [] for name in book.entries}
        for name in book.entries:
            for one, after in book.family(name).items():
                if one != name:
                    others[one].append((name, max(after, book.entries[one].recounted_at)))
        behind = {name: (entry.recounted_at, tuple(others[name])) for name, entry in book.entries.items()}
        return cls(book.adopted, behind, frozenset(one for one in book.retractions() if not book.active(one)))


def standing_of_tables(sql: Statements) -> Standing:
    """Return the standing that the tables give. Raises for tables that are not a ledger's."""
    entries = {row[0]: Entry(*row) for row in sql.run(ENTRIES).fetchall()}
    retractions = dict(sql.run("SELECT target_id, event_id FROM retraction WHERE playbook_id = ?").fetchall())
    row = sql.run("SELECT policy_id FROM projection WHERE playbook_id = ? AND name = ?", TABLES).fetchone()
    counting = row[0] if row and is_counting(row[0]) else DEFAULT
    return Standing.of(Playbook(adopted=counting, entries=entries, _retracted_by=retractions))


class Evidence:
    """Counts tags by a standing; each is taken once, in order, and a completion before its tags."""

    def __init__(self, standing: Standing, scratch: Scratch) -> None:
        self.standing = standing
        #: Whether a reflection was completed twice: the tags between may have been taken for those of the other one.
        self.unsure = False
        self._covered: dict[str, int] = {}
        #: Of each bullet its number, and its tags so far: at 1 the helpful ones, at -1 the harmful ones.
        self._counts = {name: [number, 0, 0] for number, name in enumerate(standing.behind)}
        self._behind = {
            name: (after, self._counts[name], [(position, self._counts[one]) for one, position in others])
            for name, (after, others) in standing.behind.items()
        }
        self._members = None
        if standing.counting != DEFAULT:
            self._members = SortedSet(scratch, bullet="INTEGER", verdict="INTEGER", member="TEXT")

    def complete(self, position: int, event_id: str, reflection_id: str | None, target_id: str | None) -> None:
        """Take the completion of a reflection."""
        retracted = self.standing.retracted
        if not retracted or not reflection_id:
            return
        self.unsure = self.unsure or reflection_id in self._covered
        self._covered.pop(reflection_id, None)
        if event_id in retracted or target_id in retracted:
            self._covered[reflection_id] = position

    def take(
        self, position: int, event_id: str, name: str, verdict: int, session_id: str | None, reflection_id: str | None
    ) -> int:
        """Take a tag, of the verdict 1 or -1; return 1 if it counts, else 0."""
        behind = self._behind.get(name)
        if behind is not None and position <= behind[0]:
            return 0
        if self.standing.retracted and self._is_covered(position, event_id, reflection_id):
            return 0
        if behind is None:
            return 1
        _, counts, others = behind
        if self._members is None:
            counts[verdict] += 1
            for after, more in others:
                if position > after:
                    more[verdict] += 1
        else:
            one = member(self.standing.counting, event_id, reflection_id, session_id)
            numbers = [counts[0], *(more[0] for after, more in others if position > after)]
            self._members.update([(number, verdict, one) for number in numbers])
        return 1

    def totals(self, book: Playbook) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) of each bullet that the standing has, with its baseline."""
        if self._members is not None:
            found = Counter((number, verdict) for number, verdict, _ in self._members)
            self._counts = {
                n: [number, found[number, 1], found[number, -1]] for n, (number, _, _) in self._counts.items()
            }
        totals = {}
        for name, (_, helpful, harmful) in self._counts.items():
            up, down = book.baseline(book.family(name))
            totals[name] = (up + helpful, down + harmful)
        return totals

    def _is_covered(self, position: int, event_id: str, reflection_id: str | None) -> bool:
        if event_id in self.standing.retracted:
            return True
        after = self._covered.get(reflection_id or "")
        return after is not None and after < position <= after + MAX_TAGS
