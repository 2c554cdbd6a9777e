"""Times as the ledger writes them: ISO 8601 in UTC with microseconds, of fixed width, so that they sort as texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reflector.ledger.errors import LedgerCorrupt


def utc_now() -> str:
    """Now, as the ledger writes time: ISO 8601 in UTC with microseconds, of fixed width."""
    return _written(datetime.now(UTC))


def later_than(recorded_at: str) -> str:
    """Now, or a microsecond after a time that a clock set back has not reached.

    Strictly later, so that a time names the one append that wrote it: `last_updated` does so in playbook.json.
    """
    now = utc_now()
    return now if now > recorded_at else just_after(recorded_at)


def just_after(time: str) -> str:
    """Return a microsecond later. Raises LedgerCorrupt for a time after which there is none."""
    try:
        return _written(datetime.fromisoformat(time) + timedelta(microseconds=1))
    except (OverflowError, ValueError) as error:
        raise LedgerCorrupt(
            f"the head is at the time {time!r}, behind which nothing can be recorded; run `reflector verify`: where "
            "only the head is wrong, `reflector verify --mend-head` mends it, else restore a backup"
        ) from error


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
