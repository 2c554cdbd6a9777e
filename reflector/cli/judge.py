"""`reflector judge`: a person decides the citations that nothing decided, with the evidence on the screen."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, SESSION
from reflector.cli.output import counted, json_option, note, print_json, safe, short_id, short_time

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow, Ledger
    from reflector.playbook.counting import Verdict
    from reflector.reflection.people import OpenCitation
    from reflector.transcripts.message import Message

_KEYS = {"h": "helpful", "m": "harmful", "n": "neutral", "s": "skip", "f": "more", "q": "quit"}
_MENU = "[h]elpful  har[m]ful  [n]eutral  [s]kip  [f]ull evidence  [q]uit"
#: Messages behind the citation, and the characters of each, that a screen has room for.
_MESSAGES, _CHARACTERS = 12, 240


@click.command()
@click.argument("session", required=False, type=SESSION)
@click.argument("name", required=False, type=BULLET)
@click.argument("verdict", required=False, type=click.Choice(["helpful", "harmful", "neutral"]))
@click.option("--why", default="", help="The reason, kept with the verdict.")
@click.option("--since", metavar="MOMENT", help="Only sessions recorded after a position, a time or a session.")
@click.option("--all", "decided", is_flag=True, help="Include citations that have a verdict.")
@json_option
@click.pass_obj
def judge(
    place: Place,
    session: str | None,
    name: str | None,
    verdict: Verdict | None,
    why: str,
    since: str | None,
    decided: bool,
    as_json: bool,
) -> None:
    """Judge the citations that nothing decided, with the evidence on the screen.

    One key gives each verdict. Your verdict counts instead of those that others gave the bullet in that session;
    `blame` shows both, and `reflector retract` takes yours back. SESSION NAME VERDICT records one without asking.
    """
    from reflector.audit.moments import position_of
    from reflector.reflection.people import citations

    if (name is None) != (verdict is None):
        raise click.UsageError("a verdict needs all three: SESSION NAME VERDICT, such as 5f2a91c0 pat-001 helpful")
    with place.reading() as ledger:
        after = position_of(ledger, since) if since is not None else 0
        chosen = _session(ledger, session)
        found = citations(ledger, after=after, session_id=chosen, decided=decided or verdict is not None)
        rows = {row.name: row for row in ledger.rows()}
    if verdict is not None:
        one = next((one for one in found if one.name == name), None)
        if one is None:
            raise click.ClickException(f"session {session} has no citation of {name} that waits for a person's verdict")
        _record(place, one, verdict, why)
    elif as_json:
        print_json([_document(one) for one in found])
    elif not found:
        note("No citation waits for a verdict.")
    else:
        _walk(place, found, rows, why)


def _session(ledger: Ledger, session: str | None) -> str | None:
    """Return the id of the one session that begins so."""
    if session is None:
        return None
    ids = {row.session_id for row in ledger.windows() if row.session_id and row.session_id.startswith(session)}
    if len(ids) != 1:
        raise click.ClickException(
            f"{len(ids) or 'no'} sessions begin with {session!r}; `reflector log --type session.recorded` lists them"
        )
    return ids.pop()


def _document(one: OpenCitation) -> dict[str, Any]:
    return {
        "session_id": one.window.session_id,
        "position": one.window.position,
        "recorded_at": one.window.recorded_at,
        "name": one.name,
        "verdict": one.given.verdict if one.given else None,
        "by": one.given.tag.actor if one.given else None,
        "reason": one.given.reason if one.given else "",
    }


def _walk(place: Place, found: list[OpenCitation], rows: dict[str, BulletRow], why: str) -> None:
    judged = 0
    for number, one in enumerate(found, 1):
        click.secho(f"\n{number} of {len(found)}  {safe(rows[one.name].bullet.line)}", bold=True)
        said = f"{one.given.tag.actor}: {one.given.verdict}, {one.given.reason}" if one.given else "not judged"
        click.echo(f"session {short_id(one.window.session_id)}  {short_time(one.window.recorded_at)}  {safe(said)}")
        _show(one, _MESSAGES)
        while (chosen := _asked()) == "more":
            _show(one, None)
        if chosen == "quit":
            break
        if chosen != "skip":
            _record(place, one, chosen, why)  # type: ignore[arg-type]
            judged += 1
    note(f"{counted(judged, 'verdict')} recorded; {len(found) - judged} left.")


def _asked() -> str:
    """Return what a person chose with one key; the end of the input quits."""
    while True:
        click.echo(_MENU)
        try:
            key = click.getchar() if sys.stdin.isatty() else sys.stdin.readline()[:1] or "q"
        except (EOFError, KeyboardInterrupt):
            key = "q"
        if key.lower() in _KEYS:
            return _KEYS[key.lower()]


def _show(one: OpenCitation, most: int | None) -> None:
    from reflector.reflection.people import evidence
    from reflector.transcripts.reading import UnknownTranscript

    try:
        for cites, message in islice(evidence(one), most):
            for line in _lines(message, None if most is None else _CHARACTERS):
                click.secho(line, bold=cites or message.origin == "human")
    except (OSError, UnknownTranscript) as error:
        click.echo(f"  the evidence cannot be shown: {safe(str(error))}")


def _lines(message: Message, most: int | None) -> Iterable[str]:
    """Yield a message's words, calls and results, a line each on a screen, whole where `most` is None."""
    if message.text.strip():
        yield _line("you" if message.origin == "human" else message.origin, message.text, most)
    for call in message.calls:
        yield _line("call", f"{call.name} {next(iter(call.input.values()), '')}", most)
    for result in message.results:
        yield _line("error" if result.is_error else "result", result.text, most)


def _line(who: str, text: str, most: int | None) -> str:
    from reflector.text.secrets import quote

    if most is None:
        return f"{who:>9}  " + safe(text).replace("\n", "\n" + " " * 11)
    return f"{who:>9}  {quote(text, most)}"


def _record(place: Place, one: OpenCitation, verdict: Verdict, why: str) -> None:
    from reflector.reflection import people

    with place.pipeline() as pipeline:
        people.judge(pipeline.ledger, one, verdict, why)
        pipeline.write()
