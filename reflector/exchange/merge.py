"""Two machines' ledgers become one: the events of a file appended behind the ones that are here.

Invariant: a merge is one transaction, adds what is not here and nothing twice, and loses nothing: each event says in
its `meta` where it comes from, and a `ledger.merged` behind each page of them says up to which head the other ledger
is here. The file itself proves the other history. Merging it again adds nothing.

An event that is here, with the same id and data, is not appended again. Where the data differs, this ledger's version
stays if both state one fact in different words (a reason, a path, a model's answer); of two creations or changes of a
bullet both are kept; two verdicts of one reflection are a conflict that only a person can decide.

Which bullets of the two are the same is decided from how they came into being: the event that first brought a bullet is
its birth, through however many ledgers and under however many names it came. Names are given out on each machine, so
two bullets of one name with other births are one bullet where they ever said the same, and two where they never did. A
line of a file, which `check` watches, is the bullet that ever said the same, whatever its name.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import dropwhile, islice
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.event import MERGED, RESTATED, NewEvent, came_through, first_moment, identity
from reflector.events.fields import unpack_keys
from reflector.events.kinds import Merge
from reflector.events.registry import EVENT_TYPES, WORDING_TYPES, names_in, new_bullets
from reflector.events.state import REDACTED
from reflector.exchange import agreement
from reflector.exchange.transfer import Checked, Erased, Header, WrongLine, checked, write
from reflector.ledger.append import Prepared, Writing, append, prepare
from reflector.ledger.canonical import plain, sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.projection import rebuild
from reflector.ledger.reader import between, line_of, one_of
from reflector.ledger.redaction import texts_of
from reflector.ledger.rows import Head, Stored
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook.names import Names, is_name

Lines = Callable[[], Iterable[str | bytes]]

#: Lines after which a `ledger.merged` is appended; it names each event that was not.
_PAGE: Final = 1000
_SHOWN: Final = 20
_ERASE: Final = "UPDATE event SET data = NULL WHERE playbook_id = ? AND data IS NOT NULL AND event_id"
_ERASE_REDACTED: Final = (
    f"{_ERASE} IN (SELECT target_id FROM event WHERE playbook_id = ? AND {one_of((ev.EVENT_REDACTED,))})"  # noqa: S608
)


#: What identifies a bullet everywhere: the id and the data hash of the event that first brought it, as these were when
#: that event was first appended, and which of its bullets it is.
Birth = tuple[str, str, int]


@dataclass(slots=True)
class Bullets:
    """Every bullet of a history by name: the texts it ever had, and its births, one for each machine that made it."""

    texts: dict[str, set[str]] = field(default_factory=dict)
    births: dict[str, list[Birth]] = field(default_factory=dict)
    #: Those that came as lines of files.
    watched: set[str] = field(default_factory=set)

    def take(self, type_: str, event_id: str, data_hash: str, meta: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Add the next event of the history."""
        for index, bullet in enumerate(new_bullets(type_, data)):
            self.texts.setdefault(bullet["name"], set()).add(bullet["text"])
            self.births.setdefault(bullet["name"], []).append((*_first_appended(event_id, data_hash, meta), index))
            if bullet.get("watched"):
                self.watched.add(bullet["name"])
        if type_ == ev.BULLET_REVISED and data.get("name") in self.texts:
            self.texts[data["name"]].add(data.get("text", REDACTED))

    def names_of(self, other: Bullets) -> dict[str, str]:
        """Return the bullets of another history that are here: the name there, and the name here. One to one."""
        of_birth = {birth: name for name, births in self.births.items() for birth in births}
        names: dict[str, str] = {}
        for name, births in other.births.items():
            known = [of_birth[birth] for birth in births if birth in of_birth]
            here = name if name in known else next((one for one in known if one not in names.values()), None)
            if here is not None and here not in names.values():
                names[name] = here
        for name in other.texts:
            both_said = (self.texts.get(name, set()) & other.texts[name]) - {REDACTED}
            if both_said and name not in names and name not in names.values():
                names[name] = name
        said = {same_words(text): name for name, texts in self.texts.items() for text in sorted(texts - {REDACTED})}
        for name in (one for one in other.texts if one not in names):
            alike = (said.get(same_words(text), "") for text in sorted(other.texts[name]))
            lines = (one for one in alike if one in self.watched or (one and name in other.watched))
            if here := next((one for one in lines if one not in names.values()), None):
                names[name] = here
        return names


