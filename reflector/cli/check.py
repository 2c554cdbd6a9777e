"""`reflector check`: which lines of the files that agents load mattered in the sessions that a
person already has.

Invariant: nothing is sent before the person agreed to who gets how much, and no file of the project
is changed. Without a judge, what can be known is said at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import click

from reflector.audit.checked import TOO_FEW, Checked, CheckedLine, checked_lines
from reflector.cli.app import Place
from reflector.cli.options import DAY, READ_FILE, agreed, json_option, judge_option, yes_option
from reflector.cli.output import counted, counting, note, print_json, progress, safe, table
from reflector.cli.sessions import compressed_words
from reflector.config import BACKENDS, CONSENT
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.offers import priced_model, unfit_agents
from reflector.judges.protocol import MOST_QUESTIONS
from reflector.judges.registry import backend_of, described, judge_kind, judge_of, judge_settings
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook_files.watching import Advice, advice_of, watching
from reflector.prices import ANSWER_TOKENS, Usage, cost, price_words
from reflector.project import Project
from reflector.reflection.checking import ROOM, unanswered
from reflector.sessions import checks, history
from reflector.sessions.history import FoundTranscript as Found
from reflector.text.words import context_tokens
from reflector.transcripts.readers import Reader, option_of, stores

#: The judges that are asked over the network, not by an agent.
_APIS = [name for name, is_model in BACKENDS.items() if is_model and name != "agent"]
#: The one that is asked if the person has no agent that can judge.
_DEFAULT_API = "anthropic"
_WORDS = {
    "not followed": ("say it differently, or make it a hook"),
    "harmful": "reword it, or remove it",
}
_UNSEEN = "not mentioned"
#: Files that were not read, in an error.
_MOST_UNREAD = 3
_NO_WORD = (
    f"{_UNSEEN}: but for short and common ones, no word, path or command of the line is in any of "
    "these sessions."
)
_NO_AGENT = "export ANTHROPIC_API_KEY=… && reflector check --judge anthropic"
_NO_SESSION = (
    "No session of this folder is where agents leave theirs; those ingested from elsewhere are "
    "not there. "
    "Next: use your agent here, or go where you did, or look further back with --since; then run "
    "this again"
)
#: By `benchmarks.coverage`, at the 32,000 tokens of a question.
_COVERAGE = (
    "What decides a case was in what a judge is shown in 159 of 165 labelled ones without a "
    'citation. So "not seen" '
    "means: not seen in what was shown."
)
_FOOT = "The intervals (90 %) take the judge at its word."


@dataclass(frozen=True, slots=True)
class LineJson:
    """A line of a file, and what is known of it; `name` and what judges said are null before it was
    asked about.

    place     its file and line
    unmentioned  whether no word, path or command of it stands in any session; null where it was not
                 looked for
    quotes, act  the commands that show its quotes, and with which it is changed
    """

    place: str
    name: str | None
    text: str
    tokens: int
    unmentioned: bool | None = None
    judged: CheckedLine | None = None
    quotes: str | None = None
    act: str | None = None


@dataclass(frozen=True, slots=True)
class LinesJson:
    """What `check` found.

    files      the files with their tokens at each start
    scopes     of the files that are loaded only at work on some files, the patterns of these
    left_out   what in them is not a line, and files and imports that were not read
    sessions   how many transcripts of the project were looked at, by agent
    compressed  how many transcripts of any project cannot be read, by agent
    questions  how many are left to ask, `tokens` at most for them, and `price` in USD where it is
               known
    lacks      the command that gets a judge; null if there is one
    unanswered  how many sessions have no answer though the judge was asked as often as it is by
                itself
    found      what judges said so far; null where nobody was asked
    """

    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    left_out: list[str]
    sessions: Mapping[str, int]
    compressed: Mapping[str, int]
    questions: int
    tokens: int
    price: str | None
    lacks: str | None
    lines: list[LineJson]
    alike: list[Pair]
    failed: list[str]
    unanswered: int = 0
    found: Checked | None = None


@click.command()
@click.argument("files", nargs=-1, type=READ_FILE, metavar="[FILE…]")
@click.option(
    "--sessions",
    "most",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="The newest so many.",
)
@click.option(
    "--since",
    type=DAY,
    help="Only sessions since this day.",
)
@judge_option
@click.option("--learn", is_flag=True, help="Propose as well what the sessions show to be missing.")
@click.option("--retry-failed", is_flag=True, help="Ask again about sessions without an answer.")
@click.option(
    "--dry-run", is_flag=True, help=("Ask nobody; show what is known, and what asking would cost.")
)
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
    """Show which lines of your CLAUDE.md mattered, were followed, helped or did harm.

    FILE is a file of advice; default: the CLAUDE.md, AGENTS.md, GEMINI.md and rules that agents
    load in this project. Its list items, and each sentence of a paragraph or a heading that tells
    to do something, are lines. A judge reads the sessions that your agents left of this project,
    newest first, one question a session: the agent that wrote it, if you let it (`reflector judge
    allow`), or whom --judge names. You are asked before, with the tokens and the price. Stop it
    whenever you like: the same command goes on, and asks nothing twice. What a judge says that is
    no answer counts for nothing: the next check asks again, at most twice; `status` lists what is
    left.

    No file of the project is changed. The lines are watched: not in playbook.json and not told,
    until `reflector adopt FILE` makes them the playbook's. Their verdicts count for nothing else
    unless you set `checked_counts`.
    """
    project = _with_judge(place, judge)
    advice = advice_of(project.root, files)
    if not advice.lines:
        raise click.ClickException(_why_none(advice))
    with _ledger(project) as ledger:
        known = checks.recorded_files(project, ledger)
        found = _sessions(project, known, most, since)
        names = [*watching(ledger, advice.lines, first=project.first_number).lines]
        left = checks.questions(
            ledger, found, names, known, judge_of(project.config), again=retry_failed
        )
    plan, ran = _planned(project, advice, left), checks.Ran()
    if not as_json:
        _print_head(advice, _by_agent(found), plan)
    if plan.files and not dry_run and (yes or sys.stdin.isatty()):
        agreed(f"{plan.words} Continue?", "", yes=yes)
        ran = _ask(project, advice, plan, learn=learn, again=retry_failed)
    answer = _answer(place, project, advice, found, plan, ran)
    if as_json:
        print_json(answer)
    else:
        _print(place, answer, plan, ran)
    if ran.failed:
        raise click.exceptions.Exit(1)


def _why_none(advice: Advice) -> str:
    """Return why there is nothing to check, and what to do."""
    unread = [one for one in advice.omitted if one.startswith(("not read: ", "not followed: "))]
    looked = ", ".join(advice.files)
    if not looked and not unread:
        looked = "CLAUDE.md, AGENTS.md, GEMINI.md or rules, for none is there"
    told = f"there is no line of advice{f' in {looked}' if looked else ''}"
    return "; ".join([told, *unread[:_MOST_UNREAD], "name a file: reflector check FILE"])


def _ledger(project: Project) -> Ledger:
    """Return the project's ledger; of a project without one an empty one, which leaves nothing
    behind.
    """
    return project.open_ledger() if project.has_ledger() else Ledger.open("sqlite://")


def _with_judge(place: Place, named: str | None) -> Project:
    """Return the project with the judge that is named, or the one that the person has."""
    project = place.project(**judge_settings(named))
    if project.config.asks_model:
        return project
    if named is not None:
        raise click.UsageError(f"{named} cannot judge lines: use a model, such as --judge claude")
    if consent.agreed_clients():
        return place.project(backend="agent")
    with_api = place.project(backend=_DEFAULT_API)
    return project if described(with_api.config, with_api.root).way_out else with_api


def _reader_of(one: Found) -> Reader:
    """Return the reader that wrote a transcript, by its folder."""
    return next(store.reader for store in stores() if one.path.is_relative_to(store.kept.folder))


def _compressed() -> dict[str, list[Path]]:
    """Return the transcripts that nobody reads, by agent."""
    found: dict[str, list[Path]] = {}
    for store in stores():
        if paths := history.compressed([store.kept.folder]):
            found.setdefault(store.reader.name, []).extend(paths)
    return found


def _by_agent(found: Iterable[Found]) -> Mapping[str, int]:
    return Counter(_reader_of(one).name for one in found)


def _sessions(
    project: Project, known: Iterable[tuple[str, int]], most: int, since: datetime | None
) -> list[Found]:
    at_home = dict.fromkeys(known, str(project.root))
    folders = [(store.kept.folder, store.kept.pattern) for store in stores()]
    begin, each = (
        since.timestamp() if since else 0.0,
        partial(counting, what="looking at your agents' sessions"),
    )
    found = checks.sessions_of(project.root, folders, at_home, begin, each)
    return found[:most]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is left to ask: transcripts, the questions and tokens for each judge, and their price in
    USD.

    barred  how many transcripts no judge may see, by agent
    lacks   the command that gets a judge; "" if there is one
    """

    files: Sequence[Found]
    by: Mapping[str, tuple[int, int]]
    price: Decimal | None
    barred: Mapping[str, int]
    lacks: str

    @property
    def questions(self) -> int:
        return sum(number for number, _ in self.by.values())

    @property
    def words(self) -> str:
        """Who would get how much, in a sentence."""
        each = [
            (
                f"{_title_of(who)} would get {counted(number, 'question')}, at most about "
                f"{-(-tokens // 1000) * 1000:,} tokens"
            )
            for who, (number, tokens) in self.by.items()
        ]
        price = "at a price that is not known here"
        if self.price is not None:
            price = f"for {price_words(self.price)}"
        return f"{'; '.join(each)}, {price}." if each else "Nothing is left to ask."


