"""What happened: show, blame and log.

Invariant: nothing is changed, but for what waited: a question records queued deliveries and edits
of playbook.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from reflector.audit.blame import Step, blame_bullet as steps_of
from reflector.audit.citations import observed
from reflector.audit.log import about, select, summary
from reflector.audit.moments import (
    UnknownReference,
    period,
    position_before,
    position_of,
    session_named,
    target_named,
)
from reflector.cli.app import Place
from reflector.cli.options import NAME, Question, bare, find_bullet, json_option, question
from reflector.cli.output import (
    counted,
    event_table,
    json_of,
    note,
    print_facts,
    print_json,
    safe,
    shaped,
    short_id,
    short_time,
    table,
)
from reflector.cli.playbook import ListedJson, Uses, worth
from reflector.events import event as ev
from reflector.events.bullets import DROPPED, WITHOUT_A_QUOTE
from reflector.events.event import Event
from reflector.events.registry import EVENT_TYPES
from reflector.events.sessions import unknown_speakers
from reflector.ledger.as_of import Past
from reflector.ledger.store import BulletRow
from reflector.playbook.names import SECTIONS, is_name
from reflector.transcripts.citations import CALLED_WRONG

if TYPE_CHECKING:
    from reflector.audit.session import Reflection, SessionStory, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJson(ListedJson):
    """A bullet as `list` has it, and every event about it."""

    events: list[Event]


@click.command()
@click.argument("what", metavar="NAME|SESSION|LESSON|EVENT", type=NAME)
@question
def show(asked: Question, what: str) -> None:
    """Show a bullet, a session, a lesson or an event, with its history.

    Sessions, lessons and events are named by an id or its beginning, an event also by its position
    in `reflector log`.
    """
    ledger, then = asked.ledger, asked.then
    if asked.playbook.row(what) is not None or (is_name(what) and ledger.row(what) is not None):
        _show_bullet(asked, find_bullet(ledger, what, then))
        return
    try:
        found = target_named(ledger, what)
    except UnknownReference:
        if is_name(what) or any(bare(row.name) == bare(what) for row in ledger.rows()):
            find_bullet(ledger, what, then)
        _show_session(asked, session_named(ledger, what))
        return
    event = found.events[0] if found.events else None
    if found.kind == "session":
        _show_session(asked, found.id)
    elif event is not None and event.type == ev.LESSON_RECORDED:
        from reflector.cli.lessons import show_lesson

        show_lesson(asked, event.event_id)
    elif event is not None:
        _show_event(asked, event)


def _show_bullet(asked: Question, row: BulletRow) -> None:
    uses = Uses.of(asked, row.name)
    events = about(asked.ledger, row, upto=asked.upto)
    if asked.answers(shaped(ShownJson, uses.json(row), events=events)):
        return
    demoted = uses.demoted(row)
    click.echo(safe(row.bullet.line))
    checked = f"checked: {found}" if (found := uses.checked.get(row.name)) else ""
    notes = (SECTIONS[row.section], row.end, f"demoted: {demoted}" if demoted else "", checked)
    click.echo(safe(", ".join(filter(None, notes))))
    if share := worth(row, uses.shown[row.name]):
        click.echo(share)
    click.echo()
    covered = (asked.then or Past(asked.ledger)).covered()
    at = {one.event_id: one.position for one in asked.ledger.having(set(covered.values()))}

    def what(event: Event) -> str:
        by = covered.get(event.position)
        return summary(event) + (f" (retracted at {at[by]})" if by is not None else "")

    event_table(events, what, without="actor")
    note(f"Why the counts are what they are: {asked.place.command('blame', row.name)}")


def _show_event(asked: Question, event: Event) -> None:
    if asked.answers(event):
        return
    click.echo(safe(f"{event.type} at position {event.position}: {summary(event)}"))
    whole = json_of(event).items()
    shown = {
        key: value
        for key, value in whole
        if value not in (None, {}) and key not in ("type", "position")
    }
    words = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in shown.values()
    )
    print_facts(zip(shown, words, strict=True), 14, 2)


def _show_session(asked: Question, session_id: str) -> None:
    from reflector.audit.session import session_story

    story = session_story(asked.ledger, session_id, asked.then)
    if asked.answers(story):
        return
    click.echo(f"session {safe(story.session_id)}")
    states = [f"{window.state} (position {window.position})" for window in story.windows]
    click.echo(f"{counted(len(states), 'window')}: {', '.join(states)}")
    if story.tokens:
        click.echo(_cost(story))
    for window in story.windows:
        click.echo()
        _show_window(window)
    click.echo()
    event_table(story.events, without="session")


def _show_window(window: Window) -> None:
    if window.type == ev.TRAJECTORY_RECORDED:
        how, data = "a trajectory", window.data
        told = (
            data.get("dataset"),
            data.get("status"),
            counted(len(data.get("steps", ())), "step"),
        )
        found = [("trajectory", ", ".join(filter(None, told)))]
    else:
        how = f"by {window.trigger}{f' ({window.reason})' if window.reason else ''}"
        found = [("read", f"{window.records} records of {window.transcript}")]
    click.echo(safe(f"window {window.position}, recorded {short_time(window.recorded_at)}, {how}"))
    found += [
        (kind, ", ".join(getattr(window, kind)))
        for kind in ("cited", "carried", "retired", "unknown")
    ]
    found += [("said wrong", f"{name} {why}") for name, why in window.said_wrong.items()]
    found += [
        (
            "nobody's",
            ", ".join(f"{tag} {count}" for tag, count in unknown_speakers(window.data).items()),
        )
    ]
    found += [("not judged", window.gate or "")]
    found += [("failed", failure) for failure in window.failures]
    for one in window.reflections:
        by = " ".join(filter(None, (one.backend, one.model)))
        how = "asked" if one.completed is None else "judged by"
        found.append((how, f"{by}, {_cost(one)}" if one.tokens else by))
        found.append(("analysis", one.analysis or ""))
        for tag in one.tags:
            why = tag.fault or DROPPED.get(tag.disposition, tag.disposition)
            counts = "" if tag.counted else f" [not counted: {why}]"
            without = f" ({WITHOUT_A_QUOTE})" if tag.unquoted else ""
            found.append(("tag", f"{tag.name} {tag.tag}{counts}{without} {tag.rationale or ''}"))
    print_facts(((name, " ".join(text.split())) for name, text in found if text), 11, 2)


def _cost(of: SessionStory | Reflection) -> str:
    unknown = f", {of.unpriced} without a known price" if of.unpriced else ""
    return f"{of.tokens:,} tokens, {of.cost_usd:.4f} USD{unknown}"


@click.command()
@click.argument("name", type=NAME)
@question
def blame(asked: Question, name: str) -> None:
    """Explain each count of a bullet: session, verdict, reason, totals.

    Tags that no longer count are shown with the reason: a retraction, a recount, or the tag that
    counts instead under the policy in force. Of a merged bullet, the steps of its sources are shown
    too.
    """
    row = find_bullet(asked.ledger, name, asked.then)
    steps = steps_of(asked.ledger, name, asked.then)
    if asked.answers(steps):
        return
    click.echo(safe(row.bullet.line))
    if row.status == "merged":
        into = asked.place.command("blame", f"{row.removed_into}")
        click.echo(safe(f"It was {row.end}, for which its evidence counts too: {into}"))
    elif row.end:
        click.echo(safe(f"It {'is' if row.status == 'watched' else 'was'} {row.end}."))
    past = asked.then or Past(asked.ledger)
    observed_uses = observed(past, [name])
    if share := worth(row, observed_uses[name]):
        click.echo(share)
    if steps:
        click.echo()
    alone = all(step.name == name for step in steps)
    shown = [
        (
            *(step.name, step.position, short_time(step.occurred_at), short_id(step.session_id)),
            *(step.tag or step.disposition, f"{step.helpful}/{step.harmful}", _why(step)),
        )[alone:]
        for step in steps
    ]
    columns = ("bullet", "position", "when", "session", "verdict", "total", "why")[alone:]
    table(columns, shown, extra=("when",), whole=True, empty="It has no verdict yet.")


def _why(step: Step) -> str:
    """Return why a step counts or does not: by which judge, for what reason, and whose words it
    rests on.
    """
    said = f'{step.words or "no one"}, turn {step.turn}: "{step.quote}"' if step.quote else ""
    is_new = step.said_wrong is not None and not (step.rationale or "").startswith(CALLED_WRONG)
    wrong = f"({CALLED_WRONG}{f': {step.said_wrong}' if step.said_wrong else ''})" if is_new else ""
    broken = "(not followed)" if step.followed == "no" else ""
    uncounted = f"[{step.uncounted}]" if step.uncounted else ""
    without = f"({WITHOUT_A_QUOTE})" if step.unquoted else ""
    return " ".join(
        filter(None, (uncounted, step.model, without, step.rationale, broken, said, wrong))
    )


@dataclass(slots=True, kw_only=True)
class LoggedJson(Event):
    """An event of `log`, and the command that undoes it, or where it was undone; null for what
    changed nothing.
    """

    undo: str | None


@click.command()
@click.option(
    "-n",
    "last",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="The newest N; 0 for all.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(EVENT_TYPES)),
    metavar="TYPE",
    help="Only this type; repeatable.",
)
@click.option(
    "--session", "session_id", metavar="ID", help=("Only this session: an id or its beginning.")
)
@click.option(
    "--bullet",
    type=NAME,
    metavar="NAME",
    help=("Only events that add, change, cite or tag this bullet."),
)
@click.option(
    "--since",
    metavar="MOMENT",
    help=("Only events from this moment on: a time, a position, a session's id."),
)
@click.option("--until", metavar="MOMENT", help="Only events up to the end of this moment.")
@json_option
@click.pass_obj
def log(
    place: Place,
    last: int,
    types: tuple[str, ...],
    session_id: str | None,
    bullet: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """List what happened, event by event.

    An event is listed if it meets all conditions. `reflector undo POSITION` undoes a change; --json
    has the command.
    """
    with place.reading() as ledger:
        if session_id is not None:
            session_id = session_named(ledger, session_id)
        head = ledger.head().position
        ends, begins = (period(one) if one is not None else None for one in (until, since))
        upto = min(head, position_of(ledger, until)) if until is not None and ends is None else head
        after = position_before(ledger, since) if since is not None and begins is None else 0
        events = select(
            ledger,
            types=types,
            session_id=session_id,
            bullet=bullet,
            after=after,
            upto=upto,
            begin=begins[0] if begins else "",
            end=ends[1] if ends else "",
            newest=last or None,
        )
        from reflector.changes.undo import undo_of, undone

        gone = undone(ledger)
    if as_json:
        undo = place.command("undo")
        print_json([shaped(LoggedJson, event, undo=undo_of(event, gone, undo)) for event in events])
        return

    def what(event: Event) -> str:
        return summary(event) + (
            (f" (undone at {gone[event.event_id]})") if event.event_id in gone else ""
        )

    event_table(events, what, empty="No such events.")
    if events and sys.stdout.isatty():
        note("`reflector undo POSITION` undoes a change.")
