"""`reflector lessons`: the lessons, their worth and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from reflector.cli.app import Place
from reflector.cli.options import NAME, SECTION, Question, question, why_option
from reflector.cli.output import event_table, say, shaped, short_id, table
from reflector.embed.lessons import recall as recalling
from reflector.embed.lessons.book import BACKGROUND, Lesson, lesson_book
from reflector.embed.lessons.history import events_of
from reflector.embed.lessons.recording import observe_outcome
from reflector.events.event import Event
from reflector.events.folds import fold_ledger
from reflector.events.lessons import POLARITY
from reflector.playbook.change import Change
from reflector.text.bounds import visible
from reflector.text.phrases import counted

#: The kind of outcome for the verdicts of users and agents on a lesson.
SAID = {"good": "success", "bad": "failure"}


@dataclass(slots=True, kw_only=True)
class ToldJson(Lesson):
    """A lesson, and every event about it."""

    events: list[Event]


@click.group(invoke_without_command=True)
@question
def lessons(asked: Question) -> None:
    """List lessons and how well they worked.

    The subcommands of `lessons` search lessons, propose a lesson as a rule, and record whether a
    lesson worked.
    """
    book = lesson_book(asked.playbook)
    if asked.answers(list(book)):
        return
    rows = [
        (
            short_id(lesson.id),
            lesson.kind,
            _state(lesson),
            f"{lesson.confidence:.2f}",
            f"{lesson.effectiveness:.2f}",
            lesson.times_applied,
            lesson.task,
            f"{lesson.text} ({lesson.bullet})" if lesson.bullet else lesson.text,
        )
        for lesson in book
    ]
    columns = ("id", "kind", "state", "conf.", "worth", "shown", "task", "text")
    extra = ("task", "shown", "conf.")
    table(columns, rows, prose=("task", "text"), extra=extra, empty="No lesson was recorded.")


def _state(lesson: Lesson) -> str:
    return lesson.state if lesson.banked else f"{lesson.state}, evicted"


def show_lesson(asked: Question, id: str) -> None:
    """Print a lesson, and every event about it."""
    from reflector.changes.propose import ProposalFold

    lesson = lesson_book(asked.playbook).named(id)
    events = events_of(asked.ledger, lesson, asked.upto)
    if asked.answers(shaped(ToldJson, lesson, events=events)):
        return
    say(f"{lesson.id}  {lesson.kind}, {_state(lesson)}\n{lesson.text}")
    for name in BACKGROUND:
        if lesson.data.get(name):
            say(f"  {name.replace('_', ' ')}: {lesson.data[name]}")
    say(
        f"confidence {lesson.confidence:.2f}, worth {lesson.effectiveness:.2f}, "
        f"helped {lesson.successes}×, misled {lesson.failures}×, shown {lesson.times_applied}×"
    )
    if lesson.bullet:
        say(f"promoted: {lesson.bullet}")
    elif lesson.proposal:
        proposals = fold_ledger(ProposalFold(), asked.ledger, asked.upto)
        state = next((each.state for each in proposals if each.id == lesson.proposal), "erased")
        shown = "still waiting" if state == "waiting" else state
        say(f"proposed as {short_id(lesson.proposal)} ({shown})")
    say()
    event_table(events, whole=True)


@lessons.command(short_help="Propose a lesson as a rule.")
@click.argument("id", type=NAME, metavar="ID")
@click.option("--section", type=SECTION, help="Section (default: mis for a mistake, else pat).")
@why_option
@click.pass_obj
def promote(place: Place, id: str, section: str | None, why: str | None) -> None:
    """Propose a lesson as a rule."""
    from reflector.changes.propose import propose

    with place.changing() as ledger:
        lesson = lesson_book(ledger).named(id)
        if not lesson.is_tellable:
            raise click.UsageError(
                f"lesson {short_id(lesson.id)} cannot become a rule (state: {_state(lesson)}); see "
                f"`reflector show {short_id(lesson.id)}`"
            )
        outcomes = counted(len(lesson.outcomes), "outcome")
        worth = f"worth {lesson.effectiveness:.2f} after {outcomes}"
        reason = why or f"confidence {lesson.confidence:.2f}, {worth}"
        where = section or ("mis" if lesson.kind == "mistake" else "pat")
        change = Change("add", section=where, text=visible(lesson.text))
        # A user promotes it, but a model or a rule found its words.
        proposal = propose(
            ledger,
            change,
            origin="human",
            trust="agent",
            reason=reason,
            actor="human",
            lesson=lesson.id,
        )
    id = short_id(proposal.id)
    say(
        f"proposal {id} is {proposal.state}; to approve the proposal: "
        f"{place.command('review approve', id)}"
    )


@lessons.command()
@click.argument("lesson_id", type=NAME, metavar="LESSON")
@click.argument("said", metavar="good|bad|KIND", type=click.Choice((*SAID, *POLARITY)))
@click.option("--why", required=True, help="Your reason, which reflector stores.")
@click.pass_obj
def outcome(place: Place, lesson_id: str, said: str, why: str) -> None:
    """Record the result of applying a lesson."""
    with place.changing() as ledger:
        before = lesson_book(ledger).named(lesson_id)
        kind = SAID.get(said, said)
        observe_outcome(ledger, before.id, kind, why, source="human")
        after = lesson_book(ledger).named(before.id)
    say(
        f"{short_id(after.id)}: worth {before.effectiveness:.2f} → {after.effectiveness:.2f}, "
        f"confidence {before.confidence:.2f} → {after.confidence:.2f}, {after.state}"
    )


@dataclass
class RecalledJson:
    """A match for a query, and how well it fits.

    words   the share of the query's words in the text; null if it was not found by its words
    cosine  1 if the text has exactly the query's words in their order; else null
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

    If no text matches well enough, `recall` lists nothing. `recall` does not use the network.
    """
    matches = recalling.recall(query, most, of=asked.playbook)
    if asked.answers([shaped(RecalledJson, match, match.document) for match in matches]):
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


def print_changed(lessons: Iterable[Mapping[str, Any]]) -> None:
    """Print the lessons that `changed_lessons` returns."""
    for changed in lessons:
        before, after = changed["before"], changed["after"]
        moves = (
            f"{name} {before[name]} → {after[name]}"
            for name in after
            if before is not None and before[name] != after[name]
        )
        how = ", ".join(moves) or "learned"
        say(f"lesson {short_id(changed['id'])}  {how}", bold=True)
        say(f"  {' '.join(changed['text'].split())}")
