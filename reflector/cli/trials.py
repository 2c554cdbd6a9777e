"""`reflector trial`: whether the playbook helps, found out in one's own sessions or on tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import NAME, READ_FILE, agreed, find_bullet, json_option, yes_option
from reflector.cli.output import (
    counted,
    note,
    print_facts,
    print_json,
    progress,
    safe,
    short_time,
    table,
)
from reflector.files import append_named, read_bounded
from reflector.handover import open_own, read_own
from reflector.ledger.store import Ledger
from reflector.playbook_files.mirrors import mirrors
from reflector.playbook_files.watching import exempt
from reflector.trials.outcome import OUTCOMES
from reflector.trials.tasks import (
    Task,
    digest_of,
    pairs,
    perform,
    scripts_in,
    sign_test,
    tasks_in,
    text_of,
)
from reflector.trials.trial import (
    ELSEWHERE,
    Plan,
    TrialStatus,
    keep_note,
    noted,
    plan,
    standing,
    start,
    stop,
    trial_place,
)

#: In the person's own folder of the project: the digests of the commands and files that they agreed
#: to run.
_AGREED = "tasks.txt"
_MOST_AGREED = 1 << 20
_MOST_ADVICE = 1 << 20

_bullet = click.option(
    "--bullet", "names", multiple=True, type=NAME, metavar="NAME", help="Withhold only this bullet."
)
_share = click.option(
    "--share",
    type=click.FloatRange(0.1, 0.9),
    default=0.5,
    show_default=True,
    help="Share of sessions that go without.",
)


@click.group()
def trial() -> None:
    """Find out whether the playbook helps in your own sessions."""


@trial.command("plan")
@_bullet
@_share
@json_option
@click.pass_obj
def plan_(place: Place, names: tuple[str, ...], share: float, as_json: bool) -> None:
    """Show how long a trial would take here; opens none."""
    with place.reading() as ledger:
        found = plan(ledger, bullets=_checked(ledger, names), share=share)
    if as_json:
        print_json(found)
    else:
        _print_plan(found)


@trial.command("start", short_help="Open a trial: some sessions go without.")
@_bullet
@_share
@click.option(
    "--outcome",
    type=click.Choice([*OUTCOMES]),
    default="correction-free",
    show_default=True,
    help="A good session.",
)
@yes_option
@click.pass_obj
def start_(place: Place, names: tuple[str, ...], share: float, outcome: str, yes: bool) -> None:
    """Open a trial: from now on some sessions go without the playbook, or without one bullet.

    Pinned bullets, and those that the agent reads in a file by itself, are never withheld.
    """
    project = place.project()
    with place.reading() as ledger:
        bullets = _checked(ledger, names)
        read = exempt(ledger.bullets(), project.root)
        kept = sorted({*project.config.pinned, *read})
        if mirrored := [one.name for one in mirrors(ledger, project)] if not bullets else []:
            raise click.UsageError(
                f"{', '.join(mirrored)} has the whole playbook, and the agent reads it by itself: "
                "end the mirror with "
                f"`{place.command('mirror --off', mirrored[0])}`, or name a --bullet"
            )
        if taken := [name for name in bullets if name in kept]:
            where = f"stands in {read[taken[0]]}" if taken[0] in read else "is pinned"
            raise click.UsageError(
                f"{taken[0]} {where}, so it cannot be withheld; take it out there first"
            )
        if {row.name for row in ledger.bullets()} <= {*kept}:
            why = (
                "each bullet is pinned, or stands in a file that the agent reads"
                if kept
                else "there is no bullet"
            )
            raise click.UsageError(
                f"there is nothing to withhold: {why}; add another with `{place.command('add')}`"
            )
        found = plan(ledger, bullets=bullets, share=share, outcome=outcome)
    _print_plan(found)
    if found.is_long:
        agreed("Open it all the same?", "such a trial takes more than half a year here", yes=yes)
    with place.changing() as ledger:
        start(
            ledger, trial_place(project), bullets=bullets, exempt=kept, share=share, outcome=outcome
        )
        keep_note(project, ledger, opens=True)
    for name, path in read.items():
        note(f"{name} is told in every session: it stands in {path}")
    what = ", ".join(bullets) or "the playbook"
    click.echo(
        f"From now on {share:.0%} of sessions go without {safe(what)}; see "
        f"`{place.command('trial status')}`"
    )


@trial.command("status")
@json_option
@click.pass_obj
def status_(place: Place, as_json: bool) -> None:
    """Show what the trial says by now; look as often as you like."""
    project = place.project()
    with place.reading() as ledger:
        found = standing(ledger, trial_place(project))
    if as_json:
        print_json(found)
    elif found is None:
        note(f"No trial was opened; `{place.command('trial plan')}` says what one would take.")
    else:
        heads = [("head", f"{head}, noted {short_time(at)}") for head, at in noted(project.root)]
        _print_status(found, heads[-1:])


@trial.command("stop")
@click.pass_obj
def stop_(place: Place) -> None:
    """Close the trial, and record what it shows."""
    with place.changing() as ledger:
        found = stop(ledger, trial_place(place.project()))
    _print_status(found)


@trial.command("run", short_help="Compare on tasks: with the advice and without.")
@click.argument(
    "folder", metavar="TASKS", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--command", required=True, metavar="COMMAND", help=("Your agent; gets the prompt on stdin.")
)
@click.option(
    "--bullet", "name", type=NAME, metavar="NAME", help=("Only this bullet, not the playbook.")
)
@click.option("--file", type=READ_FILE, help="The advice of this file, not the playbook.")
@yes_option
@click.pass_obj
def run_(
    place: Place, folder: Path, command: str, name: str | None, file: Path | None, yes: bool
) -> None:
    """Do each task four times, with the advice, without it, without and with it, and compare.

    A task is a folder with a prompt.md, a shell script named check that exits 0 for a task that was
    done and, if the task needs files to begin with, a folder named files. Nothing of it is recorded
    or counted. You agree once to the command and to each file that it runs; a file that changed
    since needs your agreement again.
    """
    if name is not None and file is not None:
        raise click.UsageError("--bullet and --file are two kinds of advice; leave one of them out")
    tasks = tasks_in(folder)
    if file is not None:
        advice = text_of(file, read_bounded(file, _MOST_ADVICE))
    else:
        with place.reading() as ledger:
            only = find_bullet(ledger, name, live=True).name if name else None
            advice = "\n".join(one.line for one in ledger.bullets() if only in (None, one.name))
    if not advice.strip():
        raise click.UsageError(
            "there is no advice to compare; begin with `reflector add`, or name a --file"
        )
    _agreed_to_run(place.project().root, tasks, command, yes=yes)
    runs = []
    with progress(4 * len(tasks), "at work") as bar:
        for one in perform(tasks, command, advice):
            runs.append(one)
            bar.update(1)
    rows = []
    for told, what in ((True, "with"), (False, "without")):
        arm = [one for one in runs if one.told is told]
        costs = [one.cost for one in arm if one.cost is not None]
        passed, seconds = (
            f"{sum(one.passed for one in arm)}/{len(arm)}",
            sum(one.seconds for one in arm) / len(arm),
        )
        rows.append((what, passed, f"{seconds:.1f}", f"{sum(costs):.2f}" if costs else ""))
    table(("advice", "passed", "seconds", "USD"), rows)
    better, worse = pairs(runs)
    by_chance = f"chance alone parts them so in {sign_test(better, worse):.1%} of cases"
    click.echo(
        f"{counted(len(runs) // 2, 'pair')}: {better} better with it, {worse} worse; {by_chance}"
    )


def _agreed_to_run(root: Path, tasks: Sequence[Task], command: str, *, yes: bool) -> None:
    """Return if a person agreed to run this command and these files, now or before; else ask,
    with their hashes.
    """
    scripts = scripts_in(command, root)
    digest = digest_of(tasks, command, scripts)
    if digest in read_own(str(root), _AGREED, _MOST_AGREED).decode("ascii", "replace").split():
        return
    click.echo(safe(f"runs: {command}"))
    for path, hashed in scripts.items():
        click.echo(safe(f"  {hashed[:16]}  {path}"))
    for task in tasks:
        click.echo(safe(f"{task.name}/prompt.md: {_first_line(task.prompt)}"))
        click.echo(safe(f"{task.name}/check: {task.check.strip()}"))
        for path, hashed in task.hashes.items():
            click.echo(safe(f"  {hashed[:16]}  {path}"))
    agreed("Run this, with these files?", "these commands and files were not agreed to", yes=yes)
    with suppress(OSError):
        append_named(Path(open_own(str(root)), _AGREED), f"{digest}\n".encode())


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    more = f" (and {counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    return lines[0][:200] + more


def _checked(ledger: Ledger, names: tuple[str, ...]) -> list[str]:
    return [find_bullet(ledger, name, live=True).name for name in dict.fromkeys(names)]


def _print_plan(found: Plan) -> None:
    if not found.sessions:
        note(
            "No session is recorded yet, so nothing is known of a trial here; begin with "
            "`reflector history`."
        )
        return
    sessions = f"{counted(found.sessions, 'session')} looked at, {found.weekly:g} a week"
    ended = f"{found.rate:.0%} of them are {found.outcome}; something is known of {found.known:.0%}"
    used = f", used in {found.used:.0%} of them" if found.used < 1 else ""
    click.echo(f"{sessions}; {ended}{used}. With {found.share:.0%} going without:")
    for one in found.lengths:
        late = "not in a year" if one.late is None else f"in {one.late}"
        half = f"half of such trials end in {one.weeks} weeks, 9 of 10 {late}"
        click.echo(f"  {one.points:2} points: {'not in a year' if one.weeks is None else half}")
    if found.lengths[-1].weeks is None:
        note("Too few sessions show it; `reflector trial run` compares on tasks instead.")


def _print_status(found: TrialStatus, heads: Sequence[tuple[str, str]] = ()) -> None:
    rows = [("shows", found.sentence)]
    for what, arm in (("told", found.told), ("without", found.without)):
        rate = f"{arm.rate:.0%} {found.outcome}" if arm.rate is not None else "none yet"
        rows.append((what, f"{counted(arm.sessions, 'session')}, {rate}"))
    rows.append(
        ("waiting", (f"{found.unsettled} of less than a day, {found.unknown} without an outcome"))
    )
    what = safe(", ".join(found.bullets)) or "the playbook"
    state = ELSEWHERE if found.state == "elsewhere" else found.state
    rows.append(("trial", f"{state}; {found.share:.0%} of its sessions without {what}"))
    print_facts([*rows, *heads], 9)
