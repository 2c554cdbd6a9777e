"""`reflector reflect`: let a judge judge recorded sessions."""

from __future__ import annotations

import sys

import click

from reflector.audit.moments import session_named
from reflector.cli.app import Place
from reflector.cli.judge import one_run
from reflector.cli.options import flag, json_option, judge_option, yes_option
from reflector.cli.output import note, say, short_id, table
from reflector.cli.sessions import run_drain
from reflector.curator.listening import learned_words, propose_learned
from reflector.events.event import TRAJECTORY_RECORDED
from reflector.judges.protocol import Asks, Backend, BackendError, Request
from reflector.judges.registry import backend_of, judge_settings
from reflector.ledger.store import WindowRow
from reflector.project import Project
from reflector.reflection.recorder import Reflected
from reflector.reflection.runner import Runner
from reflector.sessions.drain import Drained, runner_of
from reflector.sessions.judging import judge_sessions, surplus_of_today
from reflector.text.phrases import counted


@click.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION…]")
@judge_option
@flag("--learn", help="Also propose rules that seem to be missing.")
@flag("--dry-run", help="Print the prompt without asking the judge.")
@yes_option
@json_option
@click.pass_obj
def reflect(
    place: Place,
    sessions: tuple[str, ...],
    judge: str | None,
    learn: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Judge recorded sessions.

    Without SESSION, `reflect` judges all sessions that are not judged yet. For example, `reflect`
    judges sessions on which a judge failed, or which waited because a budget was spent. SESSION is
    the id of a session, or the beginning of the id. With SESSION, `reflect` judges the session even
    if a budget is spent or a judge failed earlier. `reflect` does not judge a judged session again.
    --judge chooses the judge for one run. If the judge needs your permission, `reflect` asks you.
    --dry-run prints the prompt that a model would get, and sends nothing.
    """
    project = place.project(**judge_settings(judge), **({"curate": True} if learn else {}))
    backend = backend_of(project.config, project.root)
    if dry_run:
        _show_prompts(place, project, backend, sessions)
        return
    with one_run(place, judge, yes=yes):
        if sessions:
            _judge_named(place, project, backend, sessions)
        else:
            confirmed = _confirmed(place, project)
            run_drain(place, project, "all", confirmed=confirmed)


def _judge_named(
    place: Place,
    project: Project,
    backend: Backend,
    sessions: tuple[str, ...],
) -> None:
    with place.reading() as ledger:
        session_ids = {session_named(ledger, session) for session in sessions}
    judged = judge_sessions(project, backend, session_ids)
    with place.changing(project) as ledger:
        if judged and project.config.curate:
            note(learned_words(propose_learned(ledger), *_answered(backend, judged)))
    print_judged(place, judged)


def print_judged(place: Place, judged: list[Reflected]) -> None:
    """Print the outcome of the windows of sessions. Exit with 1 if one failed."""
    rows = [(short_id(window.session_id), window.outcome, window.words) for window in judged]
    if not place.answers(Drained(reflected=judged)):
        table(("session", "result", "verdicts"), rows, empty="Already judged.")
    if any(window.outcome == "failed" for window in judged):
        raise click.exceptions.Exit(1)


def _answered(backend: Backend, judged: list[Reflected]) -> tuple[int, str]:
    """Return the number of models that answered about missing rules, and why the others did not."""
    if not backend.quotes:
        return 0, f"the judge {backend.name} cannot propose rules; choose a model with --judge"
    failures = [window.detail for window in judged if window.outcome != "completed"]
    return len(judged) - len(failures), failures[0] if failures else ""


def _confirmed(place: Place, project: Project) -> int | None:
    """Return the number of requests to your agent that you agree to.

    You are asked only if more sessions wait than today's limit allows.
    """
    if not project.has_ledger() or not sys.stdin.isatty():
        return None
    with place.reading() as ledger:
        surplus = surplus_of_today(project, ledger)
    if surplus is None:
        return None
    config = project.config
    tokens = surplus.windows * config.request_tokens
    question = (
        f"{counted(surplus.windows, 'session')} to judge, but your limit leaves "
        f"{surplus.requests_left} of {config.daily_requests} requests today. Judge all these "
        f"sessions now, with at most about {tokens:,} tokens?"
    )
    return surplus.windows if click.confirm(question, err=True) else None


def _show_prompts(
    place: Place, project: Project, backend: Backend, sessions: tuple[str, ...]
) -> None:
    with place.reading() as ledger:
        runner = runner_of(project, ledger, backend)
        session_ids = [session_named(ledger, session) for session in sessions]
        windows = [window for id in session_ids for window in ledger.windows(id)]
        if not sessions:
            windows = [*ledger.open_windows(), *runner.reopened()]
        for window in windows:
            _show_prompt(runner, window)
    if not windows:
        note(
            "No session waits for a judge. To see the prompt for another session: "
            f"{place.command('reflect', 'SESSION', '--dry-run')}"
        )


def _show_prompt(runner: Runner, window: WindowRow) -> None:
    short = short_id(window.session_id)
    recorded = runner.ledger.event(window.event_id)
    if recorded is None or recorded.data is None:
        note(f"{short}: `redact` erased the text of this session")
    elif recorded.type == TRAJECTORY_RECORDED:
        note(
            f"{short}: the prompts of a trajectory depend on earlier answers, so --dry-run cannot "
            "show them"
        )
    else:
        _print_prompt(runner.backend, runner.request(runner.session(recorded)))


def _print_prompt(backend: Backend, request: Request) -> None:
    if not isinstance(backend, Asks):
        mode = request.mode.replace("_", " ")
        note(
            f"The judge {backend.name} does not call a model, so it does not need a prompt. The "
            f"session cites {counted(len(request.cited), 'rule')} (mode: {mode})."
        )
        return
    try:
        prompt = backend.prompt(request)
    except (BackendError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    say(prompt.text)
    omitted = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in prompt.left_out.items()]
    words = f" Omitted: {', '.join(omitted)}." if omitted else ""
    note(f"The prompt has about {prompt.tokens:,} tokens.{words} Nothing was sent.")
