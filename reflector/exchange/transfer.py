"""Moves a whole ledger into a file, out of one, or between engines, with the same chain.

Invariant: the loaded ledger is the same ledger, with its origin, positions, times and chain, or
nothing is loaded. The hashes of every line are computed again before it is written, in one
transaction. So a wrong file, a kill or a full disk leaves the ledger unchanged. Lines are read,
checked and written page by page, so memory use does not grow with the ledger.

The lines are CloudEvents 1.0 JSON, so that other programs can read them. A line contains everything
that the chain commits to: every field of the header, `data` and `meta` as they are stored, and the
hashes. The first line names the ledger and its last head. The names are a documented contract
(docs/moving.md). Unknown attributes are ignored, because brokers add their own.

Hashes only prove that a file was not changed after it was written. So a line is refused if a later
merge could not read its time or its place in another ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from reflector.events import event as ev
from reflector.events.event import (
    NewEvent,
    came_through,
    first_moment,
    is_place,
    latest_time,
    time_of,
)
from reflector.events.registry import EVENT_TYPES, ONCE_PER_TARGET
from reflector.ledger.append import Prepared, check_facts, check_fields, prepare
from reflector.ledger.canonical import NotCanonical, genesis, next_chain, plain, sealed
from reflector.ledger.errors import HEAD_MISPLACED, LedgerCorrupt, LedgerError, translated
from reflector.ledger.projection import fill_tables
from reflector.ledger.reader import Reader
from reflector.ledger.rows import Head, Stored, object_in
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.playbook.names import is_name

_PAGE = 1000
#: More than an event with the longest answer that is kept, if each of its characters is escaped.
_MAX_LINE_BYTES = 64 * 2**20
_COLUMNS = ", ".join(Stored._fields)
_ROWS = (
    f"SELECT {_COLUMNS} FROM event"  # noqa: S608
    f" WHERE playbook_id = ? AND position > ? AND position <= ? ORDER BY position LIMIT {_PAGE}"
)
_FORMAT = "reflector.ledger"
_VERSION = 1
_EXPORTED = "ledger.exported"
_SOURCE = "urn:reflector:ledger:"
#: The format of every ledger, so that texts sort in the order of time.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
#: After an event at the last possible time, no event could follow.
_END_OF_TIME = "9999"

#: The attributes of an event's line, in order, and their fields of the event.
_ATTRIBUTES = {
    "id": "event_id",
    "type": "type",
    "time": "recorded_at",
    "position": "position",
    "schemaversion": "schema_version",
    "occurredat": "occurred_at",
    "actor": "actor",
    "datahash": "data_hash",
    "meta": "meta",
    "chain": "chain",
}
#: Attributes that are omitted without a value, because the specification has no null.
_OPTIONAL = {
    "sessionid": "session_id",
    "reflectionid": "reflection_id",
    "targetid": "target_id",
}

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Header(NamedTuple):
    """The ledger whose history follows, and the head at which it ends."""

    playbook: str
    origin: str
    position: int
    chain: str


def header_line(header: Header) -> str:
    """Return the first line of a file, without a newline."""
    attributes = {
        "specversion": "1.0",
        "id": header.chain,
        "source": _SOURCE + header.origin,
        "type": _EXPORTED,
    }
    data = {"format": _FORMAT, "version": _VERSION, **header._asdict()}
    return _encode({**attributes, "datacontenttype": "application/json", "data": data})


def event_line(stored: Stored, origin: str) -> str:
    """Return an event's line, without a newline. Data that is not a JSON object stays a text."""
    facts, fault = object_in(stored.data) if stored.data is not None else ({}, "")
    name = facts.get("name") if stored.type.startswith("bullet.") else None
    attributes = {"specversion": "1.0", "id": stored.event_id, "source": _SOURCE + origin}
    attributes |= {attribute: getattr(stored, field) for attribute, field in _ATTRIBUTES.items()}
    optional = {attribute: getattr(stored, field) for attribute, field in _OPTIONAL.items()}
    # With this, consumers can filter events by their bullet without reading `data`.
    optional["subject"] = name if is_name(name) else None
    attributes |= {attribute: value for attribute, value in optional.items() if value is not None}
    if stored.data is None:
        return _encode(attributes)
    if fault or "\n" in stored.data:
        return _encode({**attributes, "datacontenttype": "text/plain", "data": stored.data})
    attributes["datacontenttype"] = "application/json"
    return f'{_encode(attributes)[:-1]},"data":{stored.data}}}'


