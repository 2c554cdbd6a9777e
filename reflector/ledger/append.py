"""Appends events: admission, then positions, chain, projection and head in one write transaction.

Invariant: events of one append are appended together or not at all, in the given order, directly
after the head. Each admitted event can be hashed, stored, folded and shown on both engines, now and
in every rebuild. The same rules admit a bullet from a user, an agent's proposal or a file. Inside a
`transaction` the playbook's lock is held, and an error leaves neither an open transaction nor the
lock behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from reflector.events.event import (
    BULLET_ASSERTED,
    EVENT_REDACTED,
    REFLECTION_COMPLETED,
    TX,
    Appended,
    Event,
    NewEvent,
    completion_id,
    identity,
    written,
)
from reflector.events.registry import EVENT_TYPES, bullets_brought
from reflector.ledger.canonical import CHAIN, next_chain, plain, sealed
from reflector.ledger.counters import IN_FORCE, IN_FORCE_COLUMNS, InForce
from reflector.ledger.engines import Engine, patience
from reflector.ledger.errors import Conflict, LedgerCorrupt, LedgerError, NoSuchTarget
from reflector.ledger.projection import Projector
from reflector.ledger.reader import redaction_line
from reflector.ledger.redaction import Takes, everything, redaction_of
from reflector.ledger.rows import Stored
from reflector.ledger.statements import COPIED, TABLES, Statements

_MAX_FIELD = 1024
_FIELDS = ("event_id", "occurred_at", "actor", "session_id", "reflection_id", "target_id")
_fields_of = attrgetter(*_FIELDS)
_NO_META = sealed({})


class Prepared(NamedTuple):
    """An event with its texts in canonical form; `facts` is its data as read back from the ledger.
    For an erased event, `data` is None and `facts` is the part that its redaction kept.
    """

    event: NewEvent
    facts: Mapping[str, Any] | None
    data: str | None
    data_hash: str
    meta: str
    meta_hash: str


def prepare(event: NewEvent, *, foreign: bool = False, tx: str | None = None) -> Prepared:
    """Check an event and write its canonical form.

    foreign  whether the event comes from a file
    tx       the transaction id of the command that appends the event

    Raises: LedgerError, or NotCanonical for its data or meta.
    """
    if tx is not None:
        event = replace(event, meta={**event.meta, TX: tx})
    check_fields(event)
    facts = plain(event.data)
    check_facts(event, facts, foreign=foreign)
    data, data_hash = sealed(facts)
    meta, meta_hash = sealed(plain(event.meta)) if event.meta else _NO_META
    return Prepared(event, facts, data, data_hash, meta, meta_hash)


def check_fields(event: NewEvent) -> None:
    """Check the fields of an event other than its data and meta.

    Raises: LedgerError.
    """
    if event.type not in EVENT_TYPES:
        raise LedgerError(
            f"{event.type!r} is not an event type; use one of: {', '.join(sorted(EVENT_TYPES))}"
        )
    for name, value in zip(_FIELDS, _fields_of(event), strict=True):
        if value is not None and (fault := _fault(value)):
            raise LedgerError(f"{event.type}: {name} {value[:40]!r} {fault}")


@lru_cache(maxsize=256)  # the events of one append have mostly the same values
def _fault(value: str) -> str | None:
    if not 0 < len(value) <= _MAX_FIELD or "\n" in value or "\0" in value:
        return f"must be 1 to {_MAX_FIELD} characters without newline or NUL"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "contains half of a character (a lone surrogate); correct the value"
    return None


def check_facts(event: NewEvent, facts: Mapping[str, Any], *, foreign: bool = False) -> None:
    """Check an event's target, and its data in canonical form.

    The data of a `foreign` event is checked completely, because it comes from a file, which anyone
    may have written. The data of types with `checked` is too, because users and models write it.
    This program gives other events the shape of their type, so their data only has to be readable.

    Raises: LedgerError.
    """
    event_type = EVENT_TYPES[event.type]
    needs_target = event_type.target is not None and event_type.target.required
    if needs_target and event.target_id is None:
        raise LedgerError(
            f"{event.type}: target_id is missing; give the id of the event to which this "
            "event refers"
        )
    if event.type == REFLECTION_COMPLETED:
        own_id = completion_id(event.reflection_id)
        if event.reflection_id is None or event.event_id != own_id:
            # Given any tag of a reflection, the tables find its completion by this id.
            raise LedgerError(
                f"{event.type}: event_id {event.event_id!r} does not identify the reflection "
                f"{event.reflection_id!r}; compute event_id as in docs/ledger-format.md#identity"
            )
    is_checked = foreign or event_type.checked
    fault = event_type.fault(facts) if is_checked else event_type.unreadable(facts)
    if fault is not None:
        raise LedgerError(f"{event.type}: {fault}")


def utc_now() -> str:
    """Return the current time in the format of the ledger: ISO 8601 in UTC with microseconds, of
    fixed width.
    """
    return written(datetime.now(UTC))


def later_than(recorded_at: str) -> str:
    """Return the current time, or the next microsecond after `recorded_at` if the clock was set
    back.

    The result is strictly later, so that a time identifies the one append that wrote it.
    `last_updated` in playbook.json relies on this.
    """
    now = utc_now()
    return now if now > recorded_at else just_after(recorded_at)


def just_after(time: str) -> str:
    """Return the time one microsecond later.

    Raises: LedgerCorrupt if there is no later time.
    """
    try:
        return written(datetime.fromisoformat(time) + timedelta(microseconds=1))
    except (OverflowError, ValueError) as error:
        raise LedgerCorrupt(
            f"reflector cannot append an event, because it cannot compute a time after {time!r}, "
            "the time of the ledger's last event; run `reflector verify`. If the head is the only "
            "fault that `verify` reports, run `reflector rebuild --fix`. If `verify` reports other "
            "faults, restore a backup"
        ) from error


_HEAD = "SELECT position, chain, recorded_at FROM playbook WHERE id = ?"
_HEAD_AND_IN_FORCE = (
    f"SELECT playbook.position, chain, recorded_at, {IN_FORCE_COLUMNS} FROM playbook"  # noqa: S608
    " LEFT JOIN projection ON playbook_id = id AND projection.name = ? WHERE id = ?"
)
_KNOWN = "SELECT event_id, position, data_hash FROM event WHERE playbook_id = ? AND event_id IN ?"


@dataclass(slots=True)
class Writing:
    """An open write transaction.

    known     (position, data hash) of those looked-up ids that the playbook contains
    in_force  the current policy, whether any bullet was merged, and whether a retraction is
              active; None after an append
    """

    sql: Statements
    position: int
    chain: str
    recorded_at: str
    known: dict[str, tuple[int, str]]
    in_force: InForce

    def move_head(self, position: int, chain: str, recorded_at: str) -> None:
        """Set the head to the last appended event."""
        update = "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?"
        self.sql.execute(update, position, chain, recorded_at, self.sql.id)
        self.position = position
        self.chain = chain
        self.recorded_at = recorded_at
        self.in_force = None


@contextmanager
def transaction(
    engine: Engine, playbook_id: int, event_ids: Sequence[str] = ()
) -> Iterator[Writing]:
    """Open a write transaction with the head locked, in which these ids are looked up. It commits
    after a successful body. After an error it changes nothing.

    Raises: the driver's errors, LedgerLocked, and LedgerMisused for a host's connection.
    """
    # A pipeline refuses COPY, which is faster for many rows.
    with engine.appending(pipelined=len(event_ids) < COPIED) as connection:
        yield _locked(Statements(connection.cursor(), engine.dialect, playbook_id), event_ids)


def _locked(sql: Statements, event_ids: Sequence[str]) -> Writing:
    """Lock the playbook's head, look the ids up, and read what is in force."""
    in_force: InForce
    if sql.postgres:
        # All are sent at once. The first waits, so the others see what is committed by then.
        # `patience() <> ''` is always true; evaluating it limits how long the first waits.
        locked = sql.run(f"{_HEAD} AND {patience()} <> '' FOR UPDATE")
        known_ids = sql.run(_KNOWN, event_ids) if event_ids else None
        in_force = sql.row(IN_FORCE, TABLES)
        ((position, chain, recorded_at),) = locked.fetchall()
    else:
        # SQLite: the transaction already holds the write lock. Unlike `run`, `execute` does not put
        # the playbook's id first.
        (head,) = sql.execute(_HEAD_AND_IN_FORCE, TABLES, sql.id).fetchall()
        position, chain, recorded_at, *in_force = head
        if in_force[0] is None:  # the playbook has no projection yet
            in_force = None
        known_ids = sql.run(_KNOWN, event_ids) if event_ids else None
    rows = known_ids.fetchall() if known_ids is not None else ()
    known = {event_id: (place, data_hash) for event_id, place, data_hash in rows}
    return Writing(sql, position, chain, recorded_at, known, in_force)


