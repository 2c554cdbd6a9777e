"""`reflector check`: the page of the rules that your agents load.

Invariant: nothing is sent unless you name a judge, or agree after you saw the tokens and the price.
No file of the project is changed, and without a ledger nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import click

from reflector.check.answer import LinesJson, answer_of
from reflector.check.closing import closing, cost_words, spent_words
from reflector.check.page import page_lines
from reflector.check.plan import (
    MOST_SESSIONS,
    Look,
    Plan,
    Typed,
    ask_planned,
    look_at,
    skipped_words,
    unfit_agents,
)
from reflector.check.projects import is_outside, project_table
from reflector.check.source import advice_to_check, no_line_words
from reflector.cli.app import Place
from reflector.cli.judge import one_run
from reflector.cli.options import (
    DAY,
    READ_FILE,
    agreed,
    flag,
    json_option,
    judge_option,
    yes_option,
)
from reflector.cli.output import counting, day_words, note, progress, say
from reflector.cli.sessions import compressed_words
from reflector.config import APIS, DEFAULT_API
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.agent_process import client_fault
from reflector.judges.protocol import MOST_QUESTIONS
from reflector.judges.registry import described, judge_settings
from reflector.playbook_files.watching import Line
from reflector.project import Project
from reflector.sessions import checks
from reflector.sessions.found_transcripts import compressed_by_agent
from reflector.text.phrases import counted, named
from reflector.transcripts.readers import faults

_EACH = partial(counting, what="reading your agents' sessions")

_NOTHING_TO_ASK = (
    "No session was sent to the judge, because the judge has already read each session that had "
    "one of these rules."
)


@click.command()
@click.argument("files", nargs=-1, type=READ_FILE, metavar="[FILE…]")
@click.option(
    "-n",
    "most",
    type=click.IntRange(1),
    default=MOST_SESSIONS,
    show_default=True,
    help="Read only the N newest sessions.",
)
@click.option("--since", type=DAY, help="First day to read, such as 2026-11-01.")
@judge_option
@flag("--learn", help="Also propose rules that seem to be missing.")
@flag("--retry-failed", help="Ask the judge the failed questions again.")
@flag("--dry-run", help="Show the price of judging, and send nothing.")
@flag("--all", "whole", help="Show every rule in full.")
@yes_option
@json_option
@click.pass_obj
def check(
    place: Place,
    files: tuple[Path, ...],
    most: int,
    since: datetime | None,
    judge: str | None,
    learn: bool,
    retry_failed: bool,
    dry_run: bool,
    whole: bool,
    yes: bool,
) -> None:
    """Show which rules your agent breaks.

    FILE is a file with rules. By default, `check` reads the files that agents load in this project,
    such as CLAUDE.md and AGENTS.md, and the rules of the project's playbook. In a folder that is
    not a project, `check` shows a table of your projects.

    Without a judge, `check` is free and sends nothing. With --judge, a judge reads the sessions of
    this project that your agents keep on this machine. The judge reads the newest session first.
    Before the judge reads a session, `check` shows the number of tokens and the price. If you stop
    `check`, run the same command again: the judge then reads only the remaining sessions.
    """
    typed = Typed(files, most, since, judge, learn, retry_failed)
    project = _with_judge(place, judge)
    advice = advice_to_check(project, files)
    if not files and is_outside(project, advice) and (table := project_table(_EACH, date.today())):
        say("\n".join(table))
        return
    if not advice.files:
        raise click.ClickException(no_line_words(advice))
    with consent.only_now(_may_judge_now(judge)):
        look = look_at(project, advice.lines, typed, each=_EACH)
    ran = checks.Ran()
    if not dry_run and _may_ask(typed, yes=yes):
        ran = _ask(place, project, advice.lines, look, yes=yes)
    facts, document = answer_of(project, advice, look, ran)
    absent = _absent_words(judge, look, ran)
    if not place.answers(document):
        if absent:
            raise click.ClickException(absent)
        plan = Plan("") if ran.asked else look.plan
        last = closing(facts, plan, typed, place.command, keep_with=_way_to_keep(project))
        facts = replace(facts, was_sent=ran.asked > 0, closing=last)
        say("\n".join(page_lines(facts, date.today(), whole=whole)))
        for text in _notes(place, document, look, ran, whole=whole):
            note(text)
        if since is not None and not facts.sessions:
            all_sessions = place.command(*typed._replace(since=None).words())
            day = day_words(since.astimezone().isoformat())
            note(f"No session ended since {day}. To check all sessions: {all_sessions}")
        elif judge and facts.sessions and look.plan == Plan(""):
            note(_NOTHING_TO_ASK)
    if ran.failed or absent:
        raise click.exceptions.Exit(1)


def _way_to_keep(project: Project) -> str:
    """Return the command that keeps the counts of a project; "" if its ledger keeps them."""
    from reflector.hooks.reach import callers_of

    if project.has_ledger():
        return ""
    is_connected = next(callers_of(project.root), None) is not None
    return "history" if is_connected else "install"


def _absent_words(judge: str | None, look: Look, ran: checks.Ran) -> str:
    """Return why the named judge was not asked; "" if it was asked or you did not name one."""
    if judge is None or ran.asked or not look.plan.lacks:
        return ""
    if judge in unfit_agents(look.plan):
        return f"{judge} did not judge your rules."
    program = "" if judge in APIS else "its program was not found, and "
    return (
        f"{judge} did not judge your rules: {program}no API key is set. To set up a judge: "
        "reflector judge"
    )


def _may_ask(typed: Typed, *, yes: bool) -> bool:
    """Return whether you want a judge, and agreed or can be asked."""
    is_wanted = typed.judge is not None or typed.learns or typed.again
    return yes or (is_wanted and sys.stdin.isatty())


def _may_judge_now(named: str | None) -> Mapping[str, consent.Agreed]:
    """Return the named agent with its terms for this run, if its version can judge.

    The user is not asked.
    """
    if named is None or named not in JUDGES:
        return {}
    terms = consent.installed_clients().get(named)
    return {named: terms} if terms and not client_fault(named, terms) else {}


def _with_judge(place: Place, named: str | None) -> Project:
    """Return the project with the named judge, or else with the judge that you have."""
    project = place.project(**judge_settings(named))
    if project.config.asks_model:
        return project
    if named is not None:
        raise click.UsageError(
            f"the judge {named!r} does not ask a model, and `check` needs a model, for "
            "example --judge claude"
        )
    if consent.agreed_clients():
        return place.project(backend="agent")
    with_api = place.project(backend=DEFAULT_API)
    return project if described(with_api.config, with_api.root).way_out else with_api


def _ask(
    place: Place, project: Project, lines: tuple[Line, ...], look: Look, *, yes: bool
) -> checks.Ran:
    """Ask the judges about the planned sessions if the user agrees.

    The progress bar shows the time left and the price so far.
    """
    plan = look.plan
    if not (plan.files or plan.lacks):
        return checks.Ran()
    cost = cost_words(plan)
    with one_run(place, look.typed.judge, cost, yes=yes) as is_agreed:
        if not plan.files:
            return checks.Ran()
        if not is_agreed:
            agreed(f"Send your rules and these sessions to the judge ({cost})?", "", yes=yes)
        with progress(len(plan.files), "checking") as bar:

            def advance(spent: Decimal) -> None:
                bar.label = f"checking, ${spent:.2f}"
                bar.update(1)

            return ask_planned(project, lines, look, advance)


def _notes(
    place: Place, answer: LinesJson, look: Look, ran: checks.Ran, *, whole: bool
) -> Iterator[str]:
    """Yield the notes after the page: the sessions and files that were not read, the cost of the
    judge, and its missing answers. With `whole`, also the text that is not a rule, and the rules
    that are alike.
    """
    typed = look.typed
    yield from skipped_words(look.plan)
    yield from faults()
    yield from (compressed_words(title, paths) for title, paths in compressed_by_agent().items())
    unread = [text for text in answer.left_out if text.startswith("not read: ")]
    if whole:
        yield from answer.left_out
        for pair in answer.alike:
            names = " and ".join(bullet.name for bullet in pair.bullets)
            yield f"{pair.kind}: {names}: {pair.why}"
    elif unread:
        first, *others = unread
        all_notes = place.command(*typed.words(), "--all")
        number = counted(len(others), "other note")
        yield f"{first}; to see {number}: {all_notes}" if others else first
    yield from map(named, ran.failed)
    yield from ran.notes
    if (checked := answer.found) is not None:
        if ran.asked:
            yield spent_words(checked)
        if dropped := sum(line.dropped for line in checked.lines):
            yield (
                f"reflector ignored {counted(dropped, 'answer')}, because an answer counts only if "
                "its quote is in the session."
            )
    if answer.unanswered:
        number = counted(answer.unanswered, "session")
        again = place.command(*typed._replace(again=True).asking(typed.judge))
        yield (
            f"The judge did not give a valid answer about {number}, although reflector asked "
            f"{MOST_QUESTIONS} times. To ask the judge again: {again}"
        )
