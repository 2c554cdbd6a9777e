"""`reflector rehearse`: what a proposed change would do, from the recorded sessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, json_option, print_json, safe, table

if TYPE_CHECKING:
    from reflector.curator.rehearsal import Rehearsed


@click.command()
@click.argument("id")
@json_option
@click.pass_obj
def rehearse(place: Place, id: str, as_json: bool) -> None:
    """Show what a proposed change would do; changes nothing.

    ID is a proposal's id or its beginning. Shows which recorded sessions would have been told something else, and which
    counters would move.
    """
    from reflector.curation.proposals import find
    from reflector.curator.rehearsal import rehearse as run

    with place.reading() as ledger:
        found = run(ledger, find(ledger, id).change, first=place.project().first_number)
    if as_json:
        print_json({**asdict(found), "change": found.change.to_data()})
        return
    click.echo(safe(found.change.line))
    for line in found.lines:
        click.echo(safe(line))
    click.echo()
    rows = [(name, _counts(before), _counts(after)) for name, (before, after) in found.counters.items()]
    table(("name", "before", "after"), rows, empty="No counter moves.")
    click.echo()
    for text in _told(found):
        click.echo(text)


def _counts(counters: tuple[int, int] | None) -> str:
    return "–" if counters is None else f"{counters[0]}/{counters[1]}"


def _told(found: Rehearsed) -> list[str]:
    if not found.sessions:
        return ["No recorded session says what it was told."]
    more = f"{abs(found.tokens):,} tokens {'more' if found.tokens > 0 else 'less'}"
    lines = [
        f"Of {counted(found.sessions, 'session')} that say what they were told, {found.affected:,} would have been "
        f"told something else: about {more} each."
    ]
    lines += [f"{name} was told to {counted(count, 'session')}." for name, count in found.told.items()]
    if found.told:
        lines.append(f"{counted(found.cited, 'session')} cited them, and {found.judged:,} gave a verdict.")
    return lines
