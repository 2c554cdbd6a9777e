"""Recent verdicts of a judge that do not count, with the reason.

Invariant: a verdict is shown in the judge's own words. A verdict that does not count is never shown
as a neutral one. `status` uses this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.events.bullets import DROPPED
from reflector.handover import words
from reflector.ledger.reader import events_where

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: The most verdicts that are returned.
MOST = 100


# Not frozen, because it is printed once and a frozen class takes three times as long to define.
@dataclass
class DroppedJson:
    """A helpful or harmful verdict that does not count, and the reason."""

    position: int
    session_id: str | None
    name: str
    tag: str
    disposition: str
    why: str


def dropped(ledger: Ledger, since: str) -> list[DroppedJson]:
    """Return the dropped verdicts recorded since a time, newest first, at most `MOST`.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    after = ledger.position_at(since)
    with ledger.asking() as sql:
        # The table `tag` has 0 for each verdict that does not count, so few events are read.
        marks = ", ".join("?" * len(DROPPED))
        where = (
            "position IN (SELECT position FROM tag WHERE playbook_id = ? "  # noqa: S608
            f"AND position > ? AND tag = 0) AND {sql.data_field('disposition')} IN ({marks}) "
            f"AND {sql.data_field('tag')} IN ('helpful', 'harmful') "
            f"ORDER BY position DESC LIMIT {MOST}"
        )
        events = events_where(sql, where, ledger.playbook_id, after, *DROPPED)
    verdicts: list[DroppedJson] = []
    for event in events:
        name, tag, disposition = (
            words(dict(event.facts), key) for key in ("name", "tag", "disposition")
        )
        verdicts.append(
            DroppedJson(
                event.position, event.session_id, name, tag, disposition, DROPPED[disposition]
            )
        )
    return verdicts