def _first_appended(event_id: str, data_hash: str, meta: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id and the data hash of an event in the ledger to which it was first appended."""
    for came in came_through(meta):
        event_id, data_hash = came.get("event_id", event_id), came.get("data_hash", data_hash)
    return event_id, data_hash


@dataclass(slots=True)
class Survey:
    """What a file holds.

    chains   the chain at each of its positions
    common   the last position at which this ledger has the very chain: the same ledger up to there, or merged
    forward  whether this ledger is an earlier state of the file's
    kept     what is left of the erased events' data, by their ids
    types    the types of events of which redactions keep what is left, by the id that the redaction points to
    named    every name that an event mentions
    names    bullets that have another name here: the name there, and the one here
    late     events that count as recorded later than their ledger's clock said, by position (`Clock`)
    restated events that say what came of a merge there: they are not appended, so nothing here points to them
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


def bullets_of(writing: Writing) -> Bullets:
    """Return the bullets of this ledger."""
    found = Bullets()
    for event in between(writing.sql, WORDING_TYPES, 0, writing.position):
        found.take(event.type, event.event_id, event.data_hash, event.meta, event.facts)
    return found


def survey(lines: Iterable[str | bytes]) -> Survey:
    """Prove a file and read what it holds. Raises WrongLine."""
    header, events = checked(lines)
    found, erased, clock = Survey(header), Erased(), agreement.Clock()
    for one in events:
        stored = one.stored
        found.chains.append(stored.chain)
        _take(found, one, erased)
        if RESTATED in one.prepared.event.meta:
            found.restated.add(stored.event_id)
        if MERGED in (meta := one.prepared.event.meta):
            clock.came(first_moment(meta, agreement.NEVER))
        elif (moment := clock.own(stored.recorded_at)) != stored.recorded_at:
            found.late[stored.position] = moment
    erased.refuse_rest()
    return found


def compare(writing: Writing, origin: str, found: Survey) -> None:
    """Set how far a file's history is in this ledger."""
    sql, chains = writing.sql, ["", *found.chains]
    if origin == found.header.origin:
        query = "SELECT chain FROM event WHERE playbook_id = ? AND position = ?"
        last = min(writing.position, len(found.chains))
        # Once the chains differ, no later position can match.
        parted = bisect(range(1, last + 1), 0, key=lambda at: sql.run(query, at).fetchone() != (chains[at],))
        found.common = parted
        found.forward = 0 < parted == writing.position < len(found.chains)
    for event in between(sql, (ev.LEDGER_MERGED,), 0, writing.position):
        # One that came through another ledger says where that one stood.
        if event.data is not None and event.data["origin"] == found.header.origin and MERGED not in event.meta:
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
    for (_, stored, prepared), facts in said:
        if facts is not None:
            found.named |= {name for name in names_in(stored.type, facts) if is_name(name)}
            if stored.type in WORDING_TYPES:
                found.bullets.take(stored.type, stored.event_id, stored.data_hash, prepared.event.meta, facts)


#: A name of two bullets, as they were first written: here, and in the file.
Collision = tuple[str, str, str]


def match(here: Bullets, found: Survey) -> list[Collision]:
    """Set which bullets of the file have other names here; the names of those that mean another bullet here."""
    there = found.bullets
    known = here.names_of(there)
    found.names = {name: other for name, other in known.items() if name != other}
    colliding = (name for name in there.texts if name not in known and name in here.texts)
    return [(name, min(here.texts[name]), min(there.texts[name])) for name in colliding]


def free_names(colliding: Iterable[str], here: Bullets, found: Survey, first: int) -> dict[str, str]:
    """Return the next free name of each of these, one that neither ledger has ever mentioned."""
    taken = Names([*here.texts, *found.bullets.texts, *found.names.values()], first)
    names: dict[str, str] = {}
    for name in colliding:
        slug = name.partition("-")[0].partition("_")[0]
        new = taken.next(slug)
        # A name that a session cited, though it meant nothing there, could be mistaken for the bullet's own.
        while new in found.named:
            new = taken.next(slug)
        names[name] = new
    return names


def _colliding(names: list[Collision]) -> LedgerError:
    """Return the error of names that mean one bullet here and another one in the file."""
    count = "1 name means another bullet" if len(names) == 1 else f"{len(names)} names mean other bullets"
    what = f"{count} here than in the file, and a name means one bullet forever; nothing was merged."
    lines = [f"{name}: here {here[:60]!r}, in the file {there[:60]!r}" for name, here, there in names]
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    what += " With --rename the file's bullets get the next free names:"
    return LedgerError("\n  ".join([what, *lines[:_SHOWN], *more]))


@dataclass(slots=True)
class Merged:
    """What a merge did.

    added        events of the file that were appended; 0 where all of them were here, and nothing was appended then
    known        events of the file that were here already
    otherwise    those of them that say something else here, a verdict even; what this ledger says stays
    renamed      names that were given to bullets of the file: old -> new
    restated     bullets that both ledgers changed, about which an event says what came of it
    set_aside    reflections that do not count any more, because another judge's on the same window counts
    overlapping  windows of the file that share records with windows that were here
    forward      this ledger was an earlier state of the file's, and is the same ledger now
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


class _NothingNew(Exception):
    """Every event of the file is here; raised so that nothing is appended."""


def merge(ledger: Ledger, lines: Lines, *, rename: bool = False, first: int = 0) -> Merged:
    """Append the events of an exported ledger that are not here. `lines` is called for the file's lines, twice: to
    prove them, and under the ledger's lock.

    rename  bullets of the file whose names mean another bullet here get the next free ones, with numbers from `first`

    Raises WrongLine, and LedgerError such as for names that differ; nothing is appended then.
    """
    found, done = survey(lines()), Merged(ledger.head())
    with suppress(_NothingNew), ledger.writing() as writing:
        done.head = _head_at(done.head, writing)
        here = bullets_of(writing)
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
            merging = _Merging(writing, found, done)
            while page := list(islice(rest, _PAGE)):
                merging.take(page)
            if not done.added:
                raise _NothingNew
            merging.finish()
            done.renamed, done.head = given, _head_at(done.head, writing)
    if done.added or done.forward:
        ledger.drop_erased()
    return done


def _head_at(head: Head, end: Stored | Writing) -> Head:
    return replace(head, position=end.position, chain=end.chain, recorded_at=end.recorded_at)


def _grown(sql: Statements, rest: Iterator[Checked]) -> Stored:
    """Append the rest of the same history unchanged, and erase what it erased; return the last event."""
    last = write(sql, rest)
    assert last is not None  # the file is longer
    sql.run(_ERASE_REDACTED, sql.id)
    update = "UPDATE playbook SET position = ?, chain = ?, recorded_at = ? WHERE id = ?"
    sql.execute(update, last.position, last.chain, last.recorded_at, sql.id)
    rebuild(sql)
    return last


#: A line of the file, and the event as this ledger would store it, with its own names of bullets.
_Item = tuple[Checked, Prepared]


class _Merging:
    """The transaction of a merge: what was done so far."""

    def __init__(self, writing: Writing, found: Survey, done: Merged) -> None:
        self.writing = writing
        self.sql = writing.sql
        self.found = found
        self.done = done
        self.ids = agreement.renamed_ids(found.names)
        self.erases = False
        #: Events of which another version is here, by id: the id under which theirs is kept.
        self.beside: dict[str, str] = {}
        self.there: dict[str, tuple[int, str]] = {}
        done.known = found.common

    def take(self, page: list[Checked]) -> None:
        """Append what is new of a page, and the record of it. Raises LedgerError."""
        items = [(one, _incoming(one, self.found, self.ids)) for one in page]
        self._look_up(items)
        here: list[tuple[int, str, str]] = []
        new: list[Prepared] = []
        for one, item in items:
            event_id = self._new_id(one, item)
            if event_id is None:
                self.done.known += 1
                here.append((one.stored.position, self._known_as(one, item) or item.event.event_id, self._moment(one)))
            else:
                new.append(self._prepared(one, item, event_id))
        self._count_overlaps(new)
        append(self.writing, new, merged=True)
        for event in (one.event for one in new if one.event.type == ev.EVENT_REDACTED):
            self.sql.run(f"{_ERASE} = ?", event.target_id)
            self.erases = True
        last = page[-1].stored
        upto = replace(self.found.header, position=last.position, chain=last.chain)
        record = {**asdict(upto), "here": here, "renamed": dict(self.found.names)}
        event_id = identity(ev.LEDGER_MERGED, self.writing.chain, last.chain)
        append(self.writing, [prepare(NewEvent(ev.LEDGER_MERGED, event_id, record, agreement.ACTOR))])

    def finish(self) -> None:
        """Append what came of windows and bullets that both judged or changed."""
        if self.erases:
            rebuild(self.sql)
        twice = agreement.judged_twice(self.sql)
        append(self.writing, map(prepare, twice))
        append(self.writing, map(prepare, agreement.counted_twice(self.sql)))
        book = agreement.agreed(self.sql, self.done.head.origin)
        chain = self.writing.chain
        names: dict[str, None] = {}
        for restated in (agreement.restated_bullets, agreement.restated_counters):
            events = restated(self.sql, book, chain)
            names.update(dict.fromkeys(event.data["name"] for event in events if "name" in event.data))
            append(self.writing, map(prepare, events))
        self.done.set_aside, self.done.restated = len(twice), tuple(names)

    def _look_up(self, items: list[_Item]) -> None:
        """Which of the ids that a page mentions are here: (position, data hash) by id."""
        ids: set[str | None] = set()
        for one, item in items:
            target_id = item.event.target_id
            ids |= {item.event.event_id, target_id, self.beside.get(target_id or ""), _beside_id(item)}
            ids.update(_came_as(one.prepared.event.meta))
        query = "SELECT event_id, position, data_hash FROM event WHERE playbook_id = ? AND event_id IN ?"
        self.there = {row[0]: (row[1], row[2]) for row in self.sql.run(query, ids - {None}).fetchall()}

    def _new_id(self, one: Checked, item: Prepared) -> str | None:
        """Return the id under which an event is appended; None for one that is not."""
        event_id, target_id, meta = item.event.event_id, item.event.target_id, item.event.meta
        rule = EVENT_TYPES[item.event.type].merge
        if rule is Merge.LOCAL or RESTATED in meta:
            return None  # about the other ledger as it was there, which its own history proves
        if self._known_as(one, item):
            return None
        stays = rule is Merge.FIRST and event_id in self.there
        if item.event.type == ev.EVENT_REDACTED:
            stays = stays or target_id not in self.there or _brings_back(self.sql, target_id, self.found)
        if stays:
            self.done.otherwise += 1
            if self.done.otherwise <= _SHOWN:
                self.done.differing.append(f"{one.stored.type} at {one.stored.position} of the file")
            return None
        if event_id not in self.there:
            return event_id
        beside = self.beside[one.stored.event_id] = _beside_id(item)
        return None if beside in self.there else beside

    def _known_as(self, one: Checked, item: Prepared) -> str | None:
        """Return the id of the very event here. A bullet's birth is another one where its name is, and is kept: the
        name there is known by it for ever."""
        event = item.event
        is_birth = event.event_id != one.stored.event_id and EVENT_TYPES[event.type].id_is_name
        ids = [*([] if is_birth else [event.event_id]), *_came_as(event.meta)]
        return next((id for id in ids if self.there.get(id, (0, ""))[1] == item.data_hash), None)

    def _moment(self, one: Checked) -> str:
        """Return when an event that was not appended was first recorded."""
        position = one.stored.position
        late = self.found.late.get(position, one.stored.recorded_at)
        return first_moment(one.prepared.event.meta, (late, self.found.header.origin, position))[0]

    def _prepared(self, one: Checked, item: Prepared, event_id: str) -> Prepared:
        stored = one.stored
        target_id = self.beside.get(stored.target_id or "", item.event.target_id or "") or None
        if target_id is not None and target_id not in self.there:
            raise WrongLine(one.number, f"its target {target_id} is neither here nor before it")
        event = replace(item.event, event_id=event_id, target_id=target_id, occurred_at=stored.occurred_at)
        self.there[event_id] = (0, item.data_hash)
        self.done.added += stored.type != ev.LEDGER_MERGED
        meta, meta_hash = sealed(_meta_here(one, item, self.found, event_id))
        return item._replace(event=event, meta=meta, meta_hash=meta_hash)

    def _count_overlaps(self, new: list[Prepared]) -> None:
        """Count the windows whose records other windows here hold: their citations may be counted on both sides."""
        for one in new:
            keys = (one.facts or {}).get("window", {}).get("keys") if one.event.type == ev.SESSION_RECORDED else None
            if isinstance(keys, str):
                query = 'SELECT 1 FROM record WHERE playbook_id = ? AND "key" IN ? LIMIT 1'
                self.done.overlapping += self.sql.run(query, unpack_keys(keys)).fetchone() is not None


def _incoming(one: Checked, found: Survey, ids: Mapping[str, str]) -> Prepared:
    """Return a line under the names that its bullets have here; `ids` are those of events that a name identifies."""
    stored, here = one.stored, one.prepared
    if here.facts is None:
        here = here._replace(facts=found.kept.get(stored.event_id))
    if found.names and here.facts is not None:
        then = _renamed(stored, here.facts, found, ids)
        if then is not here.facts and one.prepared.facts is not None:
            data, data_hash = sealed(then)
            here = here._replace(data=data, data_hash=data_hash)
        here = here._replace(facts=then)
    target_id = ids.get(stored.target_id or "", stored.target_id) if stored.target_id not in found.restated else None
    event_id = stored.event_id
    if EVENT_TYPES[stored.type].id_is_name:
        event_id = ids.get(event_id, event_id)
    elif target_id != stored.target_id and event_id == identity(stored.type, stored.target_id or ""):
        event_id = identity(stored.type, target_id or "")
    return here._replace(event=replace(here.event, event_id=event_id, target_id=target_id))


def _renamed(stored: Stored, facts: Mapping[str, Any], found: Survey, ids: Mapping[str, str]) -> Mapping[str, Any]:
    if stored.type != ev.EVENT_REDACTED or not isinstance(facts.get("kept"), Mapping):
        is_given = stored.type == ev.BULLET_RECOUNTED and facts.get("since") in ids
        since = {"since": ids[facts["since"]]} if is_given else {}
        return agreement.renamed(stored.type, facts, found.names) | since
    return {**facts, "kept": agreement.renamed(found.types.get(stored.target_id or "", ""), facts["kept"], found.names)}


def _meta_here(one: Checked, item: Prepared, found: Survey, event_id: str) -> dict[str, Any]:
    """Return an event's meta, and where it comes from: its place there, and the id and the hash that it had."""
    stored, meta = one.stored, plain(one.prepared.event.meta)
    came: dict[str, Any] = {"origin": found.header.origin, "position": stored.position}
    came["recorded_at"] = stored.recorded_at
    if stored.position in found.late:
        came["moment"] = found.late[stored.position]
    if event_id != stored.event_id:
        came["event_id"] = stored.event_id
    if item.data_hash != stored.data_hash:
        came |= {"data_hash": stored.data_hash, "renamed": dict(found.names)}
    if MERGED in meta:
        came[MERGED] = meta[MERGED]
    return {**meta, MERGED: came}


def _came_as(meta: Mapping[str, Any]) -> list[str]:
    """Return the other ids that an event had in the ledgers through which it came."""
    return [came["event_id"] for came in came_through(meta) if isinstance(came.get("event_id"), str)]


def _beside_id(item: Prepared) -> str:
    """Return the id under which an event is stored beside one that has its id and other data."""
    return identity(item.event.type, "beside", item.event.event_id, item.data_hash)


def _brings_back(sql: Statements, target_id: str, found: Survey) -> bool:
    """Return whether what the file's redactions leave of an event holds a text that was erased here.

    Such a redaction is not appended, nor the one of it in a later merge.
    """
    line = line_of(sql, target_id)
    if len(line) < 2 or line[-1].data is None:
        return False
    left, here = found.kept.get(line[0].event_id), line[-1].data.get("kept", {})
    type_ = line[0].type
    return left is not None and not set(texts_of(type_, left)) <= set(texts_of(type_, here))
