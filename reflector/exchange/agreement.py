"""One playbook from two histories: what both ledgers agree on, whichever of them took the other in.

Invariant: after a merge the bullets and counters are those of one ledger to which every event had
been appended when it was first recorded, and behind all that its own ledger knew then: the later
text counts, a count set by hand takes out what was counted before it on either machine, and a
bullet that both have has the baseline that was recorded first. What a ledger counted for a bullet
before git renamed it there follows the bullet, not the name.

A ledger only grows at its end, so where its own order gives anything else, events that say what
comes of it are appended. They are not evidence: the next merge, here or elsewhere, ignores them and
counts again.

Of one window that several judges judged, one reflection counts. Which one depends on nothing but
the reflections, so every machine retracts the same ones, and a retraction of them is an event like
those by people. A person's verdict is never replaced by a judge's, and takes the place of all that
judges say of that citation. A check is no other judgement of its window: what it says is kept, and
of what it counts once for a session, nothing that counts otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reflector.events import event as ev
from reflector.events.bullets import TYPE_OF
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
from reflector.events.kinds import Field
from reflector.events.registry import (
    EVENT_TYPES,
    bullets_brought,
    fields_of,
    fold,
    mapped,
    names_in,
)
from reflector.events.state import REDACTED, Data, Playbook
from reflector.ledger.append import just_after
from reflector.ledger.counters import Counters
from reflector.ledger.reader import events_where, history_page, of_types, whose
from reflector.ledger.statements import Statements
from reflector.playbook.change import SETS

ACTOR = "merge"
#: The fields of a bullet that a kind of change sets, by the type of its event. Counts are restated
#: on their own.
_RESTATED_FIELDS = {TYPE_OF[kind]: fields for kind, fields in SETS.items() if kind != "recount"}
_FIELDS = tuple(dict.fromkeys(field for fields in _RESTATED_FIELDS.values() for field in fields))
_ROWS = (
    f"SELECT name, status, reason, removed_into, {', '.join(_FIELDS)} FROM bullet WHERE "  # noqa: S608
    "playbook_id = ?"
)
_COUNTERS = "SELECT name, helpful, harmful FROM bullet WHERE playbook_id = ?"
NEVER: Moment = ("", "", 0)


class Clock:
    """The times at which one ledger's own events count as recorded.

    Invariant: an event comes behind all that its ledger knew when it was appended, even if the
    clocks disagree. So an event that was appended behind another machine's events counts as
    recorded after these, if by a microsecond only.
    """

    def __init__(self) -> None:
        self._known = self._last = ""

    def own(self, recorded_at: str) -> str:
        """Return when the ledger's next event counts as recorded, which is its own."""
        if recorded_at < self._last:
            self._known = max(self._known, self._last)
        if recorded_at <= self._known:
            recorded_at = self._known = just_after(self._known)
        self._last = recorded_at
        return recorded_at

    def came(self, moment: Moment) -> None:
        """Take the ledger's next event, which another ledger first recorded at this moment."""
        self._known = max(self._known, moment[0])


def agreed(sql: Statements, origin: str) -> Playbook:
    """Return the playbook of all events of this ledger, in the order in which they were first
    recorded anywhere.
    """
    history: list[Event] = []
    while page := history_page(sql, history[-1].position if history else 0, ev.MAX_INT):
        history += page
    elsewhere = _recorded_elsewhere(history)
    clock = Clock()
    events: list[tuple[Moment, str, Event]] = []
    #: Where each event was first recorded, by its position here: the ledger's origin, and the
    #: position there.
    first: dict[int, tuple[str, int]] = {}
    for event in history:
        if MERGED in event.meta and not event.fault:
            moment = first_moment(event.meta, NEVER)
            clock.came(moment)
        else:
            moment = (clock.own(event.recorded_at), origin, event.position)
        first[event.position] = moment[1:]
        if RESTATED not in event.meta:
            events.append(
                (min(moment, elsewhere.get(event.event_id, moment)), event.event_id, event)
            )
    events.sort(key=lambda one: one[:2])
    course = _under_later_names([event for *_, event in events], first)
    return fold(replace(event, position=number) for number, event in enumerate(course, start=1))


