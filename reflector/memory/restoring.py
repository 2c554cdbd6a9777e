"""Takes back changes of watched files: each file is written completely, and all of them or none.

Invariant: a file that changed since then is not written. The versions to write are noted in the
user's own folder before the first file is replaced, so the next command finishes an interrupted
undo. No link out of the file's folder is followed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.events.event import NewEvent
from reflector.events.memory import GIT, UNDO, UNSEEN, YOU
from reflector.files import Changed, replace_in, write_durably
from reflector.git import git_says
from reflector.handover import open_own
from reflector.memory.bytes import Versions, keep_versions
from reflector.memory.changes import Change, Store
from reflector.memory.files import Watched, shown_name
from reflector.memory.lines import (
    are_exact,
    difference,
    hunks_of,
    without_change,
    without_lines,
)
from reflector.memory.looks import Content, Look, Looks, content_of, plain_digest
from reflector.memory.new_change import Author, NewChange, event_of
from reflector.memory.places import JOURNAL, is_interrupted
from reflector.project import Project
from reflector.refusal import Refusal

#: Lines of a difference that a refusal shows.
_MOST_LINES = 20


class UndoRefused(Refusal):
    """A change that cannot be taken back; nothing was written."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that is written, or was.

    now, then  its content at present and the one that it gets; None for no file
    undone     the changes that this undoes
    place      that of the new change, once it is recorded
    left       why other changes are not taken back
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
        """Whether it becomes the version before the changes, and not only loses their lines."""
        return self.store.versions.is_version(self.undone[0].before, self.then)

    @property
    def places(self) -> list[str]:
        """The places of the changes that this undoes."""
        return [change.place for change in self.undone]

    @property
    def difference(self) -> list[str]:
        """The lines that change, without secrets."""
        return list(difference(self.now or b"", self.then or b""))


def newest_of(changes: Sequence[Change]) -> Change | None:
    """Return the change of a file that `undo FILE` takes back: the newest one, rather than a commit
    of it, that led to the present content; None if none can be taken back. A commit that brought
    the file is none.
    """
    open_changes = [
        change
        for change in changes
        if not change.undone_at
        and change.fact("source") != UNDO
        and (change.fact("source") != GIT or change.before)
    ]
    if not open_changes:
        return None
    now = read_watched(open_changes[-1])
    by_hand = [change for change in open_changes if change.fact("source") != GIT]
    leading = [one for one in by_hand if one.store.versions.is_version(one.after, now)]
    return (leading or by_hand or open_changes)[-1]


