"""The tables rebuilt from the events, in one transaction.

Invariant: readers see the old rows until the new ones are committed, and a rebuild that is killed leaves the old rows
in place. The same projector fills the tables after an append and in a rebuild.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from reflector.events.event import MAX_INT
from reflector.ledger.checkpoints import TABLES, set_checkpoint
from reflector.ledger.projection import Projector
from reflector.ledger.reader import history_page
from reflector.playbook.counting import DEFAULT

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: The tables that a rebuild empties and fills again.
REBUILDABLE: Final = ("bullet", "bullet_status", "tag", "session_window", "retraction", "record")
#: Called with the position reached, page by page.
Progress = Callable[[int], None]


def rebuild(sql: Statements, progress: Progress | None = None) -> None:
    """Empty the tables and fill them again from all events, within the caller's write transaction."""
    for table in REBUILDABLE:
        sql.run(f"DELETE FROM {table} WHERE playbook_id = ?")  # noqa: S608
    set_checkpoint(sql, TABLES, DEFAULT, 0, "")
    position = 0
    projector = Projector(sql)
    while page := history_page(sql, position, MAX_INT):
        projector.project(page)
        position = page[-1].position
        if progress is not None:
            progress(position)
