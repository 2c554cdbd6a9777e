"""`reflector proposals`: what the agent proposed, and the decision of a person."""

from __future__ import annotations

from dataclasses import asdict

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, print_json, safe, short_id, short_time, table


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Include decided proposals.")
@json_option
@click.pass_context
def proposals(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """List the agent's proposals; approve or reject them.

    ID is a proposal's id or its beginning.
    """
    if ctx.invoked_subcommand is not None:
        return
    from reflector.curation.proposals import proposals as of

    place: Place = ctx.obj
    with place.reading() as ledger:
        found = [one for one in of(ledger) if everything or one.state == "waiting"]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [
        (short_id(p.id), short_time(p.proposed_at), p.name or p.state, p.section, f"{p.text} ({p.reason})")
        for p in found
    ]
    empty = "Nothing was proposed." if everything else "No proposal waits."
    table(("id", "proposed", "state", "section", "text"), rows, extra=("proposed",), whole=True, empty=empty)


@proposals.command()
@click.argument("id")
@click.pass_obj
def approve(place: Place, id: str) -> None:
    """Add a proposed bullet to the playbook."""
    from reflector.curation.proposals import approve as run
    from reflector.curation.proposals import find

    with place.pipeline() as pipeline:
        bullet = run(pipeline.ledger, find(pipeline.ledger, id), first=pipeline.project.first_number)
        pipeline.write()
    click.echo(safe(bullet.line))


@proposals.command()
@click.argument("id")
@click.option("--why", required=True, help="The reason; the agent gets it when it proposes the same again.")
@click.pass_obj
def reject(place: Place, id: str, why: str) -> None:
    """Decide against a proposed bullet."""
    from reflector.curation.proposals import find
    from reflector.curation.proposals import reject as run

    with place.pipeline() as pipeline:
        run(pipeline.ledger, find(pipeline.ledger, id), why)
        pipeline.write()