def _title_of(judge: str) -> str:
    """Return a judge's name in a sentence; the judge of another package has only its name."""
    if judge in JUDGES:
        return JUDGES[judge].title
    return judge_kind(judge).title if judge in BACKENDS else judge


def _planned(project: Project, advice: Advice, left: Sequence[tuple[Found, int]]) -> _Plan:
    config, lines = (
        project.config,
        3 * sum(map(context_tokens, (line.text for line in advice.lines))),
    )
    lacks = described(config, project.root)[1] if config.asks_model else CONSENT
    lacks = _NO_AGENT if lacks == CONSENT and not consent.installed_clients() else lacks
    may, by, barred, files = (
        consent.agreed_clients(),
        dict[str, tuple[int, int]](),
        Counter[str](),
        list[Found](),
    )
    prices: list[Decimal | None] = []
    for one, count in left:
        reader = _reader_of(one)
        writer = option_of(reader)
        api = config.backend if config.backend in _APIS else _DEFAULT_API
        by_api = config.backend in _APIS or lacks == _NO_AGENT
        who = api if by_api else config.judge_client or writer
        if config.backend in config.judges:
            who = config.backend
        if who in JUDGES and who not in may and not lacks:
            barred[reader.name] += 1
            continue
        files.append(one)
        usage = Usage(
            count * min(one.bytes // 3 + lines, ROOM, config.request_tokens), count * ANSWER_TOKENS
        )
        number, tokens = by.get(who, (0, 0))
        by[who] = number + count, tokens + usage.total
        has_price = who not in config.judges
        prices.append(cost(priced_model(config, who), usage) if has_price else None)
    price = None if None in prices or not by else sum(filter(None, prices), Decimal(0))
    return _Plan([] if lacks else files, by, price, barred, lacks)


def _ask(project: Project, advice: Advice, plan: _Plan, *, learn: bool, again: bool) -> checks.Ran:
    """Ask about what is left; with the time left, and what was spent so far."""
    config = replace(project.config, request_tokens=min(ROOM, project.config.request_tokens))
    judge = backend_of(config, project.root)
    with progress(len(plan.files), "checking") as bar:

        def advance(spent: Decimal) -> None:
            bar.label = f"checking, ${spent:.2f}"
            bar.update(1)

        how: Any = {"learns": learn, "most": plan.questions, "again": again}
        return checks.check_sessions(
            project, judge, plan.files, advice.lines, advance=advance, **how
        )


def _answer(
    place: Place,
    project: Project,
    advice: Advice,
    found: Sequence[Found],
    plan: _Plan,
    ran: checks.Ran,
) -> LinesJson:
    with _ledger(project) as ledger:
        watched = watching(ledger, advice.lines, first=project.first_number).lines
        judged = checked_lines(ledger, names=watched)
        unused = sum(
            trouble.is_over(project.config.max_attempts) for _, trouble in unanswered(ledger)
        )
    known = {watched[one.name]: one for one in judged.lines}
    looks = bool(found) and not judged.sessions  # where a judge was asked, that says more
    gone = checks.unmentioned(
        (line.text for line in advice.lines), (one.path for one in found if looks), project.root
    )
    lines = []
    for line in advice.lines:
        at, of = f"{line.file}:{line.number}", known.get(line)
        act = place.command("edit", of.name) if of and of.status == "live" else f"edit {at}"
        quotes = place.command("blame", of.name) if of and of.relevant else None
        name, mentioned = of.name if of else None, line.text in gone if looks else None
        lines.append(
            LineJson(at, name, line.text, context_tokens(line.text), mentioned, of, quotes, act)
        )
    places = [
        Bullet(one.place, line.section, line.text)
        for one, line in zip(lines, advice.lines, strict=True)
    ]
    return LinesJson(
        files=advice.files,
        scopes=advice.scopes,
        left_out=[*advice.omitted],
        sessions=_by_agent(found),
        compressed={title: len(paths) for title, paths in _compressed().items()},
        questions=plan.questions - ran.asked,
        tokens=sum(tokens for _, tokens in plan.by.values()),
        price=None if plan.price is None else f"{plan.price:.2f}",
        lacks=plan.lacks or None,
        lines=sorted(lines, key=_order),
        alike=duplicates(places),
        failed=ran.failed,
        unanswered=unused,
        found=judged if judged.requests else None,
    )


def _order(line: LineJson) -> tuple[int, float]:
    """Results first, those against a line before the others; then what was not seen, by what it
    costs.
    """
    of = line.judged
    if of is None or not of.sessions:
        return 4, not line.unmentioned
    if of.result == TOO_FEW:
        return 3, -of.relevant
    if not of.relevant:
        return 2, -of.tokens
    return not any(words in of.result for words in _WORDS), -max(
        of.followed.evidence, of.helped.evidence
    )


def _print_head(advice: Advice, sessions: Mapping[str, int], plan: _Plan) -> None:
    for name, tokens in advice.files.items():
        number = sum(line.file == name for line in advice.lines)
        scope = advice.scopes.get(name)
        when = f"only for {', '.join(scope)}" if scope else "at each start"
        note(f"{name}: {counted(number, 'line')}, about {tokens:,} tokens {when}")
    for text in advice.omitted:
        note(f"  {text}")
    each = ", ".join(f"{number} of {title}" for title, number in sessions.items())
    note(
        f"{counted(sum(sessions.values()), 'session')} of this project{': ' if each else ''}{each}"
    )
    for title, paths in _compressed().items():
        note(compressed_words(title, paths))
    for title, number in plan.barred.items():
        note(
            f"{counted(number, 'session')} of {title} skipped: you have not let it judge. "
            f"Allow it ({CONSENT}) or choose another judge (--judge NAME)."
        )


def _print(place: Place, answer: LinesJson, plan: _Plan, ran: checks.Ran) -> None:
    if answer.found is None:
        unseen = any(one.unmentioned for one in answer.lines)
        cells = [
            (one.place, one.tokens, _UNSEEN if one.unmentioned else "", one.text)
            for one in answer.lines
        ]
        table(
            ("line", "tokens", "found", "text"),
            cells,
            prose=("text",),
            extra=() if unseen else ("found",),
        )
        if unseen:
            note(_NO_WORD)
    else:
        note(_COVERAGE)
        rows = [_row(one) for one in answer.lines]
        columns = ("line", "name", "relevant", "followed", "helped", "tokens", "result", "text")
        table(columns, rows, prose=("text",), extra=("followed", "helped", "name", "tokens"))
        for one in answer.lines:
            if one.quotes and one.judged is not None and one.judged.result != TOO_FEW:
                result = one.judged.result
                so = next((f", so {what}" for words, what in _WORDS.items() if words in result), "")
                click.echo(
                    safe(f"{one.place}: {result}{so}; quotes: {one.quotes}; change it: {one.act}")
                )
    for pair in answer.alike:
        click.echo(
            safe(f"{pair.kind}: {' and '.join(one.name for one in pair.bullets)}: {pair.why}")
        )
    if (spent := answer.found) is not None:
        price = f", ${Decimal(spent.cost):.2f}" + (
            (" and what has no known price") if spent.unpriced else ""
        )
        asked = (
            f"{counted(spent.sessions, 'session')} judged, {counted(spent.requests, 'question')}"
        )
        note(f"{asked}, {spent.tokens:,} tokens{price}. {_FOOT}")
        if dropped := sum(one.dropped for one in spent.lines):
            note(f"{counted(dropped, 'answer')} dropped: the quote is not where it was said to be.")
    for text in [*(f"reflector: {one}" for one in ran.failed), *ran.notes]:
        note(text)
    if answer.unanswered:
        again = place.command("check", "--retry-failed")
        note(
            f"{counted(answer.unanswered, 'session')} without an answer, asked {MOST_QUESTIONS} "
            f"times. Next: {again}"
        )
    if not answer.sessions:
        note(_NO_SESSION)
    if plan.lacks == CONSENT or plan.barred:
        for fault in unfit_agents(place.folder()).values():
            note(fault)
    if plan.by and not ran.asked:
        note(f"A judge reads them: {plan.words}")
        note(f"Next: {plan.lacks or place.command('check', '--yes')}")


def _row(line: LineJson) -> tuple[object, ...]:
    of = line.judged
    if of is None:
        return (line.place, line.name or "", "", "", "", line.tokens, "not asked about", line.text)
    shares = [
        f"{one.yes}/{one.yes + one.no} ({one.low:.0%} to {one.high:.0%})"
        if one.yes + one.no
        else ""
        for one in (of.followed, of.helped)
    ]
    result = of.result
    if of.earlier:
        result += f" ({of.earlier} by earlier words)"
    if of.left_out:
        result += f", no room for it in {of.left_out}"
    if not of.relevant:
        result += f", {of.tokens * of.sessions:,} tokens"
    return (line.place, line.name, of.relevant, *shares, of.tokens, result, line.text)
