"""One session, window by window: its trigger, its citations, its reflections and their tags.

Invariant: everything is read from the session's own events, so a session as of a moment is what it was then,
and the answer does not depend on other sessions. Only whether a tag counts comes from the playbook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reflector.audit.standing import Fault, Standing, Verdict
from reflector.audit.targets import session_named
from reflector.events import event as ev
from reflector.events.registry import WINDOW_TYPES, window_step
from reflector.events.sessions import rationale_of
from reflector.events.state import verdict
from reflector.handover import words
from reflector.ledger.as_of import Past
from reflector.prices import Spent, spent_on

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tag that was given, and why.

    counted  whether it is in the count, under the policy in force; None where it never could be
    fault    why one that could is not
    """

    position: int
    name: str
    tag: str
    disposition: str
    rationale: str | None
    counted: bool | None = None
    fault: Fault | None = None


@dataclass(slots=True)
class Reflection:
    """What one judge said of a window; `completed` is None until its answer is read."""

    reflection_id: str
    backend: str
    model: str | None = None
    mode: str | None = None
    answers: int = 0
    completed: int | None = None
    analysis: str | None = None
    spent: Spent = field(default_factory=Spent)
    tags: list[Tagged] = field(default_factory=list)


@dataclass(slots=True)
class Window:
    """A recorded window, and what became of it.

    state     pending, answered, completed, skipped, failed or given_up
    gate      why it was not judged, None where nothing kept it from that
    failures  what went wrong, oldest first
    """

    position: int
    event_id: str
    type: str
    session_id: str | None
    recorded_at: str
    changed_at: str
    data: Mapping[str, Any]
    state: str = "pending"
    attempts: int = 0
    gate: str | None = None
    failures: list[str] = field(default_factory=list)
    reflections: list[Reflection] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """Names of bullets: `cited`, `carried`, `retired`, `unknown`."""
        found = self.data.get(kind)
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class SessionStory:
    """A session's windows, and its events in order."""

    session_id: str
    windows: list[Window]
    events: list[Event]

    @property
    def spent(self) -> Spent:
        """What all its answers took."""
        return sum((r.spent for window in self.windows for r in window.reflections), Spent())


def session_story(ledger: Ledger, session_id: str, past: Past | None = None) -> SessionStory:
    """Return all that is known of a session, by its id or the unique beginning of one; as of now or of a moment.

    Raises UnknownSession, LedgerError.
    """
    session_id = session_named(ledger, session_id)
    then = past or Past(ledger)
    events = list(ledger.events(session_id=session_id, upto=then.position))
    standing = Standing(then)
    windows: dict[str, Window] = {}
    reflections: dict[str, Reflection] = {}
    completed: dict[str, Mapping[str, Any]] = {}
    for event in events:
        data = dict(event.data or {})
        if event.type in WINDOW_TYPES:
            at = event.recorded_at
            windows[event.event_id] = Window(event.position, event.event_id, event.type, event.session_id, at, at, data)
            continue
        window = windows.get(event.target_id or "")
        if event.type == ev.BULLET_TAGGED and event.reflection_id in reflections:
            rationale = rationale_of(completed.get(event.reflection_id, {}), data)
            reflections[event.reflection_id].tags.append(_tagged(event, data, standing, rationale))
        elif window is not None:
            _follow(window, event, data)
            if event.type in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED) and event.reflection_id:
                if event.reflection_id not in reflections:
                    reflections[event.reflection_id] = Reflection(event.reflection_id, event.actor)
                    window.reflections.append(reflections[event.reflection_id])
                _judged(reflections[event.reflection_id], event, data)
                completed[event.reflection_id] = data
    return SessionStory(session_id, list(windows.values()), events)


def _follow(window: Window, event: Event, data: dict[str, Any]) -> None:
    """How far an event brings a window; the same steps as the table of windows takes."""
    step = window_step(event.type, data)
    if event.type == ev.REFLECTION_SKIPPED:
        window.gate = str(data.get("reason") or "")
    elif event.type == ev.REFLECTION_FAILED:
        window.failures.append(f"{data.get('stage')}: {data.get('message')}")
    if step is not None and window.state != "completed":
        window.state, window.changed_at = step[0], event.recorded_at
        window.attempts += step[1]


def _judged(reflection: Reflection, event: Event, data: dict[str, Any]) -> None:
    reflection.model = words(data, "model") or reflection.model
    if event.type == ev.REFLECTION_ANSWERED:
        reflection.answers += 1
        reflection.mode = words(data, "mode") or None
        reflection.spent += spent_on(event.meta, reflection.model or "", asked=False)
    else:
        reflection.completed = event.position
        reflection.analysis = data.get("analysis")


def _tagged(event: Event, data: Mapping[str, Any], standing: Standing, rationale: str | None) -> Tagged:
    name, tag = (str(data[key]) if data.get(key) is not None else "" for key in ("name", "tag"))
    found = Tagged(event.position, name, tag, str(data.get("disposition", "malformed")), rationale)
    if (judged := verdict(data)) is None:
        return found
    fault = standing.stands(Verdict(event.position, *judged, event.session_id, event.reflection_id))
    return replace(found, counted=fault is None, fault=fault)
