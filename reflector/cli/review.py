"""`reflector review`: decide on the proposed changes, each with its evidence on the screen."""

from __future__ import annotations

import sys

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, note


@click.command()
@click.pass_obj
def review(place: Place) -> None:
    """Decide on the proposed changes with one key each, the evidence beside them.

    Each decision is written at once. `?` shows the keys. Needs a terminal and the extra `review`; programs
    use 'reflector proposals'.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.ClickException(
            "review needs a terminal; use `reflector proposals --json` with "
            "`reflector proposals approve ID` and `reflector proposals reject ID --why REASON`"
        )
    from reflector.curation.proposals import proposals

    with place.reading() as ledger:
        is_empty = not proposals(ledger)
    if is_empty:
        note("No proposal waits.")
        return
    try:
        from reflector.cli.review_items import load
        from reflector.cli.review_screen import Review
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "textual"):
            raise
        from reflector.resources import install_command

        raise click.ClickException(
            f"review needs the package textual; run: {install_command('review')}\n"
            "`reflector proposals approve ID` decides without it."
        ) from error
    with place.pipeline() as pipeline:
        items, fallen = load(pipeline)
        pipeline.write()
    for one in fallen:
        note(f"Fell away: {one.change.line}. {one.why}")
    if not items:
        return
    screen = Review(place, items)
    screen.run()
    done = ", ".join(f"{number} {how}" for how, number in screen.done.items() if number)
    note(f"{done or 'Nothing decided'}; {counted(len(screen.items), 'proposal')} left.")
