"""What changed between two moments, and the counting policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.lessons import changed_lessons, print_changed
from reflector.cli.output import (
    fields,
    json_option,
    note,
    print_json,
    safe,
    short_id,
    short_time,
)
from reflector.playbook.counting import COUNTINGS, Counting
from reflector.playbook.names import SECTIONS

if TYPE_CHECKING:
    from reflector.audit.difference import Changed, Difference
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
    from reflector.audit.difference import difference
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
    """Put a counting policy in force; `reflector list --counting POLICY` shows what it would change.

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
