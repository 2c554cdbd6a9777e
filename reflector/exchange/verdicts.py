"""Which verdicts count after a merge if two machines judged the same citations.

If several judges judged one window, one reflection counts. The choice depends only on the
reflections, so every machine retracts the same ones. Such a retraction is an event like a user's. A
user's verdict is never replaced by a judge's, and replaces all verdicts of judges on that citation.
A check is not a second judgement of its window, so its verdicts are kept. Verdicts that a check
counts once for a session are dropped if the session's vote is already counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, came_through, first_moment, identity
from reflector.events.renamings import Renamings
from reflector.ledger.reader import events_where, of_types, whose
from reflector.ledger.statements import Statements

#: The actor of the events that a merge appends.
ACTOR = "merge"

_NOT_RETRACTED = (
    "NOT EXISTS (SELECT 1 FROM retraction"
    " WHERE retraction.playbook_id = event.playbook_id AND retraction.target_id = event.event_id)"
)
_CHECKS = (
    "SELECT reflection_id FROM event WHERE playbook_id = ?"  # noqa: S608
    f" AND (type = '{ev.BULLET_CHECKED}' OR (type = '{ev.REFLECTION_COMPLETED}' AND data LIKE ?))"
)
_IS_CHECK = '%"mode":"checked"%'
_COLUMNS = "event.session_id, tag.name, event.actor, event.event_id, event.reflection_id"
_COUNTED = (
    f"SELECT {_COLUMNS} FROM tag JOIN event"  # noqa: S608
    " ON event.playbook_id = tag.playbook_id AND event.position = tag.position"
    " WHERE tag.playbook_id = ?"
    f" AND tag.active = 1 AND tag.tag IN (1, -1) AND {_NOT_RETRACTED}"
)
#: A user's verdicts are separate reflections, which replace others one citation at a time.
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
_RETRACTIONS = "SELECT target_id, active FROM retraction WHERE playbook_id = ? AND target_id IN ?"
#: Whether the retraction of an event is active, by the id of each event that was ever retracted.
_Retractions = Mapping[str, int]


class _Citation(NamedTuple):
    """A bullet that an agent cited in a session; agent_id is None for the session's main agent."""

    session_id: str | None
    agent_id: str | None
    name: str


class _CountedTag(NamedTuple):
    """A tag that counts for a session and a bullet; tags of checks sort last."""

    is_check: bool
    actor: str
    event_id: str


def judged_twice(sql: Statements, origin: str) -> list[NewEvent]:
    """Return retractions of the judges' reflections on a window, except the one that counts.

    The reflection by the judge whose name sorts first counts. If that judge has several, the one
    that was recorded first counts. Reflections that were ever retracted stay, because a user
    decided on them. A user's own verdicts stay too.
    """
    windows: dict[str, list[Event]] = {}
    checks = _checks(sql)
    for reflection in events_where(sql, _COMPLETED_BY_JUDGES):
        if reflection.reflection_id not in checks:
            windows.setdefault(reflection.target_id or "", []).append(reflection)

    def precedence(reflection: Event) -> tuple[str, str, tuple[str, int]]:
        return (reflection.actor, _recorded_at(reflection), _birth(reflection, origin))

    retractions = []
    for reflections in windows.values():
        counting, *others = sorted(reflections, key=precedence)
        reason = f"the verdict of {counting.actor} on the same part of the session counts instead"
        retractions += [_retraction(other.event_id, other.session_id, reason) for other in others]
    return retractions


def overruled_verdicts(sql: Statements, origin: str) -> list[NewEvent]:
    """Return retractions of the verdicts that a user's verdict replaces, if neither ledger had the
    events of the other.

    A user's verdict removes the judges' verdicts on the bullet in that session from the count. A
    user's later verdict also removes the earlier ones. If the user's verdict is retracted, the
    others count again.
    """
    by_hand = events_where(sql, _COMPLETED_BY_HAND)
    sessions = {completion.session_id for completion in by_hand} - {None}
    events = events_where(sql, _OF_SESSIONS, sessions) if by_hand else []
    if not events:
        return []
    event_ids = [event.event_id for event in events]
    retracted: _Retractions = dict(sql.run(_RETRACTIONS, event_ids).fetchall())
    retractions = []
    for tags in _unretracted_tags(events, retracted).values():
        by_person = [tag for tag in tags if tag.actor == ev.HUMAN]
        if not by_person:
            continue
        last_verdict = max(by_person, key=lambda tag: (_recorded_at(tag), _birth(tag, origin)))
        reason = f"your verdict is: {last_verdict.facts.get('tag')}"
        for tag in tags:
            is_verdict = tag.actor == ev.HUMAN or tag.facts.get("tag") != "neutral"
            # A judge's verdict that a user restored stays.
            was_retracted = tag.event_id in retracted
            if is_verdict and tag is not last_verdict and not was_retracted:
                retractions.append(
                    _retraction(tag.event_id, tag.session_id, reason, last_verdict.reflection_id)
                )
    return retractions


