"""The errors of a ledger, in words for the user who has to repair it.

Driver errors are mapped once, in `translated`, at the boundary. A ledger error is always an error:
nothing in this package hides one.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Final

from reflector.refusal import Refusal


class LedgerError(Refusal):
    """Base of every error of a ledger. Its text names the thing, the value and the way out."""


class Conflict(LedgerError):
    """An event id came again with other data than the ledger has for it, or a new bullet has the
    name of another one. `position` is that of the earlier event or bullet.
    """

    def __init__(self, text: str, event_id: str, position: int) -> None:
        super().__init__(text)
        self.event_id = event_id
        self.position = position


class NoSuchTarget(LedgerError):
    """An event points to an event that the ledger does not contain."""


class AlreadyRetracted(LedgerError):
    """A target can be retracted once; undoing the retraction is a new event."""


class LedgerMoved(LedgerError):
    """The playbook moved to another ledger, and this ledger accepts no more events of it."""


class LedgerLocked(LedgerError):
    """Another process held the ledger for longer than the busy timeout."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written. For example, it is missing, read-only, full,
    not a database, or not this user's.
    """


class LedgerMisused(LedgerError):
    """A connection of another program that is closed or does not allow an append, or an act that
    needs its own transaction.
    """


class LedgerStrange(LedgerUnavailable):
    """A file in a ledger's place that this user's home has not noted. reflector does not use it."""


class LedgerAway(LedgerUnavailable):
    """The server of a ledger cannot be reached or accepts no writes. After a failover it returns on
    its own.
    """


class LedgerCorrupt(LedgerError):
    """The database answers, but does not contain a sound ledger."""


class LedgerGone(LedgerCorrupt):
    """This file contained a ledger, and is now missing or empty.

    The text is the fault, `; ` and the way out, which `verify` shows, too.
    """


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer reflector than this one."""


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Map a driver's or SQLAlchemy's exception to the ledger's own; `where` names the database."""
    try:
        yield
    except LedgerError:
        raise
    except (UnicodeDecodeError, JSONDecodeError, binascii.Error) as error:
        # Damaged content of the ledger, or an error text of a driver with a part of the schema.
        raise _meant("11", str(error), where) from error
    except Exception as error:
        met = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
        package = _package(met)
        if package not in (*_DRIVERS, "sqlalchemy"):
            raise
        text = (str(met).strip().splitlines() or [type(met).__name__])[0]
        code = _code_of(met) if package == "psycopg" else _code_of_sqlite(met)
        raise _meant(code, text, where) from error


_DRIVERS = frozenset({"sqlite3", "pysqlite3", "psycopg"})


#: SQLite's codes of errors that are temporary or of the machine: permission, busy, locked, no
#: memory, read-only, I/O, full, cannot open.
_PASSES = frozenset({3, 5, 6, 7, 8, 10, 13, 14})


def is_out_of_reach(error: BaseException) -> bool:
    """Return whether SQLite's error means that a file is out of reach, whatever it contains."""
    return _sqlite_code(error) in _PASSES


#: SQLite's codes of a full disk, and of a shared memory file that it cannot enlarge, which has the
#: code of an I/O error as its primary one.
_FULL, _NO_ROOM_FOR_SHM = "13", 4874


def _code_of_sqlite(error: BaseException) -> str:
    """Return the code that gives a SQLite error its meaning."""
    is_full = getattr(error, "sqlite_errorcode", None) == _NO_ROOM_FOR_SHM
    return _FULL if is_full else str(_sqlite_code(error))


def _sqlite_code(error: BaseException) -> int:
    """Return the primary result code of a SQLite error, 0 for another error."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _package(error: BaseException) -> str:
    """Return the package of an error's class: a driver is preferred to any other package."""
    packages = [cls.__module__.split(".")[0] for cls in type(error).__mro__]
    return next((name for name in packages if name in _DRIVERS), packages[0])


def _meant(code: str, text: str, where: str) -> LedgerError:
    """Return the ledger's error for a code and the text after it."""
    for pattern, kind, says in _MEANINGS:
        if re.match(pattern, f"{code} {text}", re.IGNORECASE):
            return kind(says.format(where=f"the ledger {where}", text=text, code=code))
    raise AssertionError("the last pattern matches every error")


