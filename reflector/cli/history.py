"""`reflector import-history`: the sessions from before."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, note, os_error_words, table
from reflector.config import BACKENDS

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.sessions.backfill import Plan
    from reflector.sessions.worker_pool import WorkerPool
    from reflector.transcripts.discovery import Found

#: Below this many bytes processes take longer to start than they save.
_MUCH = 24 * 2**20


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
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that read ahead; default: one a processor where there is much to read.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be taken in.")
@click.option("--yes", is_flag=True, help="Do not ask before a model is asked.")
@click.pass_obj
def import_history(
    place: Place,
    since: date | None,
    everything: bool,
    folder: Path | None,
    backend: str | None,
    jobs: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Record the sessions that Claude Code still keeps, oldest first.

    Safe to stop and to repeat: what was taken in is not counted again. The project of a session is read from its
    records. Clients remove transcripts after a month, so the earlier the better.
    """
    from reflector.transcripts.discovery import find_transcripts, transcripts_folder

    where = folder or transcripts_folder()
    if not where.is_dir():
        if folder is not None:
            raise click.ClickException(f"{folder} is no folder; name the one that holds the transcripts with --folder")
        note(f"Nothing to import: there is no {where}, where Claude Code keeps its sessions. Elsewhere: --folder")
        return
    begin = since.strftime("%Y-%m-%d") if since else ""
    found = [one for one in find_transcripts(where) if one.started_at >= begin]
    plan = _plan(place, found, backend, everything=everything)
    if not plan:
        whose = "of a project that still exists" if everything else "of this project"
        note(f"Nothing to import: no sessions {whose} lie in {where}.")
        return
    _show(plan)
    if dry_run:
        return
    with _pool(plan, jobs) as pool:
        _confirm(plan, pool, yes=yes)
        failed = list(_take_all(plan, pool))
    for line in failed:
        note(f"reflector: {line}")
    if failed:
        raise click.exceptions.Exit(1)


@contextmanager
def _pool(plan: Plan, jobs: int | None) -> Iterator[WorkerPool | None]:
    """Who reads ahead; nobody where there is little to read."""
    from reflector.sessions.worker_pool import WorkerPool, pool_size

    size = pool_size(jobs)
    if not size or (jobs is None and sum(one.bytes for _, files in plan for one in files) < _MUCH):
        yield None
        return
    with WorkerPool(size) as pool:
        yield pool


def _plan(
    place: Place, found: Sequence[Found], backend: str | None, *, everything: bool
) -> list[tuple[Project, Sequence[Found]]]:
    """The projects with their transcripts, oldest first."""
    from reflector.locate import is_project
    from reflector.project import Project

    ordered = sorted(found, key=lambda one: (one.started_at, str(one.path)))
    placed = [(one, cwd, _project_of(cwd)) for one in ordered if (cwd := _folder_of(one))]
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
        if not os.path.isdir(root):  # noqa: PTH112 - a name too long is none
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


def _project_of(cwd: Path) -> Path:
    """The project of a folder, which may be gone; what is named for this command says nothing about it."""
    from reflector.project import find_project

    named = ("CLAUDE_PROJECT_DIR", "REFLECTOR_PROJECT")
    return find_project(cwd, {key: value for key, value in os.environ.items() if key not in named})


def _gone_worktrees(roots: Collection[Path]) -> dict[Path, Path]:
    """Linked worktrees that git still lists and whose folder is gone, with their main checkout: no file there says so
    now."""
    from reflector.locate import repository, worktrees

    home = Path.home().resolve().as_posix()
    checkouts = {repository(root.as_posix(), home) or root.as_posix() for root in roots}
    listed = ((Path(path), Path(checkout)) for checkout in checkouts for path in worktrees(checkout))
    return {path: checkout for path, checkout in listed if not path.exists()}


def _within(cwd: Path, gone: Mapping[Path, Path]) -> Path | None:
    """The project of a folder of a worktree that is gone: that of the same folder of the main checkout."""
    found = (checkout / cwd.relative_to(path) for path, checkout in gone.items() if cwd.is_relative_to(path))
    return next(map(_project_of, found), None)


def _folder_of(one: Found) -> Path | None:
    """Where a session worked. What is no path here (`D:\\shop`, of a home that was copied) would lie in any project."""
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
    table(("project", "files", "MB", "from", "to", "folder"), rows, numbers=("files", "MB"))


def _days(files: Sequence[Found]) -> tuple[str, str]:
    return files[0].started_at[:10], files[-1].started_at[:10]


def _confirm(plan: Plan, pool: WorkerPool | None, *, yes: bool) -> None:
    """Ask before money is spent: how often, and at most how much. What is taken in already costs nothing."""
    from reflector.sessions.backfill import news

    asking = [(project, files) for project, files in plan if BACKENDS[project.config.backend]]
    if not asking or yes:
        return
    sizes = [
        min(new_bytes // 3, project.config.request_tokens)
        for project, files in asking
        for _, new_bytes in news(project, files, pool)
    ]
    if not sizes:
        return
    told = f"a model is asked about up to {counted(len(sizes), 'session')}, at most about {sum(sizes):,} tokens"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told}; agree with --yes")
    click.confirm(f"{told[0].upper()}{told[1:]}. Go on?", abort=True)


def _take_all(plan: Plan, pool: WorkerPool | None) -> Iterator[str]:
    """Take everything in; the errors of the files that could not be."""
    from reflector.sessions.backfill import Backfill

    of = {project.root: files for project, files in plan}
    with ExitStack() as bars:

        def begin(project: Project) -> Callable[[Found], None]:
            # In bytes: one file may be as long as all others together.
            bar = bars.enter_context(
                click.progressbar(
                    length=sum(one.bytes for one in of[project.root]) or 1,
                    label=project.root.name,
                    file=sys.stderr,
                    hidden=not sys.stderr.isatty(),
                )
            )
            return lambda one: bar.update(one.bytes)

        for project, done in Backfill(plan, pool).run(begin):
            bars.close()  # its line ends before the next is written
            note(f"{project.root.name}: {done.taken} of {counted(len(of[project.root]), 'file')} had something new")
            for path, error in done.failed:
                yield os_error_words(error, path) if isinstance(error, OSError) else f"{path}: {error}"
