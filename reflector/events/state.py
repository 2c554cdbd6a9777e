"""The playbook as a value: bullets with their baselines, and the tags that count.

Invariant: a counter is the bullet's baseline plus the size of the set of its counted tags. A tag is
in this set if its disposition is `counted`, no active retraction covers it, and it came after the
baseline was set. A retraction can itself be retracted, and then its target counts again. Nothing is
ever subtracted.

After a merge of bullets, the remaining bullet counts by reference: the baselines of its family,
plus the size of the union of their sets. Each bullet of the family keeps its own set, so undoing
the merge restores its counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reflector.events.event import Event
from reflector.playbook.bullet import DEFAULT, MAX_TAGS, Bullet, Counting, member
from reflector.playbook.entry import Entry
from reflector.playbook.names import section_slug

REDACTED = "[redacted]"

#: The data of an event.
Data = Mapping[str, Any]


#: A tag with disposition `counted`: (position, event id, helpful or harmful, session id, reflection
#: id). It is a plain tuple, because most events are such tags: tuples of texts are cheap to make,
#: and the garbage collector skips them.
CountedTag = tuple[int, str, str, str | None, str | None]


class Completion(NamedTuple):
    """The event that completed a reflection, and the window that it is about."""

    position: int
    event_id: str
    window_id: str | None


@dataclass(slots=True)
class Playbook:
    """The state after some events. Read it through `bullets` and `entries`; only effects of
    event types change it.
    """

    adopted: Counting = DEFAULT
    position: int = 0
    updated_at: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    last_ordinal: int = 0
    tags: dict[str, list[CountedTag]] = field(default_factory=dict)
    #: By the id of the reflection.
    completed: dict[str, Completion] = field(default_factory=dict)
    #: The retraction of each event that has one, by its id.
    retracted_by: dict[str, str] = field(default_factory=dict)
    #: The positions of the events that may set baselines, by their ids.
    baselines_at: dict[str, int] = field(default_factory=dict)
    #: The bullets that were merged into one, by its name.
    _sources: dict[str, dict[str, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.entries.values():
            self.put(entry)

    def put(self, entry: Entry) -> None:
        """Set a bullet's entry, without the NUL characters in its texts.

        In earlier versions, NUL came from files into events, and no server stores it.
        """
        for name in ("text", "reason"):
            text = getattr(entry, name)
            if text and "\0" in text:
                entry = entry._replace(**{name: text.replace("\0", "")})
        before = self.entries.get(entry.name)
        self.entries[entry.name] = entry
        if before and before.heir is not None:
            self._sources.get(before.heir, {}).pop(entry.name, None)
        if entry.heir is not None:
            self._sources.setdefault(entry.heir, {})[entry.name] = None

    def add(self, event: Event, bullets: Sequence[Data]) -> None:
        """Add the bullets of an event. A name permanently means one bullet, so a second bullet with
        the name changes nothing. There is one exception: a live bullet makes a watched one live,
        with the new counts.
        """
        first = self.last_ordinal + 1
        for ordinal, bullet in enumerate(bullets, start=first):
            name = bullet["name"]
            status = "watched" if bullet.get("watched") else "live"
            counts: dict[str, Any] = {
                "recounted_at": event.position,
                "baseline_helpful": bullet.get("helpful", 0),
                "baseline_harmful": bullet.get("harmful", 0),
                "status": status,
            }
            if name not in self.entries:
                section = section_slug(bullet["section"])
                place = (event.position, ordinal)
                self.put(Entry(name, section, bullet["text"], *place, **counts))
                self.last_ordinal = ordinal
            elif self.entries[name].status == "watched" and status == "live":
                self.put(self.entries[name]._replace(**counts))

    def family(self, name: str) -> dict[str, int]:
        """Return the bullets whose evidence counts for a bullet: itself and all bullets merged into
        it. Each has the position after which its evidence counts.

        Counters that were set by hand include the evidence of the sources up to that position.
        """
        family = {name: 0}
        to_visit = [name]
        for member_name in to_visit:
            entry = self.entries[member_name]
            after = family[member_name]
            if entry.recounted_at > entry.position:
                after = max(after, entry.recounted_at)
            # A forged ledger may contain a circle.
            sources = [source for source in self.sources(member_name) if source not in family]
            to_visit += sources  # the loop also visits these
            family |= dict.fromkeys(sources, after)
        return family

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the bullets that were merged into one and point to it."""
        return tuple(self._sources.get(name, ()))

    def baseline(self, family: Mapping[str, int]) -> tuple[int, int]:
        """Return the sum of the baselines of a family, except those that a later count of the whole
        includes.
        """
        entries = [
            self.entries[name]
            for name, after in family.items()
            if self.entries[name].recounted_at > after
        ]
        helpful = sum(entry.baseline_helpful for entry in entries)
        return helpful, sum(entry.baseline_harmful for entry in entries)

    def heirs(self, name: str, position: int | None = None) -> list[str]:
        """Return the other bullets for which a bullet's evidence counts, the nearest first.

        position  of the evidence: bullets whose counters were set after it do not count it
        """
        heirs: list[str] = []
        heir = self._heir_of(name)
        while heir and heir.name not in (name, *heirs):  # a circle, if forged
            is_recounted = heir.position < heir.recounted_at
            if position is not None and is_recounted and position <= heir.recounted_at:
                break
            heirs.append(heir.name)
            heir = self._heir_of(heir.name)
        return heirs

    def _heir_of(self, name: str) -> Entry | None:
        entry = self.entries.get(name)
        if entry is None or entry.heir is None:
            return None
        return self.entries.get(entry.heir)

    def active(self, event_id: str) -> bool:
        """Return whether no active retraction covers the event."""
        return len(self.retractions(event_id)) % 2 == 0

    def retractions(self, event_id: str) -> list[str]:
        """Return the retraction of an event, the retraction of that one, and so on. An event is
        retracted at most once, so they form a line.
        """
        line: dict[str, None] = {}
        retraction = self.retracted_by.get(event_id)
        while retraction is not None and retraction not in line:  # a circle, if forged
            line[retraction] = None
            retraction = self.retracted_by.get(retraction)
        return list(line)

    def counted(self, name: str) -> Sequence[CountedTag]:
        """Return the tags of the bullet itself that count, in order of position."""
        tags = self.tags.get(name, [])
        entry = self.entries.get(name)
        if entry and tags and tags[0][0] <= entry.recounted_at:
            tags = [tag for tag in tags if tag[0] > entry.recounted_at]
        if not self.retracted_by:
            return tags
        return [tag for tag in tags if self._is_uncovered(tag)]

    def _is_uncovered(self, tag: CountedTag) -> bool:
        """Return whether no active retraction covers a tag, its reflection or the reflection's
        window. A tag too far after a reflection does not belong to it.
        """
        position, event_id, _, _, reflection_id = tag
        if not self.active(event_id):
            return False
        completion = self.completed.get(reflection_id or "")
        if completion is None:
            return True
        if not completion.position < position <= completion.position + MAX_TAGS:
            return True
        window_counts = completion.window_id is None or self.active(completion.window_id)
        return window_counts and self.active(completion.event_id)

    def counters(self, name: str, counting: Counting | None = None) -> tuple[int, int]:
        """Return (helpful, harmful) of a bullet under the policy `counting`, else under the adopted
        one.
        """
        policy = counting or self.adopted
        helpful: set[str] = set()
        harmful: set[str] = set()
        family = self.family(name)
        for source, after in family.items():
            for position, event_id, tag, session_id, reflection_id in self.counted(source):
                if position > after:
                    members = helpful if tag == "helpful" else harmful
                    members.add(member(policy, event_id, reflection_id, session_id))
        helpful_before, harmful_before = self.baseline(family)
        return helpful_before + len(helpful), harmful_before + len(harmful)

    def bullets(self) -> tuple[Bullet, ...]:
        """Return the live bullets with their counters, in order of creation."""
        live = (entry for entry in self.entries.values() if entry.status == "live")
        return tuple(Bullet(e.name, e.section, e.text, *self.counters(e.name)) for e in live)


_SIGN_OF = {"helpful": 1, "harmful": -1}


def counted_verdict(data: Data) -> tuple[str, int] | None:
    """Return the bullet's name, and 1 or -1, for a tag that counts; None for a tag that never
    counts.

    A model writes a tag, so its data may be of any type.
    """
    if data.get("disposition") != "counted":
        return None
    name = data.get("name")
    if not isinstance(name, str) or not name or "\0" in name:
        return None
    sign = _SIGN_OF.get(str(data.get("tag")))
    return (name, sign) if sign else None
