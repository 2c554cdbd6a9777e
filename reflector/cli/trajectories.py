"""`reflector reflect-trajectory`: trajectories at tasks that have a right answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reflector.cli.app import Place
from reflector.cli.arguments import FILE, PATH
from reflector.cli.output import note, os_error_words, progress, table
from reflector.config import BACKENDS
from reflector.mistakes import Mistake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reflector.project import Project
    from reflector.reflection.protocol import Backend
    from reflector.reflection.recording import Reflected
    from reflector.reflection.truth.asking import Talk
    from reflector.reflection.truth.builder import Language, ReflectorPromptBuilder
    from reflector.reflection.truth.trajectory_files import Entry

    _Ran = tuple[Talk, Reflected | None]

_MOST_PROBLEMS = 20


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option("--dataset", help="The dataset whose playbook was used; default: the one that each trajectory names.")
@click.option("--ground-truth", type=FILE, help="The right answer, for trajectories that bring none.")
@click.option("--test-report", type=FILE, help="JUnit XML or any text, for trajectories that bring none.")
@click.option("--iterations", type=click.IntRange(1, 10), default=1, show_default=True, help="Rounds of insights.")
@click.option("--backend", type=click.Choice(BACKENDS), help="The judge; default: the configured one.")
@click.option("--language", type=click.Choice(["en", "ja"]), default="en", show_default=True, help="Of our prompts.")
@click.option("--record", type=FILE, help="Write the answers here, as fixtures.")
@click.pass_obj
def reflect_trajectory(
    place: Place,
    files: tuple[Path, ...],
    dataset: str | None,
    ground_truth: Path | None,
    test_report: Path | None,
    iterations: int,
    backend: str | None,
    language: Language,
    record: Path | None,
) -> None:
    """Record trajectories of tasks that have a right answer, and judge them; safe to repeat.

    FILE is JSON (one trajectory or a list) or JSONL. A trajectory has query, dataset, generated_answer,
    reasoning_steps, used_bullet_ids and status (success or failure), and may bring its own ground_truth and
    test_report. Each dataset has a playbook of its own: 'reflector --dataset NAME list'. What cannot be read or judged
    is named, the others are recorded, and the exit code is 1.
    """
    from reflector.reflection.backends import backend_of
    from reflector.reflection.truth.builder import ReflectorPromptBuilder
    from reflector.reflection.truth.datasets import checked_dataset

    project = place.whole_project(backend=backend)
    dataset = dataset if dataset is not None else place.dataset
    if dataset is not None:
        checked_dataset(dataset)
    judge: Backend = backend_of(project.config, project.root)
    if record is not None:
        from reflector.reflection.backends.fixtures import Recording

        judge = Recording(judge, record)
    asked = _Asked(judge, ReflectorPromptBuilder(project=project.root, language=language))
    given = _text(ground_truth), _text(test_report)
    shown = _Shown()
    by_dataset: dict[str, list[Entry]] = {}
    empty: list[str] = []
    for found in _read(files, shown.failed, empty):
        by_dataset.setdefault(dataset or found.trajectory.dataset, []).append(found)
    if len(empty) == len(files):
        raise click.UsageError("; ".join(empty))
    shown.failed += empty
    with progress(sum(map(len, by_dataset.values())), "judging") as bar:
        for name, entries in by_dataset.items():
            try:
                own = place.of_dataset(project, name, backend=backend)
            except Mistake as mistake:
                shown.failed += [f"{entry.where}: {mistake}" for entry in entries]
                bar.update(len(entries))
                continue
            for entry, ran in _judge(place, own, asked, entries, given, iterations):
                bar.update(1)
                shown.add(entry.where, name, ran)
    shown.tell()


class _Asked(NamedTuple):
    """Who is asked, and how."""

    judge: Backend
    builder: ReflectorPromptBuilder


class _Shown:
    """What a person is shown: a row for each trajectory, notes on what could not be read, and what failed."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self.notes: list[str] = []
        self.failed: list[str] = []

    def add(self, where: str, dataset: str, ran: _Ran | str) -> None:
        """Take in how a trajectory was judged, or why it is not recorded."""
        if isinstance(ran, str):
            self.failed.append(f"{where}: {ran}")
            return
        said, reflected = ran
        told = ", ".join(f"{one.bullet_id} {one.tag}" for one in said.evaluations)
        outcome = told or (reflected.outcome if reflected is not None else "neutral")
        if reflected is None:
            outcome = f"recorded before{told and ': '}{told}"
        self.rows.append((Path(where).name, dataset, len(said.insights), outcome))
        if reflected is not None:
            into = self.failed if reflected.outcome == "failed" else self.notes
            into += [f"{where}: {problem}" for problem in said.problems[:_MOST_PROBLEMS]]

    def tell(self) -> None:
        """Print it; exit with 1 where something failed."""
        if self.rows:
            table(("trajectory", "dataset", "insights", "verdicts"), self.rows, numbers=("insights",))
        for line in [*self.notes, *self.failed]:
            note(f"reflector: {line}")
        if self.failed:
            raise click.exceptions.Exit(1)


def _text(path: Path | None) -> str:
    """Return a file's text. Raises click.UsageError for one that is too long or not text, and OSError."""
    from reflector.files import read_bounded
    from reflector.reflection.truth.trajectory_files import MAX_ENTRY

    if path is None:
        return ""
    raw = read_bounded(path, MAX_ENTRY)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _read(files: tuple[Path, ...], failed: list[str], empty: list[str]) -> Iterator[Entry]:
    """Yield the trajectories of all files; what is none goes to `failed`, a file without anything to `empty`."""
    from reflector.reflection.truth.trajectory_files import entries_in

    for path in files:
        is_empty = True
        try:
            for found in entries_in(path):
                is_empty = False
                if isinstance(found, str):
                    failed.append(found)
                else:
                    yield found
        except OSError as error:
            failed.append(os_error_words(error, path))
        else:
            empty += [f"{path} is empty; write a trajectory into it (docs/embedding.md)"] * is_empty


def _judge(
    place: Place, project: Project, asked: _Asked, entries: list[Entry], given: tuple[str, str], iterations: int
) -> Iterator[tuple[Entry, _Ran | str]]:
    """Yield each trajectory of a dataset with how it was judged, or why it is not recorded."""
    from reflector.reflection.gate import Gate
    from reflector.reflection.protocol import OUTAGES
    from reflector.reflection.recording import Recorder
    from reflector.reflection.truth.agent import run_recorded
    from reflector.reflection.truth.asking import Case
    from reflector.sessions import locks

    place.write(project)
    away = False
    with locks.held(project.make_state_dir(), "model.lock", wait=True), project.open_ledger() as ledger:
        recorder = Recorder(ledger, asked.judge, gate=Gate(project.config, project.root))
        for entry in entries:
            own = entry.ground_truth, entry.test_report
            texts = [mine if mine is not None else theirs for mine, theirs in zip(own, given, strict=True)]
            case = Case(entry.trajectory, texts[0], texts[1], project.config.playbook, iterations)
            try:
                said, reflected = run_recorded(recorder, asked.builder, case, ask=not away)
            except Mistake as mistake:
                yield entry, str(mistake)
                continue
            away = away or (reflected is not None and reflected.stage in OUTAGES)
            yield entry, (said, reflected)
    place.write(project)