def append(
    writing: Writing, prepared: Iterable[Prepared], *, merged: bool = False
) -> list[Appended]:
    """Append prepared events on an open write transaction. If they are `merged`, a new bullet may
    have a taken name, and then changes nothing.

    Raises: Conflict, LedgerCorrupt, and the driver's errors.
    """
    if not CHAIN.fullmatch(writing.chain):
        raise LedgerCorrupt(
            f"the head of the ledger contains {writing.chain[:80]!r} instead of a hash, so nothing "
            "was appended; run `reflector verify`, then `reflector rebuild --fix`"
        )
    known = writing.known
    position = writing.position
    chain = writing.chain
    recorded_at = later_than(writing.recorded_at)
    answers: list[Appended] = []
    rows: list[Stored] = []
    projected: list[Event] = []
    for sound in prepared:
        event = sound.event
        first = known.get(event.event_id)
        if first is not None:
            _refuse_other_data(sound, first, writing.position)
            answers.append(Appended(event.event_id, first[0], added=False))
            continue
        position += 1
        header = (
            *(position, event.event_id, event.type, event.schema_version),
            *(event.occurred_at or recorded_at, recorded_at, event.actor),
            *(event.session_id, event.reflection_id, event.target_id),
        )
        chain = next_chain(chain, header, sound.data_hash, sound.meta_hash)
        rows.append(Stored(*header, sound.data, sound.data_hash, sound.meta, chain))
        known[event.event_id] = (position, sound.data_hash)
        answers.append(Appended(event.event_id, position, added=True))
        projected.append(Event(*header, sound.facts, sound.data_hash, event.meta, chain))
    if rows:
        if not merged:
            _refuse_taken_names(writing.sql, projected)
        writing.sql.insert("event", Stored._fields, rows)
        Projector(writing.sql, writing.in_force).project(projected)
        writing.move_head(position, chain, recorded_at)
    return answers


