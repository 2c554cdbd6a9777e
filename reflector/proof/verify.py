"""Proof that a ledger is what was appended: nothing edited, removed, reordered or miscounted.

Invariant: findings are values, in order, and a sound ledger yields none. Verifying reads the events
and the tables in one snapshot and writes nothing. What a chain cannot see alone (a truncated tail)
an anchor shows: a head that was published earlier must still be a prefix. Damage is a finding when
the ledger is opened, read or closed; a ledger that cannot be reached (a lock, a missing driver, a
server that is down) is an error, for that says nothing about the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.canonical import CHAIN, PREFIX, digest, genesis, leaf, next_chain
from reflector.ledger.engines import Engine
from reflector.ledger.errors import LedgerCorrupt, LedgerGone
from reflector.ledger.reader import events_where, kept_of, one_of
from reflector.ledger.rows import Anchor, Head, Stored, event_of
from reflector.ledger.statements import LEDGER_TABLES, OWNERLESS, Statements
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
    """Every finding of a ledger: its file, schema, chain and order, its tables, and each of the
    anchors that is not in its history.

    SQLite checks its own file on a second connection meanwhile: that is a third of the work and
    needs no Python. A ledger that cannot be read is a finding; a LedgerError is raised for one that
    cannot be reached.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as beside, ledger.asking() as sql:
        damage = beside.submit(_damage, ledger.engine)
        yield from _readable(sql, schema_findings(sql), "the schema")
        walk = Walk(sql, anchors)
        yield from _readable(sql, walk.findings(), "the history", walk)
        if walk.rebuilt is not None:
            yield from _readable(sql, walk.rebuilt.findings(sql), "a table")
            walk.rebuilt.close()
        yield from _readable(sql, _other_playbooks(sql, ledger.playbook_id), "another playbook")
        yield from damage.result()


_ENDS: Final = (
    (  # noqa: S608
        "SELECT p.name, p.origin, p.position, p.chain, p.recorded_at, last.position, last.chain, "
        "last.recorded_at, "
    )
    + ", ".join(f"first.{column}" for column in Stored._fields)
    + " FROM playbook AS p"
    " LEFT JOIN event AS first ON first.playbook_id = p.id AND first.position = 1"
    " LEFT JOIN event AS last ON last.playbook_id = p.id"
    " AND last.position = (SELECT max(position) FROM event WHERE playbook_id = p.id)"
    " WHERE p.id <> ? ORDER BY p.id"
)


def _other_playbooks(sql: Statements, but: int) -> Iterator[Finding]:
    """Playbooks whose name, origin and head are not those of their first and last event, and rows
    of none: one that was renamed, or whose rows were given to another one, is found from every
    playbook of the database.
    """
    for row in sql.execute(_ENDS, but).fetchall():
        (name, origin, *head), last, first = row[:5], tuple(row[5:8]), Stored(*row[8:])
        begins = chain = genesis(name, origin)
        is_empty, has_first = last[0] is None, first.position is not None
        if has_first:
            begins = next_chain(chain, first[:10], first.data_hash, digest(first.meta))
        found = (0, chain, head[2]) if is_empty else last
        if found != tuple(head) or has_first is is_empty:
            what = f"the playbook {name!r} has its head at {head[0]}, its events end at {found[0]}"
            yield Finding("head", None, what, RESTORE)
        elif has_first and begins != first.chain:
            what = f"the playbook {name!r} did not begin under this name and origin"
            yield Finding(
                "head", None, (f"{what}: it was renamed, or its first event was changed"), RESTORE
            )
    if not sql.postgres:  # SQLite finds the rest with its references
        return
    for table in LEDGER_TABLES:
        if (
            table != "playbook"
            and sql.execute(OWNERLESS.format(table=table)).fetchone() is not None
        ):
            yield Finding("reference", None, f"a row of {table} belongs to no playbook", RESTORE)


@dataclass(frozen=True, slots=True)
class Verified:
    """The findings, in order, and the head; None where it cannot be read."""

    findings: tuple[Finding, ...]
    head: Head | None


