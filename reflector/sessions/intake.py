"""Recording a session: from a transcript to one `session.recorded`.

Invariant: a record of a transcript is recorded once. The window of an intake is the records that no earlier
window of the playbook holds, whatever file, session id or hook they come by; an intake without new
records appends nothing. So a compaction, a subagent's stop, a session's end and an import of history
do not count one citation four times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.handover import STOPS
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.lessons.recording import lessons_beginning, told_at_start
from reflector.reflection.window import keys_of, line_to, windows_within
from reflector.sessions.readings import Readings
from reflector.sessions.spool import Delivery
from reflector.text.bounds import clean
from reflector.text.secrets import quote
from reflector.transcripts.formats import scan
from reflector.transcripts.homes import transcript_of
from reflector.transcripts.message import Tally
from reflector.transcripts.reading import Scan
from reflector.transcripts.telling import Telling

WindowMode = Literal["new", "whole"]
_MAX_ID = 200
#: Texts that one window was told: a start, and each resume and compaction without a window between them.
_MOST_TELLINGS = 100
#: Events in the middle of a turn (the Before… and After… of Gemini CLI), and starts, which a hook keeps if it could not
#: read them: a window ends with none of these. PreCompress comes before every request, whether it compresses or not.
_MID_TURN = frozenset(
    """
    SessionStart SubagentStart UserPromptSubmit UserPromptExpansion PreToolUse PermissionRequest PermissionDenied
    PostToolUse PostToolUseFailure PostToolBatch Notification MessageDisplay TaskCreated TaskCompleted BeforeAgent
    BeforeModel AfterModel BeforeToolSelection BeforeTool AfterTool PreCompress
    """.split()
)


@dataclass(frozen=True, slots=True)
class Source:
    """What to record: a transcript and what is known about how it came.

    limit is how many bytes of the file to read, None for all: what was appended later is a later window's.
    told is what the hook printed for the session by its own record, for a transcript that has no echo of it.
    """

    path: Path
    trigger: str
    limit: int | None = None
    session_id: str | None = None
    agent_id: str | None = None
    reason: str | None = None
    told: tuple[Telling, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """What an intake found. `event_id` is None when no record was new.

    carried  names that earlier windows of the session cite in the same transcript
    """

    session_id: str
    event_id: str | None
    records: int
    cited: tuple[str, ...]
    carried: tuple[str, ...]
    tally: Tally


def source_of(delivery: Delivery) -> Source | None:
    """Return what a delivery asks to record; None if it has no transcript or nothing ended.

    What was said after a compaction is a later window's. After an end there is no later one, and the client writes
    its transcript behind the hook's back, so it is read to where it ends by now. So it is after a stop, which is
    recorded when its session seems to have ended: most of the turn may have been written after it.
    """
    if delivery.event in _MID_TURN:
        return None
    path = Path(delivery.transcript_path).expanduser() if delivery.transcript_path else None
    if path is None:
        path = transcript_of(delivery.agent_id if delivery.event == "SubagentStop" else delivery.session_id)
    if path is None:
        return None
    ended = delivery.event in {"SessionEnd", "SubagentStop", *STOPS}
    return Source(
        path=path,
        trigger=delivery.event,
        limit=None if ended else delivery.transcript_bytes,
        session_id=delivery.session_id,
        agent_id=delivery.agent_id,
        reason=delivery.reason or delivery.trigger,
    )


def take_in(
    ledger: Ledger,
    source: Source,
    *,
    window: WindowMode = "new",
    found: Scan | None = None,
    beside: Collection[str] | None = None,
    readings: Readings | None = None,
) -> Taken:
    """Record the source's window in the ledger, with what it cites and what it was told.

    `found` is the scan of the source, if there was one; `readings` keep where the next one can go on.
    `beside` are the names that mean a bullet of another playbook, which the agent got as well; None where it got no
    other. A window that says nothing of a playbook beside another is left out; its records stay new.

    Raises OSError for a file that cannot be read, UnknownTranscript for one that is not a transcript, and
    LedgerError.
    """
    try:
        return _take_in(ledger, source, window, found, beside, readings)
    except Conflict:
        # The same window is there under another path or trigger: recorded by another machine a moment ago, so
        # that its records are seen by now, or by an earlier intake of the whole transcript.
        return _take_in(ledger, source, window, found, beside, readings, may_be_there=True)


def _take_in(
    ledger: Ledger,
    source: Source,
    window: WindowMode,
    found: Scan | None,
    beside: Collection[str] | None,
    readings: Readings | None,
    *,
    goes_on: bool = True,
    may_be_there: bool = False,
) -> Taken:
    if found is None:
        may_go_on = ledger if goes_on and window == "new" else None
        found = readings.read(may_go_on, source.path, source.limit) if readings else scan(source.path, source.limit)
    session_id = safe_id(source.session_id or found.session_id) or f"unknown-{found.sha256[:16]}"
    agent_id = safe_id(source.agent_id or found.agent_id)
    nothing = Taken(session_id, None, 0, (), (), found.tally)
    seen = ledger.seen(found.keys)
    before: list[Event] = []
    if found.since is not None:
        if found.is_exact and seen.issubset(found.since.tail):
            before = line_to(ledger, session_id, agent_id, found.since.window)
        if not before:  # records came again, or another window of the session was recorded meanwhile
            return _take_in(ledger, source, window, None, beside, readings, goes_on=False, may_be_there=may_be_there)
    keys = [key for key in found.keys if key not in seen] if seen and window == "new" else list(found.keys)
    if not keys:
        return nothing
    if found.since is None and seen:
        before = windows_within(ledger, session_id, agent_id, seen)
    packed = pack_keys(keys)
    names = _cited_names(found, frozenset(keys))
    earlier = _cited_earlier(found, before) if window == "new" else []
    told, said_by = _told(ledger, source, found, session_id, frozenset(keys))
    asks = names or earlier or told
    rows = {row.name: row for row in ledger.rows() if row.name not in (beside or ())} if asks else {}
    split = _split(names, rows)
    carried = _split(earlier, rows)["cited"]
    if beside is not None:
        told = [one for one in told if any(name in rows for name in one.bullets)]
        if not (split["cited"] or split["retired"] or carried or told):
            return nothing
    event = NewEvent(
        ev.SESSION_RECORDED,
        identity(ev.SESSION_RECORDED, found.agent, session_id, agent_id or "", window, _sha(packed)),
        {
            "agent": found.agent,
            "agent_id": agent_id,
            "client": quote(found.version or "", 40) or None,
            "trigger": clean(source.trigger, 40),
            "reason": clean(source.reason, 80) if source.reason else None,
            "transcript": {
                "path": _text(str(source.path)),
                "bytes": found.bytes,
                "sha256": found.sha256,
                **({"since": found.since.offset} if found.since else {}),
            },
            "window": {
                "mode": window,
                "first": _text(found.first_uuid or ""),
                "last": _text(found.last_uuid or ""),
                "records": len(keys),
                "keys": packed,
                "after": before[-1].event_id if before else None,
            },
            **split,
            "carried": carried,
            "unread": _unread(found.tally),
        },
        actor=source.trigger if source.trigger == "ingest" else f"hook:{clean(source.trigger, 40)}",
        occurred_at=_iso(found.ended_at),
        session_id=session_id,
    )
    if may_be_there and ledger.event(event.event_id) is not None:
        return nothing
    appended, *_ = ledger.append([event, *_tellings(ledger, event, told, said_by, rows)])
    if not appended.added:
        return nothing
    if readings is not None and found.gathered is not None:
        own = frozenset(keys)
        readings.gathered[appended.event_id] = [one for one in found.gathered if one.key in own]
    if readings is not None and window == "new" and (source.session_id or found.session_id):
        # The records of a fork's original are another session's: what precedes the fork's own is told by the whole.
        is_own = found.since is not None or not seen.difference(*map(keys_of, before))
        readings.keep(ledger, source.path, found if is_own else replace(found, checkpoint=None), appended.event_id)
    cited, tally = tuple(split["cited"]), found.tally
    return Taken(session_id, appended.event_id, len(keys), cited, tuple(carried), tally)


def _told(
    ledger: Ledger, source: Source, found: Scan, session_id: str, keys: frozenset[int]
) -> tuple[list[Telling], str]:
    """Return what the records with these keys were told, each text once, and who says so.

    A transcript that has an echo of the hook's output says so of the whole session; without one the hook does.
    """
    if found.told:
        told = {one.digest: one for key, one in found.told if key in keys}
        return list(told.values())[:_MOST_TELLINGS], "transcript"
    if not source.told or found.agent_id or found.answered not in keys:
        return [], "hook"
    events = ledger.events(session_id=session_id, types=(ev.ADVICE_TOLD,))
    known = {(event.data or {}).get("digest") for event in events}
    return [one for one in source.told if one.digest not in known][:_MOST_TELLINGS], "hook"


def _tellings(
    ledger: Ledger, window: NewEvent, told: Sequence[Telling], source: str, rows: dict[str, BulletRow]
) -> list[NewEvent]:
    """Return the events of what a window was told, as far as this playbook knows it."""
    return [
        told_at_start(
            window,
            one.digest,
            bullets=[name for name in one.bullets if name in rows],
            lessons=lessons_beginning(ledger, one.lessons),
            source=source,
            seed=one.seed,
        )
        for one in told
    ]


def _cited_names(found: Scan, keys: frozenset[int]) -> list[str]:
    """Return the names that the records with these keys cite, in order of first appearance."""
    return list(dict.fromkeys(name for key, names in found.cited if key in keys for name in names))


def _cited_earlier(found: Scan, before: Sequence[Event]) -> list[str]:
    """Names that earlier windows cited and that their records still cite, in order of first appearance."""
    cited = {name for event in before for name in (event.data or {}).get("cited", ())}
    if not cited:
        return []
    citing = {key for key, _ in found.cited}
    keys = frozenset(key for event in before for key in citing.intersection(keys_of(event)))
    return [name for name in _cited_names(found, keys) if name in cited]


def _split(names: Sequence[str], rows: dict[str, BulletRow]) -> dict[str, list[str]]:
    """Cited names by what they are in this playbook: live (or merged into one that is), retired or unknown."""
    live = [name for name in names if name in rows and rows[name].counts]
    retired = [name for name in names if name in rows and not rows[name].counts]
    unknown = [name[:64] for name in names if name not in rows]
    return {"cited": live, "retired": retired, "unknown": unknown[:1000]}


def _unread(tally: Tally) -> dict[str, Any]:
    """Return what the reader did not understand, only where there was something: a drift of the format shows here."""
    counted: dict[str, Any] = {
        name: value
        for name in ("duplicates", "glued", "malformed", "oversized", "unfinished_bytes")
        if (value := getattr(tally, name))
    }
    if tally.unknown_types:
        types = sorted(tally.unknown_types.items())[:50]
        counted["unknown_types"] = {quote(name, 60): count for name, count in types}
    return counted


def safe_id(value: str | None) -> str | None:
    """Return an id from outside, fit for the ledger: as it is when it is short and plain, else a digest of it."""
    if not value:
        return None
    if len(value) <= _MAX_ID and value.isprintable() and value == _text(value):
        return value
    return f"invalid-{_sha(value)[:32]}"


def _text(value: str) -> str:
    """Text that every engine stores: lone surrogates replaced, NUL and newlines out, bounded."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "").replace("\n", " ")[:1000]


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _iso(stamp: str | None) -> str | None:
    """Return a time that is ISO 8601, None for any other text: an event keeps it for ever."""
    if not stamp or not stamp.isascii() or not stamp.isprintable() or len(stamp) > 40 or stamp[4:5] != "-":
        return None
    try:
        datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return stamp
