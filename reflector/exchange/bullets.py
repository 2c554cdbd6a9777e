"""Which bullets of two histories are the same.

The event that first created a bullet is its birth, through however many ledgers and under however
many names it came. Each machine gives out its own names. So two bullets with one name but different
births are the same bullet only if they ever had the same text. A line of a file, which `check`
watches, is the bullet that ever had its text, whatever its name. Two bullets of the playbook with
the same text are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.events import event as ev
from reflector.events.registry import WORDING_TYPES, bullets_brought, bullets_worded
from reflector.events.renamings import RENAMING_TYPES, Renamings, is_renaming, with_names
from reflector.events.state import REDACTED
from reflector.exchange.matching import Birth, birth_of
from reflector.ledger.reader import rare_events_between
from reflector.ledger.statements import Statements
from reflector.playbook.admissible import same_words
from reflector.playbook.names import by_number

#: The types of events by which a bullet is recognised.
IDENTIFYING_TYPES = (*WORDING_TYPES, ev.BULLET_RECOUNTED)
_LIVE = "SELECT name, text FROM bullet WHERE playbook_id = ? AND status = 'live' ORDER BY ordinal"
#: The identity of a bullet in every ledger: the id and the data hash of the event that first added
#: it, from when that event was first appended, and the index among the event's bullets.
BulletBirth = tuple[str, str, int]
#: The names here that a bullet of another history may have, the surest first.
NamesFor = Callable[[str], list[str]]


@dataclass(slots=True)
class Matched:
    """The bullets that another history and this one have in common.

    names         their names here, by their names there
    second_names  names there of bullets that have another name there, too
    joined        the names here of bullets that have another name here, with that name
    """

    names: dict[str, str] = field(default_factory=dict)
    second_names: set[str] = field(default_factory=set)
    joined: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Rule:
    """The names here and there of one bullet."""

    ours: set[str]
    theirs: set[str]


class _Rules:
    """The bullets that are the same, as far as they are known."""

    def __init__(self) -> None:
        self._of_ours: dict[str, _Rule] = {}
        self._of_theirs: dict[str, _Rule] = {}

    def __iter__(self) -> Iterator[_Rule]:
        return iter(dict.fromkeys(self._of_theirs.values()))

    def join(self, our_name: str, their_name: str, *, only_new: bool) -> None:
        """Note that two names mean one bullet. With `only_new`, neither may mean a known one."""
        known = [
            rule
            for rule in (self._of_ours.get(our_name), self._of_theirs.get(their_name))
            if rule is not None
        ]
        if known and only_new:
            return
        rule = _Rule({our_name}, {their_name})
        for other in known:
            rule.ours |= other.ours
            rule.theirs |= other.theirs
        self._of_ours |= dict.fromkeys(rule.ours, rule)
        self._of_theirs |= dict.fromkeys(rule.theirs, rule)


def _first_name(names: set[str], in_both: set[str], live: Mapping[str, str]) -> str:
    """Return the name that a bullet keeps: the lowest one, if possible one of both playbooks."""
    return min(in_both or names & live.keys() or names, key=by_number)


@dataclass(slots=True)
class Bullets:
    """Every bullet of a history by name.

    texts    every text that it ever had
    entries  each of its texts with the name that it had then
    births   one for each machine that created it
    left     the names that bullets had before git renamed them, with their texts then
    live     the text of each bullet that is in the playbook now
    watched  the bullets that came as lines of files
    """

    texts: dict[str, set[str]] = field(default_factory=dict)
    entries: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    births: dict[str, list[BulletBirth]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)

    def take(
        self, type_: str, birth: Birth, data: Mapping[str, Any], later_names: Mapping[str, str]
    ) -> None:
        """Add the next event of the history that sets a bullet's text, or with which git gave its
        name to another bullet.

        later_names  the names that its bullets have at the end, if they are others
        """
        if type_ == ev.BULLET_RECOUNTED:
            name = later_names.get(data["name"], data["name"])
            self.births.setdefault(name, []).append((birth.event_id, birth.data_hash, 0))
            self.texts.setdefault(name, set())
            return
        for bullet in bullets_worded(type_, data):
            name = bullet["name"]
            entry = (name, bullet["text"])
            self.entries.setdefault(later_names.get(name, name), set()).add(entry)
        for bullet in bullets_brought(type_, data):
            if bullet["name"] in later_names:
                self.left[bullet["name"]] = bullet["text"]
        data = with_names(type_, data, later_names)
        for index, bullet in enumerate(bullets_brought(type_, data)):
            name = bullet["name"]
            self.texts.setdefault(name, set()).add(bullet["text"])
            self.births.setdefault(name, []).append((birth.event_id, birth.data_hash, index))
            if bullet.get("watched"):
                self.watched.add(name)
        if type_ == ev.BULLET_REVISED and data.get("name") in self.texts:
            self.texts[data["name"]].add(data.get("text", REDACTED))

    def match(self, their_bullets: Bullets) -> Matched:
        """Return which bullets of another history are which bullets of this one.

        Bullets are one if they have a common birth, one name and a common text, or the same text in
        both playbooks. What is one with a third bullet is one. A line that `check` watches is only
        one with the bullet of its surest sign; its last sign is its words.
        """
        rules = _Rules()
        for names_for in (
            self._with_its_birth(their_bullets),
            self._with_its_name(their_bullets),
            self._with_its_text(their_bullets),
        ):
            for their_name in their_bullets.texts:
                for our_name in names_for(their_name):
                    is_line = our_name in self.watched or their_name in their_bullets.watched
                    rules.join(our_name, their_name, only_new=is_line)
        names_for = self._with_its_words(their_bullets)
        for their_name in their_bullets.texts:
            for our_name in names_for(their_name):
                rules.join(our_name, their_name, only_new=True)
        matched = Matched()
        for rule in rules:
            in_both = rule.ours & self.live.keys() & rule.theirs & their_bullets.live.keys()
            our_name = _first_name(rule.ours, in_both, self.live)
            their_name = _first_name(rule.theirs, in_both, their_bullets.live)
            matched.names |= dict.fromkeys(rule.theirs, our_name)
            matched.second_names |= rule.theirs - {their_name}
            matched.joined |= dict.fromkeys(rule.ours - {our_name}, our_name)
        return matched

    def _with_its_birth(self, their_bullets: Bullets) -> NamesFor:
        name_of = {birth: name for name, births in self.births.items() for birth in births}

        def names_for(their_name: str) -> list[str]:
            births = their_bullets.births[their_name]
            names = [name_of[birth] for birth in births if birth in name_of]
            return sorted(names, key=lambda name: name != their_name)

        return names_for

    def _with_its_name(self, their_bullets: Bullets) -> NamesFor:
        """Return a function that returns the names of our bullets that ever had a text under the
        same name as their bullet, or have the same name now and ever had one text.
        """
        name_of = {
            entry: name
            for name, entries in self.entries.items()
            for entry in entries
            if entry[1] != REDACTED and name in self.texts
        }

        def names_for(their_name: str) -> list[str]:
            common_texts = self.texts.get(their_name, set()) & their_bullets.texts[their_name]
            names = [their_name] if common_texts - {REDACTED} else []
            entries = sorted(their_bullets.entries.get(their_name, set()))
            return names + [name_of[entry] for entry in entries if entry in name_of]

        return names_for

    def _with_its_words(self, their_bullets: Bullets) -> NamesFor:
        """Return a function that returns the names of our bullets with the words of their bullet.
        At least one of the two must be watched.
        """
        name_of: dict[str, str] = {}
        for name, texts in self.texts.items():
            for text in sorted(texts - {REDACTED}):
                name_of[same_words(text)] = name

        def names_for(their_name: str) -> list[str]:
            texts = sorted(their_bullets.texts[their_name])
            words = [same_words(text) for text in texts]
            our_names = [name_of[text_words] for text_words in words if text_words in name_of]
            if their_name in their_bullets.watched:
                return our_names
            return [name for name in our_names if name in self.watched]

        return names_for

    def _with_its_text(self, their_bullets: Bullets) -> NamesFor:
        name_of = {text: name for name, text in reversed(self.live.items()) if text != REDACTED}

        def names_for(their_name: str) -> list[str]:
            our_name = name_of.get(their_bullets.live.get(their_name, REDACTED))
            return [] if our_name is None else [our_name]

        return names_for


def identifies(type_: str, actor: str, facts: Mapping[str, Any]) -> bool:
    """Return whether a bullet is recognised by an event: the event sets its text, or git gave it
    the name of another bullet.
    """
    if type_ in WORDING_TYPES:
        return True
    return type_ == ev.BULLET_RECOUNTED and is_renaming(type_, actor, facts)


def renamings_of(sql: Statements, origin: str, position: int) -> Renamings:
    """Return git's renamings in a ledger up to a position, which is its head."""
    renamings = Renamings(origin)
    for event in rare_events_between(sql, RENAMING_TYPES, 0, position):
        renamings.take(event.type, event.actor, event.facts, event.position, event.meta)
    return renamings


def bullet_histories(sql: Statements, renamings: Renamings, origin: str, position: int) -> Bullets:
    """Return the bullets of a ledger up to a position, which is its head."""
    bullets = Bullets()
    for event in rare_events_between(sql, IDENTIFYING_TYPES, 0, position):
        if not identifies(event.type, event.actor, event.facts):
            continue
        present = Birth(origin, event.position, event.event_id, event.data_hash)
        later_names = renamings.later_names(event.type, event.facts, event.position, event.meta)
        bullets.take(event.type, birth_of(present, event.meta), event.facts, later_names)
    bullets.live = dict(sql.run(_LIVE).fetchall())
    return bullets
