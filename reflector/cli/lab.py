"""`reflector lab`, for developers: playbooks of datasets, recorded answers, today's parser, and the
measure of the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from reflector.audit.moments import session_named
from reflector.cli.app import Place
from reflector.cli.options import FILE, PATH, dry_run_option, flag, json_option, judge_option
from reflector.cli.output import note, os_error_words, progress, short_id, table, warn
from reflector.cli.reflect import print_judged
from reflector.embed.gated import measure
from reflector.embed.gated.log import canonical_line
from reflector.embed.gated.settings import GatedConfig, read_config
from reflector.judges.backends.fixtures import Recording
from reflector.judges.protocol import Backend, reply_of
from reflector.judges.registry import backend_of, judge_settings
from reflector.judges.truth.models import Entry, entries_in
from reflector.judges.truth.questions import Case, ReflectorPromptBuilder
from reflector.mistakes import Mistake
from reflector.project import checked_dataset
from reflector.reflection.checking import recount
from reflector.reflection.standing import reparse as read_again
from reflector.sessions.judging import JudgedCase, judge_cases, judge_sessions
from reflector.text.phrases import counted

_MOST_PROBLEMS = 20


class _Lab(click.Group):
    """The group. Each command of reflector in it works on the playbook of a dataset."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        root = ctx.find_root().command
        outer = root.get_command(ctx, cmd_name) if isinstance(root, click.Group) else None
        return super().get_command(ctx, cmd_name) or outer


@click.group(cls=_Lab)
@click.option("--dataset", metavar="NAME", help="Dataset whose playbook to use.")
@click.pass_obj
def lab(place: Place, dataset: str | None) -> None:
    """Run experiments and developers' commands.

    With --dataset, every reflector command works on the dataset's playbook, for example `reflector
    lab --dataset sums list`.
    """
    if dataset is not None:
        place.dataset = checked_dataset(dataset)


@lab.command(short_help="Judge trajectories of tasks with known answers.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option(
    "-n",
    "rounds",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Number of requests for lessons per trajectory.",
)
@judge_option
@click.option("--out", type=FILE, help="File in which to save the judge's answers.")
@click.pass_obj
def trajectory(
    place: Place,
    files: tuple[Path, ...],
    rounds: int,
    judge: str | None,
    out: Path | None,
) -> None:
    """Record and judge trajectories of known tasks.

    If you run `lab trajectory` again, reflector does not record a trajectory twice.

    A trajectory is the record of one task that an agent did. FILE is JSON (one trajectory or a
    list) or JSONL. Each trajectory is an object with the keys query, dataset, generated_answer,
    reasoning_steps, used_bullet_ids and status (success or failure). The keys ground_truth and
    test_report are optional. Each trajectory uses the playbook of its dataset. With
    `lab --dataset NAME`, all trajectories use the playbook of the dataset NAME. If a trajectory
    cannot be recorded or judged, `lab trajectory` shows the reason, continues with the other
    trajectories and exits with 1.
    """
    settings = judge_settings(judge)
    project = Place(place.root, user=place.user).project(**settings)
    backend: Backend = backend_of(project.config, project.root)
    reply_of(backend)  # before anything is recorded
    if out is not None:
        backend = Recording(backend, out)
    builder = ReflectorPromptBuilder(project=project.root)
    report = _Report()
    cases: dict[str, list[tuple[str, Case]]] = {}
    for where, entry in _read(files, report.failed):
        name = place.dataset or entry.dataset
        case = Case(
            entry.trajectory, entry.ground_truth or "", entry.test_report or "", name, rounds
        )
        cases.setdefault(name, []).append((where, case))
    with progress(sum(map(len, cases.values())), "judging") as bar:
        for name, of_dataset in cases.items():
            place.dataset = name  # errors name the command for this ledger
            try:
                own = place.project(**settings)
            except Mistake as mistake:
                report.failed += [f"{where}: {mistake}" for where, _ in of_dataset]
                continue
            place.write(own)  # a user may have edited its playbook.json
            for judged in judge_cases(own, backend, builder, of_dataset):
                bar.update(1)
                report.add(name, judged)
            place.write(own)
    report.print()


