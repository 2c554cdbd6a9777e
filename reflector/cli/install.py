"""`reflector install` and `uninstall`: the hooks in an agent's settings, the sharing through
git, and mirrors.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reflector.cli.app import Place
from reflector.cli.options import agreed
from reflector.cli.output import counted, note, safe
from reflector.config import CONSENT, load_config
from reflector.files import read_ours
from reflector.hooks.agents import AGENTS, CLAUDE, SCOPES
from reflector.hooks.reach import callers_of, disabled_by, install_command
from reflector.judges import consent
from reflector.transcripts.readers import stores

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.hooks.agents import Agent, Scope
    from reflector.hooks.install import Change


#: What an option says of `install`, and of `uninstall`.
_SAID = {
    "--git": (
        "Share .claude/playbook.json through git: bullets, not counts.",
        "Share playbook.json no longer.",
    ),
    "--judge": (
        "Let your own agents judge sessions; costs tokens.",
        "Let your own agents judge no longer.",
    ),
    "--mirror": (
        "A file that keeps the playbook: AGENTS.md.",
        "A file to take the playbook out of: AGENTS.md.",
    ),
}


class _AgentChoice(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """An agent, or with --judge a judge of another package that the user lists in `judges`."""

    def __init__(self) -> None:
        super().__init__(list(AGENTS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name of an agent or a judge."""
        is_for_judge = ctx.params.get("judge") if ctx is not None else False
        place: Place | None = ctx.obj if ctx is not None else None
        if is_for_judge and place is not None and value in load_config(place.folder()).judges:
            return value
        return super().convert(value, param, ctx)


def _command(function: Callable[[Place, Agent, Scope, bool], None]) -> Callable[..., Any]:
    """Make a function about the hooks in an agent's settings a command's, which also does the rest
    that its options ask for. What would be passed over is refused: who is shown a change must not
    find that it was made.
    """
    out = function.__name__ == "uninstall"

    @wraps(function)
    @click.option(
        "--agent",
        "name",
        type=_AgentChoice(),
        default="claude",
        show_default=True,
        help=_AGENT,
    )
    @click.option(
        "--scope", type=click.Choice(SCOPES), default="user", show_default=True, help=_SCOPE
    )
    @click.option("--git", is_flag=True, help=_SAID["--git"][out])
    @click.option("--judge", is_flag=True, is_eager=True, help=_SAID["--judge"][out])
    @click.option("--mirror", "mirrors", multiple=True, help=_SAID["--mirror"][out])
    @click.option(
        "--dry-run", is_flag=True, help=("Show the change to the file, and change nothing.")
    )
    @click.pass_obj
    def asked(
        place: Place,
        /,
        name: str,
        scope: Scope,
        git: bool,
        judge: bool,
        mirrors: tuple[str, ...],
        dry_run: bool,
        yes: bool = False,
    ) -> None:
        source = click.get_current_context().get_parameter_source
        named, scoped = (source(one) == ParameterSource.COMMANDLINE for one in ("name", "scope"))
        if judge and (git or mirrors or dry_run or scoped):
            what = (
                "is about you in all of your projects, and asks first; use it alone, or with "
                "--agent and --yes"
            )
            raise click.UsageError(f"--judge {what}")
        if (git or mirrors) and (named or scoped or (git and mirrors)):
            what = (
                "--git and --mirror are about the project, not about an agent's settings; use "
                "one alone"
            )
            raise click.UsageError(what)
        if mirrors and dry_run:
            raise click.UsageError(
                "--mirror has no --dry-run; `uninstall --mirror` leaves the file as it was"
            )
        if judge and not out and name not in AGENTS:
            _let_extension_judge(place, name, yes=yes)
            return
        agent = AGENTS[name]
        if judge and out:
            _stop_judges(place)
        elif judge:
            _let_judge(place, agent if named else None, yes=yes)
        elif git:
            _share(place, dry_run=dry_run, out=out)
        elif mirrors:
            _mirror(place, mirrors, out=out)
        elif scope not in agent.files:
            raise click.UsageError(
                f"{agent.title} has no settings of one person in one project; use --scope project"
            )
        else:
            function(place, agent, scope, dry_run)

    return asked


