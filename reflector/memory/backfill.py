"""The log of memory files from before the first look: from transcripts and from git.

Invariant: nothing is recorded twice. A call that the log has is passed over, and so is one after
the first look, whose change a comparison of looks has recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf

from reflector.events.event import MEMORY_CHANGED, Event, NewEvent
from reflector.events.memory import AGENT, COMMIT, GIT, MERGE, TRANSCRIPT
from reflector.memory.bytes import keep_versions
from reflector.memory.calls import UNSEEN_CONTENT, Call, Content, Transcript, sitting_of
from reflector.memory.lines import LineChange, Numbered, cut, line_change, masked_lines
from reflector.memory.looks import Looks, plain_digest
from reflector.memory.naming import Author
from reflector.memory.recording import (
    NewChange,
    Recorder,
    append_new,
    event_of,
    known_calls,
    known_commits,
)

#: Letters of a time up to its seconds, `2026-11-29T09:41:57`.
_SECONDS = 19


def fill_back(recorder: Recorder, transcripts: Iterable[Transcript]) -> list[str]:
    """Record the changes of watched files that transcripts and commits show; return notes for the
    user. The lock of the recorder's project must be held.

    Raises:
        OSError, LedgerError: nothing is recorded.
    """
    commits = list(_by_commits(recorder))
    calls = list(_by_calls(recorder, transcripts, _whole_lines(recorder, commits)))
    contents = (content for change in calls for content in (change.before, change.after))
    versions = [each.bytes for each in contents if each.bytes is not None]
    keep_versions(recorder.project, {plain_digest(version): version for version in versions})
    tracked = recorder.tracked({change.file for change in calls})
    events = [event_of(recorder, each, is_tracked=each.file in tracked) for each in calls]
    notes: list[str] = []
    times = _times_of(events)
    events += [_after_its_content(commit, times) for commit in commits]
    append_new(recorder, sorted(events, key=_occurred_at), notes)
    if commits and commits[0].data["kind"] != "created":
        notes.append("the log of memory files does not contain the oldest commits")
    looks = Looks.load(recorder.project)
    looks.filled = list(dict.fromkeys([*looks.filled, str(recorder.root)]))
    looks.save(recorder.project)
    return notes


def fill_commits(recorder: Recorder) -> list[str]:
    """Record the commits that the log does not have, such as those of a content that a look had
    recorded before; return notes for the user. The lock of the recorder's project must be held.

    Raises:
        OSError, LedgerError: nothing is recorded.
    """
    commits = list(_by_commits(recorder, known_commits(recorder.ledger)))
    notes: list[str] = []
    if commits:
        times = _times_of(recorder.ledger.events(types=[MEMORY_CHANGED]))
        append_new(recorder, [_after_its_content(each, times) for each in commits], notes)
    return notes


def is_filled(recorder: Recorder) -> bool:
    """Return whether the log has the past of the project's files."""
    return str(recorder.root) in Looks.load(recorder.project).filled


def _occurred_at(event: Event | NewEvent) -> str:
    return event.occurred_at or ""


def _times_of(events: Iterable[Event | NewEvent]) -> dict[tuple[str, str], str]:
    """Return the times at which files got their contents, by the file and the digest."""
    times: dict[tuple[str, str], str] = {}
    for event in events:
        if event.data:
            times[event.data["file"], event.data["after"]] = _occurred_at(event)
    return times


def _after_its_content(commit: NewEvent, times: Mapping[tuple[str, str], str]) -> NewEvent:
    """Return a commit at the time of its content, if that is of the same second: the clock of git
    has whole seconds.
    """
    made_at = times.get((commit.data["file"], commit.data["after"]), "")
    is_of_its_second = made_at[:_SECONDS] == _occurred_at(commit)[:_SECONDS]
    return replace(commit, occurred_at=made_at) if is_of_its_second else commit


def _by_calls(
    recorder: Recorder, transcripts: Iterable[Transcript], whole_lines: Mapping[str, set[str]]
) -> Iterator[NewChange]:
    """Yield the changes of tool calls, each file replayed from its first whole content. A command
    that names a file may not have changed it, so it only ends the knowledge of its content.

    whole_lines  as `_whole_lines` returns them
    """
    seen = Looks.load(recorder.project).seen.get(str(recorder.root))
    first_look = seen.first if seen else inf
    sittings = [sitting_of(transcript, recorder.table) for transcript in transcripts]
    known = known_calls(recorder.ledger)
    contents: dict[str, Content] = {}
    calls = [call for sitting in sittings for call in sitting.calls]
    for call in sorted(calls, key=lambda call: call.time):
        file = call.watched.file
        if call.time >= first_look or (file, call.session, call.id) in known:
            continue
        if not recorder.table.is_inside(call.watched):
            continue
        known.add((file, call.session, call.id))  # a fork has the calls of its original
        before = call.starts_at(contents.get(file, UNSEEN_CONTENT))
        after = _after(call, before)
        contents[file] = after
        if not call.is_shell:
            lines = _lines(call, before, after, whole_lines[file])
            author = Author(AGENT, call.agent, call.session, call.id)
            yield NewChange(file, before, after, author, call.time, TRANSCRIPT, lines)


def _after(call: Call, before: Content) -> Content:
    """Return the content after a call, as far as it is known."""
    if not before.is_known and call.content is None:
        return UNSEEN_CONTENT
    content = call.apply(before.bytes)
    return UNSEEN_CONTENT if content is None or call.is_opaque else Content(content)


def _lines(
    call: Call, before: Content, after: Content, whole_lines: Collection[str]
) -> LineChange | None:
    """Return the lines of a call if the contents are not known; None to compare the contents. The
    text of an edit may be a part of a line, which can be a secret without the words that show it.
    """
    if before.is_known and after.is_known:
        return None
    if not call.edits:
        return _unnumbered([line_change(b"", call.content)], None)
    return _unnumbered([line_change(edit.old, edit.new) for edit in call.edits], whole_lines)


def _unnumbered(changes: Iterable[LineChange], admitted: Collection[str] | None) -> LineChange:
    added = [line.text for change in changes for line in change.added]
    removed = [line.text for change in changes for line in change.removed]
    return LineChange(
        *(
            [Numbered(0, text) for text in texts if admitted is None or cut(text) in admitted]
            for texts in (added, removed)
        )
    )


def _whole_lines(recorder: Recorder, commits: Iterable[NewEvent]) -> Mapping[str, set[str]]:
    """Return the lines that each file has or had, without secrets, as far as that is known."""
    lines: dict[str, set[str]] = defaultdict(set)
    for event in commits:
        lines[event.data["file"]].update(line["text"] for line in event.data["added"])
    for file, watched in recorder.table.found.files.items():
        with suppress(OSError):
            lines[file].update(cut(line.text) for line in masked_lines(watched.read()))
    return lines


def _by_commits(recorder: Recorder, known: Collection[tuple[str, str]] = ()) -> Iterator[NewEvent]:
    """Yield the events of commits; `known` are the files and commits of those to pass over."""
    repository = recorder.repository
    for commit in repository.commits(recorder.table.pathspecs(), known=known) if repository else ():
        watched = recorder.table.watch_of(commit.file)
        if watched is not None and recorder.table.is_inside(watched):
            by = MERGE if commit.is_merge else COMMIT
            author = Author(by, commit=commit.commit, author=commit.author)
            contents = (Content(commit.before), Content(commit.after))
            change = NewChange(commit.file, *contents, author, commit.time, GIT)
            yield event_of(recorder, change, is_tracked=True)
