"""Two machines' ledgers become one: the events of a file appended behind the ones that are here.

Invariant: a merge is one transaction, adds what is not here and nothing twice, and loses nothing:
each event says in its `meta` where it comes from, and a `ledger.merged` behind each page of them
says up to which head the other ledger is here. The file itself proves the other history. Merging it
again adds nothing.

An event that is here, by its birth or with the same id and data, is not appended again
(`matching`). If an id is here with other data, this ledger's version stays if both state one fact
in different words (a reason, a path, a model's answer); of two creations or changes of a bullet
both are kept, and so are two reflections with different verdicts.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import dropwhile, islice
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.event import MERGED, RESTATED, TX, Event, NewEvent, first_moment, identity
from reflector.events.fields import unpack_keys
from reflector.events.kinds import Merge
from reflector.events.registry import ADVICE, EVENT_TYPES, WORDING_TYPES, fold_in, names_in
from reflector.events.state import Playbook
from reflector.exchange import agreement
from reflector.exchange.bullets import Bullets, bullets_of
from reflector.exchange.matching import (
    OF_REFLECTIONS,
    Birth,
    Known,
    Other,
    Row,
    beside,
    birth_of,
    candidates,
    ids_of,
    is_kept_beside,
)
from reflector.exchange.transfer import (
    Checked,
    Erased,
    Header,
    WrongLine,
    checked,
    latest_time,
    refuse_time_to_come,
    write,
)
from reflector.ledger.append import Prepared, Writing, append, prepare
from reflector.ledger.canonical import plain, sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.projection import fill_tables
from reflector.ledger.reader import between, of_types, redaction_line
from reflector.ledger.redaction import texts_of
from reflector.ledger.rows import Head, Stored
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.playbook.names import Names, is_name

Lines = Callable[[], Iterable[str | bytes]]
#: A bullet's name and what a tag says of it.
Verdict = tuple[str, str]

#: Lines after which a `ledger.merged` is appended; it names each event that was not.
_PAGE: Final = 1000
_SHOWN: Final = 20
_ERASE: Final = (
    "UPDATE event SET data = NULL WHERE playbook_id = ? AND data IS NOT NULL AND event_id"
)
_ERASE_REDACTED: Final = (
    f"{_ERASE} IN (SELECT target_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
    f"{of_types((ev.EVENT_REDACTED,))})"
)


@dataclass(slots=True)
class Survey:
    """What a file holds.

    chains   the chain at each of its positions
    common   the last position at which this ledger has the very chain: the same ledger up to there,
             or merged
    forward  whether this ledger is an earlier state of the file's
    kept     what is left of the erased events' data, by their ids
    types    the types of events of which redactions keep what is left, by the id that the redaction
             points to
    named    every name that an event mentions
    names    bullets that have another name here: the name there, and the one here
    late     events that count as recorded later than their ledger's clock said, by position
             (`Clock`)
    restated events that say what came of a merge there: they are not appended, so nothing here
    points to them
    others   every event by its id
    tags     the tags of each reflection: event id, bullet and verdict
    """

    header: Header
    chains: list[str] = field(default_factory=list)
    common: int = 0
    forward: bool = False
    bullets: Bullets = field(default_factory=Bullets)
    kept: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    late: dict[int, str] = field(default_factory=dict)
    restated: set[str | None] = field(default_factory=set)
    others: dict[str, Other] = field(default_factory=dict)
    tags: dict[str, list[tuple[str, Verdict]]] = field(default_factory=dict)


def survey(lines: Iterable[str | bytes]) -> Survey:
    """Prove a file and read what it holds. Raises WrongLine."""
    header, events = checked(lines)
    found, erased, clock, book = Survey(header), Erased(), agreement.Clock(), Playbook()
    latest = latest_time()
    for one in events:
        stored, meta = one.stored, one.prepared.event.meta
        refuse_time_to_come(one, latest)
        found.chains.append(stored.chain)
        here = Birth(header.origin, stored.position, stored.event_id, stored.data_hash)
        found.others[stored.event_id] = Other(
            stored.type, birth_of(here, meta), tuple(ids_of(stored.event_id, meta))
        )
        _take(found, one, erased)
        if stored.type in ADVICE:
            fold_in(book, _event_of(one))
        if RESTATED in meta:
            found.restated.add(stored.event_id)
        if MERGED in meta:
            clock.came(first_moment(meta, agreement.NEVER))
        elif (moment := clock.own(stored.recorded_at)) != stored.recorded_at:
            found.late[stored.position] = moment
    erased.refuse_rest()
    found.bullets.live = {
        entry.name: entry.text for entry in book.entries.values() if entry.status == "live"
    }
    return found


def _event_of(one: Checked) -> Event:
    """Return the event of a line as the other ledger has it."""
    header, facts = one.stored[:10], one.prepared.facts
    return Event(*header, facts, one.stored.data_hash, one.prepared.event.meta, one.stored.chain)


def compare(writing: Writing, origin: str, found: Survey) -> None:
    """Set how far a file's history is in this ledger."""
    sql, chains = writing.sql, ["", *found.chains]
    if origin == found.header.origin:
        query = "SELECT chain FROM event WHERE playbook_id = ? AND position = ?"
        last = min(writing.position, len(found.chains))
        # Once the chains differ, no later position can match.
        parted = bisect(
            range(1, last + 1), 0, key=lambda at: sql.run(query, at).fetchone() != (chains[at],)
        )
        found.common = parted
        found.forward = 0 < parted == writing.position < len(found.chains)
    for event in between(sql, (ev.LEDGER_MERGED,), 0, writing.position):
        # One that came through another ledger says where that one stood.
        if (
            event.data is not None
            and event.data["origin"] == found.header.origin
            and MERGED not in event.meta
        ):
            position, chain = event.data["position"], event.data["chain"]
            if chains[position : position + 1] == [chain]:
                found.common = max(found.common, position)


