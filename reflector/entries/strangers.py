"""Examines a ledger file of unknown origin, and proves its history.

Invariant: no view or trigger of the file runs, nothing is written, and the time is bounded. The
content of the file is only compared with the user's own notes. It decides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from reflector.events.event import EVENT_REDACTED
from reflector.ledger.errors import LedgerStrange, LedgerUnavailable, is_out_of_reach
from reflector.ledger.rows import Stored
from reflector.ledger.sqlite_file import sqlite_module

#: The limit of SQLite's work on a strange file: some seconds.
_MOST_STEPS = 2_000
_STEP = 100_000
_BATCH = 1_000


class Seen(NamedTuple):
    """The content that a file shows of a playbook, without a proof; `origin` is "" if it has no
    such playbook.
    """

    origin: str
    position: int
    first: str
    last: str


class Look:
    """A connection to a file whose content is not trusted; `origin` is "" if the file has no such
    playbook.
    """

    def __init__(self, connection: Any, playbook: str) -> None:
        self._connection = connection
        self._playbook = playbook
        query = "SELECT id, origin, position, chain FROM playbook WHERE name = ?"
        row = connection.execute(query, (playbook,)).fetchone() or (0, "", 0, "")
        self._id = row[0]
        self.origin = str(row[1])
        self.position = int(row[2])
        self.chain = str(row[3])

    def _run(self, query: str, *values: object) -> Any:
        return self._connection.execute(query, (self._id, *values))

    def chain_at(self, position: int) -> str:
        """Return the chain that the file shows at a position, "" for none."""
        row = self._run(
            "SELECT chain FROM event WHERE playbook_id = ? AND position = ?", position
        ).fetchone()
        return str(row[0]) if row else ""

    def has_event(self, position: int, chain: str) -> bool:
        """Return whether any playbook of the file shows this chain at a position."""
        query = "SELECT 1 FROM event WHERE position = ? AND chain = ?"
        return self._connection.execute(query, (position, chain)).fetchone() is not None

    def has_checkpoint(self, name: str, state_hash: str) -> bool:
        """Return whether the playbook has a checkpoint of this name with this hash."""
        query = "SELECT 1 FROM projection WHERE playbook_id = ? AND name = ? AND state_hash = ?"
        return self._run(query, name, state_hash).fetchone() is not None

    def times(self) -> tuple[str, str]:
        """Return the times of the first and the last event, as the file shows them."""
        row = self._run(
            "SELECT min(recorded_at), max(recorded_at) FROM event WHERE playbook_id = ?"
        ).fetchone()
        return str(row[0] or ""), str(row[1] or "")

    def fault(self) -> str:
        """Return the fault of the history, in words; "" if each event is as it was appended.

        This computes the hash of each event's data and meta, and the chain, from the first event to
        the head. `verify` needs the present schema, but this reads only the columns of every
        revision.
        """
        from hashlib import sha256  # loads OpenSSL, which most questions do not need

        from reflector.ledger.canonical import PREFIX, digest, genesis, leaf

        erased = {row[0] for row in self._run(_ERASED, EVENT_REDACTED)}
        link = bytes.fromhex(genesis(self._playbook, self.origin).removeprefix(PREFIX))
        position = 0
        meta_before = "{}"
        meta_hash = digest("{}")
        try:
            for row in self._rows():
                position += 1
                stored = Stored._make(row)
                if stored.position != position:
                    return (
                        f"the events between position {position - 1} and position "
                        f"{stored.position} are missing"
                    )
                has_data = stored.data is not None
                is_as_appended = stored.data is None or digest(stored.data) == stored.data_hash
                if not is_as_appended or has_data is (stored.event_id in erased):
                    return f"the data at position {position} was changed after it was written"
                if stored.meta != meta_before:  # most events have the meta of the event before
                    meta_before = stored.meta
                    meta_hash = digest(stored.meta)
                hashed = leaf(row[:10], stored.data_hash, meta_hash)
                link = sha256(b"\x03" + link + hashed).digest()
                if f"{PREFIX}{link.hex()}" != stored.chain:
                    return f"the event at position {position} was changed after it was written"
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            return f"the event at position {position} cannot be read ({error})"
        if (self.position, self.chain) != (position, f"{PREFIX}{link.hex()}"):
            return f"the head is at position {self.position}, but the events end at {position}"
        return ""

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        rows = self._run(_EVENTS)
        while batch := rows.fetchmany(_BATCH):
            yield from batch


_ERASED = "SELECT target_id FROM event WHERE playbook_id = ? AND type = ?"
_EVENTS = (
    f"SELECT {', '.join(Stored._fields)} FROM event WHERE playbook_id = ? ORDER BY "  # noqa: S608
    "position"
)


@contextmanager
def looking(file: Path, playbook: str) -> Iterator[Look]:
    """A `Look` at a playbook in a file.

    Raises: LedgerUnavailable, or LedgerStrange for a file that is not a ledger of reflector.
    """
    module = sqlite_module()
    steps = iter(range(_MOST_STEPS))
    # Without a -wal no process has the ledger open. A connection that only reads would create and
    # leave a -wal and a -shm.
    unused = "" if os.path.lexists(f"{file}-wal") else "&immutable=1"
    try:
        with closing(
            module.connect(f"{file.absolute().as_uri()}?mode=ro{unused}", uri=True)
        ) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(lambda: next(steps, None) is None, _STEP)
            kinds = dict(
                connection.execute(
                    "SELECT name, type FROM sqlite_master WHERE name IN ('event', 'playbook')"
                )
            )
            if kinds != {"event": "table", "playbook": "table"}:
                raise LedgerStrange(
                    f"{file} is not a ledger of reflector; to start a new ledger, move this file "
                    "away"
                )
            yield Look(connection, playbook)
    # The errors of a damaged or forged file.
    except (module.Error, ValueError, TypeError, OverflowError) as error:
        if is_out_of_reach(error):
            raise LedgerUnavailable(
                f"{file} cannot be read now ({error}), and was not changed. Check the disk, its "
                "free space and the limits of reflector's process, then run the same command again"
            ) from error
        raise LedgerUnavailable(
            f"{file} cannot be read ({error}); move this file away. The next reflector command "
            "restores your ledger from a copy, or starts a new ledger if you do not have a copy"
        ) from error


def inspect_file(file: Path, playbook: str) -> Seen:
    """Return the content that a file shows of itself, without a proof.

    Raises: LedgerUnavailable, or LedgerStrange for a file that is not a ledger of reflector.
    """
    with looking(file, playbook) as stranger:
        return Seen(stranger.origin, stranger.position, *stranger.times())
