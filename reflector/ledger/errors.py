"""What can go wrong with a ledger, in the words of the person who has to mend it.

Driver errors are mapped once, in `translated`, at the boundary. A ledger error is always an error:
nothing in this package swallows one.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError


class LedgerError(Exception):
    """Base of every error a ledger raises; its text names the thing, the value and the way out."""


class Conflict(LedgerError):
    """An event id came back with other data than the ledger holds for it, or came twice in one append."""

    def __init__(self, event_id: str, type_: str, position: int, *, at_once: bool = False) -> None:
        super().__init__(
            f"event {event_id} ({type_}) comes twice in one append, with other data; nothing was appended. "
            "Give each event an id of its own"
            if at_once
            else f"event {event_id} ({type_}) is already at position {position} with other data; "
            f"nothing was appended. See it with `reflector show {event_id}`"
        )
        self.event_id = event_id
        self.position = position


class DuplicateName(Conflict):
    """A new bullet has the name of another: a name means one bullet forever, also after its removal."""

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


class AssertionDiffers(LedgerError):
    """Counters were asserted that the ledger does not have; its text gives those that it has."""


class LedgerMoved(LedgerError):
    """The playbook went to another ledger, and this one accepts no event of it."""

    def __init__(self, where: str, playbook: str = "", to: str = "") -> None:
        named = f"the playbook {playbook!r} moved from {where} to {to}" if to else f"this playbook moved from {where}"
        super().__init__(
            f"{named}, and nothing was appended here; set `ledger_url` to {to or 'that ledger'}, with its user and "
            "password where it needs them, then run the same command again"
        )


class LedgerLocked(LedgerError):
    """Another process held the ledger longer than the busy timeout."""


class LedgerForeign(LedgerError):
    """A ledger that is not this person's own; its text says whose it is and how to make it one's own."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written: missing, read-only, full, not a database."""


class LedgerAway(LedgerUnavailable):
    """The server of a ledger cannot be reached or takes no writes: after a failover it is back by itself."""


class LedgerCorrupt(LedgerError):
    """The database answers, but what it holds is not a sound ledger."""


class HeadMisplaced(LedgerCorrupt):
    """A playbook's head does not stand at its last event."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the head of the playbook in {where} does not stand at its last event, and nothing was appended; "
            "find out who moved it with `reflector verify`, then run `reflector rebuild --mend`"
        )


class LedgerGone(LedgerCorrupt):
    """There was a ledger in this file, and it is missing or empty."""


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
        # What the ledger holds, or a driver that words an error with a part of the damaged schema.
        raise _unsound(where, str(error)) from error
    except Exception as error:
        met = getattr(error, "orig", None) or error  # SQLAlchemy wraps what it met
        package = _package(met)
        if package in _DRIVERS:
            text = str(met).strip().splitlines()[0] if str(met).strip() else type(met).__name__
            raise (_of_server if package == "psycopg" else _of_file)(met, text, where) from error
        if package == "sqlalchemy":
            raise LedgerUnavailable(f"the ledger {where} could not be used: {error}") from error
        raise


_DRIVERS = frozenset({"sqlite3", "pysqlite3", "psycopg"})


def _package(error: BaseException) -> str:
    """Return the package that an error's class comes from: a driver before any other."""
    packages = [cls.__module__.split(".")[0] for cls in type(error).__mro__]
    return next((name for name in packages if name in _DRIVERS), packages[0])


def _unsound(where: str, text: str) -> LedgerError:
    return LedgerCorrupt(
        f"{where} is not a sound ledger ({text}); nothing was changed. "
        "Run `reflector verify`, and restore a backup or move the file away"
    )


def _refused(text: str, where: str) -> LedgerError:
    """Return what a trigger or a constraint of the ledger says; its words and names are the same in every language."""
    lower = text.lower()
    if "event_target_once" in lower or "this target is taken" in lower:
        return AlreadyRetracted(
            "this target is already retracted or redacted; nothing was appended. To undo it, retract the retraction"
        )
    if "moved to another ledger" in lower:
        return LedgerMoved(where)
    if "one above the last" in lower or "event_pkey" in lower:
        return HeadMisplaced(where)
    if "unique" in lower and not any(name in lower for name in ("event.playbook_id", "event_id_once")):
        return LedgerCorrupt(
            f"the tables of the ledger {where} have a row that no event says ({text}), and nothing was appended; let "
            "the owner run `reflector rebuild`"
        )
    if "append-only" in lower:
        return LedgerCorrupt(f"the ledger {where} refused a change ({text}); find the cause with `reflector verify`")
    if "foreign key" in lower or "event_target_exists" in lower:
        return NoSuchTarget(
            f"an event's target is not in the ledger {where}; nothing was appended. "
            "Append the target first, or look its id up with `reflector log`"
        )
    return LedgerError(f"the ledger {where} refused the events, nothing was appended: {text}")


