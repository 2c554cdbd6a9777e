"""Files of the folder `kept`: copies of each playbook.json that was replaced or refused.

A copy's name begins with its kind and contains the digest of its content, so keeping it twice
stores it once. This module does not open a ledger.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.files import absolute, private_folder, read_ours, replace_file
from reflector.playbook.document import MAX_BYTES, load
from reflector.project import Project

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

#: The beginnings of file names in the folder `kept`: for a file that was adopted or replaced by a
#: rebuild, and for a file that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"
#: Earlier versions of your files, from which rules were moved.
_TEXT = "file"
FOREIGN = (
    "{path} belongs to another tool, so reflector does not change this file. reflector keeps your "
    "rules in the ledger, and agents still see your rules"
)


def read_playbook(path: Path) -> bytes | None:
    """Return a playbook file's bytes; None if there is no file.

    Raises: OSError.
    """
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def content_digest(content: bytes | str) -> str:
    """Return the SHA-256 of a content, in hex."""
    from hashlib import sha256

    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep_copy(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """Copy a file's bytes into the state folder under their digest, and return the path.

    Raises: OSError, LedgerUnavailable.
    """
    path = kept_folder(project) / f"{kind}-{content_digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def keep_text(project: Project, raw: bytes) -> None:
    """Keep the bytes of one of your files under their digest.

    Raises: OSError, LedgerUnavailable.
    """
    replace_file(kept_folder(project) / f"{_TEXT}-{content_digest(raw)}.md", raw, 0o600)


def kept_text(project: Project, digest: str) -> bytes | None:
    """Return the bytes that `keep_text` kept; None if they are not on this machine.

    Raises: OSError.
    """
    return read_playbook(kept_text_file(project, digest))


def kept_text_file(project: Project, digest: str) -> Path:
    """Return the file in which `keep_text` keeps the bytes of this digest."""
    return project.state_dir / "kept" / f"{_TEXT}-{digest}.md"


def kept_folder(project: Project) -> Path:
    return Path(private_folder(absolute(project.make_state_dir() / "kept")))


def kept_of_others(project: Project) -> list[Path]:
    """Return the copies of playbook.json files that another ledger wrote. The user removes them."""
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def foreign_note(project: Project) -> str:
    """Return the note about another tool's playbook.json; "" if there is none. No ledger is
    opened.
    """
    try:
        raw = read_playbook(project.playbook_json)
    except OSError:
        return ""
    if raw is None or load(raw).format != "foreign":
        return ""
    return FOREIGN.format(path=project.playbook_json)


def drop_known(ledger: Ledger, project: Project) -> None:
    """Remove the copies of playbook.json files of other ledgers, such as an earlier history of this
    one. A copy is only removed if this ledger has all of its bullets.

    Raises: OSError, LedgerError.
    """
    texts = {row.text for row in ledger.rows()}
    for copy in kept_of_others(project):
        loaded = load(read_ours(copy, MAX_BYTES))
        if not loaded.problems and texts.issuperset(bullet.text for bullet in loaded.bullets):
            copy.unlink()


def of_another(path: Path, copy: Path) -> str:
    """Return the note about a file that another ledger wrote."""
    return (
        f"{path} came from another ledger, or from this ledger before you restored an older copy. "
        f"reflector ignores the counts in this file, and saved the file as {copy}. Restore the "
        "newest backup with `reflector ledger restore`, or count the sessions again with "
        "`reflector history` or `reflector ingest`. Then add the file's missing rules with "
        f"`reflector adopt --rename {shlex.quote(str(copy))}`, and remove {copy}. If clones share "
        "this playbook, run `reflector team` in each clone"
    )
