"""What can go wrong with a ledger, in the words of the person who has to mend it.

Driver errors are mapped once, in `translated`, at the boundary. A ledger error is always an error:
nothing in this package swallows one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LedgerError(Exception):
    """Base of every error a ledger raises; its text names the thing, the value and the way out."""


class Conflict(LedgerError):
    """An event id came back with other data than the ledger holds for it."""

    def __init__(self, event_id: str, type_: str, position: int) -> None:
        super().__init__(
            f"event {event_id} ({type_}) is already at position {position} with other data; "
            f"nothing was appended. See it with `reflector log --event {event_id}`"
        )
        self.event_id = event_id
        self.position = position


class NameTaken(Conflict):
    """A new bullet has the name of another: a name means one bullet for ever, removed ones included."""

    def __init__(self, event_id: str, name: str, position: int) -> None:
        LedgerError.__init__(
            self,
            f"the bullet {name} exists since position {position}, and names are never reused; "
            "nothing was appended. Add it under a name that was never given out",
        )
        self.event_id = event_id
        self.position = position


class NoSuchTarget(LedgerError):
    """An event points to one that the ledger does not hold."""


class AlreadyRetracted(LedgerError):
    """A target can be taken out of the count once; undoing that is a new event."""


class NotSo(LedgerError):
    """Counters were asserted that the ledger does not have; its text says what stands."""


class LedgerLocked(LedgerError):
    """Another process held the ledger longer than the busy timeout."""


class LedgerForeign(LedgerError):
    """A ledger that is not this person's own; its text says whose it is and how to make it one's own."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written: missing, read-only, full, not a database."""


class LedgerCorrupt(LedgerError):
    """The database answers, but what it holds is not a sound ledger."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer reflector than this one."""


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Map a driver's or SQLAlchemy's exception to the ledger's own; `where` names the database."""
    from sqlalchemy import exc

    try:
        yield
    except exc.DBAPIError as error:
        raise _translate(error.orig or error, where) from error
    except exc.SQLAlchemyError as error:
        raise LedgerUnavailable(f"the ledger {where} could not be used: {error}") from error
    except LedgerError:
        raise
    except UnicodeDecodeError as error:
        # A driver that words an error with a part of the damaged schema.
        raise LedgerCorrupt(
            f"{where} is not a sound ledger ({error}); nothing was changed. Restore a backup or move the file away"
        ) from error
    except Exception as error:
        if not _is_driver_error(error):
            raise
        raise _translate(error, where) from error


def _is_driver_error(error: BaseException) -> bool:
    return any(cls.__module__.split(".")[0] in {"sqlite3", "pysqlite3", "psycopg"} for cls in type(error).__mro__)


def _translate(error: BaseException, where: str) -> LedgerError:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    lower = text.lower()
    if "this target is taken" in lower or "event_target_once" in lower:
        return AlreadyRetracted(
            "this target is already retracted or redacted; nothing was appended. To undo it, retract the retraction"
        )
    if "append-only" in lower:
        return LedgerCorrupt(f"the ledger {where} refused a change: {text}")
    if "foreign key" in lower or "event_target_exists" in lower:
        return NoSuchTarget(
            f"an event's target is not in the ledger {where}; nothing was appended. "
            "Append the target first, or look its id up with `reflector log`"
        )
    if "constraint" in lower:
        return LedgerError(f"the ledger {where} refused the events, nothing was appended: {text}")
    if "database is locked" in lower or "database table is locked" in lower or "lock timeout" in lower:
        return LedgerLocked(f"the ledger {where} is locked by another process ({text}); try again")
    if "malformed" in lower or "not a database" in lower or "corrupt" in lower or "could not decode" in lower:
        return LedgerCorrupt(
            f"{where} is not a sound ledger ({text}); nothing was changed. "
            "Run `reflector verify`, and restore a backup or move the file away"
        )
    if "is full" in lower or "disk full" in lower or "no space left" in lower:
        return LedgerUnavailable(f"no space left for the ledger {where} ({text}); free some and run it again")
    if "readonly" in lower or "read-only" in lower:
        return LedgerUnavailable(f"the ledger {where} is read-only ({text}); check the permissions of its folder")
    if "unable to open" in lower:
        return LedgerUnavailable(
            f"the ledger {where} cannot be opened ({text}); check that its folder exists and is yours"
        )
    return LedgerUnavailable(
        f"the ledger {where} could not be used: {text}; check its disk, the space left there and its permissions, "
        "then run the same command again"
    )
