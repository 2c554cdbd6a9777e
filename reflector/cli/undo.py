"""The command `undo`: take back a change to rules, verdicts or memory files."""

from __future__ import annotations

import re

import click

from reflector.changes.acts import newest
from reflector.changes.apply import plan_changes
from reflector.changes.takeback import act_named, act_of, removed_by
from reflector.changes.undo import Act, undoing
from reflector.cli.app import Place
from reflector.cli.changes import ChangeJson, print_changes, print_steps
from reflector.cli.options import (
    agreed,
    dry_run_option,
    find_bullet,
    flag,
    json_option,
    why_option,
    yes_option,
)
from reflector.cli.output import hide_breaks, note, safe, shaped
from reflector.events.event import POLICY_ADOPTED
from reflector.ledger.store import Ledger
from reflector.playbook.names import is_name
from reflector.playbook_files.moving import take_back

#: The most names of rules in a question about their removal.
_MOST_NAMES = 5


@click.command()
@click.argument("what", required=False, metavar="[NAME|POSITION|A..B|SESSION|REFLECTION|FILE]")
@flag("--memory", help="Undo a session's changes to memory files.")
@why_option
@yes_option
@dry_run_option
@json_option
@click.pass_obj
def undo(
    place: Place,
    what: str | None,
    memory: bool,
    why: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Undo your last change, or any change you name.

    Without a name, `undo` reverses the last change that you made to rules, a verdict, the counting
    policy or the sessions that count. If you run `undo` twice, the second `undo` reverses the
    change before your last change. To undo an import, an agent's change, an earlier undo, or
    a change that was made on another machine, give its position in `reflector log`.

    To undo the last change of a rule, or its removal, give the rule's name. You can also give a
    position from `reflector log`, several positions such as 41..43, or an event's id. To exclude
    verdicts from the counts, give the id of a verdict, a reflection or a session. An undo keeps
    counts that sessions added after the undone change. If a later change prevents the undo, `undo`
    names the later change and undoes nothing. If an undo removes several rules, `undo` waits for
    your confirmation. With --dry-run, `undo` shows changes to rules, but not changes to verdicts.

    A memory file is a file that agents load, such as CLAUDE.md. If you give the file's path, `undo`
    reverses the newest change that is not a commit, even if you committed the change later. If all
    changes are commits, `undo` reverses the newest commit of the file. To undo an older change to a
    memory file, give the number of the change in `reflector log --memory`. If the memory file has
    changed again since the change to undo, `undo` writes nothing. With --yes, `undo` restores the
    lines that the older change touched, and keeps later changes to other lines. --memory SESSION
    undoes all changes that a session made to memory files.
    """
    if memory and what is None:
        raise click.UsageError(
            "--memory needs the id of a session, such as `reflector undo --memory 5f2a91c0`"
        )
    if what is not None and re.fullmatch(r".+\.\w+:\d+", what):
        raise click.UsageError(
            f"{safe(what)} is a line of a file, but `undo` needs a change. To find the change of "
            f"this line: {place.command('blame', what)}"
        )
    if what is not None:
        from reflector.cli.memory import is_watched, undo_memory

        if memory or is_watched(place, what):
            undo_memory(place, what, session=memory, yes=yes, dry_run=dry_run)
            return
    with place.reading() as ledger:
        act = newest(ledger) if what is None else _named(ledger, what.strip().strip("[]"))
        if dry_run:
            _print_planned(place, ledger, act)
            return
        removed = removed_by(ledger, act) if not yes else []
    if len(removed) > 1:
        names = ", ".join(removed[:_MOST_NAMES]) + (", …" if len(removed) > _MOST_NAMES else "")
        removal = f"removes {len(removed)} rules ({names})"
        refusal = f"this undo {removal}; to undo without confirmation"
        agreed(f"This undo {removal}. Remove these rules?", refusal, yes=yes)
    _take_back(place, act, why)


def _named(ledger: Ledger, text: str) -> Act:
    """Return the act that you named."""
    act = act_named(ledger, text)
    if act is not None:
        return act
    if is_name(text):
        find_bullet(ledger, text)
    from reflector.audit.moments import target_named

    target = target_named(ledger, text)
    return act_of(ledger, target.events, target.id if target.kind == "session" else None)


def _print_planned(place: Place, ledger: Ledger, act: Act) -> None:
    """Print the changes to rules that the undo of an act would make."""
    if act.evidence and not act.changes:
        raise click.UsageError(
            "--dry-run shows changes to rules, not to verdicts. To list the verdicts of a rule: "
            "`reflector blame NAME`"
        )
    changes = undoing(ledger, act.changes).changes
    first = place.project().first_number
    print_steps(place, plan_changes(ledger, changes, first=first, again=True))


def _take_back(place: Place, act: Act, why: str | None) -> None:
    """Undo an act, and print the rules and the counters that it changed."""
    from reflector.cli.lessons import print_changed
    from reflector.embed.lessons.history import changed_lessons

    with place.changing() as ledger:
        head = ledger.head().position
        taken = take_back(ledger, place.project(), act, why=why)
        is_evidence = not taken.steps and bool(taken.positions)
        lessons = changed_lessons(ledger, head, taken.positions[-1]) if is_evidence else []
    hide_breaks(taken.files)
    for file in taken.files:
        note(f"{file} contains the former text again.")
    position = taken.positions[0] if taken.positions else None
    shown = [shaped(ChangeJson, step) for step in taken.steps]
    shown += [
        ChangeJson(None, [old.bullet], [new.bullet], position, None) for old, new in taken.moved
    ]
    if not place.as_json:
        print_changed(lessons)
        if not (shown or taken.files or lessons):
            note(_no_counter_changed(act))
    lines = [line for step in taken.steps for line in step.lines]
    lines += [f"- {old.bullet.line}\n+ {new.bullet.line}" for old, new in taken.moved]
    print_changes(
        place,
        shown,
        taken.positions,
        lines,
        "Nothing to undo: this change is already undone.",
    )


def _no_counter_changed(act: Act) -> str:
    if any(event.type == POLICY_ADOPTED for event in act.evidence):
        return "The counting policy changed, but no counter changed; see `reflector ledger policy`."
    return "No counter changed, because these verdicts had not been counted."
