"""`reflector install` and `uninstall`: the hooks in an agent's settings, the sharing through git, and mirrors."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reflector.cli.app import Place
from reflector.cli.options import AGENT_FILE
from reflector.cli.output import counted, note, safe
from reflector.files import read_ours
from reflector.hooks.agents import AGENTS, CLAUDE, SCOPES

if TYPE_CHECKING:
    from reflector.hooks.agents import Agent, Scope
    from reflector.hooks.settings_file import Change


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the change to the file, and change nothing."),
        click.option(
            "--mirror", "mirrors", type=AGENT_FILE, multiple=True, help="A file that keeps the playbook: AGENTS.md."
        ),
        click.option("--git", is_flag=True, help="Share .claude/playbook.json through git: bullets, not counts."),
        click.option(
            "--scope",
            type=click.Choice(SCOPES),
            default="user",
            help="You in all projects, everyone in this project, or you in this project.",
            show_default=True,
        ),
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


def _agent(name: str, scope: Scope) -> Agent:
    agent = AGENTS[name]
    if scope not in agent.files:
        raise click.UsageError(f"{agent.title} has no settings of one person in one project; use --scope project")
    return agent


@click.command()
@_options
@click.pass_obj
def install(place: Place, name: str, scope: Scope, git: bool, mirrors: tuple[str, ...], dry_run: bool) -> None:
    """Add reflector's hooks to an agent's settings.

    The agent then calls reflector in all of your projects. What else the file says stays, and a copy of the old file
    is kept beside it.

    With --git, sets up this project's repository instead: playbook.json holds bullets without counters, which stay in
    each clone's ledger, and git merges two versions of it bullet by bullet. Run it once in each clone.

    With --mirror, keeps the playbook in step with a file that agents read by themselves instead: CLAUDE.md,
    CLAUDE.local.md, AGENTS.md, GEMINI.md, .github/copilot-instructions.md or .cursor/rules/playbook.mdc. The playbook
    stands between two marks; nothing else in the file changes. Each change of the playbook is written there, and each
    edit there is recorded. `reflector doctor` lists these files.
    """
    if git or mirrors:
        _set_up(place, git, mirrors, dry_run=dry_run)
        return
    from reflector.hooks.install import hook_command
    from reflector.hooks.reach import install_command
    from reflector.hooks.settings_file import backup_path, install_hooks
    from reflector.sessions.spool import is_untouched

    agent, root = _agent(name, scope), place.folder()
    path, command = agent.paths(root)[scope], hook_command()
    within = None if scope == "user" else root
    undo = install_command(agent, "uninstall", scope)
    change = install_hooks(path, agent.form, command, within=within, dry_run=True)
    _warn(agent, scope, root, command)
    if change.reformats:
        back = f"{backup_path(path)} keeps it as it is, and `{undo}` restores it"
        note(f"reflector: {path} is reformatted outside the hooks too; --dry-run shows where. {back}")
    if dry_run:
        _show(change)
        return
    change = install_hooks(path, agent.form, command, within=within)
    if change.is_none:
        click.echo(safe(f"{path} has the hooks already."))
        return
    click.echo(safe(f"{path}: hooks for {', '.join(agent.events)}"))
    if change.backup:
        click.echo(safe(f"As it was: {change.backup}"))
    where = "all your projects" if scope == "user" else str(root)
    if agent is CLAUDE:
        click.echo(safe(f"Sessions in {where} now count, open ones included."))
        click.echo("Each gets the playbook when it starts; an open one after /clear or a restart.")
    else:
        click.echo(safe(f"Sessions of {agent.title} in {where} get the playbook and count, from their next start on."))
    if agent.consent:
        click.echo(agent.consent)
    click.echo(safe(f"Next: {first_step(root) if is_untouched(place.project()) else _ADD}"))
    click.echo(f"To undo: {undo}")


@click.command()
@_options
@click.pass_obj
def uninstall(place: Place, name: str, scope: Scope, git: bool, mirrors: tuple[str, ...], dry_run: bool) -> None:
    """Remove reflector's hooks from an agent's settings.

    If nothing else in the file changed since, it is restored to the byte. Playbooks and ledgers stay. With --git or
    --mirror, removes what `reflector install` set up with that option.
    """
    if git or mirrors:
        _set_up(place, git, mirrors, dry_run=dry_run, out=True)
        return
    from reflector.hooks.settings_file import uninstall_hooks

    agent, root = _agent(name, scope), place.folder()
    path = agent.paths(root)[scope]
    within = None if scope == "user" else root
    change = uninstall_hooks(path, agent.form, within=within, depth=agent.depth(scope), dry_run=dry_run)
    if change.reformats:
        note(f"reflector: reformatted outside the hooks too: {path}")
    if dry_run:
        _show(change)
    elif change.is_none:
        click.echo(safe(f"{path} has no hook of ours."))
    elif change.after is None:
        click.echo(safe(f"{path} held our hooks alone; removed."))
    elif change.backup is None:
        click.echo(safe(f"{path} is without our hooks."))
    else:
        click.echo(safe(f"{path} is without our hooks; what was changed since they came stays."))
        click.echo(safe(f"As it was before them: {change.backup}"))
    _print_others(agent, scope, root)


def _set_up(place: Place, git: bool, mirrors: tuple[str, ...], *, dry_run: bool, out: bool = False) -> None:
    """Set up or remove what is about the project and not about an agent's settings."""
    context = click.get_current_context()
    named = [context.get_parameter_source(option) == ParameterSource.COMMANDLINE for option in ("name", "scope")]
    if any(named) or (git and mirrors):
        what = "--git and --mirror are about the project, not about an agent's settings; use one at a time"
        raise click.UsageError(what)
    if git:
        _share(place, dry_run=dry_run, out=out)
    elif dry_run:
        raise click.UsageError("--mirror has no --dry-run; `reflector uninstall --mirror` leaves the file as it was")
    else:
        _mirror(place, mirrors, out=out)


