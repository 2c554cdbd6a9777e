"""`--as-of MOMENT` and `A..B`, the same on every command that takes them.

Invariant: a text that names no moment is an error of usage (`reflector.mistakes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger

#: The command gets it as `moment`, None for now.
as_of = click.option(
    "--as-of", "moment", metavar="MOMENT", help="The state at a position, a time, or the end of a session."
)


def past(ledger: Ledger, moment: str | None) -> Past | None:
    """Return the playbook of a moment, None for now. Raises UnknownMoment."""
    if moment is None:
        return None
    from reflector.audit.moments import position_of
    from reflector.ledger.as_of import Past

    return Past(ledger, position_of(ledger, moment))