def _recorded_elsewhere(history: Iterable[Event]) -> dict[str, Moment]:
    """Return by events' ids when other ledgers first recorded those that were here already."""
    #: What records of merges say, by how many ledgers lie between that merge and this one: ids are
    #: that ledger's.
    told: dict[int, list[tuple[str, Moment]]] = {}
    for event in history:
        if event.type == ev.LEDGER_MERGED and event.data is not None:
            record, depth = event.data, len(list(came_through(event.meta)))
            ids = renamed_ids(record["renamed"])
            here = told.setdefault(depth, [])
            here += [
                (id, (time, record["origin"], position))
                for position, id, time, *_ in record["here"]
            ]
            here += [(ids.get(id, id), moment) for id, moment in told.pop(depth + 1, ())]
    elsewhere: dict[str, Moment] = {}
    for event_id, moment in told.get(0, ()):
        elsewhere[event_id] = min(moment, elsewhere.get(event_id, moment))
    return elsewhere


def _under_later_names(
    events: list[Event], first: Mapping[int, tuple[str, int]]
) -> Iterator[Event]:
    """Yield the events, those about a bullet that git renamed in their ledger under its later name.

    Where git gives a name to other advice, a ledger adds its bullet under another name, with a
    baseline. What was counted before belongs to that bullet, and says nothing of the one that other
    ledgers know by the name.
    """
    left: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for event in events:
        if into := _renamed_into(event):
            origin, position = first[event.position]
            left.setdefault((origin, event.facts["name"]), []).append((position, into))
    if not left:
        yield from events
        return
    texts: dict[tuple[str, str], str] = {}
    for event in events:
        origin, position = first[event.position]
        data = event.facts
        names = {
            name: _later_name(left, origin, name, position) for name in names_in(event.type, data)
        }
        for bullet in bullets_brought(event.type, data):
            texts[origin, bullet["name"]] = bullet["text"]
        if _renamed_into(event):
            name = data["name"]
            advice = {
                "name": name,
                "section": name.partition("-")[0],
                "text": texts.get((origin, name), REDACTED),
            }
            yield replace(event, type=ev.BULLET_ADDED, data=advice)
            if event.type == ev.BULLET_REMOVED:
                yield event
        else:
            there = renamed(event.type, data, names)
            yield event if there == data else replace(event, data=there)


def _later_name(
    left: Mapping[tuple[str, str], list[tuple[int, str]]], origin: str, name: str, position: int
) -> str:
    """Return the last name of the bullet that a name meant in a ledger at a position."""
    while later := [one for one in left.get((origin, name), ()) if one[0] > position]:
        position, name = min(later)
    return name


def _renamed_into(event: Event) -> str | None:
    """Return the name that a bullet has from an event on, because git gave its name to other
    advice or to none.
    """
    is_merged = event.type == ev.BULLET_REMOVED and event.facts.get("reason") == "merged"
    return event.facts.get("into") if is_merged or event.type == ev.BULLET_RECOUNTED else None


def renamed(type_: str, data: Data, names: Mapping[str, str]) -> dict[str, Any]:
    """Return an event's data with its bullets under their new names.

    A renaming is one to one, and touches names where an event says which bullet it means and no
    prose.
    """

    def new(one: Field, holder: Data, here: Any) -> Any:
        if not one.names or (one.elsewhere is not None and one.elsewhere(holder)):
            return here
        if isinstance(here, list):
            return [names.get(name, name) for name in here]
        return names.get(here, here) if isinstance(here, str) else here

    return mapped(fields_of(type_), data, new)


def renamed_ids(names: Mapping[str, str]) -> dict[str, str]:
    """Return the new ids of events whose identity is a bullet's name, by the old ones."""
    types = [name for name, one in EVENT_TYPES.items() if one.id_is_name]
    return {
        identity(type_, old): identity(type_, new) for type_ in types for old, new in names.items()
    }