def header_of(text: str | bytes) -> Header:
    """Return the header of a file's first line.

    Raises: LedgerError.
    """
    attributes = _cloud_event(text)
    header = attributes.get("data")
    is_export = attributes.get("type") == _EXPORTED
    if not is_export or not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise LedgerError(
            "this line is not the header of an exported ledger; create the file with `reflector "
            "export --format ndjson`"
        )
    if (version := header.get("version")) != _VERSION:
        raise LedgerError(
            f"the export has version {version!r}, but this reflector reads version {_VERSION}; "
            "upgrade reflector"
        )
    origin = _text(header, "origin")
    if re.fullmatch("[0-9a-f]{32}", origin) is None:
        raise LedgerError(f"origin is {_shown(origin)}; it must be 32 hex digits")
    position = _number(header, "position", least=0)
    return Header(_text(header, "playbook"), origin, position, _text(header, "chain"))


class ParsedLine(NamedTuple):
    """The event of a line, with its data and meta as written; erased data is None."""

    stored: Stored
    facts: dict[str, Any] | None
    meta: dict[str, Any]


def parse_event_line(text: str | bytes, origin: str) -> ParsedLine:
    """Return the event of a line.

    origin  the origin in the header

    Raises: LedgerError.
    """
    attributes = _cloud_event(text)
    source = attributes.get("source")
    if source != _SOURCE + origin:
        raise LedgerError(
            f"`source` is {_shown(source)}, but the header of the file names {_SOURCE + origin}"
        )
    facts = attributes.get("data")
    if "data" in attributes and not isinstance(facts, dict):
        raise LedgerError(f"data is {_shown(facts)}; it must be an object")
    stored = _stored(attributes)
    version = stored.schema_version
    if stored.type not in EVENT_TYPES or version > ev.SCHEMA_VERSION:
        raise LedgerError(
            f"this reflector does not know events of the type {stored.type[:60]!r} in version "
            f"{version}; upgrade reflector"
        )
    if not _is_time(stored.recorded_at):
        raise LedgerError(
            f"`time` is {stored.recorded_at[:40]!r}; it must have the form "
            f"2026-01-02T03:04:05.000000Z and be before the year {_END_OF_TIME}"
        )
    return ParsedLine(stored, facts, _meta(stored.meta))


def _stored(attributes: Mapping[str, Any]) -> Stored:
    """Return the event of a line's attributes, without its data."""
    fields: dict[str, Any] = {
        "schema_version": _number(attributes, "schemaversion", least=1),
        "position": _number(attributes, "position", least=1),
        "data": None,
    }
    present = {name: field for name, field in _OPTIONAL.items() if name in attributes}
    for name, field in {**_ATTRIBUTES, **present}.items():
        if field not in fields:
            fields[field] = _text(attributes, name)
    return Stored(**{**dict.fromkeys(_OPTIONAL.values()), **fields})


def _cloud_event(text: str | bytes) -> dict[str, Any]:
    try:
        attributes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"the line is not JSON, or was cut off ({error})") from error
    if not isinstance(attributes, dict) or attributes.get("specversion") != "1.0":
        raise LedgerError(
            "the line is not a CloudEvent: a CloudEvent is an object with specversion 1.0"
        )
    return attributes


def _meta(text: str) -> dict[str, Any]:
    """Return the meta of an event.

    Raises: LedgerError if it is not an object, or its places in other ledgers are incomplete.
    """
    meta, fault = object_in(text)
    if fault:
        raise LedgerError(f"meta is {_shown(text)}: {fault}")
    places = list(came_through(meta))
    last = places[-1] if places else meta
    is_complete = ev.MERGED not in last
    if not is_complete or not all(map(_is_dated_place, places)):
        raise LedgerError(
            "in the event's meta: `merged` must contain an origin, a position and a time "
            "(recorded_at)"
        )
    return meta


def _is_dated_place(place: Mapping[str, Any]) -> bool:
    times = [place[key] for key in ("recorded_at", "moment") if key in place]
    return is_place(place) and all(map(_is_time, times))


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or value >= _END_OF_TIME:
        return False
    # The pattern also fits a day or an hour that does not exist.
    return bool(_TIME.fullmatch(value)) and time_of(value) is not None


def _text(attributes: Mapping[str, Any], name: str) -> str:
    text = attributes.get(name)
    if not isinstance(text, str) or not text:
        raise LedgerError(f"`{name}` is {_shown(text)}; it must be text")
    return text


