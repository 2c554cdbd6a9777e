"""Questions about all of a ledger: citations, orphans, double-counts, stats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import BULLET
from reflector.cli.output import (
    counted,
    counters,
    fields,
    json_option,
    note,
    percent,
    print_json,
    rounded,
    short_id,
    spent_fields,
    table,
)

if TYPE_CHECKING:
    from reflector.audit.citations import Cited, Orphans
    from reflector.audit.doubles import DoubleCounts
    from reflector.audit.stats import Stats
    from reflector.ledger.answers import Group

#: Lines of a kind that a person is shown; a machine gets all.
_MOST = 20


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include removed bullets.")
@moments.as_of
@json_option
@click.pass_obj
def citations(place: Place, everything: bool, moment: str | None, as_json: bool) -> None:
    """Show how often each bullet was told, cited and judged.

    Counts sessions: one that was compacted five times was told a bullet once. A session without a record of what it was
    told is unknown; `live` also counts these: sessions with a window at which the bullet was live.
    """
    from reflector.audit.citations import citations as ask

    with place.reading() as ledger:
        found = [one for one in ask(ledger, moments.past(ledger, moment)) if everything or one.status == "live"]
    if as_json:
        print_json([citation_fields(one) for one in found])
        return
    rows = [
        (
            one.name,
            one.live,
            "?" if one.told is None else one.told,
            one.cited,
            percent(one.told_rate),
            one.judged,
            percent(one.judged_rate),
            one.helpful,
            one.harmful,
        )
        for one in sorted(found, key=lambda one: -one.cited)
    ]
    columns = ("name", "live", "told", "cited", "of told", "judged", "of cited", "helpful", "harmful")
    table(columns, rows, numbers=columns[1:], extra=("live", "of cited", "of told"), empty="The playbook is empty.")
    if unknown := max((one.unknown for one in found), default=0):
        note(f"What {counted(unknown, 'session')} were told is unknown: they count in `live` alone.")


def citation_fields(one: Cited) -> dict[str, Any]:
    """Return what `citations` says of a bullet as JSON has it."""
    return {
        **fields(one, "name status"),
        "offered": one.live,  # its name before 2026-11
        **fields(one, "live told unknown told_cited cited judged uncited helpful harmful"),
        "told_rate": rounded(one.told_rate),
        "citation_rate": rounded(one.citation_rate),
        "judged_rate": rounded(one.judged_rate),
    }


@click.command()
@moments.as_of
@json_option
@click.pass_obj
def orphans(place: Place, moment: str | None, as_json: bool) -> None:
    """List uncited bullets, unknown names, and windows without a verdict.

    Cited names and tags that match no live bullet, windows without a verdict, bullets never cited or never told.
    """
    from reflector.audit.citations import orphans as ask

    with place.reading() as ledger:
        found = ask(ledger, moments.past(ledger, moment))
    if as_json:
        names = [row.name for row in found.bullets]
        print_json({**asdict(found), "bullets": names, "told": dict(zip(names, found.told, strict=True))})
    else:
        _print_orphans(place, found)


def _print_orphans(place: Place, found: Orphans) -> None:
    uncited = list(zip(found.bullets, found.told, strict=True))
    parts = (
        (
            "Cited, but no live bullet",
            ("name", "why", "sessions", "first", "last"),
            [(one.name, one.kind, one.sessions, one.first, one.last) for one in found.citations],
        ),
        (
            "Tagged, but not counted",
            ("name", "why", "tags", "first", "last"),
            [(t.name, t.disposition.replace("_", " "), t.tags, t.first, t.last) for t in found.tags],
        ),
        (
            "Windows without a verdict",
            ("position", "session", "state", "attempts"),
            [(window.position, short_id(window.session_id), window.state, window.attempts) for window in found.windows],
        ),
        (
            "Never cited, though told",
            ("name", "told", "text"),
            [(row.name, told, row.text) for row, told in uncited if told],
        ),
        ("Never told", ("name", "text"), [(row.name, row.text) for row, told in uncited if told == 0]),
        (
            "Never cited, and not known to be told",
            ("name", "text"),
            [(row.name, row.text) for row, told in uncited if told is None],
        ),
    )
    shown = [part for part in parts if part[2]]
    for number, (title, columns, rows) in enumerate(shown):
        click.echo(f"{chr(10) if number else ''}{title}: {len(rows)}")
        table(columns, rows[:_MOST], numbers=("sessions", "told", "tags", "first", "last", "position", "attempts"))
    if elsewhere := _of_another_playbook(place, [one.name for one in found.citations if one.kind == "unknown"]):
        note(elsewhere)
    if not shown:
        note("Nothing is orphaned.")
    if found.skipped:
        why = place.command("log --type reflection.skipped")
        note(f"{counted(found.skipped, 'window')} skipped; the reasons: {why}")


def _of_another_playbook(place: Place, unknown: Sequence[str]) -> str:
    """Return a note on the unknown names that another playbook gives to its bullets; "" without such a name."""
    from reflector.playbook.names import USER_FIRST, is_below, is_name

    # A trajectory may have used ids of any form.
    below = {is_below(name, USER_FIRST) for name in unknown if is_name(name)}
    if place.project().is_users and True in below:
        return f"Numbers below {USER_FIRST} are given by the projects: their bullets count there."
    if not place.project().is_users and False in below:
        own = f"Numbers from {USER_FIRST} are given by your own playbook"
        return f"{own}: its bullets count there, see reflector --user list"
    return ""


@click.command("double-counts")
@click.argument("name", required=False, type=BULLET)
@moments.as_of
@json_option
@click.pass_obj
def double_counts(place: Place, name: str | None, moment: str | None, as_json: bool) -> None:
    """Explain tags that were counted more than once.

    Shows every bullet's totals under each counting policy. NAME is a bullet; without it, all bullets are examined. D1
    the same tag twice in one reflection, D2 helpful and harmful together, D3 the same list of tags applied twice, D4
    one session reflected on more than once, D5 one transcript under two session ids, D6 overlapping windows.
    """
    from reflector.audit.doubles import double_counts as ask
    from reflector.cli.playbook import find_bullet

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        if name is not None:
            find_bullet(ledger, name, past)
        found = ask(ledger, name, past)
    if not as_json:
        _print_doubles(place, found)
        return
    print_json(
        {
            "counting": found.counting,
            "classes": [
                {
                    **fields(one, "code title tags"),
                    "bullets": len(one.names),
                    "examples": [asdict(example) for example in one.examples],
                }
                for one in found.classes
            ],
            "totals": [
                {"name": name, **{policy: counters(*pair) for policy, pair in by_policy.items()}}
                for name, by_policy in found.totals.items()
            ],
        }
    )


def _print_doubles(place: Place, found: DoubleCounts) -> None:
    rows = [
        (
            one.code,
            one.title,
            one.tags,
            len(one.names),
            "; ".join(f"{e.name} {e.tag} at {', '.join(map(str, e.positions[:4]))}" for e in one.examples[:2]),
        )
        for one in found.classes
    ]
    columns = ("class", "what", "surplus", "bullets", "such as")
    table(columns, rows, numbers=("surplus", "bullets"), prose=("what", "such as"), extra=("such as",))
    differing = {name: totals for name, totals in found.totals.items() if len(set(totals.values())) > 1}
    click.echo()
    if not differing:
        click.echo(f"All counting policies agree on {counted(len(found.totals), 'bullet')}.")
        return
    policies = list(next(iter(differing.values())))
    lines = [(name, *("/".join(map(str, totals[p])) for p in policies)) for name, totals in differing.items()]
    table(("name", *policies), lines[:_MOST], numbers=policies)
    trial = place.command("list --counting", policies[-1])
    note(f"In force: {found.counting}. Another one on trial: {trial}")


@click.command()
@click.option(
    "--days", type=click.IntRange(min=1), default=30, show_default=True, help="How many days to show, the newest."
)
@moments.as_of
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all days.")
@click.pass_obj
def stats(place: Place, days: int, moment: str | None, as_json: bool) -> None:
    """Show tokens, cost and tags: by model, by prompt template, by day (UTC)."""
    from reflector.audit.stats import stats as ask
    from reflector.cli.again import month_of, month_words
    from reflector.lessons.book import figures, is_used

    with place.reading() as ledger:
        past = moments.past(ledger, moment)
        found = ask(ledger, past)
        learned = figures(past or ledger)
        month = month_of(ledger, place.project()) if moment is None else None
    if as_json:
        print_json(stats_fields(found, month, learned))
        return
    _print_stats(found, days)
    if is_used(learned):
        click.echo()
        table(("lessons", ""), [(name.replace("_", " "), value) for name, value in learned.items()], numbers=("",))
    if month is not None and month["tokens"]:
        click.echo(month_words(month))


def stats_fields(found: Stats, month: dict[str, Any] | None, learned: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of `stats` as JSON has it."""
    from reflector.lessons.book import is_used

    return {
        "month": month,
        **fields(found, "events sessions windows states"),
        **_figures(found.whole),
        **{f"by_{kind}": [{kind: g.key, **_figures(g)} for g in gs] for kind, gs in found.groups.items()},
        **({"lessons": learned} if is_used(learned) else {}),
    }


def _print_stats(found: Stats, days: int) -> None:
    states = ", ".join(f"{count} {state}" for state, count in sorted(found.states.items()))
    told = f"{counted(found.events, 'event')}, {counted(found.sessions, 'session')}, {counted(found.windows, 'window')}"
    click.echo(f"{told} ({states})" if states else told)
    for kind, groups in found.groups.items():
        shown = groups[-days:] if kind == "day" else groups
        if not shown:
            continue
        columns = (kind, "answers", "tokens", "USD", "helpful", "harmful", "undecided", "helpful %")
        rows = [
            (
                g.key,
                g.answers,
                f"{g.spent.tokens:,}",
                f"{g.spent.cost:.4f}",
                g.helpful,
                g.harmful,
                g.undecided,
                percent(g.helpful_rate),
            )
            for g in shown
        ]
        click.echo()
        table(columns, rows, numbers=columns[1:], extra=("helpful %", "undecided", "USD"))


def _figures(group: Group) -> dict[str, Any]:
    return {
        **fields(group, "answers reflections"),
        **spent_fields(group.spent),
        **fields(group, "helpful harmful undecided"),
        "helpful_rate": rounded(group.helpful_rate),
    }
