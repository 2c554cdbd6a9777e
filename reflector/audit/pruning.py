"""Which bullets are to be removed, by policy.

Invariant: only evidence against a bullet names it. One that no session was shown, one of which nothing is known,
and one that is pinned are left alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reflector.audit.citations import Cited, citations

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Requirement A-32: so many times harmful, and more often than helpful.
_LEAST_HARMFUL: Final = 3


@dataclass(frozen=True, slots=True)
class Due:
    """A bullet that is to be removed, and why."""

    cited: Cited
    text: str
    reason: str


def due(ledger: Ledger, *, after: int, pinned: Collection[str] = ()) -> list[Due]:
    """Return the live bullets that are to be removed, the most harmful first. Raises LedgerError.

    after  sessions that were shown a bullet, none of which cited it, after which it is to be removed; 0 for never
    """
    texts = {row.name: row.text for row in ledger.rows()}
    found = []
    for one in citations(ledger):
        if one.status != "live" or one.name in pinned:
            continue
        reason = ""
        if one.harmful >= _LEAST_HARMFUL and one.harmful > one.helpful:
            reason = f"harmful {one.harmful}, helpful {one.helpful}"
        elif after and (one.told or 0) >= after and not one.cited and one.helpful <= one.harmful:
            reason = f"told in {one.told} sessions, cited in none"
        if reason:
            found.append(Due(one, texts[one.name], reason))
    return sorted(found, key=lambda one: (one.cited.helpful - one.cited.harmful, -(one.cited.told or 0)))