def _number(attributes: Mapping[str, Any], name: str, *, least: int) -> int:
    number = attributes.get(name)
    if type(number) is not int or number < least:
        raise LedgerError(
            f"{name} is {_shown(number)}; it must be a whole number of at least {least}"
        )
    return number


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:80]


class WrongLine(LedgerError):
    """A file that is not the unchanged history of one ledger; `number` is the first line that shows
    it.
    """

    def __init__(self, number: int, fault: str) -> None:
        super().__init__(f"line {number}: {fault}. Nothing was imported from the file")
        self.number = number


class CheckedLine(NamedTuple):
    """A line with correct hashes: the event as it was stored, and as it would be appended.

    erased  the line of the event of which this one contains the remaining facts; None for most
    """

    number: int
    stored: Stored
    prepared: Prepared
    erased: CheckedLine | None = None


def exported(ledger: Reader, upto: int | None = None, *, after: int | None = None) -> Iterator[str]:
    """Yield the lines of a ledger, the header first. They show one state, even while others append.

    upto   the last position; None is the head
    after  yield only the events after this position, without a header

    Raises: LedgerError; LedgerCorrupt if the event of the last position is missing.
    """
    with translated(ledger.engine.url.shown), ledger.asking() as sql:
        query = "SELECT name, origin, position FROM playbook WHERE id = ?"
        name, origin, head = sql.run(query).fetchone()
        end = head if upto is None else min(upto, head)
        query = "SELECT chain FROM event WHERE playbook_id = ? AND position = ?"
        end_row = sql.run(query, end).fetchone()
        if end and end_row is None:
            raise LedgerCorrupt(HEAD_MISPLACED.format(where=ledger.engine.url.shown))
        if after is None:
            chain = end_row[0] if end_row else genesis(name, origin)
            yield header_line(Header(name, origin, end, chain))
        position = after or 0
        while rows := sql.run(_ROWS, position, end).fetchall():
            for row in rows:
                yield event_line(Stored(*row), origin)
            position = rows[-1][0]


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file.

    Raises: WrongLine for a line that is longer than any event.
    """
    number = 1
    while line := file.readline(_MAX_LINE_BYTES + 1):
        if len(line) > _MAX_LINE_BYTES:
            longest = f"{_MAX_LINE_BYTES:,}"
            raise WrongLine(
                number, f"the line is longer than {longest} bytes, the limit for an event"
            )
        yield line
        number += 1


def checked_lines(lines: Iterable[str | bytes]) -> tuple[Header, Iterator[CheckedLine]]:
    """Return a file's header and its lines, which are proved while they are read: every hash of
    every line, and at the end those of the header.

    Raises: WrongLine for the first line that is wrong.
    """
    numbered = enumerate(lines, start=1)
    _, first_line = next(numbered, (1, ""))
    try:
        header = header_of(first_line)
    except LedgerError as error:
        raise WrongLine(1, str(error)) from error
    return header, _proved(header, numbered)


def _proved(header: Header, lines: Iterable[tuple[int, str | bytes]]) -> Iterator[CheckedLine]:
    history = _ProvedHistory(header)
    for number, text in lines:
        try:
            if history.position == header.position:
                raise LedgerError(
                    f"the header names {header.position} as the last position, but this line comes "
                    "after that position"
                )
            line = history.take(_sealed(number, parse_event_line(text, header.origin)))
        except (NotCanonical, LedgerError) as error:
            raise WrongLine(number, str(error)) from error
        yield line
    history.finish()


class _ProvedHistory:
    """The lines of a file so far, each of which follows from the lines before it."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.number = 1
        self.position = 0
        self.chain = genesis(header.playbook, header.origin)
        self.recorded_at = ""
        #: The first erased line of each line of redactions, by the id of its last erased one.
        self.erased: dict[str | None, CheckedLine] = {}

    def take(self, line: CheckedLine) -> CheckedLine:
        """Add the next line. Return it with the event of which it contains the remaining facts.

        Raises: LedgerError for a line that cannot follow.
        """
        stored = line.stored
        chain = next_chain(self.chain, stored[:10], stored.data_hash, line.prepared.meta_hash)
        self._check_place(stored, chain)
        erased_line = self._erased_by(line) if stored.type == ev.EVENT_REDACTED else None
        if line.prepared.facts is None:
            self.erased[stored.event_id] = erased_line or line
        elif erased_line is not None:
            _check_remnant(line, erased_line)
            line = line._replace(erased=erased_line)
        self.number = line.number
        self.position = stored.position
        self.chain = chain
        self.recorded_at = stored.recorded_at
        return line

    def _erased_by(self, line: CheckedLine) -> CheckedLine:
        """Return the event whose text an `event.redacted` erased."""
        target_id = line.stored.target_id
        erased_line = self.erased.pop(target_id, None)
        if erased_line is None:
            raise LedgerError(
                f"this event erased the text of {target_id}, but the file still contains the text"
            )
        return erased_line

    def _check_place(self, stored: Stored, chain: str) -> None:
        """Check an event's position, its time, and its chain against the computed one."""
        if stored.position != self.position + 1:
            raise LedgerError(
                f"this line has position {stored.position}, but must have position "
                f"{self.position + 1}"
            )
        if stored.chain != chain:
            raise LedgerError(
                f"the event's attributes or meta were changed: the chain must be {chain}, but "
                f"this line has {stored.chain}"
            )
        if stored.recorded_at < self.recorded_at:
            raise LedgerError(
                f"the event was recorded at {stored.recorded_at}, before the event of the line "
                f"above ({self.recorded_at})"
            )

    def finish(self) -> None:
        """Check that the history ends at the header's position and chain, and records each erasure.

        Raises: WrongLine.
        """
        if self.position != self.header.position:
            raise WrongLine(
                self.number,
                f"the file was cut off: its last event has position {self.position}, but the "
                f"header names {self.header.position} as the last position",
            )
        if self.chain != self.header.chain:
            raise WrongLine(
                1,
                f"the chain in the header ({self.header.chain}) and the chain at the last line "
                f"({self.chain}) differ, so the file is damaged or was changed",
            )
        for line in self.erased.values():
            raise WrongLine(
                line.number,
                f"the data of this {line.stored.type} was erased, but the file lacks the "
                "event.redacted that records the erasure. If you exported with --as-of, export "
                "again up to a position after the erasure",
            )


