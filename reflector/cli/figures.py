"""Figures: `stats` and `diff`; and `sql`, which runs a query and prints a table, JSON or CSV."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import chain, count, islice
from typing import Any

import click

from reflector.audit.difference import Changed, Difference, difference
from reflector.audit.doubles import find_double_counts
from reflector.audit.moments import span_of
from reflector.audit.overruled import overruled_judges
from reflector.audit.stats import Stats, ledger_stats as stats_of
from reflector.audit.worked import UNKNOWN, Worked, WorkedModels
from reflector.cli.app import Place
from reflector.cli.lessons import print_changed
from reflector.cli.options import NAME, Question, find_bullet, flag, json_option, question
from reflector.cli.output import note, print_csv, print_json, say, shaped, short_id, table
from reflector.cli.status import month_words
from reflector.embed.lessons.book import Figures, figures
from reflector.embed.lessons.history import changed_lessons
from reflector.ledger.answers import Group
from reflector.ledger.migration import VIEWS
from reflector.ledger.readonly_sql import Answer, Asker, NotAQuestion, asking
from reflector.playbook.bullet import COUNTINGS
from reflector.playbook.evidence import FEWEST
from reflector.playbook.names import SECTIONS
from reflector.sessions.overview import MonthJson, month_of
from reflector.text.phrases import counted, short_number

#: The most lines of a kind, and rows of a query, on a screen. JSON and CSV have all.
_MOST = 20
_MOST_ROWS = 1000
#: The most days that `stats` shows on a screen.
_DAYS = 30
#: The most characters of a query.
_MOST_QUERY = 2**20


@dataclass
class StatsJson:
    """The figures of a ledger: of all answers, and of each kind. Each row of a kind has its key
    first, such as `model`.

    month      the tokens that models used this month; null for a moment
    states     the number of windows by state
    worked     sessions by the model that worked
    by_model   the models of judges; `overruled` is the number of their verdicts that you overruled
    lessons    null if no lesson was recorded and no gate was asked
    """

    month: MonthJson | None
    events: int
    sessions: int
    windows: int
    states: dict[str, int]
    answers: int
    reflections: int
    tokens: int
    cost_usd: str
    unpriced: int
    helpful: int
    harmful: int
    neither: int
    helpful_rate: float | None
    by_model: list[dict[str, Any]]
    by_template: list[dict[str, Any]]
    by_day: list[dict[str, Any]]
    worked: list[Worked]
    lessons: Figures | None


@click.command()
@click.argument("name", required=False, type=NAME)
@flag("--doubles", help="List verdicts that possibly count more than once.")
@question
def stats(asked: Question, name: str | None, doubles: bool) -> None:
    """Show tokens, cost and verdicts.

    The tables of `stats` show tokens, cost and verdicts for each judge, each prompt and each day
    (UTC). The column OVERRULED shows how many verdicts of a judge you replaced with your own
    verdict. The table WORKED lists the models that your agents used. For each model, the table
    WORKED shows how often your rules helped or harmed.

    The table of days shows only the newest days; --json prints all days. --doubles lists verdicts
    that possibly count more than once, and each rule's totals under each counting policy. With
    --doubles and NAME, `stats` lists only the verdicts on the rule NAME.
    """
    if doubles:
        _doubles(asked, name)
        return
    if name is not None:
        raise click.UsageError(
            f"a rule's NAME works only with --doubles: reflector stats {name} --doubles"
        )
    found = stats_of(asked.ledger, asked.then)
    learned = figures(asked.playbook)
    month = month_of(asked.ledger, asked.place.project()) if asked.then is None else None
    overruled = overruled_judges(asked.ledger, asked.past)
    worked = WorkedModels(asked.ledger, asked.past).models(found.sessions)
    groups: dict[str, Any] = {
        f"by_{kind}": [{kind: group.key, **_figures(group)} for group in of_kind]
        for kind, of_kind in found.groups.items()
    }
    for of_judge in groups["by_model"]:
        of_judge["overruled"] = overruled[of_judge["model"]]
    parts = {"month": month, "worked": worked, "lessons": learned}
    if asked.answers(shaped(StatsJson, found, **_figures(found.whole), **groups, **parts)):
        return
    _print_stats(found, overruled)
    _print_worked(worked)
    if learned is not None:
        say()
        rows = [(name.replace("_", " "), value) for name, value in asdict(learned).items()]
        table(("lessons", ""), rows)
    if month is not None and month.tokens:
        click.echo(month_words(month))


def _doubles(asked: Question, name: str | None) -> None:
    """Show the verdicts that were counted more than once, of one rule or of all."""
    if name is not None:
        name = find_bullet(asked.ledger, name, asked.then).name
    found = find_double_counts(asked.ledger, name, asked.then)
    if asked.answers(found):
        return
    rows = []
    for of_class in found.classes:
        examples = (
            f"{example.name} {example.tag}, events {', '.join(map(str, example.positions[:4]))}"
            for example in of_class.examples[:2]
        )
        row = (of_class.code, of_class.title, of_class.tags, of_class.bullets, "; ".join(examples))
        rows.append(row)
    columns = ("class", "double count", "extra", "rules", "for example")
    table(columns, rows, prose=("double count", "for example"), extra=("for example",))
    if found.copies:
        say("\nThese sessions begin with a copy of another session. The copied part counts once:")
        copied = [
            (short_id(copy.session), short_id(copy.of), copy.records)
            for copy in found.copies[:_MOST]
        ]
        table(("session", "copied from", "records"), copied)
    totals = [
        (total.name, *(str(getattr(total, policy)) for policy in COUNTINGS))
        for total in found.totals
    ]
    differing = [row for row in totals if len(set(row[1:])) > 1]
    say()
    if not differing:
        say(f"All counting policies give the same totals for {counted(len(totals), 'rule')}.")
        return
    table(("name", *COUNTINGS), differing[:_MOST])
    trial = asked.place.command("list --counting", COUNTINGS[-1])
    note(f"Counting policy: {found.counting}. To try another policy: {trial}")


def _figures(group: Group) -> dict[str, Any]:
    """Return the cost of answers and the tags in them for JSON."""
    figures_of = {
        "cost_usd" if name == "cost" else name: value
        for name, value in asdict(group).items()
        if name != "key"
    }
    rate = group.helpful_rate
    return figures_of | {"helpful_rate": None if rate is None else round(rate, 6)}


def _print_stats(found: Stats, overruled: Mapping[str, int]) -> None:
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
    say(f"{counted(found.events, 'event')}, {counted(found.sessions, 'session')}")
    say(f"{counted(found.windows, 'session part')}{f': {states}' if states else ''}")
    for kind, groups in found.groups.items():
        if not groups:
            continue
        columns = [kind, "answers", "tokens", "USD", "helpful", "harmful", "neither", "helpful %"]
        rows = [
            (
                group.key,
                group.answers,
                f"{group.tokens:,}",
                f"{group.cost:.4f}",
                group.helpful,
                group.harmful,
                group.neither,
                _rate(group),
                *([overruled.get(group.key, 0)] if kind == "model" else []),
            )
            for group in (groups[-_DAYS:] if kind == "day" else groups)
        ]
        columns += ["overruled"] if kind == "model" else []
        say()
        table(columns, rows, extra=("helpful %", "neither", "USD"))


def _print_worked(worked: Sequence[Worked]) -> None:
    if not worked:
        return
    say()
    rows = [
        (each.model or UNKNOWN, each.sessions, short_number(each.helped), short_number(each.harmed))
        for each in worked
    ]
    table(("worked", "sessions", "helped", "harmed"), rows)


def _rate(group: Group) -> str:
    """Return the share of helpful verdicts; "" if there are too few for a percentage."""
    rate = group.helpful_rate
    has_few = group.helpful + group.harmful < FEWEST
    return "" if rate is None or has_few else f"{rate:.0%}"


@click.command()
@click.argument("query", required=False)
@click.option("--format", "form", type=click.Choice(["csv"]), help="Print every row as CSV.")
@json_option
@click.pass_obj
def sql(place: Place, query: str | None, form: str | None) -> None:
    """Query the ledger with SQL, read-only.

    Without QUERY, `sql` reads the query from stdin. If stdin is a terminal or empty, `sql` lists
    the views (bullets, tags, reflections, sessions) and their columns. docs/machines.md describes
    each view of the ledger.
    """
    if form is not None and place.as_json:
        raise click.UsageError(
            f"--json and --format {form} cannot be used together; use only one option"
        )
    if query is None:
        query = _from_stdin()
    with place.reading() as ledger, asking(ledger) as asker:
        try:
            if query is None:
                _list_views(place, asker)
                return
            answer = asker.ask(query)
            if place.as_json:
                names = _unique(answer.columns)
                print_json([dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows])
            elif form is not None:
                print_csv(answer.columns, ([_cell(value) for value in row] for row in answer.rows))
            else:
                _print_rows(answer)
        except NotAQuestion as error:
            raise click.UsageError(str(error)) from error


def _from_stdin() -> str | None:
    """Return the query on stdin; None if stdin is a terminal or empty."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    text = sys.stdin.read(_MOST_QUERY + 1)
    if len(text) > _MOST_QUERY:
        raise click.UsageError(
            f"the query on stdin has more than {_MOST_QUERY:,} characters; shorten it"
        )
    return text if text.strip() else None


