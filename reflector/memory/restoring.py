"""Takes back changes to watched files: each file is written completely, and all of them or none.

Invariant: a file that changed since then is not written, and no link out of the file's folder is
followed. If a crash interrupts an undo, each file has one of both versions, and the next look
records those that were written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from shlex import quote

from reflector.attribution.files import Watched, shown_name
from reflector.attribution.steps import Author, Step, content_of, plain_digest
from reflector.events.event import NewEvent
from reflector.events.memory import UNDO, UNSEEN, YOU
from reflector.files import Changed, replace_read
from reflector.memory.bytes import Versions, keep_versions
from reflector.memory.changes import Change, Store
from reflector.memory.lines import (
    Hunk,
    are_exact,
    difference,
    line_change,
    without_change,
    without_lines,
)
from reflector.memory.looks import Look, Looks
from reflector.memory.new_change import event_of
from reflector.refusal import Refusal

#: The most lines of a difference that a refusal shows.
_MOST_LINES = 20


class UndoRefused(Refusal):
    """A change that cannot be undone. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A file to restore, or a restored file.

    now, then  its present content and the one that it gets; None for a missing file
    undone     the changes that this undoes
    place      of the new change, after it is recorded
    left       the reasons why other changes are not undone
    """

    store: Store
    file: str
    now: bytes | None
    then: bytes | None
    undone: Sequence[Change] = ()
    place: str = ""
    left: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it becomes the version before the changes, instead of only losing their lines."""
        return self.store.versions.is_version(self.undone[0].before, self.then)

    @property
    def places(self) -> list[str]:
        """The places of the changes that this undoes."""
        return [change.place for change in self.undone]

    @property
    def is_tracked(self) -> bool:
        """Whether git tracks the file, as far as the changes show."""
        digests = [digest for each in self.undone for digest in (each.before, each.after)]
        return not any(digest.startswith("k") for digest in digests)

    @property
    def difference(self) -> list[str]:
        """The lines that change, without secrets."""
        return list(difference(line_change(self.now, self.then)))


def newest_of(changes: Sequence[Change]) -> Change | None:
    """Return the change to a file that `undo FILE` undoes; None if no change can be undone.

    It is the newest open change that led to the present content, or else the newest open change.
    A commit counts only without an open change by an author.
    """
    remaining = open_changes(changes)
    candidates = [change for change in remaining if not change.is_gits] or remaining
    if not candidates:
        return None
    now = read_watched(candidates[-1])
    leading = [
        change for change in candidates if change.store.versions.is_version(change.after, now)
    ]
    return (leading or candidates)[-1]