def _sealed(number: int, line: ParsedLine) -> CheckedLine:
    """Return a line with its texts in canonical form, and check the hash of its data.

    Raises: LedgerError, NotCanonical.
    """
    stored = line.stored
    event = NewEvent(
        stored.type,
        stored.event_id,
        line.facts or {},
        stored.actor,
        occurred_at=stored.occurred_at,
        session_id=stored.session_id,
        reflection_id=stored.reflection_id,
        target_id=stored.target_id,
        meta=line.meta,
        schema_version=stored.schema_version,
    )
    if line.facts is None:
        check_fields(event)
        meta, meta_hash = sealed(plain(line.meta))
        prepared = Prepared(event, None, None, stored.data_hash, meta, meta_hash)
    else:
        prepared = prepare(event, foreign=True)
    if prepared.data_hash != stored.data_hash:
        raise LedgerError(
            f"the event's data was changed: the SHA-256 is {prepared.data_hash}, but datahash is "
            f"{stored.data_hash}"
        )
    stored = stored._replace(data=prepared.data, meta=prepared.meta)
    return CheckedLine(number, stored, prepared)


def load_ledger(ledger: Ledger, lines: Iterable[str | bytes], *, own: bool = False) -> Head:
    """Load the ledger of a file into an empty ledger, and return its head.

    own  the events were recorded on this machine, so they may be of a clock that was ahead

    Raises: WrongLine, LedgerError.
    """
    header, checked = checked_lines(lines)
    if header.playbook != ledger.name:
        raise LedgerError(
            f"the file has the playbook {header.playbook!r}, but your playbook is {ledger.name!r}; "
            f"to load the file, set REFLECTOR_PLAYBOOK={header.playbook} for this command"
        )
    with ledger.writing() as writing:
        sql = writing.sql
        if writing.position:
            raise LedgerError(
                f"{ledger.engine.url.shown} already has {writing.position:,} events of the "
                f"playbook {ledger.name!r} and was not changed; name an empty ledger. To merge "
                "the events of the two ledgers, export the other ledger to a file, then run "
                "`reflector import FILE`"
            )
        last = insert_lines(sql, checked if own else until_now(checked))
        recorded_at = writing.recorded_at
        if last is not None:
            _check_is_current(last)
            recorded_at = last.recorded_at
        # In one statement, because the chain of an empty playbook is computed from its origin.
        update = (
            "UPDATE playbook SET origin = ?, position = ?, chain = ?, recorded_at = ? WHERE id = ?"
        )
        sql.execute(update, header.origin, header.position, header.chain, recorded_at, sql.id)
        fill_tables(sql)
    return ledger.head()


