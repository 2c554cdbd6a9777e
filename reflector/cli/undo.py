"""Commands that take something back or pin it: retract, redact, assert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import note, safe, short_id, table

if TYPE_CHECKING:
    from pathlib import Path

    from reflector.audit.targets import Target
    from reflector.curation.erasure import Erasure
    from reflector.ledger.event import Event
    from reflector.ledger.store import Ledger

#: Events and files that still hold an erased text are named up to so many.
_NAMED = 12


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


@click.command()
@click.argument("what", metavar="REFLECTION|EVENT")
@click.option("--why", required=True, help="The reason, for the ledger; without what is to be erased.")
@click.option("--bullet", "bullets", multiple=True, metavar="NAME", help="Of an import, only this one; repeatable.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def redact(place: Place, what: str, why: str, bullets: tuple[str, ...], yes: bool) -> None:
    """Erase an event's prose for ever; what was counted stays counted.

    Named is an event by its id, the beginning of one, or the position that `reflector log` shows; a reflection means
    its analysis. The chain still verifies, and exports and backups made later do not hold the text. Earlier ones do.
    """
    from reflector.curation.erasure import copies, echoes, erase, forget_copies, planned

    with place.road() as road:
        ledger = road.ledger
        target = named(ledger, what)
        if target.kind == "session":
            raise click.UsageError(f"session {target.id} has many events; name one of `reflector log --session {what}`")
        erasure = planned(ledger, target.events[0], bullets)
        if erasure.earlier is None:
            _ask(erasure, yes=yes)
        appended = erase(ledger, erasure, why)
        road.write()
        removed = forget_copies(road.project.state_dir / "kept", erasure)
        left = copies(road.project.root / ".claude", erasure)
        others = echoes(ledger, erasure)
    if not appended.added:
        click.echo(f"position {erasure.event.position} was redacted at {appended.position}; its file was swept again")
        return
    click.echo(f"position {erasure.event.position} redacted at {appended.position}")
    _tell_what_is_left(removed, left, others)


def _ask(erasure: Erasure, *, yes: bool) -> None:
    import sys

    event = erasure.event
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("what is erased cannot be brought back; say --yes where nobody can be asked")
    for text in erasure.texts[:_NAMED]:
        note(f"  {' '.join(text.split())[:200]}")
    more = f" and {len(erasure.texts) - _NAMED} more" if len(erasure.texts) > _NAMED else ""
    if not click.confirm(f"Erase this{more} from the {event.type} at position {event.position} for ever?", err=True):
        raise click.exceptions.Exit(1)


def _tell_what_is_left(removed: list[Path], left: list[Path], others: list[Event]) -> None:
    for path in removed:
        note(f"removed too: {path}")
    for path in left[:_NAMED]:
        note(f"it still stands in {path}")
    for event in others[:_NAMED]:
        note(
            safe(
                f"position {event.position} ({event.type}) still says the same or belongs to it; "
                f"see `reflector log`, then `reflector redact {event.position} --why …`"
            )
        )


@click.command("assert")
@click.argument("name")
@click.argument("counters", metavar="HELPFUL/HARMFUL")
@click.pass_obj
def assert_(place: Place, name: str, counters: str) -> None:
    """Pin a bullet's counters where they stand, for `verify` to prove.

    HELPFUL/HARMFUL is such as 7/2. Where others stand it is refused, and nothing is recorded.
    """
    from reflector.cli.playbook import find_bullet

    helpful, slash, harmful = counters.partition("/")
    if not slash or not all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (helpful, harmful)):
        raise click.UsageError(f"{safe(counters)!r} is not HELPFUL/HARMFUL, such as 7/2")
    with place.road() as road:
        find_bullet(road.ledger, name)
        appended = road.ledger.assert_counters(name, int(helpful), int(harmful), actor="human")
        road.write()
    click.echo(f"{name} at {int(helpful)}/{int(harmful)}, pinned at position {appended.position}")
