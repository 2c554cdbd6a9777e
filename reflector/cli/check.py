"""`reflector check`: the lines of the files that agents load, and the findings about them.

Invariant: nothing is sent before the user agreed to the judges, the tokens and the price. No file
of the project is changed. Without a judge, `check` shows what can be found out for free.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import click

from reflector.audit.checked import TOO_FEW, Answered, Checked
from reflector.check.plan import (
    DEFAULT_API,
    Look,
    Plan,
    ask_planned,
    judge_title,
    look_at,
    unfit_agents,
)
from reflector.check.result import (
    LineJson,
    LinesJson,
    answer_of,
    by_agent,
    compressed_files,
    is_broken,
)
from reflector.cli.app import Place
from reflector.cli.options import DAY, READ_FILE, agreed, json_option, judge_option, yes_option
from reflector.cli.output import counted, counting, note, print_json, progress, safe, table
from reflector.cli.sessions import compressed_words
from reflector.config import CONSENT
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.protocol import MOST_QUESTIONS
from reflector.judges.registry import described, judge_settings
from reflector.playbook_files.watching import Advice, advice_of
from reflector.project import Project
from reflector.sessions import checks

#: Files that were not read, in an error.
_MOST_UNREAD = 3
_NO_SESSION_NOTE = (
    "No agent keeps a session of this folder. Next: use your agent here, or go to the folder where "
    "you did, or look further back with --since; then run this again. `check` does not see "
    "sessions that you ingested from elsewhere."
)
#: By `benchmarks.coverage`, at the 32,000 tokens of a question.
_EXCERPT_NOTE = (
    'The judge reads an excerpt of each session. "Not seen" means: not in the excerpt. (In tests, '
    "159 of 165 excerpts held the deciding passage.)"
)
_INTERVAL_NOTE = "90% intervals; they assume that the judge is right."


@click.command()
@click.argument("files", nargs=-1, type=READ_FILE, metavar="[FILE…]")
@click.option(
    "-n",
    "most",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Read only the N newest sessions.",
)
@click.option(
    "--since",
    type=DAY,
    help="Only sessions since this day.",
)
@judge_option
@click.option("--learn", is_flag=True, help="Also propose advice that seems to be missing.")
@click.option("--retry-failed", is_flag=True, help="Ask again about sessions without an answer.")
@click.option("--dry-run", is_flag=True, help="Send nothing; show the cost of a judge.")
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
    yes: bool,
    as_json: bool,
) -> None:
    """Show which lines of your CLAUDE.md your agent follows, and which help.

    FILE is a file of advice. Default: the CLAUDE.md, AGENTS.md, GEMINI.md and rules that agents
    load in this project. Every list item is checked, and every sentence that is an instruction.

    A judge reads the sessions that your agents keep of this project, newest first, with one
    question each. You see the tokens and the price before anything is sent. If you stop it, the
    same command goes on, and asks nothing twice. `check` changes no file of the project.
    """
    project = _with_judge(place, judge)
    advice = advice_of(project.root, files)
    if not advice.lines:
        raise click.ClickException(_no_line_words(advice))
    look = look_at(
        project,
        advice.lines,
        most=most,
        since=since.timestamp() if since else 0.0,
        again=retry_failed,
        each=partial(counting, what="looking at your agents' sessions"),
    )
    if not as_json:
        _print_head(advice, look)
    ran = checks.Ran()
    if look.plan.files and not dry_run and (yes or sys.stdin.isatty()):
        agreed(f"{_cost_words(look.plan)} Continue?", "", yes=yes)
        ran = _ask(project, advice, look.plan, learns=learn, again=retry_failed)
    answer = answer_of(project, advice, look, ran, place.command)
    if as_json:
        print_json(answer)
    else:
        _print_rows(answer)
        _print_trouble(place, answer, ran)
        _print_next(place, look.plan, ran)
    if ran.failed:
        raise click.exceptions.Exit(1)


def _no_line_words(advice: Advice) -> str:
    """Return why there is nothing to check, and the way out."""
    unread = [text for text in advice.omitted if text.startswith(("not read: ", "not followed: "))]
    reasons = unread[:_MOST_UNREAD]
    if advice.files:
        reasons.insert(0, f"no instruction found in {', '.join(advice.files)}")
    elif not unread:
        reasons = ["no CLAUDE.md, AGENTS.md, GEMINI.md or rules file found here"]
    return "; ".join([*reasons, "name a file: reflector check FILE"])


def _with_judge(place: Place, named: str | None) -> Project:
    """Return the project with the judge that is named, or the one that the person has."""
    project = place.project(**judge_settings(named))
    if project.config.asks_model:
        return project
    if named is not None:
        raise click.UsageError(f"{named} cannot judge lines: use a model, such as --judge claude")
    if consent.agreed_clients():
        return place.project(backend="agent")
    with_api = place.project(backend=DEFAULT_API)
    return project if described(with_api.config, with_api.root).way_out else with_api


def _ask(project: Project, advice: Advice, plan: Plan, *, learns: bool, again: bool) -> checks.Ran:
    """Ask the judges; the bar shows the time left and the price so far."""
    with progress(len(plan.files), "checking") as bar:

        def advance(spent: Decimal) -> None:
            bar.label = f"checking, ${spent:.2f}"
            bar.update(1)

        return ask_planned(project, advice.lines, plan, learns=learns, again=again, advance=advance)


def _print_head(advice: Advice, look: Look) -> None:
    """Print the files, the sessions, and those that are skipped."""
    for name, tokens in advice.files.items():
        number = sum(line.file == name for line in advice.lines)
        scope = advice.scopes.get(name)
        when = f"only for {', '.join(scope)}" if scope else "at each start"
        note(f"{name}: {counted(number, 'line')}, about {tokens:,} tokens {when}")
    for text in advice.omitted:
        note(f"  {text if text.startswith('not ') else f'not checked: {text}'}")
    sessions = by_agent(look.sessions)
    each = ", ".join(f"{number} of {title}" for title, number in sessions.items())
    total = counted(len(look.sessions), "session")
    note(f"{total} of this project{': ' if each else ''}{each}")
    for title, paths in compressed_files().items():
        note(compressed_words(title, paths))
    _print_skipped(look.plan)


def _print_skipped(plan: Plan) -> None:
    """Print the agents that cannot judge, and the ways out."""
    faults = unfit_agents(plan)
    for fault in faults.values():
        note(f"{fault}. Or choose another judge (--judge NAME).")
    for judge, number in plan.barred.items():
        title = judge_title(judge)
        way_out = f"Allow it ({CONSENT}) or choose another judge (--judge NAME)."
        reason = f"{title} may not judge yet. {way_out}"
        if judge not in JUDGES:
            reason = f"{title} cannot judge. Choose another judge (--judge NAME)."
        if judge not in faults:
            note(f"{number:,} {title} session{'s' if number > 1 else ''} skipped: {reason}")


def _cost_words(plan: Plan) -> str:
    """Return the judges with the questions, the tokens and the price, in a sentence."""
    if not plan.shares:
        return "Nothing is left to ask."
    parts = [
        f"{judge_title(judge)} would get {counted(share.questions, 'question')}, at most about "
        f"{-(-share.tokens // 1000) * 1000:,} tokens"
        for judge, share in plan.shares.items()
    ]
    return f"{'; '.join(parts)}, {_price_words(plan.price)}."


def _price_words(price: Decimal | None) -> str:
    if price is None:
        return "at a price that is not known here"
    return f"about ${price:.2f}" if price >= Decimal("0.01") else "for less than $0.01"


def _print_rows(answer: LinesJson) -> None:
    """Print the lines with the findings, the pairs that are alike, and the price of the judge."""
    if answer.found is None:
        _print_unjudged(answer.lines)
    else:
        _print_judged(answer.lines)
    for pair in answer.alike:
        names = " and ".join(bullet.name for bullet in pair.bullets)
        click.echo(safe(f"{pair.kind}: {names}: {pair.why}"))
    if answer.found is not None:
        _print_spent(answer.found)


def _print_unjudged(rows: Sequence[LineJson]) -> None:
    cells = [(row.place, row.tokens, row.text) for row in rows]
    table(("line", "tokens", "text"), cells, whole=True)


def _print_judged(rows: Sequence[LineJson]) -> None:
    note(_EXCERPT_NOTE)
    table(
        ("line", "name", "relevant", "followed", "helped", "tokens", "result", "text"),
        [_cells(row) for row in rows],
        prose=("result", "text"),
        extra=("tokens", "relevant", "name", "helped"),
        whole=True,
        below="text",
    )
    for row in rows:
        if row.quotes and row.judged is not None and row.judged.result != TOO_FEW:
            result = row.judged.result
            advice = f". {_advice(result)}" if is_broken(result) else ""
            words = f"{row.place}: {result}{advice}; quotes: {row.quotes}; change it: {row.act}"
            click.echo(safe(words))


def _advice(result: str) -> str:
    """Return the way out of a result that is against its line."""
    if "harmful" in result:
        return "Reword it, or remove it"
    return "Say it differently, or make it a hook"


def _cells(row: LineJson) -> tuple[object, ...]:
    judged = row.judged
    if judged is None:
        return row.place, "", "", "", "", row.tokens, "not asked about", row.text
    result = judged.result
    if judged.earlier:
        result += f" ({judged.earlier} by earlier words)"
    if judged.left_out:
        result += f", no room for it in {judged.left_out}"
    if not judged.relevant:
        result += f" (cost: {judged.tokens * judged.sessions:,} tokens)"
    return (
        row.place,
        row.name,
        judged.relevant,
        _range(judged.followed),
        _range(judged.helped),
        judged.tokens,
        result,
        row.text,
    )


def _range(answered: Answered) -> str:
    """Return the share of yes, with its interval."""
    number = answered.yes + answered.no
    return f"{answered.yes}/{number} ({answered.low:.0%} to {answered.high:.0%})" if number else ""


def _print_spent(checked: Checked) -> None:
    price = f", ${Decimal(checked.cost):.2f}"
    if checked.unpriced:
        price += " and a part without a known price"
    sessions = f"{counted(checked.sessions, 'session')} judged"
    questions = counted(checked.requests, "question")
    note(f"{sessions}, {questions}, {checked.tokens:,} tokens{price}. {_INTERVAL_NOTE}")
    if dropped := sum(line.dropped for line in checked.lines):
        note(f"{counted(dropped, 'answer')} dropped: the quote is not in the session.")


def _print_trouble(place: Place, answer: LinesJson, ran: checks.Ran) -> None:
    for text in [*(f"reflector: {reason}" for reason in ran.failed), *ran.notes]:
        note(text)
    if answer.unanswered:
        number = counted(answer.unanswered, "session")
        again = place.command("check", "--retry-failed")
        note(f"{number} without an answer, asked {MOST_QUESTIONS} times. Next: {again}")
    if not answer.sessions:
        note(_NO_SESSION_NOTE)


def _print_next(place: Place, plan: Plan, ran: checks.Ran) -> None:
    """Print the price of a judge that was not asked, and the command that asks."""
    if plan.shares and not ran.asked:
        note(f"A judge reads them: {_cost_words(plan)}")
        note(f"Next: {plan.lacks or place.command(*_same_words())}")


def _same_words() -> list[str]:
    """Return this command as it was typed, but with --yes instead of --dry-run."""
    from shlex import quote

    context = click.get_current_context()
    files: tuple[Path, ...] = context.params["files"]
    words = ["check", *(quote(str(path)) for path in files)]
    if context.params["most"] != 50:
        words += ["-n", str(context.params["most"])]
    if (since := context.params["since"]) is not None:
        words += ["--since", f"{since:%Y-%m-%d}"]
    if (judge := context.params["judge"]) is not None:
        words += ["--judge", quote(judge)]
    flags = {"learn": "--learn", "retry_failed": "--retry-failed"}
    words += [flag for name, flag in flags.items() if context.params[name]]
    return [*words, "--yes"]
