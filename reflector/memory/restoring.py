"""Changes of watched files taken back: each file is written whole, and all of them or none.

Invariant: a file that changed since is left alone. The versions to write are noted in the user's
own folder before the first file is replaced, so that the next command finishes what a crash
interrupted. Nothing is written through a link that leaves the folder of the file.
"""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any

from reflector.events.event import HUMAN, MEMORY_CHANGED, NewEvent, drawn, identity
from reflector.events.memory import GIT, UNDO, UNSEEN, YOU
from reflector.files import Changed, Folder, read_bounded, replace_in, write_durably
from reflector.git import git_says
from reflector.handover import open_own, read_own
from reflector.locate import own_folder
from reflector.memory.bytes import Versions, keep_bytes
from reflector.memory.changes import Change, Store, path_of, place_of, top_of
from reflector.memory.files import MAX_BYTES, shown_name
from reflector.memory.lines import (
    are_exact,
    difference,
    hunks_of,
    line_change,
    without_change,
    without_lines,
)
from reflector.memory.looks import Look, Looks, digest_in_ledger, plain_digest
from reflector.project import Project
from reflector.refusal import Refusal

#: The versions that are about to be written.
_JOURNAL = "undo.json"
_MOST_JOURNAL = 1 << 28
#: Lines of a difference that a refusal shows.
_MOST_LINES = 20


class UndoRefused(Refusal):
    """A change that cannot be taken back; nothing was written."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that is written, or was.

    now, then  its content at present and the one that it gets; None for no file
    undid      the ids of the changes that this undoes
    places     their places
    place      that of the new change, once it is recorded
    left       why other changes are not taken back
    is_whole   whether it becomes the version before them, and not only loses their lines
    """

    store: Store
    file: str
    now: bytes | None
    then: bytes | None
    undid: Sequence[str]
    is_tracked: bool
    places: Sequence[str] = ()
    place: str = ""
    is_whole: bool = True
    left: Sequence[str] = ()

    @property
    def path(self) -> Path:
        return path_of(self.store.project, self.file)

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
    by_file: dict[tuple[bool, str], list[Change]] = {}
    for change in changes:
        by_file.setdefault((change.is_users, change.file), []).append(change)
    planned: list[Restored] = []
    refused: list[str] = []
    for chain in by_file.values():
        try:
            planned.append(_planned(chain))
        except UndoRefused as error:
            refused.append(str(error))
    is_whole = not refused and all(version.is_whole for version in planned)
    if not planned:
        raise UndoRefused("\n".join(refused))
    if only_lines or is_whole:
        return [replace(planned[0], left=[*refused, *planned[0].left]), *planned[1:]]
    parts = [*refused, *map(_part, planned)]
    raise UndoRefused("\n".join(["Nothing was written yet.", *parts, f"Take it back: {command}"]))


def words_of_undo(change: Change) -> list[str]:
    """Return the arguments with which `undo` takes back a change now. Raises UndoRefused."""
    (version,) = plan_undo([change], "", only_lines=True)
    return [change.place] if version.is_whole else [change.place, "--yes"]


def _planned(chain: Sequence[Change]) -> Restored:
    """Return a file without some changes of it: as it was before them, or else without their
    lines.
    """
    first = chain[0]
    last = chain[-1]
    if not last.file:
        raise UndoRefused(f"the text of {last.place} was erased, so it cannot be taken back")
    if last.undone_at:
        raise UndoRefused(f"{last.place} is already undone at {last.undone_at}")
    versions = last.store.versions
    now = read_watched(last)
    planned = replace(_undoing(last.store, chain), now=now)
    is_chain = all(versions.is_same(one.after, other.before) for one, other in pairwise(chain))
    is_last = is_chain and versions.is_version(last.after, now)
    if is_last and not first.before:
        _check_removal(first)
        return planned
    if is_last and (version := _version(first)) is not None:
        return replace(planned, then=version)
    if is_chain and versions.is_version(first.before, now):
        raise UndoRefused(f"{last.shown} is already as it was before {first.place}")
    partial = _without_lines(planned, chain)
    is_whole = versions.is_version(first.before, partial.then)
    if is_last and first.before != UNSEEN and not (is_whole or partial.left):
        raise UndoRefused(_unknown(first))
    return replace(partial, is_whole=is_whole)


