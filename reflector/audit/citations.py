"""The use of a bullet, the verdicts of sessions on it, and when it is to be removed.

Invariant: sessions are counted, not windows, so a session that is compacted five times was shown a
bullet once. `list`, `history` and `prune` use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reflector.audit.standing import verdicts_in
from reflector.ledger.as_of import Past
from reflector.ledger.usage import MARKS, TREND, usage_at
from reflector.playbook.evidence import HARMS, FindingRates, Votes

if TYPE_CHECKING:
    from reflector.ledger.rows import BulletRow
    from reflector.ledger.store import Ledger
    from reflector.ledger.usage import Usage


class Use(NamedTuple):
    """How a bullet was used, as far as it was judged.

    sessions  that gave it a verdict, neutral ones included; `decided` those that called it helpful
              or harmful
    last      when the latest of these sessions was, ISO 8601 in UTC
    trend     the last eight verdicts that no retraction covers, oldest first: `+` helpful, `-`
              harmful, `.` neither
    broken    how many judgements say that it was not followed
    """

    sessions: int
    decided: int
    last: str
    trend: str
    broken: int


def use(
    ledger: Ledger, past: Past | None = None, name: str | None = None, tally: Usage | None = None
) -> dict[str, Use]:
    """Return the use of each bullet that was ever judged, or of one, by its name; `tally` is
    `usage_at` of the same moment, if it is known.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    tally = tally or usage_at(ledger, past.position if past is not None else None)
    usages = {bullet: usage for bullet, usage in tally.bullets.items() if name in (None, bullet)}
    judged = {bullet: usage for bullet, usage in usages.items() if usage.trend}
    trends = _trends_with_retractions(ledger, past or Past(ledger), judged)
    return {
        bullet: Use(
            usage.judged,
            usage.decided,
            usage.last,
            trends.get(bullet, usage.trend),
            usage.broken,
        )
        for bullet, usage in judged.items()
    }


def _trends_with_retractions(ledger: Ledger, past: Past, names: Collection[str]) -> dict[str, str]:
    """Return the trend of each of these bullets that a retraction took a verdict from."""
    covered = past.covered()
    if not covered:
        return {}
    query = "SELECT DISTINCT name FROM tag WHERE playbook_id = ? AND position IN ?"
    trends: dict[str, str] = {}
    with ledger.asking() as sql:
        for (name,) in sql.run(query, covered).fetchall():
            trends |= {bullet: "" for bullet in (name, *past.heirs(name)) if bullet in names}
        members = {
            bullet
            for bullet in past.entries
            if not trends.keys().isdisjoint((bullet, *past.heirs(bullet)))
        }
        verdicts = verdicts_in(sql, past.position, members)
    for verdict in verdicts:
        if verdict.position in covered:
            continue
        for bullet in (verdict.name, *past.heirs(verdict.name)):
            if bullet in trends:
                trends[bullet] = (trends[bullet] + MARKS[verdict.tag])[-TREND:]
    return trends


def observed(
    rows: Iterable[BulletRow],
    past: Past,
    used: Mapping[str, Use],
    *,
    tally: Usage | None = None,
    rates: FindingRates | None = None,
) -> dict[str, Votes]:
    """Return the votes on each bullet: each session has one, which its verdicts share. Every share,
    order and removal comes from here. `past` was read after the rows, so it has each.

    tally  has the sessions that cited a bullet, of which those without a vote are undecided

    Raises:
        LedgerError: the ledger cannot be read.
    """
    known = {row.name: _votes_by_counters(row, past, used.get(row.name)) for row in rows}
    counted = past.votes([name for name, votes in known.items() if votes is None])
    votes_by_name: dict[str, Votes] = {}
    for name, plain in known.items():
        helpful, harmful = plain or counted.get(name, (0, 0))
        usage = tally.bullets.get(name) if tally is not None else None
        cited = usage.cited if usage is not None else 0
        undecided = max(0, cited - helpful - harmful)
        votes_by_name[name] = Votes(helpful, harmful, undecided, rates)
    return votes_by_name


def _votes_by_counters(row: BulletRow, past: Past, used: Use | None) -> tuple[float, float] | None:
    """Return the votes on a bullet if each session gave it one verdict that counts, as most do: the
    counters without their baseline. None if the verdicts have to be read.
    """
    start_helpful, start_harmful = past.baseline(row.name)
    helpful = row.helpful - start_helpful
    harmful = row.harmful - start_harmful
    decided = used.decided if used is not None else 0
    is_plain = not past.covered() and past.is_counted_from_its_beginning(row.name)
    if is_plain and helpful + harmful == decided:
        return helpful, harmful
    return None


@dataclass(frozen=True, slots=True)
class Due:
    """A bullet that is to be removed, and why; how many sessions were told it and cited it; `state`
    is that of its removal, null for a dry run.
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
    pinned: Collection[str] = (),
    rates: FindingRates | None = None,
    status: str = "live",
) -> list[Due]:
    """Return the bullets of a status that are to be removed, the most harmful first.

    Only evidence against a bullet puts it there; never a bullet that no session was shown, or that
    is pinned.

    after  sessions that were shown a bullet, none of which cited it, after which it is to be
           removed; 0 for never

    Raises:
        LedgerError: the ledger cannot be read.
    """
    tally = usage_at(ledger)
    rows = ledger.rows()
    past = Past(ledger)
    used = use(ledger, past, tally=tally)
    votes_by_name = observed(rows, past, used, tally=tally, rates=rates)
    bullets_due: list[Due] = []
    for row in rows:
        if row.status != status:
            continue
        usage = tally.bullets[row.name]
        votes = votes_by_name[row.name]
        is_unused = 0 < after <= usage.told and not usage.cited
        reason = ""
        if votes.harm >= HARMS:
            reason = f"harmful {votes.harmful:g}, helpful {votes.helpful:g}, too often for chance"
        elif is_unused and row.helpful <= row.harmful:
            reason = f"told in {usage.told} sessions, cited in none"
        if reason and row.name not in pinned:
            bullets_due.append(
                Due(row.name, reason, usage.told, usage.cited, row.helpful, row.harmful, row.text)
            )
    return sorted(bullets_due, key=lambda bullet: (bullet.helpful - bullet.harmful, -bullet.told))
