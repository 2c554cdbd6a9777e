"""What models said that the playbook lacks, as proposals: from every reading since a month, of any judge.

Invariant: each reading is proposed once, and nothing without its quote. What is alike is one proposal with the quotes
of all its sessions; what a person said comes first, then what most sessions show. Whose words a proposal has is what
its quotes show: one sentence of a person makes it theirs, else it comes from a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from reflector.curation.changes import BulletRefused
from reflector.curation.proposals import Quote, propose
from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import alike
from reflector.reflection.window import is_retracted

_AGE: Final = timedelta(days=30)
#: The most proposals of one time: those that wait already are to keep their place.
_MOST: Final = 10


def propose_learned(ledger: Ledger) -> int:
    """Propose what was not proposed yet; return how many proposals wait for it.

    The playbook's lock must be held. Raises LedgerError.
    """
    since = (datetime.now(UTC) - _AGE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    read = ledger.events(types=[ev.REFLECTION_COMPLETED], after=ledger.position_at(since))
    learned = [one for one in read if (one.data or {}).get("proposals")]
    if not learned:
        return 0
    known = ledger.events(types=[ev.CHANGE_PROPOSED])
    done = {said.get("window") for event in known for said in (event.data or {}).get("evidence", ())}
    groups: list[tuple[Mapping[str, Any], list[Quote], str]] = []
    for event in learned:
        if event.event_id in done or any(is_retracted(ledger, on) for on in (event.event_id, event.target_id or "")):
            continue
        for one in (event.data or {})["proposals"]:
            by = "person" if one["words"] == "person" else "tool"
            found = Quote(one["quote"], by, event.session_id, event.event_id)
            for first, quotes, _ in groups:
                is_same = (first["kind"], first["name"]) == (one["kind"], one["name"])
                if is_same and alike(one["text"], Bullet("", first["section"], first["text"])):
                    quotes.append(found)
                    break
            else:
                groups.append((one, [found], event.actor))
    waiting, rows = 0, {row.name: row for row in ledger.rows() if row.status in ("live", "watched")}
    for one, quotes, actor in sorted(groups, key=lambda group: _support(group[1]), reverse=True)[:_MOST]:
        of, why = rows.get(one["name"] or ""), one["why"]
        if any(row is not of and alike(one["text"], row.bullet) for row in rows.values()):
            continue  # a line says it
        names = (one["name"],) if one["kind"] == "supersede" else ()
        if of is not None and of.status == "watched":  # its file is for a person to change
            names, why = (), f"instead of {of.name}: {why}"
        change = Change("merge" if names else "add", names=names, section=one["section"], text=one["text"])
        said = sorted(quotes, key=lambda quote: quote.by)
        with suppress(BulletRefused):
            facts: Any = {"origin": "model", "trust": said[0].by, "actor": f"curator/{actor}"}
            made = propose(ledger, change, reason=why, evidence=said, **facts)
            waiting += made.state == "waiting"
    return waiting


def _support(quotes: list[Quote]) -> tuple[bool, int]:
    return any(one.by == "person" for one in quotes), len({one.session for one in quotes})