def _take(found: Survey, one: Checked, erased: Erased) -> None:
    gone = erased.take(one)
    facts = one.prepared.facts
    said = [(one, facts)] if one.stored.type != ev.EVENT_REDACTED else []
    if gone is not None and facts is not None:
        found.kept[gone.stored.event_id] = kept = facts.get("kept") or None
        found.types[one.stored.target_id or ""] = gone.stored.type
        said = [(gone, kept or {})]
    for (_, stored, _), facts in said:
        if facts is None:
            continue
        found.named |= {name for name in names_in(stored.type, facts) if is_name(name)}
        if stored.type in WORDING_TYPES:
            found.bullets.take(stored.type, found.others[stored.event_id].birth, facts)
        if stored.type == ev.BULLET_TAGGED and stored.reflection_id is not None:
            verdict = str(facts.get("name")), str(facts.get("tag"))
            found.tags.setdefault(stored.reflection_id, []).append((stored.event_id, verdict))


#: A name of two bullets, as they were first written: here, and in the file.
Collision = tuple[str, str, str]


def match(here: Bullets, found: Survey) -> list[Collision]:
    """Set which bullets of the file have other names here; the names of those that mean another
    bullet here.
    """
    there = found.bullets
    known = here.names_of(there)
    found.names = {name: other for name, other in known.items() if name != other}
    colliding = (name for name in there.texts if name not in known and name in here.texts)
    return [(name, min(here.texts[name]), min(there.texts[name])) for name in colliding]


def free_names(
    colliding: Iterable[str], here: Bullets, found: Survey, first: int
) -> dict[str, str]:
    """Return the next free name of each of these, one that neither ledger has ever mentioned."""
    taken = Names([*here.texts, *found.bullets.texts, *found.names.values()], first)
    names: dict[str, str] = {}
    for name in colliding:
        slug = name.partition("-")[0].partition("_")[0]
        new = taken.next(slug)
        # A name that a session cited, though it meant nothing there, could be mistaken for the
        # bullet's own.
        while new in found.named:
            new = taken.next(slug)
        names[name] = new
    return names


def _colliding(names: list[Collision]) -> LedgerError:
    """Return the error of names that mean one bullet here and another one in the file."""
    count = (
        "1 name means another bullet"
        if len(names) == 1
        else (f"{len(names)} names mean other bullets")
    )
    what = (
        f"{count} here than in the file, and a name means one bullet forever; nothing was merged."
    )
    lines = [
        (f"{name}: here {here[:60]!r}, in the file {there[:60]!r}") for name, here, there in names
    ]
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    what += " With --rename the file's bullets get the next free names:"
    return LedgerError("\n  ".join([what, *lines[:_SHOWN], *more]))


