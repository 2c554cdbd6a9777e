"""Playbook files: read, kept aside, and adopted with their counters as the baseline that a ledger's counting goes on
from.

Invariant: a file is adopted whole or refused with each entry that keeps it out, and no name comes to mean two bullets.
A copy that is kept aside is readable by its owner alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from reflector.curation.changes import is_taken
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.files import absolute, private_folder, read_ours, replace_file
from reflector.ledger.store import BulletRow, Ledger
from reflector.locate import user_folder
from reflector.mistakes import Finding
from reflector.playbook.admissible import hidden_fault, same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import CORRECT, MAX_BYTES, REBUILD, Loaded, load
from reflector.playbook.names import USER_FIRST
from reflector.project import Project
from reflector.text.secrets import quote

#: How the copies of playbook files in the folder `kept` begin: an adopted one or one that a rebuild replaced, and one
#: that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"
#: The copy of an edited file that a question read and left to be written; a later edit is compared with it.
_EDITED = "edited.json"


class PlaybookRefused(Exception):
    """A playbook file that cannot be imported; it was left as it is. `problems` names each entry."""

    def __init__(self, path: Path, problems: Sequence[Finding]) -> None:
        self.path = path
        self.problems = tuple(problems)
        # No ledger can write this file again: it holds none of these bullets yet.
        lines = [f"  {problem}".replace(REBUILD, CORRECT) for problem in self.problems[:20]]
        more = len(self.problems) - len(lines)
        if more > 0:
            lines.append(f"  … and {more} more")
        super().__init__("\n".join([f"{path} cannot be imported and is left as it is:", *lines]))


def import_bullets(ledger: Ledger, project: Project, loaded: Loaded, raw: bytes, path: Path | None = None) -> None:
    """Adopt a playbook file's bullets with their counters as the baseline.

    `path` names the file where it is not the project's own playbook.json.

    Bullets that the ledger has with the same section and text are left out; raises PlaybookRefused when a
    name of the file means another bullet in the ledger. The original file is kept in the state folder.
    """
    new = new_bullets(ledger, loaded, path or project.playbook_json)
    if not new:
        return
    keep(project, raw)
    whole = digest(raw)
    event_id = identity(ev.PLAYBOOK_IMPORTED, whole, *(b.name for b in new))
    data = {"sha256": whole, "format": loaded.format, "bullets": [asdict(b) for b in new]}
    ledger.append([NewEvent(ev.PLAYBOOK_IMPORTED, event_id, data, actor="import")])


def new_bullets(ledger: Ledger, loaded: Loaded, path: Path) -> list[Bullet]:
    """Return the bullets of a file that the ledger lacks. Raises PlaybookRefused as `import_bullets` does."""
    rows = {row.name: row for row in ledger.rows()}
    if problems := names_taken(rows.values(), loaded) or unfit(loaded.bullets, hidden_fault):
        raise PlaybookRefused(path, problems)
    # Entries without a name are known by what they say, or a second import would add them once more.
    said = {(row.section, row.text) for row in rows.values() if row.status == "live"}
    return [
        b
        for b in loaded.bullets
        if b.name not in rows and not (b.name in loaded.named_here and (b.section, b.text) in said)
    ]


def without_known(ledger: Ledger, loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Return a file without the new bullets whose text a live one has, in any section, and a line for each of them."""
    rows = ledger.rows()
    known = {row.name for row in rows}
    saying = {same_words(row.text): row.name for row in reversed(rows) if row.status == "live"}
    says = {b.name: saying.get(same_words(b.text)) for b in loaded.bullets if b.name not in known}
    kept = tuple(b for b in loaded.bullets if says.get(b.name) is None)
    lines = [f"{loaded.places[name]}: {other} says this already" for name, other in says.items() if other is not None]
    return replace(loaded, bullets=kept), lines


def unfit(bullets: Iterable[Bullet], fault: Callable[[str], str | None]) -> tuple[Finding, ...]:
    """Return the bullets of a file whose text cannot be new advice, as `fault` says of it."""
    remedy = "correct the text; nothing of the file is imported until then"
    return tuple(
        Finding("playbook", f"bullet {bullet.name}", what, remedy, quote(bullet.text, 60))
        for bullet in bullets
        if (what := fault(bullet.text))
    )


def names_taken(rows: Iterable[BulletRow], loaded: Loaded) -> tuple[Finding, ...]:
    """Return the names of a file that mean another bullet in the ledger."""
    known = {row.name: row for row in rows}
    found: list[Finding] = []
    for b in loaded.bullets:
        if b.name in known and is_taken(known[b.name], b):
            is_live = known[b.name].status == "live"
            what = "the name means another bullet in this ledger" if is_live else "the name was retired in this ledger"
            way = f"names are never reused: remove the name to be given a new one, or see `reflector show {b.name}`"
            found.append(Finding("playbook", f"bullet {b.name}", what, way, b.text[:60]))
    return tuple(found)


def read(path: Path) -> bytes | None:
    """Return a playbook file's bytes; None where there is none. Raises OSError."""
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def digest(content: bytes | str) -> str:
    """Return what a content is known by."""
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """Return a copy of a file's bytes in the state folder, named by their digest. Raises OSError, LedgerUnavailable."""
    path = _kept(project) / f"{kind}-{digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def keep_edited(project: Project, raw: bytes) -> None:
    """Keep an edited file until it is written. Raises OSError, LedgerUnavailable."""
    replace_file(_kept(project) / _EDITED, raw, 0o600)


def _kept(project: Project) -> Path:
    return Path(private_folder(absolute(project.make_state_dir() / "kept")))


def edited(project: Project) -> bytes | None:
    """Return the edited file that was kept last; None where none was. Raises OSError."""
    return read(project.state_dir / "kept" / _EDITED)


def kept_of_others(project: Project) -> list[Path]:
    """The copies of playbook.json that another ledger had written; they lie there until their owner removes them."""
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def of_another(path: Path, kept: Path) -> str:
    """Return the note about a file that another ledger wrote."""
    return (
        f"{path} was written by another ledger, or by this one before an older copy of it came back. Nothing of it was "
        f"counted; it is kept as {kept}. Put the newest backup in place with `reflector ledger restore`, or count the "
        "sessions again with `reflector import-history` or `reflector ingest`; after that, "
        f"`reflector import {kept}` adds the bullets that only this file has. Remove it when you are done"
    )


def told_beside(project: Project) -> tuple[int, list[str]] | None:
    """Return how many bullets of the user's own the agent gets beside a project's, and the names that the project gave
    to others; None where there are none of the user's own."""
    own = set() if project.is_users else _names(Path(user_folder()) / ".claude" / "playbook.json", USER_FIRST)
    return (len(own), sorted(own & _names(project.playbook_json, 0))) if own else None


def _names(path: Path, first: int) -> set[str]:
    try:
        loaded = load(read_ours(path, MAX_BYTES), first=first)
    except OSError:  # missing; of other trouble `status` tells
        return set()
    return {bullet.name for bullet in loaded.bullets} - loaded.named_here
