"""Commands that take something back or pin it: retract, redact, assert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.arguments import BULLET, SESSION
from reflector.cli.lessons import changed_lessons, print_changed
from reflector.cli.output import counted, fields, note, print_json, safe, short_id, table

if TYPE_CHECKING:
    from pathlib import Path

    from reflector.curation.erasure import Erasure
    from reflector.events.event import Event

#: Events and files that still hold an erased text are named up to so many.
_NAMED = 12


@click.command()
@click.argument("what", type=SESSION, metavar="SESSION|REFLECTION|EVENT")
@click.option("--why", required=True, help="The reason; the ledger keeps it.")
@click.option("--undo", "undone", is_flag=True, help="Put back what was retracted.")
@click.pass_obj
def retract(place: Place, what: str, why: str, undone: bool) -> None:
    """Take evidence out of the count, or put it back.

    Name a session (all its windows), a reflection, a tag or an earlier retraction: an id, its beginning, or a position
    from `reflector log`. Nothing is subtracted or erased: the counters drop because fewer tags count. Retracting a
    retraction undoes it.
    """
    from reflector.audit.targets import target_named
    from reflector.curation.counts import moved
    from reflector.curation.counts import retract as take_out
    from reflector.curation.counts import undo as put_back

    with place.pipeline() as pipeline:
        target = target_named(pipeline.ledger, what)
        before, head = pipeline.ledger.rows(), pipeline.ledger.head().position
        appended = (put_back if undone else take_out)(pipeline.ledger, target.events, why)
        changed = moved(before, pipeline.ledger.rows())
        lessons = changed_lessons(pipeline.ledger, head, appended[-1].position) if appended else []
        pipeline.write()
    positions = ", ".join(str(one.position) for one in appended)
    some = f"{len(appended)} windows" if target.kind == "session" and len(appended) > 1 else f"{target.kind}"
    click.echo(f"{some} {short_id(target.id)}: recorded at {positions}")
    rows = [
        (old.name, f"{old.helpful}/{old.harmful}", f"{new.helpful}/{new.harmful}", new.text) for old, new in changed
    ]
    none = "No counter moved: nothing of it had counted, or it is out for another reason as well."
    if rows or not lessons:
        table(("name", "before", "after", "text"), rows, numbers=("before", "after"), empty=none)
    print_changed(lessons)


@click.command()
@click.argument("what", metavar="[REFLECTION|EVENT]", required=False)
@click.option("--where", "text", metavar="TEXT", help="Erase this text wherever it is; the places are shown first.")
@click.option("--why", help="The reason. The ledger keeps it: do not repeat the secret.")
@click.option(
    "--bullet", "bullets", multiple=True, metavar="NAME", help="Of an import, erase only this bullet; repeatable."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="With --where: print JSON; erase only with --yes.")
@click.pass_obj
def redact(
    place: Place,
    what: str | None,
    text: str | None,
    why: str | None,
    bullets: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Erase prose for ever; the counts stay.

    Name an event: an id, its beginning, or a position from `reflector log`; a reflection means its analysis. With
    --where, erases everything that holds a text, to the letter: events, copies of imported playbooks and queued hook
    deliveries; sessions that wait there are still recorded. The chain still verifies. Later exports and backups do not
    hold the text; earlier ones do.
    """
    if (what is None) == (text is None) or (text is not None and bullets) or (as_json and text is None):
        raise click.UsageError("name an event, or a text with --where; --bullet is for an event, --json for --where")
    if text is not None:
        _redact_where(place, text, why, yes=yes, as_json=as_json)
    elif what is not None:
        _redact_one(place, what, _reason(why), bullets, yes=yes)


def _reason(why: str | None) -> str:
    if why is None:
        raise click.UsageError("give a reason with --why, without the text to erase: the reason stays in the ledger")
    return why


def _redact_one(place: Place, what: str, why: str, bullets: tuple[str, ...], *, yes: bool) -> None:
    from reflector.audit.targets import target_named
    from reflector.curation.erasure import copies, echoes, erase, forget, planned

    with place.pipeline() as pipeline:
        ledger = pipeline.ledger
        target = target_named(ledger, what)
        if target.kind == "session":
            raise click.UsageError(f"session {target.id} has many events; name one of `reflector log --session {what}`")
        event = target.events[0]
        erasure = planned(event, bullets)
        if erasure.texts and not yes:
            _ask(erasure, f"from the {event.type} at position {event.position}")
        (appended,) = erase(ledger, erasure, why)
        pipeline.write()
        removed = forget(copies(pipeline.project.state_dir / "kept", erasure))
        left = copies(pipeline.project.root / ".claude", erasure)
        others = echoes(ledger, erasure)
    if not appended.added:
        click.echo(f"position {event.position} was redacted at {appended.position}; its file was swept again")
        return
    click.echo(f"position {event.position} redacted at {appended.position}")
    _print_leftovers(removed, left, others)


