"""Reflections by hand: reflect, failures, give-up, reparse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import FILE, READ_FILE, SESSION
from reflector.cli.output import counted, json_option, note, print_json, safe, short_id, short_time, table
from reflector.config import BACKENDS

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.project import Project
    from reflector.reflection.protocol import Backend, Request


@click.command()
@click.argument("sessions", nargs=-1, type=SESSION, metavar="[SESSION…]")
@click.option("--backend", type=click.Choice(BACKENDS), help="The judge; default: the configured one.")
@click.option("--model", help="The model for the backend anthropic.")
@click.option("--base-url", help="The address of the API.")
@click.option("--template", type=READ_FILE, help="A prompt template.")
@click.option("--record", type=FILE, help="Write the answers to this file, as fixtures.")
@click.option("--dry-run", is_flag=True, help="Show the prompt and its size; call and record nothing.")
@click.pass_obj
def reflect(
    place: Place,
    sessions: tuple[str, ...],
    backend: str | None,
    model: str | None,
    base_url: str | None,
    template: Path | None,
    record: Path | None,
    dry_run: bool,
) -> None:
    """Judge recorded sessions now, or show the prompt that a model would get.

    SESSION is a session's id or its beginning; without one, every open window is judged, and those that waited for a
    budget that now allows it. A named session passes the gate and its budgets, even if it was skipped, failed, given up
    or declined by the model. A judged session stays as it is; a dry run shows it too.
    """
    from reflector.reflection.backends import backend_of

    project = place.project(backend=backend, model=model, base_url=base_url)
    judge = backend_of(project.config, project.root, template=template)
    with place.reading() as ledger:
        windows = _windows(ledger, sessions, judge, project)
        if dry_run:
            _show_prompts(ledger, judge, windows)
            return
    if record is not None:
        from reflector.reflection.backends.fixtures import Recording

        judge = Recording(judge, record)
    unjudged = [window for window in windows if window.state != "completed"]
    if unjudged:
        _reflect(place, project, judge, unjudged, bool(sessions))
    else:
        note("Judged already." if sessions else "No session waits to be judged.")


def _windows(ledger: Ledger, sessions: tuple[str, ...], judge: Backend, project: Project) -> list[WindowRow]:
    from reflector.cli.audit import session_named
    from reflector.reflection.gate import Gate
    from reflector.reflection.runner import Runner

    if not sessions:
        runner = Runner(ledger, judge, gate=Gate(project.config, project.root))
        return [*ledger.open_windows(), *runner.reopened()]
    return [window for given in sessions for window in ledger.windows(session_named(ledger, given))]


def _reflect(place: Place, project: Project, judge: Backend, windows: list[WindowRow], named: bool) -> None:
    from reflector.reflection.gate import Gate
    from reflector.reflection.protocol import OUTAGES
    from reflector.reflection.runner import Runner
    from reflector.sessions import locks

    rows: list[tuple[object, ...]] = []
    failed = False
    with locks.held(project.make_state_dir(), "model.lock", wait=True), project.open_ledger() as ledger:
        gate = Gate(project.config, project.root)
        runner = Runner(ledger, judge, gate=gate, max_attempts=project.config.max_attempts)
        # While this command waited for the lock, another process may have gone on with some of them.
        chosen = {window.event_id for window in windows}
        for window in ledger.windows():
            if window.event_id not in chosen or window.state == "completed":
                continue
            reflected = runner.finish(window, forced=named)
            failed = failed or reflected.outcome == "failed"
            rows.append((short_id(window.session_id), reflected.outcome, reflected.detail))
            if not named and reflected.stage in OUTAGES:
                break  # the others would fare alike
    place.write(project)
    table(("session", "reflection", "what"), rows, empty="Another process judged it meanwhile.")
    if failed:
        raise click.exceptions.Exit(1)


def _show_prompts(ledger: Ledger, judge: Backend, windows: list[WindowRow]) -> None:
    from reflector.events.event import TRAJECTORY_RECORDED
    from reflector.reflection.runner import Runner

    runner = Runner(ledger, judge)
    for window in windows:
        recorded = ledger.event(window.event_id)
        if recorded is None or recorded.data is None:
            note(f"{short_id(window.session_id)}: the session's event was redacted")
            continue
        if recorded.type == TRAJECTORY_RECORDED:
            note(f"{short_id(window.session_id)}: is a trajectory, whose prompts follow from each other's answers")
            continue
        _show_prompt(judge, runner.request(runner.session(recorded)))
    if not windows:
        note("No session waits to be judged; name one.")


def _show_prompt(judge: Backend, request: Request) -> None:
    """Print the prompt on stdout, its size on stderr."""
    from reflector.reflection.protocol import BackendError, Reads

    if not isinstance(judge, Reads):
        note(f"{judge.name} calls no model: {len(request.cited)} cited, {request.mode.replace('_', ' ')}")
        return
    try:
        prompt = judge.prompt(request)
        click.echo(safe(prompt.text))
        cut = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in prompt.left_out.items())
        note(f"about {prompt.tokens:,} tokens{f'; left out: {cut}' if cut else ''}; nothing was sent")
    except BrokenPipeError:  # the reader of the output is gone
        raise
    except (BackendError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@click.command()
@json_option
@click.pass_obj
def failures(place: Place, as_json: bool) -> None:
    """List failed reflections and when they are tried again."""
    from reflector.cli.again import failures_of, month_of, month_words
    from reflector.reflection.spending import waiting_for_budget

    project = place.project()
    with place.reading() as ledger:
        found = failures_of(ledger, project)
        waiting = len(waiting_for_budget(ledger))
        month = month_of(ledger, project) if waiting else None
    if as_json:
        print_json(found)
        return
    rows = [
        (
            short_id(one["session_id"]),
            one["state"],
            one["attempts"],
            short_time(one["next_try"]) if one["next_try"] else "by hand",
            f"{one['stage']}: {one['message']}",
        )
        for one in found
    ]
    columns = ("session", "state", "attempts", "next try", "why")
    table(columns, rows, numbers=("attempts",), extra=("attempts", "next try"), empty="No reflection failed.")
    if found:
        _print_commands(found)
    if waiting:
        note(
            f"{counted(waiting, 'session window')} not judged for want of budget ({month_words(month)}). "
            "When it allows, they are judged: reflector drain"
        )


def _print_commands(found: list[dict[str, Any]]) -> None:
    note("Try again now with:")
    for command in dict.fromkeys(one["command"] for one in found if one["command"]):
        note(f"  {command}")
    if any(one["state"] == "given_up" and one["stage"] == "answer" for one in found):
        note("Where the model declined, another may answer: add --model NAME")
    if any(one["state"] == "failed" for one in found):
        note("Let a session go: reflector give-up SESSION --why TEXT")


@click.command("give-up")
@click.argument("session_id", type=SESSION, metavar="SESSION")
@click.option("--why", required=True, help="The reason; the ledger keeps it.")
@click.pass_obj
def give_up(place: Place, session_id: str, why: str) -> None:
    """Stop trying to judge a session.

    `reflector reflect SESSION` judges it after all.
    """
    from reflector.cli.audit import session_named
    from reflector.reflection import reflection_events as events_of

    project = place.project()
    with place.pipeline(project) as pipeline:
        session_id = session_named(pipeline.ledger, session_id)
        open_ = [window for window in pipeline.ledger.open_windows() if window.session_id == session_id]
        pipeline.ledger.append(
            [
                events_of.failed(window, project.config.backend, "given up", why, attempts=0, final=True, actor="human")
                for window in open_
            ]
        )
    if not open_:
        note(f"Nothing of {short_id(session_id)} is open.")


@click.command()
@click.argument("session_id", type=SESSION, metavar="[SESSION]", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would change, and record nothing.")
@json_option
@click.pass_obj
def reparse(place: Place, session_id: str | None, dry_run: bool, as_json: bool) -> None:
    """Read recorded answers again with the current parser.

    Calls no model. If the parser reads other tags than those that count, the old reading is retracted and the new one
    counts.
    """
    from dataclasses import asdict

    from reflector.cli.audit import session_named
    from reflector.reflection.reparsing import reparse as run

    with place.pipeline() as pipeline:
        chosen = session_named(pipeline.ledger, session_id) if session_id else None
        found = list(run(pipeline.ledger, session_id=chosen, dry_run=dry_run))
        pipeline.write()
    if as_json:
        print_json([asdict(one) for one in found])
        return
    changed = [one for one in found if one.reading != "same"]
    rows = [(short_id(one.session_id), one.reading, _tags(one.before), _tags(one.after)) for one in changed]
    table(
        ("session", "reading", "before", "after"),
        rows,
        prose=("before", "after"),
        empty=f"{len(found)} answers, all read as before.",
    )


def _tags(tags: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {tag}" for name, tag in tags) or "none"
