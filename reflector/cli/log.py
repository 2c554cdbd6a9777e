"""`reflector log`: what happened, chosen and followed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, EVENT_TYPE, SESSION
from reflector.cli.audit import session_named
from reflector.cli.output import (
    json_option,
    note,
    print_json,
    print_json_lines,
    safe,
    short_id,
    short_time,
    table,
    terminal,
)

if TYPE_CHECKING:
    from reflector.audit.log import Filter
    from reflector.events.event import Event
    from reflector.ledger.store import Ledger

#: Seconds between two looks at a ledger that is followed.
_PAUSE = 0.5


@click.command()
@click.option(
    "-n", "--last", "--limit", "last", type=click.IntRange(min=1), default=50, show_default=True,
    help="How many events, newest last.",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="All events, not only the newest.")
@click.option(
    "--type", "types", multiple=True, type=EVENT_TYPE, metavar="TYPE", help="Only events of this type; repeatable."
)
@click.option(
    "--session", "session_id", type=SESSION, metavar="ID", help="Only events of this session: an id or its beginning."
)
@click.option("--bullet", type=BULLET, metavar="NAME", help="Only events that add, change, cite or tag this bullet.")
@click.option("--backend", help="Only events by this judge, or about a window that it was to judge.")
@click.option("--model", help="Only events of reflections by this model, or by one whose name begins with this.")
@click.option("--actor", help="Only events by this actor: human, ingest, import, a judge, or hook for every hook.")
@click.option("--since", metavar="MOMENT", help="Only events from this moment on: a time, a position, a session's id.")
@click.option("--until", metavar="MOMENT", help="Only events up to the end of this moment.")
@moments.as_of
@click.option("--event", "event_id", metavar="ID", help="Only the event of this id.")
@click.option(
    "--follow", is_flag=True, help="Print new events as they come, until Ctrl-C; with --json, one event per line."
)
@click.option("--undo", "undo", is_flag=True, help="Show beside each change the command that undoes it.")
@json_option
@click.pass_obj
def log(
    place: Place,
    last: int,
    everything: bool,
    types: tuple[str, ...],
    session_id: str | None,
    bullet: str | None,
    backend: str | None,
    model: str | None,
    actor: str | None,
    since: str | None,
    until: str | None,
    moment: str | None,
    event_id: str | None,
    follow: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """List what happened, event by event.

    An event is listed if it meets all conditions.
    """
    from reflector.audit.log import Filter, select, summary
    from reflector.audit.log import as_json as event_json
    from reflector.audit.moments import position_before, position_of
    from reflector.events.registry import EVENT_TYPES

    for name in types:
        if name not in EVENT_TYPES:
            raise click.UsageError(f"{name!r} is not an event type; the types are {', '.join(sorted(EVENT_TYPES))}")
    if follow and (until or moment or event_id):
        raise click.UsageError("--follow waits for new events; leave out --until, --as-of and --event")
    if follow and undo:
        raise click.UsageError("--undo shows what can be undone now; leave out --follow")
    if follow and not place.project().has_ledger():
        raise click.UsageError("there is no ledger to follow yet; it begins with the first `reflector ingest` or hook")
    with place.reading() as ledger:
        if session_id is not None:
            session_id = session_named(ledger, session_id)
        ends = [position_of(ledger, text) for text in (until, moment) if text is not None]
        after = position_before(ledger, since) if since is not None else 0
        head = ledger.head().position
        chosen = Filter(types, session_id, bullet, backend, model, actor, after, min([head, *ends]))
        if event_id is not None:
            found = ledger.event(event_id) if event_id.isascii() else None
            events = [found] if found else []
        else:
            events = select(ledger, chosen, None if everything else last)
        if follow:
            _follow(ledger, chosen, events, head, as_json=as_json)
            return
        undoing: dict[str, str | None] = {}
        if undo:
            from reflector.curation.undoing import undo_of, undone

            gone = undone(ledger)
            undoing = {e.event_id: undo_of(e, gone, place.command("undo")) for e in events}
    if as_json:
        print_json([{**event_json(e), **({"undo": undoing[e.event_id]} if undo else {})} for e in events])
        return
    if undo:
        changes = [(e.position, e.type, undoing[e.event_id], summary(e)) for e in events]
        table(("position", "event", "undo", "what"), changes, numbers=("position",), empty="No such events.")
        return
    rows = [
        (e.position, short_time(e.recorded_at), e.type, e.actor, short_id(e.session_id), summary(e)) for e in events
    ]
    columns = ("position", "recorded", "event", "actor", "session", "what")
    table(columns, rows, numbers=("position",), extra=("actor", "recorded"), empty="No such events.")
    if rows and sys.stdout.isatty():
        note("`reflector undo POSITION` undoes a change; `log --undo` shows which.")


def _follow(ledger: Ledger, chosen: Filter, events: list[Event], head: int, *, as_json: bool) -> None:
    """Print events as they come; what a hook's drain appends is seen at the next look."""
    from reflector.audit.log import select

    try:
        while True:
            _print(events, as_json=as_json)
            events = []
            time.sleep(_PAUSE)
            before, head = head, ledger.head().position
            if head > before:
                events = select(ledger, chosen.between(max(before, chosen.after), head))
    except KeyboardInterrupt:
        # Nothing was begun that could be left half done, so there is nothing to say.
        raise click.exceptions.Exit(130) from None


def _print(events: list[Event], *, as_json: bool) -> None:
    from reflector.audit.log import as_json as event_json
    from reflector.audit.log import summary

    if as_json:
        print_json_lines(event_json(event) for event in events)
    else:
        room = terminal().columns if sys.stdout.isatty() else None
        for e in events:
            start = f"{e.position:>8}  {short_time(e.recorded_at)}  {e.type:<20}  {e.actor:<16}"
            line = safe(f"{start}  {short_id(e.session_id):<8}  {summary(e)}".replace("\n", " "))
            click.echo(line[:room])
    sys.stdout.flush()
