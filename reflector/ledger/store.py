"""The ledger: open it, append events to it, rebuild its tables.

Invariant: an append is one transaction. It takes the playbook's lock, gives the new events the
positions after the head, extends the chain, folds them into the tables and commits, or leaves
nothing behind. Work that needs no lock (canonical form, hashes) is done before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import reflector.ledger
from reflector.events.event import drawn
from reflector.ledger.engines import Engine, open_engine, rewrite_file, write_transaction
from reflector.ledger.errors import (
    LedgerCorrupt,
    LedgerMoved,
    LedgerTooNew,
    LedgerUnavailable,
    translated,
)
from reflector.ledger.migration import (
    EARLIER,
    HEAD_REVISION,
    copy_before_upgrade,
    ensure_current,
    made_digest,
    make_triggers_and_views,
    noting_statement,
    revision_of,
)
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Head, WindowRow
from reflector.ledger.sqlite_file import claim_file, copy_of
from reflector.ledger.statements import CODE_VERSION, OWNERLESS, TABLES, Statements, set_checkpoint
from reflector.ledger.url import sqlite_url
from reflector.playbook.entry import BulletRow

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    import sqlalchemy as sa

    from reflector.events.event import Appended, NewEvent
    from reflector.ledger.append import Writing
    from reflector.ledger.migration import Upgraded
    from reflector.ledger.projection import Progress
    from reflector.ledger.redaction import Takes

__all__ = ["BulletRow", "Head", "Ledger", "WindowRow"]

_NOT_READY = (
    "{where} does not contain a ledger of this version; create or upgrade the ledger with "
    "`Ledger.open(engine)`, outside of your own transaction"
)
_FIND = (
    "SELECT playbook.id, projection.code_version, projection.state_hash FROM playbook LEFT JOIN "
    "projection"
    " ON projection.playbook_id = playbook.id AND projection.name = ? WHERE playbook.name = ?"
)


class Ledger(Reader):
    """One playbook's ledger in a database. Use `Ledger.open`, or a context manager to close it.

    on_close  called with the ledger before its connections are released
    file      the (device, inode) of a project's ledger when it was opened
    draw      returns a new transaction id for a command; for a project's ledger, an id that only
              its user's own folder can recognise
    """

    on_close: Callable[[Ledger], None] | None = None
    file: tuple[int, int] = (0, 0)
    draw: Callable[[], str] = staticmethod(drawn)
    #: The folder of the copy if this reads a copy, otherwise None.
    _copy: TemporaryDirectory[str] | None = None

    @classmethod
    def open(
        cls,
        database: str | sa.Engine,
        playbook: str = "default",
        *,
        accepts_newer: bool = False,
        keeps_copy: bool = True,
    ) -> Self:
        """Open a ledger by its SQLAlchemy URL, or in the database of an SQLAlchemy engine. Create
        or upgrade it on first use. A SQLite ledger that was lost is not created again.

        Only its owner can read a new SQLite file. With `keeps_copy`, an older SQLite ledger is
        copied beside itself before its upgrade. With `accepts_newer`, the ledger is opened even if
        a newer version filled its tables; `repair_triggers` marks them as this version's.

        Raises: LedgerUnavailable, LedgerTooNew, LedgerGone, LedgerCorrupt or LedgerLocked.
        """
        engine = open_engine(database)
        try:
            with translated(engine.url.shown):
                if engine.url.is_file:
                    claim_file(Path(engine.url.database))
                upgraded = ensure_current(engine, keeps_copy=keeps_copy)
                known = _playbook(engine, playbook)
            if not accepts_newer:
                _refuse_newer_tables(playbook, known.code_version)
            ledger = cls(engine, known.playbook_id, playbook)
            ledger._bring_up_to_date(known, upgraded, keeps_copy=keeps_copy)
        except OSError as error:
            engine.close()
            raise LedgerUnavailable(
                f"the ledger {engine.url.database} cannot be created ({error.strerror}); check "
                f"that {Path(engine.url.database).parent} exists and belongs to you"
            ) from error
        except BaseException:
            engine.close()
            raise
        return ledger

    def _bring_up_to_date(
        self, known: _Known, upgraded: Upgraded | None, *, keeps_copy: bool
    ) -> None:
        """Fill the tables of an older version again, and replace its triggers. With `keeps_copy`
        the ledger is copied first, and the upgrade is reported.

        Raises: a LedgerError.
        """
        is_older = known.code_version is None or known.code_version < CODE_VERSION
        has_earlier_triggers = known.has_earlier_triggers(self.engine)
        revision = HEAD_REVISION
        copy = None
        if upgraded:  # its copy was made before the schema was upgraded
            revision, copy = upgraded
        elif keeps_copy and (is_older or has_earlier_triggers):
            copy = self._copy_before_rebuild()
        if is_older and copy is None and keeps_copy:
            reflector.ledger.tell(
                f"reflector was upgraded, and now rebuilds the tables of {self.engine.url.shown} "
                "once"
            )
        if is_older:
            self.rebuild()
        if has_earlier_triggers:
            self.repair_triggers()
        if copy:
            reflector.ledger.tell(_upgraded(copy, revision))

    def _copy_before_rebuild(self) -> Path | None:
        """Copy a SQLite ledger before its tables or triggers are created again, and return the
        copy. Return None on a server, in the database of another program, for a ledger without
        events, or if the copy of an unfinished upgrade has them all.

        Raises: LedgerUnavailable.
        """
        from reflector.ledger.sqlite_copy import before_upgrade, has_head

        if not self.engine.url.is_file or self.engine.is_guest:
            return None
        with write_transaction(self.engine):
            head = self.head()
            if not head.position:
                return None
            before = before_upgrade(Path(self.engine.url.database))
            end = (head.origin, head.position, head.chain)
            if before and has_head(before.file, self.name, end):
                return None
            return copy_before_upgrade(self.engine)

    @classmethod
    def on(cls, connection: sa.Connection, playbook: str = "default") -> Self:
        """Return the ledger in the database of an SQLAlchemy connection.

        Appended events are part of the connection's transaction. The host program commits it or
        rolls it back, and other writers wait until then. `Ledger.open` must have created the
        ledger. An append raises LedgerMisused for a connection that does not allow it;
        docs/embedding.md lists these connections.

        Raises:
            LedgerMisused: The connection is closed.
            LedgerUnavailable: The database is in memory, or contains no ledger, no such playbook,
                or an older ledger.
            LedgerTooNew: A newer version of reflector wrote the ledger.
            LedgerCorrupt: The database is damaged, or has other tables with a ledger's names.
        """
        from reflector.ledger.hosts import HostEngine

        engine = HostEngine(connection)
        not_ready = LedgerUnavailable(_NOT_READY.format(where=engine.url.shown))
        with translated(engine.url.shown), engine.connection() as driver:
            if revision_of(engine, driver) != HEAD_REVISION:
                raise not_ready
            statements = Statements(driver.cursor(), engine.dialect, 0)
            known = _find_playbook(statements, playbook)
        if known is None:
            raise LedgerUnavailable(
                f"{engine.url.shown} does not have a playbook {playbook!r}; create this playbook "
                f"with `Ledger.open(engine, {playbook!r})`"
            )
        _refuse_newer_tables(playbook, known.code_version)
        if known.code_version != CODE_VERSION or known.has_earlier_triggers(engine):
            raise not_ready
        return cls(engine, known.playbook_id, playbook)

    @classmethod
    def open_file(
        cls,
        path: Path,
        playbook: str = "default",
        *,
        accepts_newer: bool = False,
        keeps_copy: bool = True,
    ) -> Self:
        """Open the SQLite ledger in a file. Only their owner can read a new file and its folder.

        Raises: LedgerUnavailable if the folder cannot be created, and as `open`.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise LedgerUnavailable(
                f"the folder of the ledger {path} cannot be created ({error.strerror}); "
                "check the permissions of the folders above it"
            ) from error
        return cls.open(
            sqlite_url(path), playbook, accepts_newer=accepts_newer, keeps_copy=keeps_copy
        )

    @classmethod
    def open_copy(
        cls,
        path: Path,
        playbook: str = "default",
        *,
        accepts_newer: bool = False,
        rebuilds: bool = False,
    ) -> Self:
        """Open a copy of a SQLite ledger whose file cannot be written, only to read it.

        The copy belongs to this process and is removed when it is closed. With `rebuilds`, its
        tables are filled again from the events, because only the events were proved.

        Raises: as `open`.
        """
        from tempfile import TemporaryDirectory

        folder = TemporaryDirectory(prefix="reflector-ledger-")
        try:
            url = sqlite_url(copy_of(path, Path(folder.name)))
            ledger = cls.open(url, playbook, accepts_newer=accepts_newer, keeps_copy=False)
            if rebuilds:
                ledger.repair_triggers()
                ledger.rebuild()
        except OSError as error:
            folder.cleanup()
            raise LedgerUnavailable(
                f"the ledger {path} is read-only, so reflector needs a temporary copy of the "
                f"ledger, but could not make the copy ({error.filename}: {error.strerror}). Make "
                "the ledger readable, or set TMPDIR to a folder in which reflector can make the "
                "copy"
            ) from error
        except BaseException:
            folder.cleanup()
            raise
        ledger._copy = folder
        ledger.only_reads = (
            f"the ledger {path} is read-only; to change the ledger, check the permissions of its "
            "folder, or copy the project to a file system on which you can write"
        )
        return ledger

    def close(self) -> None:
        """Release the database's connections."""
        if self.on_close is not None:
            self.on_close(self)
        self.engine.close()
        if self._copy:
            self._copy.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, events: Sequence[NewEvent], *, tx: str | None = None) -> list[Appended]:
        """Append events in order, all or none; return the position of each.

        If the ledger has an id with the same data, the answer is its first position, and nothing is
        added. `tx` is the transaction id of the command that appends the events, from `draw`.

        Raises: Conflict for an id with other data or a new bullet with an old name,
        AlreadyRetracted, NoSuchTarget, NotCanonical, LedgerMoved or a LedgerError.
        """
        from reflector.ledger.append import append, prepare

        prepared = [prepare(event, tx=tx) for event in events]
        ids = [event.event_id for event in events]
        with self.writing(ids) as writing:
            return append(writing, prepared)

    def redact(
        self, event_ids: Collection[str], *, reason: str, actor: str, takes: Takes | None = None
    ) -> list[Appended]:
        """Erase texts of events permanently, as one operation. Data becomes NULL; its hash, facts
        and counts stay.

        `takes` chooses the texts of an event that contains more than prose. Appends an
        event.redacted for each event, with the facts that must stay, and rebuilds the tables. A
        text that was erased before adds nothing.

        On SQLite the file is rewritten, so that the text is removed from it. A server's own copies
        (write-ahead log, dead rows) remain until its vacuum.

        Raises: LedgerMisused for a ledger from `on`, NoSuchTarget, or LedgerError, for example for
        an event without text.
        """
        self.engine.require_own_transaction("redact")
        from reflector.ledger.append import redact
        from reflector.ledger.projection import fill_tables

        with self.writing() as writing:
            tx = self.draw()
            answers = [
                redact(writing, event_id, reason, actor, takes, tx) for event_id in event_ids
            ]
            if any(answer.added for answer in answers):
                fill_tables(writing.sql)
        self.forget_erased()
        return answers

    def forget_erased(self) -> None:
        """Rewrite the file of a SQLite ledger without the erased texts. If the copy from before the
        last upgrade contains one, remove it and report this.

        Raises: LedgerError.
        """
        with translated(self.engine.url.shown):
            rewrite_file(self.engine)
        if not self.engine.url.is_file:
            return
        from reflector.ledger.sqlite_copy import drop_erased

        try:
            with self.asking() as sql:
                removed = drop_erased(Path(self.engine.url.database), sql)
        except OSError as error:
            raise LedgerUnavailable(
                "reflector could not delete the copy of the ledger that it made before the upgrade "
                f"({error}). This copy still contains the erased text. Delete this copy yourself: "
                f"rm {self.engine.url.database}.revision-*"
            ) from error
        if removed:
            reflector.ledger.tell(
                f"reflector removed {removed}, the copy of the ledger that it made before the "
                "upgrade, because this copy contained the erased text"
            )

    def assert_counters(self, name: str, helpful: int, harmful: int, *, actor: str) -> Appended:
        """Record a bullet's counters at this position. From then on `verify` proves that the events
        gave these.

        The comparison and the append are under one lock, so that no other append comes between.

        Raises: NoSuchTarget for a name that no bullet had, LedgerError if the counters differ.
        """
        from reflector.ledger.append import assert_counters

        with self.writing() as writing:
            return assert_counters(writing, name, helpful, harmful, actor)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Fill the projected tables again from the events, in one transaction.

        Appends nothing and calls no backend. Readers see the old rows until the commit, and writers
        wait. `progress` is called with the position reached, page by page.

        Raises: LedgerError.
        """
        from reflector.ledger.projection import fill_tables

        with self.writing() as writing:
            fill_tables(writing.sql, progress)

    def set_checkpoint(self, name: str, position: int, state_hash: str) -> None:
        """Record that a named projection was written at a position, with this hash.

        Raises: a LedgerError.
        """
        with self.writing() as writing:
            set_checkpoint(writing.sql, name, "", position, state_hash)

    def repair_triggers(self) -> None:
        """Create the append-only triggers and the views of this code again, and mark tables of a
        newer version as this version's. On a server only the owner may do this.

        Raises: LedgerError.
        """
        if self.only_reads:
            raise LedgerUnavailable(self.only_reads)
        with write_transaction(self.engine) as driver:
            make_triggers_and_views(driver, self.engine.dialect)
            sql = self.statements(driver)
            sql.execute(noting_statement())
            newer = (
                "UPDATE projection SET code_version = ? WHERE playbook_id = ? AND code_version > ?"
            )
            sql.execute(newer, CODE_VERSION, self.playbook_id, CODE_VERSION)

    @contextmanager
    def writing(self, event_ids: Sequence[str] = ()) -> Iterator[Writing]:
        """A write transaction with the head locked, in which `event_ids` are looked up.

        Raises: a LedgerError.
        """
        from reflector.ledger.append import transaction

        if self.only_reads:
            raise LedgerUnavailable(self.only_reads)
        try:
            with (
                translated(self.engine.url.shown),
                transaction(self.engine, self.playbook_id, event_ids) as writing,
            ):
                yield writing
        except LedgerMoved as moved:
            better = self.moved()
            if better is None:
                raise
            raise better from moved


def _upgraded(kept: Path, revision: str) -> str:
    """Return the message about an upgrade, with the command of the older version that undoes it."""
    from shlex import quote

    command = "restore" if revision < "0008" else "ledger restore"
    steps = f" from revision {revision} to {HEAD_REVISION}" if revision != HEAD_REVISION else ""
    back = (
        f"to go back to the older ledger, run `reflector {command} {quote(str(kept))}` with the "
        "older version of reflector"
    )
    return f"the ledger was upgraded{steps}; {back}"


class _Known(NamedTuple):
    """A playbook's id, the code version of its tables, and the digest of its triggers and views."""

    playbook_id: int
    code_version: int | None
    digest: str | None

    def has_earlier_triggers(self, engine: Engine) -> bool:
        """Return whether an earlier version made the triggers, so that reflector replaces them."""
        # On a server only the owner may replace them.
        return self.digest in EARLIER and engine.dialect == "sqlite"


