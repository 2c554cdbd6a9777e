"""The ledgers of many playbooks: where each is, one question to all of them, and a playbook moved between two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from reflector.cli.app import Place
from reflector.cli.output import (
    counted,
    json_option,
    note,
    percent,
    print_json,
    progress,
    safe,
    short_id,
    short_time,
    table,
)

if TYPE_CHECKING:
    from reflector.audit.everywhere import Answer, Everywhere
    from reflector.ledger.store import Ledger
    from reflector.project import Project

_Rows = list[tuple[object, ...]]


@click.command()
@click.argument("question", required=False, type=click.Choice(["stats", "citations", "failures", "verify"]))
@json_option
@click.pass_obj
def ledgers(place: Place, question: str | None, as_json: bool) -> None:
    """List the ledgers of all playbooks, or ask every playbook one question.

    The ledgers are those that `ledgers.toml` names, beside your own settings. QUESTION is a command, which answers for
    each of their playbooks. A ledger that does not answer is named, and the others answer all the same; the exit code
    is 1 then, as it is for a finding of `verify`.
    """
    from reflector.audit.everywhere import ask_everywhere
    from reflector.directory import directory, directory_file

    urls = directory()
    if not urls:
        raise click.UsageError(
            f"{directory_file()} {'names no ledger' if directory_file().exists() else 'does not exist'}; it lists the "
            'ledgers of a team, such as `"*" = "postgresql://host/db"` below a line `[playbooks]`. This project\'s own '
            f"ledger answers `{place.command(question or 'status')}`"
        )
    ask = _questions(place.project())[question] if question else lambda _: None
    with progress(0, "asking") as bar:

        def begin(length: int) -> None:
            bar.length = length

        found = ask_everywhere(urls.values(), ask, begin=begin, step=lambda: bar.update(1))
    wrong = any(answer.value for answer in found.answers) if question == "verify" else False
    if as_json:
        print_json(_document(found))
    elif found.answers or not found.down:
        _SHOWN[question](found)
    for error in found.down.values():
        note(f"No answer: {error}")
    if found.down or wrong:
        raise click.exceptions.Exit(1)


def _questions(project: Project) -> Mapping[str, Callable[[Ledger], Any]]:
    """Return how each question is asked: its answer is the one that the command prints as JSON."""

    def stats(ledger: Ledger) -> Any:
        from reflector.audit.stats import stats as ask
        from reflector.cli.audit_queries import stats_fields
        from reflector.lessons.figures import figures

        return stats_fields(ask(ledger, None), None, figures(ledger))

    def citations(ledger: Ledger) -> Any:
        from reflector.audit.citations import citations as ask
        from reflector.cli.audit_queries import citation_fields

        return [citation_fields(one) for one in ask(ledger, None) if one.status == "live"]

    def failures(ledger: Ledger) -> Any:
        from reflector.cli.again import failures_of

        # The command that judges a session is one of the project's that the playbook belongs to.
        return [{**one, "command": None} for one in failures_of(ledger, project)]

    def verify(ledger: Ledger) -> Any:
        from reflector.cli.ledger import finding_fields
        from reflector.proof.verify import verify as ask

        return [*map(finding_fields, ask(ledger))]

    return {"stats": stats, "citations": citations, "failures": failures, "verify": verify}


def _document(found: Everywhere) -> dict[str, Any]:
    from reflector.proof.anchors import head_line

    return {
        "playbooks": [
            {
                "playbook": one.playbook,
                "ledger": one.place,
                "head": head_line(one.head.position, one.head.chain),
                "recorded_at": one.head.recorded_at,
                "moved_to": one.moved_to or None,
                "answer": one.value,
            }
            for one in found.answers
        ],
        "down": [{"ledger": where, "error": error} for where, error in found.down.items()],
    }


def _answered(found: Everywhere) -> list[Answer]:
    return [one for one in found.answers if one.value is not None]


def _show_ledgers(found: Everywhere) -> None:
    rows: _Rows = [
        (
            one.playbook,
            one.head.position,
            short_time(one.head.recorded_at),
            one.moved_to and f"moved to {one.moved_to}",
            one.place,
        )
        for one in found.answers
    ]
    columns = ("playbook", "events", "last", "state", "ledger")
    table(columns, rows, numbers=("events",), extra=("state", "last"), empty=_NONE)


def _show_stats(found: Everywhere) -> None:
    keys = ("events", "sessions", "windows", "answers", "tokens", "helpful", "harmful")
    answers = _answered(found)
    rows: _Rows = [
        (one.playbook, *(f"{one.value[key]:,}" for key in keys), percent(one.value["helpful_rate"])) for one in answers
    ]
    if len(rows) > 1:
        sums = {key: sum(one.value[key] for one in answers) for key in keys}
        decided = sums["helpful"] + sums["harmful"]
        rate = percent(sums["helpful"] / decided) if decided else ""
        rows.append(("all", *(f"{sums[key]:,}" for key in keys), rate))
    columns = ("playbook", *keys, "helpful %")
    table(columns, rows, numbers=columns[1:], extra=("windows", "answers", "helpful %"), empty=_NONE)


def _show_citations(found: Everywhere) -> None:
    keys = ("live", "told", "cited", "judged", "helpful", "harmful")
    rows: _Rows = [
        (one.playbook, bullet["name"], *("?" if bullet[key] is None else bullet[key] for key in keys))
        for one in _answered(found)
        for bullet in sorted(one.value, key=lambda bullet: -bullet["cited"])
    ]
    table(("playbook", "name", *keys), rows, numbers=keys, extra=("live",), empty=_NONE)


def _show_failures(found: Everywhere) -> None:
    rows: _Rows = [
        (
            one.playbook,
            short_id(failure["session_id"]),
            failure["state"],
            failure["attempts"],
            f"{failure['stage']}: {failure['message']}",
        )
        for one in _answered(found)
        for failure in one.value
    ]
    columns = ("playbook", "session", "state", "attempts", "why")
    table(columns, rows, numbers=("attempts",), extra=("attempts",), empty="No reflection failed.")


def _show_verify(found: Everywhere) -> None:
    from reflector.cli.ledger import finding_words
    from reflector.mistakes import Finding

    for one in _answered(found):
        for wrong in one.value:
            finding = Finding(wrong["code"], wrong["position"], wrong["message"], wrong["remedy"])
            click.echo(safe(f"{one.playbook}: {finding_words(finding)}"))
    verified = _answered(found)
    places = len({one.place for one in verified})
    note(f"{counted(len(verified), 'playbook')} in {counted(places, 'ledger')} verified.")


_NONE: Final = "No ledger has a playbook yet."
_SHOWN: Final[Mapping[str | None, Callable[[Any], None]]] = {
    None: _show_ledgers,
    "stats": _show_stats,
    "citations": _show_citations,
    "failures": _show_failures,
    "verify": _show_verify,
}


def move_playbook(place: Place, playbook: str, url: str, *, lost: bool, as_json: bool) -> None:
    """Move a playbook to the ledger at a URL, and name it in `ledgers.toml` where there is that file."""
    from reflector.directory import directory, directory_file, switch
    from reflector.exchange.relocation import relocate, reopen
    from reflector.ledger.url import url_of
    from reflector.proof.anchors import head_line

    to = url_of(url)
    with _source(place.project(), playbook, to.place, lost=lost) as source:
        if lost:
            reopen(source, actor="human")
        before = source.seal()
        with progress(source.head().position, "moving") as bar:
            end = relocate(source, url, actor="human", progress=bar.update)
    named = next((other for other in directory().values() if url_of(other).place == to.place), url)
    switched = switch(playbook, named)
    head = head_line(end.position, end.chain)
    if as_json:
        print_json({"playbook": playbook, "head": head, "ledger": to.place, "switched": switched})
        return
    click.echo(head)
    note(
        f"The playbook {playbook!r} is in {to.place}."
        if before is None
        else f"Completed: {playbook!r} is in {to.place}."
    )
    if switched:
        note(f"{directory_file()} names that ledger. Elsewhere, name it in the same file.")
    else:
        note("Name that ledger in ledgers.toml or with `ledger_url`; until then, commands are refused here.")


def _source(project: Project, playbook: str, to: str, *, lost: bool) -> Ledger:
    """Return the ledger from which a playbook moves: the one that has it, or that was sealed for this very move, or for
    one to a ledger that is lost."""
    from difflib import get_close_matches

    from reflector.directory import directory_file, ledger_of
    from reflector.ledger.errors import LedgerMoved, LedgerUnavailable
    from reflector.ledger.store import Ledger, playbooks_in
    from reflector.ledger.url import sqlite_url
    from reflector.playbook.names import is_name
    from reflector.project import followed

    url = ledger_of(playbook)
    if project.config.playbook == playbook and project.has_ledger():
        url = project.config.ledger_url or sqlite_url(project.ledger_file)
    names = playbooks_in(url) if url else []
    if playbook not in names and is_name(playbook):
        raise click.UsageError(
            f"{playbook} is the name of a bullet, and --to moves a whole playbook; for this one, write "
            f"{project.config.playbook!r} in its place. To move the bullet, write a section instead of --to"
        )
    if not url:
        raise click.UsageError(
            f"the ledger of the playbook {playbook!r} is unknown; name it in {directory_file()}, or move the playbook "
            f"of this project, {project.config.playbook!r}"
        )
    if playbook not in names:
        near = get_close_matches(playbook, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"there is no playbook {playbook!r} in its ledger{hint}")
    try:
        ledger = followed(Ledger.open(url, playbook), until="" if lost else to)
    except (LedgerMoved, LedgerUnavailable):
        if lost:
            return Ledger.open(url, playbook)
        raise
    if lost:
        where = ledger.engine.url.place
        ledger.close()
        raise click.UsageError(f"the playbook {playbook!r} is in {where}, which answers; move it without --lost")
    return ledger
