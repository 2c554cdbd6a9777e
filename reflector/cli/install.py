"""`reflector install` and `uninstall`: the hooks in an agent's settings."""

from __future__ import annotations

import difflib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.judge import ask_who, end_first, estimate_words
from reflector.cli.options import dry_run_option
from reflector.cli.output import note, say, warn
from reflector.config import CONSENT, load_config
from reflector.files import read_ours
from reflector.hooks.agents import AGENTS, CLAUDE, SCOPES
from reflector.hooks.reach import callers_of, disabled_by, install_command
from reflector.instructions.kind import Kind
from reflector.instructions.units import units_of
from reflector.judges import consent, offers
from reflector.locate import AGENT_FILES
from reflector.playbook.document import load
from reflector.playbook_files.kept_copies import read_playbook
from reflector.settings_file import store_setting
from reflector.text.phrases import counted

if TYPE_CHECKING:
    from reflector.hooks.agents import Agent, Scope
    from reflector.hooks.install import Change

_OWN_MEMORY = "Also record changes to your own memory files, such as ~/.claude/CLAUDE.md?"
#: The most bytes of a file that agents read.
_MAX_BYTES = 1 << 20
_ADD = 'reflector add pat "What every session should know"'
#: Temporary environments of `uvx`, `pipx run` and builds.
_PASSING = ("/uv/archive-v", "/uv/environments-v", "/pipx/.cache/", "/.cache/pipx/")

_agent = click.option(
    "--agent",
    "name",
    type=click.Choice(list(AGENTS)),
    default="claude",
    show_default=True,
    help="Agent to configure.",
)
_scope = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="user",
    show_default=True,
    help="Settings file to change (user: all projects).",
)


@click.command()
@_agent
@_scope
@dry_run_option
@click.pass_obj
def install(place: Place, name: str, scope: Scope, dry_run: bool) -> None:
    """Add reflector's hooks to an agent's settings.

    After `install`, the agent calls reflector in all of your projects. The hooks record which rules
    a session cites, and send nothing. `install` changes no other settings of your agent. `install`
    keeps a copy of the agent's old settings file in the same folder.
    """
    from reflector.hooks.install import hook_command, install_hooks

    agent = _agent_with(name, scope)
    root = place.folder()
    path = agent.paths(root)[scope]
    within = None if scope == "user" else root
    command = hook_command()
    planned = install_hooks(path, agent.form, command, within=within, dry_run=True)
    _warn(agent, path, scope, root, command)
    if planned.reformats:
        _warn_of_reformatting(path, install_command(agent, "uninstall", scope))
    if dry_run:
        show_change(planned)
        return
    change = install_hooks(path, agent.form, command, within=within)
    if change.is_none:
        say(f"{path} already has reflector's hooks.")
        return
    say(f"{path} now has hooks for {', '.join(agent.events)}.")
    if change.backup:
        say(f"Backup: {change.backup}")
    _print_effect(agent, scope, root)
    say(f"Next: {first_step(root)}")
    say(f"To undo: {install_command(agent, 'uninstall', scope)}")
    is_asked = not (consent.agreed_clients() or load_config(root).asks_model)
    if is_asked and not (sys.stdin.isatty() and ask_who(place)):
        if consent.installed_clients(project=root):
            words = estimate_words(load_config(root))
            say(f"To let your agent judge which rules helped{words}: {CONSENT}")
        else:
            say("To let a judge decide which rules helped: reflector judge")
    _ask_memory(root)


@click.command()
@_agent
@_scope
@dry_run_option
@click.pass_obj
def uninstall(place: Place, name: str, scope: Scope, dry_run: bool) -> None:
    """Remove reflector's hooks from an agent's settings.

    `uninstall` also removes a status line that calls reflector. If nothing else in the agent's
    settings file has changed since `install`, `uninstall` restores the old file byte for byte.
    `uninstall` keeps your playbooks and their history.
    """
    from reflector.hooks.install import uninstall_hooks

    agent = _agent_with(name, scope)
    root = place.folder()
    path = agent.paths(root)[scope]
    within = None if scope == "user" else root
    depth = agent.depth(scope)
    change = uninstall_hooks(path, agent.form, within=within, depth=depth, dry_run=dry_run)
    if change.reformats:
        warn(f"`uninstall` also changes the format of other lines in {path}")
    if dry_run:
        show_change(change)
    else:
        _print_removal(change)
        _withdraw(root)
    for _, where, way_out in callers_of(root):
        warn(f"{where} still calls reflector; to stop these calls: {way_out}")


