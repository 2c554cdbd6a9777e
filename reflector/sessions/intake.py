"""Recording a session: from a transcript to one `session.recorded`.

Invariant: a record of a transcript is recorded once. The window of an intake is the records that no
earlier window of the playbook holds, whatever file, session id or hook they come by, and under
whatever ids a fork copied them; an intake without new records appends nothing but the fact that it
met copies. So a compaction, a subagent's stop, a session's end and an import of history do not
count one citation four times.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflector.embed.lessons.recording import lessons_beginning, told_at_start
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity, time_of
from reflector.events.fields import pack_keys, unpack_keys
from reflector.events.sessions import QUEUED
from reflector.handover import STOPS
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.locate import agent_folder
from reflector.reflection.window import keys_of, last_line, transcript_of, twins_of
from reflector.sessions import answers
from reflector.sessions.injection import is_fork, told_by_hook
from reflector.sessions.opencode_store import is_export
from reflector.sessions.spool import Delivery
from reflector.text.bounds import clean
from reflector.text.secrets import quote
from reflector.transcripts.citations import BEFORE, FOLLOWED, Telling
from reflector.transcripts.message import Tally
from reflector.transcripts.reading import Place, Scan, UnknownTranscript, read_messages, scan
from reflector.trials.outcome import outcome_event, read_outcome

WindowMode = Literal["new", "whole"]
_MAX_ID = _MAX_WHY = 200
#: Where a hook named no transcript, only a file that is named by the very id of the session is
#: taken for it.
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Texts that one window was told: a start, and each resume and compaction without a window between
#: them.
_MOST_TELLINGS = 100
#: So many messages that a session has in common with another one were copied.
_FEWEST_COPIES = 2
#: Events in the middle of a turn (the Before… and After… of Gemini CLI), and starts, which a hook
#: keeps if it could not read them: a window ends with none of these. PreCompress comes before every
#: request, whether it compresses or not.
_MID_TURN = frozenset(
    """
    SessionStart SubagentStart UserPromptSubmit UserPromptExpansion PreToolUse PermissionRequest
    PermissionDenied PostToolUse PostToolUseFailure PostToolBatch Notification MessageDisplay
    TaskCreated TaskCompleted BeforeAgent BeforeModel AfterModel BeforeToolSelection BeforeTool
    AfterTool PreCompress
    """.split()
)


@dataclass(frozen=True, slots=True)
class Source:
    """What to record: a transcript and what is known about how it came.

    limit is how many bytes of the file to read, None for all: what was appended later is a later
    window's. project is the one whose start hook noted what it told, and which sessions began as
    forks. agent is whose session it is, where the transcript is one of ours.
    """

    path: Path
    trigger: str
    limit: int | None = None
    session_id: str | None = None
    agent_id: str | None = None
    reason: str | None = None
    project: Path | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What an intake found. `event_id` is None when no record was new.

    found     the scan of the transcript
    """

    session_id: str
    event_id: str | None
    records: int
    cited: tuple[str, ...]
    found: Scan


def source_of(delivery: Delivery) -> Source | None:
    """Return what a delivery asks to record; None if it has no transcript or nothing ended. What
    was said after a compaction is a later window's. After an end or a stop, the client may write
    most of the turn behind the hook's back, so the transcript is read to where it ends by now.
    """
    if delivery.event in _MID_TURN:
        return None
    if delivery.transcript_path:
        path = Path(delivery.transcript_path).expanduser()
    elif found := find_transcript(
        delivery.agent_id if delivery.event == "SubagentStop" else delivery.session_id
    ):
        path = found
    else:
        return None
    if is_export(path):  # it says itself whose session it is
        return Source(path, delivery.event, None, reason=delivery.reason)
    limit = (
        None
        if delivery.event in {"SessionEnd", "SubagentStop", *STOPS}
        else delivery.transcript_bytes
    )
    return Source(
        path, delivery.event, limit, delivery.session_id, delivery.agent_id, delivery.reason
    )