def verify_opening(
    open_ledger: Callable[[], Ledger],
    *anchors: Anchor,
    seen: Callable[[Ledger], Anchor | None] = lambda _: None,
) -> Verified:
    """Open a ledger that may be too damaged for it, and verify it. Raises a LedgerError for one out
    of reach.

    `seen` finds one more anchor, which only an open ledger tells.
    """
    findings: list[Finding] = []
    head = None
    try:
        with open_ledger() as ledger:
            named = (*anchors, *filter(None, [seen(ledger)]))
            findings += verify(ledger, *named)
            with suppress(LedgerCorrupt):  # a finding says the same
                head = ledger.head()
    except LedgerCorrupt as error:
        what, _, way_out = str(error).partition("; ")
        findings.append(
            Finding("database", None, what, way_out if isinstance(error, LedgerGone) else RESTORE)
        )
    return Verified(tuple(findings), head)


def _readable(
    sql: Statements, findings: Iterator[Finding], what: str, walk: Walk | None = None
) -> Iterator[Finding]:
    """Yield the findings, and one more where their source, which `what` names, cannot be read to
    its end.
    """
    with savepoint(sql):
        try:
            yield from findings
        except Exception as error:
            if not unreadable(error):
                raise
            position = walk.unreadable_from() if walk is not None else None
            what = f"{what} from position {position} on" if position is not None else what
            yield Finding(
                "data", position, (f"{what} cannot be read ({_first_line(error)})"), RESTORE
            )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _damage(engine: Engine) -> list[Finding]:
    """Return what SQLite finds in its own file; a database in memory is this process's own."""
    if engine.dialect != "sqlite" or engine.url.in_memory:
        return []
    found = []
    with engine.connection() as connection:
        try:
            for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
                if line != "ok":
                    found.append(
                        Finding("database", None, (f"SQLite finds damage: {line}"), _RESTORE_FILE)
                    )
            for row in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
                what = f"a row of {row[0]} points to a {row[2]} that is gone"
                found.append(Finding("reference", None, what, _RESTORE_FILE))
        except Exception as error:
            if not unreadable(error):
                raise
            what = f"SQLite cannot read its file to the end ({_first_line(error)})"
            found.append(Finding("database", None, what, _RESTORE_FILE))
    return found


_RESTORE_FILE = "restore a backup of the ledger"


_COLUMNS: Final = ", ".join(Stored._fields)
_TARGETS: Final = (
    "SELECT target_id FROM event WHERE playbook_id = ? AND type = ?"  # noqa: S608
    # The literal lets the planner take the index of the rare types; without it every event is read
    # once more.
    f" AND type <> '{ev.BULLET_TAGGED}'"
)


