"""How bullets were used: for each line of `list`, so that it loads little."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reflector.ledger.usage import Usage, usage

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger


class Use(NamedTuple):
    """How a bullet was used, as far as it was judged.

    sessions  that gave it a verdict, neutral ones included
    last      when the last of these verdicts was recorded, ISO 8601 in UTC
    trend     the last eight verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    """

    sessions: int
    last: str
    trend: str


def use(ledger: Ledger, past: Past | None = None, name: str | None = None) -> dict[str, Use]:
    """Return the use of each bullet that was ever judged, or of one, by its name. Raises LedgerError."""
    tally = tally_of(ledger, past)
    found = {one: of for one, of in tally.bullets.items() if of.last and name in (None, one)}
    events = ledger.all_at([of.last for of in found.values()])
    return {one: Use(of.judged, events[of.last].recorded_at, of.trend) for one, of in found.items()}


def tally_of(ledger: Ledger, past: Past | None) -> Usage:
    """Return the counts of a moment, None for now. Raises LedgerError."""
    upto = past.position if past is not None else ledger.head().position
    with ledger.asking() as sql:
        return usage(sql, upto)
