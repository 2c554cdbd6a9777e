"""The project's own ledger file, beside which `ledger_url` names another ledger.

Invariant: the file is opened to be read only, and not upgraded.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shlex import quote

from reflector.hooks.reach import Check
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.project import Project


def checks_of_unread(ledger: Ledger, project: Project) -> Iterator[Check]:
    """Yield a warning where the project has a ledger file whose history is not in the ledger that counts."""
    file = project.ledger_file
    if not project.config.ledger_url or not is_regular(file):
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            ((events,),) = connection.execute("SELECT count(*) FROM event").fetchall()
            first = connection.execute("SELECT event_id FROM event ORDER BY playbook_id, position LIMIT 1").fetchone()
    except sqlite3.Error:  # not a ledger, or not a sound one: nobody counts in it
        return
    # A ledger that was copied, moved or merged into this one is in it from its first event.
    if first is None or ledger.event(first[0]) is not None:
        return
    yield Check(
        "ledger",
        "warning",
        f"{file} has {events:,} event{'' if events == 1 else 's'}, none of them in the ledger that `ledger_url` names: "
        "its counts are not shown",
        f"REFLECTOR_LEDGER_URL={quote(sqlite_url(file))} REFLECTOR_PLAYBOOK=default reflector export --format ndjson "
        "> old.ndjson, then reflector import old.ndjson --merge; or reflector config unset ledger_url",
    )


def is_regular(path: Path) -> bool:
    """Return whether a path is a file, and no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
