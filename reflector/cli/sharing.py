"""`reflector team` and `mirror`: the playbook in a shared repository, and in the files that agents
read.
"""

from __future__ import annotations

import click

from reflector.cli.app import Place
from reflector.cli.install import show_change
from reflector.cli.options import dry_run_option, flag
from reflector.cli.output import note, say
from reflector.hooks import git_merge
from reflector.playbook_files.mirrors import add_mirror, agent_file_name, mirrors, remove_mirror
from reflector.sessions.spool import is_untouched

#: The files of a shared playbook that must be in git.
_SHARED_FILES = (".claude/.gitattributes", ".claude/playbook.json")


@click.command()
@flag("--off", help="Stop sharing the playbook through git.")
@dry_run_option
@click.pass_obj
def team(place: Place, off: bool, dry_run: bool) -> None:
    """Share the playbook with your team through git.

    After `team`, playbook.json contains the rules without counts. The counts stay in the ledger of
    each clone. If two clones change playbook.json, git merges the two versions one rule at a time.
    Run `reflector team` once in each clone.
    """
    root = place.folder()
    changes = git_merge.share(root, out=off, dry_run=dry_run)
    if dry_run:
        for change in changes:
            show_change(change)
        return
    project = place.project()
    if not is_untouched(project):
        place.write(project)
    attributes = changes[0]
    if all(change.is_none for change in changes):
        say(f"{root}: the playbook {'is not' if off else 'is already'} shared.")
    elif off:
        say(f"{project.playbook_json} contains the counts again.")
    else:
        merged = "playbook.json is shared, and git merges it rule by rule in this clone."
        say(f"{attributes.path}: {merged}")
        if not attributes.is_none:
            files = " ".join(name for name in _SHARED_FILES if (root / name).exists())
            say(f"Next: git add {files} && git commit")
        say("Run `reflector team` once in each other clone. To undo: reflector team --off")


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE…]")
@flag("--off", help="Remove the playbook from FILE.")
@click.pass_obj
def mirror(place: Place, files: tuple[str, ...], off: bool) -> None:
    """Keep the playbook in a file such as AGENTS.md.

    FILE is CLAUDE.md, CLAUDE.local.md, AGENTS.md, GEMINI.md, .github/copilot-instructions.md or
    .cursor/rules/playbook.mdc. In FILE, reflector writes the playbook between two marker lines, and
    does not change the rest of FILE. After each change of the playbook, reflector updates the copy
    of the playbook in FILE. If you edit this copy between the marker lines, the playbook changes,
    too. Without FILE, `mirror` lists the files that contain a copy of the playbook.
    """
    names = [agent_file_name(name) for name in files]
    if not names and off:
        raise click.UsageError("name the files: reflector mirror --off AGENTS.md")
    if not names:
        _list(place)
    elif off:
        _remove(place, names)
    else:
        _add(place, names)


def _list(place: Place) -> None:
    with place.reading() as ledger:
        mirrored = mirrors(ledger, place.project())
    for entry in mirrored:
        say(f"{entry.name}: {entry.trouble or entry.state}")
    if not mirrored:
        write = place.command("mirror", "AGENTS.md")
        note(f"No file contains the playbook. To write the playbook to a file: {write}")


def _add(place: Place, names: list[str]) -> None:
    project = place.project()
    with place.pipeline() as pipeline:
        for name in names:
            is_there = (project.root / name).exists()
            add_mirror(pipeline.ledger, project, name)
            effect = "contains the playbook now" if is_there else "was created with the playbook"
            stop = place.command("mirror", "--off", name)
            say(f"{name} {effect}. reflector updates this file after each change. To stop: {stop}")
    if "CLAUDE.md" in names:
        note(
            "Claude Code's hook also shows the playbook. If you use the hook, remove the "
            "playbook from CLAUDE.md."
        )


def _remove(place: Place, names: list[str]) -> None:
    if place.is_untouched:
        for name in names:
            say(f"{name} does not contain the playbook.")
        return
    project = place.project()
    with place.pipeline():
        for name in names:
            effect = "does not contain the playbook."
            if remove_mirror(project, name):
                effect = "no longer contains the playbook."
                if not (project.root / name).exists():
                    effect = "contained only the playbook, so the file was removed."
            say(f"{name} {effect}")
