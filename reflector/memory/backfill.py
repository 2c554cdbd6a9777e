"""The log of memory files from before the first look, built from transcripts and git.

Invariant: nothing is recorded twice. A call that the log contains is skipped. So is a call after
the first look, because a comparison of looks has recorded its change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from math import inf

from reflector.events.memory import TRANSCRIPT
from reflector.memory.bytes import keep_versions
from reflector.memory.calls import Call, Transcript, calls_of
from reflector.memory.lines import LineChange, Numbered, cut, line_change, masked_lines
from reflector.memory.looks import UNSEEN_CONTENT, Content, Looks
from reflector.memory.new_change import NewChange, event_of
from reflector.memory.recording import Recorder, append_new


def fill_back(recorder: Recorder, transcripts: Iterable[Transcript]) -> list[str]:
    """Record the changes of watched files in transcripts and commits that the log does not have.

    Return notes for the user. The lock of the recorder's project must be held.

    Raises:
        OSError, LedgerError: nothing is recorded.
    """
    commits = _commits(recorder)
    whole_lines = cache(partial(_whole_lines, recorder, commits))
    calls = list(_by_calls(recorder, transcripts, whole_lines))
    keep_versions(
        recorder.project, [each.bytes for call in calls for each in (call.before, call.after)]
    )
    tracked = recorder.repository.tracked({call.file for call in calls})
    # The clock of git has whole seconds, so a commit comes after a call in the same second.
    changes = sorted([*calls, *commits], key=lambda change: int(change.time))
    events = [
        event_of(
            recorder.project,
            change,
            is_tracked=change.source != TRANSCRIPT or change.file in tracked,
        )
        for change in changes
    ]
    notes: list[str] = []
    looks = Looks(recorder.project)
    is_first = str(recorder.root) not in looks.filled
    append_new(recorder, events, notes)
    if is_first and commits and commits[0].kind != "created":
        notes.append("reflector did not record the oldest commits of your memory files")
    if is_first:
        looks.filled.append(str(recorder.root))
        looks.save()
    return notes


def is_filled(recorder: Recorder) -> bool:
    """Return whether the log has the past changes of the project's files."""
    return str(recorder.root) in Looks(recorder.project).filled


def _commits(recorder: Recorder) -> list[NewChange]:
    """Return the changes of watched files in commits that the log does not have."""
    table = recorder.table
    return [
        change
        for change in recorder.repository.commits(table.pathspecs(), known=recorder.known)
        if (watched := table.watch_of(change.file)) is not None and table.is_inside(watched)
    ]


def _by_calls(
    recorder: Recorder, transcripts: Iterable[Transcript], whole_lines: Callable[[str], set[str]]
) -> Iterator[NewChange]:
    """Yield the changes of tool calls. Each file is replayed from its first whole content.

    A command that names a file may not have changed it. After such a command, the content of the
    file is unknown.

    whole_lines  returns the lines that a file has or had
    """
    seen = Looks(recorder.project).seen.get(str(recorder.root))
    first_look = seen.first if seen else inf
    contents: dict[str, Content] = {}
    calls = [call for each in transcripts for call in calls_of(each, recorder.table)]
    for call in sorted(calls, key=lambda call: call.time):
        file = call.watched.file
        if call.time >= first_look or call.key in recorder.known:
            continue
        if not recorder.table.is_inside(call.watched):
            continue
        recorder.known.add(call.key)  # a fork has the calls of its original
        before = call.starts_at(contents.get(file, UNSEEN_CONTENT))
        after = call.apply(before) or UNSEEN_CONTENT
        contents[file] = after
        if not call.is_shell:
            is_known = before.is_known and after.is_known
            lines = None if is_known else _lines(call, whole_lines(file))
            yield NewChange(file, before, after, call.author, call.time, TRANSCRIPT, lines)


def _lines(call: Call, whole_lines: Collection[str]) -> LineChange:
    """Return the lines that a call changed in a file whose content before or after it is unknown.
    If the call gives the whole content, all of its lines count as added.

    The text of an edit may be a part of a line. A part can be a secret without the words that
    reveal it, so only whole lines are returned.
    """
    if call.content is not None:
        changes = [line_change(b"", call.content.bytes)]
    else:
        changes = [line_change(edit.old, edit.new) for edit in call.edits]

    def whole(lines: Iterable[Numbered]) -> list[Numbered]:
        is_whole = call.content is not None
        return [Numbered(0, text) for _, text in lines if is_whole or cut(text) in whole_lines]

    return LineChange(
        whole(line for change in changes for line in change.added),
        whole(line for change in changes for line in change.removed),
    )


def _whole_lines(recorder: Recorder, commits: Iterable[NewChange], file: str) -> set[str]:
    """Return the known lines that a file has or had, without secrets."""
    contents = [commit.after.bytes for commit in commits if commit.file == file]
    with suppress(OSError, KeyError):
        contents.append(recorder.table.files[file].read())
    return {cut(line.text) for content in contents for line in masked_lines(content or b"")}
