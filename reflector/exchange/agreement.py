"""The playbook on which two merged ledgers agree, whichever of them imported the other.

Invariant: after a merge, the bullets and counters are those of a ledger in which each event was
appended when it was first recorded, after every event that its own ledger had then. So the later
text counts. A count that was set by hand replaces earlier counts of both machines, and a bullet of
both ledgers has the baseline that was recorded first. If git renamed a bullet, the counts from
before follow the bullet, not the name.

A ledger only grows at its end. So if its own order gives another result, events are appended that
restate the agreed bullets and counters. They are not evidence: the next merge, here or elsewhere,
ignores them and computes again. `verdicts` decides earlier which verdicts count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reflector.events import event as ev
from reflector.events.event import (
    MERGED,
    RESTATED,
    Event,
    Moment,
    NewEvent,
    came_through,
    first_moment,
    identity,
)
from reflector.events.registry import EVENT_TYPES, bullets_worded, fold
from reflector.events.renamings import Renamings, is_of_name, renamed_into, with_names
from reflector.events.state import REDACTED, Playbook
from reflector.exchange.verdicts import ACTOR
from reflector.ledger.append import just_after
from reflector.ledger.counters import Counters
from reflector.ledger.reader import history_page
from reflector.ledger.statements import Statements
from reflector.playbook.change import SET_FIELDS, SETTING_KINDS
from reflector.playbook.entry import Entry

#: The fields of a bullet that a kind of change sets, by the type of its event. Counts are restated
#: separately.
_RESTATED_FIELDS = {kind.event: kind.set_fields for kind in SETTING_KINDS}
_STATUS_FIELDS = ("status", "reason", "removed_into")
_COLUMNS = ("name", *_STATUS_FIELDS, *SET_FIELDS)
_ROWS = f"SELECT {', '.join(_COLUMNS)} FROM bullet WHERE playbook_id = ?"  # noqa: S608
_COUNTERS = "SELECT name, helpful, harmful FROM bullet WHERE playbook_id = ?"
_IN_PLACE = ("live", "watched")
NEVER: Moment = ("", "", 0)


class Clock:
    """The times at which one ledger's own events count as recorded.

    Invariant: an event comes after all events that its ledger had when it was appended, even if the
    clocks disagree. So an event that was appended after another machine's events counts as recorded
    after these, if only by a microsecond.
    """

    def __init__(self) -> None:
        self._latest_known = ""
        self._latest_own = ""

    def time_of_own(self, recorded_at: str) -> str:
        """Return the time at which the ledger's next event counts as recorded; the event is its
        own.
        """
        if recorded_at < self._latest_own:
            self._latest_known = max(self._latest_known, self._latest_own)
        if recorded_at <= self._latest_known:
            recorded_at = self._latest_known = just_after(self._latest_known)
        self._latest_own = recorded_at
        return recorded_at

    def add_merged(self, moment: Moment) -> None:
        """Add the ledger's next event, which another ledger first recorded at this moment."""
        self._latest_known = max(self._latest_known, moment[0])


class _PlacedEvent(NamedTuple):
    """An event, the earliest moment at which any ledger recorded it, and the ledger that first
    appended it.
    """

    moment: Moment
    event: Event
    origin: str


def agreed_playbook(sql: Statements, origin: str) -> Playbook:
    """Return the playbook of all events of this ledger, in the order in which any ledger first
    recorded them.
    """
    history: list[Event] = []
    while page := history_page(sql, history[-1].position if history else 0, ev.MAX_INT):
        history += page
    moments_elsewhere = _recorded_elsewhere(history)
    clock = Clock()
    placed_events: list[_PlacedEvent] = []
    for event in history:
        if MERGED in event.meta and not event.fault:
            moment = first_moment(event.meta, NEVER)
            clock.add_merged(moment)
        else:
            moment = (clock.time_of_own(event.recorded_at), origin, event.position)
        if RESTATED not in event.meta:
            earliest = min(moment, moments_elsewhere.get(event.event_id, moment))
            placed_events.append(_PlacedEvent(earliest, event, moment[1]))
    placed_events.sort(key=lambda placed: (placed.moment, placed.event.event_id))
    events = _under_later_names(placed_events, _renamings_in(history, origin))
    return fold(replace(event, position=number) for number, event in enumerate(events, start=1))


def _recorded_elsewhere(history: Iterable[Event]) -> dict[str, Moment]:
    """Return the first moments at which other ledgers recorded events that were already here when
    they were merged, by the ids here.

    The record of a merge lists such events as `here`. A record that came from another ledger is
    about events of that ledger, and has their ids there. The record of the merge that brought it
    follows, and lists the renamed ids.
    """
    #: Ids and moments, by the number of merges that are still needed to bring them here.
    moments_by_distance: dict[int, list[tuple[str, Moment]]] = {}
    for event in history:
        if event.type != ev.LEDGER_MERGED or event.fault:
            continue
        distance = len(list(came_through(event.meta)))
        brought = moments_by_distance.pop(distance + 1, [])
        record = event.data
        moments = moments_by_distance.setdefault(distance, [])
        if record is None:  # it was erased together with the renamings
            moments += brought
            continue
        new_ids = renamed_ids(record["renamed"])
        for position, event_id, time, *_ in record["here"]:
            moments.append((event_id, (time, record["origin"], position)))
        moments += [(new_ids.get(event_id, event_id), moment) for event_id, moment in brought]
    earliest: dict[str, Moment] = {}
    for event_id, moment in moments_by_distance.get(0, []):
        earliest[event_id] = min(moment, earliest.get(event_id, moment))
    return earliest


