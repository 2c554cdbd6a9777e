"""Recording sessions: history, ingest and drain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from reflector.cli.app import Place
from reflector.cli.options import DAY, PATH, agreed, flag, json_option, judge_option, yes_option
from reflector.cli.output import (
    counting,
    note,
    os_error_words,
    print_json,
    progress,
    say,
    short_id,
    table,
    warn,
)
from reflector.judges.registry import judge_settings
from reflector.reflection.recorder import Reflected
from reflector.sessions import drain as drains
from reflector.sessions.drain import Drained
from reflector.sessions.intake import WindowMode
from reflector.sessions.spool import NOT_A_PAYLOAD
from reflector.text.phrases import counted
from reflector.transcripts.readers import Reader, faults, option_of, readers
from reflector.transcripts.reading import recognise

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.sessions.history import AgentSessions, HistoryPlan, Recorded, RecordedFile


@dataclass
class IngestedJson:
    """The files that `ingest` recorded.

    failed  a line for each other file
    """

    files: list[RecordedFile]
    failed: list[str]


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option(
    "--window",
    type=click.Choice(["new", "whole"]),
    default="new",
    show_default=True,
    help="Read only new records, or all records again.",
)
@judge_option
@json_option
@click.pass_obj
def ingest(place: Place, files: tuple[Path, ...], window: WindowMode, judge: str | None) -> None:
    """Record sessions from transcripts.

    You can repeat `ingest`, because reflector counts no session twice. If `ingest` cannot record a
    file, `ingest` shows the reason and records the other files. If a file could not be recorded, or
    a judge failed, the exit code of `ingest` is 1.
    """
    from reflector.sessions.history import Recorded

    recorded = Recorded()
    readable = _readable(files, recorded) if place.is_untouched else files
    reflected: list[Reflected] = []
    if readable:  # other files do not start a playbook
        reflected = _ingest(
            place, place.project(**judge_settings(judge)), readable, window, recorded
        )
    judged = {reflection.window_id: reflection for reflection in reflected}
    rows = [_judged_file(file, judged) for file in recorded.files]
    failed = [_error_words(path, error) for path, error in recorded.failed]
    _print_ingested(place, rows, failed)
    if failed or any(reflection.outcome == "failed" for reflection in reflected):
        raise click.exceptions.Exit(1)


def _readable(files: Sequence[Path], recorded: Recorded) -> list[Path]:
    """Return the files that are transcripts. Add the others to the failed files."""
    readable: list[Path] = []
    for path in files:
        try:
            recognise(path)
            readable.append(path)
        except (OSError, ValueError) as error:
            recorded.failed.append((path, error))
    return readable


def _ingest(
    place: Place, project: Project, files: Sequence[Path], window: WindowMode, recorded: Recorded
) -> list[Reflected]:
    """Record files, add the results, and return the reflections on them."""
    from reflector.sessions.history import record_file

    with place.pipeline(project) as pipeline:
        with progress(len(files), "recording") as bar:
            for path in files:
                record_file(pipeline, recorded, path, window=window)
                bar.update(1)
        pipeline.write()
    if not pipeline.runner.backend.is_model:
        return pipeline.reflected
    asked = drains.ask_model(project, retry="left", confirmed=len(files))
    return [*pipeline.reflected, *asked.reflected]


def _judged_file(file: RecordedFile, judged: Mapping[str, Reflected]) -> tuple[RecordedFile, str]:
    """Return a file with the outcome of its reflection, and its verdicts in words."""
    reflection = judged.get(file.window_id or "")
    if reflection is None:
        return file, "" if file.window_id else "nothing new"
    file = replace(file, outcome=reflection.outcome)
    if reflection.outcome == "completed":
        return file, reflection.words or "neutral"
    return file, f"{reflection.outcome}: {reflection.detail}"


def _print_ingested(
    place: Place, files: Sequence[tuple[RecordedFile, str]], failed: Sequence[str]
) -> None:
    document = IngestedJson([file for file, _ in files], [*failed])
    if not place.answers(document) and files:
        rows = [
            (
                file.file.name,
                short_id(file.session_id),
                file.records,
                ", ".join(file.cited[:6]),
                verdicts,
            )
            for file, verdicts in files
        ]
        columns = ("file", "session", "new", "cited", "reflection")
        table(columns, rows, prose=("file", "cited", "reflection"))
    for line in failed:
        warn(line)


def _error_words(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder; name the files in the folder, such as {path / '*.jsonl'}"
    return os_error_words(error, path) if isinstance(error, OSError) else f"{path}: {error}"


class _Agent(click.ParamType[Reader]):
    """An agent whose sessions can be read, or the agent of an extension in the settings."""

    name = "agent"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Reader:
        if ctx is not None and isinstance(ctx.obj, Place):
            ctx.obj.project()
        known = {option_of(reader): reader for reader in readers()}
        if value not in known:
            way = "; ".join(faults()) or (
                "To read the sessions of another agent, install a reader for this agent, and "
                "list the reader's name in the setting `readers`."
            )
            self.fail(f"{value!r} is not one of {', '.join(known)}. {way}", param, ctx)
        return known[value]


@click.command()
@click.option(
    "--since",
    type=DAY,
    help="First day to record, such as 2026-11-01.",
)
@click.option(
    "--agent", type=_Agent(), metavar="NAME", help="Agent whose sessions to record (default: all)."
)
@flag("--dry-run", help="List the sessions to record, but record nothing.")
@yes_option
@json_option
@click.pass_obj
def history(
    place: Place,
    since: datetime | None,
    agent: Reader | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Record earlier sessions of this project.

    `history` records the oldest session first. You can stop `history` and run `history` again,
    because reflector counts no session twice. A session that ran before you had a playbook cites no
    rule and changes no count. reflector makes proposals from your requests in earlier sessions,
    even without a playbook. If you make a lasting request, such as "always run the linter",
    reflector proposes the request as a rule immediately. If you make a correction in two sessions,
    such as "no, use rg, not grep", reflector proposes the correction as a rule. If a rule already
    contains your correction, reflector does not make a proposal. Claude Code deletes its sessions
    after a month, and `history` cannot record deleted sessions.
    """
    from reflector.sessions.history import plan_history

    day = since.strftime("%Y-%m-%d") if since is not None else ""
    project = place.project()  # its settings list the readers of other packages
    among = [agent] if agent is not None else readers()
    plan = plan_history(project, among, counting, since=day)
    _print_plan(place, plan, dry_run=dry_run)
    recorded = None
    if plan.files and not dry_run:
        _confirm(plan, yes=yes)
        recorded = _record(place, plan)
    failed = [
        UnreadableJson(path, _error_words(path, error))
        for path, error in (recorded.failed if recorded is not None else ())
    ]
    if place.as_json:
        agents = [
            AgentJson(kept.option, len(kept.files), kept.bytes, *_days(kept))
            for kept in plan.agents
            if kept.files
        ]
        new = len(recorded.new) if recorded is not None else None
        print_json(HistoryJson(plan.project.root, agents, new, failed))
    for fault in faults():
        note(fault)
    for unread in failed:
        warn(unread.error)
    if failed:
        raise click.exceptions.Exit(1)