class Walk:
    """One pass over the events: each is read once, in order, and found sound or named with what is
    wrong. No row is trusted: one that cannot be read is a finding, and the walk continues.
    """

    def __init__(self, sql: Statements, anchors: Sequence[Anchor]) -> None:
        self.sql = sql
        self.anchors = anchors
        #: The position of the event that is looked at.
        self.position = 0
        #: The event before, if the playbook moved to another ledger with it.
        self._moved: str | None = None
        #: The tables as the events make them, where all of them can be read.
        self.rebuilt: Rebuilt | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield every finding of the events, of the head, of the anchors and of the rows that
        stand beside events.
        """
        sql = self.sql
        folding = Rebuilt(sql)
        head = sql.run(
            "SELECT name, origin, position, chain, recorded_at FROM playbook WHERE id = ?"
        ).fetchone()
        if head is None:
            yield Finding("head", None, "the playbook's row is gone", RESTORE)
            return
        name, origin, *end = head
        chain, position, last = genesis(name, origin), 0, ""
        link, there = bytes.fromhex(chain.removeprefix(PREFIX)), {Anchor(0, chain)}
        wanted = {anchor.position for anchor in self.anchors}
        erased = {row[0] for row in sql.run(_TARGETS, ev.EVENT_REDACTED).fetchall()}
        put = events_where(
            sql, f"{one_of((ev.EVIDENCE_RETRACTED,))} AND meta LIKE ?", f'{{"{ev.ASIDE}":%'
        )
        aside = {one.meta.get(ev.ASIDE) for one in put}
        before, meta_hash = "{}", digest("{}")
        unfit = False
        for row in stream(sql, "event", _COLUMNS):
            (
                at,
                event_id,
                type_,
                _,
                _,
                recorded_at,
                _,
                session_id,
                reflection_id,
                target_id,
                data,
                of,
                meta,
                chain,
            ) = row
            if at != position + 1:
                yield Finding("order", at, f"position {at} follows {position}", RESTORE)
            self.position = position = at
            if self._moved is not None and (type_, target_id) != (ev.LEDGER_ARRIVED, self._moved):
                what = f"this {type_} was appended after the playbook had moved to another ledger"
                yield Finding("move", position, what, RESTORE)
            self._moved = None
            if data is None or (erased and event_id in erased):
                yield from self._erased(row, erased)
            is_tag = type_ == ev.BULLET_TAGGED
            if data is not None and (_digest_of_tag(data) if is_tag else digest(data)) != of:
                yield Finding(
                    "data",
                    position,
                    f"the data of this {type_} is not what was appended",
                    RESTORE,
                )
            if meta != before:  # most events have the meta of the event before
                before, meta_hash = meta, digest(meta)
            link = sha256(b"\x03" + link + leaf(row[:10], of, meta_hash)).digest()
            is_hash = isinstance(chain, str) and CHAIN.fullmatch(chain) is not None
            # An absent field is hashed as an empty text, which no field is.
            if (
                not is_hash
                or f"{PREFIX}{link.hex()}" != chain
                or "" in (session_id, reflection_id, target_id)
            ):
                yield Finding(
                    "chain", position, (f"this {type_} or the event before it was changed"), RESTORE
                )
                link = bytes.fromhex(chain.removeprefix(PREFIX)) if is_hash else link
            if recorded_at < last and event_id not in aside:
                what = f"recorded at {recorded_at}, before its predecessor ({last})"
                yield Finding("order", position, what, SET_ASIDE)
            last = recorded_at
            if position in wanted:
                there.add(Anchor(position, f"{PREFIX}{link.hex()}"))
            try:
                yield from self._read(row, folding, aside)
            except MALFORMED as error:
                unfit = True
                yield Finding(
                    "data",
                    position,
                    f"the data of this {type_} cannot be read ({error!r})",
                    RESTORE,
                )
        if position != end[0]:
            yield Finding(
                "head",
                position,
                f"the events end at {position}, the head says {end[0]}",
                MEND_HEAD,
            )
        elif chain != end[1] or (position and last != end[2]):
            yield Finding(
                "head", position, ("the head's chain or time is not the last event's"), MEND_HEAD
            )
        for anchor in dict.fromkeys(self.anchors):
            if anchor not in there:
                what = (
                    f"the published head {anchor.position} is not in this history, which ends "
                    f"at {position}"
                )
                yield Finding("anchor", anchor.position, what, RESTORE)
        if not unfit:
            self.rebuilt = folding

    def unreadable_from(self) -> int | None:
        """Return the position of the first event that SQLite cannot give; None if it is unknown.

        A batch is given whole or not at all, and a driver reads one row ahead, so this asks for
        them one by one.
        """
        if self.sql.postgres or not isinstance(self.position, int):
            return None
        query = f"SELECT {_COLUMNS} FROM event WHERE playbook_id = ? AND position = ?"  # noqa: S608
        for position in range(self.position + 1, self.position + 1002):
            try:
                self.sql.run(query, position).fetchone()
            except Exception:  # noqa: BLE001 - the error that is being located, of any class
                return position
        return None

    def _read(self, row: tuple[Any, ...], folding: Rebuilt, aside: set[Any]) -> Iterator[Finding]:
        """Read the data of an event, and fold it; yield what is wrong. Raises for a row that no
        event has.
        """
        event = event_of(
            (*row, None), kept_of(self.sql, [row[1]])[row[1]] if row[10] is None else None
        )
        if wrong := folding.take(event):
            yield wrong
        if event.type == ev.LEDGER_MOVED and not event.fault:
            self._moved = event.event_id
        if event.fault and event.event_id not in aside:
            what = f"this {event.type} cannot be read, so it changes nothing: {event.fault}"
            yield Finding("data", event.position, what, SET_ASIDE)

    def _erased(self, row: tuple[Any, ...], erased: set[str]) -> Iterator[Finding]:
        position, event_id, type_ = row[:3]
        if row[10] is not None:
            yield Finding(
                "redaction",
                position,
                f"the text of this {type_} is back, though it was redacted",
                _AGAIN,
            )
        elif event_id not in erased:
            yield Finding(
                "redaction", position, ("the data was erased without an event.redacted"), RESTORE
            )
        elif type_ in EVENT_TYPES and EVENT_TYPES[type_].all_prose:
            return
        elif kept_of(self.sql, [event_id])[event_id] is None:
            yield Finding(
                "redaction",
                position,
                f"the facts of this {type_} were erased with its text",
                RESTORE,
            )


_AGAIN = "find out who put it back; restore a backup from after the redaction"


@lru_cache(maxsize=8192)
def _digest_of_tag(text: str) -> str:
    """Return the digest of a tag's data, most of which were met before."""
    return digest(text)
