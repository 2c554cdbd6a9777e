"""Judging: `reflect` has recorded sessions judged, `judge` asks a person about the citations
that nothing decided.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path

import click

from reflector.audit.moments import session_named
from reflector.cli.app import Place
from reflector.cli.changes import asked
from reflector.cli.options import FILE, NAME, BackendChoice, dry_run_option, json_option, why_option
from reflector.cli.output import counted, note, print_json, safe, short_id, short_time, table
from reflector.cli.sessions import run_drain
from reflector.curator.listening import learned_words, propose_learned
from reflector.events.bullets import WITHOUT_A_QUOTE
from reflector.events.event import TRAJECTORY_RECORDED
from reflector.judges.protocol import OUTAGES, Asks, Backend, BackendError, Request
from reflector.judges.registry import backend_of
from reflector.ledger.store import BulletRow, WindowRow
from reflector.playbook.bullet import Verdict
from reflector.project import Project
from reflector.reflection import standing
from reflector.reflection.checking import recount
from reflector.reflection.gate import Spending, waiting_for_budget
from reflector.reflection.recorder import Failure, Reflected, failure_event
from reflector.reflection.runner import Runner
from reflector.reflection.standing import OpenCitation, reparse
from reflector.sessions import locks
from reflector.sessions.drain import Drained, runner_of
from reflector.sessions.last_session import leave_last_session
from reflector.text.secrets import quote
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

_MENU = "[h]elpful  har[m]ful  [n]eutral  [s]kip  [f]ull evidence  [q]uit"
#: Messages behind the citation, and the characters of each, that a screen has room for.
_MESSAGES, _CHARACTERS = 12, 240


@click.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION…]")
@click.option("--backend", type=BackendChoice(), help=("The judge; default: the configured one."))
@click.option("--record", type=FILE, help="Write the answers to this file, as fixtures.")
@click.option("--give-up", is_flag=True, help="Stop trying to judge the sessions; needs --why.")
@click.option("--learn", is_flag=True, help="Propose as well what the sessions show to be missing.")
@click.option(
    "--reparse",
    is_flag=True,
    help=("Read recorded answers again with the current parser; call no model."),
)
@why_option
@dry_run_option
@json_option
@click.pass_obj
def reflect(
    place: Place,
    sessions: tuple[str, ...],
    backend: str | None,
    record: Path | None,
    give_up: bool,
    learn: bool,
    reparse: bool,
    why: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Judge recorded sessions now, or show the prompt that a model would get.

    SESSION is a session's id or its beginning; without one, everything that waits or failed is
    tried again, deliveries of hooks and windows that waited for a budget included. A named session
    bypasses the gate and its budgets, even if it was skipped, failed, given up or declined by the
    model. A judged one stays as it is; --dry-run shows its prompt.

    With --reparse, where the parser reads other tags than those that count, the old reading is
    retracted and the new one counts.
    """
    if give_up or (why is not None):
        _give_up(place, sessions, why, is_asked=give_up)
        return
    if reparse:
        _reparse(place, sessions, dry_run=dry_run, as_json=as_json)
        return
    project = place.project(backend=backend, curate=learn or None)
    judge = backend_of(project.config, project.root)
    if not sessions and record is None and not dry_run:
        run_drain(place, project, "all", as_json=as_json, confirmed=_confirmed(place, project))
        return
    if record is not None:
        from reflector.judges.fixtures import Recording

        judge = Recording(judge, record)
    with place.reading() as ledger:
        runner = runner_of(project, ledger, judge)
        windows = [*ledger.open_windows(), *runner.reopened()] if not sessions else []
        windows += [
            window for given in sessions for window in ledger.windows(session_named(ledger, given))
        ]
        if dry_run:
            _show_prompts(runner, windows)
            return
    unjudged = [window for window in windows if window.state != "completed"]
    if not unjudged:
        note("Judged already." if sessions else "No session waits to be judged.")
    done = _reflect(project, judge, unjudged, bool(sessions)) if unjudged else []
    with place.changing(project) as ledger:
        if done and project.config.curate:
            note(learned_words(propose_learned(ledger), *_answered(judge, done)))
    if as_json:
        print_json(Drained(reflected=done))
    elif unjudged:
        rows = [(short_id(one.session_id), one.outcome, one.words) for one in done]
        table(("session", "reflection", "what"), rows, empty="Another process judged it meanwhile.")
    if any(one.outcome == "failed" for one in done):
        raise click.exceptions.Exit(1)


def _answered(judge: Backend, done: list[Reflected]) -> tuple[int, str]:
    """Return how many models answered what is missing, and why the others did not."""
    if not judge.quotes:
        return 0, f"{judge.name} asks none; name one with --backend"
    answered = sum(one.outcome == "completed" for one in done)
    return answered, next((one.detail for one in done if one.outcome != "completed"), "")


