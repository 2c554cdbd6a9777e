"""The playbook's bullets and their results: `list`.

Invariant: a bullet is described in the same way wherever it is shown, now or at a moment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.options import DAY_IN_WORDS, SECTION, Question, flag, question
from reflector.cli.output import NONE, day_words, note, shaped, table
from reflector.events.event import BULLET_CHECKED
from reflector.playbook.bullet import COUNTINGS, Counting, best_first
from reflector.playbook.entry import BulletRow
from reflector.playbook.evidence import FEWEST
from reflector.text.phrases import counted, short_number

if TYPE_CHECKING:
    from reflector.audit.checked import Checked, QuotedVerdict
    from reflector.cli.app import Place
    from reflector.playbook.evidence import Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJson(BulletRow):
    """A bullet of `list`, with its use and its verdicts.

    cited          sessions whose agent cited it
    last_cited     the time of the latest citation
    judged         sessions with a verdict on it, including neutral ones
    helped         votes that the rule helped. Each session has one vote, which its verdicts share
    harmed         votes that the rule harmed
    neither        sessions with only neutral verdicts
    undecided      sessions that cited it and have no verdict on it
    followed       sessions that followed it, if a judge could decide
    broken         sessions that did not follow it, if a judge could decide
    share          the helpful share of the votes; null without votes
    low            the lower end of the share's 90 % interval
    high           the upper end of that interval
    told           whether a session that starts now is shown it; null for a moment
    told_sessions  sessions that got it, or whose client loaded it from your file; null if
                   none is recorded
    demoted        the reason why it gives way to others; null if it does not
    checked        the findings of `reflector check` in words; null if no judge was asked about it
    place          the file and line of a rule that stays in your file; null for one of the playbook
    newest_verdict  of a check or a first reading, with its quote; null if there is none
    """

    cited: int
    judged: int
    helped: float
    harmed: float
    neither: int
    undecided: int
    followed: int
    broken: int
    last_cited: str | None
    share: float | None
    low: float
    high: float
    corrected: bool
    told: bool | None
    told_sessions: int | None
    demoted: str | None
    checked: str | None
    place: str | None
    newest_verdict: QuotedVerdict | None

    @property
    def has_other_counters(self) -> bool:
        return (self.helpful, self.harmful) != (self.helped, self.harmed)

    @property
    def votes(self) -> str:
        """Its votes for helped and for harmed, and the sessions without a vote."""
        words = f"{short_number(self.helped)} helped, {short_number(self.harmed)} harmed"
        rest = ((self.neither, "neither"), (self.undecided, "undecided"))
        return words + "".join(f", {number} {word}" for number, word in rest if number)


class Uses:
    """Bullets as of now or of a moment, with their use and their verdicts.

    usage         the sessions of each bullet
    told          the names of the bullets in the text for the next session; None without a text
    has_tellings  whether any session was shown a bullet
    ranking       the facts by which bullets are ranked, besides their counters
    votes         of the sessions on each bullet
    found         the findings of `reflector check`; None if it never asked a judge
    checked       those of `found` with a judged session, by the name of the bullet
    places        the file and line of each bullet that stays in a file
    """

    def __init__(self, asked: Question) -> None:
        from reflector.audit.citations import observed, use
        from reflector.playbook.ranking import pinned_names
        from reflector.playbook_files.places import places
        from reflector.sessions.told import ranking_facts, told_names, told_text

        project = asked.place.project()
        rates = project.config.finding_rates
        text = told_text(project.root) if asked.then is None else ""
        self.rows = asked.playbook.rows()
        self.usage = use(asked.ledger, asked.past)
        self.told = told_names(text) if text else None
        self.has_tellings = any(used.shown for used in self.usage.bullets.values())
        self.ranking = ranking_facts(self.usage, pinned_names(project.config.pinned, self.rows))
        self.votes = observed(self.rows, asked.past, self.usage.bullets, rates=rates)
        self.found = _found(asked)
        lines = self.found.lines if self.found is not None else ()
        self.checked = {line.name: line for line in lines if line.sessions}
        self.places = places(asked.ledger, project.root, self.rows)

    def json(self, row: BulletRow) -> ListedJson:
        """Return a bullet as `list --json` has it."""
        used = self.usage.bullets[row.name]
        votes = self.votes[row.name]
        checked = self.checked.get(row.name)
        answers = checked.followed if checked is not None else None
        low, high = votes.interval
        return shaped(
            ListedJson,
            row,
            used,
            helped=votes.helpful,
            harmed=votes.harmful,
            followed=answers.yes if answers is not None else used.followed,
            broken=answers.no if answers is not None else used.broken,
            last_cited=used.last_cited or None,
            share=votes.share,
            low=low,
            high=high,
            corrected=votes.rates is not None,
            told=None if self.told is None or row.status == "watched" else row.name in self.told,
            told_sessions=used.shown if self.has_tellings else None,
            demoted=self.ranking.why_demoted(row) if row.status == "live" else None,
            checked=checked.result if checked is not None else None,
            place=self.places.get(row.name),
            newest_verdict=checked.newest_verdict if checked is not None else None,
        )


def _found(asked: Question) -> Checked | None:
    """Return the findings of `reflector check`; None if it never asked a judge."""
    if not asked.ledger.has(BULLET_CHECKED):
        return None
    from reflector.audit.checked import checked_lines
    from reflector.playbook_files.births import births_of
    from reflector.playbook_files.watching import watched_lines

    project = asked.place.project()
    births = births_of(project.root, watched_lines(asked.ledger), project.own_dir)
    rates = project.config.finding_rates
    return checked_lines(asked.ledger, asked.then, births=births, rates=rates)


def worth(listed: ListedJson, votes: Votes, marks: str) -> Iterator[str]:
    """Yield the use and the votes of a rule in lines.

    marks  the votes of its recent sessions
    """
    yield f"Votes: {listed.votes}{': too few to tell' if 0 < votes.total < FEWEST else ''}."
    if votes.total >= FEWEST:
        yield f"Helped in {votes.words}."
    last = f", last {day_words(listed.last_cited)}" if listed.last_cited else ""
    recent_words = f" Recent votes, oldest first: {marks}" if marks else ""
    if not listed.place:
        yield f"Cited in {counted(listed.cited, 'session')}{last}.{recent_words}"
    if answers := listed.followed + listed.broken:
        yield f"Followed in {listed.followed} of {counted(answers, 'session')}."
    if listed.has_other_counters:
        yield f"Counters {listed.helpful}/{listed.harmful}: {_COUNTERS}"


_COUNTERS = "the helpful and harmful counts in playbook.json, including starting values"
_MOST_QUOTES = 3
#: The orders of `list`.
ORDERS: dict[str, Callable[[ListedJson], Any]] = {
    "best": lambda one: (-one.low, best_first(one)),
    "name": lambda one: one.name,
    "harmed": lambda one: (-one.harmed, best_first(one)),
    "cited": lambda one: (-one.cited, best_first(one)),
    # The time as a number, so that the latest is first.
    "last-cited": lambda one: (
        -int("0" + "".join(filter(str.isdecimal, one.last_cited or ""))),
        one.position,
    ),
}


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--section", type=SECTION, help="Section of the rules to list.")
@click.option("--since", type=DAY_IN_WORDS, help="First day without a citation of the rule.")
@click.option(
    "--by",
    type=click.Choice([*ORDERS, "model"]),
    help="Sort order (default: best).",
)
@click.option("-n", "most", type=click.IntRange(1), help="List at most N rules.")
@flag("--removed", help="Also list removed rules.")
@click.option(
    "--counting",
    type=click.Choice(COUNTINGS),
    help="Show counts under another counting policy.",
)
@question
def list_(
    asked: Question,
    words: tuple[str, ...],
    section: str | None,
    since: str | None,
    by: str | None,
    most: int | None,
    removed: bool,
    counting: Counting | None,
) -> None:
    """List your rules with their counts.

    If a rule is in a file such as CLAUDE.md, `list` shows the file and the line of the rule.

    With WORDS, `list` shows only rules that contain at least one of the words, best match first.
    With --since DAY, `list` shows only rules that no session has cited since DAY. With --as-of,
    `30 days ago` means 30 days before that moment. With --by model, `list` shows the votes on each
    rule separately for each model that your agent used.

    \b
    CITED     Sessions that cited the rule.
    HELPED    Votes that the rule helped. Each session has one vote on a rule.
    HARMED    Votes that the rule harmed.
    FOLLOWED  "3 of 5": a judge could decide about 5 sessions, and 3 of the 5
              sessions followed the rule.
    COUNTERS  The counts in playbook.json. `list` has this column only if the
              counters differ from the votes.
    SHOWN     "yes" if new sessions get the rule. `list` has this column only
              if new sessions do not get all rules.
    DEMOTED   Number of sessions that got the rule since the rule last helped.

    For at most three rules, `list` also prints the newest verdict of a judge, with its quote.
    """
    uses = Uses(asked)
    every = uses.rows if counting is None else _recounted(asked, uses.rows, counting)
    known = [uses.json(row) for row in every if removed or row.is_rule]
    rows = _selected(known, section, since and asked.day(since), " ".join(words))
    if by in ORDERS:
        rows.sort(key=ORDERS[by])
    elif not (words or asked.place.as_json):
        rows.sort(key=ORDERS["best"])
    rows = rows[:most]
    if by == "model":
        _list_by_model(asked, [row.name for row in rows])
        return
    if asked.answers(rows):
        return
    if rows:
        _print_list(asked, rows, uses, recounts=counting is not None)
    else:
        note(_why_empty(asked, known))


def _list_by_model(asked: Question, names: Collection[str]) -> None:
    """Show the votes on these rules by the model that worked."""
    from reflector.audit.worked import UNKNOWN, WorkedModels

    rules = WorkedModels(asked.ledger, asked.then).rules
    chosen = [rule for rule in rules if rule.name in names]
    if asked.answers(chosen):
        return
    rows = [
        (
            rule.name,
            rule.model or UNKNOWN,
            short_number(rule.helped),
            short_number(rule.harmed),
            rule.text,
        )
        for rule in chosen
    ]
    empty = "No rule in this list was judged yet."
    table(("NAME", "MODEL", "HELPED", "HARMED", "RULE"), rows, empty=empty, whole=True)


def _why_empty(asked: Question, known: Sequence[ListedJson]) -> str:
    if known:
        return "No rule matches."
    if asked.then is not None:
        return "The playbook was empty at the time that you gave."
    if file := _file_with_rules(asked.place):
        return (
            f"The playbook is empty, and the rules of {file} do not have names yet.\n"
            f"To give names to these rules: {asked.place.command('adopt', file)}\n"
            f"To see which of these rules your agent breaks: {asked.place.command('check')}"
        )
    example = asked.place.command("add", "pat", "'Run the tests before you commit'")
    return f"The playbook is empty. Add a rule: {example}"


def _file_with_rules(place: Place) -> str:
    """Return the first loaded file of the project that has a rule; "" if there is none."""
    from reflector.playbook_files.watching import loaded_advice

    if place.user or place.dataset is not None:
        return ""
    return next((rule.file for rule in loaded_advice(place.folder()).rules), "")


def _selected(
    rows: Sequence[ListedJson], section: str | None, since: str | None, query: str
) -> list[ListedJson]:
    """Return the rules of a section that no session cited since a time and that match a query.

    With a query, the best match comes first.
    """
    chosen = [row for row in rows if section in (None, row.section)]
    if since is not None:
        chosen = [row for row in chosen if (row.last_cited or "") < since]
    if not query:
        return chosen
    from reflector.embed.lessons.recall import bullets_about

    return bullets_about(chosen, query)


def _recounted(asked: Question, rows: list[BulletRow], counting: Counting) -> list[BulletRow]:
    """Return the bullets with the counts of another policy, and note how many differ."""
    other = asked.past.rows(counting)
    before = {row.name: row for row in rows}
    differing = sum(row != before.get(row.name) for row in other)
    note(
        f"Under {counting}, {differing} of {counted(len(rows), 'rule')} would have other counts. "
        "Nothing was changed."
    )
    return other


#: The columns of `list` that are printed even if they are empty.
_ALWAYS = ("CITED", "HELPED", "HARMED")


def _cells(row: ListedJson, uses: Uses, *, is_part: bool, recounts: bool) -> dict[str, object]:
    """Return the cells of a rule by their columns.

    is_part  whether new sessions do not get all rules
    """
    answers = row.followed + row.broken
    has_counters = row.has_other_counters or recounts
    return {
        "NAME": row.name,
        "PLACE": row.place or "",
        "CITED": NONE if row.place else row.cited or NONE,
        "HELPED": _vote(row, row.helped),
        "HARMED": _vote(row, row.harmed),
        "UNDECIDED": row.undecided or "",
        "FOLLOWED": f"{row.followed} of {answers}" if answers else "",
        "LAST CITED": day_words(row.last_cited) if row.last_cited else "",
        "COUNTERS": f"{row.helpful}/{row.harmful}" if has_counters else "",
        "SHOWN": "yes" if is_part and row.told else "",
        "CHECKED": row.checked or "",
        "DEMOTED": uses.ranking.idle[row.name] if row.demoted else "",
        "RULE": f"({row.label}) {row.text}" if row.label else row.text,
    }


def _vote(row: ListedJson, votes: float) -> str:
    return short_number(votes) if row.judged or votes else NONE


def _quote_lines(rows: Sequence[ListedJson]) -> list[str]:
    """Return a line for each rule: its newest verdict with the quote, or "".

    At most three rules have a verdict here: the worst ones of the last day with verdicts. Without
    any verdict, the result is empty.
    """
    verdicts = {row.name: row.newest_verdict for row in rows if row.newest_verdict}
    if not verdicts:
        return []
    from reflector.reflection.checking import WORST_FIRST

    last_day = max(verdict.at[:10] for verdict in verdicts.values())
    of_day = [name for name in verdicts if verdicts[name].at.startswith(last_day)]
    of_day.sort(key=lambda name: WORST_FIRST.index(verdicts[name].verdict))
    lines = {
        name: f'{verdicts[name].verdict} {day_words(verdicts[name].at)}: "{verdicts[name].quote}"'
        for name in of_day[:_MOST_QUOTES]
    }
    return [lines.get(row.name, "") for row in rows]


def _print_list(asked: Question, rows: Sequence[ListedJson], uses: Uses, *, recounts: bool) -> None:
    is_part = any(row.told is False for row in rows if row.status == "live")
    cells = [_cells(row, uses, is_part=is_part, recounts=recounts) for row in rows]
    columns = [name for name in cells[0] if name in _ALWAYS or any(row[name] for row in cells)]
    omitted = table(
        columns,
        [[row[name] for name in columns] for row in cells],
        extra=("CHECKED", "COUNTERS", "UNDECIDED", "DEMOTED"),
        whole=True,
        below="PLACE" if "PLACE" in columns else "",
        notes=_quote_lines(rows),
    )
    if sys.stdout.isatty():
        if "COUNTERS" in columns and "COUNTERS" not in omitted:
            note(f"COUNTERS: {_COUNTERS}")
        _note_totals(asked, rows, uses)


def _note_totals(asked: Question, rows: Sequence[ListedJson], uses: Uses) -> None:
    """Note the number of rules in a list, and of their citations."""
    cited = sum(row.cited > 0 for row in rows)
    undecided = sum(row.undecided for row in rows)
    review = ""
    if undecided:
        number = counted(undecided, "citation")
        review = (
            f" To give a verdict on {number} that the judge left open: "
            f"{asked.place.command('review')}"
        )
    total = counted(sum(row.is_rule for row in uses.rows), "rule")
    removed = sum(row.status == "removed" for row in rows)
    with_removed = f", and {counted(removed, 'removed rule')}" if removed else ""
    listed = f"Listed {len(rows) - removed} of {total}{with_removed}."
    note(f"{listed} Sessions cited {cited} of these rules.{review}")
