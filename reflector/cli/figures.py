"""Figures: stats, double-counts and diff; and `sql`, a question in SQL, answered as a table,
JSON or CSV.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import chain, count, islice
from typing import Any

import click

from reflector.audit import doubles
from reflector.audit.difference import Difference, difference
from reflector.audit.moments import span_of
from reflector.audit.stats import Stats, ledger_stats as stats_of
from reflector.cli.app import Place
from reflector.cli.lessons import changed_lessons, print_changed
from reflector.cli.options import NAME, Question, find_bullet, json_option, question
from reflector.cli.output import counted, note, print_csv, print_json, safe, shaped, short_id, table
from reflector.cli.status import month_words
from reflector.embed.lessons.book import Figures, figures
from reflector.ledger.answers import Group
from reflector.ledger.migration import VIEWS
from reflector.ledger.readonly_sql import Answer, Asker, NotAQuestion, asking
from reflector.playbook.bullet import COUNTINGS
from reflector.playbook.names import SECTIONS
from reflector.sessions.overview import MonthJson, month_of

#: Lines of a kind, and rows of a query, that a person is shown; a machine gets all.
_MOST = 20
_MOST_ROWS = 1000
#: Days that `stats` shows a person.
_DAYS = 30
#: Characters of a query.
_MOST_QUERY = 2**20
_rows = chain.from_iterable


@click.command("double-counts")
@click.argument("name", required=False, type=NAME)
@question
def double_counts(asked: Question, name: str | None) -> None:
    """Explain tags that were counted more than once.

    Shows every bullet's totals under each counting policy. NAME is a bullet; without it, all
    bullets are examined. D1 the same tag twice in one reflection, D2 helpful and harmful together,
    D3 the same list of tags applied twice, D4 one session reflected on more than once, D5 one
    transcript under two session ids, D6 overlapping windows. A fork's copies of another session's
    records count once, and are listed.
    """
    if name is not None:
        find_bullet(asked.ledger, name, asked.then)
    found = doubles.find_double_counts(asked.ledger, name, asked.then)
    if asked.answers(found):
        return
    rows = []
    for one in found.classes:
        examples = (
            f"{e.name} {e.tag} at {', '.join(map(str, e.positions[:4]))}" for e in one.examples[:2]
        )
        rows.append((one.code, one.title, one.tags, one.bullets, "; ".join(examples)))
    columns = ("class", "what", "surplus", "bullets", "such as")
    table(columns, rows, prose=("what", "such as"), extra=("such as",))
    if found.copies:
        click.echo(
            "\nSessions that begin with copies of another session's records, which count once:"
        )
        copied = [(short_id(one.session), short_id(one.of), one.records) for one in found.copies]
        table(("session", "copied from", "records"), copied[:_MOST])
    totals = [(of.name, *(str(getattr(of, policy)) for policy in COUNTINGS)) for of in found.totals]
    differing = [row for row in totals if len(set(row[1:])) > 1]
    click.echo()
    if not differing:
        click.echo(f"All counting policies agree on {counted(len(totals), 'bullet')}.")
        return
    table(("name", *COUNTINGS), differing[:_MOST])
    trial = asked.place.command("list --counting", COUNTINGS[-1])
    note(f"In force: {found.counting}. Another one on trial: {trial}")


@dataclass(frozen=True, slots=True)
class StatsJson:
    """The figures of a ledger, those of all answers among them; each kind's have its key first,
    such as `model`.

    month    what models took this month; null for a moment
    states   windows by state
    lessons  null where no lesson was recorded and no gate asked
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
    undecided: int
    helpful_rate: float | None
    by_model: list[dict[str, Any]]
    by_template: list[dict[str, Any]]
    by_day: list[dict[str, Any]]
    lessons: Figures | None


@click.command()
@question
def stats(asked: Question) -> None:
    """Show tokens, cost and tags: by model, by prompt template, by day (UTC); with --json, all
    days.
    """
    found = stats_of(asked.ledger, asked.then)
    learned = figures(asked.playbook)
    month = month_of(asked.ledger, asked.place.project()) if asked.then is None else None
    groups: dict[str, Any] = {
        f"by_{kind}": [{kind: one.key, **_figures(one)} for one in group]
        for kind, group in found.groups.items()
    }
    if asked.answers(
        shaped(StatsJson, found, month=month, **_figures(found.whole), **groups, lessons=learned)
    ):
        return
    _print_stats(found)
    if learned is not None:
        click.echo()
        table(
            ("lessons", ""),
            [(name.replace("_", " "), value) for name, value in asdict(learned).items()],
        )
    if month is not None and month.tokens:
        click.echo(month_words(month))


def _figures(group: Group) -> dict[str, Any]:
    """Return what answers took, and the tags that were read from them, as JSON has it."""
    found = {
        "cost_usd" if name == "cost" else name: value
        for name, value in asdict(group).items()
        if name != "key"
    }
    return found | {
        "helpful_rate": None if group.helpful_rate is None else round(group.helpful_rate, 6)
    }


