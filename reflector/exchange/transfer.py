"""A whole ledger moved: into a file, out of one, from one engine to the other; the chain stays what
it was.

Invariant: what is loaded is the same ledger, its origin, positions, times and chain, or nothing.
The hashes of every line are computed again before it is written, and all of it is one transaction:
a wrong file, a kill or a full disk leave the ledger as it was. Lines are read, checked and written
page by page, so memory stays flat.

The lines are CloudEvents 1.0 JSON, so that other programs read each of them too. A line holds all
that the chain commits to: every field of the header, `data` and `meta` as they are stored, and the
hashes. The first says whose history it is and where it ends. Names and meanings are a documented
contract (docs/team.md). Attributes that are not ours are passed over: brokers add their own. Hashes
only say that a file was not changed since it was written, so a line is refused if a later merge
could not read its time or its place in another ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, BinaryIO, Final, NamedTuple

from reflector.events import event as ev
from reflector.events.event import NewEvent, came_through, first_moment, is_place, time_of, written
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

_PAGE: Final = 1000
#: More than an event with the longest answer that is kept, each character of it escaped.
_LONGEST: Final = 64 * 2**20
_ROWS = (
    f"SELECT {', '.join(Stored._fields)} FROM event WHERE playbook_id = ? AND position > ? AND "  # noqa: S608
    "position <= ?"
    f" ORDER BY position LIMIT {_PAGE}"
)
_FORMAT: Final = "reflector.ledger"
_VERSION: Final = 1
_EXPORTED: Final = "ledger.exported"
_SOURCE: Final = "urn:reflector:ledger:"
#: As every ledger writes it, so that texts are in the order of time.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
#: No event could follow one of the last moment of time.
_END: Final = "9999"
_TO_COME: Final = "it was recorded at {}, which is still to come; check the clocks of both machines"

#: The attributes of an event's line, in order, and which fields of the event they are.
_ATTRIBUTES: Final = {
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
#: Those without a value are left out: the specification knows no null.
_OPTIONAL: Final = {
    "sessionid": "session_id",
    "reflectionid": "reflection_id",
    "targetid": "target_id",
}

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Header:
    """Whose history follows, and the head at which it ends."""

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
    data = {"format": _FORMAT, "version": _VERSION, **asdict(header)}
    return _encode({**attributes, "datacontenttype": "application/json", "data": data})


def event_line(stored: Stored, origin: str) -> str:
    """Return an event's line, without a newline. Data that is no JSON object stands in it as the
    text that it is.
    """
    facts, fault = object_in(stored.data) if stored.data is not None else ({}, "")
    name = facts.get("name") if stored.type.startswith("bullet.") else None
    attributes = {"specversion": "1.0", "id": stored.event_id, "source": _SOURCE + origin}
    attributes |= {attribute: getattr(stored, field) for attribute, field in _ATTRIBUTES.items()}
    optional = {attribute: getattr(stored, field) for attribute, field in _OPTIONAL.items()}
    # Consumers filter by the bullet that an event is about without reading `data`.
    optional["subject"] = name if is_name(name) else None
    attributes |= {attribute: value for attribute, value in optional.items() if value is not None}
    if stored.data is None:
        return _encode(attributes)
    if fault or "\n" in stored.data:
        return _encode({**attributes, "datacontenttype": "text/plain", "data": stored.data})
    attributes["datacontenttype"] = "application/json"
    return f'{_encode(attributes)[:-1]},"data":{stored.data}}}'


def header_of(text: str | bytes) -> Header:
    """Return the header of a file's first line. Raises LedgerError."""
    value = _object(text)
    data = value.get("data")
    if (
        value.get("type") != _EXPORTED
        or not isinstance(data, dict)
        or data.get("format") != _FORMAT
    ):
        raise LedgerError(
            "it is not the header of a ledger; write a file with `reflector export --format ndjson`"
        )
    if (version := data.get("version")) != _VERSION:
        raise LedgerError(
            f"it is of version {version!r}, this reflector reads {_VERSION}; upgrade reflector"
        )
    origin = _text(data, "origin")
    if re.fullmatch("[0-9a-f]{32}", origin) is None:
        raise LedgerError(f"origin is {_shown(origin)}, it must be 32 hex digits")
    return Header(
        _text(data, "playbook"), origin, _number(data, "position", least=0), _text(data, "chain")
    )