def _check_removal(change: Change) -> None:
    """Raise UndoRefused for a change that brought a file with a commit."""
    if commit := change.fact("commit")[:7]:
        raise UndoRefused(
            f"{change.file} came with commit {commit}, so taking back {change.place} would remove "
            f"the whole file. To remove it: git rm {quote(change.file)}"
        )


def _undoing(store: Store, changes: Sequence[Change]) -> Restored:
    """Return the file of some changes, to be written without them."""
    digests = [digest for change in changes for digest in (change.before, change.after)]
    return Restored(
        store,
        changes[0].file,
        now=None,
        then=None,
        undid=[change.event.event_id for change in changes],
        is_tracked=not any(digest.startswith("k") for digest in digests),
        places=[change.place for change in changes],
    )


def _version(change: Change) -> bytes | None:
    """Return the version before a change, as it was kept or as git has it."""
    stored = change.store.versions
    versions = (stored.read(change.before), _in_git(change))
    known = (each for each in versions if each is not None)
    return next((each for each in known if stored.is_version(change.before, each)), None)


def _in_git(change: Change) -> bytes | None:
    commit = change.fact("commit")
    if not commit:
        return None
    return git_says(change.store.project.root, "cat-file", "blob", f"{commit}^:./{change.file}")


def _without_lines(planned: Restored, chain: Sequence[Change]) -> Restored:
    """Return a file of today without the lines of those changes that can be taken out of it."""
    content = planned.now
    taken: list[Change] = []
    left: list[str] = []
    for change in reversed(chain):
        try:
            content = _without(change, content)
            taken.insert(0, change)
        except UndoRefused as error:
            left.append(str(error))
    if not taken:
        raise UndoRefused("\n".join(left))
    return replace(_undoing(planned.store, taken), now=planned.now, then=content, left=left)


def _without(change: Change, content: bytes | None) -> bytes:
    """Return a content without the lines of a change.

    Raises:
        UndoRefused: they are not known exactly, or are not there.
    """
    before = change.store.versions.read(change.before)
    after = change.store.versions.read(change.after)
    hunks = hunks_of(change.lines("removed"), change.lines("added"))
    name = change.shown
    if content is None:
        raise UndoRefused(f"{name} does not exist, so the lines of {change.place} are not in it")
    if not change.before or not change.after:
        verb = "created" if change.after else "removed"
        raise UndoRefused(
            f"{change.place} {verb} {name}, which has changed since; change the file by hand"
        )
    if before is not None and after is not None:
        rest = without_change(before, after, content)
    elif hunks and _has_exact_lines(change):
        rest = without_lines(hunks, content)
    else:
        raise UndoRefused(_unknown(change))
    if rest is None:
        raise UndoRefused(
            f"{name} does not contain the lines of {change.place} any more; change the file by hand"
        )
    return rest


def _unknown(change: Change) -> str:
    return (
        f"the version of {change.shown} before {change.place} was not kept, and the "
        f"changed lines are not known; change the file by hand"
    )


def _has_exact_lines(change: Change) -> bool:
    lines = (text for name in ("added", "removed") for _, text in change.lines(name))
    return not change.event.facts.get("more") and are_exact(lines)


def _part(version: Restored) -> str:
    """Return the part of a refusal about a file that could be written."""
    name = shown_name(version.file)
    if version.is_whole:
        lead = f"{name} can be restored to its version before {version.places[0]}:"
    else:
        lead = f"In {name}, only the lines of {', '.join(version.places)} can be taken back:"
    shown = version.difference
    more = [f"  and {len(shown) - _MOST_LINES} lines more"] if len(shown) > _MOST_LINES else []
    return "\n".join([*version.left, lead, *shown[:_MOST_LINES], *more])


