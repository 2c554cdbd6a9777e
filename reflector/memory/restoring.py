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
from difflib import unified_diff
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
from reflector.memory.bytes import keep_bytes
from reflector.memory.changes import Change, Store, place_of, top_of
from reflector.memory.files import MAX_BYTES
from reflector.memory.lines import (
    hunks_of,
    line_change,
    split,
    without_change,
    without_lines,
)
from reflector.memory.looks import Look, Looks, digest_in_ledger, plain_digest
from reflector.project import Project
from reflector.refusal import Refusal
from reflector.text.secrets import redact

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
    is_whole   whether it becomes the version before them, and not only loses their lines
    """

    store: Store
    file: str
    path: Path
    now: bytes | None
    then: bytes | None
    undid: Sequence[str]
    is_tracked: bool
    place: str = ""
    is_whole: bool = True


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

    command     the one that takes back only the lines
    only_lines  take the lines of the changes out of files that changed since

    Raises:
        UndoRefused: a file changed since, its bytes were not kept, or it cannot be read.
    """
    by_file: dict[tuple[bool, str], list[Change]] = {}
    for change in changes:
        by_file.setdefault((change.store.project.is_users, change.file), []).append(change)
    return [_planned(chain, command, only_lines=only_lines) for chain in by_file.values()]


def _planned(chain: Sequence[Change], command: str, *, only_lines: bool) -> Restored:
    first = chain[0]
    last = chain[-1]
    store = last.store
    if not last.file:
        raise UndoRefused(f"the text of {last.place} was erased, so it cannot be undone")
    now = read_watched(last)
    planned = partial(
        Restored,
        store,
        last.file,
        last.path,
        now,
        undid=[change.event.event_id for change in chain],
        is_tracked=not any(
            digest.startswith("k") for change in chain for digest in (change.before, change.after)
        ),
    )
    is_chain = all(one.after == other.before for one, other in pairwise(chain))
    if store.versions.is_version(last.after, now) and is_chain:
        if first.before == "" and (commit := first.fact("commit")[:7]):
            raise UndoRefused(
                f"{first.file} came with commit {commit}, so undoing {first.place} would remove "
                f"the whole file. To remove it: git rm {quote(first.file)}"
            )
        if first.before == "":
            return planned(then=None)
        then = _version(first)
        if then is None:
            raise UndoRefused(
                f"the earlier version of {first.file} was not kept, so {first.place} cannot be "
                f"undone. See its lines: reflector show {first.place}"
            )
        return planned(then=then)
    if store.versions.is_version(first.before, now) and is_chain:
        raise UndoRefused(f"{first.file} is as it was before {first.place} already")
    then = _without(chain, now)
    if only_lines and then is not None:
        return planned(then=then, is_whole=False)
    raise UndoRefused(_refusal(chain, now, command, is_possible=then is not None))


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


def _without(chain: Sequence[Change], now: bytes | None) -> bytes | None:
    """Return a file of today without the lines of some changes, None if they are not there."""
    content = now
    for change in reversed(chain):
        if content is None or not change.before or not change.after:
            return None  # a whole file came or went
        before = change.store.versions.read(change.before)
        after = change.store.versions.read(change.after)
        if before is not None and after is not None:
            content = without_change(before, after, content)
        else:
            hunks = hunks_of(change.lines("removed"), change.lines("added"))
            is_whole = all(redact(line) == line for hunk in hunks for line in hunk.removed)
            content = without_lines(hunks, content) if hunks and is_whole else None
    return content


def _refusal(chain: Sequence[Change], now: bytes | None, command: str, *, is_possible: bool) -> str:
    last = chain[-1]
    after = last.store.versions.read(last.after)
    shown: list[str] = []
    if after is not None:
        lines = unified_diff(split(after), split(now or b""), n=0, lineterm="")
        shown = [redact(line.rstrip("\n")) for line in lines][2:]
    more = [f"  and {len(shown) - _MOST_LINES} lines more"] if len(shown) > _MOST_LINES else []
    is_seen = UNSEEN not in (last.after, chain[0].before)
    lead = (
        f"{last.file} changed after {last.place}, so nothing was written"
        if is_seen
        else f"{last.file} as it was before {chain[0].place} was not kept, so nothing was written"
    )
    way_out = (
        f"To take back only the lines of {', '.join(change.place for change in chain)}: {command}"
        if is_possible
        else f"Its lines are not there as they were. See them: reflector show {last.place}"
    )
    return "\n".join([f"{lead}:" if shown else f"{lead}.", *shown[:_MOST_LINES], *more, way_out])


def read_watched(change: Change) -> bytes | None:
    """Return the content of the file of a change, None if there is none.

    Raises:
        UndoRefused: it is not a regular file, or cannot be read.
    """
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
        Changed, OSError: a file changed meanwhile or cannot be written; none is then.
    """
    tx = drawn()
    for version in planned:
        for content in (version.now, version.then):
            if content is not None:
                keep_bytes(version.store.project, plain_digest(content), content)
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
    """Finish an undo that a crash interrupted, and return its files. A file that has neither of the
    two contents is left alone.
    """
    notes = _notes_of(home)
    if notes is None:
        return []
    store_of = {store.project.is_users: store for store in stores}
    planned = [
        _from_note(store_of[note["users"]], note)
        for note in notes["files"]
        if note["users"] in store_of
    ]
    written = []
    for version in planned:
        with suppress(Changed, OSError):
            if _content_of(version.store, version.path) != version.then:
                _write_all([version])
            written.append(version)
    places = _record(written, notes["tx"])
    Path(open_own(str(home.root)), _JOURNAL).unlink(missing_ok=True)
    return places


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
        "path": str(version.path),
        "now": _packed(version.now),
        "then": _packed(version.then),
        "undid": list(version.undid),
        "tracked": version.is_tracked,
    }


def _from_note(store: Store, note: Any) -> Restored:
    now = _unpacked(note["now"])
    then = _unpacked(note["then"])
    path = Path(note["path"])
    return Restored(store, note["file"], path, now, then, note["undid"], note["tracked"])


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
            new_mode = 0o600 if version.store.project.is_users else 0o644
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
        raise Changed(f"{version.file} was changed since it was read; nothing was written")


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
