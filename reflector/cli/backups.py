"""Commands that keep the ledger safe: backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, FILE
from reflector.cli.output import json_option, note, print_json
from reflector.playbook.names import is_name

if TYPE_CHECKING:
    from reflector.project import Project


@click.command()
@click.argument("file", type=FILE)
@json_option
@click.pass_obj
def backup(place: Place, file: Path, as_json: bool) -> None:
    """Copy the ledger into a new file, and verify the copy.

    The copy is one state of the ledger; events can be appended meanwhile. Only you can read FILE, and an existing file
    is never overwritten. The printed head proves the copy later: `reflector verify --anchor`.
    """
    from reflector.cli.ledger import needs_ledger
    from reflector.exchange.backup import backup as copy
    from reflector.proof.heads import head_line

    needs_ledger(place.project())
    with place.reading() as ledger:
        end = copy(ledger, file)
    head = head_line(end.position, end.chain)
    if as_json:
        print_json({"head": head, "file": str(file)})
    else:
        click.echo(head)


@click.command()
@click.argument("what", metavar="NAME|FILE", type=BULLET)
@click.option("--force", is_flag=True, help="Of a backup: even if the ledger has events that it lacks.")
@click.option("--dry-run", is_flag=True, help="Of a bullet: show what would change; change nothing.")
@json_option
@click.pass_obj
def restore(place: Place, what: str, force: bool, dry_run: bool, as_json: bool) -> None:
    """Bring a removed bullet back, or put a backup in the place of the ledger.

    NAME is a bullet's, such as pat-003: it is live again under its name, with its counts.

    FILE is a backup. It is verified first and never changed, and the replaced ledger is kept beside it. playbook.json
    is written again; the replaced file is kept too.
    """
    from reflector.cli.changes import restore_bullet

    file = Path(what)
    if is_name(what) and not file.exists():
        if force:
            raise click.UsageError("--force is for a backup")
        restore_bullet(place, what, dry_run=dry_run, as_json=as_json)
    elif dry_run:
        raise click.UsageError("--dry-run is for a bullet")
    elif not file.is_file():
        raise click.UsageError(f"{what!r} is neither the name of a bullet, such as pat-003, nor a file")
    else:
        _restore_ledger(place, file, force, as_json=as_json)


def _restore_ledger(place: Place, file: Path, force: bool, *, as_json: bool) -> None:
    from reflector.curation.playbook_file import checkpoint_of, set_aside
    from reflector.curation.sharing import is_shared
    from reflector.exchange.backup import ledger_file
    from reflector.exchange.backup import restore as put
    from reflector.ledger.url import sqlite_url, url_of
    from reflector.proof.heads import head_line
    from reflector.sessions import locks

    project = place.project()
    present = ledger_file(url_of(project.config.ledger_url or sqlite_url(project.ledger_file)))
    state = project.make_state_dir()
    if present.exists() and present.stat().st_size:
        _take_in(place, project)
    with locks.held(state, "model.lock", wait=True), locks.held(state, "drain.lock", wait=True):
        aside = set_aside(project)
        written = (checkpoint_of(project), aside[1]) if aside is not None else None
        restored = put(file, present, project.config.playbook, force=force, written=written)
    place.write(project)
    head = head_line(restored.position, restored.chain)
    if as_json:
        kept = {"ledger_kept": restored.kept, "playbook_kept": aside[0] if aside is not None else None}
        print_json({"head": head, **{key: None if path is None else str(path) for key, path in kept.items()}})
        return
    click.echo(head)
    if restored.kept is not None:
        note(f"The replaced ledger is kept as {restored.kept}")
    # A session counts for the advice that is there when it is recorded; a kept file without git has its counts with it.
    again = "To record the sessions since that backup again, run `reflector import-history`"
    if aside is not None:
        note(f"playbook.json was written again; the old file is kept as {aside[0]}")
        if is_shared(project.root):
            again += ", after `git checkout .claude/playbook.json`, which brings back the advice that git has"
        else:
            again += f"; after that, `reflector import {aside[0]}` adds the advice that only that file has"
    note(f"{again}.")


def _take_in(place: Place, project: Project) -> None:
    """What a person wrote into playbook.json becomes events first, so that it is not lost unseen."""
    from reflector.curation.adoption import PlaybookRefused
    from reflector.ledger.errors import LedgerError

    try:
        with place.pipeline(project):
            pass
    except (LedgerError, PlaybookRefused) as error:
        note(f"reflector: {error}")
