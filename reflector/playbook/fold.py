"""The playbook as a pure fold over events.

Invariant: `fold(events, policy)` depends on nothing but its arguments. It is the definition of every
counter; the tables that the ledger keeps beside the events are only a faster way to the same value,
and `verify` compares the two.

A counter is the bullet's baseline plus the number of members in the set of its counted tags: those
with disposition `counted` that no active retraction covers and that came after the baseline was set,
by the bullet's first event or by a recount. A retraction may itself be retracted, which makes its
target count again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .bullet import Bullet
from .counting import DEFAULT, Counting, is_counting, member
from .names import section_slug

REDACTED = "[redacted]"
#: A reflection's tags stand right behind its completion, within this many positions; what stands elsewhere can
#: be retracted by itself only. So the ledger finds them as a range of its key, without an index.
MAX_TAGS = 10_000


class FoldedEvent(Protocol):
    """The part of an event that the fold reads."""

    @property
    def position(self) -> int: ...
    @property
    def event_id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def recorded_at(self) -> str: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def reflection_id(self) -> str | None: ...
    @property
    def target_id(self) -> str | None: ...
    @property
    def data(self) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A bullet with what its counters rest on; removed ones stay as tombstones.

    `recounted_at` is the position of the event that set the baseline: only tags behind it count.
    """

    name: str
    section: str
    text: str
    position: int
    baseline: tuple[int, int] = (0, 0)
    recounted_at: int = 0
    status: str = "live"
    removed_into: str | None = None
    reason: str | None = None


#: A tag with disposition `counted`: (position, event id, helpful or harmful, session id, reflection id). Most of a
#: history, so no class of its own: plain tuples of texts are cheap to make, and the garbage collector lets them be.
CountedTag = tuple[int, str, str, str | None, str | None]


@dataclass(slots=True)
class Playbook:
    """The state after some events. Read it through `bullets` and `entries`; only `apply` changes it."""

    counting: Counting | None = None
    adopted: Counting = DEFAULT
    position: int = 0
    updated_at: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    _tags: dict[str, list[CountedTag]] = field(default_factory=dict)
    _completed: dict[str, tuple[int, str, str | None]] = field(default_factory=dict)
    _retracted_by: dict[str, str] = field(default_factory=dict)

    def apply(self, event: FoldedEvent) -> None:
        """Fold one event in. Types that say nothing about bullets or counts only move the position."""
        self.position = event.position
        type_, data = event.type, event.data if event.data is not None else {}
        if type_ == "bullet.tagged":
            judged = verdict(data)
            if judged is not None:
                tag = (event.position, event.event_id, data["tag"], event.session_id, event.reflection_id)
                self.take_tag(judged[0], tag, event.recorded_at)
        elif type_ in _RULES:
            _RULES[type_](self, event, data)
            if changes_playbook(type_, data):
                self.updated_at = event.recorded_at

    def take_tag(self, name: str, tag: CountedTag, recorded_at: str) -> None:
        """Fold in a tag that counts, as its `verdict` says: what `apply` does with one."""
        self.position, self.updated_at = tag[0], recorded_at
        if name in self._tags:
            self._tags[name].append(tag)
        else:
            self._tags[name] = [tag]

    def active(self, event_id: str) -> bool:
        """True while no active retraction covers the event."""
        # Each event is retracted at most once, so the retractions of retractions are a line.
        active = True
        by = self._retracted_by.get(event_id)
        while by is not None:
            active = not active
            by = self._retracted_by.get(by)
        return active

    def retractions(self) -> dict[str, str]:
        """The id of each retraction by the id of its target."""
        return dict(self._retracted_by)

    def tagged_names(self) -> set[str]:
        """Every name that was given a tag with disposition `counted`, bullets or not."""
        return set(self._tags)

    def counted(self, name: str) -> Sequence[CountedTag]:
        """The tags of a bullet that count, in order of position."""
        tags = self._tags.get(name, [])
        entry = self.entries.get(name)
        if entry is not None and tags and tags[0][0] <= entry.recounted_at:
            tags = [tag for tag in tags if tag[0] > entry.recounted_at]
        return [tag for tag in tags if self._covered_by_nothing(tag)] if self._retracted_by else tags

    def _covered_by_nothing(self, tag: CountedTag) -> bool:
        position, event_id, _, _, reflection_id = tag
        completed = self._completed.get(reflection_id or "")
        if completed is None or not completed[0] < position <= completed[0] + MAX_TAGS:
            return self.active(event_id)
        return all(self.active(on) for on in (event_id, *completed[1:]) if on)

    def counters(self, name: str, counting: Counting | None = None) -> tuple[int, int]:
        """(helpful, harmful) of a bullet under a policy: `counting`, else the fold's, else the adopted one."""
        policy = counting or self.counting or self.adopted
        helpful: set[str] = set()
        harmful: set[str] = set()
        for _, event_id, tag, session_id, reflection_id in self.counted(name):
            members = helpful if tag == "helpful" else harmful
            members.add(member(policy, event_id, reflection_id, session_id))
        baseline = self.entries[name].baseline
        return baseline[0] + len(helpful), baseline[1] + len(harmful)

    def bullets(self) -> tuple[Bullet, ...]:
        """The live bullets with their counters, in order of creation."""
        live = (entry for entry in self.entries.values() if entry.status == "live")
        return tuple(Bullet(e.name, e.section, e.text, *self.counters(e.name)) for e in live)