_AGENT = "Whose settings."
_SCOPE = "You in all projects, everyone in this project, or you in this project."


@click.command()
@click.option("--yes", is_flag=True, help="With --judge: agree without being asked.")
@_command
def install(place: Place, agent: Agent, scope: Scope, dry_run: bool) -> None:
    """Add reflector's hooks to an agent's settings.

    The agent then calls reflector in all of your projects. What else the file says stays, and a
    copy of the old file is kept beside it.

    With --git, sets up this project's repository instead: playbook.json holds bullets without
    counters, which stay in each clone's ledger, and git merges two versions of it bullet by bullet.
    Run it once in each clone.

    With --mirror, keeps the playbook in step with a file that agents read by themselves instead:
    CLAUDE.md, CLAUDE.local.md, AGENTS.md, GEMINI.md, .github/copilot-instructions.md or
    .cursor/rules/playbook.mdc. The playbook stands between two marks; nothing else in the file
    changes. Each change of the playbook is written there, and each edit there is recorded.
    `reflector doctor` lists these files.

    With --judge, lets the agents that are installed, or the one that --agent names, judge your
    sessions: each is asked without a screen, by its cheapest model and without tools, about the
    sessions that it wrote. An agent is let in after it has shown that it has no tools. The
    variables of its login are kept for that in your own folder.
    """
    from reflector.hooks.install import backup_path, hook_command, install_hooks
    from reflector.sessions.spool import is_untouched

    root = place.folder()
    path, command = agent.paths(root)[scope], hook_command()
    within = None if scope == "user" else root
    undo = install_command(agent, "uninstall", scope)
    change = install_hooks(path, agent.form, command, within=within, dry_run=True)
    _warn(agent, path, scope, root, command)
    if change.reformats:
        back = f"{backup_path(path)} keeps it as it is, and `{undo}` restores it"
        note(
            f"reflector: {path} is reformatted outside the hooks too; --dry-run shows where. {back}"
        )
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
        click.echo(
            safe(
                f"Sessions of {agent.title} in {where} get the playbook and count, from "
                "their next start on."
            )
        )
    if agent.consent:
        click.echo(agent.consent)
    click.echo(safe(f"Next: {first_step(root) if is_untouched(place.project()) else _ADD}"))
    click.echo(f"To undo: {undo}")
    if not consent.agreed_clients():
        click.echo(f"To let your agent judge what helped: {CONSENT}{_estimate(place)}")


@click.command()
@_command
def uninstall(place: Place, agent: Agent, scope: Scope, dry_run: bool) -> None:
    """Remove reflector's hooks from an agent's settings.

    If nothing else in the file changed since, it is restored to the byte. Playbooks and ledgers
    stay. With --git or --mirror, removes what `reflector install` set up with that option; with
    --judge, no agent is asked any more.
    """
    from reflector.hooks.install import uninstall_hooks

    root = place.folder()
    path, within = agent.paths(root)[scope], None if scope == "user" else root
    change = uninstall_hooks(
        path, agent.form, within=within, depth=agent.depth(scope), dry_run=dry_run
    )
    if change.reformats:
        note(f"reflector: reformatted outside the hooks too: {path}")
    if dry_run:
        _show(change)
    elif change.is_none:
        click.echo(safe(f"{path} has no hook of ours."))
    else:
        left = "held our hooks alone; removed" if change.after is None else "is without our hooks"
        click.echo(safe(f"{path} {left}."))
        click.echo(
            "Playbooks, ledgers and your configuration stay; so does the program, until "
            "you uninstall that."
        )
        if change.backup is not None:
            click.echo(
                safe(
                    "What was changed since they came stays. As it was before them: "
                    f"{change.backup}"
                )
            )
    for _, where, way_out in callers_of(root):
        note(f"reflector: {where} still calls us: {way_out}")


