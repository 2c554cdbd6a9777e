"""Commands that change bullets by hand, `undo` of what happened, and `search`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, SECTION
from reflector.cli.output import advice_fields, json_option, note, print_json, safe
from reflector.playbook.change import Change
from reflector.playbook.names import is_name

if TYPE_CHECKING:
    from reflector.curation.changes import Applied, Step
    from reflector.events.event import Event
    from reflector.ledger.store import BulletRow, Ledger
    from reflector.playbook.bullet import Bullet


@dataclass(frozen=True, slots=True)
class Wanted:
    """Changes that a person wants, and what `curation.changes.apply` is told of them."""

    changes: Sequence[Change]
    reason: str | None = None
    target: Mapping[str, str] | None = None
    again: bool = False


#: The option of a command that shows what it would do.
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")


def carried_out(
    place: Place, find: Callable[[Ledger], Wanted], *, dry_run: bool
) -> tuple[Sequence[Step], Sequence[Applied]]:
    """Make the changes that `find` returns for the ledger, or only return what they would do."""
    from reflector.curation.changes import apply, planned

    first = place.project().first_number
    if dry_run:
        with place.reading() as ledger:
            wanted = find(ledger)
            return planned(ledger, wanted.changes, first=first, again=wanted.again), []
    with place.pipeline() as pipeline:
        wanted = find(pipeline.ledger)
        steps = planned(pipeline.ledger, wanted.changes, first=first, again=wanted.again)
        made = apply(
            pipeline.ledger, wanted.changes, actor="human", first=first,
            reason=wanted.reason, target=wanted.target, again=wanted.again,
        )  # fmt: skip
        pipeline.write()
    return steps, made


def _carry_out(place: Place, find: Callable[[Ledger], Wanted], *, dry_run: bool, as_json: bool) -> None:
    """Make the changes that `find` returns for the ledger, or show what they would do."""
    print_steps(place, *carried_out(place, find, dry_run=dry_run), as_json=as_json)


def _change(
    place: Place, *changes: Change, reason: str | None = None, live: bool = True, dry_run: bool, as_json: bool
) -> None:
    """Make changes of bullets, or show what they would do; `live` as for `_named`."""

    def find(ledger: Ledger) -> Wanted:
        _named(ledger, *(name for change in changes for name in change.about), live=live)
        return Wanted(changes, reason)

    _carry_out(place, find, dry_run=dry_run, as_json=as_json)


def print_steps(place: Place, steps: Sequence[Step], made: Sequence[Applied], *, as_json: bool) -> None:
    """Print what changes did, or would do where none was made, and the command that undoes them."""
    undo = place.command("undo", _span([one.position for one in made])) if made else None
    if as_json:
        places: list[dict[str, object]] = [{"position": one.position, "event_id": one.event_id} for one in made] or [
            _NOWHERE
        ] * len(steps)
        changes = [
            {"change": step.change.to_data(), **_sides(step.before, step.after), **at}
            for step, at in zip(steps, places, strict=True)
        ]
        print_json({"applied": bool(made), "changes": changes, "undo": undo})
        return
    for step in steps:
        for line in step.lines:
            click.echo(safe(line))
    note(f"Undo: {undo}" if undo else "Nothing was changed yet; leave --dry-run out to do it.")


_NOWHERE: dict[str, object] = {"position": None, "event_id": None}


def _span(positions: Sequence[int]) -> str:
    first, last = min(positions), max(positions)
    return str(first) if first == last else f"{first}..{last}"


def _sides(before: Sequence[Bullet], after: Sequence[Bullet]) -> dict[str, Any]:
    return {"before": [*map(advice_fields, before)], "after": [*map(advice_fields, after)]}


def _named(ledger: Ledger, *names: str, live: bool = True) -> None:
    """Raise a usage error, with a suggestion, for a name that no bullet ever had; `live` suggests a live bullet."""
    from reflector.cli.playbook import find_bullet

    for name in names:
        find_bullet(ledger, name, live=live)


@click.command()
@click.argument("section", type=SECTION)
@click.argument("text")
@dry_run_option
@json_option
@click.pass_obj
def add(place: Place, section: str, text: str, dry_run: bool, as_json: bool) -> None:
    """Add a bullet under the next free name.

    SECTION is pat (patterns), mis (mistakes to avoid), pref (user preferences), ctx (project context) or oth.
    """
    from reflector.cli.duplicates import alike

    before: list[Bullet] = []

    def find(ledger: Ledger) -> Wanted:
        before.extend(ledger.bullets())
        return Wanted([Change("add", section=section, text=text)])

    _carry_out(place, find, dry_run=dry_run, as_json=as_json)
    for line in alike(text, section, before):
        note(line)


@click.command()
@click.argument("name", type=BULLET)
@click.argument("text")
@dry_run_option
@json_option
@click.pass_obj
def revise(place: Place, name: str, text: str, dry_run: bool, as_json: bool) -> None:
    """Give a bullet another text; its counts stay."""
    _change(place, Change("revise", name, text=text), dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("name", type=BULLET)
@click.argument("section", type=SECTION)
@dry_run_option
@json_option
@click.pass_obj
def move(place: Place, name: str, section: str, dry_run: bool, as_json: bool) -> None:
    """Move a bullet to another section; it keeps its name and its counts."""
    _change(place, Change("move", name, section=section), dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("names", type=BULLET, nargs=-1, required=True, metavar="NAME...")
@click.option("--reason", help="The reason; the ledger keeps it.")
@dry_run_option
@json_option
@click.pass_obj
def remove(place: Place, names: tuple[str, ...], reason: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove bullets; their history stays, and `restore` brings them back."""
    from reflector.text.secrets import quote

    why = quote(reason, 200) if reason is not None else None
    _change(
        place, *(Change("remove", name) for name in dict.fromkeys(names)), reason=why, dry_run=dry_run, as_json=as_json
    )