def find_transcript(session_id: str | None) -> Path | None:
    """Return the newest transcript of a session that is named by its id, where Claude Code, Codex
    CLI, Copilot CLI and pi keep theirs; None for one that left no file there.
    """
    if not session_id or _ID.fullmatch(session_id) is None:
        return None
    try:
        codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        copilot = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
        pi = Path(os.environ.get("PI_CODING_AGENT_DIR") or Path.home() / ".pi/agent")
        found = [*Path(agent_folder()).expanduser().glob(f"projects/*/{session_id}.jsonl")]
        found += sorted(pi.glob(f"sessions/*/*_{session_id}.jsonl"))
        found += sorted(codex.glob(f"archived_sessions/rollout-*-{session_id}.jsonl"))
        found += sorted(codex.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"))
        found += copilot.glob(f"session-state/{session_id}/events.jsonl")
    except (OSError, RuntimeError):
        return None
    return found[-1] if found else None


def _read(source: Source, place: Place | None) -> Scan:
    """Scan a source from a place on if the record that the place names is there; else all of it."""
    if place is not None:
        found = scan(source.path, source.limit, start=place.offset)
        if found.places[:1] == [place._replace(passed=0)]:
            return found
    return scan(source.path, source.limit)


def _place(ledger: Ledger, source: Source) -> tuple[list[Event], Place] | None:
    """Return the windows of a source's session, and where the reading of its next one can begin;
    None for the start.
    """
    session_id, agent_id = safe_id(source.session_id), safe_id(source.agent_id)
    line = last_line(ledger, session_id, agent_id) if session_id else []
    try:
        transcript = transcript_of(line[-1]) if line else {}
        if transcript.get("path") != _text(str(source.path)):
            return None
        place = transcript["resume"]
        return line, Place(
            int(place["offset"]), unpack_keys(place["record"])[0], int(place["passed"])
        )
    except (UnknownTranscript, LookupError, TypeError, ValueError):
        return None


def take_in(
    ledger: Ledger,
    source: Source,
    *,
    window: WindowMode = "new",
    found: Scan | None = None,
    beside: Collection[str] | None = None,
) -> Taken:
    """Record the source's window in the ledger, with what it cites and what it was told.

    What may be new to the ledger is read, from where the session's last window says; `found` is a
    scan of the source for another ledger, which is used where it holds as much. `beside` are the
    names that mean a bullet of another playbook, which the agent got as well; None where it got no
    other. A window that says nothing of a playbook beside another is left out; its records stay
    new. Raises OSError, UnknownTranscript for what is not a transcript, and LedgerError.
    """
    try:
        return _take_in(ledger, source, window, beside, found)
    # another machine recorded the same window a moment ago, and its records are seen by now
    except Conflict:
        return _take_in(ledger, source, window, beside, found)


def _take_in(
    ledger: Ledger,
    source: Source,
    window: WindowMode,
    beside: Collection[str] | None,
    found: Scan | None,
) -> Taken:
    known = _place(ledger, source) if window == "new" else None
    if found is None or (found.start and (known is None or found.start != known[1].offset)):
        found = _read(source, known[1] if known else None)
    found.agent = source.agent or found.agent
    session_id = safe_id(source.session_id or found.session_id) or f"unknown-{found.sha256[:16]}"
    seen = ledger.seen(found.keys)
    before: list[Event] = []
    passed = 0
    if found.start and known:
        before, passed = known[0], known[1].passed
        others = set(seen)
        for earlier_one in reversed(before):
            others.difference_update(keys_of(earlier_one) if others else ())
        if others:  # records of another session
            return _take_in(ledger, source, window, beside, _read(source, None))
    agent_id = (
        (before[-1].data or {})["agent_id"]
        if found.start
        else safe_id(source.agent_id or found.agent_id)
    )
    nothing = Taken(session_id, None, 0, (), found)
    keys, copies = list(found.keys), _Copies()
    if window == "new":
        copies = _copies(ledger, found, seen)
        keys = [key for key in keys if key not in seen and key not in copies.keys]
        keys = _without_answers(source, found, session_id, agent_id, keys)
    copied = _copied_event(ledger, copies, found, session_id, agent_id) if beside is None else []
    if not keys:
        ledger.append(copied)
        return nothing
    if not found.start and seen:
        before = last_line(ledger, session_id, agent_id, seen)
    packed, own = pack_keys(keys), frozenset(keys)
    course = _Course(found, own, before, passed)
    names = list(dict.fromkeys(name for key, of in found.cited if key in own for name in of))
    earlier = course.carried(before) if window == "new" else []
    told, said_by = _told(ledger, source, found, session_id, own)
    asks = names or earlier or told
    rows = (
        {row.name: row for row in ledger.rows() if row.name not in (beside or ())} if asks else {}
    )
    split = _split(names, rows)
    carried = _split(earlier, rows)["cited"]
    if beside is not None:
        told = [one for one in told if any(name in rows for name in one.bullets)]
        if not (split["cited"] or split["retired"] or carried or told):
            return nothing
    event = NewEvent(
        ev.SESSION_RECORDED,
        identity(
            ev.SESSION_RECORDED, found.agent, session_id, agent_id or "", window, _sha(packed)
        ),
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
                **({"since": found.start, "passed": passed} if found.start else {}),
                **({"resume": resume} if window == "new" and (resume := course.resume()) else {}),
            },
            "window": {
                "mode": window,
                "first": (before[0].data or {})["window"]["first"]
                if found.start
                else _text(found.first_uuid),
                "last": _text(found.last_uuid),
                "records": len(keys),
                "at": course.at,
                "keys": packed,
                **(
                    {"twins": pack_keys(twins)}
                    if (twins := [twin for key, twin in found.twins if key in own])
                    else {}
                ),
                "after": before[-1].event_id if before else None,
            },
            **split,
            "carried": carried,
            **({"said": said} if (said := _said_wrong(found, own, split["cited"])) else {}),
            "unread": _unread(
                found.tally, Counter(tag or QUEUED for key, tag in found.nobodys if key in own)
            ),
        },
        actor=source.trigger if source.trigger == "ingest" else f"hook:{clean(source.trigger, 40)}",
        occurred_at=iso_time(found.ended_at),
        session_id=session_id,
    )
    # of the whole transcript, under another path or trigger perhaps
    if ledger.event(event.event_id) is not None:
        return nothing
    tellings = [
        told_at_start(
            event,
            one.digest,
            bullets=[name for name in one.bullets if name in rows],
            lessons=lessons_beginning(ledger, one.lessons),
            source=said_by,
            seed=one.seed,
        )
        for one in told
    ]
    came = []
    if agent_id is None and window == "new":
        root = _root(ledger, source, found, session_id, seen, copies)
        came.append(_outcome(source, found, own, event, root, answered=bool(before)))
    appended, *_ = ledger.append([event, *tellings, *came, *copied])
    if not appended.added:
        return nothing
    return Taken(session_id, appended.event_id, len(keys), tuple(split["cited"]), found)