def read_watched(change: Change) -> bytes | None:
    """Return the content of the file of a change, None if there is none.

    Raises:
        UndoRefused: it is not a watched file, not a regular one, or cannot be read.
    """
    if not change.store.watches(change.file):
        raise UndoRefused(f"{change.file} is a link, or not a file that agents load or write here")
    try:
        return _content_of(change.store, change.path)
    except OSError as error:
        raise UndoRefused(
            f"{change.file} cannot be read ({error.strerror}), so nothing was written"
        ) from error


def _content_of(store: Store, path: Path) -> bytes | None:
    try:
        with _folder_of(store, path) as folder:
            return read_bounded(path, MAX_BYTES, lambda _: os.fdopen(folder.open(path.name), "rb"))
    except FileNotFoundError:
        return None


def _folder_of(store: Store, path: Path) -> Folder:
    """Return the folder of a file, open. No link below the project, or below an agent's own folder,
    is followed.
    """
    top = top_of(store.project, path)
    top = top if path.is_relative_to(top) else top.resolve()
    return Folder(str(path.parent), str(top))


def restore(home: Project, planned: Sequence[Restored]) -> list[Restored]:
    """Write files as planned, all of them or none, and return them with the places of their
    changes.

    home  the project whose own folder notes the versions until all are written

    Raises:
        UndoRefused: the present bytes of a file cannot be kept, or an undo waits to be finished.
        Changed, OSError: a file changed meanwhile or cannot be written; none is then.
    """
    if is_interrupted(home):
        raise UndoRefused("an undo was interrupted and could not be finished; free some space")
    tx = drawn()
    for contents in ([each.then for each in planned], [each.now for each in planned]):
        for version, content in zip(planned, contents, strict=True):
            if content is not None:
                keep_bytes(version.store.project, plain_digest(content), content)
    for version in planned:
        if not Versions(version.store.project).has(plain_digest(version.now)):
            raise UndoRefused(
                f"nothing was written, because the present version of {version.file} cannot "
                "be kept. Free some space, or: reflector config set --global memory_keep 200"
            )
    notes = {"tx": tx, "files": [_noted(version) for version in planned]}
    folder = open_own(str(home.root))
    write_durably(folder, json.dumps(notes).encode(), _JOURNAL)
    try:
        _write_all(planned)
    except BaseException:
        Path(folder, _JOURNAL).unlink(missing_ok=True)
        raise
    places = _record(planned, tx)
    Path(folder, _JOURNAL).unlink(missing_ok=True)
    return places


def finish(home: Project, stores: Iterable[Store]) -> list[Restored]:
    """Finish an undo that a crash interrupted, and return its files. If a file has neither of the
    two contents, none is changed, and those that were written become as they were.
    """
    notes = _notes_of(home)
    if notes is None:
        return []
    store_of = {store.project.is_users: store for store in stores}
    planned = [
        _from_note(store_of[note["users"]], note)
        for note in notes["files"]
        if note["users"] in store_of and store_of[note["users"]].watches(note["file"])
    ]
    unwritten = [version for version in planned if not _has(version, version.then)]
    is_certain = len(planned) == len(notes["files"])
    if is_certain and all(_has(version, version.now) for version in unwritten):
        _write_all(unwritten)
    elif not _is_recorded(planned, notes["tx"]):
        written = [version for version in planned if version not in unwritten]
        _write_all([replace(each, now=each.then, then=each.now) for each in written])
        planned = []
    places = _record(planned, notes["tx"])
    Path(open_own(str(home.root)), _JOURNAL).unlink(missing_ok=True)
    return places


def _has(version: Restored, content: bytes | None) -> bool:
    """Return whether a file has a content now."""
    with suppress(OSError):
        return _content_of(version.store, version.path) == content
    return False


