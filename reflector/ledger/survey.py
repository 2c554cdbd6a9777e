"""What has to be known of another ledger's file, and of this one, before the two can be merged.

Invariant: nothing is written. The whole file is proved, so that a merge begins only with a history that is sound, and
which bullets of the two are the same is decided from their texts alone: names are given out on each machine, so two
bullets of one name are one bullet where they ever said the same, and two bullets where they never did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.ledger import event as ev
from reflector.ledger.admission import new_bullets
from reflector.ledger.cloudevents import Header
from reflector.ledger.merged import MERGED, records
from reflector.ledger.reader import Reader
from reflector.ledger.renames import inverse, mentioned
from reflector.ledger.transfer import Checked, Erased, Progress, checked
from reflector.playbook.fold import REDACTED
from reflector.playbook.names import is_name, next_name

_PAGE = 1000


@dataclass(slots=True)
class Bullets:
    """Every bullet of a history by name: the texts it ever had, and (event id, data hash) of what created it."""

    texts: dict[str, set[str]] = field(default_factory=dict)
    made_by: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def take(self, type_: str, event_id: str, data_hash: str, data: Mapping[str, Any]) -> None:
        """Take an event of the history in, in order."""
        for bullet in new_bullets(type_, data):
            self.texts.setdefault(bullet["name"], set()).add(bullet["text"])
            self.made_by.setdefault(bullet["name"], set()).add((event_id, data_hash))
        if type_ == ev.BULLET_REVISED and data.get("name") in self.texts:
            self.texts[data["name"]].add(data.get("text", REDACTED))

    def is_same(self, other: Bullets, name: str) -> bool:
        """Whether the bullet of this name is one bullet in both histories."""
        said = (self.texts[name] & other.texts[name]) - {REDACTED}
        return bool(said or self.made_by[name] & other.made_by[name])


@dataclass(slots=True)
class Survey:
    """What a file holds.

    common   the last of its positions at which this ledger has the very chain: the same ledger up to there, or merged
    forward  whether this ledger is an earlier state of the file's
    kept     what is left of the erased events' data, by their ids
    types    the types of events of which redactions keep what is left, by the id that the redaction points to
    named    every name that an event mentions
    names    renamings that earlier merges fixed: a bullet's name there, and here
    """

    header: Header
    common: int = 0
    common_chain: str = ""
    forward: bool = False
    bullets: Bullets = field(default_factory=Bullets)
    kept: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)


def bullets_of(ledger: Reader) -> Bullets:
    """The bullets of this ledger."""
    found = Bullets()
    for event in ledger.events(types=(ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED)):
        found.take(event.type, event.event_id, event.data_hash, event.data or {})
    return found


def survey(ledger: Reader, lines: Iterable[str | bytes], progress: Progress | None = None) -> Survey:
    """Prove a file and read what it holds. Raises WrongLine."""
    header, events = checked(lines)
    head = ledger.head()
    found = Survey(header)
    merged: set[tuple[int, str]] = set()
    with ledger.asking() as sql:
        for record in records(sql):
            if record["origin"] == header.origin:
                merged.add((record["position"], record["chain"]))
                found.names |= record["renamed"]
    own = _Own(ledger) if head.origin == header.origin else None
    erased = Erased()
    for one in events:
        stored = one.stored
        _take(found, one, erased, head.origin)
        if (stored.position, stored.chain) in merged or (own is not None and own.has(stored.position, stored.chain)):
            found.common, found.common_chain = stored.position, stored.chain
        if progress is not None and stored.position % _PAGE == 0:
            progress(_PAGE)
    erased.refuse_rest()
    found.forward = (
        own is not None and found.common == head.position < header.position and found.common_chain == head.chain
    )
    return found


class _Own:
    """This ledger's own chain, looked up page by page while a file of the same origin is read."""

    def __init__(self, ledger: Reader) -> None:
        self.ledger = ledger
        self.page: dict[int, str] = {}
        self.parted = False

    def has(self, position: int, chain: str) -> bool:
        if self.parted:
            return False
        if position not in self.page:
            with self.ledger.asking() as sql:
                query = "SELECT position, chain FROM event WHERE playbook_id = ? AND position >= ? AND position < ?"
                self.page = dict(sql.run(query, position, position + _PAGE).fetchall())
        # Whose chains differ at one position have no later one in common.
        self.parted = self.page.get(position) != chain
        return not self.parted


def _take(found: Survey, one: Checked, erased: Erased, origin: str) -> None:
    stored = one.stored
    facts = one.facts
    gone = erased.take(one)
    if gone is not None and facts is not None:
        found.kept[gone.stored.event_id] = kept = facts.get("kept") or None
        found.types[stored.target_id or ""] = gone.stored.type
        _say(found, gone, kept or {})
    if stored.type == ev.EVENT_REDACTED:
        return
    if facts is not None:
        _say(found, one, facts)
        if stored.type == ev.LEDGER_MERGED and facts.get("origin") == origin and MERGED not in one.line.event.meta:
            given = facts.get("renamed")
            if isinstance(given, Mapping) and all(is_name(name) for name in given.values()):
                found.names |= inverse(given)


def _say(found: Survey, one: Checked, facts: Mapping[str, Any]) -> None:
    stored = one.stored
    found.named |= {name for name in mentioned(stored.type, facts) if is_name(name)}
    if stored.type in (ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED):
        found.bullets.take(stored.type, stored.event_id, stored.data_hash, facts)


@dataclass(frozen=True, slots=True)
class Collision:
    """Two bullets of one name, as they were first written: here, and in the file."""

    name: str
    here: str
    there: str


def collisions(here: Bullets, found: Survey) -> list[Collision]:
    """The names of the file that mean another bullet here, and that no earlier merge has given another name."""
    there = found.bullets
    return [
        Collision(name, _one_of(here.texts[name]), _one_of(there.texts[name]))
        for name in there.texts
        if name not in found.names and name in here.texts and not there.is_same(here, name)
    ]


def _one_of(texts: set[str]) -> str:
    return min(texts)


def free_names(colliding: Iterable[str], here: Bullets, found: Survey, first: int) -> dict[str, str]:
    """The next free name of each of these, one that neither ledger has ever mentioned."""
    taken = {*here.texts, *found.bullets.texts, *found.names.values()}
    names: dict[str, str] = {}
    for name in colliding:
        slug = name.partition("-")[0].partition("_")[0]
        taken.add(new := next_name(slug, taken, first))
        # A name that a session cited, though it meant nothing there, could not be told from the bullet's own.
        while new in found.named:
            taken.add(new := next_name(slug, taken, first))
        names[name] = new
    return names