_NOT_RETRACTED = (
    "NOT EXISTS (SELECT 1 FROM retraction"
    " WHERE retraction.playbook_id = event.playbook_id AND retraction.target_id = event.event_id)"
)
_CHECKS = (
    "SELECT reflection_id FROM event WHERE playbook_id = ?"  # noqa: S608
    f" AND (type = '{ev.BULLET_CHECKED}' OR (type = '{ev.REFLECTION_COMPLETED}' AND data LIKE ?))"
)
_COUNTED = (
    "SELECT event.session_id, tag.name, event.actor, event.event_id, event.reflection_id FROM tag "  # noqa: S608
    "JOIN event"
    " ON event.playbook_id = tag.playbook_id AND event.position = tag.position WHERE "
    "tag.playbook_id = ?"
    f" AND tag.active = 1 AND tag.tag IN (1, -1) AND {_NOT_RETRACTED}"
)
#: A person's verdicts are reflections of their own, which take the place of others one citation at
#: a time.
_COMPLETED_BY_JUDGES = (
    f"{of_types((ev.REFLECTION_COMPLETED,))} AND actor <> '{ev.HUMAN}' AND {_NOT_RETRACTED} ORDER "
    "BY position"
)
_COMPLETED_BY_HAND = (
    f"{of_types((ev.REFLECTION_COMPLETED,))} AND actor = '{ev.HUMAN}' ORDER BY position"
)
_OF_SESSIONS = (
    f"{whose((ev.SESSION_RECORDED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED))} AND session_id IN "
    "? ORDER BY position"
)
_OUT = "SELECT target_id, active FROM retraction WHERE playbook_id = ? AND target_id IN ?"


def judged_twice(sql: Statements, origin: str) -> list[NewEvent]:
    """Return retractions of all but one of the judges' reflections on a window.

    The one by the judge whose name sorts first counts; of one judge's, the one that was recorded
    first. What was ever retracted is left as it is: somebody decided on it. So are a person's
    verdicts.
    """
    windows: dict[str, list[Event]] = {}
    checks = _checks(sql)
    for reflection in events_where(sql, _COMPLETED_BY_JUDGES):
        if reflection.reflection_id not in checks:
            windows.setdefault(reflection.target_id or "", []).append(reflection)
    retractions = []
    for reflections in windows.values():
        by_judge = sorted(
            reflections, key=lambda of: (of.actor, _recorded_at(of), _birth(of, origin))
        )
        counting = by_judge[0]
        reason = f"the same window was judged by {counting.actor}, which counts"
        retractions += [
            _retracted(other.event_id, other.session_id, reason) for other in by_judge[1:]
        ]
    return retractions


def overruled(sql: Statements, origin: str) -> list[NewEvent]:
    """Return retractions of the verdicts on which a person has the last word, where neither ledger
    knew of the other.

    A person's verdict takes what judges say of the bullet in that session out of the count, and so
    does a later verdict of a person. If it is taken back, these count again.
    """
    by_hand = events_where(sql, _COMPLETED_BY_HAND)
    sessions = {verdict.session_id for verdict in by_hand}
    events = events_where(sql, _OF_SESSIONS, sessions - {None}) if by_hand else []
    agents = {
        event.event_id: event.facts.get("agent_id")
        for event in events
        if event.type == ev.SESSION_RECORDED
    }
    completed = {
        event.reflection_id: event for event in events if event.type == ev.REFLECTION_COMPLETED
    }
    retracted = (
        dict(sql.run(_OUT, [event.event_id for event in events]).fetchall()) if events else {}
    )
    citations: dict[tuple[str | None, str | None, str], list[Event]] = {}
    for tag in events:
        reflection = completed.get(tag.reflection_id) if tag.type == ev.BULLET_TAGGED else None
        if reflection is None or tag.facts.get("disposition") not in ("counted", "neutral"):
            continue
        if not any(
            retracted.get(id)
            for id in (tag.event_id, reflection.event_id, reflection.target_id or "")
        ):
            about = (
                tag.session_id,
                agents.get(reflection.target_id or ""),
                str(tag.facts.get("name")),
            )
            citations.setdefault(about, []).append(tag)
    retractions = []
    for tags in citations.values():
        verdicts = [tag for tag in tags if tag.actor == ev.HUMAN]
        if not verdicts:
            continue
        last = max(verdicts, key=lambda tag: (_recorded_at(tag), _birth(tag, origin)))
        # A judge's verdict that somebody put back stays.
        others = [tag for tag in tags if tag is not last and tag.event_id not in retracted]
        decided = [
            tag for tag in others if tag.actor == ev.HUMAN or tag.facts.get("tag") != "neutral"
        ]
        reason = f"a person judged it: {last.facts.get('tag')}"
        retractions += [
            _retracted(tag.event_id, tag.session_id, reason, last.reflection_id) for tag in decided
        ]
    return retractions


