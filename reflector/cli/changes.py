"""Changes of the playbook: add, revise, remove, merge, edit, and undo of what happened to it.

Invariant: what a person wrote in an editor stays in playbook.json until it is recorded; what cannot
be read is named.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.changes.acts import NotByItself, newest
from reflector.changes.apply import Step, apply_changes, plan_changes
from reflector.changes.retractions import moved_counters, take_back, taken_out
from reflector.changes.undo import (
    CHANGING,
    Import,
    NothingToUndo,
    Undoing,
    approved,
    imported,
    last_change,
    undoing,
)
from reflector.cli.app import Place
from reflector.cli.options import (
    NAME,
    SECTION,
    agreed,
    dry_run_option,
    find_bullet,
    json_option,
    why_option,
    yes_option,
)
from reflector.cli.output import note, print_json, safe, shaped, span
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent
from reflector.events.registry import EVENT_TYPES
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import near
from reflector.playbook.names import is_name
from reflector.playbook_files.kept_copies import content_digest
from reflector.playbook_files.playbook_json import checkpoint_of, examine_playbook, untaken
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.audit.moments import Target


@dataclass(frozen=True, slots=True)
class ChangeJson:
    """What a change did, or would do: the bullets before and after, and its event; null where it
    was not made.

    change  as a proposal has it; null where only counters moved
    """

    change: Change | None
    before: Sequence[Bullet]
    after: Sequence[Bullet]
    position: int | None
    event_id: str | None


@dataclass(frozen=True, slots=True)
class ChangesJson:
    """Changes of bullets; `applied` is false for a dry run, and `undo` is the command that
    undoes them.
    """

    applied: bool
    changes: list[ChangeJson]
    undo: str | None


def _made(
    place: Place,
    ledger: Ledger,
    changes: Sequence[Change],
    *,
    dry_run: bool,
    again: bool = False,
    **more: Any,
) -> Sequence[Step]:
    """Make changes, or only plan them for a dry run; `more` is what `apply` takes."""
    first = place.project().first_number
    if dry_run:
        return plan_changes(ledger, changes, first=first, again=again)
    return apply_changes(ledger, changes, actor="human", first=first, again=again, **more)


def _print(place: Place, steps: Sequence[Step], *, as_json: bool) -> None:
    """Print what changes did, and the command that undoes them."""
    changes = [shaped(ChangeJson, step) for step in steps]
    positions = [step.position for step in steps if step.position is not None]
    lines = [line for step in steps for line in step.lines]
    _tell(
        place,
        changes,
        positions,
        lines,
        "Nothing was changed yet; leave --dry-run out to do it.",
        as_json=as_json,
    )


def _tell(
    place: Place,
    changes: list[ChangeJson],
    positions: Sequence[int],
    lines: Iterable[str],
    otherwise: str,
    *,
    as_json: bool,
) -> None:
    undo = place.command("undo", span(min(positions), max(positions))) if positions else None
    if as_json:
        print_json(ChangesJson(bool(positions), changes, undo))
        return
    for line in lines:
        click.echo(safe(line))
    note(f"Undo: {undo}" if undo else otherwise)


def _command(
    function: Callable[..., Sequence[Change]], *, begins: bool = False
) -> Callable[..., None]:
    """Make a function from a ledger to changes of its live bullets a command's, with `--dry-run`
    and `--json`; one that `begins` a playbook makes the ledger.
    """

    @wraps(function)
    @dry_run_option
    @json_option
    @click.pass_obj
    def asked(
        place: Place, /, dry_run: bool, as_json: bool, why: str | None = None, **own: Any
    ) -> None:
        reason = quote(why, 200) if why is not None else None
        with place.changing(dry_run=dry_run, begins=begins) as ledger:
            before, changes = ledger.bullets(), function(ledger, **own)
            for name in (name for change in changes for name in change.about):
                find_bullet(ledger, name)
            steps = _made(place, ledger, changes, reason=reason, dry_run=dry_run)
        _print(place, steps, as_json=as_json)
        for line in (line for change in changes for line in alike_to(change, before)):
            note(line)

    return asked


def alike_to(change: Change, bullets: Sequence[Bullet]) -> list[str]:
    """Return a line for each other bullet that the text of a new or revised one repeats or
    contradicts.
    """
    section = change.section or next(
        (one.section for one in bullets if one.name == change.name), None
    )
    if change.kind not in ("add", "revise") or section is None:
        return []
    lines = []
    for pair in near(
        change.text or "", section, [one for one in bullets if one.name not in change.about]
    ):
        other = next(one for one in pair.bullets if one.name)
        says = "says the opposite" if pair.kind == "contradiction" else "may say the same"
        lines.append(f"{other.name} {says} ({pair.why}): {other.text}")
    return lines


@click.command()
@click.argument("section", type=SECTION)
@click.argument("text")
@partial(_command, begins=True)
def add(_: Ledger, section: str, text: str) -> Sequence[Change]:
    """Add a bullet under the next free name.

    SECTION is pat (patterns), mis (mistakes to avoid), pref (user preferences), ctx (project
    context) or oth.
    """
    return [Change("add", section=section, text=text)]


@click.command()
@click.argument("name", type=NAME)
@click.argument("text", required=False)
@click.option("--section", type=SECTION, help="Move it to this section.")
@_command
def revise(_: Ledger, name: str, text: str | None, section: str | None) -> Sequence[Change]:
    """Give a bullet another text or section; its name and its counts stay."""
    changes = [Change("revise", name, text=text)] if text is not None else []
    changes += [Change("move", name, section=section)] if section is not None else []
    if not changes:
        raise click.UsageError("say what becomes of the bullet: TEXT or --section SECTION")
    return changes


@click.command()
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
@why_option
@_command
def remove(_: Ledger, names: tuple[str, ...]) -> Sequence[Change]:
    """Remove bullets; their history stays, and `undo NAME` brings one back."""
    return [Change("remove", name) for name in dict.fromkeys(names)]


@click.command()
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME NAME...")
@click.option("--text", help="What the merged bullet says. Default: what the first one says.")
@click.option("--section", type=SECTION, help="Its section. Default: that of the first one.")
@_command
def merge(
    ledger: Ledger, names: tuple[str, ...], text: str | None, section: str | None
) -> Sequence[Change]:
    """Merge bullets that say the same into a new one.

    A tag that counted for several of them counts once. The old names still work in citations: what
    is cited under one counts for the new bullet too.
    """
    if len(names) < 2:
        raise click.UsageError(
            f"a merge is of two or more bullets; `reflector revise {names[0]} TEXT` changes one"
        )
    first = find_bullet(ledger, names[0])
    return [
        Change("merge", None, names, section or first.section, first.text if text is None else text)
    ]


@click.command()
@click.argument("what", required=False, metavar="[NAME|POSITION|A..B|SESSION|REFLECTION]")
@why_option
@yes_option
@dry_run_option
@json_option
@click.pass_obj
def undo(
    place: Place, what: str | None, why: str | None, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Undo your newest act, or the one you name.

    Your newest act is what your last command changed: bullets, a verdict, the count of a session,
    the counting policy. An import is only undone if you name it; so is what an agent or another
    machine did. The next `undo` goes further back, and `undo` of what an undo appended brings it
    again.

    Name a bullet, for its last change (of a removed one: the removal), a position of `reflector
    log` or several as 41..43, or an event's id. Name a session, a reflection or a tag to take its
    evidence out of the count: nothing is subtracted or erased, fewer tags count. Counts that came
    since stay. If a later change is in the way, it is named and nothing is undone. Removing more
    than one bullet needs your confirmation. --dry-run shows changes of bullets, not of evidence.
    """
    with place.reading() as ledger:
        named = _newest(ledger) if what is None else _named(ledger, what)
        removed = _removed_by(ledger, named) if not (yes or dry_run) else []
    if len(removed) > 1:
        names = ", ".join(removed[:5]) + (", …" if len(removed) > 5 else "")
        question = f"This removes {len(removed)} bullets ({names}). Remove them?"
        agreed(
            question,
            f"it removes {len(removed)} bullets ({names}); to undo without a question",
            yes=yes,
        )
    if isinstance(named, list | Import):
        steps = _undo_changes(place, named, why, dry_run=dry_run)
        _print(place, steps, as_json=as_json)
        return
    if dry_run:
        raise click.UsageError(
            "--dry-run shows changes of bullets, and this is evidence; `reflector blame` lists it"
        )
    _undo_counts(place, named, why, as_json=as_json)


