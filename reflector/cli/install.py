"""Getting into an agent's settings and out of them: install, uninstall."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import json_option, note, print_json, safe
from reflector.hooks.agents import AGENTS, CLAUDE, SCOPES

if TYPE_CHECKING:
    from reflector.hooks.agents import Agent, Scope
    from reflector.hooks.settings_file import Change


def _scopes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the options of both commands."""
    for option in (
        json_option,
        click.option("--dry-run", is_flag=True, help="Show the change to the file, and change nothing."),
        click.option(
            "--git", is_flag=True, help="Share .claude/playbook.json through git: the advice, not the counts."
        ),
        click.option("--local", is_flag=True, help="You, in this project (Claude Code and Copilot CLI)."),
        click.option("--project", is_flag=True, help="Everyone, in this project."),
        click.option("--user", is_flag=True, help="You, in all projects; the default."),
        click.option(
            "--agent",
            "name",
            type=click.Choice(list(AGENTS)),
            default="claude",
            help="Whose settings.",
            show_default=True,
        ),
    ):
        command = option(command)
    return command


def _scope(agent: Agent, asked: Mapping[str, bool]) -> Scope:
    named = [scope for scope in SCOPES if asked[scope]]
    if len(named) > 1:
        raise click.UsageError(f"--{named[0]} and --{named[1]} are two files; run the command once for each")
    scope = named[0] if named else "user"
    if scope not in agent.files:
        known = " or ".join(f"--{each}" for each in agent.files)
        raise click.UsageError(f"{agent.title} has no settings of one person in one project; use {known}")
    return scope


def _project(place: Place) -> Path:
    """Return the project's folder; its configuration, which may be wrong, decides nothing here."""
    from reflector.project import find_project

    root = (place.root or find_project()).absolute()
    if not root.is_dir():
        raise click.UsageError(f"the project {root} is not a folder; name one with --project before the command")
    return root


