"""Commands that move what is known: import, copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import READ_FILE
from reflector.cli.output import counted, fields, json_option, note, print_json, progress, safe

if TYPE_CHECKING:
    from reflector.exchange.merge import Merged
    from reflector.exchange.transfer import Progress

#: So many entries that the playbook has already are named one by one.
_MOST_KNOWN = 12


@click.command("import")
@click.argument("file", type=READ_FILE)
@click.option(
    "--preserve", is_flag=True, help="Make this empty ledger the one in FILE (an ndjson export), with its chain."
)
@click.option("--merge", is_flag=True, help="Append the events of FILE (an ndjson export) that this ledger lacks.")
@click.option(
    "--rename", is_flag=True, help="With --merge: rename bullets of FILE whose names are taken by other bullets here."
)
@click.option(
    "--ours",
    is_flag=True,
    help="With --merge: keep this ledger's verdicts where FILE has others for the same reflection.",
)
@click.option("--dry-run", is_flag=True, help="Show the bullets that FILE would bring; change nothing.")
@json_option
@click.pass_obj
def import_(
    place: Place, file: Path, preserve: bool, merge: bool, rename: bool, ours: bool, dry_run: bool, as_json: bool
) -> None:
    """Import a playbook or other advice from a file, or another machine's ledger.

    FILE is a playbook.json in any of its forms, a playbook of another system, or Markdown: CLAUDE.md, AGENTS.md, rules
    of an editor, a memory file. Its counters become the baseline. In Markdown each item of a list is a bullet, in the
    section that its heading means; what is left out is listed, and so is each
    entry that a bullet of any section says already. A file with invalid entries is refused as a whole, each
    entry is named, and the file is left alone. Safe to repeat.

    With --preserve, an empty ledger becomes the one that `reflector export --format ndjson` wrote. Every line is
    verified; the first wrong line stops the import, and nothing is imported.

    With --merge, the events of such a file are appended, each once. Both histories stay provable, and bullets and
    counters are the same whichever machine merges the other. Safe to repeat.
    """
    if preserve and merge:
        raise click.UsageError("--preserve makes an empty ledger FILE's, --merge adds FILE to this one; choose one")
    if (rename or ours) and not merge:
        raise click.UsageError("--rename and --ours say how two ledgers are merged; add --merge")
    if dry_run and (preserve or merge):
        raise click.UsageError("--dry-run shows the bullets of a playbook; leave out --preserve and --merge")
    if preserve:
        answer = _preserve(place, file, quiet=as_json)
    elif merge:
        answer = _merge(place, file, rename=rename, ours=ours, quiet=as_json)
    else:
        answer = _adopt(place, file, dry_run=dry_run, quiet=as_json)
    if as_json:
        print_json(answer)


def _adopt(place: Place, file: Path, *, dry_run: bool, quiet: bool) -> dict[str, Any]:
    from reflector.curation.adoption import PlaybookRefused, import_bullets, new_bullets, without_known
    from reflector.files import read_bounded
    from reflector.playbook.document import MAX_BYTES
    from reflector.playbook.markdown import load_any

    with place.pipeline() as pipeline:
        raw = read_bounded(file, MAX_BYTES)
        loaded = load_any(raw, [row.name for row in pipeline.ledger.rows()], pipeline.project.first_number)
        if loaded.problems:
            raise PlaybookRefused(file, loaded.problems)
        loaded, known = without_known(pipeline.ledger, loaded)
        new, undo = new_bullets(pipeline.ledger, loaded, file), None
        if new and not dry_run:
            import_bullets(pipeline.ledger, pipeline.project, loaded, raw, file)
            undo = place.command("undo", str(pipeline.ledger.head().position))
            pipeline.write()
    for text in (*loaded.notes, *known[:_MOST_KNOWN]):
        note(text)
    if len(known) > _MOST_KNOWN:
        note(f"… and {len(known) - _MOST_KNOWN:,} more that bullets say already; --json lists them")
    count = len(new)
    if not quiet:
        for bullet in new if dry_run else ():
            click.echo(safe(bullet.line))
        done = "would be imported" if dry_run else "imported"
        click.echo(f"{counted(count, 'bullet')} {done}" if count else "nothing new in this file")
        if undo is not None:
            note(f"Undo: {undo}")
    lines = [one.line for one in new]
    return {"bullets": count, "notes": [*loaded.notes, *known], "dry_run": dry_run, "lines": lines, "undo": undo}


def _preserve(place: Place, file: Path, *, quiet: bool) -> dict[str, Any]:
    from reflector.curation.playbook_file import settle
    from reflector.exchange.transfer import load
    from reflector.proof.heads import head_line
    from reflector.sessions import locks

    project = place.project()
    state = project.make_state_dir()
    with (
        locks.held(state, "model.lock", wait=True),
        locks.held(state, "drain.lock", wait=True),
        project.open_ledger() as ledger,
        _lines(file, "loading") as (lines, done),
    ):
        end = load(ledger, lines, done)
        aside = settle(ledger, project)
    place.write(project)
    head = head_line(end.position, end.chain)
    if not quiet:
        click.echo(head)
    if aside is not None:
        note(f"playbook.json belonged to another history and was written again; the old file is kept as {aside}")
    return {"head": head, "kept": None if aside is None else str(aside)}


def _merge(place: Place, file: Path, *, rename: bool, ours: bool, quiet: bool) -> dict[str, Any]:
    from reflector.exchange.merge import merge
    from reflector.exchange.transfer import lines_of
    from reflector.proof.heads import head_line

    def lines() -> Iterator[bytes]:
        with file.open("rb") as opened:
            yield from lines_of(opened)

    with place.pipeline() as pipeline:
        with _lines(file, "reading") as (_, done):
            merged = merge(
                pipeline.ledger, lines, rename=rename, ours=ours, first=pipeline.project.first_number, progress=done
            )
        pipeline.write()
    head = head_line(merged.head.position, merged.head.chain)
    if not quiet:
        click.echo(head)
        for old, new in merged.renamed.items():
            click.echo(f"{old} of the file is {new} here")
        _print_merged(merged)
    return {
        "head": head,
        **fields(merged, "added known otherwise"),
        "renamed": dict(merged.renamed),
        "restated": [*merged.restated],
        **fields(merged, "set_aside overlapping forward"),
    }


def _print_merged(merged: Merged) -> None:
    if merged.forward:
        note("This ledger was an earlier state of the file's, and is the same one now.")
        return
    if not merged.added:
        note("Nothing new: every event of the file is here.")
    else:
        note(f"{counted(merged.added, 'event')} merged, {merged.known:,} of the file were already present.")
    if merged.otherwise:
        note(f"{merged.otherwise:,} of these are worded differently in the file; this ledger's wording stays.")
    if merged.restated:
        note(f"Both changed {', '.join(merged.restated)}: the later record counts, see `reflector log`.")
    if merged.set_aside:
        told = f"{counted(merged.set_aside, 'reflection')} set aside"
        note(f"{told}: another judge's on the same window counts; see `reflector blame`.")
    if merged.overlapping:
        told = f"{counted(merged.overlapping, 'window')} of the file share records with windows that were here"
        note(f"{told}; `reflector double-counts` shows what was counted twice.")


@click.command()
@click.option(
    "--to", "url", metavar="URL", required=True, help="The target: sqlite:////path/to/ledger.db or postgresql://…"
)
@json_option
@click.pass_obj
def copy(place: Place, url: str, as_json: bool) -> None:
    """Copy the ledger into an empty one, on either engine; the chain stays what it is.

    Every hash is computed again on the way, and both ledgers have the printed head. A target that has events is
    refused. The project keeps its ledger until `ledger_url` names the copy.
    """
    from reflector.cli.ledger import needs_ledger
    from reflector.exchange.transfer import copy as run
    from reflector.proof.heads import head_line

    needs_ledger(place.project())
    with place.reading() as ledger, progress(ledger.head().position, "copying") as bar:
        end = run(ledger, url, bar.update)
    head = head_line(end.position, end.chain)
    if as_json:
        print_json({"head": head, "events": end.position})
        return
    click.echo(head)
    note(f"{counted(end.position, 'event')} copied. To use that ledger, name it with `ledger_url`.")


@contextmanager
def _lines(file: Path, label: str) -> Iterator[tuple[Iterator[bytes], Progress]]:
    """A file's lines, and a bar as long as its header says."""
    from reflector.exchange.transfer import checked, lines_of

    with file.open("rb") as opened:
        header, _ = checked(lines_of(opened))
        opened.seek(0)
        with progress(header.position, label) as bar:
            yield lines_of(opened), bar.update