def _newest(ledger: Ledger) -> list[Event] | Import | Target:
    """Return your newest act. Raises UsageError for one that has to be named, NothingToUndo for
    none.
    """
    from reflector.audit.moments import Target

    try:
        act = newest(ledger)
    except NotByItself as refusal:
        raise click.UsageError(str(refusal)) from refusal
    if act.changes and act.evidence:  # what took an import back
        return Import(act.changes, act.evidence)
    if act.changes:
        return list(act.changes)
    return Target("event", act.evidence[-1].event_id, list(act.evidence))


def _removed_by(ledger: Ledger, named: list[Event] | Import | Target) -> list[str]:
    """Return the bullets that an undo removes."""
    events = list(named.changes) if isinstance(named, Import) else named
    if not isinstance(events, list) or not events:
        return []
    try:
        changes = undoing(ledger, events).changes
    except NothingToUndo:
        return []
    return [change.name or "" for change in changes if change.kind == "remove"]


def _undo_changes(
    place: Place, named: list[Event] | Import, why: str | None, *, dry_run: bool
) -> Sequence[Step]:
    """Take back changes of bullets, with the evidence that came with them."""
    reason = why or "undo"
    with place.changing(dry_run=dry_run) as ledger:
        tx = ledger.draw()
        evidence: list[NewEvent] = []
        if isinstance(named, Import):
            evidence = taken_out(ledger, named.evidence, reason, tx)
            taken_back = _import_undone(ledger, named, evidence)
        else:
            taken_back = undoing(ledger, named)
        if dry_run:
            return _made(place, ledger, taken_back.changes, dry_run=True, again=True)
        return _made(
            place,
            ledger,
            taken_back.changes,
            dry_run=False,
            again=True,
            reason=reason,
            target=taken_back.targets,
            baselines=taken_back.baselines,
            lead=lambda _: evidence,
            tx=tx,
        )


