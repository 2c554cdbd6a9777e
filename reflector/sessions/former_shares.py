"""Rules whose share changed since each session has one vote. Delete this module with version 2.

Invariant: `status` shows them once in a ledger that is older than the change, and never in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: The first day on which sessions have votes.
_SINCE = "2026-11-29"
_SHOWN = "votes-shown"


def former_shares(project: Project, ledger: Ledger) -> list[str]:
    """Return the changed rules, each with its former and its present numbers; [] after they were
    shown.

    Raises: LedgerError.
    """
    if (project.state_dir / _SHOWN).exists():
        return []
    first = ledger.at([1])
    return [*_changes(ledger)] if first and first[0].recorded_at < _SINCE else []


def note_shown(project: Project) -> None:
    """Note that the changed rules were shown, if the state folder can be written."""
    with suppress(OSError):
        (project.state_dir / _SHOWN).touch()


def _changes(ledger: Ledger) -> Iterator[str]:
    """Yield a line for each live bullet whose share of helpful votes changed when each session got
    one vote.
    """
    from reflector.audit.citations import observed, use
    from reflector.ledger.as_of import Past
    from reflector.playbook.evidence import Votes
    from reflector.text.phrases import short_number

    rows = [row for row in ledger.rows() if row.status == "live"]
    past = Past(ledger)
    used = use(ledger, past).bullets
    votes = observed(rows, past, used)
    for row in rows:
        start_helpful, start_harmful = past.baseline(row.name)
        former = Votes(row.helpful - start_helpful, row.harmful - start_harmful)
        present = votes[row.name]
        if former.share != present.share:
            yield (
                f"{row.name}: helped {short_number(present.helpful)}, "
                f"harmed {short_number(present.harmful)} (before: helped {former.helpful:,}, "
                f"harmed {former.harmful:,}), because each session now has one vote"
            )
