"""A head that was moved, set back to the last event.

Invariant: the head is the only thing that changes. Where any event is not what was appended, nothing changes: a new
head must not make a history look sound that the chain does not prove.
"""

from __future__ import annotations

from reflector.ledger.append import utc_now
from reflector.ledger.canonical import genesis
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerCorrupt, translated
from reflector.ledger.migration import create_triggers
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

_LAST = "SELECT position, chain, recorded_at FROM event WHERE playbook_id = ? ORDER BY position DESC LIMIT 1"


def mend_head(ledger: Ledger) -> str:
    """Set the head to the last event and rebuild the tables; return what was done in words, "" where nothing was wrong.

    The trigger that lets the head only move forward is down meanwhile, which on a server is the owner's right. Raises
    LedgerCorrupt where the events are not sound, LedgerError.
    """
    found = list(verify(ledger))
    if not any(one.code == "head" for one in found):
        return ""
    worse = [one for one in found if one.code in {"chain", "order", "data", "redaction", "database"}]
    if worse:
        raise LedgerCorrupt(
            f"the events of {ledger.engine.url.shown} are not what was appended ({worse[0].message}), so the head was "
            f"left as it is; {worse[0].remedy}"
        )
    stood = ledger.head()
    with translated(ledger.engine.url.shown), write_transaction(ledger.engine) as driver:
        sql = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        last = sql.run(_LAST).fetchone() or (0, genesis(stood.playbook, stood.origin), utc_now())
        sql.execute(f"DROP TRIGGER IF EXISTS playbook_head_moves_on{' ON playbook' if sql.postgres else ''}")
        sql.execute("UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?", *last, sql.id)
        create_triggers(driver, ledger.engine.dialect)
    ledger.rebuild()
    return f"the head stood at {stood.position:,} ({stood.recorded_at}) and stands at the last event again, {last[0]:,}"
