"""Records the changes to watched files: the drain compares them at a session's start and end.

Invariant: every difference between two looks is recorded once, even if the drain is killed. If the
disk is full, nothing is half written, and the next drain compares again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from reflector.attribution.files import Scope, Table
from reflector.attribution.git_changes import Repository
from reflector.attribution.naming import FindTranscripts, attributed
from reflector.attribution.steps import Content, Difference, Step
from reflector.events.event import MEMORY_CHANGED, NewEvent
from reflector.events.memory import GIT, LOOK
from reflector.ledger.append import prepare
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.memory.bytes import Versions, keep_versions
from reflector.memory.lines import LineChange
from reflector.memory.looks import Looks, Seen, compare
from reflector.memory.new_change import event_of
from reflector.playbook_files.mirrors import without_section
from reflector.project import Project


class Recorder:
    """The place for changes: the project's ledger, or the user's ledger for the user's files. The
    lock of its project must be held.

    project      its own folder keeps the looks and the bytes
    open_ledger  opens its ledger, if there is something to record
    root         of the project whose agents load the files
    """

    def __init__(
        self, project: Project, open_ledger: Callable[[], Ledger], root: Path, scope: Scope
    ) -> None:
        self.project = project
        self.root = root
        self.table = Table(root, scope)
        self.looks = Looks.of(project)
        #: The user's files are not in a repository.
        self.repository = Repository(root if scope == "project" else None)
        self._open_ledger = open_ledger

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of the recorder.

        Raises: LedgerError if it cannot be opened.
        """
        return self._open_ledger()

    @cached_property
    def known(self) -> set[tuple[str, ...]]:
        """The keys of the recorded changes: file and commit, or file, session and call."""
        recorded = (event.facts for event in self.ledger.events(types=[MEMORY_CHANGED]))
        return {
            (facts["file"], facts["commit"])
            if facts["source"] == GIT
            else (facts["file"], facts["session"], facts["call"])
            for facts in recorded
            if facts
        }

    @property
    def is_filled(self) -> bool:
        """Whether the log has the past changes of the files."""
        return str(self.root) in self.looks.filled

    @cached_property
    def tracked(self) -> set[str]:
        """The files that git tracks."""
        return self.repository.tracked(self.table.pathspecs())

    def event_of(self, step: Step, source: str, lines: LineChange | None = None) -> NewEvent:
        """Return the event of a change.

        Raises: OSError if the secret cannot be written.
        """
        is_tracked = step.file in self.tracked or step.author.commit != ""
        return event_of(self.project, step, source, is_tracked=is_tracked, lines=lines)

    def append(self, events: Sequence[NewEvent]) -> list[str]:
        """Append the events that the ledger does not have. Return a note for each refused event.

        Raises:
            OSError, LedgerError: nothing is appended.
        """
        sound = []
        notes = []
        for event in events:
            try:
                prepare(event)
            except (LedgerError, ValueError) as error:
                notes.append(f"a change of {event.data['file']!a} was not recorded: {error}")
            else:
                sound.append(event)
        recorded = {event.event_id for event in self.ledger.having([e.event_id for e in sound])}
        new = [event for event in sound if event.event_id not in recorded]
        self.ledger.append(new, tx=self.ledger.draw())
        return notes


def record_changes(recorder: Recorder, find: FindTranscripts, checked_at: float) -> list[str]:
    """Compare the watched files with the last look, and record the differences.

    Return notes for the user.

    checked_at  the last time at which the files were as at the last look

    Raises:
        OSError, LedgerError, ValueError: the next comparison finds the differences again.
    """
    looks = recorder.looks
    root = str(recorder.root)
    notes = _finish(recorder)
    reflog = recorder.repository.reflog_size
    now = time.time()
    first, _, seen_reflog = looks.seen.get(root, Seen(now, now))
    differences = _differences(recorder, checked_at)
    looks.seen[root] = Seen(first, now, reflog)
    looks.events = _events_of(recorder, differences, seen_reflog, find)
    looks.save(recorder.project)
    return [*notes, *_finish(recorder), *recorder.table.notes]


def _finish(recorder: Recorder) -> list[str]:
    """Append the waiting events; return notes for the user.

    Raises: OSError or LedgerError if that fails.
    """
    looks = recorder.looks
    if not looks.events:
        return []
    notes = recorder.append(looks.events)
    looks.events = []
    looks.save(recorder.project)
    return notes


def _differences(recorder: Recorder, checked_at: float) -> list[Difference]:
    """Return the files that changed, and keep all new contents.

    Raises: OSError if that fails.
    """
    seen = compare(recorder.table, recorder.looks, checked_at)
    keep_versions(recorder.project, [each.after for each in seen])
    versions = Versions(recorder.project)
    changed = [
        each._replace(before=versions.content(each.before.digest))
        for each in seen
        if each.before != each.after
    ]
    return [each for each in changed if not _is_mirrored(each.before, each.after)]


def _is_mirrored(before: Content, after: Content) -> bool:
    """Return whether only the section with the playbook changed.

    That section is not an agent's memory, and its edits become events of the playbook.
    """
    texts = (before.bytes or b"", after.bytes or b"")
    return before.is_known and texts[0] != texts[1] and len(set(map(without_section, texts))) == 1


def _events_of(
    recorder: Recorder, differences: Sequence[Difference], reflog: int, find: FindTranscripts
) -> list[NewEvent]:
    """Return the events of the differences, and keep the bytes.

    reflog  the size of the reflog at the last look

    Raises: OSError if that fails.
    """
    if not differences:
        return []
    moves = recorder.repository.moves(differences, reflog)
    # Git tracked the files that a move removed.
    recorder.tracked.update({move.file for move in moves}.difference(recorder.table.files))
    events = []
    for difference, steps in attributed(differences, find, recorder.table, moves, recorder.known):
        # The last content is that of the file now, which is kept already.
        keep_versions(recorder.project, [step.after for step in steps[:-1]])
        unrecorded = _unrecorded(recorder, difference, steps)
        events += [recorder.event_of(step, LOOK) for step in unrecorded]
    return events


def _unrecorded(
    recorder: Recorder, difference: Difference, steps: Sequence[Step]
) -> Iterator[Step]:
    """Yield the steps that changed the content, and the commits that the log does not have.

    A step starts at the content before it. A commit starts at the content of its parent.
    """
    before = difference.before
    for step in steps:
        in_time = step._replace(time=min(step.time, difference.until))
        if step.is_commit:
            key = (step.file, step.author.commit)
            if key not in recorder.known:
                recorder.known.add(key)
                yield in_time
        elif step.after != before:
            yield in_time._replace(before=before)
        before = step.after
