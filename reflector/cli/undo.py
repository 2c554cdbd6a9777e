"""Commands that take something back or pin it: retract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import note, short_id, table

if TYPE_CHECKING:
    from reflector.audit.targets import Target
    from reflector.ledger.store import Ledger


def named(ledger: Ledger, text: str) -> Target:
    """What a text names, or a usage error that tells what it could be."""
    from reflector.audit.targets import UnknownTarget, target_named

    try:
        return target_named(ledger, text)
    except UnknownTarget as error:
        raise click.UsageError(str(error)) from error


@click.command()
@click.argument("what", metavar="SESSION|REFLECTION|EVENT")
@click.option("--why", required=True, help="The reason, for the ledger.")
@click.option("--undo", "undone", is_flag=True, help="Put back what was retracted.")
@click.pass_obj
def retract(place: Place, what: str, why: str, undone: bool) -> None:
    """Take evidence out of the count, or put it back.

    Named is a session (all its windows), a reflection, a tag or an earlier retraction, by its id, the beginning of one,
    or the position that `reflector log` shows. Nothing is subtracted and nothing erased: the counters drop because
    fewer tags count. Retracting a retraction undoes it.
    """
    from reflector.curation.retractions import moved
    from reflector.curation.retractions import retract as take_out
    from reflector.curation.retractions import undo as put_back

    with place.road() as road:
        target = named(road.ledger, what)
        before = road.ledger.rows()
        appended = (put_back if undone else take_out)(road.ledger, target.events, why)
        changed = moved(before, road.ledger.rows())
        road.write()
    positions = ", ".join(str(one.position) for one in appended)
    some = f"{len(appended)} windows" if target.kind == "session" and len(appended) > 1 else f"{target.kind}"
    click.echo(f"{some} {short_id(target.id)}: recorded at {positions}")
    if not changed:
        note("No counter moved: nothing of it had counted, or it is out for another reason as well.")
        return
    rows = [
        (old.name, f"{old.helpful}/{old.harmful}", f"{new.helpful}/{new.harmful}", new.text) for old, new in changed
    ]
    table(("name", "before", "after", "text"), rows, numbers=("before", "after"))
