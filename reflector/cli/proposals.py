"""`reflector proposals`: the changes that were proposed, and the decision of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, note, print_json, safe, short_id, short_time, table

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
    from reflector.cli.duplicates import alike_to
    from reflector.curation.proposals import proposals as of
    from reflector.curation.undoing import undone

    place: Place = ctx.obj
    with place.reading() as ledger:
        found, rows_now = of(ledger, waiting=not everything), ledger.rows()
        gone = undone(ledger) if everything else {}
    if as_json:
        print_json([{**as_object(one), "undone_at": gone.get(one.approval or "")} for one in found])
        return
    rows = [
        (
            short_id(p.id),
            short_time(p.proposed_at),
            "undone" if p.approval in gone else p.state,
            *((p.name or "",) if everything else ()),
            p.origin,
            f"{p.change.line} ({p.reason})",
        )
        for p in found
    ]
    empty = "Nothing was proposed." if everything else "No proposal waits."
    columns = ("id", "proposed", "state", *(("bullet",) if everything else ()), "origin", "change")
    table(columns, rows, extra=("proposed",), whole=True, empty=empty)
    waiting = [one for one in found if one.state == "waiting"]
    for one in waiting:
        for line in alike_to(one.change, rows_now):
            note(f"{short_id(one.id)}: {line}")
    if waiting:
        note(f"Decide: {place.command('proposals', 'approve', 'ID')} or reject")


class _Decision(NamedTuple):
    """What to do with a proposal: approve, reject or keep. `text` is the other text of one that is approved, None for
    its own, else the reason."""

    word: str
    id: str
    text: str | None


def as_object(one: Proposal) -> dict[str, object]:
    """Return a proposal as JSON has it."""
    return {**asdict(one), "change": one.change.to_data(), "basis": dict(one.basis or {})}


@proposals.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--text", help="Other words than the proposed ones; for one proposal.")
@click.pass_obj
def approve(place: Place, ids: tuple[str, ...], text: str | None) -> None:
    """Make proposed changes."""
    if text is not None and len(ids) != 1:
        raise click.UsageError("--text is for one proposal")
    _decide(place, [_Decision("approve", id, text) for id in ids])


@proposals.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--why", default="no reason given", help="The reason; the agent gets it when it proposes the same again.")
@click.option("--keep", is_flag=True, help="Of merges: keep the bullets apart, and never propose it again.")
@click.pass_obj
def reject(place: Place, ids: tuple[str, ...], why: str, keep: bool) -> None:
    """Decide against proposed changes."""
    _decide(place, [_Decision("keep" if keep else "reject", id, why) for id in ids])


def _decide(place: Place, decisions: Sequence[_Decision]) -> None:
    """Carry decisions out, each by itself: one that cannot be carried out is named, and the others are."""
    from reflector.curation.bullets import BulletRefused
    from reflector.curation.changes import planned
    from reflector.curation.proposals import approve, find, reject

    refused = []
    with place.pipeline() as pipeline:
        ledger, first = pipeline.ledger, pipeline.project.first_number
        for one in decisions:
            try:
                proposal = find(ledger, one.id)
                if one.word != "approve":
                    keep = proposal.change.about if one.word == "keep" else ()
                    reject(ledger, proposal, one.text or "", keep=keep)
                    continue
                change = proposal.change if one.text is None else replace(proposal.change, text=one.text)
                lines = planned(ledger, [change], first=first) if proposal.state == "waiting" else []
                applied = approve(ledger, proposal, text=one.text, first=first)
            except BulletRefused as error:
                refused.append(str(error))
                continue
            for line in lines[0].lines if lines else ():
                click.echo(safe(line))
            note(f"Undo: {place.command('undo', str(applied.position))}")
        pipeline.write()
    if refused:
        raise click.ClickException("\n".join(refused))