def _without_answers(
    source: Source, found: Scan, session_id: str, agent_id: str | None, keys: list[int]
) -> list[int]:
    """Return the new records without the answer that was added from the session's stop and came
    afterwards.
    """
    given = (
        answers.kept(source.project, session_id, agent_id) if keys and source.agent is None else ()
    )
    if not given:
        return keys
    new, late = frozenset(keys), set()
    messages = found.messages or read_messages(source.path, limit=found.bytes, start=found.start)
    for message in messages:
        if message.key not in new or message.origin != "model" or not message.text.strip():
            continue
        if not any(answers.is_part(message.text, answer) for answer in given):
            break
        late.add(message.key)
    return [key for key in keys if key not in late]


class _Copies(NamedTuple):
    """The records with which a session begins and that another one has under other ids.

    window  the first window of the other session; None without copies
    """

    keys: frozenset[int] = frozenset()
    window: Event | None = None


def _copies(ledger: Ledger, found: Scan, seen: Collection[int]) -> _Copies:
    """Return the copies that a transcript begins with: a fork copies a conversation from its
    beginning.

    One message alone is not a copy, because two sessions that are started at once may be asked the
    same at the same time. What stands between copied messages was copied with them.
    """
    fresh = [(key, twin) for key, twin in found.twins if key not in seen]
    known = (
        ledger.seen([twin for _, twin in fresh[:_FEWEST_COPIES]])
        if len(fresh) >= _FEWEST_COPIES
        else ()
    )
    if len(known) < _FEWEST_COPIES:
        return _Copies()
    known = ledger.seen([twin for _, twin in fresh])
    run = list(takewhile(lambda pair: pair[1] in known, fresh))
    last = found.keys.index(run[-1][0])
    holders = (
        one for one in ledger.events(types=(ev.SESSION_RECORDED,)) if run[0][1] in twins_of(one)
    )
    return _Copies(frozenset(found.keys[: last + 1]).difference(seen), next(holders, None))


