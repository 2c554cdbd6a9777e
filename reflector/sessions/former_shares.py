"""Rules whose share changed since each session has one vote. Delete this module with version 2.

Invariant: `status` shows them once in a ledger that is older than the change, and never in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from reflector.ledger.errors import LedgerError

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: The day from which sessions have votes.
_SINCE = "2026-11-29"
_SHOWN = "votes-shown"


def former_shares(project: Project) -> list[str]:
    """Return the changed rules, each with its former and its present numbers; [] once returned."""
    mark = project.state_dir / _SHOWN
    if mark.exists() or not project.has_ledger():
        return []
    with suppress(LedgerError, OSError), project.open_ledger() as ledger:
        first = ledger.at([1])
        if first and first[0].recorded_at < _SINCE:
            changes = [*_changes(ledger)]
            mark.touch()
            return changes
    return []


def _changes(ledger: Ledger) -> Iterator[str]:
    from reflector.audit.citations import observed, use
    from reflector.ledger.as_of import Past
    from reflector.playbook.evidence import Votes

    rows = [row for row in ledger.rows() if row.status == "live"]
    past = Past(ledger)
    votes = observed(rows, past, use(ledger, past).bullets)
    for row in rows:
        helpful, harmful = past.baseline(row.name)
        former = Votes(row.helpful - helpful, row.harmful - harmful)
        present = votes[row.name]
        if former.share != present.share:
            yield (
                f"{row.name}: helped {present.helpful:.3g}, harmed {present.harmful:.3g} "
                f"(before: {former.helpful} and {former.harmful}), because each session now "
                "has one vote"
            )