def _withdraw(root: Path) -> None:
    """Undo the permissions to judge if no agent calls reflector any more."""
    if any(callers_of(root)):
        return
    if offers.take_back():
        say("No model reads your sessions now.")
    end_first(root)


def _ask_memory(root: Path) -> None:
    """Ask whether to record changes of the user's own memory files, too."""
    config = load_config(root)
    is_asked = config.layer("memory_user") == "default" and config.memory != "off"
    if not (is_asked and sys.stdin.isatty()):
        return
    with suppress(click.Abort):  # the end of the input means no
        if click.confirm(_OWN_MEMORY, default=False, err=True):
            store_setting(root, "memory_user", value=True, for_all=True)
            note(
                "reflector now records changes to your own memory files. To list the changes: "
                "reflector log --memory"
            )


def _agent_with(name: str, scope: Scope) -> Agent:
    """Return an agent. Refuse a scope that it does not support."""
    agent = AGENTS[name]
    if scope not in agent.files:
        raise click.UsageError(f"{agent.title} does not support --scope local; use --scope project")
    return agent


def _warn_of_reformatting(path: Path, undo: str) -> None:
    from reflector.hooks.install import backup_path

    back = f"To restore the old file from its copy {backup_path(path)}: {undo}"
    warn(
        f"`install` also changes the format of other lines in {path}; `--dry-run` shows these "
        f"lines. {back}"
    )


def _print_effect(agent: Agent, scope: Scope, root: Path) -> None:
    where = "all your projects" if scope == "user" else str(root)
    if agent is CLAUDE:
        counts = f"reflector now counts sessions in {where}, including open sessions."
        shown = "New sessions get the playbook immediately, and open sessions after /clear."
    else:
        counts = f"After you start {agent.title} again, reflector counts its sessions in {where}."
        shown = "After that, each new session gets the playbook."
    say(counts)
    click.echo(shown)
    if agent.consent:
        click.echo(agent.consent)


def _print_removal(change: Change) -> None:
    path = change.path
    if change.is_none:
        say(f"{path} does not contain reflector's hooks.")
        return
    if change.after is None:
        say(f"`uninstall` removed {path}, because it contained only reflector's hooks.")
    else:
        say(f"{path} no longer calls reflector.")
    say(
        "Your playbooks, their history and reflector's settings are kept. To remove the program, "
        "use the tool that installed it, for example: uv tool uninstall reflector-ledger"
    )
    if change.backup is not None:
        say(
            f"Your later changes to this file are kept. The file {change.backup} contains the "
            "settings that you had before `reflector install`."
        )


def first_step(root: Path) -> str:
    """Return the first command for a project.

    It is `check` if the project's files have rules, and `add` if there are none at all.
    """
    with suppress(OSError):
        if load(read_playbook(root / ".claude" / "playbook.json") or b"").bullets:
            return "use your agent in this project, then run `reflector list`"
    for name in AGENT_FILES:
        with suppress(OSError):
            text = read_ours(root / name, _MAX_BYTES).decode("utf-8-sig", "replace")
            if rules := sum(unit.kind == Kind.RULE for unit in units_of(text)):
                return f"reflector check ({counted(rules, 'rule')} in {name})"
    return _ADD


def show_change(change: Change) -> None:
    def lines(raw: bytes | None) -> list[str]:
        return (raw or b"").decode("utf-8-sig").splitlines()

    old, new = (
        str(change.path) if raw is not None else os.devnull for raw in (change.before, change.after)
    )
    for line in difflib.unified_diff(
        lines(change.before), lines(change.after), old, new, lineterm=""
    ):
        say(line)


def _warn(agent: Agent, path: Path, scope: Scope, root: Path, command: str) -> None:
    """Print the reasons why the hooks would not run, or would run twice."""
    for off, switch in disabled_by(agent, root):
        warn(f"{off} has {switch}, so hooks do not run; remove this setting")
    for other, where, way_out in callers_of(root):
        if other is agent and where != str(path):
            warn(f"{where} also calls reflector; to stop these calls: {way_out}")
    if any(part in command for part in _PASSING):
        warn(
            f"{command} is in a temporary folder, which can disappear; install reflector with "
            "'uv tool install' or pipx"
        )
    if scope == "project":
        warn(
            f"the hooks in {path} call the Python of this machine; on a machine without that "
            "Python, the hooks do nothing"
        )
