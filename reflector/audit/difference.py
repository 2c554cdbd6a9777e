"""The changes of a playbook between two moments.

Invariant: each of the two playbooks is the fold of the events up to its position, so the difference
is the same from either side. The listed tags explain how the counters moved from one to the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.ledger.as_of import Past
from reflector.playbook.change import hidden_changes

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.playbook.entry import BulletRow


@dataclass(slots=True)
class Moved:
    """The change to a rule's counts by one session's verdicts; negative if fewer of them count."""

    session_id: str | None
    helpful: int = 0
    harmful: int = 0


#: The change of a bullet that was a rule only between the two moments.
CAME_AND_WENT = "came and went"


@dataclass(frozen=True, slots=True)
class Changed:
    """A rule that differs between two states of a playbook. `before` or `after` is null if that
    state lacks the rule.

    change     the largest change to the rule: added, restored, removed, merged …, revised, moved,
               counted, came and went, or the name of the change that sets another field
    recounted  whether the counters were set by hand between the two states
    sessions   the sessions whose verdicts count in only one state, each state under its own policy.
               With the difference of the start values, they add up to the change of the counters
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
    """The changes of a playbook between two positions.

    counting  the counting policies at both positions
    bullets   the rules that differ, in order of creation
    lessons   the lessons whose worth or state differs, if the caller asked for lessons
    """

    from_: int
    to: int
    counting: BeforeAfter
    bullets: tuple[Changed, ...]
    lessons: Sequence[Mapping[str, Any]] = ()


def difference(ledger: Ledger, first: int, last: int) -> Difference:
    """Return the changes of the playbook from one position to another, which may be earlier.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    past = Past(ledger, first)
    then = Past(ledger, last)
    before = {row.name: row for row in past.rows()}
    after = {row.name: row for row in then.rows()}
    names = list({**before, **after})
    recounted = {name for name in names if _set_by_hand(past, name) != _set_by_hand(then, name)}
    differing = [name for name in names if name in recounted or before.get(name) != after.get(name)]
    moved = _moved(ledger, past, then, differing)
    bullets = tuple(
        Changed(
            name,
            _change(before.get(name), after.get(name)),
            before.get(name),
            after.get(name),
            name in recounted,
            tuple(moved[name].values()),
        )
        for name in differing
    )
    return Difference(first, last, BeforeAfter(past.counting, then.counting), bullets)


def _set_by_hand(side: Past, name: str) -> int:
    """Return the position at which a bullet's counters were set by hand; 0 if they were not."""
    entry = side.entries.get(name)
    return entry.recounted_at if entry and entry.recounted_at > entry.position else 0


def _change(before: BulletRow | None, after: BulletRow | None) -> str:
    """Return the word for the change of a bullet between two moments. A bullet that was a rule only
    between them "came and went".
    """
    was_rule = before is not None and before.is_rule
    is_rule = after is not None and after.is_rule
    if is_rule and not was_rule:
        return "added" if before is None else "restored"
    if was_rule and not is_rule:
        return after.status if after else "removed"
    if before is None or after is None:
        return CAME_AND_WENT
    if before.text != after.text:
        return "revised"
    if (before.section, before.status) != (after.section, after.status):
        return "moved"
    return next((change.kind for change in hidden_changes(before, after, None)), "counted")


def _stand_alike(earlier: Past, later: Past) -> bool:
    """Return whether the later playbook counts each tag of the earlier one in the same way."""
    if not (earlier.counting == later.counting == "as_applied"):
        return False
    covered = {position for position in later.covered if position <= earlier.position}
    if earlier.covered.keys() != covered:
        return False
    for name, entry in earlier.entries.items():
        now = later.entries[name]
        if (entry.recounted_at, entry.heir) != (now.recounted_at, now.heir):
            return False
    return True


def _moved(
    ledger: Ledger, past: Past, then: Past, names: Collection[str]
) -> Mapping[str, dict[str | None, Moved]]:
    """Return by bullet and session the tags that count in only one of the playbooks."""
    earlier, later = sorted((past, then), key=lambda side: side.position)
    start = earlier.position if _stand_alike(earlier, later) else 0
    family: set[str] = set()
    for side in (past, then):
        family.update(*(side.family(name) for name in names if name in side.entries))
    with ledger.asking() as sql:
        verdicts = verdicts_in(sql, later.position, family, start)
    members = _members((Standing(past), Standing(then)), verdicts)
    moved: dict[str, dict[str | None, Moved]] = defaultdict(dict)
    for (name, tag, session_id), (before, after) in members.items():
        increase = len(after) - len(before)
        if increase:
            session = moved[name].setdefault(session_id, Moved(session_id))
            if tag > 0:
                session.helpful += increase
            else:
                session.harmful += increase
    return moved


def _members(
    standings: tuple[Standing, Standing], verdicts: Iterable[Verdict]
) -> Mapping[tuple[str, int, str | None], tuple[set[str], set[str]]]:
    """Return the members that count in each of two playbooks, by bullet, tag and session."""
    members: dict[tuple[str, int, str | None], tuple[set[str], set[str]]] = {}
    for verdict in verdicts:
        for index, standing in enumerate(standings):
            for bullet in _bullets_with(standing, verdict):
                key = (bullet, verdict.tag, verdict.session_id)
                members.setdefault(key, (set(), set()))[index].add(standing.member(verdict))
    return members


def _bullets_with(standing: Standing, verdict: Verdict) -> list[str]:
    """Return the bullets for which a verdict counts in a playbook."""
    is_given = verdict.tag and verdict.position <= standing.past.position
    if not is_given or standing.fault(verdict) is not None:
        return []
    return [verdict.name, *standing.past.heirs(verdict.name, verdict.position)]
