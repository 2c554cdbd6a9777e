"""The history: show, blame and log.

Invariant: a question changes nothing, except that it records queued deliveries and edits of
playbook.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import click

from reflector.audit.citations import recent
from reflector.audit.dates import period_of
from reflector.audit.log import about, select, summary
from reflector.audit.moments import (
    UnknownReference,
    bounds_of,
    session_named,
    target_named,
)
from reflector.cli.app import Place
from reflector.cli.options import (
    LINE,
    NAME,
    POSITION,
    FileLine,
    Question,
    as_of_option,
    bullet_named,
    find_bullet,
    flag,
    json_option,
    question,
)
from reflector.cli.output import (
    event_table,
    json_of,
    note,
    print_facts,
    print_json,
    safe,
    say,
    shaped,
    short_id,
    short_time,
    table,
)
from reflector.cli.playbook import Uses, worth
from reflector.events import event as ev
from reflector.events.bullets import UNCOUNTED, WITHOUT_A_QUOTE
from reflector.events.event import Event
from reflector.events.registry import EVENT_TYPES
from reflector.events.sessions import unknown_speakers
from reflector.ledger.store import BulletRow
from reflector.playbook.names import SECTIONS, is_name
from reflector.playbook_files.places import name_at, places
from reflector.text.phrases import counted

if TYPE_CHECKING:
    from reflector.audit.blame import Step
    from reflector.audit.session import Reflection, SessionStory, Window
    from reflector.ledger.store import Ledger


@click.command()
@click.argument("what", metavar="NAME|SESSION|LESSON|EVENT", type=NAME)
@question
def show(asked: Question, what: str) -> None:
    """Show a rule, session, lesson or event.

    NAME is the name of a rule, or the id of a session, a lesson or an event. Instead of a full id,
    you can type its beginning. NAME can also be the position of an event, which `reflector log`
    shows. For an event that changed a file of rules, such as CLAUDE.md, `show` prints the changed
    lines.
    """
    ledger = asked.ledger
    if is_name(what) or bullet_named(ledger, what) is not None:
        _show_bullet(asked, find_bullet(ledger, what, asked.then))
        return
    if POSITION.fullmatch(what):
        from reflector.cli import memory

        if memory.is_memory(asked.place, what):
            memory.print_change(asked.place, what)
            return
    try:
        target = target_named(ledger, what)
    except UnknownReference:
        if all(event.type == ev.MEMORY_CHANGED for event in ledger.events(session_id=what)):
            from reflector.cli.memory import refuse_session

            refuse_session(asked.place, what)
        _show_session(asked, session_named(ledger, what))
        return
    event = target.events[0] if target.events else None
    if target.kind == "session":
        _show_session(asked, target.id)
    elif event is not None and event.type == ev.LESSON_RECORDED:
        from reflector.cli.lessons import show_lesson

        show_lesson(asked, event.event_id)
    elif event is not None:
        _show_event(asked, event)


def _show_bullet(asked: Question, row: BulletRow) -> None:
    uses = Uses(asked)
    events = about(asked.ledger, row, upto=asked.upto)
    listed = uses.json(row)
    marks = recent(_steps_of(asked, row), asked.past)
    if asked.place.as_json:
        from reflector.cli.documents import ShownJson

        print_json(shaped(ShownJson, listed, recent=marks, events=events))
        return
    say(f"{row.name}  {row.text}")
    demoted = f"demoted: {listed.demoted}" if listed.demoted else ""
    checked = f"checked: {listed.checked}" if listed.checked else ""
    notes = (SECTIONS[row.section], listed.place or row.end, demoted, checked)
    say(", ".join(filter(None, notes)))
    for line in worth(listed, uses.votes[row.name], marks):
        say(line)
    say()
    covered = asked.past.covered
    at = {one.event_id: one.position for one in asked.ledger.having(set(covered.values()))}

    def what(event: Event) -> str:
        by = covered.get(event.position)
        return summary(event) + (f" (retracted at position {at[by]})" if by is not None else "")

    event_table(events, what, without="actor")
    note(f"To see the reason for each count: {asked.place.command('blame', row.name)}")


def _steps_of(asked: Question, row: BulletRow) -> Sequence[Step]:
    """Return the verdicts on a rule, also those that do not count."""
    from reflector.audit.blame import blame_bullet

    return blame_bullet(asked.ledger, row.name, asked.then)


def _show_event(asked: Question, event: Event) -> None:
    if asked.answers(event):
        return
    say(f"{event.type} at position {event.position}: {summary(event)}")
    facts = [
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in json_of(event).items()
        if value not in (None, {}) and key not in ("type", "position")
    ]
    print_facts(facts, 14, 2)


def _show_session(asked: Question, session_id: str) -> None:
    from reflector.audit.session import session_story

    story = session_story(asked.ledger, session_id, asked.then)
    if asked.answers(story):
        return
    say(f"session {safe(story.session_id)}")
    states = [f"{window.state} (position {window.position})" for window in story.windows]
    say(f"{counted(len(states), 'part')}: {', '.join(states)}")
    if story.tokens:
        say(_cost(story))
    for window in story.windows:
        say()
        _show_window(window)
    say()
    event_table(story.events, without="session")


def _show_window(window: Window) -> None:
    when = f"part at position {window.position}, recorded {short_time(window.recorded_at)}"
    reason = f" ({window.reason})" if window.reason else ""
    is_trajectory = window.type == ev.TRAJECTORY_RECORDED
    how = "a trajectory" if is_trajectory else f"by {window.trigger}{reason}"
    say(f"{when}, {how}")
    facts = chain(_window_facts(window), *map(_reflection_facts, window.reflections))
    print_facts(((name, " ".join(text.split())) for name, text in facts if text), 11, 2)


def _window_facts(window: Window) -> Iterator[tuple[str, str]]:
    """Yield the facts about a window: its records, its citations, and why it was not judged."""
    if window.type == ev.TRAJECTORY_RECORDED:
        steps = counted(len(window.data.get("steps", ())), "step")
        parts = (window.data.get("dataset"), window.data.get("status"), steps)
        yield "trajectory", ", ".join(filter(None, parts))
    else:
        yield "read", f"{window.records} records of {window.transcript}"
    yield "cited", ", ".join(window.cited)
    yield "still open", ", ".join(window.carried)
    yield "removed", ", ".join(window.retired)
    yield "unknown", ", ".join(window.unknown)
    for name, why in window.said_wrong.items():
        yield "said wrong", f"{name} {why}"
    speakers = unknown_speakers(window.data).items()
    yield "no speaker", ", ".join(f"{tag} {count}" for tag, count in speakers)
    yield "not judged", window.gate or ""
    for failure in window.failures:
        yield "failed", failure


def _reflection_facts(reflection: Reflection) -> Iterator[tuple[str, str]]:
    """Yield the facts about a reflection: its judge, its analysis and its tags."""
    judge = " ".join(filter(None, (reflection.backend, reflection.model)))
    how = "asked" if reflection.completed is None else "judged by"
    yield how, f"{judge}, {_cost(reflection)}" if reflection.tokens else judge
    yield "analysis", reflection.analysis or ""
    for tag in reflection.tags:
        disposition = tag.fault or tag.disposition
        why = UNCOUNTED.get(disposition, disposition)
        uncounted = "" if tag.counted else f" [not counted: {why}]"
        unquoted = f" ({WITHOUT_A_QUOTE})" if tag.unquoted else ""
        yield "verdict", f"{tag.name} {tag.tag}{uncounted}{unquoted} {tag.rationale or ''}"


def _cost(of: SessionStory | Reflection) -> str:
    unknown = f", and {counted(of.unpriced, 'answer')} of unknown price" if of.unpriced else ""
    return f"{of.tokens:,} tokens, {of.cost_usd:.4f} USD{unknown}"


@click.command()
@click.argument("name", metavar="NAME|FILE[:LINE]", type=LINE)
@as_of_option
@json_option
@click.pass_obj
def blame(place: Place, name: str | FileLine, moment: str | None) -> None:
    """Explain a rule's counts or a line's origin.

    For a rule, `blame` first lists the sessions that `check` counted. `blame` then prints a row for
    each verdict on the rule, with the session, the new total and the reason.

    For a line of a file, such as CLAUDE.md:12, `blame` shows who wrote the line, and when. `blame`
    also shows the text that the line replaced, and your last words before the line changed. For a
    line of a file, `blame` also lists the sessions that `check` counted, each with a quote. `blame`
    first lists the sessions in which the agent may have broken the rule.

    If a verdict no longer counts, its row shows the reason, for example another verdict that counts
    instead. For a rule that you made with `merge`, `blame` also lists the verdicts on the merged
    rules.
    """
    if isinstance(name, FileLine):
        _blame_line(place, name, moment)
        return
    with place.reading() as ledger:
        _blame_rule(Question(place, ledger, moment), name)


def _blame_line(place: Place, line: FileLine, moment: str | None) -> None:
    """Print the authors of the lines of a file, or the author of a line with its counts."""
    from reflector.check.evidence import evidence_lines
    from reflector.cli.memory import is_in_home, print_blame, print_blame_of_line

    file, number = line
    if number is None:
        print_blame(place, file, moment)
        return
    evidence, begins = print_blame_of_line(place, file, number, moment)
    if place.as_json:
        return
    if not (is_in_home(file) or place.is_untouched):
        _print_evidence(place, f"{file}:{begins}", moment)
    for text in evidence_lines(evidence) if evidence else ():
        say(text)


def _print_evidence(place: Place, line: str, moment: str | None) -> None:
    """Print the counts of the rule that begins at a line, if it has a name."""
    with place.reading() as ledger:
        asked = Question(place, ledger, moment)
        name = name_at(ledger, place.folder(), line)
        row = asked.playbook.row(name) if name is not None else None
        if row is None or not row.is_rule:
            return
        counts = _worth(asked, row, _steps_of(asked, row))
        rows = [("" if number else "use", text) for number, text in enumerate(counts)]
        print_facts([("rule", f"{row.name}  {row.text}"), *rows], 8)
        note(f"To see the verdicts on {row.name}: {place.command('blame', row.name)}")


def _print_sessions(place: Place, row: BulletRow) -> None:
    """Print the sessions that `check` counted for a rule of the playbook, if it counted any."""
    from reflector.transcripts.readers import kept_files

    if next(kept_files(), None) is None:  # the modules that count take longer than the answer
        return
    from reflector.check.evidence import evidence_lines, evidence_of

    evidence = evidence_of(place.project(), row.name, date.today(), only_seen=True)
    for text in evidence_lines(evidence) if evidence else ():
        say(text)


def _worth(asked: Question, row: BulletRow, steps: Sequence[Step]) -> Iterator[str]:
    """Return the use and the votes of a rule, in lines."""
    uses = Uses(asked)
    return worth(uses.json(row), uses.votes[row.name], recent(steps, asked.past))


def _blame_rule(asked: Question, name: str) -> None:
    """Print a rule, its state, its use, and a row for each of its verdicts."""
    row = find_bullet(asked.ledger, name, asked.then)
    steps = _steps_of(asked, row)
    if asked.answers(steps):
        return
    say(f"{row.name}  {row.text}")
    if state := _state_words(asked, row):
        say(state)
    for line in _worth(asked, row, steps):
        say(line)
    if row.status == "live" and asked.then is None:
        _print_sessions(asked.place, row)
    if steps:
        say()
    first = int(all(step.name == row.name for step in steps))  # without the same name in each row
    columns = ("rule", "position", "when", "session", "verdict", "total", "why")
    rows = [
        (
            step.name,
            step.position,
            short_time(step.occurred_at),
            short_id(step.session_id),
            step.tag or step.disposition,
            f"{step.helpful}/{step.harmful}",
            _why(step),
        )[first:]
        for step in steps
    ]
    table(
        columns[first:],
        rows,
        extra=("when",),
        whole=True,
        empty="This rule does not have a verdict yet.",
    )


def _state_words(asked: Question, row: BulletRow) -> str:
    """Return a sentence about the state of a rule; "" for an ordinary live one."""
    if row.status == "merged":
        into = asked.place.command("blame", f"{row.removed_into}")
        return (
            f"The rule was {row.end}. The verdicts on the merged rule also count for the new "
            f"rule: {into}"
        )
    if row.status == "watched":
        where = places(asked.ledger, asked.place.folder(), [row])[row.name]
        counts = (
            f" To see the counts of the rule: {asked.place.command('blame', where)}"
            if where
            else ""
        )
        return f"The rule is in {where or 'your file'}.{counts}"
    return f"The rule {'is' if row.is_rule else 'was'} {row.end}." if row.end else ""


def _why(step: Step) -> str:
    """Return why a step counts or does not count: the reason against it, the judge and its reason,
    the quote with its speaker, and that the agent called the rule wrong.
    """
    quoted = (
        f'{step.words or "unknown speaker"}, turn {step.turn}: "{step.quote}"' if step.quote else ""
    )
    called_wrong = ""
    if step.said_wrong is not None:
        from reflector.transcripts.citations import CALLED_WRONG

        reason = f": {step.said_wrong}" if step.said_wrong else ""
        is_in_rationale = (step.rationale or "").startswith(CALLED_WRONG)
        called_wrong = "" if is_in_rationale else f"({CALLED_WRONG}{reason})"
    not_followed = "(not followed)" if step.followed == "no" else ""
    uncounted = f"[{step.uncounted}]" if step.uncounted else ""
    unquoted = f"({WITHOUT_A_QUOTE})" if step.unquoted else ""
    parts = (uncounted, step.model, unquoted, step.rationale, not_followed, quoted, called_wrong)
    return " ".join(filter(None, parts))


@click.command()
@click.argument("topic", metavar="[NAME|SESSION|FILE|TIME|A..B]", type=NAME, required=False)
@click.option(
    "-n",
    "most",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="List the N newest events; 0 for all.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(EVENT_TYPES)),
    metavar="TYPE",
    help="Type of the events to list (repeatable).",
)
@click.option("--since", metavar="MOMENT", help="First moment to list, such as yesterday.")
@flag("--memory", "memory", help="List only changes to files that agents load.")
@as_of_option
@json_option
@click.pass_obj
def log(
    place: Place,
    topic: str | None,
    most: int,
    types: tuple[str, ...],
    since: str | None,
    memory: bool,
    moment: str | None,
) -> None:
    """List events.

    To list only the events of a rule, a session or a day, give its name, its id or the day. To list
    the events between two moments, give A..B.

    A, B and MOMENT are each a time (2026-11-21, yesterday, 2 weeks ago), a position or a session's
    id. With --memory, `log` lists changes to files that agents load, such as CLAUDE.md. With
    --memory and FILE or SESSION, `log` lists only the changes of this file or session. To undo the
    change at a position of the log, run `reflector undo POSITION`.
    """
    if memory:
        if types or since:
            raise click.UsageError("--memory cannot be used together with --type or --since")
        from reflector.cli.memory import print_log

        print_log(place, topic, most, moment)
        return
    with place.reading() as ledger:
        asked = Question(place, ledger, moment)
        _print_events(asked, topic, most, types, since)


def _print_events(
    asked: Question, topic: str | None, most: int, types: tuple[str, ...], since: str | None
) -> None:
    """Print the newest events about a topic, as a table or as JSON.

    most   the number of events to print; 0 for all
    since  the first moment, if the topic does not give one
    """
    from reflector.changes.undo import undo_of, undone

    ledger = asked.ledger
    named = _Topic.of(ledger, topic)
    if named.begin and since:
        raise click.UsageError(
            f"`{topic}` and --since both give the first moment; give only one of them"
        )
    bounds = bounds_of(ledger, named.begin or since, named.end)
    events = select(
        ledger,
        types=types,
        session_id=named.session_id,
        bullet=named.bullet,
        after=bounds.after,
        upto=bounds.upto if asked.upto is None else min(bounds.upto, asked.upto),
        begin=bounds.begin,
        end=bounds.end,
        newest=most + 1 if most else None,  # one more shows whether the list is complete
    )
    is_cut = 0 < most < len(events)
    if is_cut:
        events = events[1:]
    undone_at = undone(ledger)
    if asked.place.as_json:
        from reflector.cli.documents import LoggedJson

        undo = asked.place.command("undo")
        print_json(
            [shaped(LoggedJson, event, undo=undo_of(event, undone_at, undo)) for event in events]
        )
        return

    def summary_of(event: Event) -> str:
        position = undone_at.get(event.event_id)
        # The mark is first, because a narrow terminal cuts the end of the row.
        mark = "" if position is None else f"(undone at {position}) "
        return f"{mark}{summary(event)}"

    event_table(events, summary_of, empty="No event matches.")
    if events and sys.stdout.isatty():
        note(f"To undo a change: {asked.place.command('undo', 'POSITION')}")
    if is_cut:
        every = asked.place.command("log", "-n", "0")
        note(f"The list shows only the {most} newest events. To list all events: {every}")


class _Topic(NamedTuple):
    """The topic of `log`: a rule, a session, or the time from `begin` to `end`."""

    bullet: str | None = None
    session_id: str | None = None
    begin: str | None = None
    end: str | None = None

    @classmethod
    def of(cls, ledger: Ledger, text: str | None) -> _Topic:
        """Return the topic that a text names.

        Raises: UnknownReference or UsageError if the text does not name a topic.
        """
        if text is None:
            return cls()
        begin, dots, end = text.partition("..")
        if dots:
            return cls(begin=begin or None, end=end or None)
        if period_of(text) is not None:
            return cls(begin=text, end=text)
        if is_name(text) or bullet_named(ledger, text) is not None:
            return cls(bullet=find_bullet(ledger, text).name)
        return cls(session_id=session_named(ledger, text))
