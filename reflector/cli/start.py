"""Where a person begins: status and doctor; and what agents and shells call: hook, statusline, completion.

Invariant: `status` and `doctor` record and change nothing, and each command that they show can be typed unchanged and
does what is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.options import json_option
from reflector.cli.output import counted, note, os_error_words, print_facts, print_json, shaped, short_time, table

if TYPE_CHECKING:
    from reflector.hooks.reach import Check
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.project import Project
    from reflector.reflection.protocol import Trouble
    from reflector.sessions.spool import Failure

_TROUBLED = {"failed", "given_up"}
#: Yellow and green cannot be read on a light terminal.
_STYLES: dict[str, dict[str, Any]] = {"ok": {}, "warning": {"bold": True}, "error": {"bold": True, "fg": "red"}}


# Not frozen: these are printed once, and one that is takes three times as long to define at each start.
@dataclass
class LedgerJson:
    """The ledger: where it is and where it ends."""

    url: str
    events: int
    head: str
    last_event: str | None
    counting: str


@dataclass
class UserJson:
    """The person's own bullets beside the project's; `hidden` ones have a name that means another bullet there."""

    bullets: int
    hidden: list[str]


@dataclass
class SpoolJson:
    """The deliveries of hooks: those that wait, and those that cannot be recorded or read.

    waiting    for their session's end
    silent     sessions that ended without a word or a transcript
    elsewhere  kept with the user because the project could not be written
    """

    pending: int
    waiting: int
    silent: int
    failed: list[Failure]
    broken: list[str]
    elsewhere: int


@dataclass
class MonthJson:
    """What models took this month over all of the person's projects; `limit` is null for any number."""

    tokens: int
    limit: int | None


@dataclass
class FailureJson:
    """A window whose reflection failed: the last failure, when it is tried again, and the command that mends it.

    next_try  null where it is not tried again by itself
    command   null where nothing can be done by its session's id
    """

    position: int
    session_id: str | None
    attempts: int
    command: str | None
    window_id: str
    state: str
    failed_at: str
    next_try: str | None
    backend: str | None
    stage: str | None
    message: str | None


@dataclass
class StartJson:
    """The text that a session is shown when it starts: its bullets, its length, and an estimate of its tokens."""

    bullets: int
    characters: int
    tokens: int


@dataclass
class StatusJson:
    """What is recorded, what waits and what failed; `ledger` is null before the first event.

    backend_lacks  what the backend lacks, and how to get it
    told           null until a text was rendered
    user           null where the person has no playbook of their own
    month          null where its record cannot be read
    trial          what a trial that runs says by now; null without one
    """

    project: str
    backend: str
    backend_lacks: str | None
    ledger: LedgerJson | None = None
    bullets: int = 0
    told: StartJson | None = None
    user: UserJson | None = None
    problems: list[str] = field(default_factory=list)
    windows: Mapping[str, int] = field(default_factory=dict)
    proposals: int = 0
    spool: SpoolJson = field(default_factory=lambda: SpoolJson(0, 0, 0, [], [], 0))
    month: MonthJson | None = None
    waiting_for_budget: int = 0
    failures: list[FailureJson] = field(default_factory=list)
    trial: str | None = None


@dataclass
class OwnJson:
    """A ledger of this person: `is_there` says whether its project has it, `events` how many its copy has."""

    project: str
    is_there: bool
    events: int
    waiting: int
    written_at: str | None


@click.command()
@click.option("--all", "everything", is_flag=True, help="A line for each of your projects.")
@json_option
@click.pass_obj
def status(place: Place, everything: bool, as_json: bool) -> None:
    """Show what is recorded, what waits and what failed.

    Records and changes nothing. Exits 1 if something failed or could not be understood.
    """
    if everything:
        _all(as_json=as_json)
        return
    found = _status(place, place.project())
    if as_json:
        print_json(found)
    else:
        _print(place, found)
    if found.spool.failed or found.spool.broken or _TROUBLED & found.windows.keys() or found.problems:
        raise click.exceptions.Exit(1)


