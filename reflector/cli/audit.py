"""Questions about what happened: log, blame, session."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import note, print_json, safe, short_id, short_time, table

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


@click.command()
@click.option("-n", "--last", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the newest.")
@click.option("--all", "everything", is_flag=True, help="From the first event on.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; repeatable.")
@click.option("--session", "session_id", help="Only events of this session, by its id or the beginning of one.")
@click.option("--event", "event_id", help="Only the event of this id.")
@click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
@click.pass_obj
def log(
    place: Place,
    last: int,
    everything: bool,
    types: tuple[str, ...],
    session_id: str | None,
    event_id: str | None,
    as_json: bool,
) -> None:
    """List what happened, event by event."""
    from collections import deque

    from reflector.audit import history
    from reflector.ledger.event import TYPES

    for name in types:
        if name not in TYPES:
            raise click.UsageError(f"{name!r} is not an event type; the types are {', '.join(sorted(TYPES))}")
    with place.reading() as ledger:
        if session_id is not None:
            session_id = session_named(ledger, session_id)
        if event_id is not None:
            found = ledger.event(event_id) if event_id.isascii() else None
            events = [found] if found else []
        elif types or session_id or everything:
            stream = ledger.events(types=types or None, session_id=session_id)
            events = list(stream) if everything else list(deque(stream, maxlen=last))
        else:
            events = list(history.last_events(ledger, last))
    if as_json:
        print_json([history.as_json(event) for event in events])
        return
    rows = [
        (e.position, short_time(e.recorded_at), e.type, e.actor, short_id(e.session_id), history.summary(e))
        for e in events
    ]
    if not rows:
        note("No such events.")
        return
    table(("position", "recorded", "event", "actor", "session", "what"), rows, numbers=("position",))


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
@click.pass_obj
def blame(place: Place, name: str, as_json: bool) -> None:
    """Explain each count of a bullet: session, verdict, reason, totals."""
    from reflector.audit.blame import blame as steps_of
    from reflector.cli.playbook import find_bullet

    with place.reading() as ledger:
        row = find_bullet(ledger, name)
        steps = steps_of(ledger, name)
    if as_json:
        print_json([asdict(step) for step in steps])
        return
    click.echo(safe(row.bullet.line))
    if not steps:
        note("Nobody has judged it yet.")
        return
    click.echo()
    shown = [
        (
            step.position,
            short_time(step.recorded_at),
            short_id(step.session_id),
            step.tag or step.disposition,
            _total(step.helpful, step.harmful),
            " ".join(filter(None, (_uncounted(step.counted, step.disposition), step.model, step.rationale))),
        )
        for step in steps
    ]
    table(
        ("position", "recorded", "session", "verdict", "total", "why"), shown, numbers=("position", "total"), whole=True
    )


def _total(helpful: int, harmful: int) -> str:
    return f"{helpful}/{harmful}"


def _uncounted(counted: bool, disposition: str) -> str:
    return "" if counted or disposition == "neutral" else f"[not counted: {disposition.replace('_', ' ')}]"


@click.command()
@click.argument("session_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
@click.pass_obj
def session(place: Place, session_id: str, as_json: bool) -> None:
    """Tell all that is known of one session.

    ID is the session's id or the beginning of one, as `reflector log` shows it.
    """
    from reflector.audit import history

    with place.reading() as ledger:
        story = history.session_story(ledger, session_named(ledger, session_id))
    if as_json:
        print_json(
            {
                "session_id": story.session_id,
                "windows": [asdict(window) for window in story.windows],
                "events": [history.as_json(event) for event in story.events],
            }
        )
        return
    click.echo(f"session {safe(story.session_id)}")
    states = [f"{window.state} (position {window.position})" for window in story.windows]
    click.echo(f"{len(states)} window{'s' if len(states) != 1 else ''}: {', '.join(states)}\n")
    rows = [(e.position, short_time(e.recorded_at), e.type, e.actor, history.summary(e)) for e in story.events]
    table(("position", "recorded", "event", "actor", "what"), rows, numbers=("position",))


def session_named(ledger: Ledger, session_id: str) -> str:
    """The whole id of a session; a usage error where it is none or the beginning of several."""
    from reflector.audit import history

    try:
        return history.session_named(ledger, session_id)
    except history.UnknownSession as error:
        found = f"; it could be {', '.join(error.candidates[:5])}" if error.candidates else ""
        raise click.UsageError(f"no session {session_id!r} is recorded{found}. See 'reflector log'.") from error
