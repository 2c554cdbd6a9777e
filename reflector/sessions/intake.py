"""Records a session: makes one `session.recorded` from a transcript.

Invariant: a record of a transcript is recorded once. The window of an intake is the records that no
earlier window of the playbook contains, whatever file, session id or hook brings them, and even if
a fork copied them under other ids. If there are no new records, only the fact that copies were
found is appended. So a compaction, a subagent's stop, a session's end and an import of history do
not count one citation four times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflector.counts.rules import PartCounts, RuleSet
from reflector.embed.lessons.recording import lessons_beginning, told_at_start
from reflector.events import event as ev
from reflector.events.event import MODEL, Event, NewEvent, identity, time_of
from reflector.events.fields import pack_keys, unpack_keys
from reflector.events.sessions import QUEUED
from reflector.files import expanded
from reflector.handover import STOPS
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.reflection.window import (
    keys_of,
    transcript_of,
    twins_of,
    window_names,
    windows_to_continue,
)
from reflector.sessions import answers
from reflector.sessions.counted import counted_event
from reflector.sessions.injection import is_fork, told_by_hook
from reflector.sessions.loaded import LoadedRules, is_from_file
from reflector.sessions.opencode_store import is_export
from reflector.sessions.spool import Delivery
from reflector.text.bounds import clean
from reflector.text.lazy import lazy_pattern
from reflector.text.secrets import quote
from reflector.transcripts.citations import BEFORE, FOLLOWED
from reflector.transcripts.heads import is_whole
from reflector.transcripts.message import Message
from reflector.transcripts.readers import transcripts_of
from reflector.transcripts.reading import Place, Scan, UnknownTranscript, read_messages, scan
from reflector.transcripts.tellings import Telling
from reflector.trials.outcome import outcome_event, read_outcome

WindowMode = Literal["new", "whole"]
_MAX_ID_CHARACTERS = 200
_MAX_REASON_CHARACTERS = 200
#: If a hook names no transcript, only a file with the exact id of the session in its name is used.
_ID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Times in a form that every engine and reader accepts.
_PLAIN_TIME = lazy_pattern(r"[ -~]{4}-[ -~]{0,35}")
#: The most texts that one window was shown: at a start, and at each resume and compaction without
#: a window between them.
_MOST_TELLINGS = 100
#: Messages that two sessions have in common were copied if there are at least this many.
_FEWEST_COPIES = 2
_PAST_TYPES = (ev.SESSION_RECORDED, ev.SESSION_COPIED, ev.ADVICE_TOLD, ev.SESSION_OUTCOME)
#: The counts of a reader's tally that an event keeps.
_UNREAD = ("duplicates", "glued", "malformed", "oversized", "unfinished_bytes")
#: Events that do not end a window: those in the middle of a turn (the Before… and After… of Gemini
#: CLI), and starts, which a hook keeps if it could not read them. PreCompress comes before every
#: request, whether or not it compresses.
_MID_TURN = frozenset(
    """
    SessionStart SubagentStart UserPromptSubmit UserPromptExpansion PreToolUse PermissionRequest
    PermissionDenied PostToolUse PostToolUseFailure PostToolBatch Notification MessageDisplay
    TaskCreated TaskCompleted BeforeAgent BeforeModel AfterModel BeforeToolSelection BeforeTool
    AfterTool PreCompress
    """.split()
)


class Source(NamedTuple):
    """A transcript to record, and how it arrived.

    limit    the number of bytes to read, None for all; later bytes belong to a later window
    project  the project with the notes of its start hook: the printed texts, and the sessions that
             began as forks
    agent    the agent of the session, if the transcript is one of ours
    """

    path: Path
    trigger: str
    limit: int | None = None
    session_id: str | None = None
    agent_id: str | None = None
    reason: str | None = None
    project: Path | None = None
    agent: str | None = None


class Taken(NamedTuple):
    """The window that an intake recorded. `event_id` is None if no record was new."""

    session_id: str
    event_id: str | None
    records: int
    cited: tuple[str, ...]
    scan: Scan


def source_of(delivery: Delivery) -> Source | None:
    """Return the source of a delivery; None if it has no transcript or nothing ended.

    Records after a compaction belong to a later window. After an end or a Stop, the transcript is
    read to its present end, because the client may write most of the turn after the hook.
    """
    event = delivery.event
    if event in _MID_TURN:
        return None
    if delivery.transcript_path:
        path: Path | None = Path(expanded(delivery.transcript_path))
    else:
        is_subagents = event == "SubagentStop"
        path = find_transcript(delivery.agent_id if is_subagents else delivery.session_id)
    if path is None:
        return None
    if is_export(path):  # the file names its session
        return Source(path, event, None, reason=delivery.reason)
    is_end = event in {"SessionEnd", "SubagentStop", *STOPS}
    limit = None if is_end else delivery.transcript_bytes
    return Source(path, event, limit, delivery.session_id, delivery.agent_id, delivery.reason)


def find_transcript(session_id: str | None) -> Path | None:
    """Return the newest transcript whose name has the session's id, in the agents' folders; None if
    no file has it.
    """
    is_id = session_id is not None and _ID.fullmatch(session_id) is not None
    paths = transcripts_of(str(session_id)) if is_id else ()
    with suppress(OSError):
        return max(paths, key=lambda path: path.stat().st_mtime, default=None)
    return None


def take_in(
    ledger: Ledger,
    source: Source,
    *,
    window: WindowMode = "new",
    scanned: Scan | None = None,
    projects_names: Collection[str] | None = None,
    rules: RuleSet | None = None,
    loaded: LoadedRules | None = None,
) -> Taken:
    """Record the source's window in the ledger, with the bullets that it cites and the texts that
    its session was shown.

    window   "new" for the records that no window contains, "whole" for all of them
    scanned  a scan of the source for another ledger, used if it begins early enough for this one
    projects_names  the names of the project's bullets if the ledger is that of the user's own
             playbook, else None. These names do not mean the user's bullets. A window that does not
             concern the user's bullets is not recorded, and its records stay new
    rules    the rules that are counted in it; None for no count
    loaded   the rules in files, which its session was shown if they were there at its start

    Raises:
        OSError, UnknownTranscript: the file cannot be read, or is not a transcript
        LedgerError: the window cannot be appended
    """
    record = partial(_record, ledger, source, window, scanned, projects_names, rules, loaded)
    try:
        return record()
    except Conflict:
        # Another machine has just recorded the same window, so its records are now known.
        return record()


def _record(
    ledger: Ledger,
    source: Source,
    mode: WindowMode,
    scanned: Scan | None,
    projects_names: Collection[str] | None,
    rules: RuleSet | None,
    loaded: LoadedRules | None,
) -> Taken:
    """Record the source's window, as `take_in` describes it. Nothing is recorded if no record is
    new, or if the window does not concern this playbook. An outcome is recorded only for the main
    conversation, and only once for each record.
    """
    reading = _read_source(ledger, source, mode, scanned)
    nothing_new = Taken(reading.session_id, None, 0, (), reading.scan)
    # The user's own playbook has only windows with its bullets, so it does not record copies.
    copied = _copied_event(reading) if projects_names is None else []
    if not reading.keys:
        if copied:
            ledger.append(copied)
        return nothing_new

    course = _Course(reading)
    carried = course.carried() if mode == "new" else []
    mentions = _mentions(ledger, source, reading, carried, projects_names)
    if projects_names is not None and not mentions.concern_this_playbook:
        return nothing_new

    recorded = _recorded_event(source, reading, course, mentions, mode)
    if reading.past.has(recorded.event_id):
        return nothing_new  # the whole file was recorded under another path or by another trigger

    events = [recorded, *_telling_events(ledger, reading, recorded, mentions)]
    if reading.agent_id is None and mode == "new":
        events += _result_events(ledger, source, reading, recorded, rules)
        if loaded is not None and reading.scan.answered is not None:
            events += _loaded_events(reading, loaded, events)
    first, *_ = ledger.append([*events, *copied])
    if not first.added:
        return nothing_new
    cited = tuple(mentions.by_kind["cited"])
    return Taken(reading.session_id, first.event_id, len(reading.keys), cited, reading.scan)


@dataclass
class _Past:
    """The recorded events of a session that an intake needs, read once; none without an id."""

    _ledger: Ledger
    session_id: str | None

    @cached_property
    def _events(self) -> list[Event]:
        if self.session_id is None:
            return []
        return list(self._ledger.events(session_id=self.session_id, types=_PAST_TYPES))

    def has(self, event_id: str) -> bool:
        return any(event.event_id == event_id for event in self._events)

    def of_type(self, type_: str) -> list[Event]:
        return [event for event in self._events if event.type == type_]


@dataclass(frozen=True)
class _Reading:
    """A scan of a transcript, compared with the ledger's windows of its session.

    earlier_windows  the windows of the session that the new one continues, oldest first
    passed           the number of records of the session before the scan
    keys             the keys of the new window's records
    seen             the keys of the scan that a window of the playbook already contains
    """

    scan: Scan
    past: _Past
    session_id: str
    agent_id: str | None
    earlier_windows: Sequence[Event]
    passed: int
    keys: Sequence[int]
    seen: set[int]
    copies: _Copies

    @cached_property
    def new_keys(self) -> frozenset[int]:
        return frozenset(self.keys)


def _read_source(
    ledger: Ledger, source: Source, mode: WindowMode, scanned: Scan | None
) -> _Reading:
    """Read a source from the place in its session's last window, else from the start."""
    past = _Past(ledger, safe_id(source.session_id))
    earlier_windows: list[Event] = []
    if mode == "new":
        earlier_windows = windows_to_continue(
            past.of_type(ev.SESSION_RECORDED), safe_id(source.agent_id)
        )
    place = _place_after(earlier_windows, source)
    scan, seen = _scan_after(ledger, source, earlier_windows, place, scanned)
    scan.agent = source.agent or scan.agent

    session_id = safe_id(source.session_id or scan.session_id) or f"unknown-{scan.sha256[:16]}"
    if past.session_id != session_id:
        past = _Past(ledger, session_id)
    if scan.start and place is not None:
        agent_id = earlier_windows[-1].facts["agent_id"]
        passed = place.passed
    else:
        agent_id = safe_id(source.agent_id or scan.agent_id)
        passed = 0
        earlier_windows = (
            windows_to_continue(past.of_type(ev.SESSION_RECORDED), agent_id, seen) if seen else []
        )
    copies = _Copies()
    if mode == "new":
        copies = _copies(ledger, scan, seen)
        known = seen | copies.keys
        fresh = [key for key in scan.keys if key not in known]
        keys = _without_recorded_answers(source, scan, session_id, agent_id, fresh)
    else:
        keys = list(scan.keys)
    return _Reading(scan, past, session_id, agent_id, earlier_windows, passed, keys, seen, copies)


