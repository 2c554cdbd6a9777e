"""One session, window by window: its trigger, citations, reflections and tags.

Invariant: everything is read from the session's own events. So a session as of a moment is the
session as it was then, and other sessions do not change the answer. Only the playbook decides
whether a tag counts. `show` uses this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reflector.audit.moments import session_named
from reflector.audit.standing import Fault, Standing, Verdict
from reflector.events.event import (
    BULLET_TAGGED,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_FAILED,
    REFLECTION_SKIPPED,
    SESSION_RECORDED,
    Event,
)
from reflector.events.registry import WINDOW_TYPES
from reflector.events.sessions import rationale_of, said_wrong
from reflector.events.state import counted_verdict
from reflector.events.windows import move_window
from reflector.handover import words
from reflector.ledger.as_of import Past
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


@dataclass
class Tagged:
    """A verdict, and whether it counts under the current policy; null if it can never count.

    unquoted  whether the verdict lacks a quote, because the user's own template does not ask for
              a quote
    """

    position: int
    name: str
    tag: str
    disposition: str
    counted: bool | None
    rationale: str | None
    unquoted: bool
    fault: Fault | None = field(repr=False)


@dataclass(slots=True)
class Reflection:
    """One judge's reflection on a recorded part of a session.

    completed  the position of the event with the analysis of the judge's answer
    """

    reflection_id: str
    backend: str
    model: str | None = None
    mode: str | None = None
    answers: int = 0
    completed: int | None = None
    analysis: str | None = None
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0
    tags: list[Tagged] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Window:
    """A recorded part of a session (a window), with its reflections.

    state     pending, answered, completed, skipped, failed or given_up
    cited     the rules that the window cites
    carried   citations of an earlier window that still need a verdict
    retired   cited names of rules that were removed
    unknown   cited names that do not belong to a rule
    said_wrong  the agent's reasons why it called rules wrong, by the rule's name
    gate      the reason why the window was not judged
    failures  the errors of the judge, oldest first
    """

    position: int
    event_id: str
    session_id: str | None
    state: str = "pending"
    attempts: int = 0
    changed_at: str
    recorded_at: str
    trigger: str | None
    reason: str | None
    agent: str | None
    agent_id: str | None
    transcript: str | None
    bytes: int | None
    records: int | None
    cited: list[str]
    carried: list[str]
    retired: list[str]
    unknown: list[str]
    said_wrong: dict[str, str]
    gate: str | None = None
    failures: list[str] = field(default_factory=list)
    reflections: list[Reflection] = field(default_factory=list)
    type: str = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)


@dataclass
class SessionStory:
    """A session's windows, its events, and the cost of its answers."""

    session_id: str
    windows: list[Window]
    events: list[Event]
    tokens: int
    cost_usd: Decimal
    unpriced: int


def session_story(ledger: Ledger, session_id: str, past: Past | None = None) -> SessionStory:
    """Return the windows of a session, as of now or of a moment.

    session_id  the id or its unique beginning

    Raises:
        UnknownReference: the text does not name a session, or names several.
        LedgerError: the ledger cannot be read.
    """
    session_id = session_named(ledger, session_id)
    then = past or Past(ledger)
    events = list(ledger.events(session_id=session_id, upto=then.position))
    course = _Course(Standing(then))
    for event in events:
        course.take(event)
    reflections = course.reflections.values()
    return SessionStory(
        session_id,
        list(course.windows.values()),
        events,
        sum(reflection.tokens for reflection in reflections),
        sum((reflection.cost_usd for reflection in reflections), Decimal(0)),
        sum(reflection.unpriced for reflection in reflections),
    )


