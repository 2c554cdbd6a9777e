"""The project's own ledger file, beside which `ledger_url` names another ledger.

Invariant: the file is opened to be read only, and not upgraded; nothing is left beside it.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shlex import quote

from reflector.events.event import LEDGER_MERGED, SESSION_RECORDED
from reflector.hooks.reach import Check
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.project import Project

#: The first session, or without one the first event. An added bullet and an adopted playbook.json can be the same event
#: in two ledgers.
_FIRST = (
    "SELECT playbook.origin, event.event_id, event.data_hash"
    " FROM event JOIN playbook ON playbook.id = event.playbook_id"
    " ORDER BY event.type <> ?, event.playbook_id, event.position LIMIT 1"
)


def checks_of_unread(ledger: Ledger, project: Project) -> Iterator[Check]:
    """Yield a warning where the project has a ledger file whose history is not in the ledger that counts."""
    file = project.ledger_file
    url = ledger.engine.url
    if not project.config.ledger_url or not is_regular(file) or (url.is_file and file.samefile(url.database)):
        return
    try:
        with read_only(file) as connection:
            ((events,),) = connection.execute("SELECT count(*) FROM event").fetchall()
            first = connection.execute(_FIRST, [SESSION_RECORDED]).fetchone()
    except sqlite3.Error:  # not a ledger, or not a sound one: nobody counts in it
        return
    if first is None or _holds(ledger, *first):
        return
    yield Check(
        "ledger",
        "warning",
        f"{file} has {events:,} event{'' if events == 1 else 's'}, and its history is not in the ledger that "
        "`ledger_url` names: its counts are not shown",
        f"REFLECTOR_LEDGER_URL={quote(sqlite_url(file))} REFLECTOR_PLAYBOOK=default reflector export --format ndjson "
        "> old.ndjson, then reflector import old.ndjson --merge; or reflector config unset ledger_url",
    )


def _holds(ledger: Ledger, origin: str, event_id: str, data_hash: str) -> bool:
    """Return whether another ledger's history is in this one, by its origin and one of its events."""
    if ledger.head().origin == origin:  # copied or moved
        return True
    here = ledger.event(event_id)
    if here is not None and here.data_hash == data_hash:
        return True
    # A merge may give other names, and an event that has one has another id and hash.
    return any((event.data or {}).get("origin") == origin for event in ledger.events(types=[LEDGER_MERGED]))


@contextmanager
def read_only(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a ledger's file to read it, and leave nothing beside it. Raises sqlite3.Error."""
    # Without a -wal nobody has the ledger open. A connection that only reads would make one and a -shm, and leave both.
    unused = "" if Path(f"{file}-wal").exists() else "&immutable=1"
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro{unused}", uri=True)) as connection:
        yield connection


def is_regular(path: Path) -> bool:
    """Return whether a path is a file, and no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
