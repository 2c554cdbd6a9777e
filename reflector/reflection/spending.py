"""What models took this month, over all ledgers of a person.

Invariant: the ledgers have the truth, each its own; this record only informs them of each other, and being lost or
damaged it can never raise what is left by what the asking ledger took itself. A line says of one ledger how much it
has taken this month in all, and how much the request that it is about to make may take on top, so writing one again
changes nothing, and the next line of the same ledger mends whatever a process that died left open. The most that was
ever said of a ledger counts, so an older ledger that came back frees nothing.

One file a month, `tokens-2026-11` in the user's own state folder, is appended to with single writes, which many
processes may do at once. Each looks at the sum after it has written: of two that would go beyond the limit together
both step back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from reflector.files import read_bounded
from reflector.locate import user_state

#: About a million lines.
_MOST_BYTES = 64 << 20
#: Ledger (a digest of its origin), tokens it took this month, tokens it has reserved.
_LINE = re.compile(rb"^([0-9a-f]{32}) ([0-9]{1,15}) ([0-9]{1,15})$", re.M)
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


class Spending:
    """The record of one person for the month that it is."""

    def __init__(self, environ: Mapping[str, str] | None = None, now: datetime | None = None) -> None:
        state = user_state(environ)
        month = (now or datetime.now(UTC)).strftime("%Y-%m")
        #: None where the person has no home: each ledger is on its own then.
        self.path = Path(state, f"tokens-{month}") if state else None

    def total(self, origin: str, own: int) -> int:
        """Tokens that all ledgers took or have reserved; `own` is what the asking one says of itself.

        Raises OSError where the record is there and cannot be read.
        """
        ledgers = self._ledgers()
        taken, _ = ledgers.pop(_key(origin), (0, 0))
        return max(taken, own) + sum(sum(other) for other in ledgers.values())

    def write(self, origin: str, own: int, reserved: int = 0) -> None:
        """Record what a ledger took in all and has reserved now, durably. Raises OSError."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.path, _FLAGS, 0o600)
        try:
            # What a write that was cut short left behind does not take this line with it.
            size = os.fstat(fd).st_size
            os.lseek(fd, max(0, size - 1), os.SEEK_SET)
            torn = size > 0 and os.read(fd, 1) != b"\n"
            os.write(fd, b"\n" * torn + f"{_key(origin)} {own} {reserved}\n".encode("ascii"))
            os.fsync(fd)
        finally:
            os.close(fd)

    def reserve(self, origin: str, own: int, tokens: int, limit: int | None) -> int:
        """Reserve tokens for a request; how many are missing for it within the limit, 0 where it may be made.

        Raises OSError.
        """
        self.write(origin, own, tokens)
        missing = 0 if limit is None else max(0, self.total(origin, own) + tokens - limit)
        if missing:
            self.write(origin, own)
        return missing

    def _ledgers(self) -> dict[str, tuple[int, int]]:
        """Return (taken, reserved) by ledger; other lines are skipped."""
        if self.path is None:
            return {}
        try:
            lines = _LINE.findall(read_bounded(self.path, _MOST_BYTES))
        except FileNotFoundError:
            return {}
        found: dict[str, tuple[int, int]] = {}
        for name, taken, reserved in lines:
            key = name.decode("ascii")
            found[key] = max(int(taken), found.get(key, (0, 0))[0]), int(reserved)
        return found


def _key(origin: str) -> str:
    return sha256(origin.encode("utf-8", "replace")).hexdigest()[:32]
