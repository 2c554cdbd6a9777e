"""The log of memory files from before the first look, built from transcripts and git.

Invariant: nothing is recorded twice. A call that the log contains is skipped. So is a call after
the first look, because a comparison of looks has recorded its change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from functools import cache
from math import inf

from reflector.attribution.calls import Call, Transcript
from reflector.attribution.commands import steps_of_commands
from reflector.attribution.naming import steps_of_calls
from reflector.attribution.steps import UNSEEN_CONTENT, Author, Step, content_of
from reflector.events.memory import GIT, TRANSCRIPT, UNKNOWN
from reflector.memory.bytes import keep_versions
from reflector.memory.lines import LineChange, Numbered, cut, line_change, masked_lines
from reflector.memory.recording import Recorder


def fill_back(recorder: Recorder, transcripts: Iterable[Transcript]) -> list[str]:
    """Record the changes to watched files in transcripts and commits that the log does not have.

    Return notes for the user.

    Raises:
        OSError, LedgerError: nothing is recorded.
    """
    commits = _commits(recorder)
    seen = recorder.looks.seen.get(str(recorder.root))
    first_look = seen.first if seen else inf
    all_calls = list(steps_of_calls(transcripts, recorder.table, recorder.known, first_look))
    calls = [(call, step) for call, step in all_calls if not call.is_shell]
    commands = [call for call, _ in all_calls if call.is_shell]
    known = [*commits, *(step for _, step in calls)]
    if seen is None:
        known += _present(recorder, commands)
    by_commands = list(steps_of_commands(commands, known))
    steps = [*(step for _, step in calls), *by_commands]
    contents = [content for step in steps for content in (step.before, step.after)]
    keep_versions(recorder.project, contents)
    whole_lines = cache(lambda file: _whole_lines(recorder, commits, file))
    dated = [
        (step.time, recorder.event_of(step, TRANSCRIPT, _lines(call, step, commits, whole_lines)))
        for call, step in calls
    ]
    dated += [(step.time, recorder.event_of(step, TRANSCRIPT)) for step in by_commands]
    dated += [(commit.time, recorder.event_of(commit, GIT)) for commit in commits]
    # The clock of git has whole seconds, so a commit comes after a call in the same second.
    dated.sort(key=lambda pair: int(pair[0]))
    notes = recorder.append([event for _, event in dated])
    if not recorder.is_filled:
        recorder.looks.filled.append(str(recorder.root))
        recorder.looks.save(recorder.project)
        if commits and commits[0].before.digest:
            notes.append("reflector did not record the oldest commits of your memory files")
    return notes


def _commits(recorder: Recorder) -> list[Step]:
    """Return the changes to watched files in commits that the log does not have."""
    table = recorder.table
    commits = recorder.repository.commits(table.pathspecs(), known=recorder.known)
    return [commit for commit in commits if table.is_inside(commit.file)]


def _present(recorder: Recorder, commands: Iterable[Call]) -> Iterator[Step]:
    """Yield the present versions of the files of commands."""
    for file in {command.file for command in commands}:
        with suppress(OSError, KeyError):
            content = content_of(recorder.table.files[file].read())
            yield Step(file, UNSEEN_CONTENT, content, Author(UNKNOWN), inf)


def _lines(
    call: Call, step: Step, commits: Iterable[Step], whole_lines: Callable[[str], Set[str]]
) -> LineChange | None:
    """Return the lines that a call changed in a file whose content before or after it is unknown;
    None if both are known. If the call gives the whole content, all of its lines count as added,
    except those of the newest commit before the call.

    The text of an edit may be a part of a line. A part can be a secret without the words that
    reveal it, so only whole lines are returned.

    whole_lines  returns the lines that a file has or had
    """
    if step.before.is_known and step.after.is_known:
        return None
    if call.content is not None:
        earlier = [one.after for one in commits if one.file == call.file and one.time <= step.time]
        before = earlier[-1].bytes if earlier else b""
        lines = line_change(before, call.content.bytes).added
        return LineChange([Numbered(0, text) for _, text in lines])
    known = whole_lines(call.file)
    old = b"\n".join(edit.old for edit in call.edits)
    new = b"\n".join(edit.new for edit in call.edits)
    added, removed = (
        [Numbered(0, text) for _, text in lines if cut(text) in known]
        for lines in line_change(old, new)
    )
    return LineChange(added, removed)


def _whole_lines(recorder: Recorder, commits: Iterable[Step], file: str) -> set[str]:
    """Return the known lines that a file has or had, without secrets."""
    contents = [commit.after.bytes for commit in commits if commit.file == file]
    with suppress(OSError, KeyError):
        contents.append(recorder.table.files[file].read())
    return {cut(line.text) for content in contents for line in masked_lines(content)}