def _all(*, as_json: bool) -> None:
    from reflector import entries
    from reflector.locate import own_folder
    from reflector.sessions import spool

    rows = []
    for one in entries.entries():
        counts = spool.counts(Path(one.root, ".claude", "reflector", "spool"))
        copy = Path(own_folder(one.root), "events.ndjson")
        at = datetime.fromtimestamp(copy.stat().st_mtime, UTC).isoformat()[:19] + "Z" if copy.exists() else None
        is_there = Path(one.root, ".claude", "reflector", "ledger.db").exists()
        rows.append(OwnJson(one.root, is_there, entries.copied(Path(one.root)).position, counts.pending, at))
    if as_json:
        print_json(rows)
    elif rows:
        cells = [
            (row.project, row.events, row.waiting, short_time(row.written_at or ""), "" if row.is_there else "gone")
            for row in rows
        ]
        table(("project", "events", "waiting", "written", "ledger"), cells)
    else:
        note("No project of yours has a ledger yet; `reflector add` begins one.")


def _status(place: Place, project: Project) -> StatusJson:
    from reflector.curation.adoption import told_beside
    from reflector.ledger.errors import LedgerError
    from reflector.playbook.bullet import context_tokens
    from reflector.reflection.backends import described
    from reflector.sessions import spool
    from reflector.sessions.injection import told_names, told_text

    beside, text = told_beside(project), told_text(project.root)
    backend, mend = described(project.config, project.root)
    found = StatusJson(str(project.root), project.config.backend, f"{backend}; {mend}" if mend else None)
    found.user = UserJson(*beside) if beside else None
    found.told = StartJson(len(told_names(text)), len(text), context_tokens(text)) if text else None
    found.problems = _problems(project)
    broken = [path.name for path in spool.broken(project.spool_dir)]
    more = {"failed": spool.failed(project.spool_dir), "broken": broken, "elsewhere": sum(_elsewhere().values())}
    found.spool = shaped(SpoolJson, spool.counts(project.spool_dir), **more)
    if project.has_ledger():
        try:
            _read_ledger(place, project, found)
        except LedgerError as error:
            # What lies in the spool is worth telling most of all where the ledger cannot be opened.
            found.problems.append(str(error))
    if found.ledger is None:
        found.month = month_of(None, project)
    return found


def _problems(project: Project) -> list[str]:
    """Return why a playbook.json, the project's or the user's, cannot be read, or the ledger cannot be written."""
    from reflector.curation.adoption import kept_of_others, of_another, read
    from reflector.locate import user_folder
    from reflector.playbook.document import load
    from reflector.sessions import locks

    found = []
    for path in dict.fromkeys((project.playbook_json, Path(user_folder()).absolute() / ".claude" / "playbook.json")):
        try:
            raw = read(path)
        except OSError as error:
            found.append(os_error_words(error))
        else:
            found += [f"{path}: {problem}" for problem in load(raw).problems] if raw is not None else []
    found += [of_another(project.playbook_json, kept) for kept in kept_of_others(project)]
    if not project.config.ledger_url and (reason := locks.why_none(project.state_dir)):
        what = f"no file can be locked in {project.state_dir} ({reason}), so its ledger cannot be written"
        found.append(f"{what}; see `reflector doctor`")
    return found


def _elsewhere() -> dict[str, int]:
    """Deliveries kept with the user because their project could not be written, of whatever project, by spool."""
    from reflector.sessions import spool
    from reflector.sessions.locks import stand_ins

    found = {str(state / "spool"): spool.counts(state / "spool") for state in stand_ins()}
    kept = {where: one.pending + one.waiting + one.failed + one.broken for where, one in found.items()}
    return {where: count for where, count in kept.items() if count}


def _read_ledger(place: Place, project: Project, found: StatusJson) -> None:
    from reflector.events import event as ev
    from reflector.reflection.gate import waiting_for_budget
    from reflector.sessions import spool

    with project.open_ledger() as ledger:
        head = ledger.head()
        windows = ledger.window_states()
        last = head.recorded_at if head.position else None
        found.ledger = LedgerJson(ledger.engine.url.public, head.position, head.chain, last, ledger.counting())
        found.bullets = len(ledger.bullets())
        found.windows = windows
        if next(iter(ledger.events(types=(ev.BULLET_PROPOSED, ev.CHANGE_PROPOSED))), None) is not None:
            from reflector.curation.proposals import proposals

            found.proposals = len(proposals(ledger))
        found.month = month_of(ledger, project)
        found.waiting_for_budget = len(waiting_for_budget(ledger)) if "skipped" in windows else 0
        if _TROUBLED & windows.keys():
            from reflector.reflection.protocol import trouble_of

            troubles = ((one, trouble_of(ledger.targeting(one.event_id))) for one in ledger.windows_in(*_TROUBLED))
            found.failures = [_failure(place, one, trouble, project) for one, trouble in troubles if trouble]
        if ledger.has(ev.TRIAL_OPENED):
            from reflector.trials.status import standing

            if (trial := standing(ledger)) is not None and trial.state != "closed":
                found.trial = trial.sentence
        if not spool.was_seen(project, spool.seen(project, ledger)):  # else the last question took the file as it is
            from reflector.curation.playbook_file import untaken

            more = [f"{project.playbook_json}: {problem}" for problem in untaken(ledger, project)]
            found.problems += [problem for problem in more if problem not in found.problems]