class _Course:
    """The windows and reflections of a session, built event by event."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.windows: dict[str, Window] = {}
        self.reflections: dict[str, Reflection] = {}
        self._read: dict[str, Mapping[str, Any]] = {}

    def take(self, event: Event) -> None:
        """Add an event of the session. Each event comes after the events that it is about."""
        data = dict(event.facts)
        if event.type in WINDOW_TYPES:
            self.windows[event.event_id] = _opened(event, data)
            return
        window = self.windows.get(event.target_id or "")
        checked = self.windows.get(str(data.get("checked")))
        if event.type == BULLET_TAGGED and event.reflection_id in self.reflections:
            tag = _tagged(event, data, self.standing, self._read.get(event.reflection_id, {}))
            self.reflections[event.reflection_id].tags.append(tag)
        elif checked and event.type == REFLECTION_FAILED:
            checked.failures.append(f"check: {_failure(data)}")
        elif window:
            _follow(window, event, data)
            if event.type in (REFLECTION_ANSWERED, REFLECTION_COMPLETED):
                self._reflect(window, event, data)

    def _reflect(self, window: Window, event: Event, data: dict[str, Any]) -> None:
        """Add an answer or a reading to its reflection."""
        reflection_id = event.reflection_id
        if not reflection_id:
            return
        if reflection_id not in self.reflections:
            self.reflections[reflection_id] = Reflection(reflection_id, event.actor)
            window.reflections.append(self.reflections[reflection_id])
        reflection = self.reflections[reflection_id]
        reflection.model = words(data, "model") or reflection.model
        self._read[reflection_id] = data
        if event.type == REFLECTION_COMPLETED:
            reflection.completed = event.position
            reflection.analysis = data.get("analysis")
            return
        reflection.answers += 1
        reflection.mode = words(data, "mode") or None
        spent = spent_on(event.meta)
        reflection.tokens += spent.tokens
        reflection.cost_usd += spent.cost
        reflection.unpriced += spent.unpriced


def _opened(event: Event, data: dict[str, Any]) -> Window:
    """Return a window in the state in which it is recorded."""
    # A trajectory from a file may have fields of these names with any value.
    facts = data if event.type == SESSION_RECORDED else {}
    transcript = facts.get("transcript", {})
    wrong = {name: said_wrong(facts, name) for name in _names(data, "cited")}
    return Window(
        position=event.position,
        event_id=event.event_id,
        session_id=event.session_id,
        changed_at=event.recorded_at,
        recorded_at=event.recorded_at,
        trigger=facts.get("trigger"),
        reason=facts.get("reason"),
        agent=facts.get("agent"),
        agent_id=facts.get("agent_id"),
        transcript=transcript.get("path"),
        bytes=transcript.get("bytes"),
        records=facts.get("window", {}).get("records"),
        cited=_names(data, "cited"),
        carried=_names(data, "carried"),
        retired=_names(data, "retired"),
        unknown=_names(data, "unknown"),
        said_wrong={name: reason for name, reason in wrong.items() if reason is not None},
        type=event.type,
        data=data,
    )


def _names(data: Mapping[str, Any], kind: str) -> list[str]:
    names = data.get(kind)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _follow(window: Window, event: Event, data: dict[str, Any]) -> None:
    """Move a window to the state after an event, as the fold of windows does."""
    if event.type == REFLECTION_SKIPPED:
        window.gate = str(data.get("reason") or "")
    elif event.type == REFLECTION_FAILED:
        window.failures.append(_failure(data))
    move_window(window, event)


def _failure(data: Mapping[str, Any]) -> str:
    return f"{data.get('stage')}: {data.get('message')}"


def _tagged(
    event: Event, data: Mapping[str, Any], standing: Standing, reading: Mapping[str, Any]
) -> Tagged:
    """Return a tag from its own data and the data of its reflection's reading."""
    judged = counted_verdict(data)
    fault: Fault | None = None
    if judged is not None:
        fault = standing.why_uncounted(
            Verdict(event.position, *judged, event.session_id, event.reflection_id)
        )
    return Tagged(
        event.position,
        _shown(data.get("name")),
        _shown(data.get("tag")),
        str(data.get("disposition", "malformed")),
        None if judged is None else fault is None,
        rationale_of(reading, data),
        data.get("unquoted") is True,
        fault,
    )


def _shown(value: object) -> str:
    return "" if value is None else str(value)