def _renamings_in(history: Sequence[Event], origin: str) -> Renamings:
    """Return git's renamings in this ledger."""
    brought = (event for event in history if MERGED in event.meta and not event.fault)
    moments = [first_moment(event.meta, NEVER) for event in brought]
    of_copies = [position for _, first_origin, position in moments if first_origin == origin]
    renamings = Renamings(origin, min(of_copies, default=1) - 1, merges=True)
    for event in history:
        renamings.take(event.type, event.actor, event.facts, event.position, event.meta)
    return renamings


def _under_later_names(
    placed_events: Sequence[_PlacedEvent], renamings: Renamings
) -> Iterator[Event]:
    """Yield the events under later names. A renaming becomes the addition of a second bullet under
    the old name, and an event only about a second name is dropped.

    If git gives a name to other advice, a ledger adds its bullet under another name, with a
    baseline. The counts from before belong to that bullet, and not to the bullet that has the name
    now.
    """
    #: By the ledger that renames a bullet ("" is this one, which has all events) and the name.
    texts: dict[tuple[str, str], str] = {}
    for placed in placed_events:
        event = placed.event
        ledger = placed.origin if MERGED in event.meta else ""
        for bullet in bullets_worded(event.type, event.facts):
            texts["", bullet["name"]] = texts[ledger, bullet["name"]] = bullet["text"]
        if renamed_into(event.type, event.facts):
            name = event.facts["name"]
            # The old name becomes a bullet of its own, first with its old text. Git's revision
            # follows and gives it the other advice.
            section = name.partition("-")[0]
            text = texts.get((ledger, name), REDACTED)
            advice = {"name": name, "section": section, "text": text}
            yield replace(event, type=ev.BULLET_ADDED, data=advice)
            if event.type == ev.BULLET_REMOVED:
                yield event
            continue
        if is_of_name(event.type, event.actor, event.facts) and renamings.is_joined(
            event.facts["name"], event.position, event.meta
        ):
            continue
        later_names = renamings.later_names(event.type, event.facts, event.position, event.meta)
        facts = with_names(event.type, event.facts, later_names) if later_names else event.facts
        yield event if facts == event.facts else replace(event, data=facts)


def renamed_ids(names: Mapping[str, str]) -> dict[str, str]:
    """Return the new ids of events whose identity is a bullet's name, by their old ids."""
    types = [event_type.name for event_type in EVENT_TYPES.values() if event_type.id_is_name]
    return {
        identity(type_, old): identity(type_, new) for type_ in types for old, new in names.items()
    }


def restated_bullets(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """Return the events that give the ledger the policy, fields and removals of the book.

    chain  the head's chain, from which the ids of the events are made
    """
    events: list[NewEvent] = []
    if Counters(sql).counting() != book.adopted:
        policy = identity("policy", "counting", book.adopted)
        adoption = {"policy": policy, "counting": book.adopted, "reason": "merged"}
        events.append(_restated(ev.POLICY_ADOPTED, "", chain, adoption))
    for values in sql.run(_ROWS).fetchall():
        row = dict(zip(_COLUMNS, values, strict=True))
        entry = book.entries[row["name"]]
        for event_type, fields in _RESTATED_FIELDS.items():
            if _differs(row, entry, fields):
                facts = {field: getattr(entry, field) for field in fields}
                event = _restated(event_type, entry.name, chain, {"name": entry.name, **facts})
                events.append(event)
        if _differs(row, entry, _STATUS_FIELDS):
            events += _restated_status(row["status"], entry, chain)
    return events


def _differs(row: Mapping[str, object], entry: Entry, fields: Sequence[str]) -> bool:
    return any(row[field] != getattr(entry, field) for field in fields)


def _restated_status(status: str, entry: Entry, chain: str) -> list[NewEvent]:
    """Return the events that change a bullet from its status here to the agreed one."""
    events: list[NewEvent] = []
    is_in_place = entry.status in _IN_PLACE
    # A merged bullet must be removed before it can be restored.
    if not is_in_place or status == "merged":
        removed: dict[str, object] = {"name": entry.name, "reason": entry.reason}
        removed["into"] = entry.removed_into
        if "merged" in (status, entry.status):
            removed["follows"] = entry.heir is not None
        events.append(_restated(ev.BULLET_REMOVED, entry.name, chain, removed))
    if is_in_place:
        restored: dict[str, object] = {"name": entry.name}
        if entry.status == "watched":
            restored["watched"] = True
        events.append(_restated(ev.BULLET_RESTORED, entry.name, chain, restored))
    return events


def restated_counters(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """Return the events that give the ledger the counters of the book. The book's policy must be in
    force.
    """
    counters = {
        name: (helpful, harmful) for name, helpful, harmful in sql.run(_COUNTERS).fetchall()
    }
    agreed = {name: book.counters(name) for name in counters}
    heirs = {name: book.heirs(name) for name in counters}
    # A new baseline also counts for the bullet's heirs. They come later, so that their baselines
    # include it.
    restated: dict[str, None] = {}
    for name in counters:
        if counters[name] != agreed[name]:
            restated |= dict.fromkeys((name, *heirs[name]))
    events = []
    for name in sorted(restated, key=lambda name: -len(heirs[name])):
        helpful, harmful = agreed[name]
        facts = {"name": name, "helpful": helpful, "harmful": harmful}
        events.append(_restated(ev.BULLET_RECOUNTED, name, chain, facts))
    return events


def _restated(type_: str, name: str, chain: str, data: Mapping[str, object]) -> NewEvent:
    """Return an event that repeats a fact of the agreed playbook. It is not a change by a user, so
    its `meta` has `RESTATED`.
    """
    event_id = identity(type_, RESTATED, name, chain)
    return NewEvent(type_, event_id, data, ACTOR, meta={RESTATED: True})
