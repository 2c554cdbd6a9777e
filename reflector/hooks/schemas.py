"""What `reflector doctor` says of other ledgers of the playbook in the same PostgreSQL database. Reading only."""

from __future__ import annotations

from collections.abc import Iterator

from reflector.events.event import SESSION_RECORDED
from reflector.hooks.reach import Check
from reflector.ledger.elsewhere import CORRECT, elsewhere, told_elsewhere
from reflector.ledger.store import Ledger


def checks_of_schemas(ledger: Ledger) -> Iterator[Check]:
    """Yield the other schemas that hold the playbook: a warning until a session is counted here."""
    if schemas := elsewhere(ledger):
        is_used = ledger.has(SESSION_RECORDED)
        yield Check(
            "schemas", "ok" if is_used else "warning", told_elsewhere(ledger, schemas), "" if is_used else CORRECT
        )