def _import_undone(ledger: Ledger, named: Import, evidence: Sequence[NewEvent]) -> Undoing:
    """Return what undoes the changes of an import; none if evidence is all that is left of it."""
    nothing = Undoing([], {}, {})
    if not named.changes:
        return nothing
    try:
        return undoing(ledger, named.changes)
    except NothingToUndo:
        if not evidence:
            raise
        return nothing


def _named(ledger: Ledger, what: str) -> list[Event] | Import | Target:
    """Return the changes of bullets that a person named, or the target that is something else."""
    from reflector.audit.moments import Target, target_named

    what = what.strip().strip("[]")
    if is_name(what) and ledger.row(what) is not None:
        return last_change(ledger, what)
    first, dots, last = what.partition("..")
    if dots:
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise click.UsageError(f"{what!r} is not a row of positions, such as 41..43")
        after, upto = int(first) - 1, int(last)
        if retractions := list(
            ledger.events(after=after, upto=upto, types=[ev.EVIDENCE_RETRACTED])
        ):
            return Target("event", retractions[0].event_id, retractions)
        events = list(ledger.events(after=after, upto=upto, types=CHANGING))
        if not events:
            raise NothingToUndo(f"no position of {what} changed a bullet; see `reflector log`")
        return events
    if is_name(what):
        find_bullet(ledger, what)
    target = target_named(ledger, what)
    event = target.events[0]
    if event.type == ev.CHANGE_APPROVED:
        return approved(ledger, event)
    if event.type == ev.LEDGER_MERGED:
        return imported(ledger, event)
    if target.kind == "event" and event.type in CHANGING:
        return [event]
    if (
        target.kind == "event"
        and event.type != ev.POLICY_ADOPTED
        and (way := EVENT_TYPES[event.type].no_retraction)
    ):
        raise NothingToUndo(
            f"the {event.type} at position {event.position} changed no bullet and no count; {way}"
        )
    return target


