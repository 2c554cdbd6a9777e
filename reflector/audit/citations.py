"""How a bullet was used, what sessions showed of it, and when it is to be removed.

Invariant: sessions are counted, not windows, so a session that is compacted five times was shown a
bullet once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reflector.audit.standing import verdicts_in
from reflector.ledger.as_of import Past
from reflector.ledger.usage import MARKS, TREND, usage_at
from reflector.playbook.evidence import HARMS, against

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
    `usage_at` of the same moment, where it is known. Raises LedgerError.
    """
    tally = tally or usage_at(ledger, past.position if past is not None else None)
    found = {one: of for one, of in tally.bullets.items() if of.trend and name in (None, one)}
    trends = {one: of.trend for one, of in found.items()} | _with_retractions(ledger, past, found)
    return {
        one: Use(of.judged, of.decided, of.last, trends[one], of.broken)
        for one, of in found.items()
    }


def _with_retractions(ledger: Ledger, past: Past | None, names: Collection[str]) -> dict[str, str]:
    """Return the trend of each of these bullets that a retraction took a verdict from."""
    past = past or Past(ledger)
    if not (covered := past.covered()):
        return {}
    with ledger.asking() as sql:
        lost = sql.run(
            "SELECT DISTINCT name FROM tag WHERE playbook_id = ? AND position IN ?", covered
        ).fetchall()
        trends = {one: "" for (name,) in lost for one in (name, *past.heirs(name)) if one in names}
        members = {
            one for one in past.entries if not trends.keys().isdisjoint((one, *past.heirs(one)))
        }
        for verdict in verdicts_in(sql, past.position, members):
            for one in (verdict.name, *past.heirs(verdict.name)):
                if one in trends and verdict.position not in covered:
                    trends[one] = (trends[one] + MARKS[verdict.tag])[-TREND:]
    return trends


class Observed(NamedTuple):
    """The verdicts on a bullet that show what it is worth; a session shows it once, so these may
    be fractions.
    """

    helpful: float = 0
    harmful: float = 0

    @property
    def share(self) -> float | None:
        """The share helpful; None without any verdict."""
        total = self.helpful + self.harmful
        return round(self.helpful / total, 6) if total else None


def observed(rows: Iterable[BulletRow], past: Past, used: Mapping[str, Use]) -> dict[str, Observed]:
    """Return what sessions showed of each bullet: its counters without their baselines, and no more
    of them than sessions called it helpful or harmful. `past` was read after the rows, so it has
    each of them. Raises LedgerError.
    """
    found = {}
    for row in rows:
        up, down = past.baseline(row.name)
        helpful, harmful = max(0, row.helpful - up), max(0, row.harmful - down)
        most = used[row.name].decided if row.name in used else 0
        shown = min(1.0, most / (helpful + harmful)) if helpful + harmful else 0.0
        found[row.name] = Observed(helpful * shown, harmful * shown)
    return found


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


def due(ledger: Ledger, *, after: int, pinned: Collection[str] = ()) -> list[Due]:
    """Return the live bullets that are to be removed, the most harmful first. Raises LedgerError.

    Only evidence against a bullet names it. One that no session was shown, and one that is pinned
    are left alone.

    after  sessions that were shown a bullet, none of which cited it, after which it is to be
           removed; 0 for never
    """
    tally = usage_at(ledger)
    rows = ledger.rows()
    past = Past(ledger)
    shown = observed(rows, past, use(ledger, past, tally=tally))
    found = []
    for one in ledger.bullets():
        of, reason = tally.bullets[one.name], ""
        if against(*shown[one.name]) >= HARMS:
            reason = "harmful {1:g}, helpful {0:g}, too often for chance".format(*shown[one.name])
        elif 0 < after <= of.told and not of.cited and one.helpful <= one.harmful:
            reason = f"told in {of.told} sessions, cited in none"
        if reason and one.name not in pinned:
            found.append(
                Due(one.name, reason, of.told, of.cited, one.helpful, one.harmful, one.text)
            )
    return sorted(found, key=lambda one: (one.helpful - one.harmful, -one.told))
