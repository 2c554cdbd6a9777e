"""What changed between two moments.

Invariant: a difference is that of two playbooks, each the fold up to its position, so it is the same from whichever
side it is looked at; and the tags that are listed explain how the counters moved from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.audit.standing import SELECT, Standing, Verdict, verdicts_in
from reflector.ledger.as_of import Past
from reflector.playbook.counting import Counting

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
    """A bullet in which two playbooks differ; `before` or `after` is null where it is not there.

    change     the most that happened to it: added, restored, removed, merged …, revised, moved, counted, or came and
               went
    recounted  the baseline was set by hand in between
    sessions   whose tags count for more or for less, each side under its own policy; with what the baselines differ by
               they add up to what the counters moved
    """

    name: str
    change: str
    before: BulletRow | None
    after: BulletRow | None
    recounted: bool
    sessions: tuple[Moved, ...]


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
            found.append(Changed(name, _change(old, new), old, new, recounted, sessions))
    return Difference(first, last, (past.counting, then.counting), tuple(found))


def _change(before: BulletRow | None, after: BulletRow | None) -> str:
    was_live, is_live = (row is not None and row.status == "live" for row in (before, after))
    if is_live and not was_live:
        return "added" if before is None else "restored"
    if was_live and not is_live:
        return after.status if after is not None else "removed"
    if before is None or after is None:
        return "came and went"
    return "revised" if before.text != after.text else "moved" if before.section != after.section else "counted"


def _moved(ledger: Ledger, past: Past, then: Past) -> dict[str, dict[str | None, Moved]]:
    """By bullet and session, what its tags count for in one of the two playbooks and not in the other."""
    sides = Standing(past), Standing(then)
    members: dict[tuple[str, int, str | None], tuple[set[str], set[str]]] = {}
    for verdict in _verdicts_between(ledger, *sides):
        for index, side in enumerate(sides):
            if verdict.position <= side.past.position and side.fault(verdict) is None:
                for bullet in (verdict.name, *side.past.heirs(verdict.name, verdict.position)):
                    key = (bullet, verdict.tag, verdict.session_id)
                    members.setdefault(key, (set(), set()))[index].add(side.member(verdict))
    moved: dict[str, dict[str | None, Moved]] = {}
    for (name, tag, session_id), (before, after) in members.items():
        if by := len(after) - len(before):
            one = moved.setdefault(name, {}).setdefault(session_id, Moved(session_id))
            if tag > 0:
                one.helpful += by
            else:
                one.harmful += by
    return moved


def _verdicts_between(ledger: Ledger, first: Standing, last: Standing) -> list[Verdict]:
    """Return the helpful and harmful verdicts that may count at one of two moments only, in order."""
    low, high = sorted((first.past.position, last.past.position))
    with ledger.asking() as sql:
        if (first.counting, last.counting) != ("as_applied", "as_applied"):
            found = verdicts_in(sql, high)  # a tag that is new may be one with an old one
        else:
            # Older ones too: a retraction, a new baseline or an undone merge takes them out of the count.
            gone = first.retractions.keys() ^ last.retractions.keys()
            starts = [_starts(side.past) for side in (first, last)]
            rebased = [name for name in {**starts[0], **starts[1]} if starts[0].get(name) != starts[1].get(name)]
            among, values = sql.among("position", [position for position in gone if position <= low])
            found = [Verdict(*row) for row in sql.run(f"{SELECT} AND {among}", values)]
            found += [*verdicts_in(sql, high, after=low), *verdicts_in(sql, low, rebased)]
    return sorted({verdict for verdict in found if verdict.tag})


def _starts(past: Past) -> dict[str, list[tuple[str, int]]]:
    """Return behind which positions the evidence of each bullet counts, for itself and for those it was merged into."""
    return {name: [(one, past.entries[one].recounted_at) for one in (name, *past.heirs(name))] for name in past.entries}