def _undo_counts(place: Place, target: Target, why: str | None, *, as_json: bool) -> None:
    """Take evidence out of the count, put it back, or put the policy in force that was before."""
    from reflector.cli.lessons import print_changed
    from reflector.embed.lessons.history import changed_lessons

    event = target.events[0]
    reason = why or (
        f"undid session {target.id}"
        if target.kind == "session"
        else f"undid position {event.position}"
    )
    with place.changing() as ledger:
        before, head = ledger.rows(), ledger.head().position
        positions = [one.position for one in take_back(ledger, target.events, reason)]
        changed = moved_counters(before, ledger.rows())
        lessons = changed_lessons(ledger, head, positions[-1]) if positions else []
    at = positions[0] if positions else None
    shown = [ChangeJson(None, [old.bullet], [new.bullet], at, None) for old, new in changed]
    if not as_json:
        print_changed(lessons)
        if not changed and not lessons:
            note(
                "No counter moved: nothing of it had counted, or it is out for another reason as "
                "well."
            )
    lines = [f"- {old.bullet.line}\n+ {new.bullet.line}" for old, new in changed]
    _tell(place, shown, positions, lines, "It was so already.", as_json=as_json)


@click.command()
@click.pass_obj
def edit(place: Place) -> None:
    """Edit playbook.json in your editor.

    Reword an entry, move it to another section, delete it, or add {"text": "..."} without a name.
    What you changed is recorded when you close the file, and what was counted meanwhile stays. The
    editor is $VISUAL or $EDITOR.
    """
    project = place.project()
    file = project.playbook_json
    nothing = click.ClickException(
        f"there is no bullet to edit; add the first with `{place.command('add')}`"
    )
    if place.is_untouched:
        raise nothing
    with place.pipeline() as pipeline:
        opened = pipeline.ledger.head().position
        kind = examine_playbook(pipeline.ledger, project).kind
    if kind == "foreign":
        raise click.ClickException(
            f"{file} is another tool's; change bullets with `{place.command('revise')}`"
        )
    if kind == "missing":
        raise nothing
    given = file.read_bytes()
    while True:
        edited(f"edit {file}", file=file)
        with project.open_ledger() as ledger:
            before = ledger.head().position
            # Others may have written the file since the editor began, and a shared one does not say
            # its time.
            ledger.set_checkpoint(checkpoint_of(project), opened, content_digest(given))
        with place.pipeline() as pipeline:
            problems = untaken(pipeline.ledger, project)
            events = list(pipeline.ledger.events(after=before, types=CHANGING))
        if not problems:
            break
        if not (
            sys.stdin.isatty()
            and sys.stderr.isatty()
            and click.confirm("Edit it again?", True, err=True)
        ):
            raise click.ClickException(f"nothing was recorded; correct {file}")
    for event in events:
        click.echo(safe(f"{event.type}  {EVENT_TYPES[event.type].summary(event.data or {})}"))
    if not events:
        note("Nothing was changed.")
        return
    note(f"Undo: {place.command('undo', span(events[0].position, events[-1].position))}")


def edited(otherwise: str, text: str | None = None, *, file: Path | None = None) -> str | None:
    """Return a text as a person left it in their editor, None if it was not saved; a file is edited
    where it is. Raises ClickException; `otherwise` is what a person without an editor can do.
    """
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        # One that needs a terminal would wait for it for ever.
        raise click.UsageError(
            f"no terminal to open an editor in; set $EDITOR to one that needs none, or {otherwise}"
        )
    try:
        if file is None:
            return click.edit(text)
        click.edit(filename=str(file))
        return None
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.format_message()}; set EDITOR or VISUAL, such as EDITOR=nano"
        ) from error


def asked(menu: str) -> str:
    """Return the word of a menu, such as `[a]pprove  [q]uit`, that a person chose with one key; the
                                                      end of the input
    quits.
    """
    words = {word[word.index("[") + 1]: re.sub("[][]", "", word) for word in menu.split("  ")}
    while True:
        click.echo(menu)
        try:
            key = click.getchar() if sys.stdin.isatty() else sys.stdin.readline()[:1] or "q"
        except (EOFError, KeyboardInterrupt):
            key = "q"
        if key.lower() in words:
            return words[key.lower()]