def _refuse_newer_tables(playbook: str, code_version: int | None) -> None:
    """Raise LedgerTooNew for tables that a newer version of the code filled."""
    if code_version is None or code_version <= CODE_VERSION:
        return
    raise LedgerTooNew(
        f"a newer reflector wrote the tables of the playbook {playbook!r} in table "
        f"version {code_version}, but this reflector knows table versions only up to "
        f"{CODE_VERSION}. The ledger was not changed; upgrade reflector. If you cannot upgrade, "
        "run `reflector rebuild --fix` with this older version. On a server, only the ledger's "
        "owner can run this command"
    )


def _playbook(engine: Engine, name: str) -> _Known:
    """Return a playbook, which is created if it is missing."""
    with engine.connection() as connection:
        known = _find_playbook(Statements(connection.cursor(), engine.dialect, 0), name)
    if known:
        return known
    import secrets

    from reflector.ledger.append import utc_now
    from reflector.ledger.canonical import genesis
    from reflector.playbook.bullet import DEFAULT

    origin = secrets.token_hex(16)
    with write_transaction(engine) as connection:
        sql = Statements(connection.cursor(), engine.dialect, 0)
        known = _find_playbook(sql, name)
        if known:  # another process has just created it
            return known
        if sql.execute(OWNERLESS.format(table="event")).fetchone() is not None:
            # The new playbook could get the number of the missing one, and thus its events.
            raise LedgerCorrupt(
                f"{engine.url.shown} contains events whose playbook is missing in the table "
                f"`playbook`, so the playbook {name!r} was not created; run `reflector verify`, "
                "and restore a backup"
            )
        # The database gives the number. On a server, a second process waits for the first only if
        # both create the same name.
        inserted = sql.execute(
            "INSERT INTO playbook (name, origin, position, chain, recorded_at) VALUES (?, ?, 0, "
            "?, ?)"
            " ON CONFLICT (name) DO NOTHING",
            *(name, origin, genesis(name, origin), utc_now()),
        ).rowcount
        known = _find_playbook(sql, name)
        if known is None:
            raise LedgerUnavailable(
                f"{engine.url.shown} does not let you read the playbook {name!r}; ask the ledger's "
                "owner for access, or choose another playbook with the setting `playbook`"
            )
        if inserted:
            sql.id = known.playbook_id
            known = _Known(sql.id, CODE_VERSION, made_digest())
            set_checkpoint(sql, TABLES, DEFAULT, 0, made_digest())
        return known


def _find_playbook(sql: Statements, name: str) -> _Known | None:
    row = sql.execute(_FIND, TABLES, name).fetchone()
    return _Known(*row) if row is not None else None