@dataclass
class UnreadableJson:
    """A transcript that could not be recorded, with the reason."""

    file: Path
    error: str


@dataclass
class AgentJson:
    """The sessions of the project that one agent still keeps, with the first and the last day."""

    agent: str
    files: int
    bytes: int
    from_: str
    to: str


@dataclass
class HistoryJson:
    """The sessions that agents still keep.

    recorded  the number of files with new records; null for a dry run or without files
    """

    project: Path
    agents: list[AgentJson]
    recorded: int | None
    failed: list[UnreadableJson]


def _days(agent: AgentSessions) -> tuple[str, str]:
    return agent.files[0].started_at[:10], agent.files[-1].started_at[:10]


def _print_plan(place: Place, plan: HistoryPlan, *, dry_run: bool) -> None:
    kept = [agent for agent in plan.agents if agent.files]
    if not kept:
        note(_nothing_words(plan))
    elif not place.as_json:
        note("If a session ran before you had a playbook, it cites no rule and changes no count.")
        new = ("new", "cites") if dry_run else ()
        rows = [_plan_row(plan, agent, dry_run=dry_run) for agent in kept]
        table(("agent", "files", *new, "MB", "from", "to"), rows, extra=("from", "to"))
    for agent in plan.agents:
        if agent.compressed:
            words = compressed_words(agent.title, agent.compressed)
            note(
                f"{words}. To record a compressed session, decompress its file and run: reflector "
                "ingest FILE"
            )


def _plan_row(plan: HistoryPlan, agent: AgentSessions, *, dry_run: bool) -> list[object]:
    from reflector.sessions.history import news

    row: list[object] = [agent.title, len(agent.files)]
    if dry_run:
        parts = counting(news(plan.project, agent.files), "reading new sessions")
        fresh = [part for part in parts if part is not None]
        row += [len(fresh), sum(part.cited for part in fresh)]
    return [*row, f"{agent.bytes / 2**20:.1f}", *_days(agent)]


