"""`reflector edit`: the playbook in an editor.

Invariant: what a person wrote is lost only when it was applied, or said nothing. Until then it is in a file that is
named whenever the command ends without having applied it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.arguments import SECTION
from reflector.cli.changes import command, dry_run_option, print_steps
from reflector.cli.output import json_option, note, print_json

if TYPE_CHECKING:
    from reflector.curation.changes import Applied, Step
    from reflector.curation.editing import Clash


@click.command()
@click.argument("section", type=SECTION, required=False)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Go on with a text that an earlier `edit` kept.",
)
@dry_run_option
@json_option
@click.pass_obj
def edit(place: Place, section: str | None, source: Path | None, dry_run: bool, as_json: bool) -> None:
    """Edit the playbook, or one section, in your editor.

    What the text says when you close it is what the playbook says: change a text, put a line under another heading,
    delete a line, or add one without a name. What came meanwhile is merged; where both changed the same bullet, the
    text comes back with both versions. A text without any bullet changes nothing. The editor is $VISUAL or $EDITOR.
    """
    from reflector.curation.bullets import BulletRefused
    from reflector.curation.editing import Clash, opened
    from reflector.files import private_folder
    from reflector.playbook.buffer import Slip

    with place.reading() as ledger:
        text = source.read_text("utf-8") if source is not None else opened(ledger, section)
    file = private_folder(place.project().make_state_dir() / "kept") / f"edit-{os.getpid()}.md"
    _write(file, text)
    given = text if source is None else None
    while True:
        written = edited(file)
        if written in (given, ""):
            file.unlink()
            _print_nothing(as_json=as_json)
            return
        try:
            done = _carry_out(place, written, section, dry_run=dry_run)
        except (Slip, BulletRefused) as error:
            _ask_again(place, file, section, str(error))
            given = None
            continue
        if isinstance(done, Clash):
            _write(file, done.text)
            given = None
            _ask_again(place, file, section, f"others changed {', '.join(done.names)} meanwhile; the text has both")
            continue
        if dry_run and done[0]:
            note(f"The text is kept in {file}: {_go_on(place, file, section)}")
        else:
            file.unlink()
        if done[0]:
            print_steps(place, *done, as_json=as_json)
        else:
            _print_nothing(as_json=as_json)
        return


def edited(file: Path) -> str:
    """Return what a person made of a file in their editor. Raises ClickException where the editor fails."""
    try:
        click.edit(filename=str(file), editor=_editor())
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.format_message()}; nothing was changed. The text is kept in {file}"
        ) from error
    return file.read_text("utf-8")


def _editor() -> str:
    """Return the person's editor, or one that is there."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    found = chosen or next((name for name in ("editor", "nano", "vi", "vim") if shutil.which(name)), None)
    if found is None:
        raise click.UsageError("there is no editor; name yours in $VISUAL or $EDITOR, such as EDITOR=nano")
    return found


def _carry_out(
    place: Place, text: str, section: str | None, *, dry_run: bool
) -> tuple[list[Step], list[Applied]] | Clash:
    from reflector.curation.changes import apply, preview
    from reflector.curation.editing import Clash, taken

    first = place.project().first_number
    if dry_run:
        with place.reading() as ledger:
            wanted = taken(ledger, text, section)
            return wanted if isinstance(wanted, Clash) else (preview(ledger.rows(), wanted, first=first), [])
    with place.pipeline() as pipeline:
        wanted = taken(pipeline.ledger, text, section)
        if isinstance(wanted, Clash):
            return wanted
        steps = preview(pipeline.ledger.rows(), wanted, first=first)
        made = apply(pipeline.ledger, wanted, actor="human", first=first) if wanted else []
        pipeline.write()
    return steps, made


def _ask_again(place: Place, file: Path, section: str | None, why: str) -> None:
    """Ask whether to edit a text again. Raises ClickException, which names the file, where the person does not."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        note(f"reflector: {why}")
        if click.confirm("Edit it again?", default=True, err=True):
            return
    raise click.ClickException(f"{why}; nothing was changed. The text is kept: {_go_on(place, file, section)}")


def _go_on(place: Place, file: Path, section: str | None) -> str:
    return f"go on with `{command(place, 'edit', *([section] if section else []), '--from', str(file))}`"


def _print_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json({"applied": False, "changes": [], "undo": None})
    else:
        note("Nothing was changed.")


def _write(file: Path, text: str) -> None:
    from reflector.files import replace_file

    replace_file(file, text.encode(), 0o600)
