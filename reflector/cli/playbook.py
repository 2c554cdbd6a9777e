"""The playbook's bullets and what came of each: `list`.

Invariant: a bullet is described the same wherever it is shown, now or at a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reflector.cli.options import SECTION, Question, question
from reflector.cli.output import counted, note, shaped, short_time, table
from reflector.events.event import BULLET_CHECKED, time_of, written
from reflector.ledger.rows import BulletRow
from reflector.playbook.bullet import COUNTINGS, Counting, best_first
from reflector.playbook.evidence import share_interval, share_words

if TYPE_CHECKING:
    from reflector.audit.checked import Checked
    from reflector.audit.citations import Observed, Use
    from reflector.playbook.ranking import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJson(BulletRow):
    """A bullet of `list`, with what came of it.

    used           sessions that cited it and were judged, `last_used` when the last one was
    told           whether a session that starts now is told it; null for a moment
    told_sessions  sessions that were told it; null where none is recorded
    demoted        why it gives way to others; null where it does not
    not_followed   how many judgements say that the agent did not follow it
    judged         votes of sessions: each has one, which its verdicts share
    share          the helpful share of the votes, null without any; `low` and `high` are the ends
                   of its 90 % interval
    checked        what `reflector check` found, in words; null where nobody was asked about it
    """

    used: int
    last_used: str | None
    judged: float
    share: float | None
    low: float
    high: float
    told: bool | None
    told_sessions: int | None
    demoted: str | None
    not_followed: int
    checked: str | None


class Uses(NamedTuple):
    """What came of bullets: how they were used, which are told now, how they rank, and what
    `reflector check` found.
    """

    rows: list[BulletRow]
    used: Mapping[str, Use]
    told: set[str] | None
    standing: Standing
    shown: Mapping[str, Observed]
    found: Checked | None
    checked: Mapping[str, str]

    @classmethod
    def of(cls, asked: Question, name: str | None = None) -> Uses:
        """Return what is known of all bullets, or of one, now or then."""
        from reflector.audit.citations import observed, use
        from reflector.ledger.as_of import Past
        from reflector.ledger.usage import usage_at
        from reflector.sessions.injection import ranks, told_names, told_text

        project = asked.place.project()
        tally = usage_at(asked.ledger, asked.upto)
        rows = asked.playbook.rows()
        past = asked.then or Past(asked.ledger)
        used = use(asked.ledger, past, name, tally)
        text = told_text(project.root) if asked.then is None else ""
        told = told_names(text) if text else None
        standing = ranks(tally, project.config)
        found = None
        if asked.ledger.has(BULLET_CHECKED):
            from reflector.audit.checked import checked_lines

            found = checked_lines(asked.ledger, asked.then)
        results = (
            {one.name: one.result for one in found.lines if one.sessions}
            if found is not None
            else {}
        )
        votes = observed(rows, past, used)
        return cls(rows, used, told, standing, votes, found, results)

    def json(self, row: BulletRow, *, with_interval: bool = True) -> ListedJson:
        """Return a bullet as `list --json` has it; the interval may be left out (0 to 1)."""
        used, shown = self.used.get(row.name), self.shown[row.name]
        low, high = share_interval(*shown) if with_interval else (0.0, 1.0)
        return shaped(
            ListedJson,
            row,
            used=used.sessions if used else 0,
            last_used=(used.last or None) if used else None,
            judged=round(sum(shown), 6),
            share=shown.share,
            low=low,
            high=high,
            told=None if self.told is None else row.name in self.told,
            told_sessions=self.standing.told.get(row.name, 0) if self.standing.told else None,
            demoted=self.demoted(row),
            not_followed=used.broken if used else 0,
            checked=self.checked.get(row.name),
        )

    def demoted(self, row: BulletRow) -> str | None:
        """Return why a bullet gives way to others, None where it does not."""
        return self.standing.why_demoted(row.bullet) if row.status == "live" else None


def worth(votes: Observed) -> str:
    """Return the share of sessions that a rule helped, for a line of its own; "" without a vote."""
    words = share_words(*votes)
    return f"helped in {words}" if words else ""


#: How `list` may be ordered.
ORDERS: dict[str, Callable[[ListedJson], Any]] = {
    "best": lambda one: (-one.low, best_first(one.bullet)),
    "name": lambda one: one.name,
    "harmful": lambda one: (-one.harmful, best_first(one.bullet)),
    "used": lambda one: (-one.used, best_first(one.bullet)),
    # A time as the ledger writes it, as a number: the latest first.
    "recent": lambda one: (
        -int("0" + "".join(filter(str.isdecimal, one.last_used or ""))),
        one.position,
    ),
}


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--section", type=SECTION, help="Only this section.")
@click.option(
    "--stale", type=click.IntRange(1), metavar="DAYS", help="Only rules not used for DAYS days."
)
@click.option("--sort", type=click.Choice(list(ORDERS)), help="Sort order (default: best).")
@click.option("-n", "most", type=click.IntRange(1), help="List at most N rules.")
@click.option("--removed", is_flag=True, help="Include removed rules.")
@click.option(
    "--counting", type=click.Choice(COUNTINGS), help="Count under this policy; change nothing."
)
@question
def list_(
    asked: Question,
    words: tuple[str, ...],
    section: str | None,
    stale: int | None,
    sort: str | None,
    most: int | None,
    removed: bool,
    counting: Counting | None,
) -> None:
    """List the playbook's rules with their counts.

    WORDS select the rules that contain one of them, best match first.

    `used`: sessions that cited the rule and were judged. `trend`: the last eight verdicts, `+`
    helpful, `-` harmful, `.` neither. `not followed`: judgements that the agent did otherwise.
    `told`: shown to new sessions; appears only if some rules are not. `demoted`: sessions that saw
    the rule since it last helped; appears once that has moved it down the list.
    """
    uses = Uses.of(asked)
    query = " ".join(words)
    order = sort or ("best" if not query and not asked.as_json else None)
    every = uses.rows if counting is None else _recounted(asked, uses.rows, counting)
    listed = every if removed else [row for row in every if row.status == "live"]
    with_interval = asked.as_json or order == "best"
    known = [uses.json(row, with_interval=with_interval) for row in listed]
    unused_since = _days_before(asked, stale) if stale is not None else None
    rows = _selected(known, section, unused_since, query)
    if order is not None:
        rows.sort(key=ORDERS[order])
    rows = rows[:most]
    if asked.answers(rows):
        return
    if rows:
        _print_list(rows, uses, dated=sort == "recent" or stale is not None)
    else:
        note(_why_empty(asked, known))


def _why_empty(asked: Question, known: Sequence[ListedJson]) -> str:
    if known:
        return "No rule matches."
    if asked.then is not None:
        return "The playbook was empty then."
    example = asked.place.command("add", "pat", "'Run the tests before you commit'")
    return f"The playbook is empty. Add a rule: {example}"


def _selected(
    rows: Sequence[ListedJson], section: str | None, unused_since: str | None, query: str
) -> list[ListedJson]:
    """Return the rules of a section that no session used since a time and that contain words of a
    query, which puts the best match first.
    """
    chosen = [row for row in rows if section in (None, row.section)]
    if unused_since is not None:
        chosen = [row for row in chosen if (row.last_used or "") < unused_since]
    if not query:
        return chosen
    from reflector.embed.lessons.recall import bullets_about

    by_name = {row.name: row for row in chosen}
    return [by_name[bullet.name] for bullet in bullets_about((r.bullet for r in chosen), query)]


def _days_before(asked: Question, days: int) -> str:
    """Return the time so many days before the moment of a question, as the ledger writes it."""
    last = asked.ledger.at([asked.then.position]) if asked.then is not None else ()
    moment = time_of(last[0].recorded_at) if last else None
    return written((moment or datetime.now(UTC)) - timedelta(days=days))


def _recounted(asked: Question, rows: list[BulletRow], counting: Counting) -> list[BulletRow]:
    """Return the bullets as another policy counts them, and note how many differ."""
    from reflector.ledger.as_of import Past

    other = (asked.then or Past(asked.ledger)).rows(counting)
    before = {row.name: row for row in rows}
    differing = sum(row != before.get(row.name) for row in other)
    note(f"{differing} of {counted(len(rows), 'rule')} differ under {counting}; nothing changed.")
    return other


class _Column(NamedTuple):
    """A column of `list`: its title, its cell of a row, and whether it is there even if empty."""

    title: str
    cell: Callable[[ListedJson], object]
    always: bool = False


def _columns(rows: Sequence[ListedJson], uses: Uses, *, dated: bool) -> list[_Column]:
    """Return the columns of `list`: with `dated` the last use, else the trend."""
    is_part = any(row.told is False for row in rows if row.status == "live")
    used, idle = uses.used, uses.standing.idle
    last_used = _Column("last used", lambda row: short_time(row.last_used) if row.last_used else "")
    trend = _Column("trend", lambda row: used[row.name].trend if row.name in used else "")
    return [
        _Column("name", lambda row: row.name),
        _Column("helpful", lambda row: row.helpful, always=True),
        _Column("harmful", lambda row: row.harmful, always=True),
        _Column("used", lambda row: row.used),
        last_used if dated else trend,
        _Column("not followed", lambda row: row.not_followed or ""),
        _Column("told", lambda row: "yes" if is_part and row.told else ""),
        _Column("checked", lambda row: row.checked or ""),
        _Column("demoted", lambda row: idle[row.name] if row.demoted else ""),
        _Column("text", lambda row: f"({row.label}) {row.text}" if row.label else row.text),
    ]


def _print_list(rows: Sequence[ListedJson], uses: Uses, *, dated: bool) -> None:
    cells = {
        column.title: [column.cell(row) for row in rows]
        for column in _columns(rows, uses, dated=dated)
        if column.always or any(map(column.cell, rows))
    }
    extra = ("checked", "trend", "used")
    table(tuple(cells), list(zip(*cells.values(), strict=True)), extra=extra, whole=True)
