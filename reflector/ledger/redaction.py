"""Erasing a text while the counts that rest on its event stay.

Invariant: after a redaction every counter, name and window is as before, in the tables and in a rebuild, and the
chain verifies. So an event that the fold reads leaves its facts behind, in the `kept` of the event.redacted
that erases it, and whoever reads the event reads those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.errors import LedgerError
from reflector.playbook.fold import REDACTED

#: All prose: nothing that the fold reads is lost with it.
PROSE = frozenset(
    {
        ev.REFLECTION_ANSWERED,
        ev.REFLECTION_COMPLETED,
        ev.REFLECTION_SKIPPED,
        ev.EVIDENCE_RETRACTED,
        ev.BULLET_PROPOSED,
    }
)
#: Prose beside facts.
MIXED = frozenset({ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED, ev.SESSION_RECORDED, ev.REFLECTION_FAILED})


def kept_facts(type_: str, data: Mapping[str, Any], bullets: Collection[str] | None) -> dict[str, Any] | None:
    """What stays of an event's data, None when nothing has to.

    `bullets` are the names in a playbook.imported whose texts go (None: all). Raises LedgerError for an event
    that holds no text to erase.
    """
    if type_ in PROSE:
        return None
    if type_ == ev.PLAYBOOK_IMPORTED:
        items = [
            {**item, "text": REDACTED} if bullets is None or item["name"] in bullets else item
            for item in data["bullets"]
        ]
        return {**data, "bullets": items}
    if type_ in {ev.BULLET_ADDED, ev.BULLET_REVISED}:
        return {**data, "text": REDACTED}
    if type_ == ev.SESSION_RECORDED:
        return {**data, "transcript": {**data.get("transcript", {}), "path": REDACTED}}
    if type_ == ev.REFLECTION_FAILED:
        return {**data, "message": REDACTED}
    raise LedgerError(
        f"a {type_} holds no text of its own, so there is nothing to redact; "
        "redact the bullet, the session or the reflection that it belongs to"
    )
