"""The playbook as of a position of its ledger.

Invariant: each answer equals `fold(ledger.history(upto=position))`, under every policy, and a test
compares the two. Only the rare events (bullets, retractions, policies) are folded. The tags, which
are most of a history, are counted as ranges of the index that orders them by bullet.

A tag counts at a position if it comes after its bullet's baseline and no active retraction covers
it then. Every question with `--as-of`, and the comparison of `undo`, uses this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from reflector.events.event import BULLET_TAGGED, REFLECTION_COMPLETED
from reflector.events.registry import RARE_TYPES, fold
from reflector.events.state import Playbook
from reflector.ledger.counters import (
    Families,
    SessionVote,
    session_votes,
    tallied,
    votes_of_sessions,
)
from reflector.ledger.errors import LedgerCorrupt
from reflector.playbook.bullet import MAX_TAGS
from reflector.playbook.entry import BulletRow, Entry

if TYPE_CHECKING:
    from reflector.ledger.reader import Reader
    from reflector.ledger.statements import Statements
    from reflector.playbook.bullet import Bullet, Counting

_T = TypeVar("_T")
_LAST_TAG = (
    "SELECT recorded_at FROM event WHERE playbook_id = ? AND position ="
    " (SELECT max(position) FROM tag WHERE playbook_id = ? AND position <= ? AND tag <> 0)"
)
_FACTS = (
    "SELECT type, position, event_id, reflection_id, target_id FROM event WHERE playbook_id = ?"
)
_BY_ID = f"{_FACTS} AND event_id IN ?"
_BY_TARGET = f"{_FACTS} AND target_id IN ? AND position <= ?"
_TAGS_OF_COMPLETIONS = (
    # With a cross join the planner does not read all tags.
    "SELECT tag.position, done.position FROM event done CROSS JOIN tag"  # noqa: S608
    " WHERE done.playbook_id = ? AND done.position IN ? AND tag.position <= ?"
    " AND tag.playbook_id = done.playbook_id AND tag.reflection_id = done.reflection_id"
    f" AND tag.position > done.position AND tag.position <= done.position + {MAX_TAGS}"
)


class Past:
    """The playbook of a ledger after the event at `position`: None is the last event, 0 is before
    the first event.
    """

    def __init__(self, ledger: Reader, position: int | None = None) -> None:
        self.ledger = ledger
        self.is_now = position is None
        self.position = ledger.head().position if position is None else position
        self._book: Playbook = fold(ledger.events(types=RARE_TYPES, upto=self.position))

    @property
    def counting(self) -> Counting:
        """The counting policy at that position."""
        return self._book.adopted

    @property
    def entries(self) -> dict[str, Entry]:
        """Every bullet by name in order of creation, including tombstones."""
        return self._book.entries

    @cached_property
    def updated_at(self) -> str | None:
        """The time of the last change of a bullet or a count."""
        rows = self.ledger.query(_LAST_TAG, self.ledger.playbook_id, self.position)
        times = [time for (time,) in rows]
        return max(filter(None, [*times, self._book.updated_at]), default=None)

    def family(self, name: str) -> dict[str, int]:
        """Return the bullets whose evidence counts for a bullet, each with the position after which
        it counts.

        Raises:
            LedgerCorrupt: A table has the bullet, but no event added it.
        """
        if name not in self.entries:
            raise LedgerCorrupt(
                f"a table of the ledger contains the rule {name!r}, but no event added this rule; "
                "run `reflector verify`, then `reflector rebuild`"
            )
        return self._book.family(name)

    def baseline(self, name: str) -> tuple[int, int]:
        """Return (helpful, harmful) of a bullet before the first verdict that counts.

        Raises:
            LedgerCorrupt: As `family`.
        """
        return self._book.baseline(self.family(name))

    def heirs(self, name: str, position: int | None = None) -> list[str]:
        """Return the other bullets for which the evidence of a bullet counts. With a position,
        consider only its evidence at that position.
        """
        return self._book.heirs(name, position)

    def rows(self, counting: Counting | None = None) -> list[BulletRow]:
        """Return every bullet with its counters, in order of creation, including tombstones.
        `counting` replaces the policy of that position.
        """
        totals = self.counters(self.entries, counting)
        return [_row(entry, *totals[entry.name]) for entry in self.entries.values()]

    def row(self, name: str) -> BulletRow | None:
        """Return one bullet, which can be a tombstone; None for a name that no bullet had."""
        entry = self.entries.get(name)
        return _row(entry, *self.counters([name])[name]) if entry else None

    def bullets(self) -> tuple[Bullet, ...]:
        """Return the live bullets with their counters, in order of creation."""
        return tuple(row.bullet for row in self.rows() if row.status == "live")

    def counters(
        self, names: Collection[str], counting: Counting | None = None
    ) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) of these bullets. `counting` replaces the policy of that
        position.
        """
        return self._counted(self._families(names), counting)

    def together(self, names: Iterable[str]) -> tuple[int, int]:
        """Return (helpful, harmful) of these bullets as if they were one bullet. A tag that two of
        them share counts once.
        """
        together: dict[str, int] = {}
        for name in names:
            together |= self.family(name)
        return self._counted({"": together})[""]

    def is_active(self, event_id: str | None) -> bool:
        """Return whether no active retraction covers the event itself."""
        return event_id is None or self._book.active(event_id)

    @cached_property
    def retracted(self) -> list[str]:
        """The ids of the events that an active retraction removes from the count."""
        return [target for target in self._book.retracted_by if not self._book.active(target)]

    @cached_property
    def covered(self) -> dict[int, str]:
        """The id of the active retraction that removes each tag from the count, by the tag's
        position.
        """
        retractions = {target: self._book.retractions(target)[-1] for target in self.retracted}
        with self.ledger.asking() as sql:
            return _covered_tags(sql, retractions, self.position)

    def is_counted_from_its_beginning(self, name: str) -> bool:
        """Return whether a bullet has only its own evidence, counted since the bullet was added."""
        entry = self.entries[name]
        return entry.recounted_at <= entry.position and len(self.family(name)) == 1

    def votes(self, names: Collection[str]) -> dict[str, tuple[float, float]]:
        """Return the number of sessions that vote (for, against) each of these bullets.

        The counting policy has no effect. The verdicts of a session share one vote. Retracted
        evidence has none. A bullet without a vote is omitted.
        """
        return self._of_tags(votes_of_sessions, self._families(names))

    def votes_by_session(self, names: Collection[str]) -> list[SessionVote]:
        """Return the vote of each session on each of these bullets."""
        return self._of_tags(session_votes, self._families(names))

    def _families(self, names: Iterable[str]) -> Families:
        return {name: self.family(name) for name in names}

    def _of_tags(self, question: Callable[..., _T], families: Families) -> _T:
        """Return the answer to a question about the tags of families that counted at that time."""
        tags_after = {
            heir: {name: max(at, self.entries[name].recounted_at) for name, at in family.items()}
            for heir, family in families.items()
        }
        covered = self.covered
        with self.ledger.asking() as sql:
            return question(sql, tags_after, _STANDING, self.position, covered)

    def _counted(
        self, families: Families, counting: Counting | None = None
    ) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) of each family."""
        counts = self._of_tags(partial(tallied, counting=counting or self.counting), families)
        totals = {}
        for heir, family in families.items():
            helpful, harmful = self._book.baseline(family)
            helpful += counts.get((heir, 1), 0)
            harmful += counts.get((heir, -1), 0)
            totals[heir] = (helpful, harmful)
        return totals


_STANDING = " AND active IN (0, 1) AND position <= ? AND NOT position IN ?"


def _row(entry: Entry, helpful: int, harmful: int) -> BulletRow:
    """Return an entry as a row of the table, with its counters. Fields are matched by name."""
    row: dict[str, Any] = {field.name: getattr(entry, field.name, 0) for field in fields(BulletRow)}
    return BulletRow(**row | {"helpful": helpful, "harmful": harmful})


class _Event(NamedTuple):
    """The part of an event that decides which tags it covers."""

    type: str
    position: int
    event_id: str
    reflection_id: str | None
    target_id: str | None


def _covered_tags(sql: Statements, retractions: Mapping[str, str], upto: int) -> dict[int, str]:
    """Return the retraction of each tag that retracted events cover, by the tag's position.

    retractions  the active retraction of each retracted event, by the event's id
    """
    if not retractions:
        return {}
    retracted = [_Event(*row) for row in sql.rows(_BY_ID, retractions)]
    covered = {
        event.position: retractions[event.event_id]
        for event in retracted
        if event.type == BULLET_TAGGED
    }
    pointing = [_Event(*row) for row in sql.rows(_BY_TARGET, retractions, upto)]
    completions = {
        event.position: retractions.get(event.event_id) or retractions[event.target_id or ""]
        for event in (*retracted, *pointing)
        if event.type == REFLECTION_COMPLETED
    }
    tags = sql.rows(_TAGS_OF_COMPLETIONS, completions, upto) if completions else ()
    return covered | {position: completions[completed] for position, completed in tags}
