"""`reflector trial`: whether the playbook helps, measured in your own sessions or on tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import (
    NAME,
    agreed,
    find_bullet,
    find_own_bullet,
    flag,
    json_option,
    yes_option,
)
from reflector.cli.output import (
    note,
    print_facts,
    progress,
    safe,
    say,
    short_time,
    table,
)
from reflector.files import append_named, read_bounded
from reflector.handover import open_own, read_own
from reflector.ledger.store import Ledger
from reflector.playbook.ranking import pinned_names
from reflector.playbook_files.mirrors import mirrors
from reflector.playbook_files.watching import exempt
from reflector.text.phrases import counted
from reflector.trials.outcome import OUTCOMES
from reflector.trials.plan import Plan, plan
from reflector.trials.statistics import Arm
from reflector.trials.tasks import (
    Run,
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
    TrialStatus,
    current_status,
    keep_note,
    noted,
    start,
    stop,
    trial_place,
)

#: The file in the user's own folder of the project with the digests of the commands and files that
#: the user agreed to run.
_AGREED = "tasks.txt"
_MOST_AGREED = 1 << 20
_MOST_ADVICE = 1 << 20

_names = click.argument("names", nargs=-1, type=NAME, metavar="[NAME]...")


@click.group()
def trial() -> None:
    """Measure whether the playbook helps."""


@trial.command("plan", short_help="Show how long a trial would take.")
@_names
@json_option
@click.pass_obj
def plan_(place: Place, names: tuple[str, ...]) -> None:
    """Show how long a trial would take in this project.

    A trial withholds the playbook, or only the rules NAME, from half of your sessions. `trial plan`
    does not start a trial.
    """
    with place.reading() as ledger:
        planned = plan(ledger, bullets=_checked(place, ledger, names))
    if not place.answers(planned):
        _print_plan(planned)


@trial.command("start", short_help="Start a trial, which withholds rules.")
@_names
@click.option(
    "--outcome",
    type=click.Choice([*OUTCOMES]),
    default="correction-free",
    show_default=True,
    help="Measure of a session's success.",
)
@flag("--placebo", help="Give neutral lines to a third of the sessions.")
@yes_option
@click.pass_obj
def start_(place: Place, names: tuple[str, ...], outcome: str, placebo: bool, yes: bool) -> None:
    """Start a trial.

    A trial withholds the playbook, or only the rules that you name, from half of your next
    sessions.

    With --placebo, a third of your sessions get the rules, a third get neutral lines of the same
    length, and a third get nothing. A trial never withholds pinned rules, or rules in files that
    the agent loads.
    """
    project = place.project()
    with place.reading() as ledger:
        bullets = _checked(place, ledger, names)
        read = exempt(ledger.bullets(), project.root)
        kept = sorted({*pinned_names(project.config.pinned, ledger.rows()), *read})
        _refuse_useless(place, ledger, bullets, kept, read)
        planned = plan(ledger, bullets=bullets, outcome=outcome)
    _print_plan(planned, placebo=placebo)
    if planned.is_long:
        agreed(
            "Start this trial anyway?",
            "a trial of this length takes more than half a year",
            yes=yes,
        )
    with place.changing() as ledger:
        start(
            ledger,
            trial_place(project),
            bullets=bullets,
            exempt=kept,
            share=planned.share,
            outcome=outcome,
            placebo=placebo,
        )
        keep_note(project, ledger, opens=True)
    for name, path in read.items():
        note(f"{name} is shown in every session, because {path} contains this rule")
    withheld = safe(", ".join(bullets)) or "the playbook"
    arms = f"{planned.share:.0%} of sessions do not get {withheld}"
    if placebo:
        arms = (
            f"a third of your sessions do not get {withheld}, and another third get neutral lines "
            "instead"
        )
    say(f"From now on, {arms}. To see the result of the trial: {place.command('trial status')}")


def _refuse_useless(
    place: Place, ledger: Ledger, bullets: list[str], kept: list[str], read: Mapping[str, str]
) -> None:
    """Raise UsageError for a trial that cannot withhold anything, or not the rules it names."""
    mirrored = [mirror.name for mirror in mirrors(ledger, place.project())]
    if mirrored:
        end = place.command("mirror --off", mirrored[0])
        raise click.UsageError(
            f"a trial cannot hide rules, because the agent always reads {', '.join(mirrored)}, "
            f"and this file contains the whole playbook. First remove this copy with `{end}`, "
            "then move the file's own rules into the playbook with "
            f"`{place.command('adopt --move')}`"
        )
    for name in bullets:
        if name in kept:
            where, way_out = "is pinned", "first unpin the rule"
            if name in read:
                where, way_out = f"is also in {read[name]}", f"remove {name} there"
            raise click.UsageError(
                f"{name} {where}, so a trial cannot withhold this rule; {way_out}"
            )
    if {row.name for row in ledger.bullets()} <= {*kept}:
        why = "each rule is pinned, or in a file that the agent reads" if kept else "no rule exists"
        raise click.UsageError(
            f"a trial cannot withhold any rule, because {why}; add a rule with "
            f"`{place.command('add')}`"
        )


@trial.command("status")
@json_option
@click.pass_obj
def status_(place: Place) -> None:
    """Show the current result of the trial."""
    project = place.project()
    with place.reading() as ledger:
        found = current_status(ledger, trial_place(project))
    if place.answers(found):
        return
    if found is None:
        plan_command = place.command("trial plan")
        note(
            f"This project has not had a trial. To see how long a trial would take: {plan_command}"
        )
    else:
        heads = [("head", f"{head}, noted {short_time(at)}") for head, at in noted(project.root)]
        _print_status(found, heads[-1:])


@trial.command("stop")
@click.pass_obj
def stop_(place: Place) -> None:
    """End the trial, and record its result."""
    with place.changing() as ledger:
        found = stop(ledger, trial_place(place.project()))
    _print_status(found)


@trial.command("run", short_help="Compare runs of tasks, with and without advice.")
@click.argument(
    "folder", metavar="TASKS", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.argument("command", metavar="COMMAND")
@click.argument("advice", metavar="[NAME|FILE]", required=False)
@yes_option
@click.pass_obj
def run_(place: Place, folder: Path, command: str, advice: str | None, yes: bool) -> None:
    """Compare runs of tasks, with and without advice.

    `trial run` runs each task four times: twice with the advice and twice without the advice.

    The advice is the playbook, the rule NAME, or the text of FILE. COMMAND starts your agent, and
    reads the task's prompt from stdin. A task is a folder with a file prompt.md and a shell script
    named check. If the agent has done the task, the script check exits with 0. A task's folder can
    also have a folder named files, with the files that the agent works on. `trial run` records
    nothing and changes no counts. Before the first run, `trial run` asks you to confirm COMMAND and
    each file of the tasks. If a file has changed, `trial run` asks you again.
    """
    tasks = tasks_in(folder)
    text = _advice(place, advice)
    _agreed_to_run(place.project().root, tasks, command, yes=yes)
    runs: list[Run] = []
    with progress(4 * len(tasks), "at work") as bar:
        for run in perform(tasks, command, text):
            runs.append(run)
            bar.update(1)
    _print_runs(runs)


def _advice(place: Place, advice: str | None) -> str:
    """Return the text of a file or of a rule, or of the whole playbook."""
    if advice is not None and Path(advice).is_file():
        text = text_of(Path(advice), read_bounded(Path(advice), _MOST_ADVICE))
        fault = f"{advice} is empty, so there is nothing to compare; give a file with text"
    else:
        with place.reading() as ledger:
            name = NAME.convert(advice, None, None) if advice is not None else None
            only = find_bullet(ledger, name).name if name is not None else None
            text = "\n".join(row.line for row in ledger.bullets() if only in (None, row.name))
        fault = (
            "the playbook is empty, so there is nothing to compare; add a rule with `reflector "
            "add`, or give a file"
        )
    if not text.strip():
        raise click.UsageError(fault)
    return text


def _print_runs(runs: Sequence[Run]) -> None:
    rows = []
    for is_told in (True, False):
        arm = [run for run in runs if run.told is is_told]
        costs = [run.cost for run in arm if run.cost is not None]
        seconds = sum(run.seconds for run in arm) / len(arm)
        rows.append(
            (
                "with" if is_told else "without",
                f"{sum(run.passed for run in arm)}/{len(arm)}",
                f"{seconds:.1f}",
                f"{sum(costs):.2f}" if costs else "",
            )
        )
    table(("advice", "passed", "seconds", "USD"), rows)
    better, worse = pairs(runs)
    say(
        f"{counted(len(runs) // 2, 'pair')} of runs: with the advice, {better} were better and "
        f"{worse} were worse. If the advice had no effect, {sign_test(better, worse):.1%} of such "
        "trials would show this difference or a larger one."
    )


def _agreed_to_run(root: Path, tasks: Sequence[Task], command: str, *, yes: bool) -> None:
    """Return if the user agreed to run this command and these files, now or before.

    Otherwise, ask with the hashes of the files.
    """
    scripts = scripts_in(command, root)
    digest = digest_of(tasks, command, scripts)
    if digest in read_own(str(root), _AGREED, _MOST_AGREED).decode("ascii", "replace").split():
        return
    say(f"runs: {command}")
    for path, hashed in scripts.items():
        say(f"  {hashed[:16]}  {path}")
    for task in tasks:
        say(f"{task.name}/prompt.md: {_first_line(task.prompt)}")
        say(f"{task.name}/check: {task.check.strip()}")
        for path, hashed in task.hashes.items():
            say(f"  {hashed[:16]}  {path}")
    agreed(
        "Run this command with these files?",
        "you have not yet allowed this command and these files",
        yes=yes,
    )
    with suppress(OSError):
        append_named(Path(open_own(str(root)), _AGREED), f"{digest}\n".encode())


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    more = f" (and {counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    return lines[0][:200] + more


def _checked(place: Place, ledger: Ledger, names: tuple[str, ...]) -> list[str]:
    return [find_own_bullet(place, ledger, name).name for name in dict.fromkeys(names)]


def _print_plan(found: Plan, *, placebo: bool = False) -> None:
    if not found.sessions:
        note(
            "No session is recorded yet, so the length of a trial is unknown; record sessions "
            "with `reflector history`."
        )
        return
    sessions = f"Your last {counted(found.sessions, 'session')} ({found.weekly:g} a week)"
    ended = f"{found.rate:.0%} were {found.outcome} (outcome known for {found.known:.0%})"
    used = f", and {found.used:.0%} used rules" if found.used < 1 else ""
    say(f"{sessions}: {ended}{used}.")
    say(f"If {found.share:.0%} of sessions do not get the playbook, trials detect these changes:")
    for length in found.lengths:
        late = f"9 of 10 trials end within {length.late} weeks"
        if length.late is None:
            late = "fewer than 9 of 10 trials end within a year"
        half = f"half of such trials end within {length.weeks} weeks, {late}"
        ends = "such trials do not end within a year" if length.weeks is None else half
        say(f"  {length.points:2} percentage points: {ends}")
    costs = [
        f"{length.with_placebo:,} sessions instead of {length.sessions:,} for {length.points} "
        "percentage points"
        for length in found.lengths
        if length.with_placebo and length.sessions
    ]
    if costs:
        needed = "The placebo arm" if placebo else "A placebo arm (trial start --placebo)"
        longer = f"{needed} makes a trial 50 % longer"
        note(f"{longer}. Half of such trials then end within {', and '.join(costs)}.")
    if found.lengths[-1].weeks is None:
        note(
            "You have too few sessions for a trial. To compare tasks with and without your rules: "
            "reflector trial run"
        )


def _print_status(found: TrialStatus, heads: Sequence[tuple[str, str]] = ()) -> None:
    rows = [("shows", found.sentence)]
    arms: dict[str, Arm] = {"with": found.told, "without": found.without}
    if found.placebo is not None:
        rows = [
            ("shows", f"compared with no rules: {found.sentence}"),
            ("", f"compared with the placebo: {found.placebo.sentence}"),
        ]
        arms["placebo"] = found.placebo.arm
    for name, arm in arms.items():
        rate = f"{arm.rate:.0%} {found.outcome}" if arm.rate is not None else "none yet"
        rows.append((name, f"{counted(arm.sessions, 'session')}, {rate}"))
    rows.append(
        (
            "uncounted",
            f"{found.unsettled} sessions younger than a day, {found.unknown} with unknown outcome",
        )
    )
    withheld = safe(", ".join(found.bullets)) or "the playbook"
    state = ELSEWHERE if found.state == "elsewhere" else found.state
    rows.append(("trial", f"{state}; {found.share:.0%} of sessions do not get {withheld}"))
    print_facts([*rows, *heads], 9)
