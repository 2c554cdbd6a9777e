"""Recording the changes of watched files: the drain compares them at a session's start and end.

Invariant: every difference between two looks is recorded once, whenever the drain is killed, and
nothing is half written if the disk is full: the next drain compares again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reflector.events.event import MEMORY_CHANGED, NewEvent, drawn, identity, written
from reflector.events.memory import CHECKOUT, COMMIT, GIT, LOOK, MERGE, UNSEEN
from reflector.files import error_words, write_durably
from reflector.handover import PLACES, open_own, state_at
from reflector.ledger.append import prepare
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.memory.bytes import Versions, keep_bytes
from reflector.memory.calls import Content, Sitting, Transcript, sitting_of
from reflector.memory.files import Found, Scope, Table, Watched
from reflector.memory.git_changes import Move, Repository
from reflector.memory.lines import LineChange, line_change
from reflector.memory.looks import (
    Compared,
    Difference,
    Looks,
    Seen,
    compare,
    digest_in_ledger,
    plain_digest,
)
from reflector.memory.naming import Author, Evidence, Question, steps_of
from reflector.playbook_files.mirrors import without_section
from reflector.project import Project

ACTOR = "memory"
#: A transcript may be written a moment before the times that its records have.
_SLACK_S = 5.0
#: The last second that the ledger can write.
_LAST_S = 253_402_300_799.0
#: Returns the transcripts that were written since a time, in seconds since the epoch.
FindTranscripts = Callable[[float], Sequence[Transcript]]


@dataclass(slots=True)
class Changes:
    """The result of a comparison.

    recorded  the number of new events
    notes     one line for each file that could not be read
    """

    recorded: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class Recorder:
    """Where changes are recorded: the project's ledger, or the user's for the user's files.

    project      whose own folder keeps the looks and the bytes
    open_ledger  opens its ledger, if there is something to record
    root         of the project whose agents load the files
    """

    project: Project
    open_ledger: Callable[[], Ledger]
    root: Path
    scope: Scope

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of the recorder. Raises LedgerError."""
        return self.open_ledger()

    @cached_property
    def table(self) -> Table:
        """The files that agents load or write in the project."""
        return Table(self.root, self.scope)

    @cached_property
    def repository(self) -> Repository | None:
        """The repository of the files, None for those of the user."""
        repository = Repository(self.root) if self.scope == "project" else None
        return repository if repository is not None and repository.exists else None

    def moves(self, files: Sequence[str], reflog: int) -> list[Move]:
        """Return the moves of HEAD that change files, after a size of the reflog."""
        return self.repository.moves(files, reflog) if self.repository is not None else []

    def tracked(self, files: Collection[str]) -> set[str]:
        """Return the files that git tracks."""
        return self.repository.tracked(files) if self.repository is not None else set()


def record_changes(recorder: Recorder, find: FindTranscripts) -> Changes:
    """Compare the watched files with the last look and record the differences. The lock of the
    store's project must be held.
    """
    changes = Changes()
    looks = Looks.load(recorder.project)
    try:
        _finish(recorder, looks, changes)
        reflog = recorder.repository.reflog_size if recorder.repository else 0
        found = recorder.table.found
        gone = _gone(recorder.table, found, looks)
        compared = compare(found, gone, looks, str(recorder.root))
        seen = looks.seen.get(str(recorder.root))
        events = _events_of(recorder, compared, seen.reflog if seen else 0, find)
        looks.files.update(compared.looks)
        now = max((look.at for look in compared.looks.values()), default=_now())
        looks.keep_unread(found, now)
        looks.seen[str(recorder.root)] = Seen(seen.first if seen else now, now, reflog)
        looks.events = events
        looks.save(recorder.project)
        _finish(recorder, looks, changes)
    except (OSError, LedgerError, ValueError) as error:
        changes.notes.append(f"changes to memory files are not recorded yet: {error_words(error)}")
        return changes
    changes.notes += map(str, found.unwatched)
    return changes


