"""The checks of `reflector doctor`: everything between the agent and the playbook, each with its
repair.

Invariant: a check changes nothing and is cheap. It creates no file, uses no network and shows no
key. A check that cannot be made is a finding, never an exception. A repair never changes a file
that the user wrote, and only narrows permissions.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from reflector import entries, extensions, files, handover, locate
from reflector.config import GONE, IGNORED, ConfigError, project_config
from reflector.events.event import SESSION_RECORDED, latest_time
from reflector.events.sessions import unknown_speakers
from reflector.hooks import fast, git_merge
from reflector.hooks.reach import Check, checks_of_hooks, missing_program
from reflector.judges.prompts import PLACEHOLDERS, Template, TemplateError, find_template
from reflector.judges.registry import described
from reflector.ledger.errors import LedgerError
from reflector.ledger.migration import HEAD_REVISION
from reflector.ledger.sqlite_file import SOUND_SQLITE, sqlite_module
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.playbook.document import load
from reflector.playbook.names import USER_FIRST
from reflector.playbook_files.git_versions import in_git, is_shared
from reflector.playbook_files.kept_copies import foreign_note, kept_of_others, read_playbook
from reflector.playbook_files.mirrors import mirrors
from reflector.playbook_files.playbook_json import untaken
from reflector.playbook_files.watching import watched_lines
from reflector.project import Project
from reflector.proof.schema import wrong_triggers
from reflector.resources import resource_dir
from reflector.sessions import locks, spool
from reflector.sessions.checks import kept_sessions, open_or_empty
from reflector.sessions.drain import drain_project
from reflector.sessions.injection import told_beside
from reflector.sessions.seen_head import missed
from reflector.text.phrases import counted
from reflector.text.secrets import secret_kinds
from reflector.transcripts.readers import load_reader
from reflector.trials.trial import running, trial_place

_LITTLE_SPACE = 200 * 2**20
_OLD_BACKLOG_NS = 3600 * 1_000_000_000
_UNKNOWN_SINCE = timedelta(days=30)
_OTHER_LEDGER = (
    "set `ledger_url` to a ledger on a local disk (sqlite:////path/to/ledger.db) or on a "
    "PostgreSQL server"
)


def examine(project: Project, refused: ConfigError | None = None) -> Iterator[Check]:
    """Yield every check of a project, from the interpreter to the hooks.

    If its settings are `refused`, it has none. Then the checks that need them are omitted: of the
    ledger, the judge, and the sessions that would be processed.
    """
    has_settings = refused is None
    parts: list[tuple[Callable[[Project], Iterator[Check]], bool]] = [
        # the check, and whether it needs the settings
        (_software, False),
        (_files, False),
        (_copies, True),
        (_playbook, False),
        (_git, False),
        (_ledger, True),
        (_sessions, True),
        (_beside, True),
        (partial(_spool, is_known=has_settings), False),
        (checks_of_hooks, False),
        (_settings, True),
        (_prompts, False),
    ]
    if refused is not None:
        what, _, way_out = str(refused).rpartition("; ")
        what = (
            f"{what}; until you correct the settings, `doctor` does not check the ledger or the "
            "judge"
        )
        yield Check("settings", what, way_out, is_error=True)
    refusals = set()
    for part, needs_settings in parts:
        if needs_settings and not has_settings:
            continue
        try:
            yield from part(project)
        except OSError as error:
            reason, _, way_out = str(error.strerror).partition("; ")
            refusals.add((f"{error.filename or ''}: {reason}", way_out))
    for what, way_out in sorted(refusals):
        remedy = way_out or "check that you may read this file"
        yield Check("files", what, remedy, is_error=True)


def _copies(project: Project) -> Iterator[Check]:
    """Yield a failure to keep a copy of the ledger, and the projects that are gone but have
    copies.
    """
    if project.config.ledger_url:
        return
    try:
        if project.has_ledger():
            handover.open_own(str(project.root))
    except OSError as error:
        what = f"reflector could not copy the ledger: {files.error_words(error)}"
        yield Check("copy", what, "check that you can write to ~/.local/share")
    for one in entries.entries():
        if not os.path.isdir(one.root):  # noqa: PTH112
            what = f"{one.root} no longer exists, but reflector keeps a copy of its ledger"
            yield Check("copy", what, f"reflector ledger forget {shlex.quote(one.root)}")


def _software(_: Project) -> Iterator[Check]:
    """Yield the versions of Python and SQLite."""
    yield Check("python", f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})")
    module = sqlite_module()
    version, sound = (
        ".".join(map(str, parts)) for parts in (module.sqlite_version_info, SOUND_SQLITE)
    )
    if module.sqlite_version_info >= SOUND_SQLITE:
        yield Check(
            "sqlite", f"{version} ({'the interpreter' if module is sqlite3 else 'pysqlite3'})"
        )
        return
    text = (
        f"{version}; before version {sound}, SQLite can lose data if two programs write. "
        "reflector prevents this loss, but other programs that open the ledger do not prevent it"
    )
    mend = f"{sys.executable} -m pip install pysqlite3, or use a newer Python"
    yield Check("sqlite", text, mend)


def _files(project: Project) -> Iterator[Check]:
    state = project.state_dir
    yield _place(project)
    claude = project.playbook_json.parent
    if claude.exists() and not os.access(claude, os.W_OK):
        text = f"reflector cannot write files in {claude}, so reflector cannot update playbook.json"
        yield Check("files", text, f"chmod u+w {shlex.quote(str(claude))}", is_error=True)
    if not state.exists():
        text = f"{state} does not exist yet; reflector creates this folder with the ledger"
        yield Check("state", text)
        return
    if open_ := [
        path for path in (state, project.ledger_file, project.spool_dir) if _is_open_to_others(path)
    ]:
        names = shlex.join(map(str, open_))
        fix = "makes the paths and their contents private to you"
        what = f"other users of this machine can read {names}"
        yield Check(
            "permissions", what, f"chmod -R go= {names}", fix, partial(_close_to_others, open_)
        )
    else:
        yield Check("permissions", f"{state} is private to you")
    if not project.config.ledger_url and (reason := locks.why_none(state)):
        yield Check("locks", reason, _OTHER_LEDGER, is_error=True)
    for lock in (project.ledger_file.with_name("ledger.db.lock"), state / "drain.lock"):
        if lock.exists() and not lock.is_file():
            text = f"{lock} is not a file, so reflector cannot record anything"
            yield Check("locks", text, f"rename {lock}; reflector makes a new lock", is_error=True)
    free = shutil.disk_usage(state).free
    mend = (
        "free some space, because reflector cannot count a session that it cannot store"
        if free < _LITTLE_SPACE
        else ""
    )
    yield Check("disk", f"{free / 2**30:.1f} GiB free for {state}", mend, is_error=bool(mend))


def _place(project: Project) -> Check:
    """Return the project, and its worktrees with unused ledgers of their own."""
    linked = (
        locate.worktrees(project.root.resolve().as_posix())
        if project.config.worktrees != "own"
        else []
    )
    if apart := [path for path in linked if Path(path, ".claude/reflector/ledger.db").exists()]:
        text = (
            f"{project.root}; sessions in its linked worktrees count, too. But reflector does not "
            f"use the ledgers that are in these worktrees: {', '.join(apart)}"
        )
        return Check(
            "project",
            text,
            "first merge each of these ledgers into the project's ledger, then remove these "
            "ledgers. To see how to merge ledgers: reflector help unwanted ledger",
        )
    return Check("project", str(project.root))


def _is_open_to_others(path: Path) -> bool:
    """Return whether users other than the owner may access a file or folder; False for a link."""
    with suppress(OSError):
        mode = path.lstat().st_mode
        return not stat.S_ISLNK(mode) and bool(mode & 0o077)
    return False


def _close_to_others(tops: list[Path]) -> None:
    """Remove all permissions of users other than the owner from files and folders, and from all
    that is below them.

    Raises: OSError.
    """
    for top in tops:
        for path in (top, *top.rglob("*")):
            if _is_open_to_others(path):
                path.chmod(stat.S_IMODE(path.lstat().st_mode) & 0o700)


def _playbook(project: Project) -> Iterator[Check]:
    """Yield the faults of playbook.json, and the kept files that other ledgers wrote."""
    raw = read_playbook(project.playbook_json)
    loaded = load(raw) if raw is not None else None
    # If the ledger wrote that file, the ledger's checks report the fault.
    if loaded is not None and loaded.format == "foreign":
        yield from [] if project.has_ledger() else [Check("playbook", foreign_note(project))]
    elif loaded is not None:
        yield from (_refused(project, problem) for problem in loaded.problems[:5])
    for kept in kept_of_others(project):
        text = (
            "playbook.json came from another ledger, or from this ledger before you restored an "
            f"older copy. reflector saved this file as {kept}"
        )
        back = (
            "run reflector ledger restore BACKUP, or reflector history. Then run "
            f"reflector adopt --rename {shlex.quote(str(kept))}, and remove that file"
        )
        yield Check("playbook", text, back)


def _refused(project: Project, problem: Finding) -> Check:
    text = f"{project.playbook_json}, {problem.position}: {problem.message}"
    return Check("playbook", text, problem.remedy, is_error=True)


def _git(project: Project) -> Iterator[Check]:
    if is_shared(project.root):
        driver = git_merge.driver_of(project.root)
        fix = "sets the merge driver in this clone's git configuration"
        gone = missing_program(driver) if driver is not None else None
        if driver is not None and gone is None:
            yield Check(
                "git", "playbook.json is in git without counters, and git merges it rule by rule"
            )
            return
        text = (
            "playbook.json is in git without counters, and this clone merges it line by line, so "
            "merges can conflict"
        )
        if gone:
            text = f"git cannot merge playbook.json, because {gone} no longer exists"
        yield Check("git", text, "reflector team", fix, partial(git_merge.share, project.root))
    elif in_git(project.root) is not None:
        text = "playbook.json is in git with its counters, so merges of two clones conflict"
        yield Check("git", text, "reflector team")


def _ledger(project: Project) -> Iterator[Check]:
    if not project.has_ledger():
        yield Check("ledger", "no ledger yet; `reflector add` creates a ledger")
        return
    try:
        with project.open_ledger() as ledger:
            yield from _open_ledger(ledger, project)
    except LedgerError as refused:
        what, _, way_out = str(refused).partition("; ")
        yield Check("ledger", what, way_out or "reflector verify", is_error=True)


def _sessions(project: Project) -> Iterator[Check]:
    """Yield the number of sessions that agents keep of a project, and of those that the ledger has.
    `_ledger` reports a ledger that cannot be read.
    """
    if project.is_users:
        return
    try:
        with open_or_empty(project) as ledger:
            kept = kept_sessions(project, ledger)
            windows = ledger.events(types=[SESSION_RECORDED])
            recorded = len({window.session_id or window.event_id for window in windows})
    except LedgerError:
        return
    agents = ", ".join(f"{agent} {number:,}" for agent, number in kept.most_common())
    on_disk = f"{counted(kept.total(), 'session')} on this machine"
    text = f"{on_disk} ({agents})" if agents else on_disk
    way_out = "reflector history" if kept and not recorded else ""
    yield Check("sessions", f"{text}; {counted(recorded, 'session')} in the ledger", way_out)


def _open_ledger(ledger: Ledger, project: Project) -> Iterator[Check]:
    """Yield the checks that need an open ledger."""
    head = ledger.head()
    text = f"{counted(head.position, 'event')}, head {head.chain[:20]}…"
    yield Check("ledger", f"{text}, schema revision {HEAD_REVISION}")
    if head.recorded_at > latest_time():
        text = (
            f"the time of the newest event is in the future: {head.recorded_at[:16]}Z. reflector "
            "gives new events this same time until the clock of this machine reaches this time"
        )
        yield Check(
            "clock",
            text,
            "if the clock of this machine is correct now: reflector help clock ahead",
        )
    if (lost := missed(project, ledger)) is not None:
        yield Check("head", lost.message, lost.remedy, is_error=True)
    try:
        entries.update_copy(ledger, project.place, entries.file_identity(project.ledger_file))
    except (OSError, LedgerError) as error:
        yield Check(
            "copy",
            f"reflector could not update the copy of the ledger: {files.error_words(error)}",
            f"free some space, or make {locate.own_folder(str(project.root))} writable. The "
            "next reflector command then updates the copy",
        )
    with ledger.asking() as sql:
        wrong = wrong_triggers(sql)
    if wrong:
        yield Check(
            "triggers",
            f"the database lacks these triggers, or they were changed: {', '.join(wrong)}",
            "reflector rebuild --fix",
            is_error=True,
        )
    else:
        yield Check("triggers", "the database refuses changes to the history")
    yield from _trial(ledger, project)
    for mirror in mirrors(ledger, project):
        mend = "correct the file" if mirror.trouble else ""
        yield Check("mirror", f"{mirror.name}: {mirror.trouble or mirror.state}", mend)
    # `_playbook` reports the faults that are found without the ledger.
    is_said = any(_playbook(project))
    refused = (
        [] if is_said else [_refused(project, problem) for problem in untaken(ledger, project)[:5]]
    )
    yield from refused
    if not refused and (text := foreign_note(project)):
        yield Check("playbook", text)
    yield _windows(ledger, project)
    yield from _speakers(ledger)
    if not is_said and not refused:
        yield from _bullets(ledger, project)


def _trial(ledger: Ledger, project: Project) -> Iterator[Check]:
    if (trial := running(ledger, trial_place(project))) is not None:
        what = ", ".join(trial.data["bullets"]) or "the playbook"
        yield Check(
            "trial",
            f"a trial runs until {trial.data['until'][:10]}: {trial.withheld_share:.0%} of "
            f"sessions do not get {what}",
        )


def _windows(ledger: Ledger, project: Project) -> Check:
    windows = ledger.window_states()
    failed = windows.get("failed", 0) + windows.get("given_up", 0)
    waiting = windows.get("pending", 0) + windows.get("answered", 0)
    if failed:
        text = f"reflector could not judge {counted(failed, 'session part')}"
        return Check("reflections", text, "reflector status")
    if waiting:
        text = f"{counted(waiting, 'session part')} to judge"
        return Check("reflections", text, "reflector reflect", *_draining(project))
    return Check("reflections", f"{counted(sum(windows.values()), 'session part')}, none waiting")


def _speakers(ledger: Ledger) -> Iterator[Check]:
    """Yield the number of messages of the last 30 days with an unknown speaker, by their tag."""
    since = datetime.now(UTC) - _UNKNOWN_SINCE
    after = ledger.position_at(since.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    tags = Counter[str]()
    last = ""
    for window in ledger.events(types=[SESSION_RECORDED], after=after):
        if counts := unknown_speakers(window.facts):
            tags.update(counts)
            last = window.session_id or last
    if not tags:
        return
    listed = ", ".join(f"{tag} {count}" for tag, count in tags.most_common(5))
    what = (
        f"in the last {_UNKNOWN_SINCE.days} days, reflector did not recognise the speaker of "
        f"{counted(tags.total(), 'message')}; number per tag: {listed}"
    )
    text = f"{what}. A judge sees these messages, but they never count as your words"
    yield Check(
        "speakers",
        text,
        f"reflector show {shlex.quote(last[:8])}. If your agent writes one of these tags, report "
        "the tag as a bug",
    )


def _bullets(ledger: Ledger, project: Project) -> Iterator[Check]:
    bullets = ledger.bullets()
    # `add` and edits refuse these, but adopting or importing a file does not ask about them.
    if secrets := [bullet.name for bullet in bullets if secret_kinds(bullet.text)]:
        text = f"{counted(len(secrets), 'rule')} may contain a secret: {', '.join(secrets[:10])}"
        mend = (
            "revoke the secret, remove it from playbook.json, and erase it from the history with "
            "`reflector redact`"
        )
        yield Check("playbook", text, mend)
    elif not bullets and not project.is_users and not watched_lines(ledger):
        yield Check(
            "playbook",
            "the playbook is empty, so sessions cannot cite a rule",
            'reflector add pat "…"',
        )
    elif bullets and not os.path.lexists(project.playbook_json):
        text = f"{project.playbook_json} is missing, so new sessions do not get this playbook"
        yield Check(
            "playbook", text, "write the file again from the ledger with `reflector reflect`"
        )
    else:
        yield Check("playbook", counted(len(bullets), "rule"))


def _beside(project: Project) -> Iterator[Check]:
    """Yield the state of the user's own playbook. If both playbooks have a name, the agent gets the
    project's bullet.
    """
    users_bullets = told_beside(project)
    if users_bullets is None:
        return
    bullets, hidden = users_bullets
    text = f"{counted(bullets, 'rule')} in your own playbook"
    mend = ""
    if hidden:
        text += (
            f". Sessions in this project do not get {', '.join(hidden)}, because the project's "
            "playbook has rules with the same names"
        )
        mend = (
            f"rename the project's rules in {project.playbook_json}: numbers from {USER_FIRST} "
            "belong to your own playbook"
        )
    yield Check("yours", text, mend)


def _spool(project: Project, *, is_known: bool = True) -> Iterator[Check]:
    left = spool.look_into(project.spool_dir)
    if left.failed or left.broken:
        text = (
            f"reflector could not record {counted(len(left.failed), 'hook event')}, and could not "
            f"read {counted(len(left.broken), 'hook event')}"
        )
        yield Check("queue", text, "reflector status")
    elif left.oldest_ns and time.time_ns() - left.oldest_ns > _OLD_BACKLOG_NS:
        pending = counted(left.pending, "hook event")
        text = f"{pending} to read; the oldest has waited for over an hour"
        yield Check("queue", text, "reflector reflect", *(_draining(project) if is_known else ()))
    else:
        pending = counted(left.pending, "hook event")
        yield Check("queue", f"{pending} to read, {counted(left.waiting, 'session')} open")


def _draining(project: Project) -> tuple[str, Callable[[], object]] | tuple[()]:
    """Return the repair that processes waiting sessions; () if it costs money, which only your
    command may spend.
    """
    if project.config.asks_model:
        return ()
    return "records the waiting sessions", partial(drain_project, project)


def _settings(project: Project) -> Iterator[Check]:
    """Yield the settings without an effect, those that turn reflector off, the extensions and the
    judge.
    """
    for key, instead in GONE.items():
        if project.config.layer(key) != "default":
            yield Check("settings", f"{key} is no longer a setting: {instead}", f"remove {key}")
    if file := fast.switched_off_by(str(project.root)):
        is_projects = file == str(project_config(project.root))
        yield Check(
            "settings",
            f"reflector does not record sessions of this project and shows no rules, because "
            f"{file} turns reflector off",
            "reflector on" if is_projects else f"change `enabled` or `off` in {file}",
        )
    if project.config.layer(IGNORED) != "default":
        what = (
            f"reflector ignores ledger_url in {project_config(project.root)}, because a "
            "repository must not choose a ledger"
        )
        yield Check(
            "settings",
            what,
            f"move the line to {locate.user_config()}, or set REFLECTOR_LEDGER_URL",
        )
    extensions_found = [*_extensions(project)]
    yield from extensions_found
    text, mend = described(project.config, project.root)
    if text not in (check.text for check in extensions_found):  # a missing one is named once
        yield Check("backend", text, mend, is_error=bool(mend))


def _extensions(project: Project) -> Iterator[Check]:
    """Yield the installed extensions, and the listed ones that cannot be used."""
    installed = [*extensions.installed()]
    for kind in extensions.KINDS:
        listed: tuple[str, ...] = getattr(project.config, kind)
        for name in listed:
            yield _listed_extension(kind, name)
        for extension in installed:
            if extension.kind == kind and extension.name not in listed:
                state = (
                    extension.refused
                    or f"not loaded, because your setting `{kind}` does not list this extension"
                )
                yield Check(kind, f"{extension.words}: {state}")


def _listed_extension(kind: extensions.Kind, name: str) -> Check:
    """Return whether a listed extension can be used. It is loaded for that."""
    try:
        extension = extensions.find_extension(kind, name)
        if kind == "readers":
            load_reader(extension)
        else:
            extensions.load_extension(extension)
    except extensions.ExtensionError as error:
        fault, _, way_out = str(error).rpartition("; ")
        return Check(kind, fault, way_out, is_error=True)
    return Check(kind, f"{extension.words}, {extension.location}")


def _own_prompt(template: Template, project: Project) -> Check:
    """Return the effect on verdicts of a template that is not ours."""
    said = f"{template.name}: {template.path}"
    allowed = project.config.templates
    if template.name != "reflector.txt" or template.asks_for_quotes:
        return Check("prompt", said)
    if template.counts_unquoted(allowed):
        return Check(
            "prompt",
            f"{said}; this template does not ask the judge for quotes, so verdicts count without "
            "quotes",
        )
    way_out = shlex.join(
        ("reflector", "config", "set", "--global", "templates", *allowed, template.sha256)
    )
    return Check(
        "prompt",
        (
            f"{said}; this template does not ask the judge for quotes, so verdicts do not count "
            "until you allow the template"
        ),
        way_out,
    )


def _prompts(project: Project) -> Iterator[Check]:
    for name in PLACEHOLDERS:
        try:
            template = find_template(name, project.root)
        except TemplateError as refused:
            yield Check("prompt", str(refused), "correct the file or remove it", is_error=True)
        else:
            if template.path.parent != resource_dir("prompts"):
                yield _own_prompt(template, project)
