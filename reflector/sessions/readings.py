"""Where the reading of each large transcript can go on: a hint beside the ledger, which may be lost at any time.

Invariant: a hint saves time and decides nothing. It is used only if the ledger still has, at the same position, the
very event that was its last one when the hint was written. That event's hash covers all before it, so every record up
to the checkpoint is recorded. Otherwise, and where the transcript is not what was read
(`reflector.transcripts.checkpoint`), the transcript is read whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector import files
from reflector.transcripts.checkpoint import Checkpoint
from reflector.transcripts.formats import scan, scan_on

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.transcripts.reading import Gatherer, Scan

#: Bytes up to a checkpoint from which on a hint is kept: to read less again costs little.
WORTH = 1024 * 1024
#: Transcripts that are known; the oldest hints go.
_MOST = 200
_MOST_BYTES = 16 * 1024 * 1024


class Readings:
    """Reads the transcripts of one project; the hints are in its state folder. Call it under the project's lock.

    `gather` is given the messages of people, as `scan` has it, and `gathered` is what it returned of each window that
    was taken in.
    """

    def __init__(self, state: Path, gather: Gatherer | None = None) -> None:
        self._folder = state / "readings"
        self._gather = gather
        self.gathered: dict[str, Sequence[Any]] = {}

    def read(self, ledger: Ledger | None, path: Path, limit: int | None) -> Scan:
        """Scan what is new to a ledger in a transcript where that can be told, else all of it.

        Raises OSError and UnknownTranscript as `scan` does, and LedgerError.
        """
        on = self._scan_on(ledger, path, limit) if ledger is not None else None
        return on or scan(path, limit, gather=self._gather)

    def _scan_on(self, ledger: Ledger, path: Path, limit: int | None) -> Scan | None:
        try:
            held = _held(self._folder, path)
            since = Checkpoint.of_json(held["checkpoint"])
            position, chain = int(held["ledger"][0]), str(held["ledger"][1])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        with ledger.asking() as sql:
            known = sql.run("SELECT 1 FROM event WHERE playbook_id = ? AND position = ? AND chain = ?", position, chain)
            if known.fetchone() is None:
                return None
        return scan_on(path, limit, since, gather=self._gather)

    def keep(self, ledger: Ledger, path: Path, found: Scan, window: str) -> None:
        """Keep where the reading of a transcript can go on, now that its records are in the ledger, with a window that
        was the last of its session. Raises LedgerError."""
        checkpoint = found.checkpoint
        if checkpoint is None or checkpoint.offset < WORTH:
            _keep(self._folder, path, None)
            return
        head = ledger.head()
        kept = {"ledger": [head.position, head.chain], "checkpoint": replace(checkpoint, window=window).as_json()}
        _keep(self._folder, path, kept)


def _held(folder: Path, path: Path) -> Any:
    return json.loads(files.read_ours(_file(folder, path), _MOST_BYTES))


def _keep(folder: Path, path: Path, held: dict[str, Any] | None) -> None:
    # A folder that cannot be written costs time.
    with suppress(OSError):
        if held is None:
            _file(folder, path).unlink(missing_ok=True)
            return
        files.private_folder(files.absolute(folder))
        files.replace_file(_file(folder, path), json.dumps(held, separators=(",", ":")).encode(), 0o600)
        kept = list(folder.iterdir())
        for oldest in sorted(kept, key=lambda path: path.lstat().st_mtime_ns)[: max(0, len(kept) - _MOST)]:
            oldest.unlink(missing_ok=True)


def _file(folder: Path, path: Path) -> Path:
    return folder / f"{sha256(os.fsencode(path)).hexdigest()[:32]}.json"