def _is_recorded(planned: Sequence[Restored], tx: str) -> bool:
    """Return whether an undo is in a ledger already, so that all its files had been written."""
    return any(version.store.ledger.having([_event(version, tx).event_id]) for version in planned)


def is_interrupted(home: Project) -> bool:
    """Return whether an undo of this project was interrupted."""
    return Path(own_folder(str(home.root)) or "/nonexistent", _JOURNAL).exists()


def _notes_of(home: Project) -> Any:
    with suppress(ValueError):
        return json.loads(read_own(str(home.root), _JOURNAL, _MOST_JOURNAL))
    return None


def _noted(version: Restored) -> dict[str, Any]:
    return {
        "users": version.store.project.is_users,
        "file": version.file,
        "now": _packed(version.now),
        "then": _packed(version.then),
        "undid": list(version.undid),
        "tracked": version.is_tracked,
    }


def _from_note(store: Store, note: Any) -> Restored:
    now = _unpacked(note["now"])
    then = _unpacked(note["then"])
    return Restored(store, note["file"], now, then, note["undid"], note["tracked"])


def _packed(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode("ascii")


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _write_all(planned: Sequence[Restored]) -> None:
    """Replace each file.

    Raises:
        Changed, OSError: as `restore`; the files have their former content then.
    """
    for version in planned:
        _look_again(version)
    replaced: list[Restored] = []
    try:
        for version in planned:
            _write(version)
            replaced.append(version)
    except BaseException:
        for version in replaced:
            with suppress(Changed, OSError):
                _write(replace(version, now=version.then, then=version.now))
        raise


def _write(version: Restored) -> None:
    """Replace a file by its planned version, if it is still as it was read."""
    if version.then is not None:
        _make_folders(version)
    name = version.path.name
    with _folder_of(version.store, version.path) as folder:
        if version.then is None:
            _look_again(version)
            folder.remove(name)
            folder.sync()
        else:
            new_mode = 0o644 if version.is_tracked else 0o600
            last_look = partial(_look_again, version)
            replace_in(folder, name, version.then, None, last_look, new_mode)


def _make_folders(version: Restored) -> None:
    """Make the folders of a file again that was removed with them."""
    missing = []
    path = version.path.parent
    while not path.exists() and not path.is_symlink():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with _folder_of(version.store, folder):
            folder.mkdir()


def _look_again(version: Restored) -> None:
    if _content_of(version.store, version.path) != version.now:
        raise Changed(f"{version.file} has changed since it was read, so nothing was written")


def _record(written: Sequence[Restored], tx: str) -> list[Restored]:
    """Record what was written, each file once however often this is repeated."""
    recorded = []
    for version in written:
        event = _event(version, tx)
        (appended,) = version.store.ledger.append([event])
        _note_look(version)
        recorded.append(replace(version, place=place_of(version.store, appended.position)))
    return recorded


def _event(version: Restored, tx: str) -> NewEvent:
    project = version.store.project
    before, after = (
        digest_in_ledger(project, plain_digest(content), is_tracked=version.is_tracked)
        for content in (version.now, version.then)
    )
    data = {
        "file": version.file,
        "kind": "created" if not before else "edited" if after else "deleted",
        "before": before,
        "after": after,
        **line_change(version.now, version.then).facts,
        **dict.fromkeys(("agent", "session", "call", "commit", "author"), ""),
        "by": YOU,
        "source": UNDO,
        "undid": list(version.undid),
    }
    event_id = identity(MEMORY_CHANGED, version.file, before, after, UNDO, tx)
    return NewEvent(MEMORY_CHANGED, event_id, data, HUMAN)


def _note_look(version: Restored) -> None:
    """Make the next look compare the file with what was written."""
    project = version.store.project
    looks = Looks.load(project)
    digest = plain_digest(version.then)
    looks.files[version.file] = Look(len(version.then or b""), 0, digest, time.time())
    looks.save(project)
