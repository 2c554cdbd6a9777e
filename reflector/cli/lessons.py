"""`reflector lessons`, `lesson` and `outcome`: what was learned, what it is worth, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import LESSON, SECTION
from reflector.cli.output import counted, fields, json_option, note, print_json, safe, short_id, short_time, table
from reflector.events.lessons import LESSON_KINDS, POLARITY
from reflector.text.bounds import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from reflector.events.event import Event
    from reflector.ledger.store import Ledger
    from reflector.lessons.book import Lesson, LessonPolicy

_STATES = ("active", "decayed", "archived", "needs_review", "retracted")
_LATEST = 12
#: What people and agents say of a lesson, as a kind of outcome.
SAID = {"good": "success", "bad": "failure"}


@click.command()
@click.option("--kind", type=click.Choice(LESSON_KINDS), help="Only lessons of a kind.")
@click.option("--state", type=click.Choice(_STATES), help="Only lessons in a state.")
@click.option("--tag", help="Only lessons with a tag.")
@click.option("--task", help="Only lessons of a task.")
@click.option("--due", is_flag=True, help="Only lessons that are due for promotion.")
@moments.as_of
@json_option
@click.pass_obj
def lessons(
    place: Place,
    kind: str | None,
    state: str | None,
    tag: str | None,
    task: str | None,
    due: bool,
    moment: str | None,
    as_json: bool,
) -> None:
    """List what was learned, and how its worth moved."""
    from reflector.lessons.book import lesson_book

    with place.reading() as ledger:
        book = lesson_book(moments.past(ledger, moment) or ledger)
    found = [
        one
        for one in book
        if kind in (None, one.kind)
        and state in (None, one.state)
        and task in (None, one.task)
        and (tag is None or tag in one.tags)
        and (not due or one.is_due(book.policy))
    ]
    if as_json:
        print_json([as_object(one, book.policy) for one in found])
        return
    if not found:
        note("No lesson was recorded." if not len(book.lessons) else "No lesson matches.")
        return
    table(
        ("id", "kind", "state", "conf.", "worth", "told", "task", "text"),
        [
            (
                short_id(one.id),
                one.kind,
                one.state if one.banked else f"{one.state}, evicted",
                f"{one.confidence:.2f}",
                f"{one.effectiveness:.2f}",
                one.times_applied,
                one.task,
                f"{one.text}{f' ({one.bullet})' if one.bullet else ''}",
            )
            for one in found
        ],
        numbers=("conf.", "worth", "told"),
        prose=("task", "text"),
        extra=("task", "told", "conf."),
    )


class _Named(click.Group):
    """A group of which an id alone means `show ID`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [
            *super().shell_complete(ctx, incomplete),
            *LESSON.shell_complete(ctx, self.get_params(ctx)[0], incomplete),
        ]


@click.group(cls=_Named)
def lesson() -> None:
    """Show one lesson's whole life, or promote it to a bullet.

    ID is a lesson's id or its beginning; `reflector lesson ID` shows it.
    """


@lesson.command()
@click.argument("id", type=LESSON, metavar="ID")
@moments.as_of
@json_option
@click.pass_obj
def show(place: Place, id: str, moment: str | None, as_json: bool) -> None:
    """Show a lesson, and everything that happened to it."""
    from reflector.audit.log import as_json as event_object
    from reflector.audit.log import summary
    from reflector.events import event as ev
    from reflector.lessons.book import BACKGROUND, lesson_book

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        book = lesson_book(past or ledger)
        one = book.named(id)
        upto = past.position if past else None
        told = [e for e in ledger.events(types=[ev.ADVICE_TOLD], upto=upto) if one.id in (e.data or {})["lessons"]]
        life = [e for e in _life(ledger, one.id) if upto is None or e.position <= upto]
    events = sorted([*life, *told], key=lambda event: event.position)
    if as_json:
        print_json({**as_object(one, book.policy), "events": [event_object(event) for event in events]})
        return
    click.echo(safe(f"{one.id}  {one.kind}, {one.state}{'' if one.banked else ', evicted'}\n{one.text}"))
    for name in BACKGROUND:
        if one.data.get(name):
            click.echo(safe(f"  {name.replace('_', ' ')}: {one.data[name]}"))
    click.echo(
        f"confidence {one.confidence:.2f}, worth {one.effectiveness:.2f}, "
        f"{one.successes} for it and {one.failures} against, told {one.times_applied}×"
    )
    if one.bullet or one.proposal:
        click.echo(f"promoted: {one.bullet or f'proposal {short_id(one.proposal)} waits or was rejected'}")
    click.echo()
    rows = [
        (e.position, short_time(e.recorded_at), e.type, short_id(e.session_id), e.actor, summary(e)) for e in events
    ]
    columns = ("position", "recorded", "what", "session", "by", "says")
    table(columns, rows, numbers=("position",), extra=("by", "recorded"), whole=True)