#: What stands for the code of a connection that never came about, for which the driver keeps none.
_AWAY, _NOT_LET_IN = "08006", "refused"
_LOCKED = (LedgerLocked, "is locked by another process", "try again")
_DAMAGED = (LedgerCorrupt, "is damaged on the server", "run `reflector verify`, and restore a backup")
#: What a code means: the error, what happened, the way out. SQLite's primary result codes are numbers; a server's are
#: SQLSTATEs or their classes (PostgreSQL's manual, appendix A), and its words come in its language.
_KNOWN: dict[int | str, tuple[type[LedgerError], str, str]] = {
    5: _LOCKED,  # SQLITE_BUSY
    6: _LOCKED,  # SQLITE_LOCKED
    8: (  # SQLITE_READONLY
        LedgerUnavailable,
        "is read-only",
        "check the permissions of its folder and of the file, and those of its -wal and -shm, which keep what the file "
        "had",
    ),
    13: (LedgerUnavailable, "has no space left", "free some and run it again"),  # SQLITE_FULL
    14: (  # SQLITE_CANTOPEN
        LedgerUnavailable,
        "cannot be opened",
        "check that its folder exists, is yours and is writable. To read a ledger on a read-only file system, copy its "
        "folder to a writable one",
    ),
    _NOT_LET_IN: (
        LedgerUnavailable,
        "is refused, which does not pass by itself",
        "check the user, the password, the database and the options of the URL, and the server's pg_hba.conf",
    ),
    "08": (
        LedgerAway,
        "has no connection to its server",
        "check that it runs and takes connections, and the host, user, password and database of the URL; then run the "
        "same command again. After a failover another server takes over within a minute",
    ),
    "25006": (LedgerAway, "may only be read", "name the primary server, or see default_transaction_read_only"),
    "28": (LedgerUnavailable, "refuses the user", "check the user and the password of the URL, and pg_hba.conf"),
    "3D000": (LedgerUnavailable, "is not on the server", "create it (`createdb --encoding=UTF8`), or correct the URL"),
    "3F000": (LedgerUnavailable, "is in no schema that the user may use", "correct the search_path of the URL or role"),
    "40": _LOCKED,
    "42501": (
        LedgerUnavailable,
        "refuses the user",
        "let the ledger's owner run the command, or grant the user what `reflector ledger grants --role writer` prints",
    ),
    "42703": (LedgerCorrupt, "lacks a column", "run `reflector verify`, and restore a backup"),
    "42P01": (LedgerCorrupt, "lacks a table", "run `reflector verify`, and restore a backup"),
    "53100": (LedgerUnavailable, "has no space left", "free some on the server, then run the same command again"),
    "53300": (LedgerAway, "has no connection left", "close some or raise max_connections, then try again"),
    "55P03": _LOCKED,
    "57014": (LedgerLocked, "did not answer in time", "try again, or raise statement_timeout"),
    "57P": (LedgerAway, "is on a server that stops or starts", "run the same command again when it is up"),
    # Raised by a trigger of ours.
    "RF001": (LedgerUnavailable, "takes no event of another time", "correct the clock of this machine, then try again"),
    "22P02": (LedgerCorrupt, "holds data that is not JSON", "run `reflector verify`, and restore a backup"),
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}


def _meant(code: int | str, text: str, where: str) -> LedgerError | None:
    """Return the error that a code or its class means; None for one that is not known."""
    codes = (code,) if isinstance(code, int) else (code, code[:3], code[:2])
    for kind, what, way_out in (_KNOWN[one] for one in codes if one in _KNOWN):
        return kind(f"the ledger {where} {what} ({text}); {way_out}")
    return None


_CORRUPT, _NOT_A_DATABASE, _CONSTRAINT = 11, 26, 19
#: What SQLite and its driver say, under general codes, of tables or texts that somebody changed.
_UNSOUND = ("malformed", "not a database", "no such table", "no such column", "could not decode")


def _of_file(error: BaseException, text: str, where: str) -> LedgerError:
    """Return an error of SQLite, known by its code; its words are the same everywhere."""
    code: int = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == _CONSTRAINT:
        return _refused(text, where)
    if code in (_CORRUPT, _NOT_A_DATABASE) or any(words in text.lower() for words in _UNSOUND):
        return _unsound(where, text)
    return _meant(code, text, where) or LedgerUnavailable(
        f"the ledger {where} could not be used: {text}; check its disk, the space left there and its permissions, "
        "then run the same command again"
    )


