"""The ledgers that are a person's: which file is in each of their projects, and a copy of its
events.

Invariant: no file decides by itself that it is this person's ledger, and neither does a transcript.
Only the notes in the person's own folder do, and `reflector ledger take`. A file that is not the
noted one answers nothing before its hashes were computed again and its tables were filled again.

`notes` are the notes and their lock, `strangers` looks at a file that nobody vouches for,
`admission` decides whether a file may be opened, and `copies` keeps the copy of the events and puts
a ledger back from it.
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
