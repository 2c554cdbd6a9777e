"""Where a person begins: status and help; and what agents and shells call: hook, statusline,
completion.

Invariant: `status` records and changes nothing, and each command that it shows can be typed
unchanged and does what is said of it. `help` answers from what is installed, and asks neither the
ledger nor a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from reflector import entries
from reflector.audit.dropped import MOST, DroppedJson, dropped
from reflector.cli.app import Place, reflector
from reflector.cli.options import json_option
from reflector.cli.output import (
    counted,
    note,
    os_error_words,
    print_facts,
    print_json,
    shaped,
    short_id,
    short_time,
    table,
)
from reflector.cli.screen import every_command, first_screen
from reflector.cli.table import GROUPS, MORE
from reflector.config import BACKENDS
from reflector.events import event as ev
from reflector.hooks import fast
from reflector.judges.registry import described
from reflector.ledger.errors import LedgerError
from reflector.ledger.sqlite_copy import before_upgrade
from reflector.ledger.store import Ledger, WindowRow
from reflector.locate import own_folder, user_folder
from reflector.playbook.document import load
from reflector.playbook_files.kept_copies import (
    foreign_note,
    kept_of_others,
    of_another,
    read_playbook,
)
from reflector.playbook_files.playbook_json import untaken
from reflector.project import Project
from reflector.reflection.gate import Spending, waiting_for_budget
from reflector.resources import resource_dir
from reflector.sessions import locks, spool
from reflector.sessions.injection import told_beside, told_names, told_text
from reflector.sessions.seen_head import missed
from reflector.text.words import context_tokens

if TYPE_CHECKING:
    from reflector.reflection.trouble import Trouble

_TROUBLED = {"failed", "given_up"}
#: Dropped verdicts that a person is shown.
_MOST_DROPPED = 3
#: Places of a kind that `help` shows.
_MOST = 12


# Not frozen: these are printed once, and one that is takes three times as long to define at each
# start.
@dataclass
class LedgerJson:
    """The ledger: where it is and where it ends."""

    url: str
    events: int
    head: str
    last_event: str | None
    counting: str


@dataclass
class UpgradeJson:
    """The newest upgrade of the ledger: when it was copied, the schema revision of the copy, and
    its file.
    """

    at: str
    revision: str
    file: Path


@dataclass
class UserJson:
    """The person's own bullets beside the project's; `hidden` ones have a name that means
    another bullet there.
    """

    bullets: int
    hidden: list[str]


@dataclass
class MonthJson:
    """What models took this month over all of the person's projects; `limit` is null for any
    number.
    """

    tokens: int
    limit: int | None


@dataclass
class FailureJson:
    """A window about which a judge gave no answer: the last failure, when it is tried again, and
    the command that asks again.

    asked_by  the command whose question failed: reflect or check
    next_try  null where it is not tried again by itself
    command   null where nothing can be done by its session's id
    """

    asked_by: str
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
    """The text that a session is shown when it starts: its bullets, its length, and an estimate
    of its tokens.
    """

    bullets: int
    characters: int
    tokens: int


@dataclass(kw_only=True)
class StatusJson:
    """What is recorded, what waits and what failed; `ledger` is null before the first event.

    backend_lacks  what the backend lacks, and how to get it
    told           null until a text was rendered, and where sessions are told nothing
    user           null where the person has no playbook of their own
    month          null where its record cannot be read
    dropped        helpful and harmful verdicts of the last 30 days that do not count, newest first
    trial          what a trial that runs says by now, or that the last one is open elsewhere; null
                   without one
    upgrade        null without a copy from before an upgrade
    """

    project: str
    backend: str
    backend_lacks: str | None
    ledger: LedgerJson | None = None
    bullets: int = 0
    told: StartJson | None
    user: UserJson | None
    problems: list[str]
    windows: Mapping[str, int] = field(default_factory=dict)
    proposals: int = 0
    spool: spool.Spool
    month: MonthJson | None = None
    waiting_for_budget: int = 0
    failures: list[FailureJson] = field(default_factory=list)
    dropped: list[DroppedJson] = field(default_factory=list)
    trial: str | None = None
    upgrade: UpgradeJson | None = None


@dataclass
class OwnJson:
    """A ledger of this person: `is_there` says whether its project has it, `events` how many its
    copy has.
    """

    project: str
    is_there: bool
    events: int
    waiting: int
    written_at: str | None


@click.command()
@click.option(
    "--projects", "everything", is_flag=True, help="Show a line for each of your projects."
)
@json_option
@click.pass_obj
def status(place: Place, everything: bool, as_json: bool) -> None:
    """Show what is recorded, what waits and what failed.

    Records and changes nothing. Exits 1 if something failed or could not be understood.
    """
    if everything:
        rows = list(_own())
        cells = [
            (
                one.project,
                one.events,
                one.waiting,
                short_time(one.written_at or ""),
                "" if one.is_there else "gone",
            )
            for one in rows
        ]
        if as_json:
            print_json(rows)
        else:
            empty = "No project of yours has a ledger yet; `reflector add` begins one."
            table(("project", "events", "waiting", "written", "ledger"), cells, empty=empty)
        return
    found = status_of(place)
    if as_json:
        print_json(found)
    else:
        _print(place, found)
        if not found.problems and (text := foreign_note(place.project())):
            note(text)
    is_troubled = found.spool.failed or found.spool.broken or _TROUBLED & found.windows.keys()
    if is_troubled or found.failures or found.problems:
        raise click.exceptions.Exit(1)


def _own() -> Iterator[OwnJson]:
    for one in entries.entries():
        root, copy = Path(one.root), Path(own_folder(one.root), "events.ndjson")
        at = (
            datetime.fromtimestamp(copy.stat().st_mtime, UTC).isoformat()[:19] + "Z"
            if copy.exists()
            else None
        )
        state = root / ".claude" / "reflector"
        waiting = spool.look_into(state / "spool").pending
        yield OwnJson(
            one.root, (state / "ledger.db").exists(), entries.copy_end(root).position, waiting, at
        )


def status_of(place: Place) -> StatusJson:
    """Return what `status` says of a project. Raises ConfigError."""
    project = place.project()
    beside, text = (
        told_beside(project),
        "" if fast.off_by(str(project.root)) else told_text(project.root),
    )
    backend, mend = described(project.config, project.root)
    found = StatusJson(
        project=str(project.root),
        backend=project.config.backend,
        backend_lacks=f"{backend}; {mend}" if mend else None,
        told=StartJson(len(told_names(text)), len(text), context_tokens(text)) if text else None,
        user=UserJson(*beside) if beside else None,
        problems=list(_problems(project)),
        spool=spool.look_into(project.spool_dir),
    )
    if project.has_ledger():
        try:
            with project.open_ledger() as ledger:
                _read_ledger(place, project, ledger, found)
        except LedgerError as error:
            # What lies in the spool is worth telling most of all where the ledger cannot be opened.
            found.problems.append(str(error))
    if found.ledger is None:
        found.month = month_of(None, project)
    return found


def _problems(project: Project) -> Iterator[str]:
    """Yield why a playbook.json, the project's or the user's, cannot be read, or the ledger
    cannot be written.
    """
    for path in dict.fromkeys(
        (project.playbook_json, Path(user_folder()).absolute() / ".claude" / "playbook.json")
    ):
        try:
            raw = read_playbook(path)
        except OSError as error:
            yield os_error_words(error)
        else:
            loaded = load(raw) if raw is not None else None
            # What the ledger thinks of a file that is no playbook is known where it is open.
            if loaded is not None and loaded.format != "foreign":
                yield from (f"{path}: {problem}" for problem in loaded.problems)
    if not entries.lost_exports(
        project.root
    ):  # a command that brings their events back is shown instead
        yield from (of_another(project.playbook_json, kept) for kept in kept_of_others(project))
    if not project.config.ledger_url and (reason := locks.why_none(project.state_dir)):
        yield f"{reason}; see `reflector doctor`"


def _read_ledger(place: Place, project: Project, ledger: Ledger, found: StatusJson) -> None:
    head = ledger.head()
    last = head.recorded_at if head.position else None
    where = str(project.ledger_file) if ledger.only_reads else ledger.engine.url.public
    found.ledger = LedgerJson(where, head.position, head.chain, last, ledger.counting())
    found.bullets = len(ledger.bullets())
    found.problems += (
        [f"{lost.message}; {lost.remedy}"] if (lost := missed(project, ledger)) else []
    )
    found.windows = ledger.window_states()
    if ledger.has(ev.BULLET_PROPOSED) or ledger.has(ev.CHANGE_PROPOSED):
        from reflector.changes.propose import read_proposals

        found.proposals = len(read_proposals(ledger))
    found.month = month_of(ledger, project)
    found.waiting_for_budget = len(waiting_for_budget(ledger)) if "skipped" in found.windows else 0
    if _TROUBLED & found.windows.keys():
        failures = (_failure(place, one, ledger, project) for one in ledger.windows_in(*_TROUBLED))
        found.failures = [failure for failure in failures if failure is not None]
    found.upgrade = _upgrade(ledger)
    if ledger.has(ev.REFLECTION_FAILED):
        from reflector.reflection.checking import unanswered

        found.failures += [_unchecked(place, *one, project) for one in unanswered(ledger)]
    if ledger.has(ev.REFLECTION_ANSWERED):
        month_ago = (datetime.now(UTC) - timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        found.dropped = dropped(ledger, month_ago)
    if ledger.has(ev.TRIAL_OPENED):
        from reflector.trials.trial import ELSEWHERE, standing, trial_place

        trial = standing(ledger, trial_place(project))
        if trial is not None and trial.state != "closed":
            found.trial = ELSEWHERE if trial.state == "elsewhere" else trial.sentence
    # else the last question took the file as it is
    if not spool.was_seen(project, spool.current_state(project, ledger)):
        more = [f"{project.playbook_json}: {problem}" for problem in untaken(ledger, project)]
        found.problems += [problem for problem in more if problem not in found.problems]


def _upgrade(ledger: Ledger) -> UpgradeJson | None:
    """Return the copy that the newest upgrade left beside a SQLite ledger."""
    before = before_upgrade(Path(ledger.engine.url.database)) if ledger.engine.url.is_file else None
    if before is None:
        return None
    at = datetime.fromtimestamp(before.copied_at, UTC).isoformat()[:19] + "Z"
    return UpgradeJson(at, before.revision, before.file)


def _failure(
    place: Place, window: WindowRow, ledger: Ledger, project: Project
) -> FailureJson | None:
    from reflector.reflection.trouble import REDACTED, trouble_of

    if (trouble := trouble_of(ledger.targeting(window.event_id))) is None:
        return None
    data, last, is_failed = trouble.last.data or {}, trouble.last, window.state == "failed"
    config, backend = project.config, str(data.get("backend"))
    is_anothers = backend != config.backend and backend in (*BACKENDS, *config.judges)
    session = quote(window.session_id) if window.session_id is not None else ""
    words: tuple[str, ...] = ("reflect", session) if session else ("reflect",)
    words += ("--backend", backend) if is_anothers else ()
    if session and trouble.stage == REDACTED:
        words = ("reflect", "--give-up", session, "--why redacted")
    can_be = is_failed or (session and trouble.stage != REDACTED)
    by_itself = is_failed and not is_anothers and not trouble.is_over(config.max_attempts)
    return shaped(
        FailureJson,
        window,
        asked_by="reflect",
        position=last.position,
        command=place.command(*words) if can_be else None,
        window_id=window.event_id,
        failed_at=last.recorded_at,
        next_try=trouble.next_try.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if by_itself else None,
        **{key: data.get(key) for key in ("backend", "stage", "message")},
    )


def _unchecked(place: Place, window: ev.Event, trouble: Trouble, project: Project) -> FailureJson:
    """Return a window about which `check` got no answer."""
    data, last = trouble.last.facts, trouble.last
    judge = str(data.get("client") or data.get("backend"))
    named = ("--judge", judge) if judge != project.config.backend else ()
    again = ("--retry-failed",) if trouble.is_over(project.config.max_attempts) else ()
    return FailureJson(
        asked_by="check",
        position=last.position,
        session_id=window.session_id,
        attempts=trouble.attempts,
        command=place.command("check", *named, *again, "--yes"),
        window_id=window.event_id,
        state="failed",
        failed_at=last.recorded_at,
        next_try=None,
        backend=data.get("backend"),
        stage=data.get("stage"),
        message=data.get("message"),
    )


def month_of(ledger: Ledger | None, project: Project) -> MonthJson | None:
    """Return what models took this month; None where the record of it cannot be read."""
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
    again = place.command("reflect")
    lines = [("project", found.project), ("backend", found.backend_lacks or found.backend)]
    if (ledger := found.ledger) is not None:
        last = f", the last {short_time(ledger.last_event)}" if ledger.last_event else ""
        lines.append(("ledger", f"{ledger.url}, {counted(ledger.events, 'event')}{last}"))
        if upgrade := found.upgrade:
            when = f"upgraded from revision {upgrade.revision} on {short_time(upgrade.at)}"
            lines.append(("", f"{when}; the copy from before is {upgrade.file}"))
        lines.append(
            ("playbook", (f"{counted(found.bullets, 'bullet')}, counting {ledger.counting}"))
        )
        if told := found.told:
            cost = f"in {told.characters:,} characters, about {told.tokens:,} tokens"
            lines.append(("at start", f"{counted(told.bullets, 'bullet')} {cost}"))
        windows = ", ".join(f"{count} {state}" for state, count in sorted(found.windows.items()))
        lines.append(("windows", windows or "none"))
        lines += _dropped_lines(place, found)
        if found.waiting_for_budget:
            lines.append(
                ("", (f"{found.waiting_for_budget} of the skipped wait for a budget: {again}"))
            )
    elif not found.problems:
        lines.append(
            ("ledger", ("none yet; `reflector add` begins it, or a session that has a playbook"))
        )
    if found.proposals:
        lines.append(
            ("waiting", (f"{counted(found.proposals, 'proposal')}: {place.command('proposals')}"))
        )
    if found.trial is not None:
        lines.append(("trial", f"{found.trial}; {place.command('trial status')}"))
    if found.month is None or found.month.tokens or found.waiting_for_budget:
        lines.append(("tokens", month_words(found.month)))
    if user := found.user:
        hidden = (
            f"; {', '.join(user.hidden)} not shown: the project's name means another"
            if user.hidden
            else ""
        )
        lines.append(("yours", f"{counted(user.bullets, 'bullet')} of your own beside it{hidden}"))
    left = found.spool
    silent = f", {left.silent} ended without a word or a transcript" if left.silent else ""
    late = (
        f", {left.unanswered} without their last answer, which the next drain adds"
        if left.unanswered
        else ""
    )
    lines.append(
        (
            "spool",
            f"{left.pending} pending, {left.waiting} waiting for their session's end{late}{silent}",
        )
    )
    if left.elsewhere:
        where = ", ".join(str(state / "spool") for state in locks.stand_ins())
        lines.append(
            (
                "",
                (
                    f"{left.elsewhere} kept elsewhere, of folders that are gone or cannot "
                    f"be written: {where}"
                ),
            )
        )
    lines += [("problem", problem) for problem in found.problems]
    for one in left.failed:
        tried = f"tried {counted(one.attempts, 'time')}{', given up' if one.given_up else ''}"
        lines.append(("failed", f"{one.delivery} ({tried}): {one.error}"))
    if left.failed:
        lines.append(("", f"tried again later by itself; now with: {again}"))
        lines.append(("", "or give a delivery up: remove its file from the spool's folder failed/"))
    lines += [("broken", f"{name}: {spool.NOT_A_PAYLOAD}") for name in left.broken]
    for failure in found.failures:
        when = f"; next try {short_time(failure.next_try)}" if failure.next_try else ""
        what = (
            "reflection"
            if failure.asked_by == "reflect"
            else (f"check of session {short_id(failure.session_id)}")
        )
        lines.append(
            (
                "failed",
                f"{what} at position {failure.position}: {failure.stage}: {failure.message}{when}",
            )
        )
        if failure.command:
            lines.append(("", f"try again with: {failure.command}"))
    print_facts(lines, 9)
    if any(one.state == "given_up" and one.stage == "answer" for one in found.failures):
        note(f"Where the model declined, another may answer: REFLECTOR_MODEL=NAME {again}")
    if any(one.state == "failed" for one in found.failures):
        note("Let a session go: reflector reflect --give-up SESSION --why TEXT")
    if left.pending:
        note(f"reflector: a session is being processed, or waits for `{again}`")


def _dropped_lines(place: Place, found: StatusJson) -> Iterator[tuple[str, str]]:
    """Yield the newest verdicts that do not count, and how many there are."""
    for one in found.dropped[:_MOST_DROPPED]:
        yield (
            "dropped",
            f"{one.name} {one.tag} in session {short_id(one.session_id)}, not counted: {one.why}",
        )
    if count := len(found.dropped):
        many = f"{count} or more" if count >= MOST else str(count)
        why = place.command("blame", found.dropped[0].name)
        yield "", f"{many} in the last 30 days; why: {why}"


@click.command(name="help")
@click.argument("words", nargs=-1)
@click.option("--all", "every", is_flag=True, help="List every command.")
def help_(words: tuple[str, ...], every: bool) -> None:
    """Find a word in the help and in the pages; without one, show the first screen.

    What has most of the words comes alone, whatever their case. The best is above.
    """
    whole = click.Context(reflector, info_name="reflector")
    if not words:
        click.echo(every_command() if every else first_screen())
        return
    wanted = [re.compile(rf"(?<![a-z]){re.escape(word)}", re.IGNORECASE) for word in words]
    places = {"help": list(_helps(whole)), "pages": list(_parts())}
    most = max(_count(" ".join(one), wanted) for parts in places.values() for one in parts)
    if not most:
        raise click.ClickException(
            f"neither help nor pages have {' '.join(words)!r}; `reflector help --all` lists the "
            "commands"
        )
    left = 0
    for title, parts in places.items():
        found = [one for one in parts if _count(" ".join(one), wanted) == most]
        found.sort(key=lambda part: -_count(part[0], wanted))
        rows = [(name, _line(text, wanted)) for name, text in found[:_MOST]]
        click.echo(f"{title}:{'' if rows else ' nothing'}")
        print_facts(rows, max((len(name) for name, _ in rows), default=0), 2)
        left += len(found) - len(rows)
    note(f"{f'{left} more; ' if left else ''}the pages are in {resource_dir('docs')}")


def _count(text: str, wanted: list[re.Pattern[str]]) -> int:
    return sum(word.search(text) is not None for word in wanted)


def _helps(whole: click.Context) -> Iterator[tuple[str, str]]:
    """Yield each command with its first sentence, and each of its options with what it does."""
    for name in [name for group in (*GROUPS.values(), MORE) for name in group]:
        command = reflector.get_command(whole, name)
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for called, one in [(name, command), *((f"{name} {one.name}", one) for one in inner)]:
            if one is not None:
                yield called, one.get_short_help_str(200)
                options = (option for option in one.params if isinstance(option, click.Option))
                yield from (
                    (f"{called} {option.opts[-1]}", option.help or "") for option in options
                )


def _parts() -> Iterator[tuple[str, str]]:
    """Yield each part of a page: `page.md: Title`, and its text; pages that are made from the
    code come last.
    """
    texts = [
        (page.name, page.read_text("utf-8")) for page in sorted(resource_dir("docs").glob("*.md"))
    ]
    for name, whole in sorted(texts, key=lambda page: page[1].startswith("<!-- generated")):
        for part in re.split(r"^#+ (?=\S)", whole, flags=re.MULTILINE)[1:]:
            title, _, text = part.partition("\n")
            yield f"{name}: {title}", text


def _line(text: str, wanted: list[re.Pattern[str]]) -> str:
    """Return the line of a text that has the most of the words, without marks."""
    best = max(text.splitlines() or [""], key=lambda line: _count(line, wanted))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*", r"\1", best).strip(" |$#")


@click.command()
def hook() -> None:
    """Record one hook event from stdin; the agent calls this.

    Writes the event to the project's spool, starts a drain in the background and always exits 0.
    Prints the playbook for SessionStart and SubagentStart, and nothing for every other event.
    """
    fast.main()


@click.command()
def statusline() -> None:
    """Print one line for the agent's status line: the playbook, and the last session's verdicts.

    In Claude Code's settings: {"statusLine": {"type": "command", "command": "reflector
    statusline"}}
    """
    fast.statusline()


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