def _copied_event(
    ledger: Ledger, copies: _Copies, found: Scan, session_id: str, agent_id: str | None
) -> list[NewEvent]:
    """Return what records that a session begins with copies, unless it is recorded."""
    of = (copies.window.session_id if copies.window else None) or ""
    if copies.window is None or of == session_id:  # a client may write its own session anew
        return []
    event_id = identity(
        ev.SESSION_COPIED, found.agent, session_id, agent_id or "", copies.window.event_id
    )
    if ledger.event(event_id) is not None:
        return []
    data = {"of": of, "records": len(copies.keys)}
    return [
        NewEvent(
            ev.SESSION_COPIED,
            event_id,
            data,
            "intake",
            None,
            session_id,
            target_id=copies.window.event_id,
        )
    ]


class _Course:
    """The places of a scan's citations in their session: how many of its messages come before each.

    at  that of the first new record
    """

    def __init__(
        self, found: Scan, own: frozenset[int], before: Sequence[Event], passed: int
    ) -> None:
        self._places = found.places
        if found.start or found.keys[0] in own:
            self._shift = passed
        else:  # behind the records of a fork's original
            line = own.union(*map(keys_of, before))
            self._shift = -next(place for place, key in enumerate(found.keys) if key in line)
        self._end = self._shift + len(found.keys)
        self.at = self._shift + next(place for place, key in enumerate(found.keys) if key in own)
        citing = dict(found.cited)
        mine = own.intersection(citing).union(
            *(citing.keys() & set(keys_of(event)) for event in before)
        )
        self._cited = [
            (self._shift + place, key in own, citing[key])
            for place, key in enumerate(found.keys)
            if key in mine
        ]

    def carried(self, before: Sequence[Event]) -> list[str]:
        """Names that earlier windows cite and that are still followed, in order of their
        citation.
        """
        known = {name for event in before for name in (event.data or {}).get("cited", ())}
        followed = (
            names
            for place, is_new, names in self._cited
            if not is_new and place >= self.at - FOLLOWED
        )
        return list(dict.fromkeys(name for names in followed for name in names if name in known))

    def resume(self) -> dict[str, Any] | None:
        """Return where the next reading can begin: `BEFORE` records before the oldest citation that
        is still followed, else before the end. None for the start of the file.
        """
        followed = (place for place, _, _ in self._cited if place >= self._end - FOLLOWED)
        wanted = min(followed, default=self._end) - BEFORE - self._shift
        place = next((one for one in reversed(self._places) if one.passed <= wanted), None)
        if place is None or not place.offset:
            return None
        return {
            "offset": place.offset,
            "record": pack_keys([place.key]),
            "passed": place.passed + self._shift,
        }


def _told(
    ledger: Ledger, source: Source, found: Scan, session_id: str, keys: frozenset[int]
) -> tuple[list[Telling], str]:
    """Return what the records with these keys were told, each text once, and who says so: a
    transcript that has an echo of the hook's output of the whole session, else the hook.
    """
    if found.told:
        told = {one.digest: one for key, one in found.told if key in keys}
        return list(told.values())[:_MOST_TELLINGS], "transcript"
    own_id = source.session_id or found.session_id
    if not own_id or found.agent_id or found.answered not in keys:
        return [], "hook"
    printed = told_by_hook(source.project, own_id)
    events = [
        event.data or {}
        for event in ledger.events(session_id=session_id, types=(ev.ADVICE_TOLD,))
        if printed
    ]
    if any(data.get("source") == "transcript" for data in events):
        return [], "hook"  # the echo is in what was read before
    known = {data.get("digest") for data in events}
    return [one for one in printed if one.digest not in known][:_MOST_TELLINGS], "hook"