def _print_stats(found: Stats) -> None:
    states = ", ".join(f"{count} {state}" for state, count in sorted(found.states.items()))
    told = (
        f"{counted(found.events, 'event')}, {counted(found.sessions, 'session')}, "
        f"{counted(found.windows, 'window')}"
    )
    click.echo(f"{told} ({states})" if states else told)
    for kind, groups in found.groups.items():
        shown = groups[-_DAYS:] if kind == "day" else groups
        if not shown:
            continue
        columns = (kind, "answers", "tokens", "USD", "helpful", "harmful", "undecided", "helpful %")
        rows = [
            (
                *(
                    g.key,
                    g.answers,
                    f"{g.tokens:,}",
                    f"{g.cost:.4f}",
                    g.helpful,
                    g.harmful,
                    g.undecided,
                ),
                "" if g.helpful_rate is None else f"{g.helpful_rate:.0%}",
            )
            for g in shown
        ]
        click.echo()
        table(columns, rows, extra=("helpful %", "undecided", "USD"))


@click.command()
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, every row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, every row.")
@click.pass_obj
def sql(place: Place, query: str | None, as_csv: bool, as_json: bool) -> None:
    """Query the ledger with SQL, read-only.

    Without QUERY, reads the query from stdin; where nothing comes, lists the views (bullets, tags,
    reflections, sessions) and their columns, which docs/machines.md describes.
    """
    if as_csv and as_json:
        raise click.UsageError(
            "--csv and --json are two forms of one answer; leave one of them out"
        )
    if query is None:
        query = _from_stdin()
    with place.reading() as ledger, asking(ledger) as asker:
        try:
            if query is None:
                _list_views(asker, as_json)
                return
            answer = asker.ask(query)
            if as_json:
                names = _unique(answer.columns)
                print_json(
                    [dict(zip(names, map(_plain, row), strict=True)) for row in _rows(answer.pages)]
                )
            elif as_csv:
                print_csv(
                    answer.columns, ([_cell(value) for value in row] for row in _rows(answer.pages))
                )
            else:
                _print_rows(answer)
        except NotAQuestion as error:
            raise click.UsageError(str(error)) from error


def _from_stdin() -> str | None:
    """Return the query on stdin; None on a terminal, and where stdin is empty."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    text = sys.stdin.read(_MOST_QUERY + 1)
    if len(text) > _MOST_QUERY:
        raise click.UsageError(
            f"the query on stdin has more than {_MOST_QUERY:,} characters; make it smaller"
        )
    return text if text.strip() else None


def _list_views(asker: Asker, as_json: bool) -> None:
    columns = {
        view: asker.ask(f"SELECT * FROM {view} LIMIT 0").columns  # noqa: S608
        for view in VIEWS[1:]
    }
    if as_json:
        print_json([{"view": view, "columns": list(names)} for view, names in columns.items()])
        return
    table(
        ("view", "columns"),
        [(view, ", ".join(names)) for view, names in columns.items()],
        whole=True,
    )
    note(
        "Such as: reflector sql 'SELECT name, helpful, harmful FROM bullets ORDER BY helpful DESC'"
    )


def _print_rows(answer: Answer) -> None:
    rows = list(islice(_rows(answer.pages), _MOST_ROWS + 1))
    shown = [[_cell(value) for value in row] for row in rows[:_MOST_ROWS]]
    if answer.columns:
        table(answer.columns, shown, prose=answer.columns)
    if len(rows) > _MOST_ROWS:
        note(f"These are the first {_MOST_ROWS:,} rows; --csv and --json have all of them.")


def _unique(columns: Sequence[str]) -> list[str]:
    """Return the names of columns, each once: two of one name would be one key."""
    names: list[str] = []
    for name in columns:
        forms = chain([name], (f"{name}_{number}" for number in count(2)))
        names.append(next(one for one in forms if one not in names))
    return names


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes as hexadecimal digits, a whole number whatever its
    type, no infinity.
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
def diff(place: Place, span: str, as_json: bool) -> None:
    """Show how the playbook changed between two moments.

    A and B are positions, times or sessions' ids; without A it is the beginning, without B now.
    Shows bullets that were added, revised, moved and removed, and which sessions moved which
    counters.
    """
    with place.reading() as ledger:
        found = difference(ledger, *span_of(ledger, span))
        lessons = changed_lessons(ledger, found.from_, found.to)
    if as_json:
        print_json(replace(found, lessons=lessons))
        return
    if found.bullets or not lessons:
        _print_difference(found)
    print_changed(lessons)


def _print_difference(found: Difference) -> None:
    if found.counting.before != found.counting.after:
        click.echo(f"counting: {found.counting.before} → {found.counting.after}")
    if not found.bullets:
        note(f"The playbooks of positions {found.from_} and {found.to} are the same.")
        return
    for one in found.bullets:
        before, after = one.before, one.after
        totals = " → ".join(
            f"{row.helpful}/{row.harmful}" for row in (before, after) if row is not None
        )
        recounted = ", set by hand" if one.recounted else ""
        click.secho(f"{one.name}  {one.change}  {totals}{recounted}", bold=True)
        if before is None or after is None or before.text != after.text:
            for sign, row in (("-", before), ("+", after)):
                if row is not None:
                    click.echo(safe(f"  {sign} {' '.join(row.text.split())}"))
        if before is not None and after is not None and before.section != after.section:
            click.echo(f"  from {SECTIONS[before.section]} to {SECTIONS[after.section]}")
        if after is not None and after.status != "live":
            click.echo(safe(f"  {after.end}"))
        for moved in one.sessions:
            click.echo(
                f"  {short_id(moved.session_id) or '(none)'}  {moved.helpful:+d}/{moved.harmful:+d}"
            )
