"""`report`: one HTML page of the playbook to read and share, and its last days in a few lines."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.options import FILE, Question, as_of_option, flag
from reflector.cli.output import print_lines, waiting
from reflector.cli.playbook import ORDERS, Uses
from reflector.files import write_named
from reflector.prices import price_words
from reflector.text.bounds import clean
from reflector.text.phrases import counted

if TYPE_CHECKING:
    from reflector.check.rows import Row
    from reflector.report.page import Page
    from reflector.report.summary import Summary

_FILE = "report.html"
#: The most characters of a rule in a line.
_MOST = 40
_READ_FIRST = "The page contains the texts of your rules. Read the page before you send it."


@click.command()
@click.option("--since", metavar="MOMENT", help="Show changes since MOMENT (default: 7 days ago).")
@as_of_option
@click.option("--out", type=FILE, help="File (default: .claude/reflector/report.html).")
@flag("--open", "opens", help="Open the report in your browser.")
@flag(
    "--share",
    help="Omit quotes, reasons, paths, names and ids.",
)
@click.pass_obj
def report(
    place: Place, since: str | None, moment: str | None, out: Path | None, opens: bool, share: bool
) -> None:
    """Write an HTML page about the playbook.

    The report begins with the rules that your agent breaks, from the counts of `check`. The report
    also shows the reason for each count, recent changes, sessions per week, judges and cost. The
    report lists decisions that wait for you, and rules that no session cites. The report is a
    single HTML file that loads nothing from the network. By default, `report` writes the file into
    the project's folder .claude/reflector, which git ignores.
    """
    with waiting("reading the ledger for the report"):
        page = _page(place, since, moment, share=share)
        from reflector.report.html import page_html

        html = page_html(page, share=share).encode()
        path = out or _default(place)
        write_named(path, html)
    suggests_open = out is None and not (opens or share or page.is_past)
    print_lines(_lines(page, place, path, len(html), suggests_open=suggests_open, share=share))
    if opens:
        click.launch(path.resolve().as_uri())


def _default(place: Place) -> Path:
    """Return the file in the project's state folder, in the shortest form to type here."""
    path = place.project().make_state_dir() / _FILE
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _page(place: Place, since: str | None, moment: str | None, *, share: bool) -> Page:
    from reflector.report.page import Page
    from reflector.sessions.checks import kept_sessions

    broken = () if share or moment is not None else _rows_to_look_at(place)
    with place.reading() as ledger:
        is_empty = moment is None and not ledger.window_states()
        asked = Question(place, ledger, moment)
        uses = Uses(asked)
        rules = [uses.json(row) for row in asked.playbook.rows() if row.is_rule]
        return Page(
            ledger,
            asked.then,
            sorted(rules, key=ORDERS["best"]),
            uses.found,
            project=place.project(),
            command=Place().command if share else place.command,
            since=since,
            broken=broken,
            kept=kept_sessions(place.project(), ledger).total() if is_empty else 0,
        )


def _rows_to_look_at(place: Place) -> list[Row]:
    """Return the rules that `check` shows first, with their evidence."""
    from reflector.check.adapter import judged_of, page_facts
    from reflector.check.plan import Typed, look_at
    from reflector.check.rows import rows_of
    from reflector.check.source import advice_to_check

    project = place.project()
    advice = advice_to_check(project, [])
    look = look_at(project, advice.lines, Typed(), each=iter)
    judged = judged_of(project, advice.lines, look)
    return rows_of(page_facts(project, advice, look, judged), date.today())


def _lines(
    page: Page, place: Place, path: Path, size: int, *, suggests_open: bool, share: bool
) -> list[str]:
    """Return the output of the command: the file, its last days, and the next command."""
    summary = page.summary
    helped = summary.helped.total()
    harmed = summary.harmed.total()
    added = sum(rule.change == "added" for rule in page.changes)
    lines = [
        f"Wrote {path}, {size / 1000:,.0f} kB. The page loads nothing from the network.",
        *([f"To open the page: {place.command('report', '--open')}"] if suggests_open else []),
        f"{_days(summary)}: {counted(summary.sessions, 'session')} recorded, "
        f"{counted(helped + harmed, 'verdict')} ({helped} helped, {harmed} harmed) and "
        f"{counted(added, 'new rule')}",
    ]
    if page.kept:
        lines.append(
            f"Nothing is recorded yet. Record {counted(page.kept, 'session')} of this project: "
            f"{place.command('history')}"
        )
    texts = {rule.row.name: rule.row.text for rule in page.rules}
    for words, counts in (("helped", summary.helped), ("harmed", summary.harmed)):
        for name, count in counts.most_common(1):
            text = clean(texts.get(name, "(removed)"), _MOST)
            lines.append(f"{words} most  {name}  {text}  {counted(count, 'session')}")
    changed = len(page.memory.files)
    if changed:
        lines.append(
            f"{counted(changed, 'memory file')} changed, "
            f"{counted(page.memory.undone, 'change')} undone by you"
        )
    if summary.questions:
        number = counted(summary.questions, "question")
        lines.append(f"judges answered {number} for {price_words(summary.cost)}")
    share_it = place.command("report", "--share")
    sharing = (
        f"The page quotes your sessions. To write a page that you can send to others: {share_it}"
    )
    return [*lines, _READ_FIRST if share else sharing]


def _days(summary: Summary) -> str:
    """Return the period, such as `21 to 28 Nov` or `24 Oct to 2 Nov`.

    Return "Up to now" if the ledger has no dated event. One day is shown once. If the dates are in
    different years, both have their year. The year is also shown if it is not this one.
    """
    try:
        begins = datetime.fromisoformat(summary.begins).astimezone()
        ends = datetime.fromisoformat(summary.ends).astimezone()
    except ValueError:
        return "Up to now"
    year = "" if ends.year == datetime.now().astimezone().year else f" {ends.year}"
    last = f"{ends:%-d %b}{year}"
    if begins.date() == ends.date():
        return last
    if begins.year != ends.year:
        return f"{begins:%-d %b %Y} to {ends:%-d %b %Y}"
    return f"{begins:%-d} to {last}" if begins.month == ends.month else f"{begins:%-d %b} to {last}"
