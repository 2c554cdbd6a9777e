"""Verifies that a ledger is as it was appended: nothing was edited, removed, reordered or
miscounted.

Invariant: findings are values, in order, and a sound ledger has none. Verifying reads the events
and the tables in one snapshot and writes nothing. A chain alone cannot show a truncated end. An
anchor can: a head that was published earlier must still be a prefix. Damage is a finding when the
ledger is opened, read or closed. A ledger that cannot be reached (a lock, a missing driver, a
server that is down) is an error, because this is not a fault of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from reflector.events.event import (
    ASIDE,
    BULLET_TAGGED,
    EVENT_REDACTED,
    EVIDENCE_RETRACTED,
    LEDGER_ARRIVED,
    LEDGER_MOVED,
)
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.canonical import CHAIN, PREFIX, digest, genesis, leaf, next_chain
from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerCorrupt, LedgerGone
from reflector.ledger.reader import events_where, kept_of, of_types
from reflector.ledger.rows import Anchor, Head, Stored, event_of
from reflector.ledger.statements import OWNERLESS, Statements
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.proof.reading import (
    MALFORMED,
    MEND_HEAD,
    RESTORE,
    SET_ASIDE,
    savepoint,
    stream,
    unreadable,
)
from reflector.proof.schema import schema_findings
from reflector.proof.tables import Rebuilt

__all__ = ["Anchor", "Finding", "Verified", "verify", "verify_opening"]


def verify(ledger: Ledger, *anchors: Anchor) -> Iterator[Finding]:
    """Yield every finding of a ledger: of its file, schema, chain, order and tables, and of each
    anchor that is not in its history.

    SQLite checks its own file on a second connection meanwhile, because that is a third of the work
    and needs no Python. A ledger that cannot be read is a finding.

    Raises: a LedgerError for a ledger that cannot be reached.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor, ledger.asking() as sql:
        damage = executor.submit(lambda: list(_damage(ledger.engine)))
        yield from _readable(sql, schema_findings(sql), "the schema")
        walk = Walk(sql, anchors)
        has_damage = False
        for finding in _readable(sql, walk.findings(), "the history", walk):
            has_damage = has_damage or finding.remedy == RESTORE
            yield finding
        if walk.rebuilt:
            for finding in _readable(sql, walk.rebuilt.findings(sql), "a table"):
                # A rebuild would copy the changed events into the tables.
                yield replace(finding, remedy=RESTORE) if has_damage else finding
            walk.rebuilt.close()
        yield from _readable(sql, _other_playbooks(sql, ledger.playbook_id), "another playbook")
        yield from damage.result()


#: The heads of the other playbooks, and the first and the last event of each.
_ENDS = (
    "SELECT p.position, p.chain, p.name, p.origin, p.recorded_at,"  # noqa: S608
    " last.position, last.chain, last.recorded_at,"
    f" {', '.join(f'first.{column}' for column in Stored._fields)}"
    " FROM playbook AS p"
    " LEFT JOIN event AS first ON first.playbook_id = p.id AND first.position = 1"
    " LEFT JOIN event AS last ON last.playbook_id = p.id"
    " AND last.position = (SELECT max(position) FROM event WHERE playbook_id = p.id)"
    " WHERE p.id <> ? ORDER BY p.id"
)


def _other_playbooks(sql: Statements, but: int) -> Iterator[Finding]:
    """Yield the playbooks whose name, origin and head do not match their first and last event, and
    rows without a playbook.

    So a renamed playbook, or one whose rows were given to another, is found from every playbook of
    the database.
    """
    for row in sql.execute(_ENDS, but).fetchall():
        finding = _end_finding(Head(*row[:5]), row[5:8], Stored(*row[8:]))
        if finding:
            yield finding
    if not sql.postgres:  # SQLite's check of references finds the rest
        return
    for table in LEDGER_TABLES[1:]:
        if sql.execute(OWNERLESS.format(table=table)).fetchone() is not None:
            yield Finding(
                "reference",
                None,
                f"the table {table} contains a row that does not belong to a playbook",
                RESTORE,
            )


