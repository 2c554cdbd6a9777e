"""What two ledgers hold when one was merged into the other, computed from both exports by
docs/moving.md alone.
"""

from collections import Counter, defaultdict
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.oracle.model import Event, Moment, read

ERASED = "[redacted]"
Key = tuple[str, ...]
Name = tuple[int, str]
#: (section, text, status, reason, helpful, harmful) of each bullet, whatever its name is here or
#: there.
Holdings = Counter[tuple[Any, ...]]


class Side:
    """An export, with what each event is everywhere and the moment at which it counts as
    recorded.
    """

    def __init__(self, lines: list[str]) -> None:
        self.events = read(lines)
        self.key: dict[str, Key] = {}
        self.moment: dict[str, datetime] = {}
        self.births: dict[str, tuple[Key, str]] = {}
        self.texts: dict[str, set[str]] = defaultdict(set)
        known = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
        for event in self.events:
            self.key[event.id] = _key(event)
            own = _moment(event)
            if "merged" not in event.meta:
                own = max(own, known + timedelta(microseconds=1))
            self.moment[event.id] = own
            known = max(known, own)
            for bullet in event.bullets:
                self.births.setdefault(
                    bullet["name"], (self.key[event.id], _first_name(event, bullet["name"]))
                )
                self.texts[bullet["name"]].add(bullet["text"])
            if event.type == "bullet.revised" and event.data:
                self.texts[event.name].add(event.data["text"])
        for event in self.events:
            for _, here, first, *_ in event.data["here"] if event.type == "ledger.merged" else ():
                if here in self.moment:
                    self.moment[here] = min(self.moment[here], datetime.fromisoformat(first))


def _levels(event: Event) -> list[dict[str, Any]]:
    """The `merged` of an event's meta, that of the ledger it came from last before those inside."""
    levels, level = [], event.meta.get("merged")
    while level:
        levels.append(level)
        level = level.get("merged")
    return levels


def _key(event: Event) -> Key:
    """The identity that the event has in the ledger that recorded it first."""
    identity, digest = event.id, event.hash
    for level in _levels(event):
        identity, digest = level.get("event_id", identity), level.get("data_hash", digest)
    of_a_bullet = event.type.startswith(("bullet.", "playbook.")) and event.type != "bullet.tagged"
    return (identity, digest) if of_a_bullet else (identity,)


def _moment(event: Event) -> datetime:
    levels = _levels(event)
    recorded = levels[-1]["recorded_at"] if levels else event.recorded_at
    moments = [level["moment"] for level in levels if "moment" in level]
    return max(datetime.fromisoformat(time) for time in [recorded, *moments])


def _first_name(event: Event, name: str) -> str:
    for level in _levels(event):
        old = {new: old for old, new in level.get("renamed", {}).items()}
        name = old.get(name, name)
    return name


@dataclass
class _Said:
    """An event as the first side that has it says it."""

    event: Event
    side: int
    moment: datetime
    target: Key
    data: dict[str, Any]


def merged(here: list[str], there: list[str]) -> tuple[Holdings, str]:
    """The bullets and the policy of `here` once `there` was merged into it."""
    sides = Side(here), Side(there)
    said: dict[Key, _Said] = {}
    for number, side in enumerate(sides):
        for event in side.events:
            if event.meta.get("restated") or event.type == "ledger.merged":
                continue
            key, moment = side.key[event.id], side.moment[event.id]
            target = side.key.get(event.target or "", (event.target or "",))
            if key not in said:
                said[key] = _Said(event, number, moment, target, event.data)
            else:
                said[key].moment = min(said[key].moment, moment)
                if event.redacted and not said[key].event.redacted and event.bullets:
                    said[key].data = _with_texts_of(said[key].data, event)
                elif event.redacted and "text" in event.data:
                    said[key].data = {**said[key].data, "text": event.data["text"]}
    moment_of_all = Moment(_course(said, _names(*sides)))
    told = moment_of_all.listed()
    keys = ("section", "text", "status", "reason", "helpful", "harmful")
    return Counter(tuple(one[key] for key in keys) for one in told), moment_of_all.policy


def _with_texts_of(data: dict[str, Any], event: Event) -> dict[str, Any]:
    """The data with the texts that the other side erased erased; the two have their bullets in
    one order.
    """
    if "bullets" not in data:
        return {**data, "text": event.data["text"]}
    bullets = [
        {**mine, "text": ERASED if other["text"] == ERASED else mine["text"]}
        for mine, other in zip(data["bullets"], event.data["bullets"], strict=True)
    ]
    return {**data, "bullets": bullets}


def _names(here: Side, there: Side) -> dict[Name, str]:
    """Which bullet each name of each side means."""
    born = {birth: name for name, birth in here.births.items()}
    means = {(0, name): name for name in here.births}
    for name, birth in there.births.items():
        agreed = name in here.births and here.texts[name] & there.texts[name] - {ERASED}
        means[1, name] = born.get(birth, name if agreed else f"{name} of the other")
    return means


def _course(said: dict[Key, _Said], means: dict[Name, str]) -> list[Event]:
    """Every event in the order in which it was first recorded, by its identity and under the
    names that count.
    """
    events = []
    judged: dict[str | None, list[tuple[str, str]]] = defaultdict(list)
    course = sorted(
        said.items(), key=lambda one: (one[1].moment, one[1].side, one[1].event.position)
    )
    for number, (key, one) in enumerate(course, start=1):
        event = copy(one.event)
        event.position, event.id, event.target = number, repr(key), repr(one.target)
        event.data = _renamed(one.data, one.side, means)
        events.append(event)
        if event.type == "reflection.completed":
            judged[event.target].append((event.actor, event.id))
    retracted = {event.target for event in events if event.type == "evidence.retracted"}
    for reflections in judged.values():
        for _, undecided in sorted(one for one in reflections if one[1] not in retracted)[1:]:
            out = copy(events[-1])
            out.position, out.id, out.target = len(events) + 1, f"not {undecided}", undecided
            out.type, out.data = "evidence.retracted", {}
            events.append(out)
    return events


def _renamed(data: dict[str, Any], side: int, means: dict[Name, str]) -> dict[str, Any]:
    name = {"name": means.get((side, data["name"] or ""), "")} if "name" in data else {}
    bullets = (
        {"bullets": [_renamed(one, side, means) for one in data["bullets"]]}
        if "bullets" in data
        else {}
    )
    return {**data, **name, **bullets}
