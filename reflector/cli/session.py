"""What is known of one session, for machines and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from reflector.audit.log import summary
from reflector.cli.output import EventJson, counted, print_facts, print_json, safe, shaped, short_time, table
from reflector.events import event as ev
from reflector.quality.signals import rounded

if TYPE_CHECKING:
    from reflector.audit.session import Window
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger
    from reflector.prices import Spent
    from reflector.quality.signals import WindowQuality

    #: The quality of each window by its event's id, or why it is not known.
    Qualities = Mapping[str, WindowQuality | str]


@dataclass(frozen=True, slots=True)
class TagJson:
    """A tag, and whether it counts; null where it never could."""

    position: int
    name: str
    tag: str
    disposition: str
    counted: bool | None
    rationale: str | None


@dataclass(frozen=True, slots=True)
class ReflectionJson:
    """What one judge said of a window; `completed` is the position of the event that read its answer."""

    reflection_id: str
    backend: str
    model: str | None
    mode: str | None
    answers: int
    completed: int | None
    analysis: str | None
    tokens: int
    cost_usd: str
    unpriced: int
    tags: list[TagJson]


@dataclass(frozen=True, slots=True)
class QualityJson:
    """How good the work of a window was."""

    score: float
    tool_calls: int
    tool_errors: int
    tool_skipped: int
    tool_error_rate: float
    iterations: int
    truncated: bool
    failure_patterns: bool
    empty: bool


@dataclass(frozen=True, slots=True)
class WindowJson:
    """A recorded window, and what became of it.

    state     pending, answered, completed, skipped, failed or given_up
    cited     the bullets that it cites; `carried` those that an earlier window left undecided
    retired   names of bullets that are gone; `unknown` names that no bullet has
    quality   null where the transcript cannot be read
    gate      why it was not judged
    failures  what went wrong, oldest first
    """

    position: int
    event_id: str
    session_id: str | None
    state: str
    attempts: int
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
    quality: QualityJson | None
    gate: str | None
    failures: list[str]
    reflections: list[ReflectionJson]


@dataclass(frozen=True, slots=True)
class SessionJson:
    """A session's windows, its events, and what its answers cost."""

    session_id: str
    windows: list[WindowJson]
    events: list[EventJson]
    tokens: int
    cost_usd: str
    unpriced: int


def show_session(ledger: Ledger, session_id: str, then: Past | None, *, as_json: bool) -> None:
    """Print all that is known of a session, as of now or of a moment."""
    from reflector.audit.session import session_story
    from reflector.reflection.window import quality_of

    story = session_story(ledger, session_id, then)
    qualities = {window.event_id: quality_of(ledger.event(window.event_id)) for window in story.windows}
    spent = story.spent
    if as_json:
        windows = [_window(window, qualities[window.event_id]) for window in story.windows]
        events = [EventJson.of(event) for event in story.events]
        print_json(SessionJson(story.session_id, windows, events, **_spent(spent)))
        return
    click.echo(f"session {safe(story.session_id)}")
    states = [f"{window.state} (position {window.position})" for window in story.windows]
    click.echo(f"{counted(len(states), 'window')}: {', '.join(states)}")
    if spent.tokens:
        click.echo(f"{spent.tokens:,} tokens, {_cost(spent)}")
    for window in story.windows:
        click.echo()
        _show_window(window, qualities[window.event_id])
    click.echo()
    rows = [(e.position, short_time(e.occurred_at), e.type, e.actor, summary(e)) for e in story.events]
    table(("position", "when", "event", "actor", "what"), rows, numbers=("position",), extra=("actor", "when"))


def _spent(spent: Spent) -> dict[str, Any]:
    return {"tokens": spent.tokens, "cost_usd": str(spent.cost), "unpriced": spent.unpriced}


def _window(one: Window, quality: WindowQuality | str) -> WindowJson:
    # A trajectory of a file may have any field of these names.
    read = one.data if one.type == ev.SESSION_RECORDED else {}
    transcript = read.get("transcript", {})
    found: dict[str, Any] = {key: read.get(key) for key in ("trigger", "reason", "agent", "agent_id")}
    found |= {kind: one.names(kind) for kind in ("cited", "carried", "retired", "unknown")}
    return shaped(
        WindowJson,
        one,
        **found,
        transcript=transcript.get("path"),
        bytes=transcript.get("bytes"),
        records=read.get("window", {}).get("records"),
        quality=None if isinstance(quality, str) else _quality(quality),
        reflections=[
            shaped(ReflectionJson, each, tags=[shaped(TagJson, tag) for tag in each.tags], **_spent(each.spent))
            for each in one.reflections
        ],
    )


def _quality(quality: WindowQuality) -> QualityJson:
    signals = quality.signals
    return QualityJson(
        score=signals.score(),
        tool_calls=quality.calls,
        tool_errors=quality.errors,
        tool_skipped=quality.skipped,
        tool_error_rate=rounded(signals.tool_error_rate),
        iterations=quality.rounds,
        truncated=signals.was_truncated,
        failure_patterns=signals.has_failure_patterns,
        empty=signals.is_empty_response,
    )


def _quality_words(quality: WindowQuality | str) -> str:
    if isinstance(quality, str):
        return f"unknown: {quality}"
    signals = quality.signals
    found = {
        f"{quality.errors} of {quality.calls} tool calls failed": quality.errors,
        "cut off": signals.was_truncated,
        "failure patterns": signals.has_failure_patterns,
        "no answer": signals.is_empty_response,
    }
    rounds = f"{quality.rounds} round{'s' if quality.rounds != 1 else ''}"
    return f"{signals.score():.2f}; {'; '.join([rounds, *(words for words, is_so in found.items() if is_so)])}"


def _show_window(window: Window, quality: WindowQuality | str) -> None:
    data = window.data
    is_trajectory = window.type == ev.TRAJECTORY_RECORDED
    why = f" ({data['reason']})" if data.get("reason") else ""
    how = "a trajectory" if is_trajectory else f"by {data.get('trigger')}{why}"
    click.echo(safe(f"window {window.position}, {short_time(window.recorded_at)}, {how}"))
    if is_trajectory:
        told = (data.get("dataset"), data.get("status"), counted(len(data.get("steps", ())), "step"))
        found = [("trajectory", ", ".join(filter(None, told)))]
    else:
        taken, transcript = data.get("window", {}), data.get("transcript", {})
        found = [("read", f"{taken.get('records')} records of {transcript.get('path')}")]
    found += [(kind, ", ".join(window.names(kind))) for kind in ("cited", "carried", "retired", "unknown")]
    found += [("quality", _quality_words(quality))]
    found += [("not judged", window.gate or "")] if window.gate is not None else []
    found += [("failed", failure) for failure in window.failures]
    for reflection in window.reflections:
        by = " ".join(filter(None, (reflection.backend, reflection.model)))
        spent = f", {reflection.spent.tokens:,} tokens, {_cost(reflection.spent)}" if reflection.spent.tokens else ""
        found.append(("judged by", f"{by}{spent}"))
        found.append(("analysis", reflection.analysis or ""))
        for tag in reflection.tags:
            counts = "" if tag.counted else f" [not counted: {tag.fault or tag.disposition}]"
            found.append(("tag", f"{tag.name} {tag.tag}{counts} {tag.rationale or ''}"))
    print_facts(((name, " ".join(text.split())) for name, text in found if text), 11, 2)


def _cost(spent: Spent) -> str:
    unknown = f", {spent.unpriced} without a known price" if spent.unpriced else ""
    return f"{spent.cost:.4f} USD{unknown}"