def _end_finding(head: Head, last: Sequence[Any], first: Stored) -> Finding | None:
    """Return the finding about another playbook's head. `last` has (position, chain, time) of its
    last event. The fields of `last` and `first` are None without an event.
    """
    begin = genesis(head.playbook, head.origin)
    is_empty = last[0] is None
    has_first = first.position is not None
    end = (0, begin, head.recorded_at) if is_empty else tuple(last)
    playbook = f"the playbook {head.playbook!r}"
    has_only_one_of_both = has_first is is_empty
    if has_only_one_of_both or end != (head.position, head.chain, head.recorded_at):
        message = (
            f"the head of {playbook} is at position {head.position}, but the playbook's events "
            f"end at position {end[0]}"
        )
        return Finding("head", None, message, RESTORE)
    if has_first:
        chain = next_chain(begin, first[:10], first.data_hash, digest(first.meta))
        if chain != first.chain:
            message = (
                f"{playbook} began with another name or origin: someone renamed the playbook or "
                "changed its first event"
            )
            return Finding("head", None, message, RESTORE)
    return None


class Verified(NamedTuple):
    """The findings, in order, and the head; None if the head cannot be read."""

    findings: tuple[Finding, ...]
    head: Head | None


def verify_opening(
    open_ledger: Callable[[], Ledger],
    *anchors: Anchor,
    seen: Callable[[Ledger], Anchor | None] = lambda _: None,
) -> Verified:
    """Open a ledger that may be too damaged to be opened, and verify it.

    seen  returns one more anchor, which only an open ledger has

    Raises: a LedgerError for a ledger that cannot be reached.
    """
    findings: list[Finding] = []
    head = None
    try:
        with open_ledger() as ledger:
            named = (*anchors, *filter(None, [seen(ledger)]))
            findings += verify(ledger, *named)
            with suppress(LedgerCorrupt):  # a finding already reports it
                head = ledger.head()
    except LedgerCorrupt as error:
        message, _, way_out = str(error).partition("; ")
        remedy = way_out if isinstance(error, LedgerGone) else RESTORE
        findings.append(Finding("database", None, message, remedy))
    return Verified(tuple(findings), head)


def _readable(
    sql: Statements, findings: Iterator[Finding], source: str, walk: Walk | None = None
) -> Iterator[Finding]:
    """Yield the findings, and one more if their source cannot be read to its end."""
    with savepoint(sql):
        try:
            yield from findings
        except Exception as error:
            if not unreadable(error):
                raise
            position = walk.unreadable_from() if walk else None
            place = f" from position {position} on" if position is not None else ""
            message = f"{source}{place} cannot be read ({_first_line(error)})"
            yield Finding("data", position, message, RESTORE)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _damage(engine: Engine) -> Iterator[Finding]:
    """Yield the damage that SQLite finds in its own file. A database in memory is not checked,
    because it belongs to this process.
    """
    if engine.dialect != "sqlite" or engine.url.in_memory:
        return
    with engine.connection() as connection:
        try:
            for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
                if line != "ok":
                    message = f"SQLite reports damage: {line}"
                    yield Finding("database", None, message, _RESTORE_FILE)
            for row in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
                message = (
                    f"a row of the table {row[0]} points to a row of {row[2]} that does not exist"
                )
                yield Finding("reference", None, message, _RESTORE_FILE)
        except Exception as error:
            if not unreadable(error):
                raise
            message = f"SQLite cannot read the ledger's file to the end ({_first_line(error)})"
            yield Finding("database", None, message, _RESTORE_FILE)


_RESTORE_FILE = "restore a backup of the ledger"


_COLUMNS = ", ".join(Stored._fields)
_HEAD = "SELECT position, chain, name, origin, recorded_at FROM playbook WHERE id = ?"
_TARGETS = (
    "SELECT target_id FROM event WHERE playbook_id = ? AND type = ?"  # noqa: S608
    # With the literal, the planner uses the index of the rare types. Without it, every event is
    # read once more.
    f" AND type <> '{BULLET_TAGGED}'"
)


