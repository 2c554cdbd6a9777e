"""The commands of sessions that changed a file between two known versions, such as those of two
commits.

A transcript does not show the effect of a command. So a command is the author of a line only if its
text contains the whole line, or all words that differ from the line before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

from reflector.attribution.calls import Call
from reflector.attribution.steps import UNSEEN_CONTENT, Author, Step, content_of
from reflector.events.memory import AGENT
from reflector.text.compared import compared

#: The longest time in seconds between the recorded time of a commit and the commit.
LATE_S = 0.999
#: The fewest words, such as `-`, of a line that another author does not write by chance.
_LEAST_WORDS = 4
#: The place of no command, after all others.
_NONE = sys.maxsize
_BEGAN = attrgetter("began")


def steps_of_commands(commands: Sequence[Call], known: Sequence[Step]) -> Iterator[Step]:
    """Yield the changes to files by commands that other changes show.

    known  the other changes; a tool call shows the version before it, and all others that after
    """
    for file in dict.fromkeys(command.file for command in commands):
        waiting = sorted((each for each in commands if each.file == file), key=_BEGAN)
        last = Step(file, UNSEEN_CONTENT, UNSEEN_CONTENT, Author(AGENT), 0.0)
        for step in sorted((step for step in known if step.file == file), key=_end_of):
            seen = step.before if step.author.by == AGENT else step.after
            if seen.is_known:
                ran, waiting = _parted(waiting, step)
                shown = step._replace(after=seen)
                yield from (
                    list(_parts_of(shown._replace(before=last.after), ran, last.time))
                    or _parts_of(shown, ran, last.time)
                )
            last = step


def with_commands(steps: Iterable[Step], calls: Iterable[Call]) -> Iterator[Step]:
    """Yield the changes to a file with those by commands that are a part of a commit."""
    waiting = sorted((call for call in calls if call.is_shell), key=_BEGAN)
    since = 0.0
    for step in steps:
        if step.is_commit:
            ran, waiting = _parted(waiting, step)
            yield from _parts_of(step, ran, since)
        yield step
        since = step.time


def _end_of(step: Step) -> float:
    """Return the last moment of a change. The clock of git has whole seconds."""
    return step.time + LATE_S if step.is_commit else step.time


def _parted(commands: Iterable[Call], step: Step) -> tuple[list[Call], list[Call]]:
    """Return the commands that began before the end of a change, and the later ones."""
    parts: tuple[list[Call], list[Call]] = ([], [])
    for command in commands:
        parts[command.began > _end_of(step)].append(command)
    return parts


def _parts_of(change: Step, commands: Sequence[Call], since: float) -> Iterator[Step]:
    """Yield the parts of a change that commands made, from one known version to another.

    since  the time of the change before
    """
    before = change.before
    if not (before.is_known and change.after.is_known and commands):
        return
    pieces = list(_pieces(commands, before.bytes or b"", change.after.bytes or b""))
    # In the log, a commit comes after its parts.
    latest = change.time - 1 if change.is_commit else change.time
    for place in sorted({piece.command for piece in pieces} - {_NONE}):
        lines = [line for piece in pieces for line in piece.lines_after(place)]
        after = content_of(b"".join(lines))
        command = commands[place]
        time = max(since, min(command.time, latest))
        yield Step(change.file, before, after, command.author, time)
        before = after


class _Piece(NamedTuple):
    """Consecutive lines before and after a change.

    command  the place of the command that changed them
    """

    removed: Sequence[bytes]
    added: Sequence[bytes]
    command: int = _NONE

    def lines_after(self, command: int) -> Sequence[bytes]:
        """Return the lines after the commands up to one."""
        return self.added if self.command <= command else self.removed


def _pieces(commands: Sequence[Call], before: bytes, after: bytes) -> Iterator[_Piece]:
    """Yield the lines of two versions with the commands that changed them."""
    old, new = (content.splitlines(keepends=True) for content in (before, after))
    for tag, start, end, new_start, new_end in compared(old, new).get_opcodes():
        removed = old[start:end]
        added = new[new_start:new_end]
        if tag == "equal":
            yield _Piece(removed, added)
        elif len(removed) == len(added):
            for pair in zip(removed, added, strict=True):
                yield _Piece(pair[:1], pair[1:], _writer_of_pair(commands, *pair))
        else:
            whole = _writer_of_all(commands, removed, added)
            if whole != _NONE:
                yield _Piece(removed, added, whole)
                continue
            yield _Piece(removed, ())
            for line in added:
                yield _Piece((), (line,), _writer_of(commands, line))


def _writer_of(commands: Sequence[Call], line: bytes) -> int:
    """Return the last command that contains a line that another author does not write by chance."""
    is_long = len(line.split()) >= _LEAST_WORDS
    return _last(is_long and command.wrote(line) for command in commands)


def _writer_of_pair(commands: Sequence[Call], old: bytes, new: bytes) -> int:
    """Return the command that replaced a line by another; none if there are several sessions."""
    writer = _writer_of(commands, new)
    if writer != _NONE:
        return writer
    has_words = [command.reworded(old, new) for command in commands]
    sessions = {each.author.session for each in compress(commands, has_words)}
    return _last(has_words) if len(sessions) == 1 else _NONE


def _writer_of_all(
    commands: Sequence[Call], removed: Sequence[bytes], added: Sequence[bytes]
) -> int:
    """Return the last command that contains all changed lines."""
    texts = [line for line in (*removed, *added) if line.strip()]
    writers = {_writer_of(commands, line) for line in added}
    return _last(
        place in writers and all(map(command.wrote, texts))
        for place, command in enumerate(commands)
    )


def _last(conditions: Iterable[bool]) -> int:
    """Return the place of the last condition that is true."""
    return max((place for place, is_true in enumerate(conditions) if is_true), default=_NONE)
