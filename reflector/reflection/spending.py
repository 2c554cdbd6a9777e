"""What models took: by the ledger and by month, over all ledgers of a person.

Invariant: the ledgers have the truth, each its own: the sum over its answers. The record of the month only informs them
of each other, and being lost or damaged it can never raise what is left by what the asking ledger took itself. A line
says of one ledger how much it has taken this month in all, and how much the request that it is about to make may take
on top, so writing one again changes nothing, and the next line of the same ledger mends whatever a process that died
left open. The most that was ever said of a ledger counts, so an older ledger that came back frees nothing.

One file a month, `tokens-2026-11` in the user's own state folder, is appended to with single writes, which many
processes may do at once. Each looks at the sum after it has written: of two that would go beyond the limit together
both step back.

A window that a budget kept from being judged is open again as soon as the budget allows it. That it waits is read from
the reason of its last `reflection.skipped`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from reflector.events import event as ev
from reflector.files import read_bounded
from reflector.ledger.rows import object_in
from reflector.ledger.store import Ledger, WindowRow
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

    def month(self, ledger: Ledger) -> int:
        """Tokens that all of the person's ledgers took since the calendar month began. Raises as `total`."""
        return self.total(ledger.head().origin, spent_this_month(ledger))

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

    def requests_today(self, one_more: bool = False) -> int:
        """Return how many requests started by themselves today (UTC), with one more where that is to be recorded.

        Raises OSError where they cannot be counted.
        """
        if self.path is None:
            return 0
        path = self.path.with_name(f"requests-{datetime.now(UTC):%Y-%m-%d}")
        if not one_more:
            return path.stat().st_size if path.exists() else 0
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in path.parent.glob("requests-*"):
            if other.name < path.name:
                other.unlink(missing_ok=True)
        fd = os.open(path, _FLAGS, 0o600)
        try:
            os.write(fd, b".")
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

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


#: What is left of a budget below this is not worth a question.
LEAST_ALLOWANCE = 8_000
#: A word of every reason that is a budget's, and of no other reason of the gate.
_WORD = "budget"
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def spent_this_month(ledger: Ledger, now: datetime | None = None) -> int:
    """Tokens that all reflections of the playbook, failed ones as well, took since the calendar month (UTC) began."""
    after = ledger.position_at((now or datetime.now(UTC)).strftime("%Y-%m-01"))
    # Without the answers themselves, which are most of the bytes.
    query = "SELECT meta FROM event WHERE playbook_id = ? AND type IN (?, ?) AND type <> 'bullet.tagged'"
    with ledger.asking() as sql:
        asked = sql.run(f"{query} AND position > ?", ev.REFLECTION_ANSWERED, ev.REFLECTION_FAILED, after)
        metas = asked.fetchall()
    return sum(tokens_of(object_in(meta)[0]) for (meta,) in metas)


def tokens_of(meta: Mapping[str, Any]) -> int:
    """Return every token that an answer took, as its event's meta says."""
    return sum(value for value in map(meta.get, _COUNTS) if isinstance(value, int) and value > 0)


def left_of(limit: int, spent: int) -> int | str:
    """Return the tokens that the month has left; if they are too few for a question, the reason in words."""
    left = limit - spent
    if left >= LEAST_ALLOWANCE:
        return left
    if left <= 0:
        return f"the monthly {_WORD} is spent: {spent:,} of {limit:,} tokens (setting monthly_tokens)"
    return (
        f"{left:,} of {limit:,} tokens of the monthly {_WORD} are left, fewer than the {LEAST_ALLOWANCE:,} that a "
        "request needs (setting monthly_tokens)"
    )


def waiting_for_budget(ledger: Ledger) -> list[WindowRow]:
    """Return the windows that were skipped because of a budget, oldest first."""
    with ledger.asking() as sql:
        reason = sql.text_at("data", "reason")
        query = (
            f"SELECT target_id, {reason} FROM event WHERE playbook_id = ? AND type <> '{ev.BULLET_TAGGED}'"  # noqa: S608
            f" AND type = '{ev.REFLECTION_SKIPPED}' ORDER BY +position"
        )
        last = dict(sql.run(query).fetchall())
    if not any(_WORD in (reason or "") for reason in last.values()):
        return []
    return [window for window in ledger.windows_in("skipped") if _WORD in (last.get(window.event_id) or "")]