@lesson.command(short_help="Propose a lesson as a bullet.")
@click.argument("id", type=LESSON, metavar="ID")
@click.option("--section", type=SECTION, help="Default: mis for a mistake.")
@click.option("--why", help="The reason. Default: its outcomes.")
@click.pass_obj
def promote(place: Place, id: str, section: str | None, why: str | None) -> None:
    """Propose a lesson as a bullet; `reflector proposals approve` decides."""
    from reflector.curation.proposals import propose
    from reflector.lessons.book import lesson_book
    from reflector.playbook.change import Change

    with place.pipeline() as pipeline:
        one = lesson_book(pipeline.ledger).named(id)
        if not one.is_tellable:
            raise click.UsageError(
                f"lesson {short_id(one.id)} is {one.state if one.banked else 'evicted'}; see `lesson show`"
            )
        where = section or ("mis" if one.kind == "mistake" else "pat")
        worth = f"worth {one.effectiveness:.2f} after {counted(len(one.outcomes), 'outcome')}"
        reason = why or f"confidence {one.confidence:.2f}, {worth}"
        change = Change("add", section=where, text=visible(one.text))
        # A person promotes it, in words that a model or a rule found.
        proposal = propose(
            pipeline.ledger, change, origin="human", trust="agent", reason=reason, actor="human", lesson=one.id
        )
        pipeline.write()
    id = short_id(proposal.id)
    click.echo(f"proposal {id} {proposal.state}; decide with `{place.command('proposals approve', id)}`")


@click.command()
@click.argument("lesson_id", type=LESSON, metavar="LESSON")
@click.argument("said", metavar="good|bad|KIND", type=click.Choice((*SAID, *POLARITY)))
@click.option("--why", required=True, help="What happened; the ledger keeps it.")
@click.option("--source", default="human", show_default=True, help="Who saw it: human, tests, agent …")
@click.option("--session", "session_id", help="The session in which it was seen.")
@click.pass_obj
def outcome(place: Place, lesson_id: str, said: str, why: str, source: str, session_id: str | None) -> None:
    """Record what happened after a lesson was applied."""
    from reflector.lessons.book import lesson_book
    from reflector.lessons.recording import observe_outcome

    with place.pipeline() as pipeline:
        before = lesson_book(pipeline.ledger).named(lesson_id)
        kind = SAID.get(said, said)
        observe_outcome(pipeline.ledger, before.id, kind, why, source=source, session_id=session_id)
        after = lesson_book(pipeline.ledger).named(before.id)
        pipeline.write()
    click.echo(
        f"{short_id(after.id)}: worth {before.effectiveness:.2f} → {after.effectiveness:.2f}, "
        f"confidence {before.confidence:.2f} → {after.confidence:.2f}, {after.state}"
    )


def view(one: Lesson, policy: LessonPolicy) -> dict[str, Any]:
    """Return what a policy decides of a lesson."""
    told = one.is_tellable and one.confidence >= policy.threshold
    return {"worth": one.effectiveness, "banked": one.banked, "told": told, "due": one.is_due(policy)}


def changed_lessons(ledger: Ledger, first: int, last: int) -> list[dict[str, Any]]:
    """Return the lessons whose worth or state two positions differ in, as JSON has them."""
    from reflector.ledger.as_of import Past
    from reflector.lessons.book import lesson_book

    before, after = (lesson_book(Past(ledger, at)) for at in (first, last))
    found = []
    for one in after:
        then = before.lessons.get(one.id)
        was = {**view(then, before.policy), "state": then.state} if then is not None else None
        now = {**view(one, after.policy), "state": one.state}
        if was != now:
            found.append({"id": one.id, "text": one.text, "before": was, "after": now})
    return found


def print_changed(lessons: list[dict[str, Any]]) -> None:
    """Print what `changed_lessons` found."""
    for one in lessons:
        was, now = one["before"], one["after"]
        how = ", ".join(
            f"{name} {was[name]} → {now[name]}" for name in now if was is not None and was[name] != now[name]
        )
        click.secho(f"lesson {short_id(one['id'])}  {how or 'learned'}", bold=True)
        click.echo(safe(f"  {' '.join(one['text'].split())}"))


def as_object(one: Lesson, policy: LessonPolicy) -> dict[str, Any]:
    """Return a lesson as JSON has it."""
    return {
        **fields(one, "id position created_at session_id data confidence effectiveness worth successes failures"),
        **fields(one, "state times_applied banked"),
        "due": one.is_due(policy),
        **fields(one, "proposal bullet"),
    }


def _life(ledger: Ledger, event_id: str) -> list[Event]:
    """Return the lesson's event and all that point to it, or to one that does."""
    found = [event for event in (ledger.event(event_id),) if event is not None]
    for event in ledger.targeting(event_id):
        found += _life(ledger, event.event_id)
    return found