def _confirmed(place: Place, project: Project) -> int | None:
    """Return how many requests to their agent a person agrees to, where more sessions wait than
    today allows.
    """
    config = project.config
    if (
        not config.is_daily_limited
        or not config.daily_requests
        or not project.has_ledger()
        or not sys.stdin.isatty()
    ):
        return None
    with place.reading() as ledger:
        waiting = len([*ledger.open_windows(), *waiting_for_budget(ledger)])
    try:
        left = max(0, config.daily_requests - Spending().requests_today())
    except OSError:  # the drain says what is wrong with the record
        return None
    if waiting <= left:
        return None
    most = f"at most about {waiting * config.request_tokens:,} tokens"
    why = (
        f"{counted(waiting, 'session window')} to judge, {left} of {config.daily_requests} "
        "requests left today"
    )
    return (
        waiting if click.confirm((f"{why}. Ask about all of them now, {most}?"), err=True) else None
    )


def _reflect(
    project: Project, judge: Backend, windows: list[WindowRow], named: bool
) -> list[Reflected]:
    done: list[Reflected] = []
    with (
        locks.held(project.make_state_dir(), "model.lock", wait=True),
        project.open_ledger() as ledger,
    ):
        runner = runner_of(project, ledger, judge)
        # While this command waited for the lock, another process may have gone on with some of
        # them.
        chosen = {window.event_id for window in windows}
        for window in (
            one for one in ledger.windows() if one.event_id in chosen and one.state != "completed"
        ):
            done.append(runner.finish(window, forced=named))
            if not named and done[-1].stage in OUTAGES:
                break  # the others would fare alike
    return done


def _show_prompts(runner: Runner, windows: list[WindowRow]) -> None:
    for window in windows:
        recorded = runner.ledger.event(window.event_id)
        if recorded is None or recorded.data is None:
            note(f"{short_id(window.session_id)}: the session's event was redacted")
        elif recorded.type == TRAJECTORY_RECORDED:
            note(
                f"{short_id(window.session_id)}: is a trajectory, whose prompts follow from each "
                "other's answers"
            )
        else:
            _show_prompt(runner.backend, runner.request(runner.session(recorded)))
    if not windows:
        note("No session waits to be judged; name one.")


