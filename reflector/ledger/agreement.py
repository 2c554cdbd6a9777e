"""One playbook from two histories: what both ledgers agree on, whichever of them took the other in.

Invariant: after a merge the bullets and counters are those of one ledger to which every event had been appended when it
was first recorded: the later text stands, a count set by hand takes out what was counted before it on either machine,
and a bullet that both have has the baseline that was recorded first. A ledger only ever grows at its end, so where
its own order gives anything else, events that say what comes of it are appended. They are no evidence: the next
merge, here or elsewhere, passes over them and counts anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from reflector.ledger import event as ev
from reflector.ledger.canonical import MAX_INT
from reflector.ledger.event import NewEvent, identity
from reflector.ledger.merged import RESTATED, Moment, first_moment, of_merges
from reflector.ledger.projection import Projector
from reflector.ledger.reader import history_page
from reflector.ledger.rows import Projected
from reflector.ledger.statements import Statements
from reflector.playbook.fold import Playbook, fold, reads

ACTOR = "merge"
_ROWS = "SELECT name, section, text, status, reason, removed_into, helpful, harmful FROM bullet WHERE playbook_id = ?"
_RESTATED = f"SELECT position FROM event WHERE playbook_id = ? AND meta LIKE '%%\"{RESTATED}\":%%'"  # noqa: S608


def agreed(sql: Statements, origin: str) -> Playbook:
    """The playbook of all events of this ledger, in the order in which they were first recorded anywhere."""
    moments = _moments(sql, origin)
    restated = {row[0] for row in sql.run(_RESTATED).fetchall()}
    events = [event for event in _history(sql) if event.position not in restated]
    events.sort(key=lambda e: (*moments.get(e.event_id, (e.recorded_at, origin, e.position)), e.event_id))
    return fold(event._replace(position=number) for number, event in enumerate(events, start=1))


def _history(sql: Statements) -> Iterator[Projected]:
    position = 0
    while page := history_page(sql, position, MAX_INT, reads):
        yield from page
        position = page[-1].position


def _moments(sql: Statements, origin: str) -> dict[str, Moment]:
    """When the events that more than one ledger knows were first recorded, by their ids."""
    moments: dict[str, Moment] = {}
    elsewhere: list[tuple[str, Moment]] = []
    for stored in of_merges(sql):
        moments[stored.event_id] = first_moment(stored, json.loads(stored.meta), origin)
        if stored.type == ev.LEDGER_MERGED:
            record = json.loads(stored.data or "{}")
            elsewhere += [(id, (time, record["origin"], position)) for position, id, time, _ in record["here"]]
    own = _recorded(sql, {id for id, _ in elsewhere} - set(moments), origin)
    for event_id, moment in elsewhere:
        known = moments.get(event_id) or own.get(event_id)
        if known is not None and moment[0] < known[0]:
            moments[event_id] = moment
    return moments


def _recorded(sql: Statements, ids: set[str], origin: str) -> dict[str, Moment]:
    among, values = sql.among("event_id", ids)
    rows = sql.run(f"SELECT event_id, recorded_at, position FROM event WHERE playbook_id = ? AND {among}", values)  # noqa: S608
    return {row[0]: (row[1], origin, row[2]) for row in rows.fetchall()}


def restated_bullets(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """The events after which policy, texts, sections and removals are the book's. `chain` is the head's."""
    events: list[NewEvent] = []
    if Projector(sql).counting() != book.adopted:
        data = {"policy": identity("policy", "counting", book.adopted), "counting": book.adopted, "reason": "merged"}
        events.append(_restated(ev.POLICY_ADOPTED, "", chain, data))
    for name, section, text, status, reason, into, *_ in sql.run(_ROWS).fetchall():
        entry = book.entries[name]
        if text != entry.text:
            events.append(_restated(ev.BULLET_REVISED, name, chain, {"name": name, "text": entry.text}))
        if section != entry.section:
            events.append(_restated(ev.BULLET_MOVED, name, chain, {"name": name, "section": entry.section}))
        if (status, reason, into) != (entry.status, entry.reason, entry.removed_into):
            removed = {"name": name, "reason": entry.reason, "into": entry.removed_into}
            events.append(_restated(ev.BULLET_REMOVED, name, chain, removed))
    return events


def restated_counters(sql: Statements, book: Playbook, chain: str) -> list[NewEvent]:
    """The events after which the counters are the book's, its policy in force."""
    events = []
    for name, *_, helpful, harmful in sql.run(_ROWS).fetchall():
        up, down = book.counters(name)
        if (helpful, harmful) != (up, down):
            data = {"name": name, "helpful": up, "harmful": down}
            events.append(_restated(ev.BULLET_RECOUNTED, name, chain, data))
    return events


def _restated(type_: str, name: str, chain: str, data: Mapping[str, object]) -> NewEvent:
    return NewEvent(type_, identity(type_, RESTATED, name, chain), data, ACTOR, meta={RESTATED: True})
