"""A playbook.json that a question took in and left as it is: what a person changes next, they change in that.

Invariant: an edit that was taken in may be changed again and taken back, as long as the file was not written since. An
older file that git brought takes nothing back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from reflector.curation.edit_events import Base
from reflector.curation.file_writing import checkpoint_of, digest, read
from reflector.curation.sharing import has_blob, is_shared, version_in_git
from reflector.files import private_folder, replace_file
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.document import Loaded
from reflector.project import Project

#: The checkpoint that knows the file, and its copy in the folder `kept`.
_LEFT = "playbook.json left"
_COPY = "left.json"
_NONE = digest("")


@dataclass(frozen=True, slots=True)
class Left:
    """A file's bytes, and the position up to which the ledger knows what they say."""

    position: int
    raw: bytes


def leave(ledger: Ledger, project: Project, raw: bytes) -> None:
    """Remember a file that was taken in and is left as it is. Raises OSError, LedgerUnavailable."""
    if (before := left(ledger, project)) is None or before.raw != raw:
        replace_file(private_folder(project.make_state_dir() / "kept") / _COPY, raw, 0o600)
        ledger.set_checkpoint(checkpoint_of(project, _LEFT), ledger.head().position, _known_by(project, raw))


def left(ledger: Ledger, project: Project) -> Left | None:
    """The file that was left; None where it was written since, where git brought another version of a shared one, and
    where the copy was removed."""
    remembered = ledger.checkpoint(checkpoint_of(project, _LEFT))
    if remembered is None or remembered[1] == _NONE:
        return None
    with suppress(OSError):
        raw = read(project.state_dir / "kept" / _COPY)
        return Left(remembered[0], raw) if raw is not None and _known_by(project, raw) == remembered[1] else None
    return None


def forget_left(ledger: Ledger, project: Project) -> None:
    """Let go of the file that was left: another one was written."""
    remembered = ledger.checkpoint(checkpoint_of(project, _LEFT))
    if remembered is not None and remembered[1] != _NONE:
        ledger.set_checkpoint(checkpoint_of(project, _LEFT), ledger.head().position, _NONE)


def is_changed_again(ledger: Ledger, project: Project, raw: bytes) -> bool:
    """True where a person went on to change the file that was left, or took back what they had changed; not where git
    has it, and brought another one."""
    before = left(ledger, project)
    return before is not None and before.raw != raw and not has_blob(project.root, before.raw)


def as_known(rows: Iterable[BulletRow], position: int, before: Loaded, loaded: Loaded) -> tuple[Base, Loaded]:
    """A file that was taken in up to a position and left, as the base of the next edits, and the file as it is now.

    Both have the names that the ledger gave their bullets: an entry may have had none, or one that was taken.
    """
    live = [row for row in rows if row.status == "live"]
    names = {row.name for row in live}
    said = {(row.section, row.text, row.name) for row in live}
    spare: dict[tuple[str, str], list[str]] = defaultdict(list)
    own = {bullet.name for bullet in before.bullets if (bullet.section, bullet.text, bullet.name) in said}
    for row in live:
        if row.name not in own:
            spare[row.section, row.text].append(row.name)
    known: dict[str, str] = {}
    for bullet in before.bullets:
        if bullet.name in own:
            known[bullet.name] = bullet.name
        elif others := spare[bullet.section, bullet.text]:
            known[bullet.name] = others.pop(0)
        elif bullet.name in names and bullet.name not in before.named_here:
            known[bullet.name] = bullet.name
    base = {known[b.name]: replace(b, name=known[b.name]) for b in before.bullets if b.name in known}
    taken = {bullet.name for bullet in loaded.bullets}
    renamed = {old: new for old, new in known.items() if old not in before.named_here and new not in taken}
    bullets = tuple(replace(bullet, name=renamed.get(bullet.name, bullet.name)) for bullet in loaded.bullets)
    uncounted = frozenset(renamed.get(name, name) for name in loaded.uncounted)
    return Base(tuple(base.values()), position), replace(loaded, bullets=bullets, uncounted=uncounted)


def _known_by(project: Project, raw: bytes) -> str:
    version = version_in_git(project.root) if is_shared(project.root) else None
    return digest(f"{digest(raw)} {version.blob if version is not None else ''}")
