"""Taking sessions in: ingest and drain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import PATH
from reflector.cli.output import (
    fields,
    json_option,
    note,
    os_error_words,
    print_json,
    progress,
    safe,
    short_id,
    table,
)
from reflector.config import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reflector.sessions.drain import Drained
    from reflector.sessions.intake import Taken, WindowMode
    from reflector.sessions.pipeline import Pipeline

#: A hook's JSON is small; anything longer is a transcript.
_HOOK_JSON = 8 * 1024 * 1024


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE…")
@click.option(
    "--window",
    type=click.Choice(["new", "whole"]),
    default="new",
    show_default=True,
    help="new: only records that no earlier window has. whole: all records, counted again.",
)
@click.option("--backend", type=click.Choice(BACKENDS), help="The judge; default: the configured one.")
@json_option
@click.pass_obj
def ingest(place: Place, files: tuple[Path, ...], window: str, backend: str | None, as_json: bool) -> None:
    """Record sessions from transcripts or hook JSON; safe to repeat.

    A file that cannot be recorded is named with the reason, and the others are recorded. The exit code is 1 if a file
    or a reflection failed.
    """
    from reflector.sessions.drain import ask_model

    project = place.project(backend=backend)
    found: list[tuple[Path, Taken | None]] = []
    failed: list[str] = []
    with place.pipeline(project) as pipeline:
        with progress(len(files), "recording") as bar:
            for path in files:
                try:
                    found.append((path, _ingest_one(pipeline, path, window)))
                except IsADirectoryError:
                    failed.append(f"{path}: is a folder; name the files in it, such as {path / '*.jsonl'}")
                except OSError as error:
                    # A hook's JSON names another file.
                    within = "" if error.filename in (None, str(path), str(path.absolute())) else f"{path}: "
                    failed.append(within + os_error_words(error, None if within else path))
                except ValueError as error:
                    failed.append(f"{path}: {error}")
                bar.update(1)
        pipeline.finish()
        pipeline.write()
        reflected = pipeline.reflected
        is_model = pipeline.runner.backend.is_model
    if is_model:
        reflected += ask_model(project, retry="left").reflected
    if as_json:
        outcome_of = {item.window_id: item.outcome for item in reflected}
        print_json({"files": [_file_json(path, taken, outcome_of) for path, taken in found], "failed": failed})
    elif found:
        outcomes = {item.window_id: _outcome(item.outcome, item.detail) for item in reflected}
        rows = [(path.name, *_cells(taken, outcomes)) for path, taken in found]
        table(
            ("file", "session", "new", "cited", "reflection"),
            rows,
            numbers=("new",),
            prose=("file", "cited", "reflection"),
        )
    for line in failed:
        note(f"reflector: {line}")
    if failed or any(one.outcome == "failed" for one in reflected):
        raise click.exceptions.Exit(1)


def _ingest_one(pipeline: Pipeline, path: Path, window: str) -> Taken | None:
    """Record one file; None for a hook's JSON that ends no session or turn."""
    from reflector.sessions import spool
    from reflector.sessions.intake import Source, source_of

    mode: WindowMode = "whole" if window == "whole" else "new"
    size = path.stat().st_size
    payload = _hook_json(path, size)
    if payload is None:
        return pipeline.take(Source(path.absolute(), "ingest", limit=size), window=mode)
    delivery = spool.accept(pipeline.project.root, payload)
    source = source_of(delivery)
    if source is None:
        spool.settle(delivery)
        return None
    try:
        taken = pipeline.take(source, window=mode)
    except (OSError, ValueError) as error:
        spool.fail(delivery, error)
        raise
    spool.settle(delivery)
    return taken


def _cells(taken: Taken | None, outcomes: Mapping[str, str]) -> tuple[object, ...]:
    if taken is None:
        return ("", 0, "", "this event does not end a session or turn")
    outcome = "nothing new" if taken.event_id is None else outcomes.get(taken.event_id, "")
    return (short_id(taken.session_id), taken.records, ", ".join(taken.cited[:6]), outcome)


def _file_json(path: Path, taken: Taken | None, outcomes: Mapping[str, str]) -> dict[str, Any]:
    window = taken.event_id if taken else None
    return {
        "file": str(path),
        "session_id": taken.session_id if taken else None,
        "window_id": window,
        "records": taken.records if taken else 0,
        "cited": [*taken.cited] if taken else [],
        "outcome": outcomes.get(window) if window else None,
    }


def _outcome(outcome: str, detail: str) -> str:
    return {"completed": detail or "neutral", "skipped": f"skipped: {detail}"}.get(outcome, f"{outcome}: {detail}")


def _hook_json(path: Path, size: int) -> bytes | None:
    """Return the bytes of a file that holds one hook payload; None for a transcript."""
    import json

    if not 0 < size <= _HOOK_JSON:
        return None
    raw = path.read_bytes()
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(value, dict) and "hook_event_name" in value else None


@click.command()
@click.option("--wait", is_flag=True, help="Wait for a running drain to finish.")
@click.option("--retry-failed", is_flag=True, help="Retry failed deliveries and reflections now.")
@click.option("--background", is_flag=True, help="Started by a hook: wait longer between retries.")
@json_option
@click.pass_obj
def drain(place: Place, wait: bool, retry_failed: bool, background: bool, as_json: bool) -> None:
    """Process queued hook deliveries and finish pending reflections.

    Retries failed reflections until their attempts are used up; a drain that a hook started waits longer between
    attempts. An outage of the API uses up no attempt. Windows that waited for a budget are judged when the budget
    allows it. The exit code is 1 if a delivery or a reflection failed.
    """
    from reflector.sessions.drain import Drained
    from reflector.sessions.drain import drain as run

    ran = run(place.project(), wait=wait, retry="all" if retry_failed else "due" if background else "left")
    done = ran or Drained()
    if as_json:
        print_json({"ran": ran is not None, **_as_json(done)})
    elif ran is None:
        note("Another drain is running; it processes the spool.")
    else:
        _print(place, done)
    if done.failed or done.broken or any(item.outcome == "failed" for item in done.reflected):
        raise click.exceptions.Exit(1)


def _as_json(done: Drained) -> dict[str, Any]:
    from reflector.sessions.drain import NOT_A_PAYLOAD

    return {
        "recorded": done.taken,
        "empty": done.empty,
        "reflected": [fields(one, "session_id window_id outcome detail stage again") for one in done.reflected],
        "failed": [
            *({"delivery": where, "error": error} for where, error in done.failed),
            *({"delivery": str(path), "error": NOT_A_PAYLOAD} for path in done.broken),
        ],
        "notes": done.notes,
    }


def _print(place: Place, done: Drained) -> None:
    from reflector.sessions.drain import NOT_A_PAYLOAD

    for item in done.reflected:
        if item.outcome == "completed" and item.detail:
            click.echo(safe(item.detail))
        elif item.outcome == "failed":
            told = (
                "it will be tried again"
                if item.again
                else f"it is tried again by hand only: {place.command('failures')}"
            )
            note(f"reflection failed, {told}: {item.detail}")
    for text in done.notes:
        note(f"reflector: {text}")
    again = place.command("drain --retry-failed")
    for where, error in done.failed:
        note(f"reflector: {where}: {error}; kept and tried again later, or now with: {again}")
    for path in done.broken:
        note(f"reflector: {path}: {NOT_A_PAYLOAD}")