def _scan_after(
    ledger: Ledger,
    source: Source,
    earlier_windows: Sequence[Event],
    place: Place | None,
    scanned: Scan | None,
) -> tuple[Scan, set[int]]:
    """Return a scan of the records after some windows, and its keys that windows contain."""
    start = place.offset if place else 0
    # A scan from the start of the file also contains the later records.
    if scanned is None or scanned.start not in (0, start):
        scanned = _scan_from(source, place)
    seen = ledger.seen(scanned.keys)
    if not scanned.start or not seen.difference(*map(keys_of, earlier_windows)):
        return scanned, seen
    # Some records belong to another session. Only the whole file shows the beginning of this one.
    scanned = _scan_from(source, None)
    return scanned, ledger.seen(scanned.keys)


def _place_after(earlier_windows: Sequence[Event], source: Source) -> Place | None:
    """Return the place after some windows at which the next reading can begin; None for the start
    of the file.
    """
    try:
        transcript = transcript_of(earlier_windows[-1])
        if transcript.get("path") != _text(str(source.path)):
            return None
        place = transcript["resume"]
        key = unpack_keys(place["record"])[0]
        return Place(int(place["offset"]), key, int(place["passed"]))
    except (UnknownTranscript, LookupError, TypeError, ValueError):
        return None


