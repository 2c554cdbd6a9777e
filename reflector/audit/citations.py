"""The use of a bullet, the votes of sessions on it, and when it should be removed.

Invariant: sessions are counted, not windows, so a session that is compacted five times counts once.
Retracted evidence does not count. `list`, `show`, `blame`, the report, `history` and `prune` use
this module. docs/counting.md defines the words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.ledger.as_of import Past
from reflector.ledger.usage import take_back, usage_at
from reflector.playbook.evidence import HARMS, FindingRates, Votes
from reflector.playbook.ranking import pinned_names

if TYPE_CHECKING:
    from reflector.audit.blame import Step
    from reflector.ledger.store import Ledger
    from reflector.ledger.usage import Usage, Used
    from reflector.playbook.entry import BulletRow

#: The number of sessions of `recent`, and the marks of a session: even, for, against the bullet.
_RECENT = 8
_MARKS = ".+-"
_SIGNS = {"helpful": 1, "harmful": -1}


def use(ledger: Ledger, then: Past) -> Usage:
    """Return the use of each bullet at a moment, without retracted evidence.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    usage = usage_at(ledger, None if then.is_now else then.position)
    if then.retracted:
        with ledger.asking() as sql:
            take_back(sql, usage, then)
    return usage


def recent(steps: Iterable[Step], past: Past) -> str:
    """Return the votes of the last eight sessions in the steps of a bullet, oldest first.

    A vote is `+` if a session's verdicts are mostly helpful, `-` if mostly harmful, else `.`.
    """
    balances: dict[str, int] = defaultdict(int)
    for step in steps:
        is_vote = step.disposition in ("counted", "double", "neutral")
        if is_vote and step.position not in past.covered:
            session = step.session_id or step.reflection_id or str(step.position)
            balances[session] += _SIGNS.get(step.tag or "", 0)
    signs = [(balance > 0) - (balance < 0) for balance in balances.values()]
    return "".join(_MARKS[sign] for sign in signs[-_RECENT:])


def observed(
    rows: Iterable[BulletRow],
    past: Past,
    used: Mapping[str, Used],
    *,
    rates: FindingRates | None = None,
) -> dict[str, Votes]:
    """Return the votes on each bullet. Each session has one vote, which its verdicts share.

    Every share, order and removal uses these votes. `past` must be read after the rows, so that it
    has each of them.

    rates  of the judge, if they were measured

    Raises:
        LedgerError: the ledger cannot be read.
    """
    known = {row.name: _votes_by_counters(row, past, used.get(row.name)) for row in rows}
    counted = past.votes([name for name, votes in known.items() if votes is None])
    votes_by_name: dict[str, Votes] = {}
    for name, plain in known.items():
        helpful, harmful = plain or counted.get(name, (0, 0))
        usage = used.get(name)
        cited = usage.cited if usage else 0
        undecided = max(0, cited - helpful - harmful)
        votes_by_name[name] = Votes(helpful, harmful, undecided, rates)
    return votes_by_name


def _votes_by_counters(row: BulletRow, past: Past, used: Used | None) -> tuple[float, float] | None:
    """Return the votes on a bullet from its counters without their baseline.

    They are right if each session gave one verdict that counts, as most do. Return None if the
    verdicts must be read.
    """
    start_helpful, start_harmful = past.baseline(row.name)
    helpful = row.helpful - start_helpful
    harmful = row.harmful - start_harmful
    decided = used.decided if used else 0
    if past.is_counted_from_its_beginning(row.name) and helpful + harmful == decided:
        return helpful, harmful
    return None


@dataclass
class Due:
    """A rule to remove, with the reason.

    told   the number of sessions that got the rule
    cited  the number of sessions that cited the rule
    state  the state of the removal; null for a dry run
    """

    name: str
    reason: str
    told: int
    cited: int
    helpful: int
    harmful: int
    text: str
    state: str | None = None


def due(
    ledger: Ledger,
    *,
    after: int,
    pinned: Sequence[str] = (),
    rates: FindingRates | None = None,
    status: str = "live",
) -> list[Due]:
    """Return the bullets of a status that are due for removal, the most harmful first.

    A bullet is due only if there is evidence against it. It is never due if it is pinned or if no
    session was shown it.

    after   the number of sessions that got a bullet without a citation, after which it is
            due; 0 for never
    pinned  the setting of this name

    Raises:
        LedgerError: the ledger cannot be read.
    """
    rows = ledger.rows()
    past = Past(ledger)
    tally = use(ledger, past)
    votes_by_name = observed(rows, past, tally.bullets, rates=rates)
    excused = pinned_names(pinned, rows)
    bullets_due: list[Due] = []
    for row in rows:
        if row.status != status:
            continue
        usage = tally.bullets[row.name]
        votes = votes_by_name[row.name]
        is_unused = 0 < after <= usage.told and not usage.cited
        reason = ""
        if votes.harm >= HARMS:
            reason = (
                f"harmful {votes.harmful:g}, helpful {votes.helpful:g}: chance does not "
                "explain the difference"
            )
        elif is_unused and row.helpful <= row.harmful:
            reason = f"shown in {usage.told} sessions, but never cited"
        if reason and row.name not in excused:
            bullets_due.append(
                Due(row.name, reason, usage.told, usage.cited, row.helpful, row.harmful, row.text)
            )
    return sorted(bullets_due, key=lambda bullet: (bullet.helpful - bullet.harmful, -bullet.told))