def _show_prompt(judge: Backend, request: Request) -> None:
    if not isinstance(judge, Asks):
        note(
            f"{judge.name} calls no model: {len(request.cited)} cited, "
            f"{request.mode.replace('_', ' ')}"
        )
        return
    try:
        prompt = judge.prompt(request)
    except (BackendError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(safe(prompt.text))
    cut = ", ".join(
        f"{count:,} {kind.replace('_', ' ')}" for kind, count in prompt.left_out.items()
    )
    note(f"about {prompt.tokens:,} tokens{f'; left out: {cut}' if cut else ''}; nothing was sent")


def _give_up(place: Place, sessions: tuple[str, ...], why: str | None, *, is_asked: bool) -> None:
    """Record that sessions are not judged any more; `reflect SESSION` judges one after all."""
    if not (is_asked and sessions and why):
        raise click.UsageError(
            "--give-up and --why belong together, with a session: reflect --give-up ID --why TEXT"
        )
    place.needs_playbook()
    project = place.project()
    with place.pipeline(project) as pipeline:
        for given in sessions:
            session_id = session_named(pipeline.ledger, given)
            open_ = [
                window
                for window in pipeline.ledger.open_windows()
                if window.session_id == session_id
            ]
            given_up = Failure("given up", why, attempts=0, final=True)
            pipeline.ledger.append(
                [
                    failure_event(one, project.config.backend, given_up, actor="human")
                    for one in open_
                ]
            )
            if not open_:
                note(f"Nothing of {short_id(session_id)} is open.")


def _reparse(place: Place, sessions: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    config, again = place.project().config, 0
    with place.changing() as ledger:
        chosen: list[str | None] = [session_named(ledger, given) for given in sessions]
        read = partial(reparse, ledger, dry_run=dry_run, trusted=config.trusted)
        found = [one for id in chosen or [None] for one in read(session_id=id)]
        if not dry_run:
            again = sum(
                recount(ledger, counts=config.checked_counts, session_id=id)
                for id in chosen or [None]
            )
    if again:
        note(
            f"{counted(again, 'answer')} to `check` "
            f"{'count' if config.checked_counts else 'do not count'} now."
        )
    if as_json:
        print_json(found)
        return
    changed = [one for one in found if one.reading != "same"]
    rows = [
        (short_id(one.session_id), one.reading, _tags(one.before), _tags(one.after))
        for one in changed
    ]
    columns = ("session", "reading", "before", "after")
    table(
        columns,
        rows,
        prose=("before", "after"),
        empty=(f"{len(found)} answers, all read as before."),
    )


def _tags(tags: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {tag}" for name, tag in tags) or "none"


@click.command()
@click.argument("session", required=False)
@click.argument("name", required=False, type=NAME)
@click.argument("verdict", required=False, type=click.Choice(["helpful", "harmful", "neutral"]))
@why_option
@click.option("--all", "decided", is_flag=True, help="Include citations that have a verdict.")
@json_option
@click.pass_obj
def judge(
    place: Place,
    session: str | None,
    name: str | None,
    verdict: Verdict | None,
    why: str | None,
    decided: bool,
    as_json: bool,
) -> None:
    """Judge the citations that nothing decided, with the evidence on the screen.

    One key gives each verdict. Your verdict counts instead of those that others gave the bullet in
    that session; `blame` shows both, and the printed `undo` takes yours back. SESSION NAME VERDICT
    records one without asking.
    """
    if (name is None) != (verdict is None):
        raise click.UsageError(
            "a verdict needs all three: SESSION NAME VERDICT, such as 5f2a91c0 pat-001 helpful"
        )
    with place.reading() as ledger:
        chosen = session_named(ledger, session) if session is not None else None
        found = standing.citations(
            ledger, session_id=chosen, decided=decided, judged=verdict is not None
        )
        rows = {row.name: row for row in ledger.rows()}
    if verdict is not None:
        one = next((one for one in found if one.name == name), None)
        if one is None:
            raise click.ClickException(
                f"session {session} has no citation of {name} that can be judged: the session "
                "does not cite it, the"
                " bullet is gone, or the session is still being judged"
            )
        note(f"{one.name} {verdict} in session {one.session_id}.")
        _record(place, one, verdict, why or "")
    elif as_json:
        print_json(found)
    elif not found:
        note("No citation waits for a verdict.")
    else:
        _walk(place, found, rows, why or "")


def _walk(place: Place, found: list[OpenCitation], rows: dict[str, BulletRow], why: str) -> None:
    judged = 0
    for number, one in enumerate(found, 1):
        click.secho(f"\n{number} of {len(found)}  {safe(rows[one.name].bullet.line)}", bold=True)
        said = "not judged"
        if one.verdict:
            uncounted = f", not counted: {one.uncounted}" if one.uncounted else ""
            without = f" {WITHOUT_A_QUOTE}" if one.unquoted else ""
            said = ", ".join(
                filter(None, (f"{one.by}: {one.verdict}{without}{uncounted}", one.reason))
            )
        click.echo(
            f"session {short_id(one.session_id)}  {short_time(one.window.occurred_at)}  "
            f"{safe(said)}"
        )
        _show(one, _MESSAGES)
        while (chosen := asked(_MENU)) == "full evidence":
            _show(one, None)
        if chosen == "quit":
            break
        if chosen != "skip":
            _record(place, one, chosen, why)  # type: ignore[arg-type]
            judged += 1
    note(f"{counted(judged, 'verdict')} recorded; {len(found) - judged} left.")


def _show(one: OpenCitation, most: int | None) -> None:
    try:
        for cites, message in islice(standing.evidence(one), most):
            for line in _lines(message, None if most is None else _CHARACTERS):
                click.secho(line, bold=cites or message.origin == "human")
    except (OSError, UnknownTranscript) as error:
        click.echo(f"  the evidence cannot be shown: {safe(str(error))}")


def _lines(message: Message, most: int | None) -> Iterable[str]:
    """Yield a message's words, calls and results, a line each on a screen, whole where `most` is
    None.
    """
    if message.text.strip():
        yield _line("you" if message.origin == "human" else message.origin, message.text, most)
    for call in message.calls:
        yield _line("call", f"{call.name} {next(iter(call.input.values()), '')}", most)
    for result in message.results:
        yield _line("error" if result.is_error else "result", result.text, most)


def _line(who: str, text: str, most: int | None) -> str:
    if most is None:
        return f"{who:>9}  " + safe(text).replace("\n", "\n" + " " * 11)
    return f"{who:>9}  {quote(text, most)}"


def _record(place: Place, one: OpenCitation, verdict: Verdict, why: str) -> None:
    with place.changing() as ledger:
        recorded = standing.record_verdict(ledger, one, verdict, why)
        answered = Reflected(
            one.session_id, one.window.event_id, "completed", f"{one.name} {verdict}"
        )
        leave_last_session(place.project().root, [answered], only=True)
    note(f"Undo: {place.command('undo', str(recorded.position))}")