class Walk:
    """One pass over the events. Each event is read once, in order, and is sound or gets a finding.

    No row is trusted. An unreadable row is a finding, and the walk continues.
    """

    def __init__(self, sql: Statements, anchors: Sequence[Anchor]) -> None:
        self.sql = sql
        self.anchors = anchors
        #: The position of the current event.
        self.position = 0
        #: The tables that result from the events, if all events can be read.
        self.rebuilt: Rebuilt | None = None
        #: The chain of the previous event, as it is stored.
        self._chain = ""
        #: The same chain, as it is computed here from all events so far.
        self._link = b""
        self._recorded_at = ""
        #: The meta of the previous event and its hash, because most events have the same meta.
        self._meta = "{}"
        self._meta_hash = digest("{}")
        #: The id of the previous event if it moved the playbook to another ledger.
        self._moved: str | None = None
        self._erased_ids: set[str] = set()
        #: The ids of events without effect that a retraction accepted.
        self._set_aside_ids: set[Any] = set()
        #: The computed heads at the positions of the anchors.
        self._passed: set[Anchor] = set()
        self._anchored_positions = {anchor.position for anchor in anchors}

    def findings(self) -> Iterator[Finding]:
        """Yield every finding of the events, of the head, of the anchors and of the rows that
        belong to events.
        """
        row = self.sql.row(_HEAD)
        if row is None:
            yield Finding(
                "head",
                None,
                "the ledger does not contain this playbook's entry in the table of playbooks",
                RESTORE,
            )
            return
        head = Head(*row)
        self._begin(head)
        tables = Rebuilt(self.sql)
        can_be_folded = True
        checks = (
            self._check_order,
            self._check_move,
            self._check_erasure,
            self._check_data,
            self._check_chain,
            self._check_time,
        )
        for row in stream(self.sql, "event", _COLUMNS):
            event = Stored._make(row)
            for check in checks:
                finding = check(event)
                if finding:
                    yield finding
            try:
                yield from self._fold(event, tables)
            except MALFORMED as error:
                can_be_folded = False
                message = f"the data of this {event.type} cannot be read ({error!r})"
                yield Finding("data", event.position, message, RESTORE)
        yield from self._check_head(head)
        yield from self._check_anchors()
        if can_be_folded:
            self.rebuilt = tables

    def _begin(self, head: Head) -> None:
        """Start before the first event, and look up the events that were erased or put aside."""
        self._chain = genesis(head.playbook, head.origin)
        self._link = _bytes_of(self._chain)
        self._passed.add(Anchor(0, self._chain))
        rows = self.sql.rows(_TARGETS, EVENT_REDACTED)
        self._erased_ids = {target_id for (target_id,) in rows}
        retractions = f"{of_types((EVIDENCE_RETRACTED,))} AND meta LIKE ?"
        for event in events_where(self.sql, retractions, f'{{"{ASIDE}":%'):
            self._set_aside_ids.add(event.meta.get(ASIDE))

    def _check_order(self, event: Stored) -> Finding | None:
        before = self.position
        self.position = event.position
        if event.position == before + 1:
            return None
        message = f"the events between position {before} and position {event.position} are missing"
        return Finding("order", event.position, message, RESTORE)

    def _check_move(self, event: Stored) -> Finding | None:
        moved = self._moved
        self._moved = None
        if moved is None or (event.type, event.target_id) == (LEDGER_ARRIVED, moved):
            return None
        message = f"this {event.type} was appended after the playbook had moved to another ledger"
        return Finding("move", event.position, message, RESTORE)

    def _check_erasure(self, event: Stored) -> Finding | None:
        """Return a finding if an event's text and the record of its erasure do not fit together."""
        is_redacted = event.event_id in self._erased_ids
        if event.data is not None:
            if not is_redacted:
                return None
            message = (
                f"the text of this {event.type} was erased, but the ledger contains the text again"
            )
            return Finding("redaction", event.position, message, _AGAIN)
        if not is_redacted:
            message = "the data of this event was erased, but no `event.redacted` event shows why"
            return Finding("redaction", event.position, message, RESTORE)
        if event.type in EVENT_TYPES and EVENT_TYPES[event.type].all_prose:
            return None
        if kept_of(self.sql, [event.event_id])[event.event_id] is not None:
            return None
        message = f"not only the text of this {event.type} was erased, but also its facts"
        return Finding("redaction", event.position, message, RESTORE)

    def _check_data(self, event: Stored) -> Finding | None:
        if event.data is None:
            return None
        digest_of = _digest_of_tag if event.type == BULLET_TAGGED else digest
        if digest_of(event.data) == event.data_hash:
            return None
        message = f"the data of this {event.type} was changed after it was written"
        return Finding("data", event.position, message, RESTORE)

    def _check_chain(self, event: Stored) -> Finding | None:
        """Compute the chain up to an event. Return a finding if the stored one differs, because
        then the event was changed.
        """
        if event.meta != self._meta:
            self._meta = event.meta
            self._meta_hash = digest(event.meta)
        header = leaf(event[:10], event.data_hash, self._meta_hash)
        self._link = sha256(b"\x03" + self._link + header).digest()
        self._chain = event.chain
        # An absent field is hashed like an empty text, which no field may contain.
        has_empty_field = "" in (event.session_id, event.reflection_id, event.target_id)
        finding = None
        if has_empty_field or f"{PREFIX}{self._link.hex()}" != event.chain:
            message = f"this {event.type} or the event before it was changed"
            finding = Finding("chain", event.position, message, RESTORE)
            if isinstance(event.chain, str) and CHAIN.fullmatch(event.chain):
                self._link = _bytes_of(event.chain)  # so that the next event can be found sound
        if event.position in self._anchored_positions:
            self._passed.add(Anchor(event.position, f"{PREFIX}{self._link.hex()}"))
        return finding

    def _check_time(self, event: Stored) -> Finding | None:
        before = self._recorded_at
        self._recorded_at = event.recorded_at
        if event.recorded_at >= before or event.event_id in self._set_aside_ids:
            return None
        message = (
            f"this event was recorded at {event.recorded_at}, before the previous event ({before})"
        )
        return Finding("order", event.position, message, SET_ASIDE)

    def _fold(self, stored: Stored, tables: Rebuilt) -> Iterator[Finding]:
        """Read the data of an event and fold it, and yield its faults.

        Raises: one of `MALFORMED` for a row that no event has.
        """
        kept = None
        if stored.data is None:
            kept = kept_of(self.sql, [stored.event_id])[stored.event_id]
        event = event_of((*stored, None), kept)
        wrong_assertion = tables.take(event)
        if wrong_assertion:
            yield wrong_assertion
        if event.type == LEDGER_MOVED and not event.fault:
            self._moved = event.event_id
        if event.fault and event.event_id not in self._set_aside_ids:
            message = f"this {event.type} cannot be read, so it has no effect: {event.fault}"
            yield Finding("data", event.position, message, SET_ASIDE)

    def _check_head(self, head: Head) -> Iterator[Finding]:
        if self.position != head.position:
            message = (
                f"the events end at position {self.position}, but the head is at position "
                f"{head.position}"
            )
            yield Finding("head", self.position, message, MEND_HEAD)
            return
        is_other_time = self.position and self._recorded_at != head.recorded_at
        if self._chain != head.chain or is_other_time:
            message = "the head has another hash or time than the last event"
            yield Finding("head", self.position, message, MEND_HEAD)

    def _check_anchors(self) -> Iterator[Finding]:
        for anchor in dict.fromkeys(self.anchors):
            if anchor not in self._passed:
                message = (
                    "the ledger does not contain the published head at position "
                    f"{anchor.position}; its events end at position {self.position}"
                )
                yield Finding("anchor", anchor.position, message, RESTORE)

    def unreadable_from(self) -> int | None:
        """Return the position of the first event that SQLite cannot read; None if it is unknown.

        A batch is read completely or not at all, and a driver reads one row ahead, so this reads
        the events one by one.
        """
        if self.sql.postgres or not isinstance(self.position, int):
            return None
        query = f"SELECT {_COLUMNS} FROM event WHERE playbook_id = ? AND position = ?"  # noqa: S608
        for position in range(self.position + 1, self.position + 1002):
            try:
                self.sql.row(query, position)
            except Exception:  # noqa: BLE001 - the error that is being located, of any class
                return position
        return None


def _bytes_of(chain: str) -> bytes:
    return bytes.fromhex(chain.removeprefix(PREFIX))


_AGAIN = "find out who restored the text, then restore a backup from after the erasure"


#: The digest of a tag's data, which is cached because most data repeats.
_digest_of_tag = lru_cache(maxsize=8192)(digest)