def leave_places(root: Path, tables: Sequence[Table]) -> None:
    """Leave the states of the paths that the next start hook compares, if they can be written."""
    paths = dict.fromkeys(path for table in tables for path in table.places())
    lines = "".join(f"{state_at(path)}\t{path}\n" for path in paths if "\n" not in path) or "\n"
    with suppress(OSError):
        write_durably(open_own(str(root)), lines.encode("utf-8", "surrogateescape"), PLACES)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _finish(recorder: Recorder, looks: Looks, changes: Changes) -> None:
    """Append the events that wait. Raises OSError, LedgerError."""
    if looks.events:
        changes.recorded += append_new(recorder, looks.events, changes.notes)
        looks.events = []
        looks.save(recorder.project)


def append_new(recorder: Recorder, events: Sequence[NewEvent], notes: list[str]) -> int:
    """Append the events that the ledger does not have; return their number. One that it refuses is
    dropped with a note.

    Raises:
        OSError, LedgerError: nothing is appended.
    """
    recorded = {event.event_id for event in recorder.ledger.having([e.event_id for e in events])}
    sound = []
    for event in events:
        try:
            prepare(event)
        except (LedgerError, ValueError) as error:
            notes.append(f"a change of {event.data['file']!a} was not recorded: {error}")
        else:
            sound.append(event)
    new = [event for event in sound if event.event_id not in recorded]
    return sum(event.added for event in recorder.ledger.append(new)) if new else 0


def _gone(table: Table, found: Found, looks: Looks) -> list[Watched]:
    """Return the watched files of the last look that were not found, and may be gone."""
    refused = [Path(unwatched.file) for unwatched in found.unwatched]
    missing = [
        file
        for file in looks.files
        if file not in found.files and not any(map(Path(file).is_relative_to, refused))
    ]
    return list(filter(None, map(table.gone, missing)))


def _events_of(
    recorder: Recorder, compared: Compared, reflog: int, find: FindTranscripts
) -> list[NewEvent]:
    """Return the events of the differences, and keep the bytes. Raises OSError.

    reflog  the size of the reflog at the last look
    """
    for difference in compared.differences:
        if difference.content is not None:
            keep_bytes(recorder.project, difference.look.digest, difference.content)
    changed = [
        difference
        for difference in compared.differences
        if difference.before is not difference.look and not _is_mirrored(recorder, difference)
    ]
    if not changed:
        return []
    since = min(difference.before.at for difference in changed)
    files = [difference.watched.file for difference in changed]
    sittings = [sitting_of(path, recorder.table) for path in find(since - _SLACK_S)]
    records = _Records(
        [sitting for sitting in sittings if sitting.is_here or sitting.calls],
        recorder.moves(files, reflog),
        known_calls(recorder.ledger),
        recorder.tracked(files),
    )
    return [event for difference in changed for event in _steps(recorder, difference, records)]


def _is_mirrored(recorder: Recorder, difference: Difference) -> bool:
    """Return whether only the section with the playbook changed: that is no memory of an agent, and
    an edit of it becomes events of the playbook.
    """
    digest = difference.before.digest
    before = Versions(recorder.project).read(digest) if digest else b""
    after = difference.content or b""
    if before is None:
        return False
    return without_section(before) == without_section(after) and before != after


class _Records(NamedTuple):
    """Everything on record since the last look: sessions, moves of HEAD, the calls that the log has
    already, by their file, session and id, and the files that git tracks.
    """

    sittings: Sequence[Sitting]
    moves: Sequence[Move]
    known: Collection[tuple[str, str, str]]
    tracked: Collection[str]

    def evidence(self, file: str, question: Question) -> list[Evidence]:
        """Return the records that may explain a change of a file."""
        calls = [
            call
            for sitting in self.sittings
            for call in sitting.calls
            if call.watched.file == file and call.is_after(question.since)
        ]
        fresh = [call for call in calls if (file, call.session, call.id) not in self.known]
        contents = (question.before.bytes, question.after)
        moves = [move.with_line_ends(contents) for move in self.moves if move.file == file]
        return [*fresh, *moves]