class _Report:
    """The rows and the notes about trajectories. If any `failed`, the command exits with 1."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int, str]] = []
        self.notes: list[str] = []
        self.failed: list[str] = []

    def add(self, dataset: str, judged: JudgedCase) -> None:
        where, talk, reflected, mistake = judged
        if mistake is not None:
            self.failed.append(f"{where}: {mistake}")
            return
        verdicts = ", ".join(f"{verdict.bullet_id} {verdict.tag}" for verdict in talk.evaluations)
        if reflected is None:
            words = f"recorded before: {verdicts}" if verdicts else "recorded before"
        else:
            words = verdicts or reflected.outcome
            notes = self.failed if reflected.outcome == "failed" else self.notes
            notes += [f"{where}: {problem}" for problem in talk.problems[:_MOST_PROBLEMS]]
        self.rows.append((Path(where).name, dataset, len(talk.insights), words))

    def print(self) -> None:
        if self.rows:
            table(("trajectory", "dataset", "insights", "verdicts"), self.rows)
        for line in [*self.notes, *self.failed]:
            warn(line)
        if self.failed:
            raise click.exceptions.Exit(1)


def _read(files: tuple[Path, ...], failed: list[str]) -> Iterator[tuple[str, Entry]]:
    """Yield the trajectories of all files. Other entries and errors are added to `failed`."""
    for path in files:
        try:
            for where, entry in entries_in(path):
                if isinstance(entry, str):
                    failed.append(f"{where}: {entry}")
                else:
                    yield where, entry
        except OSError as error:
            failed.append(os_error_words(error, path))


@lab.command(short_help="Judge sessions, and record the answers in FILE.")
@click.argument("file", type=FILE)
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…")
@judge_option
@click.pass_obj
def record(place: Place, file: Path, sessions: tuple[str, ...], judge: str | None) -> None:
    """Judge sessions, and record the answers in FILE.

    The judge `fixtures` can answer from the file that `lab record` wrote."""
    project = place.project(**judge_settings(judge))
    backend = Recording(backend_of(project.config, project.root), file)
    with place.reading() as ledger:
        session_ids = {session_named(ledger, session) for session in sessions}
    judged = judge_sessions(project, backend, session_ids)
    place.write(project)
    print_judged(place, judged)


@lab.command(short_help="Parse the recorded answers of judges again.")
@click.argument("sessions", nargs=-1, metavar="[SESSION…]")
@dry_run_option
@json_option
@click.pass_obj
def reparse(place: Place, sessions: tuple[str, ...], dry_run: bool) -> None:
    """Parse the recorded answers of judges again.

    If the current parser or settings read new verdicts from a recorded answer, the new verdicts
    replace the recorded verdicts. With --dry-run, `lab reparse` only shows the differences. `lab
    reparse` also applies a changed setting `checked_counts` to the earlier findings of `check`.
    """
    config = place.project().config
    with place.changing() as ledger:
        ids: list[str | None] = [session_named(ledger, session) for session in sessions]
        ids = ids or [None]
        readings = [
            reading
            for id in ids
            for reading in read_again(ledger, session_id=id, dry_run=dry_run, config=config)
        ]
        recounted = 0
        if not dry_run:
            for id in ids:
                recounted += recount(ledger, counts=config.checked_counts, session_id=id)
    if recounted:
        change = "now" if config.checked_counts else "no longer"
        answers = counted(recounted, "earlier answer")
        note(f"The counters {change} include {answers} to the questions of `check`.")
    if place.answers(readings):
        return
    rows = [
        (
            short_id(reading.session_id),
            reading.reading,
            _tag_words(reading.before),
            _tag_words(reading.after),
        )
        for reading in readings
        if reading.reading != "same"
    ]
    columns = ("session", "reading", "before", "after")
    answers = counted(len(readings), "answer")
    empty = f"Nothing changes: the current parser reads {answers} as before."
    table(columns, rows, prose=("before", "after"), empty=empty)


def _tag_words(tags: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {tag}" for name, tag in tags) or "none"


@lab.command(short_help="Run the gated reflection on a fixed turn.")
@click.argument("settings", required=False)
@click.option("-n", "runs", type=click.IntRange(1, 1_000_000), default=1, help="Number of runs.")
@flag("--raw-time", help="Print the measured time (default: always 0.0).")
def bench(settings: str | None, runs: int, raw_time: bool) -> None:
    """Run the gated reflection on a fixed turn.

    The turn is always the same example. `lab bench` measures the reflection, and writes nothing.

    SETTINGS is a file of TOML or JSON, or the name of an example: rulebased or fixtures. `lab
    bench` prints one JSON object about the last run. The object is the same on every machine.
    """
    config = GatedConfig(allow_reflection=True) if settings is None else read_config(settings)
    click.echo(canonical_line(measure(config, repeats=runs, raw_time=raw_time)))
