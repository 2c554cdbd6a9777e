"""When each line of advice was in force in this clone: the sessions that started with it, without
it, or in an unknown state.

Invariant: a line is in force while a file at HEAD contains it (`line_history`). A file that was not
written since a time has contained its lines since then, committed or not. A state is unknown

- between the author date of the line's commit and its arrival in this clone;
- before the first commit that this clone has, if that contains the line;
- before the last write of the line's file, if the line is not committed;
- before the line came from a file that agents do not load on their own;
- if git does not answer, or if the reflog has gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from reflector.events.event import time_of
from reflector.files import read_bounded
from reflector.playbook.admissible import same_words
from reflector.playbook_files.line_history import MAX_BYTES, Past, pasts_of, texts_in
from reflector.playbook_files.watching import PLAYBOOK, Line

#: The name of the file in the state folder of a project.
_KEPT = "births.json"


class LineState(StrEnum):
    """The state of a line when a session started."""

    SINCE = "since"
    BEFORE = "before"
    UNKNOWN = "unknown"


#: The states of a line, each from a time on. The first state is from before all sessions.
Course = Sequence[tuple[float, LineState]]
_UNKNOWN: Course = ((-inf, LineState.UNKNOWN),)
_ALWAYS: Course = ((-inf, LineState.SINCE),)


@dataclass(frozen=True, slots=True)
class Births:
    """The states of lines over time, by their words."""

    courses: Mapping[str, Course] = field(default_factory=dict)

    def state_of(self, line: Line, started: datetime | None) -> LineState:
        """Return the state of a line when a session started; `LineState.UNKNOWN` if it is not
        known.
        """
        if started is None:
            return LineState.UNKNOWN
        course = self.courses.get(same_words(line.text), _UNKNOWN)
        later = bisect_right(course, started.timestamp(), key=itemgetter(0))
        return course[later - 1][1]

    def added_at(self, line: Line, moment: datetime | None) -> Births:
        """Return a copy in which a line was not in its file before a moment. Without a moment,
        nothing changes.
        """
        if moment is None:
            return self
        text = same_words(line.text)
        time = moment.timestamp()
        course = self.courses.get(text, _UNKNOWN)
        later = [(max(each[0], time), each[1]) for each in course]
        return Births({**self.courses, text: [(-inf, LineState.BEFORE), *later]})

    def as_written(self, lines: Iterable[Line]) -> Births:
        """Return a copy in which each rule of the playbook begins when it was written there."""
        births = self
        for line in lines:
            births = births.added_at(line, time_of(line.added_at))
        return births


def births_of(root: Path, lines: Iterable[Line], own: Path | None = None) -> Births:
    """Return the times at which each of these lines of a project was in force. Rules of the
    playbook were in force in each session, because a new playbook is judged by earlier sessions.

    own  the user's own folder of the project, which keeps the answer of git
    """
    # Of equal texts, the one in the playbook counts.
    ordered = sorted(lines, key=lambda line: line.file == PLAYBOOK)
    file_by_text = {same_words(line.text): line.file for line in ordered}
    project_file_by_text = {text: name for text, name in file_by_text.items() if name != PLAYBOOK}
    courses: dict[str, Course] = dict.fromkeys(
        file_by_text.keys() - project_file_by_text.keys(), _ALWAYS
    )
    files = {name: _file_now(root, name) for name in {*project_file_by_text.values()}}
    if not files:
        return Births(courses)
    kept = own / _KEPT if own is not None else None
    pasts = pasts_of(root, {file.path for file in files.values()}, project_file_by_text, kept)
    for text, name in project_file_by_text.items():
        courses[text] = _course(pasts[text], files[name], text)
    return Births(courses)


class _FileNow(NamedTuple):
    """A file of the project; `changed` is the time of its last write."""

    path: Path
    changed: float
    texts: Set[str]


def _file_now(root: Path, name: str) -> _FileNow:
    path = root / name
    try:
        target = path.resolve()
        changed = max(path.lstat().st_ctime, target.stat().st_ctime)
        return _FileNow(target, changed, texts_in(read_bounded(target, MAX_BYTES)))
    except (OSError, RuntimeError):
        return _FileNow(path, inf, frozenset())


def _course(past: Past, file: _FileNow, text: str) -> Course:
    """Return the states of a line over time, from git and from the last write of its file."""
    is_in_file = text in file.texts
    is_uncommitted = is_in_file and not past.has_line_at(inf)
    times = {-inf, file.changed, *past.written, *(state.time for state in past.states)}
    course: list[tuple[float, LineState]] = []
    for time in sorted(times):
        state = _state_at(past, time)
        if is_in_file and time >= file.changed:
            state = LineState.SINCE
        elif is_uncommitted and state is LineState.BEFORE:
            state = LineState.UNKNOWN  # git does not show when it was written
        if not course or course[-1][1] is not state:
            course.append((time, state))
    return course


def _state_at(past: Past, time: float) -> LineState:
    """Return the state of a line at a time, from git only. It is unknown if git does not show it,
    and while the commit with the line existed, but was not in this clone yet.
    """
    has_line = past.has_line_at(time)
    if has_line is None or (not has_line and past.is_coming(time)):
        return LineState.UNKNOWN
    return LineState.SINCE if has_line else LineState.BEFORE
