"""One session as a document for machines and as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from reflector.audit.log import as_json, summary
from reflector.audit.session import Reflection, SessionStory, Window
from reflector.cli.output import counted, fields, print_facts, safe, short_time, spent_fields, table
from reflector.events import event as ev
from reflector.prices import Spent
from reflector.quality.signals import rounded
from reflector.quality.window import WindowQuality

#: The quality of each window by its event's id, or why it is not known.
Qualities = Mapping[str, WindowQuality | str]


def document(story: SessionStory, qualities: Qualities) -> dict[str, Any]:
    """Return the session as docs/json.md says."""
    return {
        "session_id": story.session_id,
        "windows": [_window(window, qualities[window.event_id]) for window in story.windows],
        "events": [as_json(event) for event in story.events],
        **spent_fields(story.spent),
    }


def _window(window: Window, quality: WindowQuality | str) -> dict[str, Any]:
    # A trajectory of a file may have any field of these names.
    read = window.data if window.type == ev.SESSION_RECORDED else {}
    transcript, taken = read.get("transcript", {}), read.get("window", {})
    return {
        **fields(window, "position event_id session_id state attempts changed_at recorded_at"),
        **{key: read.get(key) for key in ("trigger", "reason", "agent", "agent_id")},
        "transcript": transcript.get("path"),
        "bytes": transcript.get("bytes"),
        "records": taken.get("records"),
        **{kind: window.names(kind) for kind in ("cited", "carried", "retired", "unknown")},
        "quality": None if isinstance(quality, str) else _quality(quality),
        "gate": window.gate,
        "failures": window.failures,
        "reflections": [_reflection(reflection) for reflection in window.reflections],
    }


def _quality(quality: WindowQuality) -> dict[str, Any]:
    signals = quality.signals
    return {
        "score": signals.score(),
        "tool_calls": quality.calls,
        "tool_errors": quality.errors,
        "tool_skipped": quality.skipped,
        "tool_error_rate": rounded(signals.tool_error_rate),
        "iterations": quality.rounds,
        "truncated": signals.was_truncated,
        "failure_patterns": signals.has_failure_patterns,
        "empty": signals.is_empty_response,
    }


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


def _reflection(reflection: Reflection) -> dict[str, Any]:
    return {
        **fields(reflection, "reflection_id backend model mode answers completed analysis"),
        **spent_fields(reflection.spent),
        "tags": [fields(tag, "position name tag disposition counted rationale") for tag in reflection.tags],
    }


def show(story: SessionStory, qualities: Qualities) -> None:
    """Print the session for a person."""
    click.echo(f"session {safe(story.session_id)}")
    states = [f"{window.state} (position {window.position})" for window in story.windows]
    click.echo(f"{counted(len(states), 'window')}: {', '.join(states)}")
    if story.spent.tokens:
        click.echo(f"{story.spent.tokens:,} tokens, {cost(story.spent)}")
    for window in story.windows:
        click.echo()
        _show_window(window, qualities[window.event_id])
    click.echo()
    rows = [(e.position, short_time(e.recorded_at), e.type, e.actor, summary(e)) for e in story.events]
    table(("position", "recorded", "event", "actor", "what"), rows, numbers=("position",), extra=("actor", "recorded"))


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
        spent = f", {reflection.spent.tokens:,} tokens, {cost(reflection.spent)}" if reflection.spent.tokens else ""
        found.append(("judged by", f"{by}{spent}"))
        found.append(("analysis", reflection.analysis or ""))
        for tag in reflection.tags:
            counts = "" if tag.counted else f" [not counted: {tag.fault or tag.disposition}]"
            found.append(("tag", f"{tag.name} {tag.tag}{counts} {tag.rationale or ''}"))
    print_facts(((name, " ".join(text.split())) for name, text in found if text), 11, 2)


def cost(spent: Spent) -> str:
    """Return what answers cost, as far as their models have a known price."""
    unknown = f", {spent.unpriced} without a known price" if spent.unpriced else ""
    return f"{spent.cost:.4f} USD{unknown}"