def open_changes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes to a file that can be undone: those that are not undone, apart from undos,
    commits of a recorded change, and a commit that added the file.
    """
    made: set[str] = set()
    remaining = []
    for change in changes:
        if not change.is_gits:
            made.add(change.after)
        elif change.after in made or not change.before:
            continue
        if not change.undone_at and change.fact("source") != UNDO:
            remaining.append(change)
    return remaining


def plan_undo(changes: Sequence[Change], command: str, *, only_lines: bool) -> list[Restored]:
    """Return the files as they were before some changes. Several changes may be of one file.

    command     the command that undoes the part that can be undone
    only_lines  remove the lines of the changes from files that changed later, and skip files that
                cannot be restored

    Raises:
        UndoRefused: a file changed later, its bytes were not kept, or it cannot be read. The text
            has the difference that the command would make.
    """
    planned: dict[tuple[bool, str], Restored] = {}
    refused: list[str] = []
    for change in reversed(changes):
        file = (change.is_users, change.file)
        try:
            version = planned.get(file) or _begun(change)
            then = _without(change, version.then)
            planned[file] = replace(version, then=then, undone=[change, *version.undone])
        except UndoRefused as error:
            refused.insert(0, str(error))
    versions = list(planned.values())[::-1]
    if not versions:
        raise UndoRefused("\n".join(refused))
    if only_lines or (not refused and all(version.is_whole for version in versions)):
        return [replace(versions[0], left=refused), *versions[1:]]
    parts = [*refused, *map(_part, versions)]
    raise UndoRefused(
        "\n".join(
            ["Nothing was changed yet.", *parts, f"To make the changes shown above: {command}"]
        )
    )


def words_of_undo(change: Change) -> list[str]:
    """Return the arguments with which `undo` can undo a change now.

    Raises: UndoRefused if it cannot be undone.
    """
    (version,) = plan_undo([change], "", only_lines=True)
    return [change.place] if version.is_whole else [change.place, "--yes"]


def _begun(change: Change) -> Restored:
    """Return the present file of a change.

    Raises: UndoRefused if the change cannot be undone.
    """
    if not change.file:
        raise UndoRefused(
            f"the text of change {change.place} was erased, so `undo` cannot restore this text"
        )
    if change.undone_at:
        raise UndoRefused(
            f"change {change.undone_at} already undid change {change.place}. To make change "
            f"{change.place} again: `reflector undo {change.undone_at}`"
        )
    versions = change.store.versions
    now = read_watched(change)
    if versions.is_version(change.before, now) and not versions.is_version(change.after, now):
        raise UndoRefused(
            f"{change.shown} already has the text that it had before change {change.place}"
        )
    return Restored(change.store, change.file, now, now)


def _without(change: Change, content: bytes | None) -> bytes | None:
    """Return the content before a change, or else a content without the change's lines.

    The content is None for a missing file.

    Raises:
        UndoRefused: the lines are not known exactly, or are not in the content.
    """
    versions = change.store.versions
    is_after = versions.is_version(change.after, content)
    name = change.shown
    commit = change.fact("commit")
    if is_after and commit and not change.before:
        raise UndoRefused(
            f"commit {commit[:7]} added {name}, so undoing change {change.place} would remove "
            f"the whole file. To remove the file: git rm {quote(name)}"
        )
    before, after = map(change.content, ("before", "after"))
    if is_after and before.is_known:
        return before.bytes
    if not change.has_exact_lines:
        raise _unknown(change)
    if content is None:
        raise UndoRefused(
            f"{name} does not exist, so `undo` cannot reverse the lines of change {change.place}"
        )
    if not change.before or not change.after:
        verb = "created" if change.after else "removed"
        raise UndoRefused(
            f"change {change.place} {verb} {name}, and the file was edited later, so `undo` would "
            "lose the later edit; change the file by hand"
        )
    if before.bytes is not None and after.bytes is not None:
        rest = without_change(before.bytes, after.bytes, content)
    else:
        rest = without_lines(_exact_hunks(change), content)
    is_exact = change.before == UNSEEN or versions.is_version(change.before, rest)
    if is_after and not is_exact:
        raise _unknown(change)
    if rest is None:
        raise UndoRefused(
            f"the lines of change {change.place} in {name}, or the lines beside them, were changed "
            "later; change the file by hand"
        )
    return rest


def _exact_hunks(change: Change) -> list[Hunk]:
    """Return the lines of a change from its event.

    Raises: UndoRefused if the event does not have them exactly.
    """
    hunks = change.lines.hunks
    is_exact = are_exact(line.text for lines in change.lines for line in lines)
    if not hunks or not is_exact or change.event.facts.get("more"):
        raise _unknown(change)
    return hunks


def _unknown(change: Change) -> UndoRefused:
    return UndoRefused(
        f"reflector does not have the version of {change.shown} before change {change.place}, and "
        "does not know the exact lines of the change. So `undo` cannot restore the text; change "
        "the file by hand"
    )


def _part(version: Restored) -> str:
    """Return the part of a refusal about a file that could be written."""
    name = shown_name(version.file)
    if version.is_whole:
        lead = f"`undo` can restore {name} to the version before change {version.places[0]}:"
    else:
        lead = (
            f"`undo` can reverse only change {' and change '.join(version.places)} in {name}; the "
            "file's other changes stay:"
        )
    shown = version.difference
    more = [f"  and {len(shown) - _MOST_LINES} more lines"] if len(shown) > _MOST_LINES else []
    return "\n".join([lead, *shown[:_MOST_LINES], *more])


def read_watched(change: Change) -> bytes | None:
    """Return the content of the file of a change; None if the file is missing.

    Raises:
        UndoRefused: it is not a watched file, not a regular one, or cannot be read.
    """
    try:
        return _watched(change.store, change.file).read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UndoRefused(
            f"{change.file} cannot be read ({error.strerror}), so nothing was written"
        ) from error


def _watched(store: Store, file: str) -> Watched:
    """Return the file of a change.

    Raises: UndoRefused if it is not watched.
    """
    watched = store.watched(file)
    if watched is None:
        raise UndoRefused(
            f"`undo` cannot change {file}, because agents do not load or write this file"
        )
    return watched


def restore(planned: Sequence[Restored]) -> list[Restored]:
    """Write files as planned, all of them or none. Return them with the places of their changes.

    Raises:
        UndoRefused: a version of a file cannot be kept.
        Changed, OSError: a file changed meanwhile or cannot be written; none is then written.
    """
    events = list(map(_event_of, planned))
    written: list[Restored] = []
    try:
        for version in planned:
            _write(version)
            written.append(version)
    except BaseException:
        for version in written:
            with suppress(Changed, OSError):
                _write(replace(version, now=version.then, then=version.now))
        raise
    _note(planned, events)
    return [
        replace(version, place=_record(version, event))
        for version, event in zip(planned, events, strict=True)
    ]


def _event_of(version: Restored) -> NewEvent:
    """Return the change of a planned file, and keep both versions.

    Raises: UndoRefused if a version cannot be kept.
    """
    project = version.store.project
    now = content_of(version.now)
    then = content_of(version.then)
    keep_versions(project, [then, now])
    if not all(map(Versions(project).has, (now.digest, then.digest))):
        raise UndoRefused(
            f"reflector cannot store a copy of the current {version.file}, so nothing was "
            "changed. Free some space, or run: reflector config set --global memory_keep 200"
        )
    undid = [change.event.event_id for change in version.undone]
    step = Step(version.file, now, then, Author(YOU), time.time())
    return event_of(project, step, UNDO, is_tracked=version.is_tracked, undid=undid)


def _write(version: Restored) -> None:
    """Replace a file by its planned version, if it has not changed since it was read."""
    watched = _watched(version.store, version.file)
    new_mode = 0o644 if version.is_tracked else 0o600
    top = str(watched.folder)
    replace_read(watched.path, version.now, version.then, top=top, new_mode=new_mode)


def _note(written: Sequence[Restored], events: Sequence[NewEvent]) -> None:
    """Keep the events of written files with the looks at these files.

    If a crash prevents their recording, the next look compares the files with the written content
    and appends the events.
    """
    projects = {version.store.project.root: version.store.project for version in written}
    for root, project in projects.items():
        looks = Looks.of(project)
        for version, event in zip(written, events, strict=True):
            if version.store.project.root == root:
                looks.files[version.file] = Look(plain_digest(version.then), time.time())
                looks.events.append(event)
        looks.save(project)


def _record(version: Restored, event: NewEvent) -> str:
    """Record a written file, and return the place of the change."""
    ledger = version.store.ledger
    (appended,) = ledger.append([event], tx=ledger.draw())
    return version.store.place_of(appended.position)
