"""Records the changes of watched files: the drain compares them at a session's start and end.

Invariant: every difference between two looks is recorded once, even if the drain is killed. If the
disk is full, nothing is half written, and the next drain compares again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reflector.events.event import MEMORY_CHANGED, NewEvent
from reflector.events.memory import CHECKOUT, GIT, LOOK
from reflector.ledger.append import prepare
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.memory.bytes import Versions, keep_versions
from reflector.memory.calls import Call, Transcript, calls_of
from reflector.memory.files import Scope, Table, Watched
from reflector.memory.git_changes import Move, Repository
from reflector.memory.looks import Content, Difference, Looks, Seen, compare
from reflector.memory.naming import Question, steps_of
from reflector.memory.new_change import Author, NewChange, event_of
from reflector.playbook_files.mirrors import without_section
from reflector.project import Project

#: A transcript may be written a moment before the times that its records have.
_SLACK_S = 5.0
#: Returns the transcripts that were written since a time, in seconds since the epoch.
FindTranscripts = Callable[[float], Sequence[Transcript]]


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
    def repository(self) -> Repository:
        """The repository of the files; those of the user are in none."""
        return Repository(self.root if self.scope == "project" else None)

    def is_recorded(self, event: NewEvent) -> bool:
        """Return whether the ledger has an event."""
        return bool(self.ledger.having([event.event_id]))


def record_changes(recorder: Recorder, find: FindTranscripts, checked_at: float) -> list[str]:
    """Compare the watched files with the last look, record the differences, and return notes for
    the user. The lock of the store's project must be held.

    checked_at  when the files were last as at the last look

    Raises:
        OSError, LedgerError, ValueError: the next comparison finds the differences again.
    """
    notes: list[str] = []
    looks = Looks.load(recorder.project)
    root = str(recorder.root)
    _finish(recorder, looks, notes)
    reflog = recorder.repository.reflog_size
    found = recorder.table.found
    now = time.time()
    seen = looks.seen.get(root, Seen(now, now))
    compared = compare(found, _gone(recorder.table, looks), looks, root, checked_at)
    events = _events_of(recorder, compared.differences, seen.reflog, find)
    looks.files.update(compared.looks)
    last = max((look.at for look in compared.looks.values()), default=now)
    looks.keep_unread(found, last)
    looks.seen[root] = Seen(seen.first, last, reflog)
    looks.events = events
    looks.save(recorder.project)
    _finish(recorder, looks, notes)
    return [*notes, *found.notes]


def _finish(recorder: Recorder, looks: Looks, notes: list[str]) -> None:
    """Append the events that wait. Raises OSError, LedgerError."""
    if looks.events:
        append_new(recorder, looks.events, notes)
        looks.events = []
        looks.save(recorder.project)


def append_new(recorder: Recorder, events: Sequence[NewEvent], notes: list[str]) -> None:
    """Append the events that the ledger does not have. One that it refuses is dropped with a note.

    Raises:
        OSError, LedgerError: nothing is appended.
    """
    sound = []
    for event in events:
        try:
            prepare(event)
        except (LedgerError, ValueError) as error:
            notes.append(f"a change of {event.data['file']!a} was not recorded: {error}")
        else:
            sound.append(event)
    recorded = {event.event_id for event in recorder.ledger.having([e.event_id for e in sound])}
    recorder.ledger.append([event for event in sound if event.event_id not in recorded])


def _gone(table: Table, looks: Looks) -> list[Watched]:
    """Return the watched files of the last look that were not found, and may be gone."""
    missing = [
        file
        for file in looks.files
        if file not in table.found.files
        and not any(map(Path(file).is_relative_to, table.found.unwatched))
    ]
    return list(filter(None, map(table.watch_of, missing)))


def _events_of(
    recorder: Recorder, differences: Sequence[Difference], reflog: int, find: FindTranscripts
) -> list[NewEvent]:
    """Return the events of the differences, and keep the bytes. Raises OSError.

    reflog  the size of the reflog at the last look
    """
    changed = _changed(recorder.project, differences)
    if not changed:
        return []
    since = min(difference.before.at for difference, _ in changed)
    files = [difference.watched.file for difference, _ in changed]
    contents = [
        each.bytes for difference, before in changed for each in (difference.content, before)
    ]
    watched = [difference.watched for difference, _ in changed]
    sessions: list[Transcript] = []
    calls: list[Call] = []
    for transcript in find(since - _SLACK_S):
        may_write = transcript.may_write(watched, recorder.table)
        own = calls_of(transcript, recorder.table) if may_write else []
        calls += own
        if transcript.is_here or own:
            sessions.append(transcript)
    records = _Records(
        sessions,
        calls,
        recorder.repository.moves(files, reflog, contents),
        recorder.repository.former_heads(reflog),
        known_calls(recorder.ledger),
        recorder.repository.tracked(files),
    )
    return [
        event
        for difference, before in changed
        for event in _steps(recorder, difference, before, records)
    ]


def _changed(
    project: Project, differences: Sequence[Difference]
) -> list[tuple[Difference, Content]]:
    """Return the files that changed, with their contents before, and keep all contents."""
    keep_versions(project, [difference.content.bytes for difference in differences])
    versions = Versions(project)
    befores = [versions.content(difference.before.digest) for difference in differences]
    return [
        (difference, before)
        for difference, before in zip(differences, befores, strict=True)
        if before != difference.content and not _is_mirrored(before, difference.content)
    ]


def _is_mirrored(before: Content, after: Content) -> bool:
    """Return whether only the section with the playbook changed: that is no memory of an agent, and
    an edit of it becomes events of the playbook.
    """
    texts = (before.bytes or b"", after.bytes or b"")
    return before.is_known and texts[0] != texts[1] and len(set(map(without_section, texts))) == 1


class _Records(NamedTuple):
    """Everything on record since the last look: sessions, their calls, moves of HEAD, the commits
    that it had before, the keys of the calls that the log has already, and the files that git
    tracks.
    """

    sessions: Sequence[Transcript]
    calls: Sequence[Call]
    moves: Sequence[Move]
    former_heads: Collection[str]
    known: Collection[tuple[str, str, str]]
    tracked: Collection[str]

    def calls_of(self, file: str, since: float) -> list[Call]:
        """Return the calls that may explain a change of a file."""
        return [
            call
            for call in self.calls
            if call.watched.file == file and call.is_after(since) and call.key not in self.known
        ]


def known_calls(ledger: Ledger) -> set[tuple[str, str, str]]:
    """Return the file, session and call of each recorded change by an agent."""
    recorded = (event.facts for event in ledger.events(types=[MEMORY_CHANGED]))
    return {(facts["file"], facts["session"], facts["call"]) for facts in recorded if facts}


def _steps(
    recorder: Recorder, difference: Difference, before: Content, records: _Records
) -> list[NewEvent]:
    """Return the events of one difference, oldest first. Raises OSError."""
    file = difference.watched.file
    since = difference.before.at
    question = Question(before, difference.content, since, difference.latest, records.sessions)
    moves = [move for move in records.moves if move.file == file]
    steps = steps_of(question, [*records.calls_of(file, since), *moves])
    keep_versions(recorder.project, [step.after.bytes for step in steps])
    is_tracked = file in records.tracked or bool(moves)
    events: dict[str, NewEvent] = {}
    heads = set(records.former_heads)
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if step.before is None and before == step.after:
            continue
        at = min(step.time, difference.latest)
        change = NewChange(file, step.before or before, step.after, step.author, at, LOOK)
        event = event_of(recorder.project, change, is_tracked=is_tracked)
        is_gits = event.data["source"] == GIT
        was_here = step.author.commit in heads
        if is_gits and (event.event_id in events or recorder.is_recorded(event)):
            if following is not None and following.before is not None:
                continue  # the log has this commit, and the next one follows
            heads.add(step.author.commit)
            if not was_here:
                before = step.after
                continue  # another machine recorded it
            author = Author(CHECKOUT, commit=step.author.commit)
            change = change._replace(before=before, author=author)
            event = event_of(recorder.project, change, is_tracked=is_tracked)
        heads.add(step.author.commit)
        events[event.event_id] = event
        before = step.after
    return list(events.values())
