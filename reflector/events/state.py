"""The playbook as a value: bullets with their baselines, and the tags that count.

Invariant: a counter is the bullet's baseline plus the number of members in the set of its counted
tags: those with disposition `counted` that no active retraction covers and that came after the
baseline was set. A retraction may itself be retracted, which makes its target count again. Nothing
is ever subtracted.

A bullet that others were merged into counts by reference: its counters are the baselines of its
family added up, plus the size of the union of their sets. Each bullet of the family keeps what is
its own, so undoing a merge gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reflector.events.event import Event
from reflector.playbook.bullet import DEFAULT, MAX_TAGS, Bullet, Counting, member
from reflector.playbook.names import section_slug

REDACTED = "[redacted]"

#: The data of an event.
Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A bullet with everything that its counters rest on; removed ones stay as tombstones.

    Each field is a column of the table of bullets: the projection writes it, and `verify` compares
    it.

    position      of the event that brought the bullet
    ordinal       its place in the order of creation
    recounted_at  the position of the event that set the baseline: only tags behind it count
    status        live, removed, merged, or watched: judged, but not of the playbook
    reason        why it was removed; of a merged one, why it would be without the merge
    removed_into  what became of it; of a merged one, the bullet that has its evidence
    """

    name: str
    section: str
    text: str
    position: int
    ordinal: int
    recounted_at: int
    baseline_helpful: int = 0
    baseline_harmful: int = 0
    status: str = "live"
    removed_into: str | None = None
    reason: str | None = None

    @property
    def heir(self) -> str | None:
        """The bullet for which this one's evidence counts too; None unless it was merged."""
        return self.removed_into if self.status == "merged" else None

    @property
    def baseline(self) -> tuple[int, int]:
        """(helpful, harmful) before any tag."""
        return self.baseline_helpful, self.baseline_harmful


