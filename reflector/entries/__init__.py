"""The ledgers that belong to this user: which file belongs to each project, and a copy of its
events.

Invariant: neither a file nor a transcript can make a ledger this user's. Only the notes in the
user's own folder and `reflector ledger take` can. If a file is not the noted one, its hashes are
computed again and its tables are filled again before it answers anything.

`notes` has the notes and their lock, `strangers` examines an unknown file, `admission` decides
whether a file may be opened, and `copies` keeps the copy of the events and restores a ledger from
it.
"""

from __future__ import annotations

from reflector.entries.admission import admit, claim
from reflector.entries.copies import (
    drop_imported,
    is_lost_export,
    lost_exports,
    lost_history,
    restore_from_copy,
    update_copy,
)
from reflector.entries.notes import (
    End,
    Entry,
    Place,
    copy_end,
    entries,
    entry_in_force,
    entry_of,
    file_identity,
    forget,
    way_back,
)
from reflector.entries.strangers import Seen, inspect_file

__all__ = [
    "End",
    "Entry",
    "Place",
    "Seen",
    "admit",
    "claim",
    "copy_end",
    "drop_imported",
    "entries",
    "entry_in_force",
    "entry_of",
    "file_identity",
    "forget",
    "inspect_file",
    "is_lost_export",
    "lost_exports",
    "lost_history",
    "restore_from_copy",
    "update_copy",
    "way_back",
]