@dataclass(slots=True)
class Merged:
    """What a merge did.

    added        events of the file that were appended; 0 where all of them were here, and nothing
                 was appended then
    known        events of the file that were here already
    otherwise    those of them that say something else here, a verdict even; what this ledger says
                 stays
    renamed      names that were given to bullets of the file: old -> new
    restated     bullets that both ledgers changed, about which an event says what came of it
    set_aside    reflections that do not count any more, because another judge's on the same window
                 counts
    overlapping  windows of the file that share records with windows that were here
    forward      this ledger was an earlier state of the file's, and is the same ledger now
    merged_at    the position that undoes the import; null if nothing was appended, or the ledger is
                 the file's now
    """

    head: Head
    added: int = 0
    known: int = 0
    otherwise: int = 0
    #: The first of those, in words.
    differing: list[str] = field(default_factory=list, repr=False)
    renamed: Mapping[str, str] = field(default_factory=dict)
    restated: tuple[str, ...] = ()
    set_aside: int = 0
    overlapping: int = 0
    forward: bool = False
    merged_at: int | None = None


class _NothingNew(Exception):
    """Every event of the file is here; raised so that nothing is appended."""


def merge(ledger: Ledger, lines: Lines, *, rename: bool = False, first: int = 0) -> Merged:
    """Append the events of an exported ledger that are not here. `lines` is called for the file's
    lines, twice: to prove them, and under the ledger's lock.

    rename  bullets of the file whose names mean another bullet here get the next free ones, with
            numbers from `first`

    Raises WrongLine, and LedgerError such as for names that differ; nothing is appended then.
    """
    found, done = survey(lines()), Merged(ledger.head())
    with suppress(_NothingNew), ledger.writing() as writing:
        done.head = _head_at(done.head, writing)
        here = bullets_of(writing.sql, done.head.origin, writing.position)
        compare(writing, done.head.origin, found)
        colliding = [] if found.forward else match(here, found)
        if colliding and not rename:
            raise _colliding(colliding)
        given = free_names([name for name, *_ in colliding], here, found, first)
        found.names |= given
        rest = dropwhile(lambda one: one.stored.position <= found.common, checked(lines())[1])
        if found.forward:
            done.forward, done.head = True, _head_at(done.head, _grown(writing.sql, rest))
        else:
            merging = _Merging(writing, found, done, ledger.draw())
            while page := list(islice(rest, _PAGE)):
                merging.take(page)
            if not done.added:
                done.merged_at = None
                raise _NothingNew
            merging.finish()
            done.renamed, done.head = given, _head_at(done.head, writing)
    if done.added or done.forward:
        ledger.drop_erased()
    return done


def _head_at(head: Head, end: Stored | Writing) -> Head:
    return replace(head, position=end.position, chain=end.chain, recorded_at=end.recorded_at)


def _grown(sql: Statements, rest: Iterator[Checked]) -> Stored:
    """Append the rest of the same history unchanged, and erase what it erased; return the last
    event.
    """
    last = write(sql, rest)
    assert last is not None  # the file is longer
    sql.run(_ERASE_REDACTED, sql.id)
    update = "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?"
    sql.execute(update, last.position, last.chain, last.recorded_at, sql.id)
    fill_tables(sql)
    return last


