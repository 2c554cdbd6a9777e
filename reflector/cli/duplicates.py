"""`reflector duplicates`: pairs of bullets that may say the same, or that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import advice_fields, counted, fields, json_option, note, print_json, safe, short_id

if TYPE_CHECKING:
    from reflector.ledger.rows import BulletRow
    from reflector.playbook.bullet import Bullet
    from reflector.playbook.change import Change
    from reflector.playbook.duplicates import Pair


@click.command()
@click.option("--propose", is_flag=True, help="Propose a merge of each pair; contradictions are only shown.")
@json_option
@click.pass_obj
def duplicates(place: Place, propose: bool, as_json: bool) -> None:
    """List pairs of bullets that may say the same or contradict each other.

    A pair has the same words, apart from words that carry no advice, a few synonyms and the order of a list. Texts that
    differ in a number, a name, a path, a command or a negation are never a pair, nor are bullets that you decided to
    keep apart. Bullets of two sections are a pair only where case, punctuation or markup alone differ; they are shown
    with the move after which they can be merged, and not proposed. Nothing is merged before you accept it in
    'reflector proposals'.
    """
    from reflector.curation.proposals import kept_pairs
    from reflector.playbook.duplicates import duplicates as find

    with place.reading() as ledger:
        found = find(ledger.bullets(), kept_pairs(ledger))
    proposed = _propose(place, found) if propose else {}
    if as_json:
        print_json([_document(place, pair, proposed.get(pair.names)) for pair in found])
        return
    for pair in found:
        click.secho(f"{pair.kind}: {safe(pair.why)}", bold=True)
        click.echo(safe(f"  {pair.first.line}\n  {pair.second.line}"))
        if move := _move(place, pair):
            click.echo(f"  to merge them, first: {move}")
        if pair.names in proposed:
            click.echo(f"  proposal {short_id(proposed[pair.names])}")
    if not found:
        note("No two bullets say the same.")
    elif proposed:
        note(f"{counted(len(proposed), 'merge')} waiting. Decide: {place.command('proposals')}")
    elif not propose and any(pair.is_mergeable for pair in found):
        note(f"Propose to merge them: {place.command('duplicates --propose')}")


def alike(text: str, section: str, bullets: Iterable[Bullet]) -> list[str]:
    """Return a line for each bullet that a new text of a section repeats or contradicts."""
    from reflector.playbook.duplicates import near

    lines = []
    for pair in near(text, section, bullets):
        other = pair.first if pair.first.name else pair.second
        says = "says the opposite" if pair.kind == "contradiction" else "may say the same"
        lines.append(f"{other.name} {says} ({pair.why}): {other.text}")
    return lines


def alike_to(change: Change, rows: Sequence[BulletRow]) -> list[str]:
    """Return a line for each other live bullet that the text of a new or revised one repeats or contradicts."""
    if change.kind not in ("add", "revise"):
        return []
    section = change.section or next(row.section for row in rows if row.name == change.name)
    others = [row.bullet for row in rows if row.status == "live" and row.name not in change.about]
    return alike(change.text or "", section, others)


def _propose(place: Place, found: list[Pair]) -> dict[frozenset[str], str]:
    """Propose merges, and return the ids of the proposals that wait by the pairs' names.

    Of pairs that share a bullet only the first: once it is decided on, the other texts meet anew.
    """
    from reflector.curation import proposals as of
    from reflector.playbook.change import Change

    waiting: dict[frozenset[str], str] = {}
    taken: set[str] = set()
    with place.pipeline() as pipeline:
        room = of.MOST_WAITING - len(of.proposals(pipeline.ledger))
        for pair in found:
            if not pair.is_mergeable or pair.names & taken or len(waiting) >= room:
                continue
            names = (pair.first.name, pair.second.name)
            change = Change("merge", names=names, section=pair.first.section, text=pair.text)
            try:
                one = of.propose(pipeline.ledger, change, origin="rules", trust="agent", reason=pair.why, actor="rules")
            except of.ProposalRefused as refused:
                note(f"{' and '.join(names)}: {refused}")
                continue
            if one.state == "waiting":
                waiting[pair.names] = one.id
                taken |= pair.names
        pipeline.write()
    return waiting


def _move(place: Place, pair: Pair) -> str | None:
    """Return the command after which a pair of two sections can be merged."""
    return place.command("move", pair.second.name, pair.first.section) if pair.is_across else None


def _document(place: Place, pair: Pair, proposal: str | None) -> dict[str, Any]:
    return {
        **fields(pair, "kind why"),
        "bullets": [advice_fields(pair.first), advice_fields(pair.second)],
        "text": pair.text if pair.is_mergeable else None,
        "proposal": proposal,
        "move": _move(place, pair),
    }
