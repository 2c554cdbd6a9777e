"""`reflector import-history`: the sessions from before."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import PATH
from reflector.cli.output import counted, json_option, note, os_error_words, print_json, progress, table
from reflector.config import BACKENDS
from reflector.hooks.agents import AGENTS

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.sessions.history import Imported
    from reflector.transcripts.discovery import Found

    Plan = Sequence[tuple[Project, Sequence[Found]]]


@click.command("import-history")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Only sessions that began on this day or later.",
)
@click.option("--all", "everything", is_flag=True, help="Import the sessions of every project that still exists.")
@click.option(
    "--agent",
    "name",
    type=click.Choice([agent.name for agent in AGENTS.values() if agent.history]),
    default="claude",
    help="Whose sessions.",
    show_default=True,
)
@click.option("--folder", type=PATH, help="The folder of the transcripts; default: the agent's.")
@click.option("--backend", type=click.Choice(BACKENDS), help="The judge; default: the configured one.")
@click.option("--dry-run", is_flag=True, help="Show what would be recorded, and record nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before calling a model.")
@json_option
@click.pass_obj
def import_history(
    place: Place,
    since: date | None,
    everything: bool,
    name: str,
    folder: Path | None,
    backend: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Record the sessions that an agent still keeps, oldest first.

    Safe to stop and to repeat: no record counts twice. The records of a session name its project. Claude Code removes
    transcripts after a month, so import early.
    """
    from reflector.transcripts.discovery import find_transcripts

    agent = AGENTS[name]
    where = folder or agent.folder() / agent.history
    if not where.is_dir():
        if folder is not None:
            raise click.ClickException(
                f"{folder} is not a folder; name the one that holds the transcripts with --folder"
            )
        note(f"Nothing to import: there is no {where}, where {agent.title} keeps its sessions. Elsewhere: --folder")
        if as_json:
            print_json([])
        return
    begin = since.strftime("%Y-%m-%d") if since else ""
    found = [one for one in find_transcripts(where) if one.started_at >= begin]
    plan = _plan(place, found, backend, everything=everything)
    if not plan:
        whose = "of a project that still exists" if everything else "of this project"
        note(f"Nothing to import: no sessions {whose} lie in {where}.")
    elif not as_json:
        _show(plan)
    recorded: dict[Path, Imported] = {}
    if plan and not dry_run:
        _confirm(plan, yes=yes)
        recorded = {project.root: _record(project, files) for project, files in plan}
    if as_json:
        print_json([_as_json(project, files, recorded.get(project.root)) for project, files in plan])
    for done in recorded.values():
        for path, error in done.failed:
            note(f"reflector: {_error_words(path, error)}")
    if any(done.failed for done in recorded.values()):
        raise click.exceptions.Exit(1)


def _as_json(project: Project, files: Sequence[Found], done: Imported | None) -> dict[str, Any]:
    begin, end = _days(files)
    return {
        "project": str(project.root),
        "files": len(files),
        "bytes": sum(one.bytes for one in files),
        "from": begin,
        "to": end,
        "recorded": None if done is None else done.taken,
        "failed": [{"file": str(at), "error": _error_words(at, error)} for at, error in (done.failed if done else ())],
    }


def _error_words(path: Path, error: OSError | ValueError) -> str:
    return os_error_words(error, path) if isinstance(error, OSError) else f"{path}: {error}"


