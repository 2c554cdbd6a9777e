"""`reflector lessons`: what was learned, what it is worth and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from reflector.cli.app import Place
from reflector.cli.options import NAME, SECTION, Question, question, why_option
from reflector.cli.output import counted, event_table, safe, shaped, short_id, table
from reflector.embed.lessons import recall as recalling
from reflector.embed.lessons.book import BACKGROUND, Lesson, lesson_book
from reflector.embed.lessons.recording import observe_outcome
from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.lessons import POLARITY
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.text.bounds import visible

#: What people and agents say of a lesson, as a kind of outcome.
SAID = {"good": "success", "bad": "failure"}


@dataclass(slots=True, kw_only=True)
class ToldJson(Lesson):
    """A lesson, and everything that happened to it."""

    events: list[Event]


@click.group(invoke_without_command=True)
@question
def lessons(asked: Question) -> None:
    """List what was learned, and how its worth moved; recall, promote or judge it."""
    book = lesson_book(asked.playbook)
    if asked.answers(list(book)):
        return
    rows = [
        (
            *(short_id(one.id), one.kind, one.state if one.banked else f"{one.state}, evicted"),
            *(f"{one.confidence:.2f}", f"{one.effectiveness:.2f}", one.times_applied, one.task),
            f"{one.text}{f' ({one.bullet})' if one.bullet else ''}",
        )
        for one in book
    ]
    columns = ("id", "kind", "state", "conf.", "worth", "told", "task", "text")
    extra, empty = ("task", "told", "conf."), "No lesson was recorded."
    table(columns, rows, prose=("task", "text"), extra=extra, empty=empty)


def show_lesson(asked: Question, id: str) -> None:
    """Print a lesson, and everything that happened to it."""

    def life(event_id: str) -> Iterator[Event]:
        for event in asked.ledger.targeting(event_id):
            yield event
            yield from life(event.event_id)

    book = lesson_book(asked.playbook)
    one = book.named(id)
    told = (
        e
        for e in asked.ledger.events(types=[ev.ADVICE_TOLD])
        if one.id in (e.data or {})["lessons"]
    )
    known = chain(asked.ledger.at([one.position]), life(one.id), told)
    events = sorted(
        (e for e in known if asked.upto is None or e.position <= asked.upto),
        key=lambda e: e.position,
    )
    if asked.answers(shaped(ToldJson, one, events=events)):
        return
    click.echo(
        safe(f"{one.id}  {one.kind}, {one.state}{'' if one.banked else ', evicted'}\n{one.text}")
    )
    for name in BACKGROUND:
        if one.data.get(name):
            click.echo(safe(f"  {name.replace('_', ' ')}: {one.data[name]}"))
    click.echo(
        f"confidence {one.confidence:.2f}, worth {one.effectiveness:.2f}, "
        f"{one.successes} for it and {one.failures} against, told {one.times_applied}×"
    )
    if one.bullet or one.proposal:
        click.echo(
            f"promoted: {one.bullet or f'proposal {short_id(one.proposal)} waits or was rejected'}"
        )
    click.echo()
    event_table(events, whole=True)


@lessons.command(short_help="Propose a lesson as a bullet.")
@click.argument("id", type=NAME, metavar="ID")
@click.option("--section", type=SECTION, help="Default: mis for a mistake.")
@why_option
@click.pass_obj
def promote(place: Place, id: str, section: str | None, why: str | None) -> None:
    """Propose a lesson as a bullet; `reflector proposals approve` decides."""
    from reflector.changes.propose import propose

    with place.changing() as ledger:
        one = lesson_book(ledger).named(id)
        if not one.is_tellable:
            raise click.UsageError(
                f"lesson {short_id(one.id)} is {one.state if one.banked else 'evicted'}; see `show`"
            )
        where = section or ("mis" if one.kind == "mistake" else "pat")
        worth = f"worth {one.effectiveness:.2f} after {counted(len(one.outcomes), 'outcome')}"
        reason = why or f"confidence {one.confidence:.2f}, {worth}"
        change = Change("add", section=where, text=visible(one.text))
        # A person promotes it, in words that a model or a rule found.
        proposal = propose(
            ledger,
            change,
            origin="human",
            trust="agent",
            reason=reason,
            actor="human",
            lesson=one.id,
        )
    id = short_id(proposal.id)
    click.echo(
        f"proposal {id} {proposal.state}; decide with `{place.command('proposals approve', id)}`"
    )


@lessons.command()
@click.argument("lesson_id", type=NAME, metavar="LESSON")
@click.argument("said", metavar="good|bad|KIND", type=click.Choice((*SAID, *POLARITY)))
@click.option("--why", required=True, help="What happened; the ledger keeps it.")
@click.pass_obj
def outcome(place: Place, lesson_id: str, said: str, why: str) -> None:
    """Record the result of applying a lesson."""
    with place.changing() as ledger:
        before = lesson_book(ledger).named(lesson_id)
        kind = SAID.get(said, said)
        observe_outcome(ledger, before.id, kind, why, source="human")
        after = lesson_book(ledger).named(before.id)
    click.echo(
        f"{short_id(after.id)}: worth {before.effectiveness:.2f} → {after.effectiveness:.2f}, "
        f"confidence {before.confidence:.2f} → {after.confidence:.2f}, {after.state}"
    )


@dataclass(frozen=True, slots=True)
class RecalledJson:
    """What fits a query, and how well: the share of its words, and whether it says just the
    query.
    """

    kind: str
    id: str
    text: str
    score: float
    words: float | None
    cosine: float | None


@lessons.command()
@click.argument("query")
@click.option(
    "-n",
    "most",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="Print the N best matches.",
)
@question
def recall(asked: Question, query: str, most: int) -> None:
    """Search rules, lessons and summaries.

    Prints nothing if no text matches well enough. Uses no network.
    """
    matches = recalling.recall(query, most, of=asked.playbook)
    scores = ("score", "words", "cosine")
    if asked.answers(
        [
            shaped(RecalledJson, match.document, **{name: getattr(match, name) for name in scores})
            for match in matches
        ]
    ):
        return
    rows = [
        (
            match.document.id if match.document.kind == "bullet" else short_id(match.document.id),
            match.document.kind,
            *("" if rate is None else f"{rate:.2f}" for rate in (match.words, match.cosine)),
            match.document.text,
        )
        for match in matches
    ]
    columns = ("id", "kind", "words", "cosine", "text")
    table(columns, rows, extra=("cosine", "words"), empty="Nothing matches.")


def changed_lessons(ledger: Ledger, first: int, last: int) -> list[dict[str, Any]]:
    """Return the lessons whose worth or state two positions differ in, as JSON has them."""

    def seen(at: int) -> dict[str, tuple[str, dict[str, Any] | None]]:
        book = lesson_book(Past(ledger, at))
        told = {one.id for one in book.best()}
        views = {
            one.id: {"worth": one.effectiveness, "banked": one.banked, "told": one.id in told}
            for one in book
        }
        return {
            one.id: (one.text, {**views[one.id], "due": one.due, "state": one.state})
            for one in book
        }

    before, after = seen(first), seen(last)
    return [
        {"id": id, "text": text, "before": was, "after": now}
        for id, (text, now) in after.items()
        if (was := before.get(id, (text, None))[1]) != now
    ]


def print_changed(lessons: list[dict[str, Any]]) -> None:
    """Print what `changed_lessons` found."""
    for one in lessons:
        was, now = one["before"], one["after"]
        how = ", ".join(
            f"{name} {was[name]} → {now[name]}"
            for name in now
            if was is not None and was[name] != now[name]
        )
        click.secho(f"lesson {short_id(one['id'])}  {how or 'learned'}", bold=True)
        click.echo(safe(f"  {' '.join(one['text'].split())}"))