def _let_judge(place: Place, named: Agent | None, *, yes: bool) -> None:
    """Record which agents judge from now on, after each has shown that it can and the person
    agreed.
    """
    from asyncio import run

    from reflector.cli.config import store
    from reflector.judges.agent_clients import JUDGES
    from reflector.judges.agent_process import check_client
    from reflector.judges.protocol import BackendError

    project = place.folder()
    there, agreeing = consent.installed_clients(project=project), {}
    if named is not None:
        if named.name not in there:
            raise click.ClickException(
                f"{named.title} is not on your PATH; install it, and run this again"
            )
        there = {named.name: there[named.name]}
    for name, one in there.items():
        client = JUDGES[name]
        try:
            version = run(check_client(name, one))
        except (BackendError, OSError) as error:
            note(f"reflector: {client.title} is not asked: {error}")
            continue
        agreeing[name] = one
        click.echo(
            safe(
                f"{client.title} {version}, {one.path}: "
                f"{client.model or 'its default model'}, started with"
            )
        )
        for line in consent.shown(one):
            click.echo(safe(f"  {line}"))
        for variable in consent.left_out(name, project=project):
            note(f"  {variable} names a place in this project or working folder, and is not kept")
    if not agreeing:
        raise click.ClickException(f"no agent here can judge; these can: {', '.join(JUDGES)}")
    config = load_config(place.folder())
    agreed(
        f"Let them judge your sessions{_estimate(place)}, {_budget_words(config)}?",
        "your agents judge only if you agree",
        yes=yes,
    )
    consent.keep_consent(agreeing)
    store(place, "backend", "agent", for_all=True)
    click.echo("They judge from the next session on. To stop: reflector uninstall --judge")


def _let_extension_judge(place: Place, name: str, *, yes: bool) -> None:
    """Record that the judge of another package judges from now on, after the user agreed."""
    from reflector import extensions
    from reflector.cli.config import store
    from reflector.judges.extensions import agree

    place.project()
    try:
        extension = extensions.find_extension("judges", name)
    except extensions.ExtensionError as error:
        raise click.ClickException(str(error)) from error
    click.echo(safe(f"{extension.words}, {extension.location}: {extension.entry_point.value}"))
    config = load_config(place.folder())
    agreed(
        f"Let it judge your sessions{_estimate(place)}, {_budget_words(config)}?",
        "a judge of another package judges only if you agree",
        yes=yes,
    )
    agree(extension)
    store(place, "backend", name, for_all=True)
    click.echo("It judges from the next session on. To stop: reflector uninstall --judge")


def _budget_words(config: Config) -> str:
    return (
        f"at most {config.daily_requests} requests a day by themselves, "
        f"{config.monthly_tokens:,} tokens a month"
    )


def _stop_judges(place: Place) -> None:
    from reflector.cli.config import store

    if load_config(place.folder()).is_daily_limited:
        store(place, "backend", None, for_all=True)
    click.echo(
        "No agent of yours judges any more." if consent.withdraw() else "No agent of yours judged."
    )


