"""The newest head of a ledger on a server that this project saw, kept on this machine in `heads/`
of the state folder.

A ledger in a file does not need this, because its copy keeps the events that the file lacks
(`entries`).

Invariant: a head that was seen stays a prefix of the ledger. If a server loses acknowledged events
(an asynchronous failover, an older backup), it has another history, which no chain can show alone.
A missing head is never replaced by a newer one: it stays until the user removes its file.
"""

from __future__ import annotations

import re
from pathlib import Path

from reflector import entries, files
from reflector.ledger.rows import Anchor
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.project import Project

_HEAD = r"(?m)^([0-9]{1,15}):(%s[0-9a-f]{64})\n\Z"


def newest_seen(project: Project, ledger: Ledger) -> Anchor | None:
    """Return the newest head that was seen here; None without one, and for a ledger in a file."""
    if ledger.engine.dialect != "postgresql":
        return None
    from reflector.ledger.canonical import PREFIX

    try:
        text = files.read_file(str(_file(project, ledger)), 4096).decode("ascii", "replace")
    except OSError:
        return None
    head = re.search(_HEAD % PREFIX, text)
    return None if head is None else Anchor(int(head[1]), head[2])


def missed(project: Project, ledger: Ledger) -> Finding | None:
    """Return the finding that the seen head is no longer in the ledger, or that a file lacks events
    that its copy has; None if nothing is missing.

    Raises: LedgerError.
    """
    if not project.config.ledger_url:
        return entries.lost_history(project.root, ledger)
    anchor = newest_seen(project, ledger)
    if anchor is None:
        return None
    events = ledger.at([anchor.position])
    if events and events[0].chain == anchor.chain:
        return None
    return Finding(
        "head",
        anchor.position,
        "the server has lost events that it had confirmed. This machine saw the events up to "
        f"position {anchor.position}, and some of these events are no longer in the ledger. The "
        f"ledger now ends at position {ledger.head().position}",
        "to bring the lost sessions back into the counts, run `reflector history`. Make your lost "
        f"changes to rules again, then remove {_file(project, ledger)}",
    )


def keep_head(project: Project, ledger: Ledger) -> None:
    """Keep the ledger's head as the newest seen one, unless the ledger lacks that one.

    Raises: LedgerError, OSError.
    """
    if ledger.engine.dialect != "postgresql":
        return
    head = ledger.head()
    anchor = newest_seen(project, ledger)
    if head.position <= (anchor.position if anchor else 0):
        return
    # Checked again: the server may have lost it since the caller looked, and then got new events.
    if anchor is not None and missed(project, ledger) is not None:
        return
    # As `reflector ledger head` prints it, so that `reflector verify --anchor` takes the file.
    place = f"# {ledger.engine.url.place}, playbook {head.playbook}, seen at {head.recorded_at}"
    text = f"{place}\n{head.position}:{head.chain}\n"
    file = _file(project, ledger)
    files.write_durably(files.private_folder(str(file.parent)), text.encode(), file.name)


def _file(project: Project, ledger: Ledger) -> Path:
    from hashlib import sha256

    # The name does not contain the default schema.
    schema = [] if ledger.schema == "public" else [ledger.schema]
    identity = "\n".join([ledger.engine.url.place, project.config.playbook, *schema])
    return project.state_dir / "heads" / f"{sha256(identity.encode()).hexdigest()[:24]}.txt"
