"""The newest head that this project saw of a ledger on a server, kept on this machine in `heads/` of the state folder.

Invariant: a head that was seen is a prefix of the ledger ever after. A server that lost what it had acknowledged (an
asynchronous failover, an older backup) has another history there, which no chain can show alone. A head that is missed
is never replaced by a newer one: it stays until a person takes its file away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from reflector import files
from reflector.ledger.canonical import PREFIX
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.project import Project

#: More than this is not a file of ours.
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Missed:
    """A head that was seen and is not in the ledger: where it is kept, and where the ledger ends."""

    anchor: Anchor
    file: Path
    ends_at: int

    def __str__(self) -> str:
        return (
            f"the ledger lost events that its server had acknowledged: this machine saw position {self.anchor.position}"
            f" with another history; the ledger ends at {self.ends_at}"
        )

    @property
    def remedy(self) -> str:
        """What brings back what can be had again."""
        return (
            "reflector import-history counts the lost sessions again, changes by hand are made again; "
            f"then remove {self.file}"
        )


def seen(project: Project, ledger: Ledger) -> Anchor | None:
    """Return the newest head that was seen here; None where none was, and of a ledger that is a file here."""
    return _read(_file(project, ledger)) if ledger.engine.dialect == "postgresql" else None


def missed(project: Project, ledger: Ledger) -> Missed | None:
    """Return the head that was seen and is no longer in the ledger. Raises LedgerError."""
    anchor = seen(project, ledger)
    if anchor is None:
        return None
    found = ledger.at([anchor.position])
    if found and found[0].chain == anchor.chain:
        return None
    return Missed(anchor, _file(project, ledger), ledger.head().position)


def keep(project: Project, ledger: Ledger) -> None:
    """Keep the ledger's head as the newest that was seen, unless one is missed. Raises LedgerError, OSError."""
    if ledger.engine.dialect != "postgresql":
        return
    head = ledger.head()
    known, file = seen(project, ledger), _file(project, ledger)
    # Asked again: the server may have lost it since the caller looked, and gone on from there.
    if head.position and (known is None or (known.position < head.position and missed(project, ledger) is None)):
        # As `reflector head` prints it, so that `reflector verify --anchor` takes the file.
        where = f"# {ledger.engine.url.place}, playbook {head.playbook}, seen at {head.recorded_at}"
        text = f"{where}\n{head.position}:{head.chain}\n"
        files.write_durably(files.private_folder(str(file.parent)), text.encode(), file.name)


def _file(project: Project, ledger: Ledger) -> Path:
    which = f"{ledger.engine.url.place}\n{project.config.playbook}"
    if ledger.schema != "public":  # which had no part in the name once
        which += f"\n{ledger.schema}"
    return project.state_dir / "heads" / f"{sha256(which.encode()).hexdigest()[:24]}.txt"


def _read(file: Path) -> Anchor | None:
    try:
        text = files.read_file(str(file), _MOST_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    found = re.search(rf"^([0-9]{{1,15}}):({PREFIX}[0-9a-f]{{64}})\n\Z", text, re.MULTILINE)
    return None if found is None else Anchor(int(found[1]), found[2])