def counted_twice(sql: Statements) -> list[NewEvent]:
    """Retractions of what checks count for a session and a bullet, but one where nothing else
    counts for them.
    """
    if not (checks := _checks(sql)):
        return []
    found: dict[tuple[str | None, str], list[tuple[bool, str, str]]] = {}
    for session_id, name, actor, event_id, id in sql.run(_COUNTED).fetchall():
        found.setdefault((session_id, name), []).append((id in checks, actor, event_id))
    twice = [
        (session_id, one) for (session_id, _), tags in found.items() for one in sorted(tags)[1:]
    ]
    reason = "the session counts once for it"
    return [
        _retracted(event_id, session_id, reason)
        for session_id, (is_check, _, event_id) in twice
        if is_check
    ]


def verdicts_of(sql: Statements, event_ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the bullet and the verdict of the tags that have these ids here."""
    tags = events_where(sql, "event_id IN ?", event_ids)
    return {tag.event_id: (str(tag.facts.get("name")), str(tag.facts.get("tag"))) for tag in tags}


def _birth(event: Event, origin: str) -> tuple[str, int]:
    """Return the ledger and the position of an event where it was first appended: the same on
    every machine.
    """
    return first_moment(event.meta, ("", origin, event.position))[1:]


def _recorded_at(event: Event) -> str:
    """Return the time that the ledger in which an event was first appended gave it."""
    return [event.recorded_at, *(str(came["recorded_at"]) for came in came_through(event.meta))][-1]


def _checks(sql: Statements) -> set[str]:
    return {row[0] for row in sql.run(_CHECKS, '%"mode":"checked"%').fetchall()}


def _retracted(
    event_id: str, session_id: str | None, reason: str, reflection_id: str | None = None
) -> NewEvent:
    ids: Any = {"session_id": session_id, "reflection_id": reflection_id, "target_id": event_id}
    return NewEvent(
        ev.EVIDENCE_RETRACTED,
        identity(ev.EVIDENCE_RETRACTED, event_id),
        {"reason": reason},
        ACTOR,
        **ids,
    )


def restated_bullets(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """Return the events after which policy, texts, sections and removals are the book's. `chain`
    is the head's.
    """
    events: list[NewEvent] = []
    if Counters(sql).counting() != book.adopted:
        data = {
            "policy": identity("policy", "counting", book.adopted),
            "counting": book.adopted,
            "reason": "merged",
        }
        events.append(_restated(ev.POLICY_ADOPTED, "", chain, data))
    for name, status, reason, into, *values in sql.run(_ROWS).fetchall():
        entry = book.entries[name]
        has = dict(zip(_FIELDS, values, strict=True))
        for type_, fields in _RESTATED_FIELDS.items():
            wanted = {field: getattr(entry, field) for field in fields}
            if any(has[field] != value for field, value in wanted.items()):
                events.append(_restated(type_, name, chain, {"name": name, **wanted}))
        if (status, reason, into) != (entry.status, entry.reason, entry.removed_into):
            removed: dict[str, object] = {
                "name": name,
                "reason": entry.reason,
                "into": entry.removed_into,
            }
            if "merged" in (status, entry.status):
                removed["follows"] = entry.heir is not None
            # Of a bullet that was merged, only a removed one can be restored.
            if entry.status not in ("live", "watched") or status == "merged":
                events.append(_restated(ev.BULLET_REMOVED, name, chain, removed))
            if entry.status in ("live", "watched"):
                back = {"name": name} | ({"watched": True} if entry.status == "watched" else {})
                events.append(_restated(ev.BULLET_RESTORED, name, chain, back))
    return events


def restated_counters(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """Return the events after which the counters are the book's, its policy in force."""
    there = {name: (helpful, harmful) for name, helpful, harmful in sql.run(_COUNTERS).fetchall()}
    wanted = {name: book.counters(name) for name in there}
    differing = [name for name in there if there[name] != wanted[name]]
    # A new baseline counts for the bullet's heirs too. They follow it, so that theirs holds it.
    heirs = {name: book.heirs(name) for name in there}
    names = dict.fromkeys(one for name in differing for one in (name, *heirs[name]))
    events = []
    for name in sorted(names, key=lambda name: -len(heirs[name])):
        up, down = wanted[name]
        events.append(
            _restated(
                ev.BULLET_RECOUNTED, name, chain, {"name": name, "helpful": up, "harmful": down}
            )
        )
    return events


def _restated(type_: str, name: str, chain: str, data: Mapping[str, object]) -> NewEvent:
    return NewEvent(
        type_, identity(type_, RESTATED, name, chain), data, ACTOR, meta={RESTATED: True}
    )
