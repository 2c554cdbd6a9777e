"""Which bullets are to be removed, by policy.

Invariant: only evidence against a bullet names it. One that no session was told, one of whose tellings nothing is
known, and one that is pinned are left alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.audit.citations import Cited, citations
from reflector.playbook.condition import Condition, condition

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: Requirement A-32.
HARMS = "harmful >= 3 and harmful > helpful"


@dataclass(frozen=True, slots=True)
class Due:
    """A bullet that is to be removed, and why."""

    cited: Cited
    text: str
    reason: str


def due(ledger: Ledger, *, when: Condition | None = None, after: int, pinned: Collection[str] = ()) -> list[Due]:
    """Return the live bullets that are to be removed, the most harmful first. Raises LedgerError.

    when   the condition on the counters; None for `HARMS`. A bullet without any verdict does not meet it
    after  sessions that were told a bullet, none of which cited it, after which it is to be removed; 0 for never
    """
    harms = when or condition(HARMS)
    texts = {row.name: row.text for row in ledger.rows()}
    found = []
    for one in citations(ledger):
        if one.status != "live" or one.name in pinned:
            continue
        reason = ""
        if (one.helpful or one.harmful) and harms.holds(one.helpful, one.harmful):
            reason = f"harmful {one.harmful}, helpful {one.helpful}"
        elif after and (one.told or 0) >= after and not one.cited and one.helpful <= one.harmful:
            reason = f"told in {one.told} sessions, cited in none"
        if reason:
            found.append(Due(one, texts[one.name], reason))
    return sorted(found, key=lambda one: (one.cited.helpful - one.cited.harmful, -(one.cited.told or 0)))
