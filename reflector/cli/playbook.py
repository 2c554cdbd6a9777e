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
from reflector.playbook.evidence import share_interval

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
    judged         verdicts that show what it is worth: without baselines, and no more than sessions
                   judged it
    share          the share helpful of these, null without any; in nine of ten cases the true one
                   lies between `low` and `high`
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
        return cls(rows, used, told, standing, observed(rows, past, used), found, results)

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


def worth(row: BulletRow, shown: Observed) -> str:
    """Return the share helpful with its interval, for a line of its own; "" without any verdict."""
    if shown.share is None:
        return ""
    low, high = (f"{end:.0%}" for end in share_interval(*shown))
    verdicts = f"{sum(shown):.3g} verdict{'' if sum(shown) == 1 else 's'}"
    more = ", without baselines and repeats" if row.helpful + row.harmful > sum(shown) else ""
    return f"share helpful: {shown.share:.0%} of {verdicts} (90% interval: {low} to {high}){more}"


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
@click.option(
    "--search",
    metavar="WORDS",
    help=("Only bullets with one of these words, those with most of them first."),
)
@click.option("--section", type=SECTION, help="Only this section.")
@click.option(
    "--stale",
    type=click.IntRange(1),
    metavar="DAYS",
    help=("Only bullets that were not used for so long."),
)
@click.option("--sort", type=click.Choice(list(ORDERS)), help="The order; default: the best first.")
@click.option("--limit", type=click.IntRange(1), help="At most so many bullets.")
@click.option("--all", "everything", is_flag=True, help="Include removed bullets.")
@click.option(
    "--counting", type=click.Choice(COUNTINGS), help=("Count under this policy; changes nothing.")
)
@question
def list_(
    asked: Question,
    search: str | None,
    section: str | None,
    stale: int | None,
    sort: str | None,
    limit: int | None,
    everything: bool,
    counting: Counting | None,
) -> None:
    """List the playbook's bullets with their counters.

    `used` is the number of sessions that cited the bullet and were judged, and `trend` the last
    eight verdicts: `+` helpful, `-` harmful, `.` neither. `not followed` is how many judgements say
    that the agent did otherwise: such advice may well be right. `--stale` and `--sort recent` show
    when it was last used, and `told` stands where the agent is not told all of them. `demoted` is
    in how many sessions a bullet was told since it last helped, where these are so many that it
    gives way to others. `reflector ledger policy` puts another counting policy in force.
    """
    uses = Uses.of(asked)
    every = uses.rows
    if counting is not None:
        every = _recounted(asked, every, counting)
    order = sort or ("best" if search is None and not asked.as_json else None)
    with_interval = asked.as_json or order == "best"
    listed = [row for row in every if everything or row.status == "live"]
    known = [uses.json(row, with_interval=with_interval) for row in listed]
    last = asked.ledger.at([asked.then.position]) if asked.then is not None else ()
    now = time_of(last[0].recorded_at) if last else datetime.now(UTC)
    before = written(now - timedelta(days=stale)) if now is not None and stale is not None else None
    rows = [
        row
        for row in known
        if section in (None, row.section)
        and (before is None or row.last_used is None or row.last_used < before)
    ]
    if search is not None:
        from reflector.embed.lessons.recall import bullets_about

        places = {
            bullet.name: place
            for place, bullet in enumerate(bullets_about((r.bullet for r in rows), search))
        }
        rows = sorted((row for row in rows if row.name in places), key=lambda row: places[row.name])
    if order is not None:
        rows.sort(key=ORDERS[order])
    rows = rows[:limit]
    if asked.answers(rows):
        return
    if rows:
        _print_list(rows, uses, dated=sort == "recent" or stale is not None)
    elif known:
        note("No bullet matches.")
    elif asked.then is not None:
        note("The playbook was empty then.")
    else:
        example = asked.place.command("add", "pat", "'Run the tests before you commit'")
        note(f"The playbook is empty. Add a bullet with: {example}")


def _recounted(asked: Question, rows: list[BulletRow], counting: Counting) -> list[BulletRow]:
    """Return the bullets as another policy counts them, and say how many differ."""
    from reflector.ledger.as_of import Past

    other = (asked.then or Past(asked.ledger)).rows(counting)
    before = {row.name: row for row in rows}
    differing = sum(row != before.get(row.name) for row in other)
    note(
        f"{differing} of {counted(len(rows), 'bullet')} counted otherwise under {counting}; "
        "nothing changed."
    )
    return other


def _print_list(rows: Sequence[ListedJson], uses: Uses, *, dated: bool) -> None:
    live, idle = [row for row in rows if row.status == "live"], uses.standing.idle
    demoted, untold = (
        {row.name for row in live if row.demoted},
        any(row.told is False for row in live),
    )
    columns: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "helpful": [row.helpful for row in rows],
        "harmful": [row.harmful for row in rows],
        "used": [row.used for row in rows],
        "trend": [uses.used[row.name].trend if row.name in uses.used else "" for row in rows],
        "last used": [short_time(row.last_used) if row.last_used else "" for row in rows],
        "not followed": [row.not_followed or "" for row in rows],
        "told": ["yes" if untold and row.told else "" for row in rows],
        "checked": [row.checked or "" for row in rows],
        "demoted": [idle[row.name] if row.name in demoted else "" for row in rows],
        "text": [
            row.text if row.status == "live" else f"({row.status}) {row.text}" for row in rows
        ],
    }
    del columns["trend" if dated else "last used"]
    shown = {
        name: cells
        for name, cells in columns.items()
        if name in ("helpful", "harmful") or any(cells)
    }
    table(tuple(shown), list(zip(*shown.values(), strict=True)), extra=("checked", "trend", "used"))