def _plan(
    place: Place, found: Sequence[Found], backend: str | None, *, everything: bool
) -> list[tuple[Project, Sequence[Found]]]:
    """Return the projects with their transcripts, oldest first."""
    from reflector.locate import is_project
    from reflector.project import Project, project_of

    ordered = sorted(found, key=lambda one: (one.started_at, str(one.path)))
    placed = [(one, cwd, project_of(cwd)) for one in ordered if (cwd := _folder_of(one))]
    if not everything:
        project = place.project(backend=backend)
        root = project.root.resolve()
        gone = _gone_worktrees([root])
        own = [
            one
            for one, cwd, at in placed
            # A person may name a project where the rule finds one further up.
            if root == (_within(cwd, gone) or at) or (cwd.is_relative_to(root) and not at.is_relative_to(root))
        ]
        return [(project, own)] if own else []
    gone = _gone_worktrees({at for _, _, at in placed})
    by_root: dict[Path, list[Found]] = {}
    left = len(ordered) - len(placed)
    bare = 0
    for one, cwd, at in placed:
        root = _within(cwd, gone) or at
        if not os.path.isdir(root):  # noqa: PTH112 - a name may be too long
            left += 1
        elif is_project(root.as_posix()):
            by_root.setdefault(root, []).append(one)
        else:
            bare += 1
    if left:
        note(f"{counted(left, 'session')} left out: their folder is gone, or no record names it")
    if bare:
        note(f"{counted(bare, 'session')} left out: their project has no playbook; run `reflector add` there first")
    return [(Project.at(root, flags={"backend": backend}), files) for root, files in by_root.items()]


def _gone_worktrees(roots: Collection[Path]) -> dict[Path, Path]:
    """Linked worktrees that git still lists and whose folder is gone, with their main checkout: no file there says so
    now."""
    from reflector.locate import repository, worktrees

    home = Path.home().resolve().as_posix()
    checkouts = {repository(root.as_posix(), home) or root.as_posix() for root in roots}
    listed = ((Path(path), Path(checkout)) for checkout in checkouts for path in worktrees(checkout))
    return {path: checkout for path, checkout in listed if not path.exists()}


def _within(cwd: Path, gone: Mapping[Path, Path]) -> Path | None:
    """Return the project of a folder of a worktree that is gone: that of the same folder of the main checkout."""
    from reflector.project import project_of

    found = (checkout / cwd.relative_to(path) for path, checkout in gone.items() if cwd.is_relative_to(path))
    return next(map(project_of, found), None)


def _folder_of(one: Found) -> Path | None:
    """Return the folder in which a session worked; None for a path of another system (`D:\\shop`, in a copied
    home), which would lie in any project."""
    cwd = Path(one.cwd)
    try:
        return cwd.resolve() if cwd.is_absolute() else None
    except (OSError, ValueError):  # a NUL in it, half a surrogate pair
        return None


def _show(plan: Plan) -> None:
    rows = [
        (project.root.name, len(files), f"{sum(one.bytes for one in files) / 2**20:.1f}", *_days(files), project.root)
        for project, files in plan
    ]
    table(("project", "files", "MB", "from", "to", "folder"), rows, numbers=("files", "MB"), extra=("from", "to"))


def _days(files: Sequence[Found]) -> tuple[str, str]:
    return files[0].started_at[:10], files[-1].started_at[:10]


def _confirm(plan: Plan, *, yes: bool) -> None:
    """Ask before money is spent: how often, and at most how much. Recorded sessions cost nothing."""
    from reflector.sessions.history import news

    asking = [(project, files) for project, files in plan if BACKENDS[project.config.backend]]
    if not asking or yes:
        return
    sizes = [
        min(new_bytes // 3, project.config.request_tokens)
        for project, files in asking
        for _, new_bytes in news(project, files)
    ]
    if not sizes:
        return
    told = f"a model is asked about up to {counted(len(sizes), 'session')}, at most about {sum(sizes):,} tokens"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told}; agree with --yes")
    click.confirm(f"{told[0].upper()}{told[1:]}. Continue?", abort=True, err=True)


def _record(project: Project, files: Sequence[Found]) -> Imported:
    """Record a project's sessions, and say how many had something new."""
    from reflector.sessions.history import record_history

    # In bytes: one file may be as long as all others together.
    with progress(sum(one.bytes for one in files) or 1, project.root.name) as bar:
        done = record_history(project, files, lambda one: bar.update(one.bytes))
    note(f"{project.root.name}: {done.taken} of {counted(len(files), 'file')} had something new")
    return done