def line_of(text: str | bytes, origin: str) -> tuple[Stored, dict[str, Any] | None, dict[str, Any]]:
    """Return the event of a line with its data, None where it was erased, and its meta; both as
    they are written.

    `origin` is its header's. Raises LedgerError.
    """
    value = _object(text)
    if value.get("source") != _SOURCE + origin:
        raise LedgerError(
            f"source is {_shown(value.get('source'))}, the header's ledger is {_SOURCE + origin}"
        )
    data = value.get("data")
    if "data" in value and not isinstance(data, dict):
        raise LedgerError(f"data is {_shown(data)}, it must be an object")
    version = _number(value, "schemaversion", least=1)
    fields = {
        "position": _number(value, "position", least=1),
        "schema_version": version,
        "data": None,
    }
    names = {**_ATTRIBUTES, **{name: field for name, field in _OPTIONAL.items() if name in value}}
    texts = {field: _text(value, name) for name, field in names.items() if field not in fields}
    stored = Stored(**dict.fromkeys(_OPTIONAL.values()) | texts | fields)  # type: ignore[arg-type]
    if stored.type not in EVENT_TYPES or version > ev.SCHEMA_VERSION:
        raise LedgerError(
            f"this reflector knows no {stored.type[:60]!r} of version {version}; upgrade reflector"
        )
    if not _is_time(stored.recorded_at):
        form = "in the form of 2026-01-02T03:04:05.000000Z"
        raise LedgerError(
            f"time is {stored.recorded_at[:40]!r}, it must be one before the year {_END}, {form}"
        )
    return stored, data, _meta(stored.meta)


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"it is not JSON, or was cut off ({error})") from error
    if not isinstance(value, dict) or value.get("specversion") != "1.0":
        raise LedgerError("it is not a CloudEvent: an object with specversion 1.0 is wanted")
    return value


def _meta(text: str) -> dict[str, Any]:
    meta, fault = object_in(text)
    if fault:
        raise LedgerError(f"meta is {_shown(text)}: {fault}")
    places = [meta, *came_through(meta)]
    times = (came[key] for came in places[1:] for key in ("recorded_at", "moment") if key in came)
    if ev.MERGED in places[-1] or not (
        all(map(is_place, places[1:])) and all(map(_is_time, times))
    ):
        raise LedgerError("what its meta says under merged is not a place in another ledger")
    return meta


def _is_time(value: object) -> bool:
    # A day or an hour need not exist.
    return (
        isinstance(value, str)
        and value < _END
        and bool(_TIME.fullmatch(value))
        and time_of(value) is not None
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise LedgerError(f"{name} is {_shown(found)}, it must be a text")
    return found


def _number(value: Mapping[str, Any], name: str, *, least: int) -> int:
    found = value.get(name)
    if type(found) is not int or found < least:
        raise LedgerError(f"{name} is {_shown(found)}, it must be a whole number from {least}")
    return found


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:80]


class WrongLine(LedgerError):
    """A file that is not one ledger's history as it was written; `number` is the first line that
    shows it.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"line {number}: {what}. Nothing of the file was imported")
        self.number = number


class Checked(NamedTuple):
    """A line whose hashes are right: the event as it was stored, and as it would be appended."""

    number: int
    stored: Stored
    prepared: Prepared


def exported(ledger: Reader, upto: int | None = None, *, after: int | None = None) -> Iterator[str]:
    """Yield the lines of a ledger, up to a position or its head: one state of it, also while others
    append.

    The first is the header; `after` a position there are the events behind it alone.
    """
    with translated(ledger.engine.url.shown), ledger.asking() as sql:
        name, origin, head = sql.run(
            "SELECT name, origin, position FROM playbook WHERE id = ?"
        ).fetchone()
        end = head if upto is None else min(upto, head)
        found = sql.run(
            "SELECT chain FROM event WHERE playbook_id = ? AND position = ?", end
        ).fetchone()
        if end and found is None:
            raise LedgerCorrupt(HEAD_MISPLACED.format(where=ledger.engine.url.shown))
        if after is None:
            yield header_line(
                Header(name, origin, end, found[0] if found else genesis(name, origin))
            )
        position = after or 0
        while rows := sql.run(_ROWS, position, end).fetchall():
            for row in rows:
                yield event_line(Stored(*row), origin)
            position = rows[-1][0]


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file. Raises WrongLine for one that is longer than any event."""
    number = 1
    while line := file.readline(_LONGEST + 1):
        if len(line) > _LONGEST:
            raise WrongLine(number, f"it is longer than {_LONGEST:,} bytes, which no event is")
        yield line
        number += 1