def _failure(place: Place, window: WindowRow, trouble: Trouble, project: Project) -> FailureJson:
    from shlex import quote

    from reflector.reflection.protocol import REDACTED

    data, last, is_failed = trouble.last.data or {}, trouble.last, window.state == "failed"
    session = quote(window.session_id) if window.session_id is not None else ""
    words: tuple[str, ...] = ("reflect", session) if session else ("reflect",)
    if session and trouble.stage == REDACTED:
        words = ("reflect", "--give-up", session, "--why redacted")
    can_be = is_failed or (session and trouble.stage != REDACTED)
    by_itself = is_failed and trouble.attempts < project.config.max_attempts
    return shaped(
        FailureJson,
        window,
        position=last.position,
        command=place.command(*words) if can_be else None,
        window_id=window.event_id,
        failed_at=last.recorded_at,
        next_try=trouble.next_try.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if by_itself else None,
        **{key: data.get(key) for key in ("backend", "stage", "message")},
    )


def month_of(ledger: Ledger | None, project: Project) -> MonthJson | None:
    """Return what models took this month; None where the record of it cannot be read."""
    from reflector.reflection.gate import Spending

    try:
        tokens = Spending().total("", 0) if ledger is None else Spending().month(ledger)
    except OSError:
        return None
    return MonthJson(tokens, project.config.monthly_tokens or None)


def month_words(month: MonthJson | None) -> str:
    """Return the month in a line."""
    if month is None:
        return "this month: unknown, the record of it cannot be read"
    limit = f"{month.limit:,}" if month.limit else "any number of"
    return f"this month: {month.tokens:,} of {limit} tokens, all projects"


def _print(place: Place, found: StatusJson) -> None:
    ledger, spool, month = found.ledger, found.spool, found.month
    again = place.command("reflect")
    lines = [("project", found.project), ("backend", found.backend_lacks or found.backend)]
    if ledger is None and not found.problems:
        lines.append(("ledger", "none yet; `reflector add` begins it, or a session that has a playbook"))
    elif ledger is not None:
        last = f", the last {short_time(ledger.last_event)}" if ledger.last_event else ""
        lines.append(("ledger", f"{ledger.url}, {counted(ledger.events, 'event')}{last}"))
        lines.append(("playbook", f"{counted(found.bullets, 'bullet')}, counting {ledger.counting}"))
        if told := found.told:
            cost = f"in {told.characters:,} characters, about {told.tokens:,} tokens"
            lines.append(("at start", f"{counted(told.bullets, 'bullet')} {cost}"))
        windows = ", ".join(f"{count} {state}" for state, count in sorted(found.windows.items()))
        lines.append(("windows", windows or "none"))
        if found.waiting_for_budget:
            lines.append(("", f"{found.waiting_for_budget} of the skipped wait for a budget: {again}"))
    if found.proposals:
        lines.append(("waiting", f"{counted(found.proposals, 'proposal')}: {place.command('proposals')}"))
    if found.trial is not None:
        lines.append(("trial", f"{found.trial}; {place.command('trial status')}"))
    if month is None or month.tokens or found.waiting_for_budget:
        lines.append(("tokens", month_words(month)))
    if user := found.user:
        hidden = f"; {', '.join(user.hidden)} not shown: the project's name means another" if user.hidden else ""
        lines.append(("yours", f"{counted(user.bullets, 'bullet')} of your own beside it{hidden}"))
    silent = f", {spool.silent} ended without a word or a transcript" if spool.silent else ""
    lines.append(("spool", f"{spool.pending} pending, {spool.waiting} waiting for their session's end{silent}"))
    for where, count in _elsewhere().items():
        lines.append(("", f"{count} kept elsewhere, of folders that are gone or cannot be written: {where}"))
    lines += [("problem", problem) for problem in found.problems]
    for one in spool.failed:
        tried = f"tried {counted(one.attempts, 'time')}{', given up' if one.given_up else ''}"
        lines.append(("failed", f"{one.delivery} ({tried}): {one.error}"))
    if spool.failed:
        lines.append(("", f"tried again later by itself; now with: {again}"))
        lines.append(("", "or give a delivery up: remove its file from the spool's folder failed/"))
    if spool.broken:
        from reflector.sessions.spool import NOT_A_PAYLOAD

        lines += [("broken", f"{name}: {NOT_A_PAYLOAD}") for name in spool.broken]
    for failure in found.failures:
        when = f"; next try {short_time(failure.next_try)}" if failure.next_try else ""
        lines.append(("failed", f"reflection at position {failure.position}: {failure.stage}: {failure.message}{when}"))
        if failure.command:
            lines.append(("", f"try again with: {failure.command}"))
    print_facts(lines, 9)
    if any(one.state == "given_up" and one.stage == "answer" for one in found.failures):
        note("Where the model declined, another may answer: add --model NAME")
    if any(one.state == "failed" for one in found.failures):
        note("Let a session go: reflector reflect --give-up SESSION --why TEXT")
    if spool.pending:
        note(f"reflector: a session is being processed, or waits for `{again}`")