#: A tag with disposition `counted`: (position, event id, helpful or harmful, session id, reflection
#: id). Most of a history, so not a class of its own: plain tuples of texts are cheap to make, and
#: the garbage collector skips them.
CountedTag = tuple[int, str, str, str | None, str | None]


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
    #: Position, id and window of each reflection's completion, by the reflection.
    completed: dict[str, tuple[int, str, str | None]] = field(default_factory=dict)
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
        """Set what a bullet is. A text that a file brought before may hold NUL, which no server
        stores.
        """
        if odd := [name for name in ("text", "reason") if "\0" in str(getattr(entry, name))]:
            entry = replace(entry, **{name: getattr(entry, name).replace("\0", "") for name in odd})
        before = self.entries.get(entry.name)
        self.entries[entry.name] = entry
        if before is not None and before.heir is not None:
            self._sources.get(before.heir, {}).pop(entry.name, None)
        if entry.heir is not None:
            self._sources.setdefault(entry.heir, {})[entry.name] = None

    def add(self, event: Event, bullets: Sequence[Data]) -> None:
        """Add the bullets that an event brings. A name means one bullet forever: a second one
        changes nothing, but that of the playbook makes a watched one the playbook's, with its
        counts.
        """
        first = self.last_ordinal + 1
        for ordinal, bullet in enumerate(bullets, start=first):
            name, baseline = bullet["name"], (bullet.get("helpful", 0), bullet.get("harmful", 0))
            if name not in self.entries:
                section = section_slug(bullet["section"])
                at = event.position
                status = "watched" if bullet.get("watched") else "live"
                self.put(
                    Entry(name, section, bullet["text"], at, ordinal, at, *baseline, status=status)
                )
                self.last_ordinal = ordinal
            elif self.entries[name].status == "watched" and not bullet.get("watched"):
                up, down = baseline
                entry = replace(self.entries[name], status="live", recounted_at=event.position)
                self.put(replace(entry, baseline_helpful=up, baseline_harmful=down))

    def family(self, name: str) -> dict[str, int]:
        """Return the bullets whose evidence counts for one: itself and all that lead to it. Of each
        only what is behind the position counts, at which the counters of one that it leads to were
        set.
        """
        found = {name: 0}
        names = [name]
        for one in names:
            entry = self.entries[one]
            after = max(
                found[one], entry.recounted_at if entry.recounted_at > entry.position else 0
            )
            # A forged ledger may hold a circle.
            sources = [source for source in self.sources(one) if source not in found]
            names += sources
            found |= dict.fromkeys(sources, after)
        return found

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the bullets that were merged into one and point to it."""
        return tuple(self._sources.get(name, ()))

    def baseline(self, family: Mapping[str, int]) -> tuple[int, int]:
        """Return the baselines of a family added up; one that a later count of the whole holds
        is left out.
        """
        entries = ((self.entries[name], after) for name, after in family.items())
        counts = [entry.baseline for entry, after in entries if entry.recounted_at > after]
        return sum(helpful for helpful, _ in counts), sum(harmful for _, harmful in counts)

    def heirs(self, name: str, position: int | None = None) -> list[str]:
        """Return the bullets for which the evidence of one counts besides itself, the nearest
        first; of evidence at a position, those whose counters were not set behind it.
        """
        found: list[str] = []
        entry = self.entries.get(name)
        while entry is not None and entry.heir in self.entries and entry.heir not in (name, *found):
            entry = self.entries[entry.heir]
            if (
                position is not None
                and entry.position < entry.recounted_at
                and position <= entry.recounted_at
            ):
                break
            found.append(entry.name)
        return found

    def active(self, event_id: str) -> bool:
        """Return whether no active retraction covers the event."""
        # Each event is retracted at most once, so the retractions of retractions are a line.
        active = True
        by = self.retracted_by.get(event_id)
        met: set[str] = set()
        while by is not None and by not in met:
            met.add(by)  # a forged ledger may hold a circle
            active = not active
            by = self.retracted_by.get(by)
        return active

    def counted(self, name: str) -> Sequence[CountedTag]:
        """Return the tags of a bullet itself that count, in order of position."""
        tags = self.tags.get(name, [])
        entry = self.entries.get(name)
        if entry is not None and tags and tags[0][0] <= entry.recounted_at:
            tags = [tag for tag in tags if tag[0] > entry.recounted_at]
        return [tag for tag in tags if self._is_uncovered(tag)] if self.retracted_by else tags

    def _is_uncovered(self, tag: CountedTag) -> bool:
        position, event_id, _, _, reflection_id = tag
        completed = self.completed.get(reflection_id or "")
        if completed is None or not completed[0] < position <= completed[0] + MAX_TAGS:
            return self.active(event_id)
        return all(self.active(on) for on in (event_id, *completed[1:]) if on)

    def counters(self, name: str, counting: Counting | None = None) -> tuple[int, int]:
        """Return (helpful, harmful) of a bullet under a policy: `counting`, else the adopted
        one.
        """
        policy = counting or self.adopted
        helpful: set[str] = set()
        harmful: set[str] = set()
        family = self.family(name)
        for one, after in family.items():
            for position, event_id, tag, session_id, reflection_id in self.counted(one):
                if position > after:
                    members = helpful if tag == "helpful" else harmful
                    members.add(member(policy, event_id, reflection_id, session_id))
        up, down = self.baseline(family)
        return up + len(helpful), down + len(harmful)

    def bullets(self) -> tuple[Bullet, ...]:
        """Return the live bullets with their counters, in order of creation."""
        live = (entry for entry in self.entries.values() if entry.status == "live")
        return tuple(Bullet(e.name, e.section, e.text, *self.counters(e.name)) for e in live)


def verdict(data: Data) -> tuple[str, int] | None:
    """Return (name, 1 or -1) of a tag that counts; None for one that never does, malformed ones
    included.
    """
    name, tag = data.get("name"), data.get("tag")
    if (
        data.get("disposition") != "counted"
        or not isinstance(name, str)
        or not name
        or "\0" in name
    ):
        return None
    return (name, 1) if tag == "helpful" else (name, -1) if tag == "harmful" else None