def _redact_where(place: Place, text: str, why: str | None, *, yes: bool, as_json: bool) -> None:
    from reflector.curation.erasure import copies, erase, forget, holding
    from reflector.sessions.spool import drop_words

    with place.pipeline() as pipeline:
        erasure = holding(pipeline.ledger, text)
        folder, state = pipeline.project.root / ".claude", pipeline.project.state_dir
        files = copies(folder, erasure)
        ours = [path for path in files if path.is_relative_to(state / "kept") or path.is_relative_to(state / "spool")]
        waiting = [path for path in ours if path.is_relative_to(state / "spool")]
        gone: list[Path] = []
        nothing = not (erasure.events or files or erasure.stays)
        if not as_json:
            _print_matches(erasure, files, ours)
        if nothing or (as_json and not yes):
            done = []
        else:
            reason = _reason(why)
            if not yes:
                _ask(erasure, "wherever it is said")
            done = [one for one in erase(pipeline.ledger, erasure, reason) if one.added]
            pipeline.write()
            for path in waiting:
                drop_words(path)
            gone = forget(path for path in copies(folder, erasure) if path in ours)
            files = copies(folder, erasure)
    if as_json:
        print_json(_found(erasure, files, ours, [one.position for one in done]))
    elif done or ours:
        kept = sum(path not in gone for path in waiting)
        without = f", {counted(kept, 'waiting session')} kept without the text" if kept else ""
        click.echo(f"{counted(len(done), 'event')} redacted, {counted(len(gone), 'file')} removed{without}")
        _print_leftovers([], files, [])


def _print_matches(erasure: Erasure, files: list[Path], ours: list[Path]) -> None:
    if not (erasure.events or files or erasure.stays):
        note("Nothing holds this text.")
        return
    rows = [
        (str(event.position), event.type, " ".join(text.split())[:200])
        for event, texts in erasure.events
        for text in texts
    ]
    rows += [("", "a copy of ours", str(path)) for path in ours]
    rows += [("", "a file, not the ledger's", str(path)) for path in files if path not in ours]
    rows += [(str(event.position), event.type, "outside of its prose, which stays") for event in erasure.stays]
    table(("position", "what", "text"), rows, numbers=("position",))


def _found(erasure: Erasure, files: list[Path], ours: list[Path], redacted_at: list[int]) -> dict[str, object]:
    return {
        "events": [
            {**fields(event, "position event_id type"), "texts": list(texts)} for event, texts in erasure.events
        ],
        "stays": [event.position for event in erasure.stays],
        "copies": [str(path) for path in ours],
        "files": [str(path) for path in files if path not in ours],
        "redacted_at": redacted_at,
    }


def _ask(erasure: Erasure, where: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise click.UsageError("erased text cannot be restored, and there is no terminal to confirm it: add --yes")
    if erasure.wanted is None:
        for text in erasure.texts[:_NAMED]:
            note(f"  {' '.join(text.split())[:200]}")
    shown = len(erasure.texts) if erasure.wanted is not None else _NAMED
    more = f" and {len(erasure.texts) - shown} more" if len(erasure.texts) > shown else ""
    if not click.confirm(f"Erase this{more} {where} for ever?", err=True):
        raise click.exceptions.Exit(1)


def _print_leftovers(removed: list[Path], left: list[Path], others: list[Event]) -> None:
    for path in removed:
        note(f"removed too: {path}")
    for path in left[:_NAMED]:
        note(f"the text is still in {path}")
    if len(left) > _NAMED:
        note(f"and in {len(left) - _NAMED} more files")
    for event in others[:_NAMED]:
        note(
            safe(
                f"position {event.position} ({event.type}) still says the same or belongs to it; "
                f"see `reflector log`, then `reflector redact {event.position} --why …`"
            )
        )
    if len(others) > _NAMED:
        more = len(others) - _NAMED
        note(f"and {more} more; `reflector redact --where TEXT` lists all events that hold a text, and erases it")


@click.command("assert")
@click.argument("name", type=BULLET)
@click.argument("counters", metavar="HELPFUL/HARMFUL")
@click.pass_obj
def assert_(place: Place, name: str, counters: str) -> None:
    """Pin a bullet's current counters, for `verify` to prove.

    HELPFUL/HARMFUL is the present pair, such as 7/2. If the counters differ, the command fails and records nothing.
    """
    from reflector.cli.playbook import find_bullet

    helpful, slash, harmful = counters.partition("/")
    if not slash or not all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (helpful, harmful)):
        raise click.UsageError(f"{safe(counters)!r} is not HELPFUL/HARMFUL, such as 7/2")
    with place.pipeline() as pipeline:
        find_bullet(pipeline.ledger, name, live=True)
        appended = pipeline.ledger.assert_counters(name, int(helpful), int(harmful), actor="human")
        pipeline.write()
    click.echo(f"{name} at {int(helpful)}/{int(harmful)}, pinned at position {appended.position}")
