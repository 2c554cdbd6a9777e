"""One session, window by window: its trigger, its citations, its reflections and their tags.

Invariant: everything is read from the session's own events, so a session as of a moment is what it
was then, and the answer does not depend on other sessions. Only whether a tag counts comes from the
playbook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reflector.audit.moments import session_named
from reflector.audit.standing import Fault, Standing, Verdict
from reflector.events import event as ev
from reflector.events.registry import WINDOW_TYPES
from reflector.events.sessions import rationale_of, said_wrong
from reflector.events.state import counted_verdict
from reflector.events.windows import move_window
from reflector.handover import words
from reflector.ledger.as_of import Past
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tag, and whether it counts under the policy in force; null where it never could. An
    `unquoted` one has no quote, since the person's own template asked for none.
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
    """What one judge said of a window; `completed` is the position of the event that read its
    answer.
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
    """A recorded window, and what became of it.

    state     pending, answered, completed, skipped, failed or given_up
    cited     the bullets that it cites; `carried` those that an earlier window left undecided
    retired   names of bullets that are gone; `unknown` names that no bullet has
    said_wrong  why the agent called bullets wrong, by name
    gate      why it was not judged
    failures  what went wrong, oldest first
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


@dataclass(frozen=True, slots=True)
class SessionStory:
    """A session's windows, its events, and what its answers cost."""

    session_id: str
    windows: list[Window]
    events: list[Event]
    tokens: int
    cost_usd: Decimal
    unpriced: int


def session_story(ledger: Ledger, session_id: str, past: Past | None = None) -> SessionStory:
    """Return all that is known of a session, by its id or the unique beginning of one; as of now or
    of a moment. Raises UnknownReference, LedgerError.
    """
    session_id = session_named(ledger, session_id)
    then = past or Past(ledger)
    events = list(ledger.events(session_id=session_id, upto=then.position))
    standing = Standing(then)
    windows: dict[str, Window] = {}
    reflections: dict[str, Reflection] = {}
    completed: dict[str, Mapping[str, Any]] = {}
    for event in events:
        data = dict(event.facts)
        if event.type in WINDOW_TYPES:
            windows[event.event_id] = _opened(event, data)
            continue
        window = windows.get(event.target_id or "")
        if event.type == ev.BULLET_TAGGED and event.reflection_id in reflections:
            rationale = rationale_of(completed.get(event.reflection_id, {}), data)
            reflections[event.reflection_id].tags.append(_tagged(event, data, standing, rationale))
        elif (
            asked := windows.get(str(data.get("checked")))
        ) and event.type == ev.REFLECTION_FAILED:
            asked.failures.append(f"check: {_failure(data)}")
        elif window is not None:
            _follow(window, event, data)
            if (
                event.type in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED)
                and event.reflection_id
            ):
                if event.reflection_id not in reflections:
                    reflections[event.reflection_id] = Reflection(event.reflection_id, event.actor)
                    window.reflections.append(reflections[event.reflection_id])
                _judged(reflections[event.reflection_id], event, data)
                completed[event.reflection_id] = data
    given = reflections.values()
    cost = sum((one.cost_usd for one in given), Decimal(0))
    tokens, unpriced = sum(one.tokens for one in given), sum(one.unpriced for one in given)
    return SessionStory(session_id, list(windows.values()), events, tokens, cost, unpriced)


def _opened(event: Event, data: dict[str, Any]) -> Window:
    # A trajectory of a file may have any field of these names.
    read = data if event.type == ev.SESSION_RECORDED else {}
    transcript = read.get("transcript", {})
    found: dict[str, Any] = {
        key: read.get(key) for key in ("trigger", "reason", "agent", "agent_id")
    }
    for kind in ("cited", "carried", "retired", "unknown"):
        names = data.get(kind)
        found[kind] = (
            [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        )
    found["said_wrong"] = {
        name: why for name in found["cited"] if (why := said_wrong(read, name)) is not None
    }
    return Window(
        position=event.position,
        event_id=event.event_id,
        session_id=event.session_id,
        changed_at=event.recorded_at,
        recorded_at=event.recorded_at,
        transcript=transcript.get("path"),
        bytes=transcript.get("bytes"),
        records=read.get("window", {}).get("records"),
        type=event.type,
        data=data,
        **found,
    )


def _follow(window: Window, event: Event, data: dict[str, Any]) -> None:
    """How far an event brings a window; the same steps as the table of windows takes."""
    if event.type == ev.REFLECTION_SKIPPED:
        window.gate = str(data.get("reason") or "")
    elif event.type == ev.REFLECTION_FAILED:
        window.failures.append(_failure(data))
    move_window(window, event)


def _failure(data: Mapping[str, Any]) -> str:
    return f"{data.get('stage')}: {data.get('message')}"


def _judged(reflection: Reflection, event: Event, data: dict[str, Any]) -> None:
    reflection.model = words(data, "model") or reflection.model
    if event.type == ev.REFLECTION_ANSWERED:
        reflection.answers += 1
        reflection.mode = words(data, "mode") or None
        spent = spent_on(event.meta, reflection.model or "")
        reflection.tokens += spent.tokens
        reflection.cost_usd += spent.cost
        reflection.unpriced += spent.unpriced
    else:
        reflection.completed = event.position
        reflection.analysis = data.get("analysis")


def _tagged(
    event: Event, data: Mapping[str, Any], standing: Standing, rationale: str | None
) -> Tagged:
    name, tag = (str(data[key]) if data.get(key) is not None else "" for key in ("name", "tag"))
    judged, fault = counted_verdict(data), None
    if judged is not None:
        fault = standing.stands(
            Verdict(event.position, *judged, event.session_id, event.reflection_id)
        )
    disposition = str(data.get("disposition", "malformed"))
    counted = None if judged is None else fault is None
    is_unquoted = data.get("unquoted") is True
    return Tagged(event.position, name, tag, disposition, counted, rationale, is_unquoted, fault)
