"""`reflector lab`, for developers: trajectories of tasks that have a right answer, and the
measure of the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import FILE, PATH, BackendChoice
from reflector.cli.output import note, os_error_words, progress, table
from reflector.embed.gated import measure
from reflector.embed.gated.log import canonical_line
from reflector.embed.gated.settings import GatedConfig, read_config
from reflector.judges.fixtures import Recording
from reflector.judges.protocol import OUTAGES, Backend, reply_of
from reflector.judges.registry import backend_of
from reflector.judges.truth.models import Entry, entries_in
from reflector.judges.truth.questions import LANGUAGES, Case, Language, ReflectorPromptBuilder
from reflector.mistakes import Mistake
from reflector.project import Project, checked_dataset
from reflector.reflection.gate import Gate
from reflector.reflection.recorder import Recorder
from reflector.reflection.trajectories import run_recorded
from reflector.sessions import locks

_MOST_PROBLEMS = 20


@click.group()
def lab() -> None:
    """Measure and try what developers of reflector work on."""


@lab.command(short_help="Judge trajectories of tasks that have a right answer.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option(
    "--dataset",
    help=("The dataset whose playbook was used; default: the one that each trajectory names."),
)
@click.option(
    "--iterations",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="Rounds of insights.",
)
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    default="en",
    show_default=True,
    help="Language of our prompts.",
)
@click.option(
    "--backend",
    type=BackendChoice(),
    help=("The judge, not rules; default: the configured one."),
)
@click.option("--record", type=FILE, help="Write the answers here, as fixtures.")
@click.pass_obj
def trajectory(
    place: Place,
    files: tuple[Path, ...],
    dataset: str | None,
    iterations: int,
    language: Language,
    backend: str | None,
    record: Path | None,
) -> None:
    """Record trajectories of tasks that have a right answer, and judge them; safe to repeat.

    FILE is JSON (one trajectory or a list) or JSONL. A trajectory has query, dataset,
    generated_answer, reasoning_steps, used_bullet_ids and status (success or failure), and may
    bring its own ground_truth and test_report. Each dataset has a playbook of its own: 'reflector
    --dataset NAME list'. What cannot be read or judged is named, the others are recorded, and the
    exit code is 1.
    """
    project = place.whole_project(backend=backend)
    dataset = dataset if dataset is not None else place.dataset
    if dataset is not None:
        checked_dataset(dataset)
    judge: Backend = backend_of(project.config, project.root)
    reply_of(judge)  # before anything is recorded
    if record is not None:
        judge = Recording(judge, record)
    builder = ReflectorPromptBuilder(project=project.root, language=language)
    rows: list[tuple[str, str | None, int, str]] = []
    notes, failed = list[str](), list[str]()
    cases: dict[str, list[tuple[str, Case]]] = {}
    for where, one in _read(files, failed):
        name = dataset or one.dataset
        case = Case(
            one.trajectory,
            one.ground_truth or "",
            one.test_report or "",
            name,
            iterations,
            language=language,
        )
        cases.setdefault(name, []).append((where, case))
    with progress(sum(map(len, cases.values())), "judging") as bar:
        for name, of_one in cases.items():
            place.dataset = name  # an error about its ledger names the command for its ledger
            try:
                own = Project.of_dataset(project.root, name, flags={"backend": backend})
            except Mistake as mistake:
                failed += [f"{where}: {mistake}" for where, _ in of_one]
                continue
            place.write(own)
            is_away = False
            with (
                locks.held(own.make_state_dir(), "model.lock", wait=True),
                own.open_ledger() as ledger,
            ):
                recorder = Recorder(ledger, judge, gate=Gate(own.config, own.root))
                for where, case in of_one:
                    bar.update(1)
                    try:
                        asked, reflected = run_recorded(recorder, builder, case, ask=not is_away)
                    except Mistake as mistake:
                        failed.append(f"{where}: {mistake}")
                        continue
                    verdicts = ", ".join(
                        (f"{judged.bullet_id} {judged.tag}") for judged in asked.evaluations
                    )
                    if reflected is None:
                        verdicts = f"recorded before{verdicts and ': '}{verdicts}"
                    else:
                        verdicts = verdicts or reflected.outcome
                        is_away = is_away or reflected.stage in OUTAGES
                        into = failed if reflected.outcome == "failed" else notes
                        into += [
                            f"{where}: {problem}" for problem in asked.problems[:_MOST_PROBLEMS]
                        ]
                    rows.append((Path(where).name, name, len(asked.insights), verdicts))
            place.write(own)
    if rows:
        table(("trajectory", "dataset", "insights", "verdicts"), rows)
    for line in [*notes, *failed]:
        note(f"reflector: {line}")
    if failed:
        raise click.exceptions.Exit(1)


def _read(files: tuple[Path, ...], failed: list[str]) -> Iterator[tuple[str, Entry]]:
    """Yield the trajectories of all files; what is not one goes to `failed`."""
    for path in files:
        try:
            for where, found in entries_in(path):
                if isinstance(found, str):
                    failed.append(f"{where}: {found}")
                else:
                    yield where, found
        except OSError as error:
            failed.append(os_error_words(error, path))


@lab.command(short_help="Measure the gated reflection step on a fixed turn.")
@click.option(
    "-c", "--config", metavar="FILE", help=("TOML or JSON; or an example: rulebased, fixtures.")
)
@click.option(
    "-n",
    "--repeats",
    type=click.IntRange(1, 1_000_000),
    default=1,
    help="So many runs; the last is shown.",
)
@click.option(
    "--raw-time",
    is_flag=True,
    help=("Show the milliseconds that it took; 0.0 without it, and with CI=true."),
)
def bench(config: str | None, repeats: int, raw_time: bool) -> None:
    """Measure the gated reflection step on a fixed turn; writes nothing.

    Prints one JSON object, the same on every machine.
    """
    settings = GatedConfig(allow_reflection=True) if config is None else read_config(config)
    click.echo(canonical_line(measure(settings, repeats=repeats, raw_time=raw_time)))
