"""Time and what-if: diff, replay, policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.lessons import changed_lessons, policy_options, print_changed, print_replayed
from reflector.cli.output import (
    counted,
    counters,
    fields,
    json_option,
    note,
    print_json,
    safe,
    short_id,
    short_time,
    table,
)
from reflector.playbook.counting import COUNTINGS, Counting
from reflector.playbook.names import SECTIONS
from reflector.playbook.ranking import RANKINGS

if TYPE_CHECKING:
    from reflector.audit.changes import Changed, Difference
    from reflector.audit.replay import Replay
    from reflector.ledger.rows import BulletRow


@click.command()
@click.argument("span", metavar="A..B")
@json_option
@click.pass_obj
def diff(place: Place, span: str, as_json: bool) -> None:
    """Show how the playbook changed between two moments.

    A and B are positions, times or sessions' ids; without A it is the beginning, without B now. Shows bullets that were
    added, revised, moved and removed, and which sessions moved which counters.
    """
    from reflector.audit.changes import difference
    from reflector.audit.moments import span_of

    with place.reading() as ledger:
        found = difference(ledger, *span_of(ledger, span))
        lessons = changed_lessons(ledger, found.first, found.last)
    if as_json:
        print_json(
            {
                "from": found.first,
                "to": found.last,
                "counting": {"before": found.counting[0], "after": found.counting[1]},
                "bullets": [_changed(one) for one in found.bullets],
                **({"lessons": lessons} if lessons else {}),
            }
        )
        return
    if found.bullets or not lessons:
        _print_difference(found)
    print_changed(lessons)


def _changed(one: Changed) -> dict[str, Any]:
    return {
        "name": one.name,
        "change": _kind(one),
        "before": _state(one.before),
        "after": _state(one.after),
        "recounted": one.recounted,
        "sessions": [asdict(moved) for moved in one.sessions],
    }


def _state(row: BulletRow | None) -> dict[str, Any] | None:
    from reflector.cli.playbook import bullet_fields

    if row is None:
        return None
    return {key: value for key, value in bullet_fields(row).items() if key not in ("name", "position")}


def _kind(one: Changed) -> str:
    """Return the most that happened to a bullet."""
    before, after = one.before, one.after
    live = [row is not None and row.status == "live" for row in (before, after)]
    if live[0] != live[1]:
        return ("added" if before is None else "restored") if live[1] else after.status if after else "removed"
    if before is None or after is None:
        return "came and went"
    return "revised" if before.text != after.text else "moved" if before.section != after.section else "counted"


def _print_difference(found: Difference) -> None:
    if found.counting[0] != found.counting[1]:
        click.echo(f"counting: {found.counting[0]} → {found.counting[1]}")
    if not found.bullets:
        note(f"The playbooks of positions {found.first} and {found.last} are the same.")
        return
    for one in found.bullets:
        before, after = one.before, one.after
        totals = " → ".join(f"{row.helpful}/{row.harmful}" for row in (before, after) if row is not None)
        recounted = ", set by hand" if one.recounted else ""
        click.secho(f"{one.name}  {_kind(one)}  {totals}{recounted}", bold=True)
        if before is None or after is None or before.text != after.text:
            for sign, row in (("-", before), ("+", after)):
                if row is not None:
                    click.echo(safe(f"  {sign} {' '.join(row.text.split())}"))
        if before is not None and after is not None and before.section != after.section:
            click.echo(f"  from {SECTIONS[before.section]} to {SECTIONS[after.section]}")
        if after is not None and after.status != "live":
            click.echo(safe(f"  {after.end}"))
        for moved in one.sessions:
            click.echo(f"  {short_id(moved.session_id) or '(none)'}  {moved.helpful:+d}/{moved.harmful:+d}")


def _total(pair: tuple[int, int]) -> str:
    return f"{pair[0]}/{pair[1]}"


@click.command()
@click.option("--counting", type=click.Choice(COUNTINGS), help="Count under this policy.")
@click.option(
    "--without-session", "sessions", multiple=True, metavar="ID", help="Leave out this session's tags; repeatable."
)
@click.option(
    "--without-backend", "backends", multiple=True, metavar="NAME", help="Leave out this judge's tags; repeatable."
)
@click.option(
    "--precision",
    type=click.IntRange(50, 99),
    help="Leave out the verdicts of `rules` that a stricter `judgement_precision` would not give.",
)
@click.option("--prune", "text", metavar="CONDITION", help="Remove the bullets for which this condition holds.")
@click.option("--ranking", type=click.Choice(RANKINGS), help="Show what sessions would have been told by this ranking.")
@moments.as_of
@click.option("--all", "everything", is_flag=True, help="Include bullets that do not change.")
@policy_options
@json_option
@click.pass_obj
def replay(
    place: Place,
    /,
    counting: Counting | None,
    sessions: tuple[str, ...],
    backends: tuple[str, ...],
    precision: int | None,
    text: str | None,
    ranking: str | None,
    moment: str | None,
    everything: bool,
    as_json: bool,
    **of_lessons: float | None,
) -> None:
    """Show the playbook under another policy or without some evidence.

    Nothing is written. `reflector policy adopt` puts a policy in force, `reflector retract` takes evidence out.
    CONDITION is a comparison, such as 'harmful >= 3 and harmful > helpful'. With an option of lessons, the lessons
    are shown that another policy would see otherwise.
    With --ranking, the newest 200 texts are shown that sessions were told, as that ranking would have chosen them.
    """
    from reflector.audit.replay import judges
    from reflector.audit.replay import replay as ask
    from reflector.cli.audit import session_named
    from reflector.ledger.as_of import Past
    from reflector.playbook.condition import condition

    prune = condition(text) if text is not None else None
    asked = {name: value for name, value in of_lessons.items() if value is not None}
    of_bullets = counting or sessions or backends or precision is not None or text is not None
    if ranking is not None:
        if of_bullets or asked:
            raise click.UsageError("ask for a ranking by itself: it changes no counter and no lesson")
        from reflector.cli.retelling import print_retold

        print_retold(place, moment, ranking, as_json=as_json)
        return
    if asked:
        if of_bullets:
            raise click.UsageError(
                "ask for bullets and for lessons one after the other: they have policies of their own"
            )
        print_replayed(place, moment, asked, as_json=as_json)
        return
    with place.reading() as ledger:
        past = moments.past(ledger, moment) or Past(ledger)
        ids = [session_named(ledger, given) for given in sessions]
        known = judges(ledger, past.position) if backends else []
        for name in backends:
            if name not in known:
                told = f"these did: {', '.join(known)}" if known else "no backend did until then"
                raise click.UsageError(f"no backend {name!r} judged a session here; {told}")
        found = ask(ledger, past, counting=counting, sessions=ids, backends=backends, precision=precision, prune=prune)
    if as_json:
        print_json(_replayed(found))
    else:
        _print_replay(found, everything=everything)


def _replayed(found: Replay) -> dict[str, Any]:
    return {
        "position": found.position,
        "counting": {"before": found.counting[0], "after": found.counting[1]},
        "left_out": found.left_out,
        "bullets": [
            {
                **fields(one.row, "name status"),
                "before": counters(one.row.helpful, one.row.harmful),
                "after": counters(one.helpful, one.harmful),
                **fields(one, "pruned differs"),
            }
            for one in found.bullets
        ],
    }


def _print_replay(found: Replay, *, everything: bool) -> None:
    shown = [one for one in found.bullets if one.row.status == "live" and (everything or one.differs)]
    differing = sum(one.differs for one in shown)
    if shown:
        rows = [
            (
                one.row.name,
                _total((one.row.helpful, one.row.harmful)),
                _total((one.helpful, one.harmful)),
                "removed" if one.pruned else "" if not one.differs else "counted otherwise",
                one.row.text,
            )
            for one in shown
        ]
        table(("name", "is", "would be", "", "text"), rows, numbers=("is", "would be"))
    live = sum(one.row.status == "live" for one in found.bullets)
    out = f", {counted(found.left_out, 'tag')} left out" if found.left_out else ""
    how = f"counting {found.counting[1]}{out}"
    note(f"{differing} of {counted(live, 'bullet')} would differ ({how}); nothing was written.")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def policy(ctx: click.Context, as_json: bool) -> None:
    """Show or change the counting policy."""
    if ctx.invoked_subcommand is not None:
        return
    from reflector.curation.counts import adoptions

    place: Place = ctx.obj
    with place.reading() as ledger:
        counting, adopted = ledger.counting(), adoptions(ledger)
    history = [(event, event.data or {}) for event in adopted]
    if as_json:
        made = [
            {
                **fields(event, "position recorded_at actor"),
                "counting": data.get("counting"),
                "reason": data.get("reason"),
            }
            for event, data in history
        ]
        print_json({"counting": counting, "policies": list(COUNTINGS), "adoptions": made})
        return
    click.echo(counting)
    for event, data in history:
        why = f": {data['reason']}" if data.get("reason") else ""
        when = f"position {event.position}, {short_time(event.recorded_at)}, {event.actor}"
        click.echo(safe(f"  {data.get('counting')} since {when}{why}"))


@policy.command(short_help="Put a counting policy in force.")
@click.argument("name", metavar="POLICY", type=click.Choice(COUNTINGS))
@click.option("--why", help="The reason; the ledger keeps it.")
@click.pass_obj
def adopt(place: Place, name: Counting, why: str | None) -> None:
    """Put a counting policy in force; `reflector replay --counting POLICY` shows what it would change.

    POLICY is as_applied: each tag counts; once_per_reflection: a bullet's equal tags of one reflection count
    once; once_per_session: of one session.
    """
    from reflector.curation.counts import adopt as put_in_force

    with place.pipeline() as pipeline:
        appended = put_in_force(pipeline.ledger, name, reason=why)
        pipeline.write()
    if appended is None:
        note(f"{name} is in force already.")
    else:
        click.echo(f"{name} since position {appended.position}")
