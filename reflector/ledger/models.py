"""Which model worked in which session.

Invariant: a window has the model that its own record names, else the one that another copy of it
named when that was merged. So two machines that merged each other answer alike, whichever of them
recorded the window with a version that knew no models.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.events.event import MODEL
from reflector.ledger.reader import between

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

_TYPES = (ev.SESSION_RECORDED, ev.LEDGER_MERGED)


def window_models(sql: Statements, upto: int) -> dict[str, tuple[str, str]]:
    """Return the session and the model of each window with a known model, by the window's id."""
    brought: dict[str, str] = {}
    session_of: dict[str, str] = {}
    named: dict[str, str] = {}
    for event in between(sql, _TYPES, 0, upto):
        if event.type == ev.LEDGER_MERGED:
            brought |= event.facts.get("models") or {}
            continue
        session_of[event.event_id] = event.session_id or ""
        if model := event.meta.get(MODEL):
            named[event.event_id] = str(model)
    models = brought | named
    return {
        window_id: (session_of[window_id], model)
        for window_id, model in models.items()
        if window_id in session_of
    }


def session_models(sql: Statements, upto: int) -> dict[str, str]:
    """Return the model of most windows of each session, by the session's id; sessions without a
    known model are not in it.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for session_id, model in window_models(sql, upto).values():
        counts[session_id][model] += 1
    return {session_id: models.most_common(1)[0][0] for session_id, models in counts.items()}
