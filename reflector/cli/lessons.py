"""`reflector lessons`: what was learned, what it is worth and what came of it; `reflector lab`, for developers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.options import FILE, LESSON, PATH, SECTION, Question, question, why_option
from reflector.cli.output import (
    counted,
    event_table,
    note,
    os_error_words,
    progress,
    safe,
    shaped,
    short_id,
    table,
)  # fmt: skip
from reflector.config import BACKENDS
from reflector.events import event as ev
from reflector.events.lessons import LESSON_KINDS, POLARITY
from reflector.mistakes import Mistake
from reflector.text.bounds import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reflector.events.event import Event
    from reflector.ledger.store import Ledger
    from reflector.lessons.book import Lesson, LessonPolicy
    from reflector.project import Project
    from reflector.reflection.protocol import Backend
    from reflector.reflection.recording import Reflected
    from reflector.reflection.truth.asking import Case, Talk
    from reflector.reflection.truth.builder import Language, PromptBuilder
    from reflector.reflection.truth.trajectory_files import Entry

_STATES = ("active", "decayed", "archived", "needs_review", "retracted")
#: What people and agents say of a lesson, as a kind of outcome.
SAID = {"good": "success", "bad": "failure"}
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class LessonJson:
    """A lesson; `data` is what was recorded, `worth` each value that its effectiveness had.

    due       whether it is due for promotion
    proposal  the id of the proposal of its promotion, `bullet` the name that it got
    """

    id: str
    position: int
    created_at: str
    session_id: str | None
    data: dict[str, Any]
    confidence: float
    effectiveness: float
    worth: tuple[float, ...]
    successes: int
    failures: int
    state: str
    times_applied: int
    banked: bool
    due: bool
    proposal: str | None
    bullet: str | None


@dataclass(frozen=True, slots=True)
class ToldJson(LessonJson):
    """A lesson, and everything that happened to it."""

    events: list[Event]


@click.group(invoke_without_command=True)
@click.option("--kind", type=click.Choice(LESSON_KINDS), help="Only lessons of a kind.")
@click.option("--state", type=click.Choice(_STATES), help="Only lessons in a state.")
@click.option("--task", help="Only lessons of a task.")
@click.option("--due", is_flag=True, help="Only lessons that are due for promotion.")
@question
def lessons(asked: Question, due: bool, **wanted: str | None) -> None:
    """List what was learned, and how its worth moved; recall, promote or judge it."""
    from reflector.lessons.book import lesson_book

    book = lesson_book(asked.playbook)
    found = [
        one
        for one in book
        if all(value in (None, getattr(one, name)) for name, value in wanted.items())
        and (not due or one.is_due(book.policy))
    ]
    if asked.answers([shaped(LessonJson, one, due=one.is_due(book.policy)) for one in found]):
        return
    rows = [
        (
            *(short_id(one.id), one.kind, one.state if one.banked else f"{one.state}, evicted"),
            *(f"{one.confidence:.2f}", f"{one.effectiveness:.2f}", one.times_applied, one.task),
            f"{one.text}{f' ({one.bullet})' if one.bullet else ''}",
        )
        for one in found
    ]
    columns = ("id", "kind", "state", "conf.", "worth", "told", "task", "text")
    empty = "No lesson matches." if book.lessons else "No lesson was recorded."
    extra = ("task", "told", "conf.")
    table(columns, rows, numbers=("conf.", "worth", "told"), prose=("task", "text"), extra=extra, empty=empty)


def show_lesson(asked: Question, id: str) -> None:
    """Print a lesson, and everything that happened to it."""
    from reflector.lessons.book import BACKGROUND, lesson_book

    def life(event_id: str) -> Iterator[Event]:
        for event in asked.ledger.targeting(event_id):
            yield event
            yield from life(event.event_id)

    book = lesson_book(asked.playbook)
    one = book.named(id)
    told = asked.ledger.events(types=[ev.ADVICE_TOLD])
    events = [
        *asked.ledger.at([one.position]),
        *life(one.id),
        *(e for e in told if one.id in (e.data or {})["lessons"]),
    ]
    events = sorted((e for e in events if asked.upto is None or e.position <= asked.upto), key=lambda e: e.position)
    if asked.answers(shaped(ToldJson, one, due=one.is_due(book.policy), events=events)):
        return
    click.echo(safe(f"{one.id}  {one.kind}, {one.state}{'' if one.banked else ', evicted'}\n{one.text}"))
    for name in BACKGROUND:
        if one.data.get(name):
            click.echo(safe(f"  {name.replace('_', ' ')}: {one.data[name]}"))
    click.echo(
        f"confidence {one.confidence:.2f}, worth {one.effectiveness:.2f}, "
        f"{one.successes} for it and {one.failures} against, told {one.times_applied}×"
    )
    if one.bullet or one.proposal:
        click.echo(f"promoted: {one.bullet or f'proposal {short_id(one.proposal)} waits or was rejected'}")
    click.echo()
    event_table(events, whole=True)


@lessons.command(short_help="Propose a lesson as a bullet.")
@click.argument("id", type=LESSON, metavar="ID")
@click.option("--section", type=SECTION, help="Default: mis for a mistake.")
@why_option
@click.pass_obj
def promote(place: Place, id: str, section: str | None, why: str | None) -> None:
    """Propose a lesson as a bullet; `reflector proposals approve` decides."""
    from reflector.curation.proposals import propose
    from reflector.lessons.book import lesson_book
    from reflector.playbook.change import Change

    with place.changing() as ledger:
        one = lesson_book(ledger).named(id)
        if not one.is_tellable:
            raise click.UsageError(f"lesson {short_id(one.id)} is {one.state if one.banked else 'evicted'}; see `show`")
        where = section or ("mis" if one.kind == "mistake" else "pat")
        worth = f"worth {one.effectiveness:.2f} after {counted(len(one.outcomes), 'outcome')}"
        reason = why or f"confidence {one.confidence:.2f}, {worth}"
        change = Change("add", section=where, text=visible(one.text))
        # A person promotes it, in words that a model or a rule found.
        proposal = propose(ledger, change, origin="human", trust="agent", reason=reason, actor="human", lesson=one.id)
    id = short_id(proposal.id)
    click.echo(f"proposal {id} {proposal.state}; decide with `{place.command('proposals approve', id)}`")


@lessons.command()
@click.argument("lesson_id", type=LESSON, metavar="LESSON")
@click.argument("said", metavar="good|bad|KIND", type=click.Choice((*SAID, *POLARITY)))
@click.option("--why", required=True, help="What happened; the ledger keeps it.")
@click.option("--source", default="human", show_default=True, help="Who saw it: human, tests, agent …")
@click.pass_obj
def outcome(place: Place, lesson_id: str, said: str, why: str, source: str) -> None:
    """Record what happened after a lesson was applied."""
    from reflector.lessons.book import lesson_book
    from reflector.lessons.recording import observe_outcome

    with place.changing() as ledger:
        before = lesson_book(ledger).named(lesson_id)
        kind = SAID.get(said, said)
        observe_outcome(ledger, before.id, kind, why, source=source)
        after = lesson_book(ledger).named(before.id)
    click.echo(
        f"{short_id(after.id)}: worth {before.effectiveness:.2f} → {after.effectiveness:.2f}, "
        f"confidence {before.confidence:.2f} → {after.confidence:.2f}, {after.state}"
    )


@dataclass(frozen=True, slots=True)
class RecalledJson:
    """What fits a query, and how well: by words, by vectors where a model is set, and both."""

    kind: str
    id: str
    text: str
    score: float
    words: float | None
    cosine: float | None


@lessons.command()
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many at most.")
@question
def recall(asked: Question, query: str, k: int) -> None:
    """Find what was learned: bullets, lessons and summaries.

    Prints nothing where nothing fits well enough. Calls no network.
    """
    from reflector.lessons.recall import recall as ask

    found = ask(query, k, of=asked.playbook)
    scores = ({name: getattr(one, name) for name in ("score", "words", "cosine")} for one in found)
    if asked.answers([shaped(RecalledJson, one.document, **of) for one, of in zip(found, scores, strict=True)]):
        return
    rows = [
        (
            *(one.document.id if one.document.kind == "bullet" else short_id(one.document.id), one.document.kind),
            *("" if rate is None else f"{rate:.2f}" for rate in (one.words, one.cosine)),
            one.document.text,
        )
        for one in found
    ]
    columns = ("id", "kind", "words", "cosine", "text")
    empty = "Nothing that was learned fits this."
    table(columns, rows, numbers=columns[2:4], extra=("cosine", "words"), empty=empty)


def changed_lessons(ledger: Ledger, first: int, last: int) -> list[dict[str, Any]]:
    """Return the lessons whose worth or state two positions differ in, as JSON has them."""
    from reflector.ledger.as_of import Past
    from reflector.lessons.book import lesson_book

    def view(one: Lesson, policy: LessonPolicy) -> dict[str, Any]:
        told = one.is_tellable and one.confidence >= policy.threshold
        judged = {"worth": one.effectiveness, "banked": one.banked, "told": told, "due": one.is_due(policy)}
        return {**judged, "state": one.state}

    before, after = (lesson_book(Past(ledger, at)) for at in (first, last))
    found = []
    for one in after:
        then, now = before.lessons.get(one.id), view(one, after.policy)
        was = view(then, before.policy) if then is not None else None
        if was != now:
            found.append({"id": one.id, "text": one.text, "before": was, "after": now})
    return found


def print_changed(lessons: list[dict[str, Any]]) -> None:
    """Print what `changed_lessons` found."""
    for one in lessons:
        was, now = one["before"], one["after"]
        how = ", ".join(
            f"{name} {was[name]} → {now[name]}" for name in now if was is not None and was[name] != now[name]
        )
        click.secho(f"lesson {short_id(one['id'])}  {how or 'learned'}", bold=True)
        click.echo(safe(f"  {' '.join(one['text'].split())}"))


@click.group()
def lab() -> None:
    """Measure and try what developers of reflector work on."""


@lab.command(short_help="Judge trajectories of tasks that have a right answer.")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option("--dataset", help="The dataset whose playbook was used; default: the one that each trajectory names.")
@click.option("--ground-truth", type=FILE, help="The right answer, for trajectories that bring none.")
@click.option("--test-report", type=FILE, help="JUnit XML or any text, for trajectories that bring none.")
@click.option("--iterations", type=click.IntRange(1, 10), default=1, show_default=True, help="Rounds of insights.")
@click.option("--backend", type=click.Choice(BACKENDS), help="The judge; default: the configured one.")
@click.option("--language", type=click.Choice(["en", "ja"]), default="en", show_default=True, help="Of our prompts.")
@click.option("--record", type=FILE, help="Write the answers here, as fixtures.")
@click.pass_obj
def trajectory(
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
    from reflector.reflection.backends.fixtures import Recording
    from reflector.reflection.truth.asking import Case
    from reflector.reflection.truth.builder import ReflectorPromptBuilder
    from reflector.reflection.truth.datasets import checked_dataset

    project = place.whole_project(backend=backend)
    dataset = dataset if dataset is not None else place.dataset
    if dataset is not None:
        checked_dataset(dataset)
    judge: Backend = backend_of(project.config, project.root)
    if record is not None:
        judge = Recording(judge, record)
    builder = ReflectorPromptBuilder(project=project.root, language=language)
    truth, report = _text(ground_truth), _text(test_report)
    notes: list[str] = []
    failed: list[str] = []
    cases: dict[str, list[tuple[str, Case]]] = {}
    for one in _read(files, failed):
        name = dataset or one.trajectory.dataset
        right = truth if one.ground_truth is None else one.ground_truth
        said = report if one.test_report is None else one.test_report
        cases.setdefault(name, []).append((one.where, Case(one.trajectory, right, said, name, iterations)))
    rows = []
    with progress(sum(map(len, cases.values())), "judging") as bar:
        for name, of_one in cases.items():
            try:
                own = place.of_dataset(project, name, backend=backend)
            except Mistake as mistake:
                failed += [f"{where}: {mistake}" for where, _ in of_one]
                bar.update(len(of_one))
                continue
            for where, ran in _judge(place, own, judge, builder, of_one):
                bar.update(1)
                if isinstance(ran, Mistake):
                    failed.append(f"{where}: {ran}")
                    continue
                talk, reflected = ran
                told = ", ".join(f"{judged.bullet_id} {judged.tag}" for judged in talk.evaluations)
                if reflected is None:
                    told = f"recorded before{told and ': '}{told}"
                else:
                    into = failed if reflected.outcome == "failed" else notes
                    into += [f"{where}: {problem}" for problem in talk.problems[:_MOST_PROBLEMS]]
                    told = told or reflected.outcome
                rows.append((Path(where).name, name, len(talk.insights), told))
    if rows:
        table(("trajectory", "dataset", "insights", "verdicts"), rows, numbers=("insights",))
    for line in [*notes, *failed]:
        note(f"reflector: {line}")
    if failed:
        raise click.exceptions.Exit(1)


def _text(path: Path | None) -> str:
    """Return a file's text. Raises click.UsageError for one that is too long or not text, and OSError."""
    from reflector.files import read_bounded
    from reflector.reflection.truth.trajectory_files import MAX_ENTRY

    if path is None:
        return ""
    try:
        return read_bounded(path, MAX_ENTRY).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _read(files: tuple[Path, ...], failed: list[str]) -> Iterator[Entry]:
    """Yield the trajectories of all files; what is none goes to `failed`. Raises a usage error where all are empty."""
    from reflector.reflection.truth.trajectory_files import entries_in

    empty = []
    for path in files:
        is_empty = True
        try:
            for found in entries_in(path):
                is_empty = False
                if isinstance(found, str):
                    failed.append(found)
                else:
                    yield found
            empty += [f"{path} is empty; write a trajectory into it (docs/embedding.md)"] * is_empty
        except OSError as error:
            failed.append(os_error_words(error, path))
    if len(empty) == len(files):
        raise click.UsageError("; ".join(empty))
    failed += empty


