"""`reflector proposals`: the changes that were proposed, and the decision of a person."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, print_json, safe, short_id, short_time, table

if TYPE_CHECKING:
    from reflector.curation.proposals import Proposal


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Include decided proposals.")
@json_option
@click.pass_context
def proposals(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """List the proposed changes; approve or reject them.

    ID is a proposal's id or its beginning.
    """
    if ctx.invoked_subcommand is not None:
        return
    from reflector.curation.proposals import proposals as of

    place: Place = ctx.obj
    with place.reading() as ledger:
        found = of(ledger, waiting=not everything)
    if as_json:
        print_json([as_object(one) for one in found])
        return
    rows = [
        (short_id(p.id), short_time(p.proposed_at), p.name or p.state, p.origin, f"{p.change.line} ({p.reason})")
        for p in found
    ]
    empty = "Nothing was proposed." if everything else "No proposal waits."
    table(("id", "proposed", "state", "origin", "change"), rows, extra=("proposed",), whole=True, empty=empty)


def as_object(one: Proposal) -> dict[str, object]:
    """Return a proposal as JSON has it."""
    return {**asdict(one), "change": one.change.to_data(), "basis": dict(one.basis or {})}


@proposals.command()
@click.argument("id")
@click.pass_obj
def approve(place: Place, id: str) -> None:
    """Make a proposed change."""
    from reflector.cli.playbook import find_bullet
    from reflector.curation.proposals import approve as run
    from reflector.curation.proposals import find

    with place.pipeline() as pipeline:
        applied = run(pipeline.ledger, find(pipeline.ledger, id), first=pipeline.project.first_number)
        pipeline.write()
        click.echo(safe(find_bullet(pipeline.ledger, applied.name).bullet.line))


@proposals.command()
@click.argument("id")
@click.option("--why", required=True, help="The reason; the agent gets it when it proposes the same again.")
@click.pass_obj
def reject(place: Place, id: str, why: str) -> None:
    """Decide against a proposed change."""
    from reflector.curation.proposals import find
    from reflector.curation.proposals import reject as run

    with place.pipeline() as pipeline:
        run(pipeline.ledger, find(pipeline.ledger, id), why)
        pipeline.write()
