"""What reflecting took, and which windows wait for a budget.

Invariant: what a ledger took is the sum over its answers. A window that a budget kept from being judged is open again
as soon as the budget allows it, in the order in which they were recorded; that it waits is read from the reason of
its last `reflection.skipped`, so it holds for every ledger there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from reflector.events import event as ev
from reflector.ledger.store import Ledger, WindowRow
from reflector.reflection.spending import Spending

#: What is left of a budget below this is not worth a question.
LEAST_ALLOWANCE = 8_000
#: A word of every reason that is a budget's, and of no other reason of the gate.
_WORD = "budget"
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def this_month(ledger: Ledger, spending: Spending) -> int:
    """Return the tokens that all of the person's ledgers took since the calendar month (UTC) began.

    Raises LedgerError and OSError.
    """
    return spending.total(ledger.head().origin, spent_this_month(ledger))


def spent_this_month(ledger: Ledger, now: datetime | None = None) -> int:
    """Tokens that all reflections of the playbook took since the calendar month (UTC) began."""
    begin = (now or datetime.now(UTC)).strftime("%Y-%m-01")
    query = "SELECT meta FROM event WHERE playbook_id = ? AND type = ? AND type <> 'bullet.tagged' AND position > ?"
    after = ledger.position_at(begin)
    with ledger.asking() as sql:
        metas = sql.run(query, ev.REFLECTION_ANSWERED, after).fetchall()
    return sum(tokens_of(json.loads(meta)) for (meta,) in metas)


def spent_on_session(ledger: Ledger, session_id: str | None) -> int:
    """Tokens that a session's reflections took so far."""
    if session_id is None:
        return 0
    # Without the answers themselves, which are most of the bytes.
    query = "SELECT meta FROM event WHERE playbook_id = ? AND session_id = ? AND type = ?"
    with ledger.asking() as sql:
        metas = sql.run(query, session_id, ev.REFLECTION_ANSWERED).fetchall()
    return sum(tokens_of(json.loads(meta)) for (meta,) in metas)


def tokens_of(meta: Mapping[str, Any]) -> int:
    """Return every token that an answer took, as its event's meta says."""
    return sum(value for value in map(meta.get, _COUNTS) if isinstance(value, int) and value > 0)


def left_of(kind: str, limit: int, spent: int) -> int | str:
    """Return the tokens that a budget has left; if they are too few for a question, the reason in words."""
    left = limit - spent
    if left >= LEAST_ALLOWANCE:
        return left
    setting = f"(setting {kind}_tokens)"
    if left <= 0:
        return f"the {kind} {_WORD} is spent: {spent:,} of {limit:,} tokens {setting}"
    return (
        f"{left:,} of {limit:,} tokens of the {kind} {_WORD} are left, fewer than the {LEAST_ALLOWANCE:,} that a "
        f"request needs {setting}"
    )


def waiting_for_budget(ledger: Ledger) -> list[WindowRow]:
    """Return the windows that were skipped because of a budget, oldest first."""
    with ledger.asking() as sql:
        reason = sql.text_at("data", "reason")
        query = (
            f"SELECT target_id, {reason} FROM event WHERE playbook_id = ? AND type <> '{ev.BULLET_TAGGED}'"  # noqa: S608
            f" AND type = '{ev.REFLECTION_SKIPPED}' ORDER BY +position"
        )
        last = dict(sql.run(query).fetchall())
    if not any(_WORD in (reason or "") for reason in last.values()):
        return []
    return [window for window in ledger.windows_in("skipped") if _WORD in (last.get(window.event_id) or "")]
