"""What happened, told in one line an event; which events are about a bullet, and which session is meant."""

from __future__ import annotations

from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.event import Event
from reflector.ledger.store import BulletRow, Ledger

#: Sessions that are looked up to tell what a beginning could mean.
_CANDIDATES = 6


class UnknownSession(LookupError):
    """No window of this session was ever recorded; `candidates` are sessions whose id begins alike."""

    def __init__(self, session_id: str, candidates: list[str]) -> None:
        super().__init__(session_id)
        self.candidates = candidates


def session_named(ledger: Ledger, session_id: str) -> str:
    """A session's whole id, from it or from the unique beginning of it. Raises UnknownSession."""
    candidates = _sessions_like(ledger, session_id)
    if session_id in candidates:
        return session_id
    if len(candidates) != 1:
        raise UnknownSession(session_id, candidates)
    return candidates[0]


def _sessions_like(ledger: Ledger, beginning: str) -> list[str]:
    """The first sessions, by id, whose id begins so; itself first, if it is one."""
    if not beginning or "\0" in beginning or not beginning.isprintable():
        return []
    query = "SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND "
    with ledger.asking() as sql:
        if sql.run(f"{query}session_id = ? LIMIT 1", beginning).fetchone():
            return [beginning]
        if sql.postgres:
            # Its index is in the order of the database's language, in which a beginning is no range.
            rows = sql.run(f"{query}starts_with(session_id, ?) ORDER BY 1 LIMIT ?", beginning, _CANDIDATES).fetchall()
        else:
            last = beginning + chr(0x10FFFF)
            rows = sql.run(
                f"{query}session_id >= ? AND session_id < ? ORDER BY 1 LIMIT ?", beginning, last, _CANDIDATES
            ).fetchall()
    return [row[0] for row in rows]


def summary(event: Event) -> str:
    """One line that tells what an event says."""
    if event.data is None:
        return "(redacted)"
    teller = _TELLERS.get(event.type)
    return teller(event.data) if teller else ""


def _imported(data: Any) -> str:
    count = len(data.get("bullets", ()))
    return f"{count} bullet{'' if count == 1 else 's'} from a file ({data.get('format')})"


def _proposed(data: Any) -> str:
    return f"in {data.get('section')}: {data.get('text')}"


def _added(data: Any) -> str:
    return f"{data.get('name')} in {data.get('section')}: {data.get('text')}"


def _revised(data: Any) -> str:
    return f"{data.get('name')}: {data.get('text')}"


def _moved(data: Any) -> str:
    return f"{data.get('name')} to {data.get('section')}"


def _removed(data: Any) -> str:
    into = f", into {data['into']}" if data.get("into") else ""
    return f"{data.get('name')} ({data.get('reason')}{into})"


def _counters(data: Any) -> str:
    return f"{data.get('name')} helpful={data.get('helpful')} harmful={data.get('harmful')}"


def _session(data: Any) -> str:
    window = data.get("window", {})
    parts = [f"{window.get('records')} records by {data.get('trigger')}"]
    for key in ("cited", "retired", "unknown"):
        if data.get(key):
            parts.append(f"{key} {', '.join(data[key][:8])}")
    return "; ".join(parts)


def _reason(data: Any) -> str:
    return str(data.get("reason") or "")


def _answered(data: Any) -> str:
    return f"{data.get('backend')} ({data.get('model')}), {data.get('mode')}"


def _completed(data: Any) -> str:
    return str(data.get("analysis") or "")


def _failed(data: Any) -> str:
    return f"{data.get('stage')}: {data.get('message')}"


def _tagged(data: Any) -> str:
    how = "" if data.get("disposition") in {"counted", "neutral"} else f" ({data.get('disposition')})"
    return f"{data.get('name')} {data.get('tag')}{how}"


def _merged(data: Any) -> str:
    return f"{data.get('playbook')} of {str(data.get('origin'))[:8]}, up to its position {data.get('position')}"


def _policy(data: Any) -> str:
    return f"counting {data.get('counting')}"


_TELLERS = {
    ev.PLAYBOOK_IMPORTED: _imported,
    ev.BULLET_PROPOSED: _proposed,
    ev.BULLET_ADDED: _added,
    ev.BULLET_REVISED: _revised,
    ev.BULLET_MOVED: _moved,
    ev.BULLET_REMOVED: _removed,
    ev.BULLET_RECOUNTED: _counters,
    ev.BULLET_ASSERTED: _counters,
    ev.SESSION_RECORDED: _session,
    ev.REFLECTION_SKIPPED: _reason,
    ev.REFLECTION_ANSWERED: _answered,
    ev.REFLECTION_COMPLETED: _completed,
    ev.REFLECTION_FAILED: _failed,
    ev.BULLET_TAGGED: _tagged,
    ev.EVIDENCE_RETRACTED: _reason,
    ev.EVENT_REDACTED: _reason,
    ev.POLICY_ADOPTED: _policy,
    ev.LEDGER_MERGED: _merged,
}


def as_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object: every column by its name, the packed record keys left out of `data`."""
    whole = whole_event(event)
    if whole["data"] is not None and isinstance(whole["data"].get("window"), dict):
        window = {key: value for key, value in whole["data"]["window"].items() if key != "keys"}
        whole["data"] = {**whole["data"], "window": window}
    return whole


def whole_event(event: Event) -> dict[str, Any]:
    """An event as a JSON object with everything that its hashes cover."""
    return {
        "position": event.position,
        "event_id": event.event_id,
        "type": event.type,
        "schema_version": event.schema_version,
        "occurred_at": event.occurred_at,
        "recorded_at": event.recorded_at,
        "actor": event.actor,
        "session_id": event.session_id,
        "reflection_id": event.reflection_id,
        "target_id": event.target_id,
        "data": dict(event.data) if event.data is not None else None,
        "data_hash": event.data_hash,
        "meta": dict(event.meta),
        "chain": event.chain,
    }


def about(ledger: Ledger, row: BulletRow, upto: int | None = None) -> list[Event]:
    """Every event that says something of one bullet: how it came, changed and went, and its tags."""
    changes = (ev.BULLET_REVISED, ev.BULLET_MOVED, ev.BULLET_REMOVED, ev.BULLET_RECOUNTED, ev.BULLET_ASSERTED)
    tags = (position for position, _ in ledger.tags_of(row.name))
    positions = {row.position, *(position for position in tags if upto is None or position <= upto)}
    changed = ledger.events(types=changes, after=row.position, upto=upto)
    positions.update(e.position for e in changed if e.data and e.data.get("name") == row.name)
    return ledger.at(sorted(positions))
