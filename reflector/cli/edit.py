"""`reflector edit`: playbook.json in an editor, recorded when the editor closes.

Invariant: what a person wrote stays in playbook.json until it is recorded; what cannot be read there is named.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.output import note, safe


@click.command()
@click.pass_obj
def edit(place: Place) -> None:
    """Edit playbook.json in your editor.

    Reword an entry, move it to another section, delete it, or add {"text": "..."} without a name. What you changed is
    recorded when you close the file, and what was counted meanwhile stays. The editor is $VISUAL or $EDITOR.
    """
    from reflector.curation.playbook_file import edited_from, untaken
    from reflector.curation.undoing import CHANGING
    from reflector.events.registry import EVENT_TYPES

    project = place.project()
    file = project.playbook_json
    editor = _editor(file)
    with place.pipeline() as pipeline:
        opened = pipeline.ledger.head().position
    if not file.exists():
        raise click.ClickException(f"there is no bullet to edit; add the first with `{place.command('add')}`")
    given = file.read_bytes()
    while True:
        _open(file, editor)
        with project.open_ledger() as ledger:
            before = ledger.head().position
            edited_from(ledger, project, opened, given)
        with place.pipeline() as pipeline:
            problems = untaken(pipeline.ledger, project)
            events = list(pipeline.ledger.events(after=before, types=CHANGING))
        if not problems:
            break
        if not (sys.stdin.isatty() and sys.stderr.isatty() and click.confirm("Edit it again?", True, err=True)):
            raise click.ClickException(f"nothing was recorded; correct {file}")
    for event in events:
        click.echo(safe(f"{event.type}  {EVENT_TYPES[event.type].summary(event.data or {})}"))
    if not events:
        note("Nothing was changed.")
        return
    first, last = events[0].position, events[-1].position
    note(f"Undo: {place.command('undo', str(first) if first == last else f'{first}..{last}')}")


def _open(file: Path, editor: str) -> None:
    """Let a person edit a file. Raises ClickException where the editor fails."""
    try:
        click.edit(filename=str(file), editor=editor)
    except click.ClickException as error:
        is_missing = isinstance(error.__cause__, OSError)
        what = f"the editor {editor} cannot be started; set EDITOR or VISUAL, such as EDITOR=nano"
        raise click.ClickException(what if is_missing else error.format_message()) from error


def _editor(file: Path) -> str:
    """Return the person's editor, or one that is there. Raises UsageError."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not chosen and not sys.stdin.isatty():
        # One that needs a terminal would wait for it for ever.
        way = f"name one that needs none in $EDITOR, or edit {file}"
        raise click.UsageError(f"there is no terminal for an editor; {way}")
    found = chosen or next((name for name in ("editor", "nano", "vi", "vim") if shutil.which(name)), None)
    if found is None:
        raise click.UsageError("there is no editor; name yours in $VISUAL or $EDITOR, such as EDITOR=nano")
    return found