def _scan_from(source: Source, place: Place | None) -> Scan:
    """Scan a source from a place if the record of that place is there, else all of it."""
    if place is not None:
        resumed = scan(source.path, source.limit, start=place.offset)
        if resumed.places[:1] == [place._replace(passed=0)]:
            return resumed
    return scan(source.path, source.limit)


def _messages(source: Source, scan: Scan) -> Iterable[Message]:
    """Return the messages of a scan; those of a large transcript are read again."""
    if scan.messages:
        return scan.messages
    return read_messages(source.path, limit=scan.bytes, start=scan.start, keeps_whole=True)


def _without_recorded_answers(
    source: Source, scan: Scan, session_id: str, agent_id: str | None, keys: list[int]
) -> list[int]:
    """Return the new records without those of answers that are recorded already.

    If a session ends before its transcript has the last answer, the answer is recorded from the
    session's Stop (`answers`). The client may write it into the transcript later.
    """
    is_recorded_from_stop = source.agent is not None
    if not keys or is_recorded_from_stop:
        return keys
    recorded = answers.kept_answers(source.project, session_id, agent_id)
    if not recorded:
        return keys
    new_keys = frozenset(keys)
    repeating = set[int]()
    for message in _messages(source, scan):
        is_speech = message.origin == "model" and message.text.strip()
        if message.key not in new_keys or not is_speech:
            continue
        if not any(answers.is_part(message.text, answer) for answer in recorded):
            break  # a newer answer; answers after it may have the same words by chance
        repeating.add(message.key)
    return [key for key in keys if key not in repeating]