def _check_is_current(last: Stored) -> None:
    """Refuse a history that continues in another ledger."""
    if last.type == ev.LEDGER_MOVED:
        raise WrongLine(
            last.position + 1,
            "this playbook moved to another ledger; export the other ledger, and import this "
            "export",
        )


def until_now(lines: Iterator[CheckedLine]) -> Iterator[CheckedLine]:
    """Yield lines, and refuse the first one whose event is from the future.

    Raises: WrongLine.
    """
    latest = latest_time()
    for line in lines:
        stored = line.stored
        first_time = first_moment(line.prepared.event.meta, (stored.recorded_at, "", 0))[0]
        if (time := max(first_time, stored.recorded_at)) > latest:
            raise WrongLine(line.number, _of_the_future(time, stored.position))
        yield line


def _of_the_future(time: str, position: int) -> str:
    fault = (
        f"the event was recorded at {time}, which is in the future; check the clocks of this "
        "machine and of the other machine"
    )
    if position == 1:
        return fault
    earlier = f"reflector export --format ndjson --as-of {position - 1}"
    return (
        f"{fault}. If the clock of the other machine was ahead, import only the events before "
        f"this event: `{earlier}`"
    )


def copy_ledger(source: Reader, url: str) -> Head:
    """Copy this ledger into the empty ledger at a URL, on any engine, and return its head.

    Raises: WrongLine if the source is not sound, LedgerError.
    """
    with Ledger.open(url, source.name) as target:
        return load_ledger(target, exported(source), own=True)


def insert_lines(sql: Statements, lines: Iterator[CheckedLine]) -> Stored | None:
    """Insert the events unchanged into the event table only, and return the last one. The caller
    moves the head.

    Raises: WrongLine for an event that conflicts with the others.
    """
    last: Stored | None = None
    while page := list(islice(lines, _PAGE)):
        _refuse_strays(sql, page)
        sql.insert("event", Stored._fields, [line.stored for line in page])
        last = page[-1].stored
    return last


def _refuse_strays(sql: Statements, page: list[CheckedLine]) -> None:
    """Refuse the events that the database would refuse, and name their line: a taken id, a taken
    target or a missing target.
    """
    present = _present_ids(sql, page)
    taken = _taken_targets(sql, page)
    for line in page:
        stored = line.stored
        target_id = stored.target_id
        if stored.event_id in present:
            fault = f"an earlier line or this ledger already contains the event {stored.event_id}"
            raise WrongLine(line.number, fault)
        present.add(stored.event_id)
        if target_id is None:
            continue
        if target_id not in present:
            raise WrongLine(
                line.number, f"the target of this event, {target_id}, is not an earlier event"
            )
        if stored.type in ONCE_PER_TARGET:
            if (stored.type, target_id) in taken:
                raise WrongLine(
                    line.number,
                    f"the target of this event, {target_id}, already has a {stored.type}",
                )
            taken.add((stored.type, target_id))


def _present_ids(sql: Statements, page: list[CheckedLine]) -> set[str]:
    """Return the ids that already exist among the events of a page and their targets."""
    ids = {line.stored.event_id for line in page}
    ids |= {line.stored.target_id for line in page if line.stored.target_id}
    query = "SELECT event_id FROM event WHERE playbook_id = ? AND event_id IN ?"
    return {row[0] for row in sql.run(query, ids)}


def _taken_targets(sql: Statements, page: list[CheckedLine]) -> set[tuple[str, str]]:
    """Return the targets of a page that are already taken, with the types of the events that took
    them.
    """
    targets = [line.stored.target_id for line in page if line.stored.type in ONCE_PER_TARGET]
    types = ", ".join(map(repr, ONCE_PER_TARGET))
    query = (
        "SELECT type, target_id FROM event"  # noqa: S608
        f" WHERE playbook_id = ? AND type IN ({types}) AND target_id IN ?"
    )
    return {(row[0], row[1]) for row in sql.run(query, targets).fetchall()}


def _check_remnant(line: CheckedLine, erased_line: CheckedLine) -> None:
    """Check the facts that a redaction kept of an event, if the event has facts that must stay.

    Raises: LedgerError.
    """
    erased = erased_line.stored
    if erased.type == ev.EVENT_REDACTED or EVENT_TYPES[erased.type].all_prose:
        return
    remnant = (line.prepared.facts or {}).get("kept")
    if not isinstance(remnant, Mapping):
        raise LedgerError(
            f"in the file, the erased {erased.type} at position {erased.position} lacks the facts "
            "that an erasure keeps; export the ledger again"
        )
    check_facts(erased_line.prepared.event, remnant, foreign=True)
