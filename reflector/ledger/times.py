"""Times as the ledger writes them: ISO 8601 in UTC with microseconds, of fixed width, so that they sort as texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


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
    """Return a microsecond later."""
    return _written(datetime.fromisoformat(time) + timedelta(microseconds=1))


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
