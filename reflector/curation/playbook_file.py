"""playbook.json: what the ledger says, written where agents and people read it, and taken back when they edit it.

Invariant: the file is never overwritten while it says something that the ledger does not know. Before each
write it is compared with what was written last; a baseline is imported, an edit by hand becomes events
by `human`, and a file that cannot be understood is refused or kept aside, never replaced by an empty one.

A file of ours is known by itself: `last_updated` is the time of one event, and the playbook folded up to that
event gives the file's bytes. So an older export that came back (another branch checked out, a backup, a
colleague's machine, a write that was killed) is not mistaken for an edit by hand, and an edit is compared with
the very state that was edited. The digest of the last write is kept only to save that fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from reflector.curation.bullets import add_event, is_taken, new_name
from reflector.curation.erasure import brought_back
from reflector.files import private_folder, read_ours, replace_file
from reflector.ledger import event as ev
from reflector.ledger.event import NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, Loaded, Problem, dump, load
from reflector.playbook.edits import Added, Edit, Moved, Recounted, Removed, Revised, edits_between
from reflector.playbook.fold import REDACTED, fold
from reflector.project import Project

WRITTEN = "playbook.json"


class PlaybookRefused(Exception):
    """A playbook file that cannot be taken in; it was left as it is. `problems` names each entry."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        lines = [f"  {problem}" for problem in self.problems[:20]]
        more = len(self.problems) - len(lines)
        if more > 0:
            lines.append(f"  … and {more} more")
        super().__init__("\n".join([f"{path} was not taken in and is left as it is:", *lines]))


@dataclass(frozen=True, slots=True)
class Synced:
    """What a synchronisation did: bullets imported, edits taken in, the copy of a file that was no playbook,
    and whether the file was written."""

    imported: int = 0
    edits: int = 0
    kept_aside: Path | None = None
    written: bool = False


def sync(ledger: Ledger, project: Project) -> Synced:
    """Take in what changed in playbook.json, then write what the ledger says.

    Raises PlaybookRefused for entries that cannot be taken in, OSError, and LedgerError.
    """
    imported = edits = 0
    kept: Path | None = None
    raw = _read(project.playbook_json)
    if raw is not None:
        digest = _digest(raw)
        last = ledger.checkpoint(WRITTEN)
        if raw != render(ledger) and (last is None or last[1] != digest):
            loaded = load(raw, taken=[row.name for row in ledger.rows()], first=project.first_number)
            base = _exported_at(ledger, loaded) or (last[0] if last else None)
            if loaded.format == "unreadable" and base is not None:
                kept = _keep(project, raw)
            elif loaded.problems:
                raise PlaybookRefused(project.playbook_json, loaded.problems)
            elif base is None:
                imported = import_bullets(ledger, project, loaded, raw)
            else:
                edits = _take_edits(ledger, base, loaded, digest, project.first_number)
    return Synced(imported, edits, kept, _write(ledger, project.playbook_json, raw))


def render(ledger: Ledger) -> bytes:
    """playbook.json as the ledger says: the same bytes for the same ledger, `last_updated` included."""
    return dump(ledger.bullets(), ledger.updated_at())


def set_aside(project: Project) -> tuple[Path, str] | None:
    """Keep a copy of playbook.json as it stands: where, and its digest; None where there is none. Raises OSError."""
    raw = _read(project.playbook_json)
    return None if raw is None else (_keep(project, raw), _digest(raw))


def settle(ledger: Ledger, project: Project) -> Path | None:
    """Hold playbook.json against a history that was put in place as a whole. Raises LedgerError, OSError.

    A file of that history is one of ours, and what a person changed in it is taken in as ever. Any other is no edit of
    it: it is kept aside, to be written anew by the next `sync`; where it is kept, None where nothing had to be.
    """
    raw = _read(project.playbook_json)
    if raw is None or raw == render(ledger) or _exported_at(ledger, load(raw)) is not None:
        return None
    ledger.set_checkpoint(WRITTEN, ledger.head().position, _digest(raw))
    return _keep(project, raw)


def import_bullets(ledger: Ledger, project: Project, loaded: Loaded, raw: bytes, path: Path | None = None) -> int:
    """Adopt a playbook file's bullets with their counters as the baseline; returns how many were new.

    `path` names the file where it is not the project's own playbook.json.

    Bullets that the ledger has with the same section and text are left out; raises PlaybookRefused when a
    name of the file means another bullet in the ledger. The original file is kept in the state folder.
    """
    rows = {row.name: row for row in ledger.rows()}
    taken = [
        _name_taken(b, rows[b.name].status) for b in loaded.bullets if b.name in rows and is_taken(rows[b.name], b)
    ]
    if taken:
        raise PlaybookRefused(path or project.playbook_json, taken)
    # Entries without a name are known by what they say, or a second import would add them once more.
    said = {(row.section, row.text) for row in rows.values() if row.status == "live"}
    new = [
        b
        for b in loaded.bullets
        if b.name not in rows and not (b.name in loaded.named_here and (b.section, b.text) in said)
    ]
    if not new:
        return 0
    _keep(project, raw)
    digest = _digest(raw)
    event = NewEvent(
        ev.PLAYBOOK_IMPORTED,
        identity(ev.PLAYBOOK_IMPORTED, digest, *(b.name for b in new)),
        {
            "sha256": digest,
            "format": loaded.format,
            "bullets": [
                {"name": b.name, "section": b.section, "text": b.text, "helpful": b.helpful, "harmful": b.harmful}
                for b in new
            ],
        },
        actor="import",
    )
    ledger.append([event])
    return len(new)