def changes_playbook(type_: str, data: Mapping[str, Any] | None) -> bool:
    """True for an event after which a bullet or a count may differ; `last_updated` is the time of the last one."""
    if type_ == "bullet.tagged":
        return data is not None and verdict(data) is not None
    return type_ in _RULES and type_ != "reflection.completed"


def reads(type_: str) -> bool:
    """True for a type whose data the fold looks at; of the others it needs no more than the header."""
    return type_ == "bullet.tagged" or (type_ in _RULES and type_ not in _HEADER_ONLY)


def verdict(data: Mapping[str, Any]) -> tuple[str, int] | None:
    """(name, 1 or -1) of a tag that counts; None for one that never does, whatever its shape."""
    name, tag = data.get("name"), data.get("tag")
    if data.get("disposition") != "counted" or not isinstance(name, str) or not name or "\0" in name:
        return None
    return (name, 1) if tag == "helpful" else (name, -1) if tag == "harmful" else None


def fold(events: Iterable[FoldedEvent], counting: Counting | None = None) -> Playbook:
    """The playbook after `events`, in order, under `counting` (None: the policy they adopt)."""
    playbook = Playbook(counting=counting)
    for event in events:
        playbook.apply(event)
    return playbook


def _imported(book: Playbook, event: FoldedEvent, data: Mapping[str, Any]) -> None:
    for item in data.get("bullets", ()):
        _add(book, event, item)


def _added(book: Playbook, event: FoldedEvent, data: Mapping[str, Any]) -> None:
    if "name" in data:
        _add(book, event, data)


def _add(book: Playbook, event: FoldedEvent, item: Mapping[str, Any]) -> None:
    # A name means one bullet for ever, so a second bullet of the same name changes nothing.
    baseline = (item.get("helpful", 0), item.get("harmful", 0))
    if item["name"] not in book.entries:
        book.entries[item["name"]] = Entry(
            item["name"], section_slug(item["section"]), item["text"], event.position, baseline, event.position
        )


def _change(book: Playbook, data: Mapping[str, Any], **values: Any) -> None:
    entry = book.entries.get(data.get("name", ""))
    if entry is not None:
        book.entries[entry.name] = replace(entry, **values)


def _revised(book: Playbook, _: FoldedEvent, data: Mapping[str, Any]) -> None:
    _change(book, data, text=data.get("text", REDACTED))


def _moved(book: Playbook, _: FoldedEvent, data: Mapping[str, Any]) -> None:
    _change(book, data, section=section_slug(data.get("section", "")))


def _removed(book: Playbook, _: FoldedEvent, data: Mapping[str, Any]) -> None:
    _change(book, data, status="removed", removed_into=data.get("into"), reason=data.get("reason"))


def _recounted(book: Playbook, event: FoldedEvent, data: Mapping[str, Any]) -> None:
    _change(book, data, baseline=(data.get("helpful", 0), data.get("harmful", 0)), recounted_at=event.position)


def _completed(book: Playbook, event: FoldedEvent, _: Mapping[str, Any]) -> None:
    if event.reflection_id:
        book._completed[event.reflection_id] = (event.position, event.event_id, event.target_id)


def _retracted(book: Playbook, event: FoldedEvent, _: Mapping[str, Any]) -> None:
    if event.target_id:
        book._retracted_by.setdefault(event.target_id, event.event_id)


def _adopted(book: Playbook, _: FoldedEvent, data: Mapping[str, Any]) -> None:
    if is_counting(data.get("counting")):
        book.adopted = data["counting"]


#: Every type that the fold reads, besides the tags.
_RULES = {
    "playbook.imported": _imported,
    "bullet.added": _added,
    "bullet.revised": _revised,
    "bullet.moved": _moved,
    "bullet.removed": _removed,
    "bullet.recounted": _recounted,
    "reflection.completed": _completed,
    "evidence.retracted": _retracted,
    "policy.adopted": _adopted,
}
_HEADER_ONLY = frozenset({"reflection.completed", "evidence.retracted"})