class _Copies(NamedTuple):
    """The records at the beginning of a session that another session has under other ids.

    window  the first window of the other session; None without copies
    """

    keys: frozenset[int] = frozenset()
    window: Event | None = None


def _copies(ledger: Ledger, scan: Scan, seen: Collection[int]) -> _Copies:
    """Return the copied records at the beginning of a transcript, because a fork copies a
    conversation from its beginning.

    One message alone is not a copy, because two sessions that start at once may get the same
    question. The records between copied messages were copied with them.
    """
    fresh = [(key, twin) for key, twin in scan.twins if key not in seen]
    if len(fresh) < _FEWEST_COPIES:
        return _Copies()
    # Most transcripts are not forks, so a few records are looked up first.
    known = ledger.seen([twin for _, twin in fresh[:_FEWEST_COPIES]])
    if len(known) < _FEWEST_COPIES:
        return _Copies()
    known = ledger.seen([twin for _, twin in fresh])
    copied = list(takewhile(lambda pair: pair[1] in known, fresh))
    first_twin = copied[0][1]
    last_key = copied[-1][0]
    end = scan.keys.index(last_key) + 1
    windows = ledger.events(types=(ev.SESSION_RECORDED,))
    holder = next((window for window in windows if first_twin in twins_of(window)), None)
    return _Copies(frozenset(scan.keys[:end]).difference(seen), holder)


def _copied_event(reading: _Reading) -> list[NewEvent]:
    """Return the event that a session begins with copies; [] if it does not, or has the event."""
    window = reading.copies.window
    session_id = reading.session_id
    original_id = (window.session_id if window else None) or ""
    if window is None or original_id == session_id:  # a client may write its own session again
        return []
    whose = (reading.scan.agent, session_id, reading.agent_id or "")
    event_id = identity(ev.SESSION_COPIED, *whose, window.event_id)
    if reading.past.has(event_id):
        return []
    data = {"of": original_id, "records": len(reading.copies.keys)}
    target_id = window.event_id
    return [
        NewEvent(ev.SESSION_COPIED, event_id, data, "intake", None, session_id, target_id=target_id)
    ]


class _Cited(NamedTuple):
    """A record that cites bullets: its place in the session, and whether the window has it."""

    place: int
    is_new: bool
    names: tuple[str, ...]