@click.command()
@click.option("--fix", is_flag=True, help="First fix what can be fixed safely, and print what was done.")
@click.option("--report", "as_report", is_flag=True, help="Print a text for an issue: nothing of what anybody wrote.")
@json_option
@click.pass_obj
def doctor(place: Place, fix: bool, as_report: bool, as_json: bool) -> None:
    """Check everything between the agent and the playbook.

    Each line is ok, a warning or an error, with the command that corrects it, and with what --fix would do about it.
    Without --fix it changes nothing. --fix renews our hooks, takes our files from other users
    and processes what waits; it changes nothing that a person wrote. Exits 1 on errors.
    """
    from reflector.config import Config, ConfigError
    from reflector.hooks.doctor import examine
    from reflector.project import Project

    try:
        look = partial(examine, place.project())
    except ConfigError as error:
        look = partial(examine, Project(place.folder(), Config()), error)
    if fix:
        _fix(list(look()))
    checks = list(look())
    if as_report:
        _print_report(place, checks)
    elif as_json:
        print_json(checks)
    else:
        _print_checks(checks)
    if any(check.state == "error" for check in checks):
        raise click.exceptions.Exit(1)


def _print_report(place: Place, checks: list[Check]) -> None:
    from reflector.cli.support import report
    from reflector.config import ConfigError

    try:
        project = place.project()
        told = report(project.root, checks, project.config, _status(place, project))
    except ConfigError:
        told = report(place.folder(), checks, None, None)
    click.echo(told, nl=False)


def _fix(checks: list[Check]) -> None:
    from reflector.cli.app import known_code, words_of

    done: set[str] = set()
    for check in checks:
        if check.fix is None or check.apply is None or check.fix in done:
            continue
        done.add(check.fix)
        try:
            check.apply()
        except Exception as error:
            if known_code(error) is None:
                raise
            note(f"{check.name}: not fixed: {words_of(error)}")
        else:
            note(f"{check.name}: {check.fix}")
    if not done:
        note("nothing that --fix can fix")


def _print_checks(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks) + 1
    for check in checks:
        click.echo(click.style(f"{check.state:<7}  ", **_STYLES[check.state]), nl=False)
        ways_out = [f"→ {check.mend}"] if check.mend else []
        ways_out += [f"→ or reflector doctor --fix, which {check.fix}"] if check.fix else []
        print_facts([(check.name, check.text), *(("", way_out) for way_out in ways_out)], width, 9, begun=True)


@click.command()
def hook() -> None:
    """Record one hook event from stdin; the agent calls this.

    Writes the event to the project's spool, starts a drain in the background and always exits 0. Prints the playbook
    for SessionStart and SubagentStart, and nothing for every other event.
    """
    from reflector.hooks import fast

    fast.main()


@click.command()
def statusline() -> None:
    """Print one line for the agent's status line: the playbook, and the last session's verdicts.

    In Claude Code's settings: {"statusLine": {"type": "command", "command": "reflector statusline"}}
    """
    from reflector.hooks.statusline import main

    main()


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    \b
    bash:  eval "$(reflector completion bash)"      in ~/.bashrc
    zsh:   eval "$(reflector completion zsh)"       in ~/.zshrc
    fish:  reflector completion fish > ~/.config/fish/completions/reflector.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click ships these three
    click.echo(found(ctx.find_root().command, {}, "reflector", "_REFLECTOR_COMPLETE").source())