#: The codes of a refused row: SQLite's code of constraints and triggers, and PostgreSQL's codes.
_REFUSED = "(?:19 |P0001|23...).*"
#: The codes used for a failed connection, because the driver gives none.
_AWAY, _NOT_LET_IN = "08006", "refused"
HEAD_MISPLACED = (
    "the head of the playbook in {where} does not point to the playbook's last event, so nothing "
    "was appended. Run `reflector verify` and find out who moved the head. Then run `reflector "
    "rebuild --fix`"
)
#: The errors for codes and texts; the first pattern that fits is used. SQLite's primary result
#: codes have at most two digits, and its texts are always English. A server has SQLSTATEs
#: (PostgreSQL's manual, appendix A). Its texts are in the server's language, except those of
#: reflector's triggers.
_MEANINGS: Final[tuple[tuple[str, type[LedgerError], str], ...]] = (
    (
        "RF001",
        LedgerUnavailable,
        (
            "{where} refuses an event with a wrong time ({text}); correct the clock of this "
            "machine, then try again"
        ),
    ),
    (
        f"{_REFUSED}(?:event_target_once|this target is taken)",
        AlreadyRetracted,
        (
            "another event already retracted or erased the event that you named, so nothing was "
            "appended. To undo a retraction, run `reflector undo` with the retraction's "
            "position"
        ),
    ),
    (
        f"{_REFUSED}moved to another ledger",
        LedgerMoved,
        "the playbook has moved from {where} to another ledger, so nothing was appended",
    ),
    (f"{_REFUSED}(?:one above the last|event_pkey)", LedgerCorrupt, HEAD_MISPLACED),
    (
        rf"(?!.*(?:event\.playbook_id|event_id_once)){_REFUSED}unique",
        LedgerCorrupt,
        "nothing was appended: a table of {where} contains a row that does not come from an event "
        "({text}); run `reflector rebuild`. On a server, only the ledger's owner can run this "
        "command",
    ),
    (
        f"{_REFUSED}append-only",
        LedgerCorrupt,
        "{where} refused a change ({text}); find the cause with `reflector verify`",
    ),
    (
        f"{_REFUSED}(?:foreign key|event_target_exists)",
        NoSuchTarget,
        "the event's target is not in {where}, so nothing was appended. Append the target "
        "first, or find its id with `reflector log`",
    ),
    (_REFUSED, LedgerError, "{where} refused the events, so nothing was appended: {text}"),
    (
        "[56] |40|55P03|57014",
        LedgerLocked,
        "{where} is locked by another process or did not answer in time ({text}); try again, or "
        "raise the server's "
        "statement_timeout",
    ),
    (
        r"(?:11|26) |\d\d? .*(?:malformed|not a database|no such (?:table|column)|could not decode)"
        "|42703|42P01|22P02|XX00[12]",
        LedgerCorrupt,
        "{where} is damaged ({text}), so nothing was changed; run `reflector verify`, then "
        "restore a backup or move the file away",
    ),
    (
        "13 |53100",
        LedgerUnavailable,
        (
            "the disk of {where}, or the disk for temporary files, is full ({text}); free "
            "some space, then run the same command again"
        ),
    ),
    (
        "8 |14 ",
        LedgerUnavailable,
        "{where} cannot be opened or written ({text}). Check that the ledger's folder exists "
        "and belongs to you. You need permission to write to the folder, to the file and to its "
        "-wal and -shm files. If the file system is read-only, copy the ledger to another file "
        "system",
    ),
    (
        f"{_NOT_LET_IN}|28|3D000|3F000",
        LedgerUnavailable,
        "the server of {where} refuses the connection ({text}), and trying again does not "
        "help. Check the user, the password, the database and the options of the URL. Also check "
        "the search_path of the role and the server's pg_hba.conf",
    ),
    (
        "08|53300|57P|25006",
        LedgerAway,
        "{where} cannot reach a server that accepts writes ({text}). Check that the server runs "
        "and accepts connections and writes. Also check the host, user, password and database of "
        "the URL, then run the same command again. If another server replaces a failed server, "
        "this takes up to a minute",
    ),
    (
        "42501",
        LedgerUnavailable,
        "{where} does not allow you to do this ({text}); ask the ledger's owner to run the "
        "command. To append events yourself, ask the owner for the rights that `reflector ledger "
        "grants writer` prints",
    ),
    (
        "",
        LedgerUnavailable,
        "{where} could not be used: {text} (code {code}); check the disk, its free space "
        "and the file's permissions, or the server's log, then run the same command again",
    ),
)

#: Texts of temporary refusals, from libpq, from PgBouncer, and from a server that starts or is
#: full.
_PASSING = (
    "read-only",
    "hot standby",
    "starting up",
    "shutting down",
    "in recovery mode",
    "not yet accepting connections",
    "too many",
    "connection slots",
    "no more connections",
    "server_login_retry",
    "client_login_timeout",
    "query_wait_timeout",
    "cannot connect to server",
    "server conn crashed",
)


def _code_of(error: BaseException) -> str:
    """Return the code of an error.

    An error of connecting has none. It means that the server is away, unless the server accepts
    connections and refused this one, or libpq rejected the URL.
    """
    from psycopg import ProgrammingError, conninfo, errors, pq

    if code := getattr(error, "sqlstate", None):
        return str(code)
    tried = getattr(error, "pgconn", None)
    if not isinstance(tried, errors.FinishedPGconn) or isinstance(error, errors.ConnectionTimeout):
        return _NOT_LET_IN if isinstance(error, ProgrammingError) else _AWAY
    if any(words in str(error) for words in _PASSING):
        return _AWAY
    # Without the password, so that the server does not count another failed login.
    known = {
        one.keyword.decode(): one.val.decode()
        for one in tried.info
        if one.val and one.keyword != b"password"
    }
    way = conninfo.make_conninfo(**known)
    return _NOT_LET_IN if pq.PGconn.ping(way.encode()) == pq.Ping.OK else _AWAY