class _Course:
    """The places of a scan's citations in their session: the number of messages before each.

    at  the place of the first new record
    """

    def __init__(self, reading: _Reading) -> None:
        scan = reading.scan
        new_keys = reading.new_keys
        session_keys = new_keys.union(*map(keys_of, reading.earlier_windows))
        # Added to a place in the scan, this gives the place in the session. It is negative if the
        # scan begins with the copies of a fork's original.
        shift = reading.passed if scan.start else -_first_place(scan.keys, session_keys)
        self._earlier_windows = reading.earlier_windows
        self._places = scan.places
        self._shift = shift
        self._end = shift + len(scan.keys)
        self.at = shift + _first_place(scan.keys, new_keys)
        names_by_key = dict(scan.cited)
        citing = session_keys & names_by_key.keys()
        self._cited = [
            _Cited(shift + place, key in new_keys, names_by_key[key])
            for place, key in enumerate(scan.keys)
            if key in citing
        ]

    def carried(self) -> list[str]:
        """Return the names that earlier windows cite and that are still followed, in order of
        citation.
        """
        known = {name for window in self._earlier_windows for name in window_names(window, "cited")}
        oldest = self.at - FOLLOWED
        names = dict[str, None]()
        for record in self._cited:
            if not record.is_new and record.place >= oldest:
                names.update(dict.fromkeys(record.names))
        return [name for name in names if name in known]

    def resume(self) -> dict[str, Any] | None:
        """Return the place at which the next reading can begin: `BEFORE` records before the oldest
        citation that is still followed, else before the end. None for the start of the file.
        """
        followed = (record.place for record in self._cited if record.place >= self._end - FOLLOWED)
        latest = min(followed, default=self._end) - BEFORE - self._shift
        early = (place for place in reversed(self._places) if place.passed <= latest)
        place = next(early, None)
        if place is None or not place.offset:
            return None
        return {
            "offset": place.offset,
            "record": pack_keys([place.key]),
            "passed": place.passed + self._shift,
        }


def _first_place(keys: Iterable[int], chosen: Collection[int]) -> int:
    return next(place for place, key in enumerate(keys) if key in chosen)


class _Mentions(NamedTuple):
    """The bullets that the new records of a session concern.

    by_kind      the names that they cite: cited (they count), retired, unknown
    carried      the names that earlier windows cite and that are still followed
    tellings     the texts with bullets of the playbook that the session was shown
    known_names  the names of this playbook's bullets, empty if they are not needed
    """

    by_kind: dict[str, list[str]]
    carried: list[str]
    tellings: list[Telling]
    known_names: Collection[str]

    @property
    def concern_this_playbook(self) -> bool:
        """Whether the window concerns this playbook, if it may concern another one instead."""
        cites = self.by_kind["cited"] or self.by_kind["retired"]
        return bool(cites or self.carried or self.tellings)


def _mentions(
    ledger: Ledger,
    source: Source,
    reading: _Reading,
    carried: list[str],
    projects_names: Collection[str] | None,
) -> _Mentions:
    """Return the bullets that the new records concern.

    projects_names  as for `take_in`
    """
    new_keys = reading.new_keys
    lists = (names for key, names in reading.scan.cited if key in new_keys)
    cited = list(dict.fromkeys(chain.from_iterable(lists)))
    tellings = _tellings(source, reading)
    rows: dict[str, BulletRow] = {}
    if cited or carried or tellings:  # most windows concern no bullet
        others = projects_names or ()
        rows = {row.name: row for row in ledger.rows() if row.name not in others}
    if projects_names is not None:
        names = rows.keys()
        tellings = [telling for telling in tellings if not names.isdisjoint(telling.bullets)]
    return _Mentions(_by_kind(cited, rows), _by_kind(carried, rows)["cited"], tellings, rows.keys())


def _by_kind(names: Sequence[str], rows: Mapping[str, BulletRow]) -> dict[str, list[str]]:
    """Return cited names by kind: live (or merged into a live bullet), retired or unknown."""
    by_kind: dict[str, list[str]] = {"cited": [], "retired": [], "unknown": []}
    for name in names:
        if name not in rows:
            by_kind["unknown"].append(name[:64])
        else:
            is_citable = rows[name].status in ("live", "merged")
            by_kind["cited" if is_citable else "retired"].append(name)
    del by_kind["unknown"][1000:]
    return by_kind


def _tellings(source: Source, reading: _Reading) -> list[Telling]:
    """Return the texts that the session was shown and that are not recorded, without duplicates.

    The transcript's echoes of the hook's output are used if there are any, else the hook's notes.
    """
    scan = reading.scan
    if not scan.told:
        return _noted_tellings(source, reading)[:_MOST_TELLINGS]
    echoes = {telling.digest: telling for key, telling in scan.told if key in reading.new_keys}
    return list(echoes.values())[:_MOST_TELLINGS]