def known_calls(ledger: Ledger) -> set[tuple[str, str, str]]:
    """Return the file, session and call of each recorded change by an agent."""
    recorded = (event.facts for event in ledger.events(types=[MEMORY_CHANGED]))
    return {(facts["file"], facts["session"], facts["call"]) for facts in recorded if facts}


def known_commits(ledger: Ledger) -> set[tuple[str, str]]:
    """Return the file and commit of each recorded commit."""
    recorded = (event.facts for event in ledger.events(types=[MEMORY_CHANGED]))
    return {(facts["file"], facts["commit"]) for facts in recorded if facts.get("source") == GIT}


def _steps(recorder: Recorder, difference: Difference, records: _Records) -> list[NewEvent]:
    """Return the events of one difference, oldest first. Raises OSError."""
    file = difference.watched.file
    digest = difference.before.digest
    kept = Versions(recorder.project).read(digest) if digest else None
    before = Content(kept, kept is not None or not digest)
    question = Question(before, difference.content, difference.before.at, difference.latest)
    evidence = records.evidence(file, question)
    is_tracked = file in records.tracked or any(move.file == file for move in records.moves)
    steps = steps_of(question, evidence, records.sittings)
    events: list[NewEvent] = []
    for number, step in enumerate(steps):
        if step.before is None and digest == plain_digest(step.after):
            continue
        if step.after is not None:
            keep_bytes(recorder.project, plain_digest(step.after), step.after)
        start = step.before or before
        time = min(step.time, difference.latest)
        change = NewChange(file, start, Content(step.after), step.author, time, LOOK)
        event = event_of(recorder, change, is_tracked=is_tracked, before_digest=digest)
        if event.data["source"] == GIT and _is_recorded(recorder, event, events):
            if step is not steps[-1] and steps[number + 1].before is not None:
                continue  # the log has this commit, and the next one follows
            author = Author(CHECKOUT, commit=step.author.commit)
            change = change._replace(before=before, author=author)
            event = event_of(recorder, change, is_tracked=is_tracked, before_digest=digest)
        events.append(event)
        before = Content(step.after)
        digest = plain_digest(step.after)
    return events


def _is_recorded(recorder: Recorder, event: NewEvent, new: Sequence[NewEvent]) -> bool:
    is_new = all(event.event_id != other.event_id for other in new)
    return not is_new or bool(recorder.ledger.having([event.event_id]))


class NewChange(NamedTuple):
    """A change of a watched file as an event has it.

    time    in seconds since the epoch
    source  look, transcript or git
    lines   the changed lines, None to compare the contents
    """

    file: str
    before: Content
    after: Content
    author: Author
    time: float
    source: str
    lines: LineChange | None = None

    @property
    def kind(self) -> str:
        if self.after == Content(None):
            return "deleted"
        return "created" if self.before == Content(None) else "edited"


def event_of(
    recorder: Recorder, change: NewChange, *, is_tracked: bool, before_digest: str = ""
) -> NewEvent:
    """Return the event of a change. Raises OSError.

    before_digest  plain, of a content before that is not kept
    """
    author = change.author
    is_gits = author.by in (COMMIT, MERGE)
    plain = [
        plain_digest(content.bytes) if content.is_known else UNSEEN
        for content in (change.before, change.after)
    ]
    if not change.before.is_known and before_digest:
        plain[0] = before_digest
    before, after = (
        digest_in_ledger(recorder.project, digest, is_tracked=is_tracked) for digest in plain
    )
    lines = change.lines
    if lines is None and change.before.is_known and change.after.is_known:
        lines = line_change(change.before.bytes, change.after.bytes)
    data = {
        "file": change.file,
        "kind": change.kind,
        "before": before,
        "after": after,
        **(lines or LineChange()).facts,
        "source": GIT if is_gits else change.source,
        **author._asdict(),
    }
    key = [change.file, author.commit]
    if not is_gits:
        key = [change.file, before, after, author.session, author.call or drawn()]
    return NewEvent(
        MEMORY_CHANGED,
        identity(MEMORY_CHANGED, *key),
        data,
        ACTOR,
        occurred_at=written(datetime.fromtimestamp(min(max(change.time, 0.0), _LAST_S), UTC)),
        session_id=author.session or None,
    )