def _share(place: Place, *, dry_run: bool, out: bool) -> None:
    from reflector.hooks import git_setup
    from reflector.sessions.spool import is_untouched

    root = place.folder()
    setup = git_setup.share(root, out=out, dry_run=dry_run)
    if dry_run:
        _show(setup.attributes)
        for sign, driver in (("-", setup.driver_before), ("+", setup.driver_after)):
            if driver is not None and setup.driver_before != setup.driver_after:
                click.echo(safe(f"{sign}git config merge.reflector.driver = {driver}"))
        return
    project = place.project()
    if not is_untouched(project):
        place.write(project)
    if setup.is_none:
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


def _mirror(place: Place, names: tuple[str, ...], *, out: bool) -> None:
    from reflector.curation.mirrors import add_mirror, remove_mirror

    project = place.project()
    with place.pipeline() as pipeline:
        for name in names:
            if out:
                text = "is without the playbook." if remove_mirror(project, name) else "does not hold the playbook."
            else:
                how = "holds the playbook now" if (project.root / name).exists() else "was created"
                add_mirror(pipeline.ledger, project, name)
                stop = place.command("uninstall", "--mirror", name)
                text = f"{how} and is kept in step with the playbook. To stop: {stop}"
            click.echo(safe(f"{name} {text}"))
    if "CLAUDE.md" in names and not out:
        note("Claude Code's hook prints the playbook as well; where it is installed, leave it out of CLAUDE.md.")


_ADD = 'reflector add pat "What every session should know"'


def first_step(root: Path) -> str:
    """Return the command that gives an empty playbook its first bullets: the import of the advice that is there."""
    from reflector.locate import AGENT_FILES
    from reflector.playbook.markdown import load_markdown

    for name in AGENT_FILES:
        with suppress(OSError):
            if count := len(load_markdown(read_ours(root / name, 1 << 20)).bullets):
                return f"reflector import --dry-run {name} ({counted(count, 'item')} found)"
    return _ADD


def _show(change: Change) -> None:
    def lines(raw: bytes | None) -> list[str]:
        return (raw or b"").decode("utf-8-sig").splitlines()

    old, new = (str(change.path) if raw is not None else os.devnull for raw in (change.before, change.after))
    for line in difflib.unified_diff(lines(change.before), lines(change.after), old, new, lineterm=""):
        click.echo(safe(line))


#: Environments of `uvx` and `pipx run`, and of builds.
_PASSING = ("/uv/archive-v", "/uv/environments-v", "/pipx/.cache/", "/.cache/pipx/")


def _warn(agent: Agent, scope: Scope, root: Path, command: str) -> None:
    """Say what keeps the hooks from running, or makes them run twice."""
    from reflector.hooks.reach import disabled_by, other_handlers, plugins

    for path, switch in disabled_by(agent, root):
        note(f"reflector: {path} has {switch}: no hook runs until you remove it")
    for name in plugins(agent, root):
        note(f"reflector: the plugin {name} calls us, too; keep one of both: claude plugin uninstall {name}")
    for path, other in other_handlers(agent, scope, root, command):
        note(f"reflector: {path} also runs {other}; one of both is enough")
    if any(part in command for part in _PASSING):
        note(f"reflector: {command} lies in a cache that is cleared; install with 'uv tool install' or pipx")
    if scope == "project":
        note("reflector: the command names your own interpreter; where others have none there, their hooks do nothing")


def _print_others(agent: Agent, scope: Scope, root: Path) -> None:
    from reflector.hooks.reach import other_agents, other_handlers, plugins

    for path, command in other_handlers(agent, scope, root, ""):
        note(f"reflector: {path} still runs {command}")
    for name in plugins(agent, root):
        note(f"reflector: the plugin {name} still calls us: claude plugin uninstall {name}")
    for path, command in other_agents(agent, root):
        note(f"reflector: {path} still calls us: {command}")
