"""Questions about one thing: blame of a bullet, all of a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, SESSION
from reflector.cli.output import json_option, print_json, safe, short_id, short_time, table

if TYPE_CHECKING:
    from reflector.audit.blame import Step
    from reflector.ledger.store import Ledger


@click.command()
@click.argument("name", type=BULLET)
@moments.as_of
@json_option
@click.pass_obj
def blame(place: Place, name: str, moment: str | None, as_json: bool) -> None:
    """Explain each count of a bullet: session, verdict, reason, totals.

    Tags that no longer count are shown with the reason: a retraction, a recount, or the tag that counts instead under
    the policy in force. Of a merged bullet, the steps of its sources are shown too. The id of a lesson, or its
    beginning, shows that lesson's outcomes.
    """
    from reflector.audit.blame import blame as steps_of
    from reflector.cli.playbook import find_bullet
    from reflector.playbook.names import is_name

    if not is_name(name) and set(name) <= set("0123456789abcdef"):
        from reflector.cli.lessons import show

        click.get_current_context().invoke(show, id=name, moment=moment, as_json=as_json)
        return

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        row = find_bullet(ledger, name, past)
        steps = steps_of(ledger, name, past)
    if as_json:
        print_json([asdict(step) for step in steps])
        return
    click.echo(safe(row.bullet.line))
    if row.status == "merged":
        into = place.command("blame", f"{row.removed_into}")
        click.echo(safe(f"It was {row.end}, for which its evidence counts too: {into}"))
    elif row.end:
        click.echo(safe(f"It was {row.end}."))
    if steps:
        click.echo()
    several = any(step.name != name for step in steps)
    shown = [
        (
            *((step.name,) if several else ()),
            step.position,
            short_time(step.recorded_at),
            short_id(step.session_id),
            step.tag or step.disposition,
            f"{step.helpful}/{step.harmful}",
            " ".join(filter(None, (_uncounted(step), step.model, step.rationale))),
        )
        for step in steps
    ]
    columns = (*(("bullet",) if several else ()), "position", "recorded", "session", "verdict", "total", "why")
    none = "It has no verdict yet."
    table(columns, shown, numbers=("position", "total"), extra=("recorded",), whole=True, empty=none)


def _uncounted(step: Step) -> str:
    if step.counted or step.disposition == "neutral":
        return ""
    told = f"not counted: {step.disposition.replace('_', ' ')}"
    by = step.uncounted_by
    if by is None:
        return f"[{told}]"
    if step.disposition == "double":
        return f"[{told}, position {by.position} counts]"
    return f"[{told} by {by.actor} at {by.position}{f': {by.reason}' if by.reason else ''}]"


@click.command()
@click.argument("session_id", type=SESSION, metavar="ID")
@moments.as_of
@json_option
@click.pass_obj
def session(place: Place, session_id: str, moment: str | None, as_json: bool) -> None:
    """Show all that is known of one session.

    ID is a session's id or its beginning, as `reflector log` shows it.
    """
    from reflector.audit.session import session_story
    from reflector.cli import session_view
    from reflector.reflection.window import quality_of

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        story = session_story(ledger, session_named(ledger, session_id), past)
        qualities = {window.event_id: quality_of(ledger.event(window.event_id)) for window in story.windows}
    if as_json:
        print_json(session_view.document(story, qualities))
    else:
        session_view.show(story, qualities)


def session_named(ledger: Ledger, session_id: str) -> str:
    """Return the whole id of a session; a usage error if it matches no session, or several."""
    from reflector.audit import targets

    try:
        return targets.session_named(ledger, session_id)
    except targets.UnknownSession as error:
        found = f"; it could be {', '.join(error.candidates[:5])}" if error.candidates else ""
        raise click.UsageError(f"no session {session_id!r} is recorded{found}. See 'reflector log'.") from error
