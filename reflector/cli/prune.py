"""`reflector prune`: bullets that evidence speaks against, removed or proposed for removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, fields, json_option, note, print_json, table
from reflector.config import PRUNES

if TYPE_CHECKING:
    from reflector.audit.pruning import Due
    from reflector.ledger.store import Ledger


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the bullets; change nothing.")
@click.option("--propose", "how", flag_value="propose", help="Propose the removals; a person decides.")
@click.option("--apply", "how", flag_value="apply", help="Remove the bullets; `restore NAME` brings one back.")
@click.option("--after", type=click.IntRange(0), help="Sessions told without a citation; default: prune_after.")
@json_option
@click.pass_obj
def prune(place: Place, dry_run: bool, how: str | None, after: int | None, as_json: bool) -> None:
    """Remove bullets that harm or that no session cites, or propose it.

    A bullet is named if `harmful >= 3 and harmful > helpful`, or if so many sessions were told it and none cited it,
    unless it helped more than it harmed. Pinned bullets stay. The setting `prune` says whether removals are proposed
    or made.
    """
    from reflector.audit.pruning import due

    config = place.project().config
    after = config.prune_after if after is None else after

    def ask(ledger: Ledger) -> list[Due]:
        return due(ledger, after=after, pinned=config.pinned)

    done: list[str] = []
    how = "none" if dry_run else how or config.prune
    if dry_run:
        with place.reading() as ledger:
            found = ask(ledger)
    else:
        with place.pipeline() as pipeline:
            found = ask(pipeline.ledger)
            done = _apply(pipeline.ledger, found) if how == PRUNES[1] else _propose(pipeline.ledger, found)
            pipeline.write()
    if as_json:
        print_json([_fields(one, done[index] if index < len(done) else None) for index, one in enumerate(found)])
        return
    rows = [(one.cited.name, one.reason, one.text) for one in found]
    table(("name", "why", "text"), rows, empty="No bullet is to be removed.")
    if found:
        _tell(place, found, done, how)


def _tell(place: Place, found: Sequence[Due], done: Sequence[str], how: str) -> None:
    if how == "none":
        note("Nothing was changed. Leave --dry-run out to propose the removals, or give --apply to make them.")
    elif how == PRUNES[1]:
        back = place.command("restore", found[0].cited.name)
        note(f"Removed {counted(len(found), 'bullet')}. Bring one back with: {back}")
    else:
        waiting, left = sum(state == "waiting" for state in done), len(found) - len(done)
        note(f"{counted(waiting, 'removal')} proposed. Decide: {place.command('proposals')}")
        if decided := len(done) - waiting:
            note(f"Decided on before, and not proposed again: {decided}.")
        if left:
            note(f"{counted(left, 'more removal')} when fewer proposals wait: run prune again.")


def _fields(one: Due, state: str | None) -> dict[str, object]:
    return {"name": one.cited.name, "reason": one.reason, **fields(one.cited, "told cited helpful harmful"),
            "text": one.text, "state": state}  # fmt: skip


def _apply(ledger: Ledger, found: Sequence[Due]) -> list[str]:
    from reflector.curation.changes import apply
    from reflector.playbook.change import Change

    for one in found:
        apply(ledger, [Change("remove", one.cited.name)], actor="human", reason=f"pruned: {one.reason}")
    return ["removed" for _ in found]


def _propose(ledger: Ledger, found: Sequence[Due]) -> list[str]:
    """Propose removals as long as they push no other proposal away; their states."""
    from reflector.curation.proposals import MOST_WAITING, proposals, propose
    from reflector.playbook.change import Change

    states: list[str] = []
    for one in found:
        change = Change("remove", one.cited.name)
        waiting = proposals(ledger)
        if len(waiting) >= MOST_WAITING and all(other.change != change for other in waiting):
            break
        proposal = propose(ledger, change, origin="rules", trust="agent", reason=one.reason, actor="rules")
        states.append(proposal.state)
    return states