def _list_views(place: Place, asker: Asker) -> None:
    columns = {
        view: asker.ask(f"SELECT * FROM {view} LIMIT 0").columns  # noqa: S608
        for view in VIEWS[1:]
    }
    if place.answers([{"view": view, "columns": list(names)} for view, names in columns.items()]):
        return
    table(
        ("view", "columns"),
        [(view, ", ".join(names)) for view, names in columns.items()],
        whole=True,
    )
    note("For example: reflector sql 'SELECT name, helpful FROM bullets ORDER BY helpful DESC'")


def _print_rows(answer: Answer) -> None:
    rows = list(islice(answer.rows, _MOST_ROWS + 1))
    shown = [[_cell(value) for value in row] for row in rows[:_MOST_ROWS]]
    if answer.columns:
        table(answer.columns, shown, prose=answer.columns)
    if len(rows) > _MOST_ROWS:
        note(f"The table ends after {_MOST_ROWS:,} rows; --json and --format csv print all rows.")


def _unique(columns: Sequence[str]) -> list[str]:
    """Return unique names of columns, because two equal names would be one key."""
    names: list[str] = []
    for name in columns:
        forms = chain([name], (f"{name}_{number}" for number in count(2)))
        names.append(next(one for one in forms if one not in names))
    return names


def _plain(value: Any) -> Any:
    """Return a value for JSON: bytes as hexadecimal digits, whole numbers of any type as integers,
    infinity as text.
    """
    if isinstance(value, Decimal):
        value = (
            int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
        )
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, list | dict) else _cell(value)