def checked(lines: Iterable[str | bytes]) -> tuple[Header, Iterator[Checked]]:
    """What a file's lines say, proved while they are read: every hash of every line, and the
    header's at the end. Raises WrongLine for the first line that is wrong.
    """
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (1, ""))
    try:
        header = header_of(first)
    except LedgerError as error:
        raise WrongLine(1, str(error)) from error
    return header, _proved(header, numbered)


def _proved(header: Header, lines: Iterable[tuple[int, str | bytes]]) -> Iterator[Checked]:
    number, position, chain, recorded_at = 1, 0, genesis(header.playbook, header.origin), ""
    erased: set[str | None] = set()
    for number, text in lines:
        if position == header.position:
            raise WrongLine(
                number,
                f"the header says that the history ends at position {position}, in front of it",
            )
        try:
            one = _sealed(number, line_of(text, header.origin))
        except (NotCanonical, LedgerError) as error:
            raise WrongLine(number, str(error)) from error
        stored = one.stored
        if stored.position != position + 1:
            raise WrongLine(
                number,
                f"its position is {stored.position}, after {position} comes {position + 1}",
            )
        chain = next_chain(chain, stored[:10], stored.data_hash, one.prepared.meta_hash)
        if stored.chain != chain:
            what = (
                f"its attributes or meta are not what was appended: the chain computed is {chain}"
            )
            raise WrongLine(number, f"{what}, the line has {stored.chain}")
        if stored.recorded_at < recorded_at:
            raise WrongLine(
                number,
                f"it was recorded at {stored.recorded_at}, before the line above ({recorded_at})",
            )
        if one.prepared.facts is None:
            erased.add(stored.event_id)
        if stored.type == ev.EVENT_REDACTED and stored.target_id not in erased:
            raise WrongLine(
                number,
                f"it says that the text of {stored.target_id} was erased, and the text is there",
            )
        position, recorded_at = stored.position, stored.recorded_at
        yield one
    if position != header.position:
        what = (
            f"the file ends here, at position {position} of the {header.position} that the "
            "header names"
        )
        raise WrongLine(number, f"{what}; it was cut off")
    if chain != header.chain:
        raise WrongLine(1, f"the header's chain is {header.chain}, the history's last is {chain}")


def _sealed(number: int, line: tuple[Stored, dict[str, Any] | None, dict[str, Any]]) -> Checked:
    """Return a line with its texts in canonical form, from which its hashes are computed."""
    said, facts, meta = line
    event = NewEvent(
        *(said.type, said.event_id, facts or {}, said.actor, said.occurred_at),
        *(said.session_id, said.reflection_id, said.target_id, meta, said.schema_version),
    )
    if facts is None:
        check_fields(event)
        prepared = Prepared(event, None, None, said.data_hash, *sealed(plain(meta)))
    else:
        prepared = prepare(event, foreign=True)
    if prepared.data_hash != said.data_hash:
        what = f"its data is not what was appended: the SHA-256 is {prepared.data_hash}"
        raise LedgerError(f"{what}, datahash is {said.data_hash}")
    return Checked(number, said._replace(data=prepared.data, meta=prepared.meta), prepared)


def load(ledger: Ledger, lines: Iterable[str | bytes]) -> Head:
    """Make an empty ledger the one that a file holds. Raises WrongLine, LedgerError."""
    header, events = checked(lines)
    if header.playbook != ledger.name:
        raise LedgerError(
            f"the file is of the playbook {header.playbook!r} and this one is {ledger.name!r}, "
            "which its chain begins "
            f"with; set `playbook` to {header.playbook!r} (REFLECTOR_PLAYBOOK does it for once)"
        )
    with ledger.writing() as writing:
        sql = writing.sql
        if writing.position:
            raise LedgerError(
                f"{ledger.engine.url.shown} has {writing.position:,} events of the playbook "
                f"{ledger.name!r} and was "
                "not changed; name an empty ledger, or add the file's events to these: `reflector "
                "import FILE`"
            )
        last = write(sql, events)
        if last is not None and last.type == ev.LEDGER_MOVED:
            raise WrongLine(
                last.position + 1,
                "here the playbook moved to another ledger; import that one's export",
            )
        if last is not None and last.recorded_at > latest_time():
            raise WrongLine(last.position + 1, _TO_COME.format(last.recorded_at))
        update = (
            "UPDATE playbook SET origin = ?, position = ?, chain = ?, recorded_at = ? WHERE id = ?"
        )
        recorded_at = last.recorded_at if last is not None else writing.recorded_at
        sql.execute(update, header.origin, header.position, header.chain, recorded_at, sql.id)
        fill_tables(sql)
    return ledger.head()


