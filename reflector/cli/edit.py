"""`reflector edit`: the playbook in an editor.

Invariant: what a person wrote is lost only when it was applied, or said nothing. Until then it is in a file that is
named whenever the command ends without having applied it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from reflector.cli.app import Place
from reflector.cli.arguments import READ_FILE, SECTION
from reflector.cli.changes import Wanted, carried_out, dry_run_option, print_steps
from reflector.cli.output import json_option, note, print_json

if TYPE_CHECKING:
    from reflector.curation.changes import Applied, Step

_Taken = TypeVar("_Taken")


@click.command()
@click.argument("section", type=SECTION, required=False)
@click.option("--from", "source", type=READ_FILE, help="Continue with a text that an earlier `edit` kept.")
@dry_run_option
@json_option
@click.pass_obj
def edit(place: Place, section: str | None, source: Path | None, dry_run: bool, as_json: bool) -> None:
    """Edit the playbook, or one section, in your editor.

    What the text says when you close it is what the playbook says: change a text, put a line under another heading,
    delete a line, or add one without a name. What came meanwhile is merged; where both changed the same bullet, the
    text comes back with both versions. A text without any bullet changes nothing. The editor is $VISUAL or $EDITOR.
    """
    from reflector.curation.editing import opened, taken
    from reflector.files import private_folder

    with place.reading() as ledger:
        text = source.read_text("utf-8") if source is not None else opened(ledger, section)
    file = private_folder(place.project().make_state_dir() / "kept") / f"edit-{os.getpid()}.md"
    again = place.command("edit", *([section] if section else []), "--from", str(file))

    def take(written: str) -> tuple[Sequence[Step], Sequence[Applied]]:
        return carried_out(place, lambda ledger: Wanted(taken(ledger, written, section)), dry_run=dry_run)

    go_on, instead = f"continue with `{again}`", f"edit {place.project().playbook_json}"
    done = edit_until(file, text, take, go_on, instead, fresh=source is None, keep=dry_run)
    if done is not None and done[0]:
        print_steps(place, *done, as_json=as_json)
        if dry_run:
            note(f"The text is kept; continue with `{again}`")
    elif as_json:
        print_json({"applied": False, "changes": [], "undo": None})
    else:
        note("Nothing was changed.")


def edit_until(
    file: Path,
    text: str,
    take: Callable[[str], _Taken],
    go_on: str,
    instead: str,
    *,
    fresh: bool = True,
    keep: bool = False,
) -> _Taken | None:
    """Let a person edit a text until `take` accepts it; None where nothing was written.

    file     where the text is meanwhile; it stays where the person gives up, and with `keep`
    go_on    says then what to do with it
    instead  what to do without a terminal, in which the editor would run
    fresh    whether a text that is left as it is means nothing
    """
    from reflector.curation.bullets import BulletRefused
    from reflector.curation.editing import Clash
    from reflector.playbook.buffer import Slip

    given, editor = text if fresh else None, _editor(instead)
    while True:
        _write(file, text)
        text = _edited(file, editor)
        if text == given or not text.strip():
            file.unlink()
            return None
        try:
            done = take(text)
        except (Slip, BulletRefused, Clash) as error:
            text, given = error.text if isinstance(error, Clash) else text, None
            _write(file, text)
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise click.ClickException(f"{error}; nothing was changed. The text is kept: {go_on}") from error
            note(f"reflector: {error}")
            if not click.confirm("Edit it again?", default=True, err=True):
                raise click.ClickException(f"nothing was changed. The text is kept: {go_on}") from error
            continue
        if not keep:
            file.unlink()
        return done


def _edited(file: Path, editor: str) -> str:
    """Return what a person made of a file in their editor. Raises ClickException where the editor fails."""
    try:
        click.edit(filename=str(file), editor=editor)
    except click.ClickException as error:
        is_missing = isinstance(error.__cause__, OSError)
        what = f"the editor {editor} cannot be started; set EDITOR or VISUAL, such as EDITOR=nano"
        raise click.ClickException(
            f"{what if is_missing else error.format_message()}; nothing was changed. The text is kept in {file}"
        ) from error
    return file.read_text("utf-8")


def _editor(instead: str) -> str:
    """Return the person's editor, or one that is there. Raises UsageError, which says what to do `instead`."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not chosen and not sys.stdin.isatty():
        # One that needs a terminal would wait for it for ever.
        raise click.UsageError(f"there is no terminal for an editor; name one that needs none in $EDITOR, or {instead}")
    found = chosen or next((name for name in ("editor", "nano", "vi", "vim") if shutil.which(name)), None)
    if found is None:
        raise click.UsageError("there is no editor; name yours in $VISUAL or $EDITOR, such as EDITOR=nano")
    return found


def _write(file: Path, text: str) -> None:
    from reflector.files import replace_file

    replace_file(file, text.encode(), 0o600)
