"""Recording sessions: ingest, import-history and drain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from reflector.cli.app import Place
from reflector.cli.options import PATH, BackendChoice, agreed, json_option, yes_option
from reflector.cli.output import (
    counted,
    counting,
    note,
    os_error_words,
    print_json,
    progress,
    safe,
    short_id,
    table,
)
from reflector.project import Project
from reflector.reflection.recorder import Reflected
from reflector.sessions import drain as drains
from reflector.sessions.drain import Drained
from reflector.sessions.intake import Source, Taken, WindowMode
from reflector.sessions.spool import NOT_A_PAYLOAD
from reflector.transcripts.readers import Reader, option_of, readers, stores
from reflector.transcripts.reading import recognise

if TYPE_CHECKING:
    from reflector.sessions.history import FoundTranscript as Found, Imported


@dataclass(frozen=True, slots=True)
class FileJson:
    """A file that `ingest` recorded; null where nothing of it is new, or not judged yet."""

    file: Path
    session_id: str
    window_id: str | None
    records: int
    cited: list[str]
    outcome: str | None


@dataclass(frozen=True, slots=True)
class IngestedJson:
    """What `ingest` recorded; `failed` has a line for each file that it could not record."""

    files: list[FileJson]
    failed: list[str]


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option(
    "--window",
    type=click.Choice(["new", "whole"]),
    default="new",
    show_default=True,
    help="new: only records that no earlier window has. whole: all records, counted again.",
)
@click.option("--backend", type=BackendChoice(), help=("The judge; default: the configured one."))
@json_option
@click.pass_obj
def ingest(
    place: Place, files: tuple[Path, ...], window: WindowMode, backend: str | None, as_json: bool
) -> None:
    """Record sessions from transcripts; safe to repeat.

    A file that cannot be recorded is named with the reason, and the others are recorded. The exit
    code is 1 if a file or a reflection failed.
    """
    project = place.project(backend=backend)
    found: list[tuple[Path, Taken]] = []
    failed: list[str] = []
    if place.is_untouched and (unread := _unread(files)) and len(unread) == len(files):
        _print_unread(unread, as_json=as_json)
        raise click.exceptions.Exit(1)
    with place.pipeline(project) as pipeline:
        with progress(len(files), "recording") as bar:
            for path in files:
                try:
                    source = Source(path.absolute(), "ingest", limit=path.stat().st_size)
                    found.append((path, pipeline.take(source, window=window)))
                except (OSError, ValueError) as error:
                    failed.append(_error_words(path, error))
                bar.update(1)
        pipeline.finish()
        pipeline.write()
        reflected = pipeline.reflected
        is_model = pipeline.runner.backend.is_model
    if is_model:
        reflected += drains.ask_model(project, retry="left", confirmed=len(files)).reflected
    judged = {item.window_id: item for item in reflected}
    recorded = [_recorded(path, taken, judged) for path, taken in found]
    if as_json:
        print_json(IngestedJson([file for file, _ in recorded], failed))
    elif found:
        rows = [
            (one.file.name, short_id(one.session_id), one.records, ", ".join(one.cited[:6]), words)
            for one, words in recorded
        ]
        columns = ("file", "session", "new", "cited", "reflection")
        table(columns, rows, prose=("file", "cited", "reflection"))
    for line in failed:
        note(f"reflector: {line}")
    if failed or any(one.outcome == "failed" for one in reflected):
        raise click.exceptions.Exit(1)


def _unread(files: Sequence[Path]) -> list[str]:
    """Return a line for each file that is no transcript: files that are none begin no playbook."""
    unread = []
    for path in files:
        try:
            recognise(path)
        except (OSError, ValueError) as error:
            unread.append(_error_words(path, error))
    return unread


def _print_unread(unread: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json(IngestedJson([], unread))
    for line in unread:
        note(f"reflector: {line}")


def _recorded(path: Path, taken: Taken, judged: Mapping[str, Reflected]) -> tuple[FileJson, str]:
    """Return a file as JSON has it, and what became of it in words."""
    one = judged.get(taken.event_id or "")
    outcome = one.outcome if one else None
    file = FileJson(path, taken.session_id, taken.event_id, taken.records, [*taken.cited], outcome)
    if one is None:
        return file, "" if taken.event_id else "nothing new"
    if one.outcome == "completed":
        return file, one.words or "neutral"
    return file, f"{one.outcome}: {one.detail}"


class _DatedAgents(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """The agents whose sessions can be put in order; their readers are loaded when it is asked."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(map(option_of, _dated_readers()))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name of an agent; the readers of extensions are those of the settings."""
        place: Place | None = ctx.obj if ctx is not None else None
        if place is not None:
            place.project()
        return super().convert(value, param, ctx)