def _cell(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, int | float | Decimal | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


@click.command()
@click.argument("span", metavar="A..B")
@json_option
@click.pass_obj
def diff(place: Place, span: str) -> None:
    """Show how the playbook changed between two moments.

    A and B are dates or times (2026-11-21, yesterday, 2 weeks ago), positions or session ids.
    Without A, `diff` starts at the first event. Without B, `diff` ends at the last event. `diff`
    lists rules that were added, changed, moved or removed. For each rule in its list, `diff` shows
    the sessions that changed the rule's counts.
    """
    with place.reading() as ledger:
        found = difference(ledger, *span_of(ledger, span))
        lessons = changed_lessons(ledger, found.from_, found.to)
    if place.answers(replace(found, lessons=lessons)):
        return
    if found.bullets or not lessons:
        _print_difference(found)
    print_changed(lessons)


def _print_difference(found: Difference) -> None:
    if found.counting.before != found.counting.after:
        say(f"counting policy: {found.counting.before} → {found.counting.after}")
    if not found.bullets:
        note(f"The playbook is the same at positions {found.from_} and {found.to}.")
    for changed in found.bullets:
        sides = (side for side in (changed.before, changed.after) if side is not None)
        totals = " → ".join(f"{side.helpful}/{side.harmful}" for side in sides)
        by_hand = ", set by hand" if changed.recounted else ""
        say(f"{changed.name}  {changed.change}  {totals}{by_hand}", bold=True)
        for line in chain(_texts(changed), _moves(changed)):
            say(f"  {line}")


def _texts(changed: Changed) -> Iterator[str]:
    """Yield the text of a changed rule before and after, if they differ."""
    before, after = (
        None if side is None else " ".join(side.text.split())
        for side in (changed.before, changed.after)
    )
    if before == after:
        return
    if before is not None:
        yield f"- {before}"
    if after is not None:
        yield f"+ {after}"


def _moves(changed: Changed) -> Iterator[str]:
    """Yield the changed section, the end, and the counts of sessions of a changed rule."""
    before, after = changed.before, changed.after
    if before is not None and after is not None and before.section != after.section:
        yield f"section: {SECTIONS[before.section]} → {SECTIONS[after.section]}"
    if after is not None and after.status == "watched":
        yield "in your file"
    elif after is not None and after.status != "live":
        yield after.end
    elif before is not None and before.status == "watched":
        yield "moved from your file into the playbook"
    for moved in changed.sessions:
        session = short_id(moved.session_id) or "(none)"
        yield f"{session}  {moved.helpful:+d}/{moved.harmful:+d}"
