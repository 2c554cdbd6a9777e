"""The facts about another ledger's file and about this ledger that a merge needs.

Invariant: nothing is written. The whole file is proved, so that a merge begins only with a history that is sound, and
which bullets of the two are the same is decided from how they came into being: the event that first brought a bullet
is its birth, through however many ledgers and under however many names it came. Names are given out on each machine, so
two bullets of one name with other births are one bullet where they ever said the same, and two where they never did.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.events import event as ev
from reflector.events.event import MERGED, came_through, first_moment
from reflector.events.registry import WORDING_TYPES, names_in, new_bullets
from reflector.events.state import REDACTED
from reflector.exchange.agreement import NEVER, Clock
from reflector.exchange.cloudevents import Header
from reflector.exchange.transfer import Checked, Erased, Progress, checked
from reflector.ledger.append import Writing
from reflector.ledger.reader import between
from reflector.playbook.names import Names, is_name

_PAGE = 1000
#: What identifies a bullet everywhere: the id and the data hash of the event that first brought it, as these were when
#: that event was first appended, and which of its bullets it is.
Birth = tuple[str, str, int]


@dataclass(slots=True)
class Bullets:
    """Every bullet of a history by name: the texts it ever had, and its births, one for each machine that made it."""

    texts: dict[str, set[str]] = field(default_factory=dict)
    births: dict[str, list[Birth]] = field(default_factory=dict)

    def take(self, type_: str, event_id: str, data_hash: str, meta: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Add the next event of the history."""
        for index, bullet in enumerate(new_bullets(type_, data)):
            self.texts.setdefault(bullet["name"], set()).add(bullet["text"])
            self.births.setdefault(bullet["name"], []).append((*_first_appended(event_id, data_hash, meta), index))
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
            if name not in names and name not in names.values() and self._says(name, other):
                names[name] = name
        return names

    def _says(self, name: str, other: Bullets) -> bool:
        """Return whether the bullets of this name ever said the same in both histories."""
        return bool((self.texts.get(name, set()) & other.texts[name]) - {REDACTED})


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


def bullets_of(writing: Writing) -> Bullets:
    """Return the bullets of this ledger."""
    found = Bullets()
    for event in between(writing.sql, WORDING_TYPES, 0, writing.position):
        found.take(event.type, event.event_id, event.data_hash, event.meta, event.data or {})
    return found


def survey(lines: Iterable[str | bytes], progress: Progress | None = None) -> Survey:
    """Prove a file and read what it holds. Raises WrongLine."""
    header, events = checked(lines)
    found, erased, clock = Survey(header), Erased(), Clock()
    for one in events:
        stored = one.stored
        found.chains.append(stored.chain)
        _take(found, one, erased)
        if MERGED in (meta := one.prepared.event.meta):
            clock.came(first_moment(meta, NEVER))
        elif (moment := clock.own(stored.recorded_at)) != stored.recorded_at:
            found.late[stored.position] = moment
        if progress is not None and stored.position % _PAGE == 0:
            progress(_PAGE)
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
    return [
        (name, min(here.texts[name]), min(texts))
        for name, texts in there.texts.items()
        if name not in known and name in here.texts
    ]


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