def _outcome(
    source: Source,
    found: Scan,
    keys: frozenset[int],
    event: NewEvent,
    root: str | None,
    *,
    answered: bool,
) -> NewEvent:
    """Return what came of the records with these keys; of a large transcript they are read once
    more.
    """
    messages = found.messages or read_messages(source.path, limit=found.bytes, start=found.start)
    came = read_outcome((one for one in messages if one.key in keys), answered=answered)
    came.began, came.ended = iso_time(came.began), iso_time(came.ended)
    return outcome_event(event, root, came)


def _root(
    ledger: Ledger,
    source: Source,
    found: Scan,
    session_id: str,
    seen: Collection[int],
    copies: _Copies,
) -> str | None:
    """Return the session in which a conversation began: its own or, of a fork, its original's,
    where that is known.
    """
    known = next(ledger.events(session_id=session_id, types=(ev.SESSION_OUTCOME,)), None)
    if known is not None:
        return (known.data or {}).get("root")
    if not found.start and (copies.window or found.keys[0] in seen):
        windows = ledger.events(types=(ev.SESSION_RECORDED,))
        original = copies.window or next(
            (one for one in windows if found.keys[0] in keys_of(one)), None
        )
        of = original.session_id if original else None
        outcome = (
            next(ledger.events(session_id=of, types=(ev.SESSION_OUTCOME,)), None) if of else None
        )
        if of != session_id and (root := (outcome.data or {}).get("root") if outcome else of):
            return str(root)
    return None if is_fork(source.project, session_id) else session_id


def _split(names: Sequence[str], rows: dict[str, BulletRow]) -> dict[str, list[str]]:
    """Cited names by what they are in this playbook: live (or merged into one that is), retired
    or unknown.
    """
    live = [name for name in names if name in rows and rows[name].counts]
    retired = [name for name in names if name in rows and not rows[name].counts]
    unknown = [name[:64] for name in names if name not in rows]
    return {"cited": live, "retired": retired, "unknown": unknown[:1000]}


def _said_wrong(found: Scan, keys: frozenset[int], cited: Sequence[str]) -> list[dict[str, str]]:
    """Return which of the cited bullets the agent called wrong in these records, and why."""
    wrong = {name: why for key, said in found.wrong if key in keys for name, why in said.items()}
    return [{"name": name, "why": quote(wrong[name], _MAX_WHY)} for name in cited if name in wrong]


def _unread(tally: Tally, nobodys: Mapping[str, int]) -> dict[str, Any]:
    """Return what the reader did not understand, only where there was something: a drift of the
    format shows here.

    nobodys  how many messages of unknown speakers stand in each tag
    """
    names = ("duplicates", "glued", "malformed", "oversized", "unfinished_bytes")
    named = {"unknown_types": tally.unknown_types, "unknown_tags": nobodys}
    counted = {name: getattr(tally, name) for name in names}
    for name, of in named.items():
        counted[name] = {quote(key, 60): count for key, count in sorted(of.items())[:50]}
    return {name: value for name, value in counted.items() if value}


def safe_id(value: str | None) -> str | None:
    """Return an id from outside, fit for the ledger: as it is when it is short and plain, else a
    digest of it.
    """
    if not value:
        return None
    is_fit = len(value) <= _MAX_ID and value.isprintable() and value == _text(value)
    return value if is_fit else f"invalid-{_sha(value)[:32]}"


def _text(value: str) -> str:
    """Text that every engine stores: lone surrogates replaced, NUL and newlines out, bounded."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "").replace("\n", " ")[:1000]


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def iso_time(stamp: str | None) -> str | None:
    """Return a time that is ISO 8601, None for any other text: an event keeps it for ever."""
    is_plain = (
        stamp and stamp.isascii() and stamp.isprintable() and len(stamp) <= 40 and stamp[4:5] == "-"
    )
    return stamp if is_plain and time_of(stamp) else None
