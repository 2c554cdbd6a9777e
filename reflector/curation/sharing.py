"""A playbook.json that several clones share through git: the file holds the advice, each clone's ledger its counts.

Invariant: what came through git is credited to `git`, and evidence follows the advice that it is about. A version says
nothing about bullets that its branch never had: it was made before them, or beside them. So another branch that is
checked out neither removes nor rewords what the ledger learned elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reflector.curation.bullets import add_event, new_name
from reflector.curation.edit_events import edit_event, is_so
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.files import read_bounded
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import Loaded, entry_text
from reflector.playbook.edits import Added, Edit, Recounted, Removed, Revised, edits_between
from reflector.project import Project

#: The line of `.claude/.gitattributes` that says so. It is committed, so it holds in every clone.
ATTRIBUTES: Final = "playbook.json merge=reflector"
ACTOR: Final = "git"
_PATH: Final = ".claude/playbook.json"
_MOST_ATTRIBUTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """A file's version in git's index: its blob's id and its content."""

    blob: str
    content: bytes


def attributes_file(root: Path) -> Path:
    """Where a project says that its playbook.json is shared."""
    return root / ".claude" / ".gitattributes"


def is_shared(root: Path) -> bool:
    """True where a project's playbook.json is shared through git."""
    try:
        raw = read_bounded(attributes_file(root), _MOST_ATTRIBUTES)
    except OSError:
        return False
    return ATTRIBUTES.encode() in raw.splitlines()


def version_in_git(root: Path) -> Version | None:
    """playbook.json as git checked it out or as it was added last; None where git does not know it."""
    listed = ask_git(root, "ls-files", "--stage", "-z", "--", _PATH)
    if listed is None or listed.count(b"\0") != 1:
        return None
    mode, blob, *_ = listed.decode("utf-8", "replace").split()
    content = ask_git(root, "cat-file", "blob", blob) if mode.startswith("100") else None
    return Version(blob, content) if content is not None else None


def has_blob(root: Path, content: bytes) -> bool:
    """True where git has this very content in its store: it was committed, added or stashed."""
    blob = ask_git(root, "hash-object", "--stdin", given=content)
    return blob is not None and ask_git(root, "cat-file", "-e", blob.decode("ascii").strip()) is not None


def take_version(ledger: Ledger, project: Project, theirs: Loaded, digest: str) -> int:
    """Append what a version from git says that the ledger does not; how many events it gave. Counts stay the ledger's.

    Advice that the version has under another name was given a new one by a merge, and takes its evidence with it.
    """
    rows = {row.name: row for row in ledger.rows()}
    live = {row.name: row for row in rows.values() if row.status == "live"}
    position = ledger.head().position
    edits = edits_between(
        [row.bullet for row in live.values()],
        theirs.bullets,
        theirs.named_here,
        {bullet.name for bullet in theirs.bullets},
    )
    changed = {edit.name: edit for edit in edits if isinstance(edit, Revised | Removed)}
    said = {(row.section, row.text): row for row in live.values()}
    events: list[NewEvent] = []
    moved: dict[str, str] = {}
    for edit in edits:
        if not isinstance(edit, Added):
            continue
        row = said.get((edit.section, edit.text))
        if row is not None and row.name in changed and edit.name is not None and edit.name not in rows:
            moved[row.name] = edit.name
            events.append(_added(replace(row.bullet, name=edit.name)))
        elif row is None and not _is_older(project.root, rows, edit):
            names = {*rows, *moved.values(), *(str(event.data["name"]) for event in events)}
            name = edit.name if edit.name and edit.name not in names else new_name(edit.section, names)
            events.append(_added(Bullet(name, edit.section, edit.text)))
    for index, edit in enumerate(edits):
        if isinstance(edit, Added):
            continue
        if edit.name in moved:
            events += _left(edit, moved[edit.name], digest, position, index)
        elif not is_so(live[edit.name], edit) and branch_had(project.root, live[edit.name].bullet):
            events.append(edit_event(edit, ACTOR, digest, position, index))
    ledger.append(events)
    return len(events)


def _added(bullet: Bullet) -> NewEvent:
    return add_event(bullet, origin="playbook.json", actor=ACTOR)


def _is_older(root: Path, rows: dict[str, BulletRow], edit: Added) -> bool:
    """True for a bullet that was removed since: the version is from before. False where the branch removed it as well,
    and brought it back."""
    same = [row.name for row in rows.values() if (row.section, row.text) == (edit.section, edit.text)]
    return edit.name in same and not (edit.name == same[-1] and _branch_brought_back(root, rows[edit.name].bullet))


def _left(edit: Edit, to: str, digest: str, position: int, index: int) -> list[NewEvent]:
    """The events of a name whose advice is called `to` now: it is another one's, or nobody's."""
    if isinstance(edit, Removed):
        data = {"name": edit.name, "reason": "merged", "into": to}
        return [NewEvent(ev.BULLET_REMOVED, identity(ev.BULLET_REMOVED, digest, position, index), data, actor=ACTOR)]
    events = [edit_event(edit, ACTOR, digest, position, index)]
    if isinstance(edit, Revised):
        events.append(edit_event(Recounted(edit.name, 0, 0), ACTOR, digest, position, index))
    return events


def branch_had(root: Path, bullet: Bullet) -> bool:
    """True where a version in the history of the present branch says of a bullet what the ledger says now."""
    return bool(_commits(root, bullet, "-1"))


def _branch_brought_back(root: Path, bullet: Bullet) -> bool:
    """True where a commit of the present branch removed what the ledger says of a bullet, as a later one took back."""
    said = entry_text(bullet).encode()
    return any(said not in (ask_git(root, "show", f"{id}:./{_PATH}") or said) for id in _commits(root, bullet, "-20"))


def _commits(root: Path, bullet: Bullet, *options: str) -> list[str]:
    """The commits of the present branch that brought or took what the ledger says of a bullet, the newest first."""
    # Merges are asked too: a name that two clones gave out is changed in one.
    found = ask_git(
        root, "log", *options, "--format=%H", "--full-history", "-m", "--no-show-signature", "--no-textconv",
        "--no-ext-diff", f"-S{entry_text(bullet)}", "HEAD", "--", _PATH,
    )  # fmt: skip
    return (found or b"").decode("ascii").split()


def ask_git(root: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return what git answers about the repository of a folder, None where it refuses or is not there to be asked."""
    # Most playbooks are not shared, and this module is loaded at every session's end.
    from reflector import git

    try:
        return git.ask_git(root, *arguments, given=given)
    except git.GitUnavailable:
        return None