def _estimate(place: Place) -> str:
    """Return what the last ten sessions of a person would take, in words, from their sizes
    alone.
    """
    from heapq import nlargest

    config, found = load_config(place.folder()), []
    for store in stores():
        with suppress(OSError):
            found += [path.stat() for path in store.kept.folder.rglob(store.kept.pattern)]
    last = nlargest(10, found, key=lambda one: one.st_mtime)
    tokens = -(-sum(min(one.st_size // 3, config.request_tokens) for one in last) // 1000) * 1000
    return (
        f" (your last {counted(len(last), 'session')}: at most about {tokens:,} tokens)"
        if last
        else ""
    )


def _share(place: Place, *, dry_run: bool, out: bool) -> None:
    from reflector.hooks import git_merge
    from reflector.sessions.spool import is_untouched

    root = place.folder()
    changes = git_merge.share(root, out=out, dry_run=dry_run)
    if dry_run:
        for change in changes:
            _show(change)
        return
    project = place.project()
    if not is_untouched(project):
        place.write(project)
    if all(change.is_none for change in changes):
        click.echo(safe(f"{root} {'is not' if out else 'is'} set up already."))
    elif out:
        click.echo(safe(f"{project.playbook_json} holds the counters again."))
    else:
        click.echo(
            safe(
                f"{changes[0].path}: playbook.json is shared, and merged bullet by bullet "
                "in this clone."
            )
        )
        if not changes[0].is_none:
            both = [
                name
                for name in (".claude/.gitattributes", ".claude/playbook.json")
                if (root / name).exists()
            ]
            click.echo(f"Next: git add {' '.join(both)} && git commit")
        click.echo(
            "In each other clone, once: reflector install --git. To undo: reflector uninstall --git"
        )


def _mirror(place: Place, names: tuple[str, ...], *, out: bool) -> None:
    from reflector.playbook_files.mirrors import add_mirror, agent_file_name, remove_mirror

    project = place.project()
    names = tuple(map(agent_file_name, names))
    if out and place.is_untouched:
        for name in names:
            click.echo(safe(f"{name} does not hold the playbook."))
        return
    with place.pipeline() as pipeline:
        for name in names:
            if out:
                text = "does not hold the playbook."
                if remove_mirror(project, name):
                    is_there = (project.root / name).exists()
                    text = (
                        "is without the playbook."
                        if is_there
                        else ("held nothing else, and was removed.")
                    )
            else:
                how = "holds the playbook now" if (project.root / name).exists() else "was created"
                add_mirror(pipeline.ledger, project, name)
                stop = place.command("uninstall", "--mirror", name)
                text = f"{how} and is kept in step with the playbook. To stop: {stop}"
            click.echo(safe(f"{name} {text}"))
    if "CLAUDE.md" in names and not out:
        note(
            "Claude Code's hook prints the playbook as well; where it is installed, leave it out "
            "of CLAUDE.md."
        )


_ADD = 'reflector add pat "What every session should know"'


def first_step(root: Path) -> str:
    """Return what to type first: the check of the advice that is there, else what gives the
    playbook a bullet.
    """
    from reflector.locate import AGENT_FILES
    from reflector.playbook.markdown import load_markdown

    for name in AGENT_FILES:
        with suppress(OSError):
            if count := len(load_markdown(read_ours(root / name, 1 << 20), every=True).bullets):
                return f"reflector check ({counted(count, 'line')} in {name})"
    return _ADD


def _show(change: Change) -> None:
    def lines(raw: bytes | None) -> list[str]:
        return (raw or b"").decode("utf-8-sig").splitlines()

    old, new = (
        str(change.path) if raw is not None else os.devnull for raw in (change.before, change.after)
    )
    for line in difflib.unified_diff(
        lines(change.before), lines(change.after), old, new, lineterm=""
    ):
        click.echo(safe(line))


#: Environments of `uvx` and `pipx run`, and of builds.
_PASSING = ("/uv/archive-v", "/uv/environments-v", "/pipx/.cache/", "/.cache/pipx/")


def _warn(agent: Agent, path: Path, scope: Scope, root: Path, command: str) -> None:
    """Say what keeps the hooks from running, or makes them run twice."""
    for off, switch in disabled_by(agent, root):
        note(f"reflector: {off} has {switch}: no hook runs until you remove it")
    for other, where, way_out in callers_of(root):
        if other is agent and where != str(path):
            note(f"reflector: {where} calls us, too; keep one of the two: {way_out}")
    if any(part in command for part in _PASSING):
        note(
            f"reflector: {command} lies in a cache that is cleared; install with 'uv tool "
            "install' or pipx"
        )
    if scope == "project":
        note(
            "reflector: the command names your own interpreter; where others have none there, "
            "their hooks do nothing"
        )