def _nothing_words(plan: HistoryPlan) -> str:
    folders = [folder for agent in plan.agents for folder in agent.folders]
    present = [str(folder) for folder in folders if folder.is_dir()]
    if present:
        return f"Nothing to record: no session of this project is in {', '.join(present)}."
    agents = " or ".join(agent.title for agent in plan.agents)
    return (
        f"Nothing to record: no folder with sessions of {agents} was found. If your "
        f"transcripts are elsewhere, run: reflector ingest FILE"
    )


def compressed_words(title: str, paths: Sequence[Path]) -> str:
    """Return the number of an agent's unread compressed sessions, with the first of them."""
    shown = ", ".join(map(str, paths[:3]))
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"in all projects, reflector cannot read {counted(len(paths), 'compressed session')} of "
        f"{title}: {shown}{more}"
    )


def _confirm(plan: HistoryPlan, *, yes: bool) -> None:
    """Ask before a model reads sessions, with the numbers of sessions and tokens.

    Recorded sessions do not cost anything.
    """
    from reflector.sessions.history import requests_of

    requests = [] if yes else requests_of(plan, counting)
    if requests:
        price = (
            f"Your judge would read up to {counted(len(requests), 'session')} "
            f"(at most {sum(requests):,} tokens)"
        )
        agreed(f"{price}. Continue?", f"{price}. To agree", yes=yes)


def _record(place: Place, plan: HistoryPlan) -> Recorded:
    """Record the sessions of a plan, and note the result."""
    from reflector.cli.install import first_step
    from reflector.sessions.history import record_history

    root = plan.project.root
    # In bytes, because one file may be as long as all others together.
    size = sum(agent.bytes for agent in plan.agents)
    with progress(size or 1, root.name) as bar:
        recorded = record_history(plan, lambda file: bar.update(file.bytes))
    new = recorded.new
    counts = (
        counted(sum(file.records for file in new), "record"),
        counted(sum(len(file.cited) for file in new), "citation"),
    )
    files = counted(len(plan.files), "file")
    note(f"{root.name}: {len(new)} of {files} had new records: {' with '.join(counts)}.")
    if recorded.heard:
        note(f"Your lasting requests: {recorded.proposed} of {recorded.heard} became proposals.")
    if new:
        step = first_step(root) if recorded.is_empty else place.command("list")
        note(f"Next: {place.command('review') if recorded.proposed else step}")
    return recorded


@click.command()
@flag("--retry-failed", help="Retry failed recordings and judgements now.")
@flag(
    "--background",
    help=("Wait longer between retries, as the hooks do."),
)
@json_option
@click.pass_obj
def drain(place: Place, retry_failed: bool, background: bool) -> None:
    """Record sessions and finish judgements.

    Hooks and cron call `drain`. If you want to record and judge sessions yourself, run `reflector
    reflect`. If a judge fails on a session, `drain` asks again, up to the limit in the setting
    `max_attempts`. Attempts without a connection do not count. If `drain` could not record a hook's
    report, or a judge failed, the exit code is 1.
    """
    run_drain(
        place,
        place.project(),
        "all" if retry_failed else "due" if background else "left",
    )


def run_drain(
    place: Place,
    project: Project,
    retry: Literal["all", "due", "left"],
    *,
    confirmed: int | None = None,
) -> None:
    """Process the waiting sessions, and print the results. Exit with 1 if something failed."""
    done = drains.drain_project(
        project, wait=retry != "due", retry=retry, confirmed=confirmed
    ) or Drained(ran=False)
    if not done.ran and not place.as_json:
        note("Another process is recording the waiting sessions.")
    elif not place.answers(done):
        _print_drained(place, done)
        if retry == "all" and not (done.reflected or done.notes or done.failed):
            note("No session waits for a judge.")
    if done.failed or any(item.outcome == "failed" for item in done.reflected):
        raise click.exceptions.Exit(1)


def _print_drained(place: Place, done: Drained) -> None:
    for item in done.reflected:
        if item.outcome == "completed" and item.words:
            say(item.words)
        elif item.outcome == "failed":
            by_hand = f"does not try again automatically (see `{place.command('status')}`)"
            note(
                "reflector could not judge a session, and "
                f"{'will try again' if item.again else by_hand}: {item.detail}"
            )
    for text in done.notes:
        warn(text)
    # A session may have several deliveries, and the error may begin with the file's name.
    failed = {one.delivery: one.error.removeprefix(f"{one.delivery!r} ") for one in done.failed}
    for delivery, error in failed.items():
        again = (
            "; reflector keeps this report and tries again later. To try again now: "
            f"{place.command('reflect')}"
        )
        warn(f"{delivery}: {error}{again if error != NOT_A_PAYLOAD else ''}")