def _refuse_other_data(sound: Prepared, first: tuple[int, str], end: int) -> None:
    """Raise Conflict for an event whose id is known with other data. `first` is the (position, data
    hash) of the known event, and `end` the last position before this append.
    """
    position, data_hash = first
    if data_hash == sound.data_hash:
        return
    event = sound.event
    reason = (
        "occurs twice in one append with different data, so nothing was appended. Give each "
        "event its own id"
    )
    if position <= end:
        reason = (
            f"already exists at position {position} with other data, so nothing was appended. To "
            f"see the existing event, run `reflector show {event.event_id}`"
        )
    raise Conflict(f"event {event.event_id} ({event.type}) {reason}", event.event_id, position)


def redact(
    writing: Writing, event_id: str, reason: str, actor: str, takes: Takes | None, tx: str
) -> Appended:
    """Erase an event's text on an open write transaction; `tx` is the transaction id of the
    command.

    Raises: NoSuchTarget, LedgerError.
    """
    line = redaction_line(writing.sql, event_id)
    if not line:
        raise NoSuchTarget(
            f"event {event_id} is not in the ledger; find its id with `reflector log`"
        )
    last = line[-1]
    data = redaction_of(line, event_id, reason, takes or everything)
    if data is None:
        return Appended(last.event_id, last.position, added=False)
    event = NewEvent(
        EVENT_REDACTED,
        identity(EVENT_REDACTED, last.event_id),
        data,
        actor,
        target_id=last.event_id,
    )
    (answer,) = append(writing, [prepare(event, tx=tx)])
    writing.sql.run(
        "UPDATE event SET data = NULL WHERE playbook_id = ? AND event_id = ?", last.event_id
    )
    return answer


def assert_counters(
    writing: Writing, name: str, helpful: int, harmful: int, actor: str
) -> Appended:
    """Record a bullet's counters as an event.

    Raises: NoSuchTarget, or LedgerError if the bullet has other counters.
    """
    query = "SELECT helpful, harmful FROM bullet WHERE playbook_id = ? AND name = ?"
    row = writing.sql.row(query, name)
    if row is None:
        raise NoSuchTarget(
            f"the rule {name!r} does not exist; to see all rules, including removed ones, run "
            "`reflector list --removed`"
        )
    if tuple(row) != (helpful, harmful):
        raise LedgerError(
            f"the counters of {name} are {row[0]} helpful, {row[1]} harmful, not {helpful} "
            f"helpful, {harmful} harmful, so nothing was appended. To see why, run `reflector "
            f"blame {name}`"
        )
    data = {"name": name, "helpful": helpful, "harmful": harmful}
    event_id = identity(BULLET_ASSERTED, name, writing.position)
    (answer,) = append(writing, [prepare(NewEvent(BULLET_ASSERTED, event_id, data, actor))])
    return answer


def _refuse_taken_names(sql: Statements, events: list[Event]) -> None:
    """Refuse events that add a bullet under a name that the playbook ever had.

    Raises: Conflict.
    """
    new = []
    for event in events:
        new += [(event, bullet["name"]) for bullet in bullets_brought(event.type, event.facts)]
    if not new:
        return
    query = "SELECT name, position FROM bullet WHERE playbook_id = ? AND name IN ?"
    taken = dict(sql.rows(query, [name for _, name in new]))
    for event, name in new:
        if name in taken:
            message = (
                f"a rule got the name {name} at position {taken[name]}. A name is never used "
                "again, so nothing was appended. Give the new rule a name that was never used"
            )
            raise Conflict(message, event.event_id, taken[name])
        taken[name] = event.position