def _noted_tellings(source: Source, reading: _Reading) -> list[Telling]:
    """Return the texts in the hook's notes on the session that are not recorded.

    The notes belong to the window with the agent's last answer; a subagent's window has none.
    """
    scan = reading.scan
    session_id = source.session_id or scan.session_id
    if not session_id or scan.agent_id or scan.answered not in reading.new_keys:
        return []
    tellings = reading.past.of_type(ev.ADVICE_TOLD)
    recorded = [event.facts for event in tellings if not is_from_file(event)]
    if any(facts.get("source") == "transcript" for facts in recorded):
        return []  # the echo is in records that were read before
    digests = {facts.get("digest") for facts in recorded}
    noted = told_by_hook(source.project, session_id)
    return [telling for telling in noted if telling.digest not in digests]


def _telling_events(
    ledger: Ledger, reading: _Reading, recorded: NewEvent, mentions: _Mentions
) -> list[NewEvent]:
    """Return the events that record which bullets and lessons the session was shown."""
    # The scan found the shown texts in the transcript, or the hook's notes name them.
    source = "transcript" if reading.scan.told else "hook"
    events = []
    for telling in mentions.tellings:
        names = [name for name in telling.bullets if name in mentions.known_names]
        lessons = lessons_beginning(ledger, telling.lessons)
        events.append(
            told_at_start(
                recorded,
                telling.digest,
                bullets=names,
                lessons=lessons,
                source=source,
                seed=telling.seed,
            )
        )
    return events


def _loaded_events(
    reading: _Reading, loaded: LoadedRules, new_events: Sequence[NewEvent]
) -> Iterator[NewEvent]:
    """Yield the event of the rules in files that the session was shown at its start.

    new_events  the events of the window, the window first
    """
    outcomes = [event.facts for event in reading.past.of_type(ev.SESSION_OUTCOME)]
    outcomes += [event.data for event in new_events if event.type == ev.SESSION_OUTCOME]
    starts = [time_of(facts.get("began")) for facts in outcomes]
    started = min(filter(None, starts), default=None)
    tellings = reading.past.of_type(ev.ADVICE_TOLD)
    telling = loaded.telling(new_events[0], str(reading.scan.agent), started, tellings)
    if telling is not None:
        yield telling


def _recorded_event(
    source: Source, reading: _Reading, course: _Course, mentions: _Mentions, mode: WindowMode
) -> NewEvent:
    """Return the event of a window: its session, its records, and the bullets that they cite."""
    scan = reading.scan
    earlier_windows = reading.earlier_windows
    trigger = clean(source.trigger, 40)
    reason = clean(source.reason, 80) if source.reason else None
    client = quote(scan.version, 40) or None
    packed = pack_keys(reading.keys)
    transcript: dict[str, Any] = {
        "path": _text(str(source.path)),
        "bytes": scan.bytes,
        "sha256": scan.sha256,
    }
    if scan.start:
        transcript |= {"since": scan.start, "passed": reading.passed}
    resume = course.resume() if mode == "new" else None
    if resume is not None:
        transcript["resume"] = resume
    first = _text(scan.first_uuid)
    if scan.start:  # a scan only starts after an earlier window
        first = earlier_windows[0].facts["window"]["first"]
    window = {
        "mode": mode,
        "first": first,
        "last": _text(scan.last_uuid),
        "records": len(reading.keys),
        "at": course.at,
        "keys": packed,
        "after": earlier_windows[-1].event_id if earlier_windows else None,
    }
    twins = [twin for key, twin in scan.twins if key in reading.new_keys]
    if twins:
        window["twins"] = pack_keys(twins)
    data: dict[str, Any] = {
        "agent": scan.agent,
        "agent_id": reading.agent_id,
        "client": client,
        "trigger": trigger,
        "reason": reason,
        "transcript": transcript,
        "window": window,
        **mentions.by_kind,
        "carried": mentions.carried,
        "unread": _unread(reading),
    }
    if wrong := _called_wrong(reading, mentions.by_kind["cited"]):
        data["said"] = wrong
    whose = (scan.agent, reading.session_id, reading.agent_id or "", mode)
    return NewEvent(
        ev.SESSION_RECORDED,
        identity(ev.SESSION_RECORDED, *whose, _sha(packed)),
        data,
        actor=trigger if trigger == "ingest" else f"hook:{trigger}",
        occurred_at=iso_time(scan.ended_at),
        session_id=reading.session_id,
        meta={MODEL: quote(scan.model, 80)} if scan.model else {},
    )


