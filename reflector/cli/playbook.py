"""Commands on the playbook itself: list, show, add, export."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, FILE, SECTION
from reflector.cli.output import (
    advice_fields,
    counted,
    fields,
    json_option,
    note,
    print_csv,
    print_json,
    print_lines,
    safe,
    short_id,
    short_time,
    table,
)
from reflector.playbook.bullet import best_first
from reflector.playbook.counting import COUNTINGS, Counting
from reflector.playbook.names import SECTIONS

if TYPE_CHECKING:
    from reflector.audit.citations import Use
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import BulletRow, Ledger
    from reflector.playbook.ranking import Standing


def bullet_fields(row: BulletRow) -> dict[str, Any]:
    """Return a bullet as `list --json` has it."""
    return {**advice_fields(row), **fields(row, "status reason removed_into position")}


#: How `list` may be ordered.
_ORDERS: dict[str, Callable[[tuple[BulletRow, Use | None]], Any]] = {
    "best": lambda one: best_first(one[0].bullet),
    "name": lambda one: one[0].name,
    "harmful": lambda one: (-one[0].harmful, best_first(one[0].bullet)),
    "used": lambda one: (-(one[1].sessions if one[1] else 0), best_first(one[0].bullet)),
    "recent": lambda one: (one[1] is not None, one[1].last if one[1] else "", one[0].position),
}


@click.command("list")
@click.option("--search", metavar="WORDS", help="Only bullets with one of these words, those with most of them first.")
@click.option("--section", type=SECTION, help="Only this section.")
@click.option("--stale", type=click.IntRange(1), metavar="DAYS", help="Only bullets that were not used for so long.")
@click.option("--sort", type=click.Choice(list(_ORDERS)), help="The order; default: the best first.")
@click.option("--limit", type=click.IntRange(1), help="At most so many bullets.")
@click.option("--all", "everything", is_flag=True, help="Include removed bullets.")
@click.option("--counting", type=click.Choice(COUNTINGS), help="Count under this policy; changes nothing.")
@moments.as_of
@json_option
@click.pass_obj
def list_(
    place: Place,
    search: str | None,
    section: str | None,
    stale: int | None,
    sort: str | None,
    limit: int | None,
    everything: bool,
    counting: Counting | None,
    moment: str | None,
    as_json: bool,
) -> None:
    """List the playbook's bullets with their counters.

    `used` is the number of sessions that cited the bullet and were judged, and `trend` the last eight verdicts: `+`
    helpful, `-` harmful, `.` neither. `--stale` and `--sort recent` show when it was last used, and `told` stands where
    the agent is not told all of them. `demoted` is in how many sessions a bullet was told since it last helped, where
    these are so many that it gives way to others. `--counting` shows the counters that another policy would give;
    `reflector policy adopt` puts it in force.
    """
    from reflector.audit.citations import use
    from reflector.ledger.as_of import Past
    from reflector.sessions.injection import ranks, told_names

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        standing = ranks(ledger, place.project().config, past.position if past else None)
        every = (past or ledger).rows()
        if counting is not None:
            before = {row.name: row for row in every}
            every = (past or Past(ledger)).rows(counting)
            differing = sum(row != before.get(row.name) for row in every)
            note(f"{differing} of {counted(len(every), 'bullet')} counted otherwise under {counting}; nothing changed.")
        rows = [row for row in every if everything or row.status == "live"]
        uses = use(ledger, past)
        told = told_names(place.project().root) if moment is None else None
    is_empty = not rows
    rows = [row for row in rows if section in (None, row.section) and _is_stale(uses.get(row.name), stale)]
    if search is not None:
        from reflector.lessons.recall import bullets_about

        places = {bullet.name: place for place, bullet in enumerate(bullets_about((r.bullet for r in rows), search))}
        rows = sorted((row for row in rows if row.name in places), key=lambda row: places[row.name])
    if sort is not None or (search is None and not as_json):
        rows = [row for row, _ in sorted(((row, uses.get(row.name)) for row in rows), key=_ORDERS[sort or "best"])]
    rows = rows[:limit]
    if as_json:
        print_json([{**bullet_fields(row), **_use_fields(row, uses.get(row.name), told, standing)} for row in rows])
    elif rows:
        _print_list(rows, uses, told, standing, dated=sort == "recent" or stale is not None)
    elif not is_empty:
        note("No bullet matches.")
    elif moment is not None:
        note("The playbook was empty then.")
    else:
        example = place.command("add", "pat", "'Run the tests before you commit'")
        note(f"The playbook is empty. Add advice with: {example}")


def _is_stale(used: Use | None, days: int | None) -> bool:
    from datetime import UTC, datetime, timedelta

    return days is None or used is None or used.last < f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%S}"


def _use_fields(row: BulletRow, used: Use | None, told: set[str] | None, standing: Standing) -> dict[str, Any]:
    return {
        "used": used.sessions if used else 0,
        "last_used": used.last if used else None,
        "told": None if told is None else row.name in told,
        "told_sessions": standing.told.get(row.name, 0) if standing.told else None,
        "demoted": standing.why_demoted(row.bullet) if row.status == "live" else None,
    }


def _print_list(
    rows: Sequence[BulletRow], uses: Mapping[str, Use], told: set[str] | None, standing: Standing, *, dated: bool
) -> None:
    columns: dict[str, list[object]] = {
        "name": [row.name for row in rows],
        "helpful": [row.helpful for row in rows],
        "harmful": [row.harmful for row in rows],
    }
    found = [uses.get(row.name) for row in rows]
    if any(found):
        columns["used"] = [used.sessions if used else 0 for used in found]
        if dated:
            columns["last used"] = [short_time(used.last) if used else "" for used in found]
        else:
            columns["trend"] = [used.trend if used else "" for used in found]
    if told is not None and any(row.name not in told and row.status == "live" for row in rows):
        columns["told"] = ["yes" if row.name in told else "" for row in rows]
    if any(standing.demotions(row.name) for row in rows if row.status == "live"):
        columns["demoted"] = [standing.idle[row.name] if standing.demotions(row.name) else "" for row in rows]
    columns["text"] = [row.text if row.status == "live" else f"({row.status}) {row.text}" for row in rows]
    shown = list(zip(*columns.values(), strict=True))
    table(tuple(columns), shown, numbers=("helpful", "harmful", "used", "demoted"), extra=("trend", "used"), paged=True)


@click.command()
@click.argument("name", type=BULLET)
@moments.as_of
@json_option
@click.pass_obj
def show(place: Place, name: str, moment: str | None, as_json: bool) -> None:
    """Show one bullet with its history."""
    from reflector.audit.citations import use
    from reflector.audit.log import about, summary
    from reflector.audit.log import as_json as event_json
    from reflector.sessions.injection import ranks, told_names

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        standing = ranks(ledger, place.project().config, past.position if past else None)
        row = find_bullet(ledger, name, past)
        used = use(ledger, past, row.name).get(row.name)
        told = told_names(place.project().root) if moment is None else None
        events = about(ledger, row, upto=past.position if past else None)
    if as_json:
        fields = {**bullet_fields(row), **_use_fields(row, used, told, standing)}
        print_json({**fields, "events": [event_json(event) for event in events]})
        return
    click.echo(safe(row.bullet.line))
    demoted = standing.why_demoted(row.bullet) if row.status == "live" else None
    notes = (SECTIONS[row.section], row.end, f"demoted: {demoted}" if demoted else "")
    click.echo(safe(", ".join(filter(None, notes))))
    click.echo()
    rows = [(e.position, short_time(e.recorded_at), e.type, short_id(e.session_id), summary(e)) for e in events]
    table(("position", "recorded", "event", "session", "what"), rows, numbers=("position",), extra=("recorded",))
    note(f"Why the counts are what they are: {place.command('blame', row.name)}")


def find_bullet(ledger: Ledger, name: str, past: Past | None = None, *, live: bool = False) -> BulletRow:
    """Return the bullet of a name, now or then, or a usage error that suggests the nearest one; with `live` a live one
    where there is any."""
    row = (past or ledger).row(name)
    if row is not None:
        return row
    if past is not None and ledger.row(name) is not None:
        raise click.UsageError(f"{name} was not there yet at position {past.position}. See 'reflector show {name}'.")
    from difflib import get_close_matches

    rows = ledger.rows()
    near: list[str] = []
    for names in ([row.name for row in rows if row.status == "live"] if live else [], [row.name for row in rows]):
        near = near or [known for known in names if _bare(known) == _bare(name)]
        near = near or get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean {near[0]}?" if near else " See 'reflector list --all'."
    raise click.UsageError(f"no bullet is or was called {safe(name)!r} in this ledger.{hint}")


def _bare(name: str) -> str:
    """`pat1` of `pat-001`, `PAT-1` and `pat 1`."""
    return re.sub(r"[-_ ]|(?<!\d)0+", "", name.lower())


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "md", "csv", "skillbook", "ndjson"]),
    default="json",
    show_default=True,
    help="The format.",
)
@moments.as_of
@click.option("--head", "sidecar", type=FILE, help="Also write the head of the exported state into this file.")
@click.pass_obj
def export(place: Place, form: str, moment: str | None, sidecar: Path | None) -> None:
    """Print the playbook as json, md, csv or skillbook, or the events as ndjson.

    json is playbook.json byte for byte. md has one line for each bullet, as prompts show it, and skillbook is JSON by
    id, as other systems keep advice; `import` reads all three. ndjson is the whole ledger: a header and one CloudEvent
    per line, for `import` on another machine. With --as-of, json is the playbook.json of that moment, and ndjson ends
    there.
    """
    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        if sidecar is not None:
            past = _write_head(ledger, past, sidecar)
        _EXPORTS[form](ledger, past)


def _write_head(ledger: Ledger, past: Past | None, sidecar: Path) -> Past:
    """Write the head of then or now; the playbook that it belongs to, whatever is appended meanwhile."""
    from reflector.cli.ledger import head_of
    from reflector.files import replace_file
    from reflector.ledger.as_of import Past
    from reflector.proof.heads import head_line

    head = head_of(ledger, past)
    replace_file(sidecar, f"{head_line(head.position, head.chain)}\n".encode("ascii"))
    return past or Past(ledger, head.position)


def _export_json(ledger: Ledger, past: Past | None) -> None:
    from reflector.playbook.document import dump

    then = past or ledger
    updated_at = past.updated_at if past else ledger.updated_at()
    sys.stdout.buffer.write(dump(then.bullets(), updated_at))


def _export_markdown(ledger: Ledger, past: Past | None) -> None:
    import json

    from reflector.playbook.document import dump
    from reflector.reflection.ace import format_playbook

    document = json.loads(dump((past or ledger).bullets(), None))
    click.echo(safe(format_playbook(document, template="{key_points}")))


def _export_skillbook(ledger: Ledger, past: Past | None) -> None:
    from reflector.playbook.document import dump_skillbook

    sys.stdout.buffer.write(dump_skillbook((past or ledger).bullets()))


def _export_csv(ledger: Ledger, past: Past | None) -> None:
    columns = ("name", "section", "helpful", "harmful", "status", "text")
    rows = (past or ledger).rows()
    print_csv(columns, [(r.name, SECTIONS[r.section], r.helpful, r.harmful, r.status, r.text) for r in rows])


def _export_ndjson(ledger: Ledger, past: Past | None) -> None:
    from reflector.exchange.transfer import exported

    print_lines(exported(ledger, past.position if past else None))


_EXPORTS = {
    "json": _export_json,
    "md": _export_markdown,
    "csv": _export_csv,
    "skillbook": _export_skillbook,
    "ndjson": _export_ndjson,
}