#: Refusals that pass by themselves, in the words of libpq, of PgBouncer, and of a server that starts or is full.
_PASSING = (
    *("read-only", "hot standby", "starting up", "shutting down", "in recovery mode", "not yet accepting connections"),
    *("too many", "connection slots", "no more connections", "server_login_retry", "client_login_timeout"),
    *("query_wait_timeout", "cannot connect to server", "server conn crashed"),
)


def _code_of(error: BaseException) -> str:
    """Return the code of an error. One met on the way to the server has none: it says that the server is away, unless
    the server takes connections and refused this one, or libpq did not take the URL."""
    from psycopg import ProgrammingError, conninfo, errors, pq

    if code := getattr(error, "sqlstate", None):
        return str(code)
    tried = getattr(error, "pgconn", None)
    if not isinstance(tried, errors.FinishedPGconn) or isinstance(error, errors.ConnectionTimeout):
        return _NOT_LET_IN if isinstance(error, ProgrammingError) else _AWAY
    if any(words in str(error) for words in _PASSING):
        return _AWAY
    # Without the password, so that no server counts one more wrong one.
    known = {one.keyword.decode(): one.val.decode() for one in tried.info if one.val and one.keyword != b"password"}
    way = conninfo.make_conninfo(**known)
    return _NOT_LET_IN if pq.PGconn.ping(way.encode()) == pq.Ping.OK else _AWAY


#: Where a worker of Citus refuses a COPY or an INSERT … SELECT, only its words come back, under the code XX000: texts
#: of our triggers and names of constraints.
_OURS = ("append-only", "event_target_once", "event_target_exists")
#: How Citus, which speaks English alone, names a worker: in its own errors, and in the context of what came from there.
_WORKER = re.compile(
    r"(?:remote node (?:\S+@)?|to COPY to shard \d+ on |connections to the node |executing command on )(\S+:\d+)"
)
#: What it says under general codes of a worker that it lost. The last two are libpq's, which has no code.
_LOST_AT_COMMIT = "could not commit transaction for shard"
_WORKER_LOST = ("to COPY to shard", "connection", "EOF detected")
#: What Citus says where a trigger names another table than there is, and on a worker to a new playbook.
_TRIGGERS_ELSEWHERE = {"XX000": re.compile("unrecognized RTE kind: 7"), "42P01": re.compile(r'"event_\d+"')}
_NOT_ON_WORKERS = "nextval(sequence) calls in worker nodes"


def _of_citus(error: BaseException, code: str, text: str, where: str) -> LedgerError | None:
    """Return an error that only a server with Citus meets; None for any other one."""
    context: str = getattr(getattr(error, "diag", None), "context", None) or ""
    named = _WORKER.search(text) or _WORKER.search(context)
    is_lost = code in {"XX000", "58030"} and any(words in text for words in _WORKER_LOST)
    worker = f"the Citus server {named[1]}" if named and (is_lost or code.startswith(("08", "57P"))) else ""
    if code == "XX000" and text.startswith(_LOST_AT_COMMIT):
        worker = "a server of its Citus"
    if worker:
        told = text.partition("the following error: ")[2] or text
        return LedgerAway(
            f"the ledger {where} needs {worker}, which does not answer ({told}); start that server or wait until it is "
            "back, then run the same command again"
        )
    if code in _TRIGGERS_ELSEWHERE and _TRIGGERS_ELSEWHERE[code].search(text):
        return LedgerUnavailable(
            f"the triggers of the ledger {where} name other tables than Citus has, as after citus_schema_distribute or "
            f"citus_schema_undistribute ({text}), and nothing was appended; let the owner of the ledger run "
            "`reflector rebuild --mend`"
        )
    if code == "XX000" and _NOT_ON_WORKERS in text:
        return LedgerUnavailable(
            f"the ledger {where} is asked on a worker of Citus, which cannot begin a playbook ({text}); name the "
            "coordinator in the URL"
        )
    return None


def _of_server(error: BaseException, text: str, where: str) -> LedgerError:
    """Return an error of PostgreSQL, known by its code."""
    code = _code_of(error)
    if (met := _of_citus(error, code, text, where)) is not None:
        return met
    if code == "XX000" and "a minute ahead" in text:
        code = "RF001"
    if code == "P0001" or code.startswith("23") or (code == "XX000" and any(words in text for words in _OURS)):
        return _refused(text, where)
    return _meant(code, text, where) or LedgerUnavailable(
        f"the ledger {where} could not be used: {text} (SQLSTATE {code}); see the server's log, "
        "then run the same command again"
    )