@click.command()
@_scopes
@click.pass_obj
def install(place: Place, /, name: str, git: bool, dry_run: bool, as_json: bool, **asked: bool) -> None:
    """Add reflector's hooks to an agent's settings.

    The agent then calls reflector in all of your projects. Nothing else in the file changes, and a copy of the old
    file is kept beside it.

    With --git, sets up this project's repository instead: playbook.json holds advice without counters, which stay in
    each clone's ledger, and git merges two versions of it bullet by bullet. Run it once in each clone.
    """
    if git:
        _share(place, asked, dry_run=dry_run, as_json=as_json)
        return
    from reflector.hooks.install import hook_command
    from reflector.hooks.reach import install_command
    from reflector.hooks.settings_file import SettingsRefused, install_hooks

    agent = AGENTS[name]
    scope, root = _scope(agent, asked), _project(place)
    path = agent.paths(root)[scope]
    try:
        command = hook_command()
        change = install_hooks(path, agent.form, command, private=scope == "user", dry_run=dry_run)
    except (SettingsRefused, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _warn(agent, scope, root, command)
    if as_json:
        print_json(_as_json(change, dry_run))
        return
    if dry_run:
        _show(change)
        return
    if change.is_none:
        click.echo(safe(f"{path} has the hooks already."))
        return
    click.echo(safe(f"{path}: hooks for {', '.join(agent.events)}"))
    if change.backup:
        click.echo(safe(f"As it was: {change.backup}"))
    where = "all your projects" if scope == "user" else str(root)
    if agent.rereads:
        click.echo(safe(f"Sessions in {where} now count, open ones included."))
        click.echo("Each gets the playbook when it starts; an open one after /clear or a restart.")
    else:
        click.echo(safe(f"Sessions of {agent.title} in {where} get the playbook and count, from their next start on."))
    if agent.consent:
        click.echo(agent.consent)
    click.echo('Next: reflector add pat "What every session should know"')
    click.echo(f"To undo: {install_command(agent, 'uninstall', scope)}")


@click.command()
@_scopes
@click.pass_obj
def uninstall(place: Place, /, name: str, git: bool, dry_run: bool, as_json: bool, **asked: bool) -> None:
    """Remove reflector's hooks from an agent's settings.

    If nothing else in the file changed since, it is restored to the byte. Playbooks and ledgers stay. With --git,
    removes what `reflector install --git` set up.
    """
    if git:
        _share(place, asked, dry_run=dry_run, as_json=as_json, out=True)
        return
    from reflector.hooks.settings_file import SettingsRefused, backup_path, uninstall_hooks

    agent = AGENTS[name]
    scope, root = _scope(agent, asked), _project(place)
    path = agent.paths(root)[scope]
    try:
        change = uninstall_hooks(path, agent.form, depth=agent.depth(scope), dry_run=dry_run)
    except SettingsRefused as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(_as_json(change, dry_run))
    elif dry_run:
        _show(change)
    elif change.is_none:
        click.echo(safe(f"{path} has no hook of ours."))
    elif change.after is None:
        click.echo(safe(f"{path} held our hooks alone; removed."))
    elif change.backup is None:
        click.echo(safe(f"{path} is without our hooks."))
    else:
        click.echo(safe(f"{path} is without our hooks; what was changed since they came stays."))
        click.echo(safe(f"As it was before them: {backup_path(path)}"))
    _print_others(agent, scope, root)


def _share(place: Place, asked: Mapping[str, bool], *, dry_run: bool, as_json: bool, out: bool = False) -> None:
    """Set up or take out the sharing of playbook.json through git, and write the file in its new form."""
    from reflector.hooks import git_setup
    from reflector.sessions.freshness import is_untouched

    if any(asked.values()):
        raise click.UsageError("--git is about the repository, not about an agent's settings; run them one by one")
    root = _project(place)
    try:
        setup = (git_setup.uninstall if out else git_setup.install)(root, dry_run=dry_run)
    except git_setup.GitRefused as error:
        raise click.ClickException(str(error)) from error
    if dry_run and not as_json:
        _show(setup.attributes)
        for sign, driver in (("-", setup.driver_before), ("+", setup.driver_after)):
            if driver is not None and setup.driver_before != setup.driver_after:
                click.echo(safe(f"{sign}git config merge.reflector.driver = {driver}"))
        return
    project = place.project()
    if not dry_run and not is_untouched(project):
        place.write(project)
    if as_json:
        print_json(_as_json(setup.attributes, dry_run, {"before": setup.driver_before, "after": setup.driver_after}))
    elif setup.is_none:
        click.echo(safe(f"{root} {'is not' if out else 'is'} set up already."))
    elif out:
        click.echo(safe(f"{project.playbook_json} holds the counters again."))
    else:
        click.echo(
            safe(f"{setup.attributes.path}: playbook.json is shared, and merged bullet by bullet in this clone.")
        )
        if not setup.attributes.is_none:
            click.echo("Next: git add .claude/.gitattributes .claude/playbook.json && git commit")
        click.echo("In each other clone, once: reflector install --git. To undo: reflector uninstall --git")


def _as_json(change: Change, dry_run: bool, driver: dict[str, str | None] | None = None) -> dict[str, Any]:
    return {
        "path": str(change.path),
        "changed": not change.is_none or (driver is not None and driver["before"] != driver["after"]),
        "dry_run": dry_run,
        "diff": _patch(change),
        "backup": None if change.backup is None else str(change.backup),
        "merge_driver": driver,
    }


def _show(change: Change) -> None:
    for line in _patch(change):
        click.echo(safe(line))


def _patch(change: Change) -> list[str]:
    """Return the lines of a patch that makes the change."""

    def lines(raw: bytes | None) -> list[str]:
        return (raw or b"").decode("utf-8-sig").splitlines()

    old, new = (str(change.path) if raw is not None else os.devnull for raw in (change.before, change.after))
    return [*difflib.unified_diff(lines(change.before), lines(change.after), old, new, lineterm="")]


def _warn(agent: Agent, scope: Scope, root: Path, command: str) -> None:
    """Say what keeps the hooks from running, or makes them run twice."""
    from reflector.hooks.reach import disabled_by, other_handlers, plugins

    for path, switch in disabled_by(agent, root):
        note(f"reflector: {path} has {switch}: no hook runs until it is taken out")
    for name in plugins(root) if agent is CLAUDE else ():
        note(f"reflector: the plugin {name} calls us, too; keep one of both: claude plugin uninstall {name}")
    for path, other in other_handlers(agent, scope, root, command):
        note(f"reflector: {path} also runs {other}; one of both is enough")
    if any(part in command for part in _PASSING):
        note(f"reflector: {command} lies in a cache that is cleared; install with 'uv tool install' or pipx")
    if scope == "project":
        note("reflector: the command names your own interpreter; where others have none there, their hooks do nothing")


#: Environments of `uvx` and `pipx run`, and of builds.
_PASSING = ("/uv/archive-v", "/uv/environments-v", "/pipx/.cache/", "/.cache/pipx/")


def _print_others(agent: Agent, scope: Scope, root: Path) -> None:
    from reflector.hooks.reach import other_agents, other_handlers, plugins

    for path, command in other_handlers(agent, scope, root, ""):
        note(f"reflector: {path} still runs {command}")
    for name in plugins(root) if agent is CLAUDE else ():
        note(f"reflector: the plugin {name} still calls us: claude plugin uninstall {name}")
    for path, command in other_agents(agent, root):
        note(f"reflector: {path} still calls us: {command}")
