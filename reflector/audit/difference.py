"""What changed between two moments.

Invariant: a difference is that of two playbooks, each the fold up to its position, so it is the
same from whichever side it is looked at; and the tags that are listed explain how the counters
moved from one to the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflector.audit.standing import Standing, verdicts_in
from reflector.ledger.as_of import Past

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

    change     the most that happened to it: added, restored, removed, merged …, revised, moved,
               counted, or came and went
    recounted  the baseline was set by hand in between
    sessions   whose tags count for more or for less, each side under its own policy; with what the
               baselines differ by they add up to what the counters moved
    """

    name: str
    change: str
    before: BulletRow | None
    after: BulletRow | None
    recounted: bool
    sessions: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A value before and after."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """How the playbook changed between two positions: the policies in force, and the bullets in
    order of creation.

    lessons  those whose worth or state differs, where they were asked for
    """

    from_: int
    to: int
    counting: BeforeAfter
    bullets: tuple[Changed, ...]
    lessons: Sequence[Mapping[str, Any]] = ()


def difference(ledger: Ledger, first: int, last: int) -> Difference:
    """What became of the playbook from one position to another, which may be an earlier one.
    Raises LedgerError.
    """
    past, then = Past(ledger, first), Past(ledger, last)
    before, after = ({row.name: row for row in side.rows()} for side in (past, then))
    names = {**before, **after}
    by_hand = {name: _set_by_hand(past, name) != _set_by_hand(then, name) for name in names}
    differing = [name for name in names if by_hand[name] or before.get(name) != after.get(name)]
    moved = _moved(ledger, past, then, differing)
    found = []
    for name in differing:
        old, new = before.get(name), after.get(name)
        sessions = tuple(moved.get(name, {}).values())
        found.append(Changed(name, _change(old, new), old, new, by_hand[name], sessions))
    return Difference(first, last, BeforeAfter(past.counting, then.counting), tuple(found))


def _set_by_hand(side: Past, name: str) -> int:
    """Return the position at which a bullet's counters were set by hand, 0 where they were not."""
    entry = side.entries.get(name)
    return entry.recounted_at if entry is not None and entry.recounted_at > entry.position else 0


def _change(before: BulletRow | None, after: BulletRow | None) -> str:
    was_live, is_live = (row is not None and row.status == "live" for row in (before, after))
    if is_live and not was_live:
        return "added" if before is None else "restored"
    if was_live and not is_live:
        return after.status if after is not None else "removed"
    if before is None or after is None:
        return "came and went"
    return (
        "revised"
        if before.text != after.text
        else "moved"
        if before.section != after.section
        else "counted"
    )


def _stand_alike(earlier: Past, later: Past) -> bool:
    """Return whether the later playbook counts each tag that the earlier one has as the earlier
    one does.
    """
    return (
        earlier.counting == later.counting == "as_applied"
        and earlier.covered().keys() == {at for at in later.covered() if at <= earlier.position}
        and all(
            (entry.recounted_at, entry.heir)
            == (later.entries[name].recounted_at, later.entries[name].heir)
            for name, entry in earlier.entries.items()
        )
    )


def _moved(
    ledger: Ledger, past: Past, then: Past, names: Collection[str]
) -> dict[str, dict[str | None, Moved]]:
    """By bullet and session, what its tags count for in one of the two playbooks and not in the
    other.
    """
    sides = Standing(past), Standing(then)
    family = {
        one
        for side in (past, then)
        for name in names
        if name in side.entries
        for one in side.family(name)
    }
    members: dict[tuple[str, int, str | None], tuple[set[str], set[str]]] = {}
    earlier, later = sorted((past, then), key=lambda side: side.position)
    with ledger.asking() as sql:
        start = earlier.position if _stand_alike(earlier, later) else 0
        verdicts = verdicts_in(sql, later.position, family, start)
    for verdict in (one for one in verdicts if one.tag):
        for index, side in enumerate(sides):
            if verdict.position <= side.past.position and side.fault(verdict) is None:
                for bullet in (verdict.name, *side.past.heirs(verdict.name, verdict.position)):
                    key = (bullet, verdict.tag, verdict.session_id)
                    members.setdefault(key, (set(), set()))[index].add(side.member(verdict))
    moved: dict[str, dict[str | None, Moved]] = {}
    for (name, tag, session_id), (before, after) in members.items():
        if by := len(after) - len(before):
            one = moved.setdefault(name, {}).setdefault(session_id, Moved(session_id))
            one.helpful += by * (tag > 0)
            one.harmful += by * (tag < 0)
    return moved