def _result_events(
    ledger: Ledger, source: Source, reading: _Reading, recorded: NewEvent, rules: RuleSet | None
) -> Iterator[NewEvent]:
    """Yield the event of the new records' outcome, and the event of the rules counted in them."""
    new_keys = reading.new_keys
    every = _messages(source, reading.scan)
    messages: Iterator[Message] = (message for message in every if message.key in new_keys)
    counts = PartCounts()
    if rules is not None:
        counts.is_whole = is_whole(source.path)
        counts.is_first = not reading.earlier_windows
        messages = rules.passing(messages, counts)
    outcome = read_outcome(messages, answered=bool(reading.earlier_windows))
    outcome.began = iso_time(outcome.began)
    outcome.ended = iso_time(outcome.ended)
    yield outcome_event(recorded, _root(ledger, source, reading), outcome)
    if rules is not None and rules.rules:
        yield counted_event(recorded, rules, counts)


def _root(ledger: Ledger, source: Source, reading: _Reading) -> str | None:
    """Return the session in which a conversation began: its own or, for a fork, its original's.
    None if that is not known.
    """
    session_id = reading.session_id
    if outcomes := reading.past.of_type(ev.SESSION_OUTCOME):
        return outcomes[0].facts.get("root")
    original_id = _original_of(ledger, reading)
    if original_id and original_id != session_id:
        outcomes = _Past(ledger, original_id).of_type(ev.SESSION_OUTCOME)
        root = outcomes[0].fact("root") if outcomes else original_id
        if root:
            return str(root)
    return None if is_fork(source.project, session_id) else session_id


def _original_of(ledger: Ledger, reading: _Reading) -> str | None:
    """Return the session that has the first record of a file; None if no session has it."""
    if reading.scan.start:
        return None
    window = reading.copies.window
    first_key = reading.scan.keys[0]
    if window is None and first_key in reading.seen:
        recorded = ledger.events(types=(ev.SESSION_RECORDED,))
        window = next((event for event in recorded if first_key in keys_of(event)), None)
    return window.session_id if window else None


def _called_wrong(reading: _Reading, cited: Sequence[str]) -> list[dict[str, str]]:
    """Return the cited bullets that the agent called wrong in the new records, with its reasons."""
    reasons: dict[str, str] = {}
    for key, reason_by_name in reading.scan.wrong:
        if key in reading.new_keys:
            reasons |= reason_by_name
    names = [name for name in cited if name in reasons]
    return [{"name": name, "why": quote(reasons[name], _MAX_REASON_CHARACTERS)} for name in names]


def _unread(reading: _Reading) -> dict[str, Any]:
    """Return the counts of the records that the reader did not understand, without zeros. They show
    a change of the format.
    """
    scan = reading.scan
    tags = [tag for key, tag in scan.nobodys if key in reading.new_keys]
    counts: dict[str, Any] = {name: getattr(scan.tally, name) for name in _UNREAD}
    by_kind = {
        "unknown_types": scan.tally.unknown_types,
        "unknown_tags": Counter(tag or QUEUED for tag in tags),
    }
    for kind, count_by_name in by_kind.items():
        first = sorted(count_by_name.items())[:50]
        counts[kind] = {quote(name, 60): count for name, count in first}
    return {name: count for name, count in counts.items() if count}


def safe_id(value: str | None) -> str | None:
    """Return an external id in a form that is safe for the ledger: unchanged if it is short and
    plain, else its digest.
    """
    if not value:
        return None
    is_fit = len(value) <= _MAX_ID_CHARACTERS and value.isprintable() and value == _text(value)
    return value if is_fit else f"invalid-{_sha(value)[:32]}"


def _text(value: str) -> str:
    """Return a text that every engine stores: bounded, without NUL, newline and lone surrogates."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "").replace("\n", " ")[:1000]


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def iso_time(stamp: str | None) -> str | None:
    """Return a time in ISO 8601. None for any other text, because an event keeps it permanently."""
    if not stamp or not _PLAIN_TIME.fullmatch(stamp):
        return None
    return stamp if time_of(stamp) else None