def _unretracted_tags(
    events: Iterable[Event], retracted: _Retractions
) -> dict[_Citation, list[Event]]:
    """Return the tags of each citation that count: neither the tag, its reflection nor its window
    is retracted.
    """
    agents: dict[str, str | None] = {}
    completions: dict[str | None, Event] = {}
    tags: list[Event] = []
    for event in events:
        if event.type == ev.SESSION_RECORDED:
            agents[event.event_id] = event.facts.get("agent_id")
        elif event.type == ev.REFLECTION_COMPLETED:
            completions[event.reflection_id] = event
        elif event.facts.get("disposition") in ("counted", "neutral"):
            tags.append(event)
    citations: dict[_Citation, list[Event]] = {}
    for tag in tags:
        completion = completions.get(tag.reflection_id)
        if completion is None:
            continue
        window_id = completion.target_id or ""
        if any(retracted.get(id_) for id_ in (tag.event_id, completion.event_id, window_id)):
            continue
        name = str(tag.facts.get("name"))
        citation = _Citation(tag.session_id, agents.get(window_id), name)
        citations.setdefault(citation, []).append(tag)
    return citations


def counted_twice(sql: Statements) -> list[NewEvent]:
    """Return retractions of verdicts of checks for a session and a bullet that have another verdict
    that counts. If there are only verdicts of checks, one of them stays.
    """
    checks = _checks(sql)
    if not checks:
        return []
    counted: dict[tuple[str | None, str], list[_CountedTag]] = {}
    for session_id, name, actor, event_id, reflection_id in sql.run(_COUNTED).fetchall():
        tag = _CountedTag(reflection_id in checks, actor, event_id)
        counted.setdefault((session_id, name), []).append(tag)
    reason = "the session counts once for the rule"
    retractions = []
    for (session_id, _), tags in counted.items():
        retractions += [
            _retraction(tag.event_id, session_id, reason)
            for tag in sorted(tags)[1:]
            if tag.is_check
        ]
    return retractions


def verdicts_of(
    sql: Statements, renamings: Renamings, event_ids: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return the bullet, under its present name, and the verdict of each tag, by the tag's id here.

    renamings  git's renamings here
    """
    verdicts: dict[str, tuple[str, str]] = {}
    for tag in events_where(sql, "event_id IN ?", event_ids):
        name = renamings.later_name(str(tag.facts.get("name")), tag.position, tag.meta)
        verdicts[tag.event_id] = (name, str(tag.facts.get("tag")))
    return verdicts


def _birth(event: Event, origin: str) -> tuple[str, int]:
    """Return the ledger and the position at which an event was first appended. Both are the same on
    every machine.
    """
    return first_moment(event.meta, ("", origin, event.position))[1:]


def _recorded_at(event: Event) -> str:
    """Return the time of an event in the ledger that first appended it."""
    times = [event.recorded_at, *(str(place["recorded_at"]) for place in came_through(event.meta))]
    return times[-1]


def _checks(sql: Statements) -> set[str]:
    """Return the reflections of checks."""
    return {row[0] for row in sql.run(_CHECKS, _IS_CHECK).fetchall()}


def _retraction(
    event_id: str, session_id: str | None, reason: str, reflection_id: str | None = None
) -> NewEvent:
    ids: Any = {"session_id": session_id, "reflection_id": reflection_id, "target_id": event_id}
    retraction = ev.EVIDENCE_RETRACTED
    return NewEvent(retraction, identity(retraction, event_id), {"reason": reason}, ACTOR, **ids)
