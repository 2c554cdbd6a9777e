"""The commands of sessions that changed a file between two known versions, such as those of two
commits.

A transcript does not show the effect of a command. So a command is the author of a line only if its
text contains the whole line, or all words that differ from the line before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from operator import attrgetter

from reflector.attribution.calls import Call
from reflector.attribution.steps import UNSEEN_CONTENT, Author, Content, Step, content_of
from reflector.events.memory import AGENT

#: The longest time in seconds between the recorded time of a commit and the commit.
LATE_S = 0.999
#: The fewest words, such as `-`, of a line that another author does not write by chance.
_LEAST_WORDS = 4
#: The most pairs of lines to compare.
_MOST_COMPARED = 4_000_000


def steps_of_commands(commands: Sequence[Call], known: Sequence[Step]) -> Iterator[Step]:
    """Yield the changes to files by commands that other changes show.

    known  the other changes; a tool call shows the version before it, and all others that after
    """
    for file in dict.fromkeys(command.file for command in commands):
        waiting = [command for command in commands if command.file == file]
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
    waiting = [call for call in calls if call.is_shell]
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


def _parts_of(change: Step, commands: Iterable[Call], since: float) -> Iterator[Step]:
    """Yield the parts of a change that commands made, from one known version to another.

    since  the time of the change before
    """
    before = change.before
    after = change.after
    if not (before.is_known and after.is_known):
        return
    # Of several commands with the same lines, the last one counts.
    last = {_part_of(command, before, after): command for command in commands}
    # In the log, a commit comes after its parts.
    latest = change.time - 1 if change.is_commit else change.time
    for command in sorted(last.values(), key=attrgetter("began")):
        part = _part_of(command, before, after)
        if part != before:
            time = max(since, min(command.time, latest))
            yield Step(change.file, before, part, command.author, time)
            before = part


def _part_of(command: Call, before: Content, after: Content) -> Content:
    """Return a version with those lines of a change that a command wrote."""
    old, new = ((content.bytes or b"").splitlines(keepends=True) for content in (before, after))
    if len(old) * len(new) > _MOST_COMPARED:
        return before
    lines: list[bytes] = []
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for _, start, end, new_start, new_end in changes:
        lines += _lines_of(command, old[start:end], new[new_start:new_end])
    return content_of(b"".join(lines)) if lines != old else before


def _lines_of(command: Call, removed: list[bytes], added: list[bytes]) -> list[bytes]:
    """Return consecutive lines after the part of their change that a command made."""
    if len(removed) == len(added):
        pairs = zip(removed, added, strict=True)
        return [
            new if _wrote_long(command, new) or command.reworded(old, new) else old
            for old, new in pairs
        ]
    texts = [line for line in (*removed, *added) if line.strip()]
    long = [line for line in added if _wrote_long(command, line)]
    if long and all(map(command.wrote, texts)):
        return added
    return [*removed, *long]


def _wrote_long(command: Call, line: bytes) -> bool:
    """Return whether a command contains a line that another author does not write by chance."""
    return len(line.split()) >= _LEAST_WORDS and command.wrote(line)