def _name_taken(bullet: Bullet, status: str) -> Problem:
    return Problem(
        where=f"bullet {bullet.name}",
        what="the name was retired in this ledger"
        if status != "live"
        else "the name means another bullet in this ledger",
        value=bullet.text[:60],
        way_out=f"names are never reused: remove the name to be given a new one, or see `reflector show {bullet.name}`",
    )


def _take_edits(ledger: Ledger, base_position: int, loaded: Loaded, digest: str, first: int) -> int:
    """Append what a person changed since the last write, on top of what the ledger counted meanwhile."""
    base = fold(ledger.history(upto=base_position)).bullets()
    edits = edits_between(base, loaded.bullets, loaded.named_here)
    # An older export that came back (another branch checked out) holds texts that were erased since.
    erased = {bullet.name for bullet in base if bullet.text == REDACTED}
    texts = {edit.name: edit.text for edit in edits if isinstance(edit, Revised) and edit.name in erased}
    back = brought_back(ledger, base_position, texts) if texts else set()
    edits = [edit for edit in edits if not (isinstance(edit, Revised) and edit.name in back)]
    rows = ledger.rows()
    names = [row.name for row in rows]
    # A drain that was killed after it took the same edit in, and before it wrote the file, has added these.
    added = {(row.section, row.text) for row in rows if row.position > base_position and row.status == "live"}
    events: list[NewEvent] = []
    for index, edit in enumerate(edits):
        if isinstance(edit, Added):
            if (edit.section, edit.text) in added:
                continue
            name = edit.name if edit.name and edit.name not in names else new_name(edit.section, names, first)
            names.append(name)
            bullet = Bullet(name, edit.section, edit.text, edit.helpful, edit.harmful)
            events.append(add_event(bullet, origin="playbook.json", actor="human"))
        else:
            events.append(_edit_event(edit, index, digest, base_position))
    ledger.append(events)
    return len(events)


def _edit_event(edit: Edit, index: int, digest: str, base_position: int) -> NewEvent:
    """The event of an edit; its identity is the edited file, what it was edited from, and the edit's place in it."""
    type_: str
    data: dict[str, object]
    if isinstance(edit, Revised):
        type_, data = ev.BULLET_REVISED, {"name": edit.name, "text": edit.text}
    elif isinstance(edit, Moved):
        type_, data = ev.BULLET_MOVED, {"name": edit.name, "section": edit.section}
    elif isinstance(edit, Removed):
        type_, data = ev.BULLET_REMOVED, {"name": edit.name, "reason": "deleted", "into": None}
    elif isinstance(edit, Recounted):
        type_ = ev.BULLET_RECOUNTED
        data = {"name": edit.name, "helpful": edit.helpful, "harmful": edit.harmful}
    else:
        raise TypeError(f"{type(edit).__name__} is not an edit of an existing bullet")
    return NewEvent(type_, identity(type_, digest, base_position, index), data, actor="human")


def _exported_at(ledger: Ledger, loaded: Loaded) -> int | None:
    """The position whose export this file is, or was before it was edited; None for a file that is not ours."""
    if loaded.last_updated is None:
        return None
    position = ledger.position_at(loaded.last_updated)
    events = ledger.at([position])
    return position if events and events[0].recorded_at == loaded.last_updated else None


def _write(ledger: Ledger, path: Path, raw: bytes | None) -> bool:
    if raw is None and not ledger.rows():
        return False
    position = ledger.head().position
    content = render(ledger)
    if raw != content:
        replace_file(path, content)
    digest = _digest(content)
    if (ledger.checkpoint(WRITTEN) or (0, ""))[1] != digest:
        ledger.set_checkpoint(WRITTEN, position, digest)
    return raw != content


def _keep(project: Project, raw: bytes) -> Path:
    """A copy of a file's bytes in the state folder, named by their digest."""
    path = private_folder(project.make_state_dir() / "kept") / f"playbook-{_digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def _read(path: Path) -> bytes | None:
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def _digest(raw: bytes) -> str:
    return sha256(raw).hexdigest()
