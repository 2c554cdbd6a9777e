"""Changes of the playbook: add, edit, remove and merge.

Invariant: the playbook is not locked while you write in an editor or answer a question. Your edit
of playbook.json stays in the file until it is recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from reflector.changes.apply import Step, apply_changes, plan_changes
from reflector.cli.app import Place
from reflector.cli.options import (
    NAME,
    SECTION,
    dry_run_option,
    find_own_bullet,
    json_option,
    why_option,
)
from reflector.cli.output import note, say, shaped, warn
from reflector.ledger.store import Ledger
from reflector.locate import home_folder, repository
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import alike, near
from reflector.playbook_files.playbook_json import examine_playbook, remember_opened, untaken
from reflector.text.secrets import quote

_NOT_YET = "Nothing was changed. To make this change, run the command without --dry-run."
_NOTHING = "Nothing was changed."


@dataclass
class ChangeJson:
    """A change as it was made, or as it would be made.

    change    as in a proposal; null if only counters changed
    before    the bullets before it
    after     the bullets after it
    position  of its event; null if the change was not made
    """

    change: Change | None
    before: Sequence[Bullet]
    after: Sequence[Bullet]
    position: int | None
    event_id: str | None


@dataclass
class ChangesJson:
    """Changes of bullets.

    applied  false for a dry run
    undo     the command that undoes them
    """

    applied: bool
    changes: list[ChangeJson]
    undo: str | None


def _change(
    place: Place,
    changes: Sequence[Change],
    *,
    dry_run: bool,
    why: str | None,
) -> None:
    """Make changes of live bullets, and print how to undo them. For a dry run, only show them."""
    first = place.project().first_number
    reason = quote(why, 200) if why is not None else None
    with place.changing(dry_run=dry_run, begins=changes[0].kind == "add") as ledger:
        before = ledger.bullets()
        changes = [_with_whole_names(place, ledger, change) for change in changes]
        if dry_run:
            steps = plan_changes(ledger, changes, first=first)
        else:
            steps = apply_changes(ledger, changes, actor="human", first=first, reason=reason)
    print_steps(place, steps)
    for change in changes:
        for line in alike_to(place, change, before):
            note(line)


def _with_whole_names(place: Place, ledger: Ledger, change: Change) -> Change:
    """Return a change with the names of the rules as the ledger has them: pat-004 for pat-4.

    Raises: UsageError if a rule does not exist, or stays in your file.
    """
    names = {name: find_own_bullet(place, ledger, name).name for name in change.about}
    whole = tuple(names[name] for name in change.names)
    name = names.get(change.name or "", change.name)
    return change._replace(name=name, names=whole)


def _file_rules(place: Place, change: Change) -> list[Bullet]:
    """Return the rules of loaded files as bullets in the section of a new rule."""
    if change.kind != "add" or place.user:
        return []
    from reflector.playbook_files.watching import loaded_advice

    rules = loaded_advice(place.folder()).rules
    return [Bullet(rule.place, change.section or "", rule.text) for rule in rules]


def print_steps(place: Place, steps: Sequence[Step]) -> None:
    """Print changes, and the command that undoes them."""
    changes = [shaped(ChangeJson, step) for step in steps]
    positions = [step.position for step in steps if step.position is not None]
    lines = [line for step in steps for line in step.lines]
    print_changes(place, changes, positions, lines, _NOT_YET)


def print_changes(
    place: Place,
    changes: list[ChangeJson],
    positions: Sequence[int],
    lines: Iterable[str],
    otherwise: str,
) -> None:
    """Print changes as JSON or in lines, with the command that undoes them."""
    undo = place.undo_of(positions)
    if place.answers(ChangesJson(bool(positions), changes, undo)):
        return
    for line in lines:
        say(line)
    note(f"Undo: {undo}" if undo else otherwise)


def _command(function: Callable[..., Sequence[Change]]) -> Callable[..., None]:
    """Return a command from a function that returns changes of live bullets.

    It has `--dry-run` and `--json`.
    """

    @wraps(function)
    @dry_run_option
    @json_option
    @click.pass_obj
    def asked(place: Place, /, dry_run: bool, why: str | None = None, **own: Any) -> None:
        changes = function(place, **own)
        if changes:
            _change(place, changes, dry_run=dry_run, why=why)

    return asked


def alike_to(place: Place, change: Change, bullets: Sequence[Bullet]) -> list[str]:
    """Return a line for each other rule, also in a loaded file, that a new or revised text repeats
    or contradicts.
    """
    section = change.section or next(
        (bullet.section for bullet in bullets if bullet.name == change.name), None
    )
    if change.kind not in ("add", "revise") or section is None:
        return []
    lines = []
    known = [*bullets, *_file_rules(place, change)]
    others = [bullet for bullet in known if bullet.name not in change.about]
    for pair in near(change.text or "", section, others):
        other = next(bullet for bullet in pair.bullets if bullet.name)
        verb = "contradicts" if pair.kind == "contradiction" else "may repeat"
        lines.append(f"This rule {verb} {other.name} ({pair.why}): {other.text}")
    return lines


@click.command()
@click.argument("section", type=SECTION)
@click.argument("text")
@_command
def add(place: Place, section: str, text: str) -> Sequence[Change]:
    """Add a rule; reflector chooses its name.

    SECTION is pat (patterns), mis (mistakes to avoid), pref (user preferences), ctx (project
    context) or oth (others).
    """
    folder = place.folder()
    in_repository = place.user or repository(str(folder), home_folder())
    if place.is_untouched and not in_repository:
        warn(
            f"this folder is not in a git repository. The rule goes into {folder}"
            "/.claude/playbook.json. To add a rule for all projects, use `reflector --user add`."
        )
    return [Change("add", section=section, text=text)]


@click.command()
@click.argument("name", type=NAME, required=False)
@click.argument("text", required=False)
@click.option("--section", type=SECTION, help="New section of the rule.")
@_command
def edit(place: Place, name: str | None, text: str | None, section: str | None) -> Sequence[Change]:
    """Change a rule, or all rules in your editor.

    With TEXT or --section, the rule changes immediately and keeps its name and counts. With NAME
    alone, `edit` opens the rule's text in your editor. Without NAME, `edit` opens playbook.json in
    your editor. In playbook.json, you can change, move or delete rules. To add a rule to
    playbook.json, write {"text": "..."} without a name. `edit` uses the editor in $VISUAL or
    $EDITOR.
    """
    if name is None:
        options = click.get_current_context().params
        if section or options["dry_run"] or place.as_json:
            raise click.UsageError("--section, --dry-run and --json need the NAME of a rule")
        _edit_file(place)
        return []
    if text is None and section is None:
        text = _text_from_editor(place, name)
        if text is None:
            note(_NOTHING)
            return []
    changes = [Change("revise", name, text=text)] if text is not None else []
    if section is not None:
        changes.append(Change("move", name, section=section))
    return changes


def _text_from_editor(place: Place, name: str) -> str | None:
    """Return a bullet's text from your editor, in one line; None if it did not change."""
    with place.reading() as ledger:
        former = find_own_bullet(place, ledger, name).text
    text = edited(f"use `{place.command('edit', name)} TEXT`", former)
    in_one_line = " ".join(line.strip() for line in (text or "").splitlines()).strip()
    return None if in_one_line in ("", former) else in_one_line