def plan_undo(changes: Sequence[Change], command: str, *, only_lines: bool) -> list[Restored]:
    """Return the files as they were before some changes, of which several may be of one file.

    command     the one that takes back the part that can be
    only_lines  take the lines of the changes out of files that changed since, and leave files that
                cannot be taken back

    Raises:
        UndoRefused: a file changed since, its bytes were not kept, or it cannot be read. The text
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
        "\n".join(["Nothing was written yet.", *parts, f"To take back this part: {command}"])
    )


def words_of_undo(change: Change) -> list[str]:
    """Return the arguments with which `undo` takes back a change now. Raises UndoRefused."""
    (version,) = plan_undo([change], "", only_lines=True)
    return [change.place] if version.is_whole else [change.place, "--yes"]


def _begun(change: Change) -> Restored:
    """Return the file of a change as it is. Raises UndoRefused if it cannot be taken back."""
    if not change.file:
        raise UndoRefused(f"the text of {change.place} was erased, so it cannot be taken back")
    if change.undone_at:
        raise UndoRefused(
            f"change {change.place} is already undone at {change.undone_at}. To make it again: "
            f"`reflector undo {change.undone_at}`"
        )
    versions = change.store.versions
    now = read_watched(change)
    if versions.is_version(change.before, now) and not versions.is_version(change.after, now):
        raise UndoRefused(f"{change.shown} is already as it was before change {change.place}")
    return Restored(change.store, change.file, now, now)


def _version(change: Change) -> bytes | None:
    """Return the version before a change, as it was kept or as git has it; None for no file, or if
    neither has it. Raises UndoRefused for a change that brought a file with a commit.
    """
    commit = change.fact("commit")
    if commit and not change.before:
        raise UndoRefused(
            f"{change.file} came with commit {commit[:7]}, so taking back change {change.place} "
            f"would remove the whole file. To remove it: git rm {quote(change.file)}"
        )
    versions = change.store.versions
    kept = versions.read(change.before)
    if kept is None and commit:
        root = change.store.project.root
        committed = git_says(root, "cat-file", "blob", f"{commit}^:./{change.file}")
        return committed if versions.is_version(change.before, committed) else None
    return kept


def _without(change: Change, content: bytes | None) -> bytes | None:
    """Return a content as it was before a change, or else without the lines of it; None for no
    file.

    Raises:
        UndoRefused: they are not known exactly, or are not there.
    """
    versions = change.store.versions
    is_after = versions.is_version(change.after, content)
    if is_after:
        version = _version(change)
        if version is not None or not change.before:
            return version
    name = change.shown
    if content is None:
        raise UndoRefused(
            f"{name} does not exist, so the lines of change {change.place} are not in it"
        )
    if not change.before or not change.after:
        verb = "created" if change.after else "removed"
        raise UndoRefused(
            f"change {change.place} {verb} {name}, which has changed since; change the file by hand"
        )
    rest = _without_lines(change, content)
    is_exact = change.before == UNSEEN or versions.is_version(change.before, rest)
    if is_after and not is_exact:
        raise _unknown(change)
    if rest is None:
        raise UndoRefused(
            f"{name} does not contain the lines of change {change.place} any more; "
            "change the file by hand"
        )
    return rest


def _without_lines(change: Change, content: bytes) -> bytes | None:
    """Return a content without the lines of a change, None if they are not there. Raises
    UndoRefused.
    """
    before, after = (change.store.versions.read(digest) for digest in (change.before, change.after))
    if before is not None and after is not None:
        return without_change(before, after, content)
    removed = change.lines("removed")
    added = change.lines("added")
    hunks = hunks_of(removed, added)
    is_exact = are_exact(text for _, text in (*removed, *added))
    if not hunks or not is_exact or change.event.facts.get("more"):
        raise _unknown(change)
    return without_lines(hunks, content)


def _unknown(change: Change) -> UndoRefused:
    return UndoRefused(
        f"the version of {change.shown} before change {change.place} was not kept, and the "
        f"changed lines are not known; change the file by hand"
    )


def _part(version: Restored) -> str:
    """Return the part of a refusal about a file that could be written."""
    name = shown_name(version.file)
    if version.is_whole:
        lead = f"{name} can be restored to its version before {version.places[0]}:"
    else:
        lead = f"In {name}, only the lines of {', '.join(version.places)} can be taken back:"
    shown = version.difference
    more = [f"  and {len(shown) - _MOST_LINES} more lines"] if len(shown) > _MOST_LINES else []
    return "\n".join([lead, *shown[:_MOST_LINES], *more])


def read_watched(change: Change) -> bytes | None:
    """Return the content of the file of a change, None if there is none.

    Raises:
        UndoRefused: it is not a watched file, not a regular one, or cannot be read.
    """
    try:
        return _content(_watched(change.store, change.file))
    except OSError as error:
        raise UndoRefused(
            f"{change.file} cannot be read ({error.strerror}), so nothing was written"
        ) from error


def _watched(store: Store, file: str) -> Watched:
    """Return the file of a change. Raises UndoRefused."""
    watched = store.watched(file)
    if watched is None:
        raise UndoRefused(f"{file} is not a file that agents load or write here")
    return watched


def _content(watched: Watched) -> bytes | None:
    with suppress(FileNotFoundError):
        return watched.read()
    return None


class _Writing(NamedTuple):
    """A file that is about to be written, with its content at present and then, and the change."""

    store: Store
    event: NewEvent
    now: Content
    then: Content

    @property
    def watched(self) -> Watched:
        """The file on this machine. Raises UndoRefused."""
        return _watched(self.store, self.event.data["file"])

    @property
    def is_kept(self) -> bool:
        """Whether the bytes of both contents are known."""
        return self.now.is_known and self.then.is_known

    @property
    def backwards(self) -> _Writing:
        """The same with the contents exchanged."""
        return self._replace(now=self.then, then=self.now)

    def has(self, content: Content) -> bool:
        """Return whether the file has a content."""
        with suppress(OSError):
            return _content(self.watched) == content.bytes
        return False


def restore(home: Project, planned: Sequence[Restored]) -> list[Restored]:
    """Write files as planned, all of them or none, and return them with the places of their
    changes.

    home  the project whose own folder notes the changes until all are written

    Raises:
        UndoRefused: a version of a file cannot be kept, or an undo waits to be finished.
        Changed, OSError: a file changed meanwhile or cannot be written; none is then.
    """
    if is_interrupted(home):
        raise UndoRefused("an undo was interrupted and could not be finished; free some space")
    writings = list(map(_writing, planned))
    notes = [(writing.store.project.is_users, asdict(writing.event)) for writing in writings]
    folder = open_own(str(home.root))
    write_durably(folder, json.dumps(notes).encode(), JOURNAL)
    try:
        _write_all(writings)
    except BaseException:
        Path(folder, JOURNAL).unlink(missing_ok=True)
        raise
    places = _record(home, writings)
    return [replace(each, place=place) for each, place in zip(planned, places, strict=True)]


def _writing(version: Restored) -> _Writing:
    """Return a planned file with its change; both versions of it are kept. Raises UndoRefused."""
    project = version.store.project
    keep_versions(project, [version.then, version.now])
    change = NewChange(
        version.file,
        content_of(version.now),
        content_of(version.then),
        Author(YOU),
        time.time(),
        UNDO,
        undid=[change.event.event_id for change in version.undone],
    )
    digests = [digest for each in version.undone for digest in (each.before, each.after)]
    is_tracked = not any(digest.startswith("k") for digest in digests)
    writing = _noted(version.store, event_of(project, change, is_tracked=is_tracked))
    if not writing.is_kept:
        raise UndoRefused(
            f"the current version of {version.file} cannot be saved, so nothing was written. Free "
            "some space, or: reflector config set --global memory_keep 200"
        )
    return writing


def finish(home: Project, stores: Iterable[Store]) -> list[str]:
    """Finish an undo that a crash interrupted, and return the names of its files. If a file has
    neither of the two contents, none is changed, and those that were written become as they were.
    """
    notes = _notes(home)
    writings = [writing for writing in _noted_in(stores, notes) if writing.is_kept]
    written = [writing for writing in writings if writing.has(writing.then)]
    unwritten = [writing for writing in writings if writing not in written]
    is_certain = len(writings) == len(notes)
    if is_certain and all(writing.has(writing.now) for writing in unwritten):
        _write_all(unwritten)
    elif not any(each.store.ledger.having([each.event.event_id]) for each in writings):
        _write_all([writing.backwards for writing in written])
        writings = []
    _record(home, writings)
    return [writing.event.data["file"] for writing in writings]


def _noted(store: Store, event: NewEvent) -> _Writing:
    """Return the file of a change with its contents, as far as they are kept."""
    versions = Versions(store.project)
    now, then = (versions.content(event.data[name]) for name in ("before", "after"))
    return _Writing(store, event, now, then)


def _notes(home: Project) -> list[tuple[bool, NewEvent]]:
    """Return the changes that were noted, each with whether it is of the user's own files; none of
    a journal that is damaged or has the form of an earlier version.
    """
    try:
        notes = [(bool(is_users), NewEvent(**event)) for is_users, event in home.read_kept(JOURNAL)]
        return [note for note in notes if isinstance(note[1].data.get("file"), str)]
    except (TypeError, ValueError, AttributeError):
        return []


def _noted_in(
    stores: Iterable[Store], notes: Sequence[tuple[bool, NewEvent]]
) -> Iterator[_Writing]:
    """Yield the watched files of an undo that was noted, and of its ledger."""
    for store in stores:
        for is_users, event in notes:
            if store.project.is_users == is_users and store.watched(event.data["file"]):
                yield _noted(store, event)


def _write_all(writings: Sequence[_Writing]) -> None:
    """Replace each file.

    Raises:
        Changed, OSError: as `restore`; the files have their former content then.
    """
    for writing in writings:
        _look_again(writing)
    replaced: list[_Writing] = []
    try:
        for writing in writings:
            _write(writing)
            replaced.append(writing)
    except BaseException:
        for writing in replaced:
            with suppress(Changed, OSError):
                _write(writing.backwards)
        raise


def _write(writing: _Writing) -> None:
    """Replace a file by its planned version, if it is still as it was read."""
    watched = writing.watched
    name = watched.path.name
    with watched.open_folder(make=writing.then.bytes is not None) as folder:
        if writing.then.bytes is None:
            _look_again(writing)
            folder.remove(name)
            folder.sync()
        else:
            new_mode = 0o600 if writing.event.data["after"].startswith("k") else 0o644
            last_look = partial(_look_again, writing)
            replace_in(folder, name, writing.then.bytes, None, last_look, new_mode)


def _look_again(writing: _Writing) -> None:
    if _content(writing.watched) != writing.now.bytes:
        file = writing.event.data["file"]
        raise Changed(f"{file} was changed since it was read; nothing was written")


def _record(home: Project, writings: Sequence[_Writing]) -> list[str]:
    """Record what was written, each file once however often this is repeated; return the places."""
    places = []
    for writing in writings:
        (appended,) = writing.store.ledger.append([writing.event])
        _note_look(writing)
        places.append(writing.store.place_of(appended.position))
    Path(open_own(str(home.root)), JOURNAL).unlink(missing_ok=True)
    return places


def _note_look(writing: _Writing) -> None:
    """Make the next look compare the file with what was written."""
    project = writing.store.project
    looks = Looks.load(project)
    look = Look(plain_digest(writing.then.bytes), time.time())
    looks.files[writing.event.data["file"]] = look
    looks.save(project)
