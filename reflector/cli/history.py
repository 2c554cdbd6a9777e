"""`reflector import-history`: the sessions from before."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, note, os_error_words, table
from reflector.config import BACKENDS

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.transcripts.discovery import Found

#: Files taken in before the project's lock is given to whoever waits for it.
_CHUNK = 25

Plan = list[tuple["Project", list["Found"]]]


@click.command("import-history")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Only sessions that began on this day or later.",
)
@click.option("--all", "everything", is_flag=True, help="Of all projects that still exist, not of this one alone.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the transcripts lie; default: the client's.")
@click.option("--backend", type=click.Choice(BACKENDS), help="Who judges; default: the configured one.")
@click.option("--dry-run", is_flag=True, help="Only show what would be taken in.")
@click.option("--yes", is_flag=True, help="Do not ask before a model is asked.")
@click.pass_obj
def import_history(
    place: Place,
    since: date | None,
    everything: bool,
    folder: Path | None,
    backend: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take in the sessions that the client still has, oldest first.

    Safe to stop and to repeat: what was taken in is not counted again. The project of a session is read from its
    records. Clients remove transcripts after a month, so the earlier the better.
    """
    from reflector.transcripts.discovery import find_transcripts, transcripts_folder

    folder = folder or transcripts_folder()
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is no folder; name the one that holds the transcripts with --folder")
    begin = since.strftime("%Y-%m-%d") if since else ""
    found = [one for one in find_transcripts(folder) if one.started_at >= begin]
    plan = _plan(place, found, backend, everything=everything)
    if not plan:
        note(f"No sessions of this project lie in {folder}." if not everything else f"No sessions lie in {folder}.")
        return
    _show(plan)
    if dry_run:
        return
    _confirm(plan, yes=yes)
    failed = [line for project, files in plan for line in _take_all(project, files)]
    for line in failed:
        note(f"reflector: {line}")
    if failed:
        raise click.exceptions.Exit(1)


def _plan(place: Place, found: Sequence[Found], backend: str | None, *, everything: bool) -> Plan:
    """The projects with their transcripts, oldest first."""
    from reflector.project import Project, find_project

    ordered = sorted(found, key=lambda one: (one.started_at, str(one.path)))
    if not everything:
        project = place.project(backend=backend)
        root = project.root.resolve()
        own = [one for one in ordered if one.cwd and Path(one.cwd).resolve().is_relative_to(root)]
        return [(project, own)] if own else []
    by_root: dict[Path, list[Found]] = {}
    gone = 0
    for one in ordered:
        if one.cwd and Path(one.cwd).is_dir():
            by_root.setdefault(find_project(Path(one.cwd), {"HOME": str(Path.home())}), []).append(one)
        else:
            gone += 1
    if gone:
        note(f"{gone} sessions left out: their folder is gone, or no record names it")
    return [(Project.at(root, flags={"backend": backend}), files) for root, files in by_root.items()]


def _show(plan: Plan) -> None:
    rows = [
        (project.root.name, len(files), f"{sum(one.bytes for one in files) / 2**20:.1f}", *_days(files), project.root)
        for project, files in plan
    ]
    table(("project", "files", "MB", "from", "to", "folder"), rows, numbers=("files", "MB"))


def _days(files: Sequence[Found]) -> tuple[str, str]:
    return files[0].started_at[:10], files[-1].started_at[:10]


def _confirm(plan: Plan, *, yes: bool) -> None:
    """Ask before money is spent: how often, and at most how much."""
    asking = [(project, files) for project, files in plan if project.config.backend == "anthropic"]
    if not asking or yes:
        return
    calls = sum(len(files) for _, files in asking)
    tokens = sum(min(one.bytes // 3, project.config.request_tokens) for project, files in asking for one in files)
    told = f"a model is asked about up to {counted(calls, 'session')}, at most about {tokens:,} tokens"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told}; agree with --yes")
    click.confirm(f"{told[0].upper()}{told[1:]}. Go on?", abort=True)


def _take_all(project: Project, files: Sequence[Found]) -> list[str]:
    """Take a project's transcripts in; the errors of those that could not be."""
    from reflector.hooks.drain import ask_model, open_road
    from reflector.reflection.intake import Source

    failed: list[str] = []
    taken = 0
    is_model = False
    with click.progressbar(
        length=len(files), label=project.root.name, show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        for start in range(0, len(files), _CHUNK):
            with open_road(project) as road:
                assert road is not None  # it waited
                is_model = road.runner.backend.is_model
                for one in files[start : start + _CHUNK]:
                    try:
                        taken += road.take(Source(one.path, "ingest", limit=one.bytes)).event_id is not None
                        road.finish()
                    except OSError as error:
                        failed.append(os_error_words(error, one.path))
                    except ValueError as error:
                        failed.append(f"{one.path}: {error}")
                    bar.update(1)
                road.write()
    if is_model:
        ask_model(project, retry="left")
    note(f"{project.root.name}: {taken} of {counted(len(files), 'file')} had something new")
    return failed