def _edit_file(place: Place) -> None:
    """Open playbook.json in your editor, and record your changes when you close it."""
    project = place.project()
    file = project.playbook_json
    opened = 0
    kind = "missing"
    if not place.is_untouched:
        with place.pipeline() as pipeline:
            opened = pipeline.ledger.head().position
            kind = examine_playbook(pipeline.ledger, project).kind
    if kind == "missing":
        raise click.ClickException(
            f"the playbook is empty; add the first rule with `{place.command('add')}`"
        )
    if kind == "foreign":
        raise click.ClickException(
            f"{file} belongs to another tool; change rules with `{place.command('edit')} NAME TEXT`"
        )
    from reflector.changes.undo import CHANGING
    from reflector.events.registry import EVENT_TYPES

    content = file.read_bytes()
    while True:
        edited(f"edit {file}", file=file)
        with project.open_ledger() as ledger:
            before = ledger.head().position
            remember_opened(ledger, project, opened, content)
        with place.pipeline() as pipeline:
            problems = untaken(pipeline.ledger, project)
            events = list(pipeline.ledger.events(after=before, types=CHANGING))
        if not problems:
            break
        if not _is_edited_again():
            raise click.ClickException(
                f"reflector cannot record your edits; correct {file}, then run any command"
            )
    for event in events:
        say(f"{event.type}  {EVENT_TYPES[event.type].summary(event.facts)}")
    if not events:
        note(_NOTHING)
        return
    note(f"Undo: {place.undo_of([event.position for event in events])}")


def _is_edited_again() -> bool:
    """Return whether you want to correct an unreadable file; False without a terminal."""
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return is_terminal and click.confirm("Edit the file again?", True, err=True)


@click.command()
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
@why_option
@_command
def remove(_: Place, names: tuple[str, ...]) -> Sequence[Change]:
    """Remove rules.

    The ledger keeps the history of removed rules, and `undo NAME` restores the rule NAME.
    """
    return [Change("remove", name) for name in dict.fromkeys(names)]


@click.command()
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME NAME...")
@click.option("--text", help="New rule's text (default: text of the first rule).")
@click.option("--section", type=SECTION, help="New section (default: section of the first rule).")
@_command
def merge(
    place: Place, names: tuple[str, ...], text: str | None, section: str | None
) -> Sequence[Change]:
    """Merge rules into a new rule.

    If the rules do not give the same advice, the new rule needs --text. If one session has verdicts
    on several of the merged rules, the new rule gets one vote from this session. A citation of a
    merged rule counts for the new rule.
    """
    if len(names) < 2:
        raise click.UsageError(
            "merge needs two or more rules; to change one rule, use "
            f"`{place.command('edit', names[0])} TEXT`"
        )
    with place.reading() as ledger:
        rules = [find_own_bullet(place, ledger, name).bullet for name in names]
    first = rules[0]
    if text is None:
        text = first.text
        if not all(alike(text, rule) for rule in rules[1:]):
            text = _merged_text(rules)
    return [Change("merge", None, names, section or first.section, text)]


def _merged_text(rules: Sequence[Bullet]) -> str:
    """Return your text for the merge of different rules."""
    if not sys.stdin.isatty():
        names = " and ".join(rule.name for rule in rules)
        raise click.UsageError(
            f"{names} have different texts; give the text of the new rule with --text"
        )
    for rule in rules:
        note(f"{rule.name}  {rule.text}")
    text: str = click.prompt("Text of the new rule", err=True)
    return text


def edited(otherwise: str, text: str | None = None, *, file: Path | None = None) -> str | None:
    """Return a text after you edited it; None if you did not save it. A file is edited in place.

    otherwise  the alternative for a user without an editor

    Raises: ClickException if the editor cannot open or fails.
    """
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        # An editor that needs a terminal would never end.
        raise click.UsageError(
            "reflector cannot open an editor without a terminal; set $EDITOR to an editor that "
            f"does not need a terminal, or {otherwise}"
        )
    try:
        if file is None:
            return click.edit(text)
        click.edit(filename=str(file))
        return None
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.format_message()}; set EDITOR or VISUAL to your editor, for example "
            "EDITOR=nano"
        ) from error