def _judge(
    place: Place, project: Project, judge: Backend, builder: PromptBuilder, cases: list[tuple[str, Case]]
) -> Iterator[tuple[str, tuple[Talk, Reflected | None] | Mistake]]:
    """Yield the place of each trajectory of a dataset with how it was judged, or why it is not recorded."""
    from reflector.reflection.gate import Gate
    from reflector.reflection.protocol import OUTAGES
    from reflector.reflection.recording import Recorder
    from reflector.reflection.truth.agent import run_recorded
    from reflector.sessions import locks

    place.write(project)
    away = False
    with locks.held(project.make_state_dir(), "model.lock", wait=True), project.open_ledger() as ledger:
        recorder = Recorder(ledger, judge, gate=Gate(project.config, project.root))
        for where, case in cases:
            try:
                said, reflected = run_recorded(recorder, builder, case, ask=not away)
            except Mistake as mistake:
                yield where, mistake
                continue
            away = away or (reflected is not None and reflected.stage in OUTAGES)
            yield where, (said, reflected)
    place.write(project)


@lab.command(short_help="Measure the gated reflection step on a fixed turn.")
@click.option("-c", "--config", metavar="FILE", help="YAML, TOML or JSON; or an example: rulebased, fixtures.")
@click.option("-n", "--repeats", type=click.IntRange(1, 1_000_000), default=1, help="So many runs; the last is shown.")
@click.option("--raw-time", is_flag=True, help="Show the milliseconds that it took; 0.0 without it, and with CI=true.")
def bench(config: str | None, repeats: int, raw_time: bool) -> None:
    """Measure the gated reflection step on a fixed turn; writes nothing.

    Prints one JSON object, the same on every machine.
    """
    from reflector.gating.config import GatedConfig
    from reflector.gating.log import canonical_line
    from reflector.gating.measure import measure, read_config

    settings = GatedConfig(allow_reflection=True) if config is None else read_config(config)
    click.echo(canonical_line(measure(settings, repeats=repeats, raw_time=raw_time)))