def _dated_readers() -> list[Reader]:
    return [reader for reader in readers() if any(kept.has_days for kept in reader.kept)]


@click.command("import-history")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Only sessions that began on this day or later.",
)
@click.option(
    "--agent",
    "name",
    type=_DatedAgents(),
    default="claude",
    help="Whose sessions.",
    show_default=True,
)
@click.option("--dry-run", is_flag=True, help="Show what would be recorded, and record nothing.")
@yes_option
@json_option
@click.pass_obj
def import_history(
    place: Place, since: date | None, name: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Record the sessions that an agent still keeps, oldest first.

    Counts the bullets that these sessions cite; those from before you had a playbook cite none.
    What people asked for in them, such as "always run the linter", becomes a proposal. With
    --dry-run, `new` is how many files have new records, and `cites` how many bullets these cite.
    Safe to stop and to repeat: no record counts twice. The records of a session name its project.
    Claude Code removes transcripts after a month, so import early.
    """
    # the rest of this file serves every session's end, which needs none of it
    from reflector.sessions import history

    agent = next(reader for reader in _dated_readers() if option_of(reader) == name)
    kept_folders = stores([agent])
    places = [store.kept.folder for store in kept_folders]
    where = places[0]
    begin = since.strftime("%Y-%m-%d") if since else ""
    project = place.project()
    looking = f"looking at the sessions in {where}"
    everything = (
        path
        for store in kept_folders
        if store.kept.folder.is_dir()
        for path in history.find_transcripts(store.kept.folder, store.kept.pattern)
    )
    found = counting(everything, looking)
    mine = (one for one in found if one.started_at >= begin and history.in_project(project, one))
    files = sorted(mine, key=lambda one: (one.started_at, str(one.path)))
    if not files:
        gone = f"there is no {where}, where {agent.name} keeps its sessions. Elsewhere: `ingest`"
        lie = " or ".join(str(place) for place in places if place.is_dir())
        note(f"Nothing to import: {f'no sessions of this project lie in {lie}.' if lie else gone}")
    elif not as_json:
        _show_plan(project, files, dry_run=dry_run)
    if unread := history.compressed(places):
        note(f"{compressed_words(agent.name, unread)}. Unpack one, then run: reflector ingest FILE")
    if not dry_run:
        _confirm(project, files, yes=yes)
    done = _record(project, files) if files and not dry_run else None
    failed = [
        UnreadableJson(at, _error_words(at, error)) for at, error in (done.failed if done else ())
    ]
    if as_json:
        what = project.root, len(files), sum(one.bytes for one in files)
        recorded = done.taken if done else None
        print_json([HistoryJson(*what, *_days(files), recorded, failed)] if files else [])
    for one in failed:
        note(f"reflector: {one.error}")
    if failed:
        raise click.exceptions.Exit(1)


def compressed_words(title: str, paths: Sequence[Path]) -> str:
    """Return how many compressed sessions of an agent are not read, with the first ones."""
    shown = ", ".join(str(path) for path in paths[:3])
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"{counted(len(paths), 'compressed session')} of {title} cannot be read, of any "
        f"project: {shown}{more}"
    )


@dataclass(frozen=True, slots=True)
class UnreadableJson:
    """A transcript that could not be recorded, and why."""

    file: Path
    error: str


@dataclass(frozen=True, slots=True)
class HistoryJson:
    """The sessions of a project that an agent still keeps; `recorded` is null for a dry run."""

    project: Path
    files: int
    bytes: int
    from_: str
    to: str
    recorded: int | None
    failed: list[UnreadableJson]


def _error_words(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"{path}: is a folder; name the files in it, such as {path / '*.jsonl'}"
    return os_error_words(error, path) if isinstance(error, OSError) else f"{path}: {error}"


def _show_plan(project: Project, files: Sequence[Found], *, dry_run: bool) -> None:
    from reflector.sessions import history

    note(
        "Sessions from before you had a playbook cite no bullet: they can bring proposals, but "
        "change no counter."
    )
    fresh = list(counting(history.news(project, files), "reading new sessions")) if dry_run else []
    found = {"new": len(fresh), "cites": sum(cites for _, cites in fresh)} if dry_run else {}
    size = f"{sum(one.bytes for one in files) / 2**20:.1f}"
    row = (project.root.name, len(files), *found.values(), size, *_days(files), project.root)
    table(("project", "files", *found, "MB", "from", "to", "folder"), [row], extra=("from", "to"))


def _days(files: Sequence[Found]) -> tuple[str, str]:
    return files[0].started_at[:10], files[-1].started_at[:10]


def _confirm(project: Project, files: Sequence[Found], *, yes: bool) -> None:
    """Ask before money is spent: how often, and at most how much. Recorded sessions cost
    nothing.
    """
    from reflector.sessions import history

    config = project.config
    if yes or not config.asks_model:
        return
    if sizes := [min(size // 3, config.request_tokens) for size, _ in history.news(project, files)]:
        told = (
            f"a model is asked about up to {counted(len(sizes), 'session')}, at most about "
            f"{sum(sizes):,} tokens"
        )
        agreed(f"{told[0].upper()}{told[1:]}. Continue?", told, yes=yes)


def _record(project: Project, files: Sequence[Found]) -> Imported:
    """Record a project's sessions, and say how many had something new."""
    from reflector.cli.install import first_step
    from reflector.sessions import history

    # In bytes: one file may be as long as all others together.
    with progress(sum(one.bytes for one in files) or 1, project.root.name) as bar:
        done = history.record_history(project, files, lambda one: bar.update(one.bytes))
    found = (
        f"{done.taken} of {counted(len(files), 'file')} had something new; "
        f"{counted(done.records, 'record')}, "
        f"{counted(done.cited, 'bullet')} cited, {counted(done.wishes, 'change')} asked for"
    )
    note(f"{project.root.name}: {found}")
    if done.taken:
        step = first_step(project.root) if done.is_empty else "reflector list"
        note(f"Next: {'reflector proposals' if done.wishes else step}")
    return done


@click.command()
@click.option("--retry-failed", is_flag=True, help="Retry failed deliveries and reflections now.")
@click.option(
    "--background",
    is_flag=True,
    help=("Started by a hook: wait longer between retries, and for no other."),
)
@json_option
@click.pass_obj
def drain(place: Place, retry_failed: bool, background: bool, as_json: bool) -> None:
    """Process queued hook deliveries and finish pending reflections.

    Hooks and cron call it; `reflector reflect` does the same for a person. Retries failed
    reflections until their attempts are used up; a drain that a hook started waits longer between
    attempts. An outage of the API uses up no attempt. The exit code is 1 if a delivery or a
    reflection failed.
    """
    run_drain(
        place,
        place.project(),
        "all" if retry_failed else "due" if background else "left",
        as_json=as_json,
    )


def run_drain(
    place: Place,
    project: Project,
    retry: Literal["all", "due", "left"],
    *,
    as_json: bool,
    confirmed: int | None = None,
) -> None:
    """Process what waits, and print what came of it; exit with 1 if something failed."""
    done = drains.drain_project(
        project, wait=retry != "due", retry=retry, confirmed=confirmed
    ) or Drained(ran=False)
    if as_json:
        print_json(done)
    elif not done.ran:
        note("Another drain is running; it processes the spool.")
    else:
        _print_drained(place, done)
    if done.failed or any(item.outcome == "failed" for item in done.reflected):
        raise click.exceptions.Exit(1)


def _print_drained(place: Place, done: Drained) -> None:
    for item in done.reflected:
        if item.outcome == "completed" and item.words:
            click.echo(safe(item.words))
        elif item.outcome == "failed":
            by_hand = f"it is tried again by hand only: {place.command('status')}"
            note(
                f"reflection failed, {'it will be tried again' if item.again else by_hand}: "
                f"{item.detail}"
            )
    for text in done.notes:
        note(f"reflector: {text}")
    for one in done.failed:
        again = f"; kept and tried again later, or now with: {place.command('reflect')}"
        note(f"reflector: {one.delivery}: {one.error}{again if one.error != NOT_A_PAYLOAD else ''}")