def latest_time() -> str:
    """Return the latest time that an event of another ledger may have: its clock may be a minute
    ahead of this one.
    """
    return written(datetime.now(UTC) + timedelta(minutes=1))


def refuse_time_to_come(one: Checked, latest: str) -> None:
    """Refuse an event that was first recorded after a time: no event of one's own can be. Raises
    WrongLine.
    """
    stored = one.stored
    first = first_moment(one.prepared.event.meta, (stored.recorded_at, "", 0))[0]
    if (time := max(first, stored.recorded_at)) > latest:
        raise WrongLine(one.number, _TO_COME.format(time))


def copy(source: Reader, url: str) -> Head:
    """Make the empty ledger at a URL the same ledger as this one, on any engine; return where it
    ends. Raises WrongLine where the source is not sound, LedgerError.
    """
    with Ledger.open(url, source.name) as target:
        return load(target, exported(source))


def write(sql: Statements, events: Iterator[Checked]) -> Stored | None:
    """Insert the events unchanged, into the event table alone, and return the last one. The caller
    moves the head. Raises WrongLine for an event that conflicts with the others.
    """
    erased = Erased()
    last: Stored | None = None
    while page := list(islice(events, _PAGE)):
        _refuse_strays(sql, page)
        for one in page:
            erased.take(one)
        sql.insert("event", Stored._fields, [one.stored for one in page])
        last = page[-1].stored
    erased.refuse_rest()
    return last


def _refuse_strays(sql: Statements, page: list[Checked]) -> None:
    """Refuse, naming the line, what the database would refuse: an id or a target that is taken,
    a missing target.
    """
    ids = {one.stored.event_id for one in page} | {
        one.stored.target_id for one in page if one.stored.target_id
    }
    there = {
        row[0]
        for row in sql.run(
            ("SELECT event_id FROM event WHERE playbook_id = ? AND event_id IN ?"), ids
        )
    }
    targets = [one.stored.target_id for one in page if one.stored.type in ONCE_PER_TARGET]
    once = f"type IN ({', '.join(map(repr, ONCE_PER_TARGET))}) AND target_id IN ?"
    rows = sql.run((f"SELECT type, target_id FROM event WHERE playbook_id = ? AND {once}"), targets)  # noqa: S608
    taken = {(row[0], row[1]) for row in rows.fetchall()}
    for number, stored, _ in page:
        if stored.event_id in there:
            raise WrongLine(
                number, (f"the event {stored.event_id} is already there, at an earlier position")
            )
        there.add(stored.event_id)
        if stored.target_id is not None and stored.target_id not in there:
            raise WrongLine(number, f"its target {stored.target_id} is not an event before it")
        if stored.type in ONCE_PER_TARGET and stored.target_id is not None:
            if (stored.type, stored.target_id) in taken:
                raise WrongLine(
                    number, (f"its target {stored.target_id} has a {stored.type} already")
                )
            taken.add((stored.type, stored.target_id))


class Erased:
    """The events of a file that have no data, until the event.redacted that says what is left of
    them.
    """

    def __init__(self) -> None:
        #: What was erased first, by the id of the last one of its line.
        self._ends: dict[str, Checked] = {}

    def take(self, one: Checked) -> Checked | None:
        """Take the next line; the event of which it says what is left, if it does. Raises
        WrongLine.
        """
        stored = one.stored
        gone = (
            self._ends.pop(stored.target_id or "", None)
            if stored.type == ev.EVENT_REDACTED
            else None
        )
        if one.prepared.facts is None:
            self._ends[stored.event_id] = gone or one
            return None
        if (
            gone is not None
            and gone.stored.type != ev.EVENT_REDACTED
            and not EVENT_TYPES[gone.stored.type].all_prose
        ):
            _check_what_is_left(one, gone)
        return gone

    def refuse_rest(self) -> None:
        """Refuse events without data that no event.redacted has erased. Raises WrongLine."""
        for one in self._ends.values():
            raise WrongLine(
                one.number,
                f"the data of this {one.stored.type} was erased, and no event.redacted of the "
                "file says so; "
                "an export --as-of a position before the erasure cannot be imported; write one of "
                "a later position",
            )


def _check_what_is_left(one: Checked, gone: Checked) -> None:
    kept = (one.prepared.facts or {}).get("kept")
    try:
        if not isinstance(kept, Mapping):
            raise LedgerError(
                f"the facts of the {gone.stored.type} at position {gone.stored.position} are gone"
            )
        check_facts(gone.prepared.event, kept, foreign=True)
    except LedgerError as error:
        raise WrongLine(one.number, str(error)) from error