class _Merging:
    """The transaction of a merge: what was done so far.

    tx           the transaction id of the import
    known        the events here
    here         the id here of each event of the file that was looked at, by its id there; None if
                 it is not here
    reflections  the reflections of the file that have another id here, by the one there
    """

    def __init__(self, writing: Writing, found: Survey, done: Merged, tx: str) -> None:
        self.writing = writing
        self.sql = writing.sql
        self.found = found
        self.done = done
        self.tx = tx
        self.renamed_ids = agreement.renamed_ids(found.names)
        self.erases = False
        self.known = Known(writing.sql, done.head.origin)
        self.here: dict[str, str | None] = {}
        self.reflections: dict[str, str] = {}
        done.known = found.common

    def take(self, page: list[Checked]) -> None:
        """Append what is new of a page, and the record of it. Raises LedgerError."""
        items = [(one, self._under_names(one)) for one in page]
        self._look_up(items)
        here: list[tuple[int, str, str]] = []
        new: list[Prepared] = []
        for one, item in items:
            item = self._pointed(one, item)
            known_as = self._id_here(one, item)
            event_id = self._new_id(one, item) if known_as is None else None
            # One that stays out because its id is taken is the same fact in other words.
            is_same_fact = item.event.event_id in self.known and not self._is_local(one)
            stands_for = item.event.event_id if is_same_fact else None
            self.here[one.stored.event_id] = known_as or event_id or stands_for
            if event_id is None:
                self.done.known += 1
                here.append(
                    (one.stored.position, known_as or item.event.event_id, self._moment(one))
                )
            else:
                new.append(self._prepared(one, item, event_id))
        self._count_overlaps(new)
        append(self.writing, new, merged=True)
        for event in (
            prepared.event for prepared in new if prepared.event.type == ev.EVENT_REDACTED
        ):
            self.sql.run(f"{_ERASE} = ?", event.target_id)
            self.erases = True
        last = page[-1].stored
        upto = replace(self.found.header, position=last.position, chain=last.chain)
        record = {**asdict(upto), "here": here, "renamed": dict(self.found.names)}
        event_id = identity(ev.LEDGER_MERGED, self.writing.chain, last.chain)
        self._append([NewEvent(ev.LEDGER_MERGED, event_id, record, agreement.ACTOR)])
        self.done.merged_at = self.writing.position
        self.known.forget()

    def finish(self) -> None:
        """Append what came of windows and bullets that both judged or changed."""
        if self.erases:
            fill_tables(self.sql)
        origin = self.done.head.origin
        twice = agreement.judged_twice(self.sql, origin)
        self._append(twice)
        self._append(agreement.overruled(self.sql, origin))
        self._append(agreement.counted_twice(self.sql))
        book = agreement.agreed(self.sql, origin)
        chain = self.writing.chain
        names: dict[str, None] = {}
        for restated in (agreement.restated_bullets, agreement.restated_counters):
            events = restated(self.sql, book, chain)
            names.update(
                dict.fromkeys(event.data["name"] for event in events if "name" in event.data)
            )
            self._append(events)
        self.done.set_aside, self.done.restated = len(twice), tuple(names)

    def _append(self, events: Iterable[NewEvent]) -> None:
        append(self.writing, [prepare(event, tx=self.tx) for event in events])

    def _under_names(self, one: Checked) -> Prepared:
        """Return a line with the names that its bullets have here."""
        stored, here = one.stored, one.prepared
        facts = self.found.kept.get(stored.event_id) if here.facts is None else here.facts
        if self.found.names and facts is not None:
            renamed = _renamed(stored, facts, self.found)
            if renamed is not facts and here.facts is not None:
                data, data_hash = sealed(renamed)
                here = here._replace(data=data, data_hash=data_hash)
            facts = renamed
        return here._replace(facts=facts)

    def _look_up(self, items: list[tuple[Checked, Prepared]]) -> None:
        """Ask at once for all events here that those of a page may be, or point to."""
        ids: set[str] = set()
        for one, item in items:
            stored = one.stored
            other = self.found.others[stored.event_id]
            ids.update(candidates(other, stored.event_id, self.renamed_ids, item.data_hash))
            target = self.found.others.get(stored.target_id or "")
            if target is not None and stored.target_id not in self.here:
                ids.update(
                    candidates(target, target.ids[0], self.renamed_ids, target.birth.data_hash)
                )
        self.known.look_up(ids)

    def _pointed(self, one: Checked, item: Prepared) -> Prepared:
        """Return an event as it would be appended: it points to the events that are here."""
        stored, event = one.stored, item.event
        target_id = self._target(stored.target_id)
        reflection_id = self._reflection(stored.reflection_id)
        event_id = self.renamed_ids.get(event.event_id, event.event_id)
        if reflection_id != stored.reflection_id and stored.type in OF_REFLECTIONS:
            is_completion = stored.type == ev.REFLECTION_COMPLETED
            birth = self.found.others[stored.event_id].birth
            event_id = (
                identity(stored.type, reflection_id or "")
                if is_completion
                else beside(stored.type, birth)
            )
        elif target_id != stored.target_id and event_id == identity(
            stored.type, stored.target_id or ""
        ):
            event_id = identity(stored.type, target_id or "")
        since = (
            item.facts.get("since")
            if item.facts is not None and stored.type == ev.BULLET_RECOUNTED
            else None
        )
        if (
            isinstance(since, str)
            and item.data is not None
            and (known := self._target(since)) not in (since, None)
        ):
            facts = {**(item.facts or {}), "since": known}
            data, data_hash = sealed(facts)
            item = item._replace(facts=facts, data=data, data_hash=data_hash)
        event = replace(event, event_id=event_id, target_id=target_id, reflection_id=reflection_id)
        return item._replace(event=event)

    def _target(self, event_id: str | None) -> str | None:
        """Return the id here of an event that another one points to; None if it is not here."""
        if event_id is None or event_id in self.found.restated:
            return None
        if event_id not in self.here:
            other = self.found.others.get(event_id)
            self.here[event_id] = None if other is None else self._found_before(event_id, other)
        return self.here[event_id]

    def _found_before(self, event_id: str, other: Other) -> str | None:
        """Return the id here of an event that an earlier merge brought, or that both ledgers
        began with.
        """
        ids = candidates(other, event_id, self.renamed_ids, other.birth.data_hash)
        born = self.known.born(other, ids) or self.known.search(other)
        if born is not None:
            return born
        own = self.renamed_ids.get(event_id, event_id)
        is_same_fact = self.known.says(own, other.birth.data_hash) or not is_kept_beside(other.type)
        return own if own in self.known and is_same_fact else None

    def _reflection(self, reflection_id: str | None) -> str | None:
        """Return the id here of a reflection of the file: another one if its verdicts differ from
        those that are here under its id, as where two people judged one citation with an older
        version.
        """
        if reflection_id is None or reflection_id not in self.found.tags:
            return reflection_id
        if reflection_id not in self.reflections:
            self.reflections[reflection_id] = self._reflection_here(reflection_id)
        return self.reflections[reflection_id]

    def _reflection_here(self, reflection_id: str) -> str:
        tags = self.found.tags[reflection_id]
        first = self.found.others[tags[0][0]]
        row = self.known.get(
            self.known.born(first, [*first.ids, beside(first.type, first.birth)]) or ""
        )
        if row is not None and row.reflection_id is not None:
            return row.reflection_id
        here = agreement.verdicts_of(self.sql, [event_id for event_id, _ in tags])
        for event_id, (name, tag) in tags:
            if event_id in here and here[event_id] != (self.found.names.get(name, name), tag):
                return identity("reflection", "beside", *first.birth)
        return reflection_id

    def _id_here(self, one: Checked, item: Prepared) -> str | None:
        """Return the id of the very event here. A bullet's birth is another one where its name is,
        and is kept: the name there is known by it for ever.
        """
        event, other = item.event, self.found.others[one.stored.event_id]
        if self._is_local(one):
            return None
        ids = candidates(other, event.event_id, self.renamed_ids, item.data_hash)
        if (born := self.known.born(other, ids, event.target_id)) is not None:
            return born
        is_birth = event.event_id != one.stored.event_id and EVENT_TYPES[event.type].id_is_name
        same = [*([] if is_birth else [event.event_id]), *other.ids[1:]]
        return next(
            (id for id in same if self.known.says(id, item.data_hash, event.target_id)), None
        )

    @staticmethod
    def _is_local(one: Checked) -> bool:
        """Return whether an event is about the other ledger as it was there, which its own
        history proves.
        """
        return (
            EVENT_TYPES[one.stored.type].merge is Merge.LOCAL or RESTATED in one.prepared.event.meta
        )

    def _new_id(self, one: Checked, item: Prepared) -> str | None:
        """Return the id under which an event that is not here is appended; None for one that is
        not appended.
        """
        if self._is_local(one):
            return None
        event = item.event
        is_taken = event.event_id in self.known
        stays = is_taken and not is_kept_beside(event.type)
        if event.type == ev.EVENT_REDACTED:
            stays = (
                stays
                or event.target_id is None
                or _brings_back(self.sql, event.target_id, self.found)
            )
        if stays:
            self.done.otherwise += 1
            if self.done.otherwise <= _SHOWN:
                self.done.differing.append(
                    f"{one.stored.type} at {one.stored.position} of the file"
                )
            return None
        return (
            beside(event.type, self.found.others[one.stored.event_id].birth)
            if is_taken
            else event.event_id
        )

    def _moment(self, one: Checked) -> str:
        """Return when an event that was not appended was first recorded."""
        position = one.stored.position
        late = self.found.late.get(position, one.stored.recorded_at)
        return first_moment(one.prepared.event.meta, (late, self.found.header.origin, position))[0]

    def _prepared(self, one: Checked, item: Prepared, event_id: str) -> Prepared:
        stored, target = one.stored, EVENT_TYPES[one.stored.type].target
        if (
            stored.target_id is not None
            and item.event.target_id is None
            and target is not None
            and target.required
        ):
            raise WrongLine(
                one.number, (f"its target {stored.target_id} is neither here nor before it")
            )
        event = replace(item.event, event_id=event_id, occurred_at=stored.occurred_at)
        birth = self.found.others[stored.event_id].birth
        self.known.add(event_id, Row(item.data_hash, birth, event.reflection_id, event.target_id))
        self.done.added += stored.type != ev.LEDGER_MERGED
        meta, meta_hash = sealed(self._meta_here(one, item, event_id))
        return item._replace(event=event, meta=meta, meta_hash=meta_hash)

    def _meta_here(self, one: Checked, item: Prepared, event_id: str) -> dict[str, Any]:
        """Return an event's meta, and where it comes from: its place there, and the id and the
        hash that it had.
        """
        stored, meta, found = one.stored, plain(one.prepared.event.meta), self.found
        came: dict[str, Any] = {"origin": found.header.origin, "position": stored.position}
        came |= {"recorded_at": stored.recorded_at, TX: self.tx}
        if stored.position in found.late:
            came["moment"] = found.late[stored.position]
        if event_id != stored.event_id:
            came["event_id"] = stored.event_id
        if item.data_hash != stored.data_hash:
            came |= {"data_hash": stored.data_hash, "renamed": dict(found.names)}
        if MERGED in meta:
            came[MERGED] = meta[MERGED]
        return {**meta, MERGED: came}

    def _count_overlaps(self, new: list[Prepared]) -> None:
        """Count the windows whose records other windows here hold: their citations may be
        counted on both sides.
        """
        for one in new:
            keys = (
                (one.facts or {}).get("window", {}).get("keys")
                if one.event.type == ev.SESSION_RECORDED
                else None
            )
            if isinstance(keys, str):
                query = 'SELECT 1 FROM record WHERE playbook_id = ? AND "key" IN ? LIMIT 1'
                self.done.overlapping += (
                    self.sql.run(query, unpack_keys(keys)).fetchone() is not None
                )


def _renamed(stored: Stored, facts: Mapping[str, Any], found: Survey) -> Mapping[str, Any]:
    if stored.type != ev.EVENT_REDACTED or not isinstance(facts.get("kept"), Mapping):
        return agreement.renamed(stored.type, facts, found.names)
    return {
        **facts,
        "kept": agreement.renamed(
            found.types.get(stored.target_id or "", ""), facts["kept"], found.names
        ),
    }


def _brings_back(sql: Statements, target_id: str, found: Survey) -> bool:
    """Return whether what the file's redactions leave of an event holds a text that was erased
    here.

    Such a redaction is not appended, nor the one of it in a later merge.
    """
    line = redaction_line(sql, target_id)
    if len(line) < 2 or line[-1].data is None:
        return False
    left, here = found.kept.get(line[0].event_id), line[-1].data.get("kept", {})
    type_ = line[0].type
    return left is not None and not set(texts_of(type_, left)) <= set(texts_of(type_, here))
