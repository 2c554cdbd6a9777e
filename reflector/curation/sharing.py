"""A playbook.json that several clones share through git: the file holds the advice, each clone's ledger its counts.

Invariant: what came through git is credited to `git`, and evidence follows the advice that it is about. A version says
nothing about bullets that its branch never had: it was made before them, or beside them. So another branch that is
checked out neither removes nor rewords what the ledger learned elsewhere.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from reflector.curation.changes import bullet_event
from reflector.curation.edit_events import GIT, come_back, is_older, is_so, merges_undone
from reflector.events.event import NewEvent
from reflector.files import read_bounded
from reflector.git import git_says
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change, added
from reflector.playbook.document import Loaded, entry_text
from reflector.playbook.names import Names
from reflector.project import Project

#: The line of `.claude/.gitattributes` that says so. It is committed, so it holds in every clone.
ATTRIBUTES: Final = "playbook.json merge=reflector"
_PATH: Final = ".claude/playbook.json"
_MOST_ATTRIBUTES: Final = 1 << 20
_Entry = tuple[bytes, bytes]


class Version(NamedTuple):
    """A file's version in git's index: its blob's id and its content."""

    blob: str
    content: bytes


def attributes_file(root: Path) -> Path:
    """Return where a project says that its playbook.json is shared."""
    return root / ".claude" / ".gitattributes"


def is_shared(root: Path) -> bool:
    """Return whether a project's playbook.json is shared through git."""
    try:
        return ATTRIBUTES.encode() in read_bounded(attributes_file(root), _MOST_ATTRIBUTES).splitlines()
    except OSError:
        return False


def version_in_git(root: Path, path: str = _PATH) -> Version | None:
    """playbook.json, or another file, as git checked it out or as it was added last; None where git does not know
    it."""
    listed = git_says(root, "ls-files", "--stage", "-z", "--", path)
    if listed is None or listed.count(b"\0") != 1:
        return None
    mode, blob, *_ = listed.decode("utf-8", "replace").split()
    content = git_says(root, "cat-file", "blob", blob) if mode.startswith("100") else None
    return Version(blob, content) if content is not None else None


def has_blob(root: Path, content: bytes) -> bool:
    """Return whether git has this very content in its store: it was committed, added or stashed."""
    blob = git_says(root, "hash-object", "--stdin", given=content)
    return blob is not None and git_says(root, "cat-file", "-e", blob.decode("ascii").strip()) is not None


def take_version(ledger: Ledger, project: Project, theirs: Loaded, digest: str) -> int:
    """Append what a version from git says that the ledger does not; how many events it gave. Counts stay the ledger's.

    Advice that the version has under another name was given a new one by a merge, and takes its evidence with it.
    """
    rows = {row.name: row for row in ledger.rows()}
    live = {row.name: row for row in rows.values() if row.status == "live"}
    position = ledger.head().position
    uncounted = replace(theirs, uncounted=frozenset(bullet.name for bullet in theirs.bullets))
    edits = merges_undone(uncounted.edits_of([row.bullet for row in live.values()]), rows)
    changed = {edit.name for edit in edits if edit.kind in ("revise", "remove")}
    said = {(row.section, row.text): row for row in live.values()}
    events: list[NewEvent] = []
    moved: dict[str, str] = {}
    names = Names(rows)
    root, history = project.root, None
    for edit in edits:
        if edit.kind != "add":
            continue
        section, text = edit.section or "", edit.text or ""
        row = said.get((section, text))
        if row is not None and row.name in changed and edit.name is not None and edit.name not in rows:
            moved[row.name] = edit.name
            names.add(edit.name)
            events.append(_added(replace(row.bullet, name=edit.name)))
        elif row is None:
            gone = rows.get(edit.name or "")
            gone = gone if gone is not None and is_older(gone, edit) else None
            if gone is not None and _entry_of(gone.bullet) not in (history := history or _history(root)).removed:
                continue
            name = names.give(edit.name, section)
            bullet = Bullet(name, section, text)
            events.append(_added(bullet if gone is None else come_back(gone, name)))
    for index, edit in enumerate(edits):
        if edit.kind == "add":
            continue
        name = edit.name or ""
        if name in moved:
            events += _left(edit, moved[name], digest, position, index)
        # A version of the present branch said of the bullet what the ledger says now.
        elif not is_so(live[name], edit):
            history = history or _history(root)
            if _entry_of(live[name].bullet) in history.changed:
                events.append(bullet_event(edit, digest, position, index, actor=GIT))
    ledger.append(events)
    return len(events)


def _added(bullet: Bullet) -> NewEvent:
    return bullet_event(added(bullet), actor=GIT, origin="playbook.json")


def _left(edit: Change, to: str, digest: str, position: int, index: int) -> list[NewEvent]:
    """Return the events of a name whose advice is called `to` now: it is another one's, or nobody's."""
    place = (digest, position, index)
    if edit.kind == "remove":
        return [bullet_event(edit, *place, actor=GIT, reason="merged", into=to)]
    events = []
    if edit.kind == "revise":
        recount = bullet_event(Change("recount", edit.name, helpful=0, harmful=0), *place, actor=GIT)
        events.append(replace(recount, data={**recount.data, "into": to}))
    return [*events, bullet_event(edit, *place, actor=GIT)]


class _History(NamedTuple):
    """What commits of the present branch changed in playbook.json: the entries that one added or took out, and those
    that one took out with their name. An entry is the line of a name and that of its text."""

    changed: Set[_Entry]
    removed: Set[_Entry]


def _history(root: Path) -> _History:
    """Read the history of playbook.json, in one question to git."""
    # Merges are asked too: a name that two clones gave out is changed in one.
    log = git_says(
        root, "log", "--format=%x00", "-p", "-U1", "--full-history", "-m", "--no-color", "--no-show-signature",
        "--no-textconv", "--no-ext-diff", "HEAD", "--", _PATH,
    )  # fmt: skip
    changed: set[_Entry] = set()
    removed: set[_Entry] = set()
    for commit in (log or b"").split(b"\0"):
        lines = commit.splitlines()
        before, after = (
            {
                _entry(name[1:], text[1:]): name[:1]
                for name, text in pairwise(line for line in lines if line[:1] in kept)
            }
            for kept in (b" -", b" +")
        )
        changed |= before.keys() ^ after.keys()
        removed |= {entry for entry in before.keys() - after.keys() if before[entry] == b"-"}
    return _History(changed, removed)


def _entry_of(bullet: Bullet) -> _Entry:
    name, text = entry_text(bullet).encode().splitlines()
    return _entry(name, text)


def _entry(name: bytes, text: bytes) -> _Entry:
    return name.strip(), text.strip().removesuffix(b",")