@click.command()
@click.argument("names", type=BULLET, nargs=-1, required=True, metavar="NAME NAME...")
@click.option("--text", help="What the merged bullet says. Default: what the first one says.")
@click.option("--section", type=SECTION, help="Its section. Default: that of the first one.")
@dry_run_option
@json_option
@click.pass_obj
def merge(
    place: Place, names: tuple[str, ...], text: str | None, section: str | None, dry_run: bool, as_json: bool
) -> None:
    """Merge bullets that say the same into a new one.

    A tag that counted for several of them counts once. The old names still work in citations: what is cited under one
    counts for the new bullet too.
    """

    if len(names) < 2:
        raise click.UsageError(f"a merge is of two or more bullets; `reflector revise {names[0]} TEXT` changes one")

    def find(ledger: Ledger) -> Wanted:
        _named(ledger, *names)
        first = ledger.row(names[0])
        assert first is not None
        merged = Change("merge", None, names, section or first.section, text if text is not None else first.text)
        return Wanted([merged])

    _carry_out(place, find, dry_run=dry_run, as_json=as_json)


def restore_bullet(place: Place, name: str, *, dry_run: bool, as_json: bool) -> None:
    """Bring a removed bullet back, with its counts."""
    _change(place, Change("restore", name), live=False, dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("what", required=False, metavar="[NAME|POSITION|EVENT]")
@click.option("--why", help="The reason, where evidence goes out of the count or comes back.")
@dry_run_option
@json_option
@click.pass_obj
def undo(place: Place, what: str | None, why: str | None, dry_run: bool, as_json: bool) -> None:
    """Undo the last change of the playbook, or the one that you name.

    Name a bullet, for its last change, or what `reflector log --undo` shows: a position, several as 41..43, or an
    event's id. The next `undo` goes further back. What is undone is taken back by a new event, so `undo` of that one
    brings it again. Counts that came since stay. If a later change is in the way, it is named and nothing is undone.
    """
    from reflector.curation.undoing import last_change, undoing

    with place.reading() as ledger:
        named = last_change(ledger) if what is None else _events(ledger, what)

    def find(ledger: Ledger) -> Wanted:
        found = undoing(ledger, named if isinstance(named, list) else [named])
        return Wanted(found.changes, reason="undone", target=found.targets, again=True)

    if isinstance(named, list):
        _carry_out(place, find, dry_run=dry_run, as_json=as_json)
    elif dry_run:
        raise click.UsageError("--dry-run shows changes of bullets; `reflector list --counting` shows other counts")
    else:
        _take_back(place, named, why, as_json=as_json)


def _events(ledger: Ledger, what: str) -> list[Event] | Event:
    """Return the changes of bullets that a person named, or the one event that is something else."""
    from reflector.audit.targets import target_named
    from reflector.curation.undoing import CHANGING, NothingToUndo, approved, last_change
    from reflector.events import event as ev
    from reflector.events.registry import EVENT_TYPES

    what = what.strip().strip("[]")
    if is_name(what):
        _named(ledger, what, live=False)
        return last_change(ledger, what)
    first, dots, last = what.partition("..")
    if dots:
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise click.UsageError(f"{what!r} is not a row of positions, such as 41..43")
        events = list(ledger.events(after=int(first) - 1, upto=int(last), types=CHANGING))
        if not events:
            raise NothingToUndo(f"no position of {what} changed a bullet; see `reflector log --undo`")
        return events
    target = target_named(ledger, what)
    event = target.events[0]
    if event.type == ev.CHANGE_APPROVED:
        return approved(ledger, event)
    if target.kind == "event" and event.type in CHANGING:
        return [event]
    if event.type != ev.POLICY_ADOPTED and (way := EVENT_TYPES[event.type].no_retraction):
        raise NothingToUndo(f"the {event.type} at position {event.position} changed no bullet and no count; {way}")
    if target.kind == "session":
        raise click.UsageError(f"{what!r} is a session; take it out with `reflector retract {what} --why …`")
    return event


def _take_back(place: Place, event: Event, why: str | None, *, as_json: bool) -> None:
    """Take evidence out of the count, put it back, or put the policy in force that was before."""
    from reflector.curation.counts import adopt, moved, policy_before, retract
    from reflector.curation.counts import undo as put_back
    from reflector.events import event as ev

    with place.pipeline() as pipeline:
        ledger, reason = pipeline.ledger, why or f"undid position {event.position}"
        before = ledger.rows()
        if event.type == ev.POLICY_ADOPTED:
            adopted = adopt(ledger, policy_before(ledger, event), reason=reason)
            positions = [adopted.position] if adopted is not None else []
        else:
            take = put_back if event.type == ev.EVIDENCE_RETRACTED else retract
            positions = [one.position for one in take(ledger, [event], reason)]
        changed = moved(before, ledger.rows())
        pipeline.write()
    undone = place.command("undo", _span(positions)) if positions else None
    _print_moved(changed, positions, undone, as_json=as_json)


def _print_moved(
    changed: Sequence[tuple[BulletRow, BulletRow]], positions: Sequence[int], undone: str | None, *, as_json: bool
) -> None:
    if as_json:
        at = {"position": positions[0] if positions else None, "event_id": None}
        changes = [{"change": None, **_sides([old.bullet], [new.bullet]), **at} for old, new in changed]
        print_json({"applied": bool(positions), "changes": changes, "undo": undone})
        return
    for old, new in changed:
        click.echo(safe(f"- {old.bullet.line}\n+ {new.bullet.line}"))
    if not changed:
        note("No counter moved.")
    note(f"Undo: {undone}" if undone else "It was so already.")


@click.command()
@click.argument("query")
@click.option("--section", type=SECTION, help="Only this section.")
@click.option("--limit", type=click.IntRange(1), help="At most so many bullets.")
@click.option("--all", "everything", is_flag=True, help="Include removed bullets.")
@json_option
@click.pass_context
def search(ctx: click.Context, /, query: str, **chosen: Any) -> None:
    """Find bullets by their words, those that fit best first."""
    from reflector.cli.playbook import list_

    ctx.invoke(list_, search=query, **chosen)
