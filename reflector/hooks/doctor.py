"""What `reflector doctor` looks at: everything between the agent and the playbook, each with what mends it.

Invariant: looking changes nothing and costs little: no file is made, no migration runs, no network is asked, no key is
shown. A check that cannot be made is a finding, never an exception.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from reflector import locate
from reflector.config import BACKENDS, ConfigError
from reflector.curation.adoption import kept_of_others, read
from reflector.curation.mirrors import mirrors
from reflector.curation.playbook_file import untaken
from reflector.curation.sharing import is_shared, version_in_git
from reflector.hooks import git_setup
from reflector.hooks.agents import AGENTS
from reflector.hooks.citus import checks_of_citus
from reflector.hooks.git_setup import driver_of
from reflector.hooks.mending import Fix, close_to_others, left_behind, open_to_others, remove
from reflector.hooks.reach import Check, State, checks_of_hooks, missing_program
from reflector.hooks.schemas import checks_of_schemas
from reflector.hooks.unread import checks_of_unread, is_regular, read_only
from reflector.ledger.errors import LedgerError
from reflector.ledger.migration import HEAD_REVISION
from reflector.ledger.sqlite_file import SOUND_SQLITE, sqlite_module
from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.playbook.document import load
from reflector.playbook.names import USER_FIRST
from reflector.project import Project
from reflector.reflection.backends import described
from reflector.reflection.prompts import PLACEHOLDERS, TemplateError, find_template
from reflector.resources import resource_dir
from reflector.sessions import locks, spool
from reflector.sessions.seen_head import missed
from reflector.sessions.user_playbook import told_beside
from reflector.text.secrets import found

_LITTLE_SPACE = 200 * 2**20
_OLD_BACKLOG_SECONDS = 3600
_OTHER_LEDGER = "name a ledger on a local disk (sqlite:////path/to/ledger.db) or a PostgreSQL server with `ledger_url`"


def examine(project: Project) -> Iterator[Check]:
    """Yield every check of a project, from the interpreter to the hooks."""
    parts = (_software, _files, _playbook, _git, _ledger, _beside, _spool, checks_of_hooks, _backend, _prompts)
    yield from _each(project, parts)


def examine_without_settings(project: Project, refused: ConfigError) -> Iterator[Check]:
    """Yield why a project's settings are refused, and the checks that need none: not which ledger and which judge it
    has, and nothing that would be processed by them."""
    what, _, way_out = str(refused).rpartition("; ")
    yield Check("settings", "error", f"{what}; the ledger and the backend are not checked until then", way_out)
    parts = (_software, _files, _playbook, _git, _waiting, checks_of_hooks, _prompts)
    yield from _each(project, parts)


def _each(project: Project, parts: Sequence[Callable[[Project], Iterator[Check]]]) -> Iterator[Check]:
    for part in parts:
        try:
            yield from part(project)
        except OSError as error:
            yield Check("files", "error", f"{error.filename or ''}: {error.strerror}", "check that it is yours to read")


def _software(_: Project) -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", "ok", f"{python} ({sys.executable})")
    module = sqlite_module()
    version = ".".join(map(str, module.sqlite_version_info))
    if module.sqlite_version_info < SOUND_SQLITE:
        sound = ".".join(map(str, SOUND_SQLITE))
        yield Check(
            "sqlite",
            "warning",
            f"{version}: before {sound} a checkpoint that races a writer can lose a commit; reflector checkpoints "
            "under its lock, other programs on the file do not",
            f"{sys.executable} -m pip install pysqlite3, or use a newer Python",
        )
    else:
        yield Check("sqlite", "ok", f"{version} ({'the interpreter' if module is sqlite3 else 'pysqlite3'})")


def _files(project: Project) -> Iterator[Check]:
    state = project.state_dir
    yield from _place(project)
    settings = [path for agent in AGENTS.values() for path in agent.paths(project.root).values()]
    if left := left_behind(project, settings):
        fix = Fix(f"removes {_counted(len(left), 'temporary file')}", partial(remove, project, left))
        text = f"{left[0]}{f' and {len(left) - 1} more' if len(left) > 1 else ''}: left by a command that was killed"
        yield Check("leftovers", "warning", text, f"rm {left[0]}", fix)
    claude = project.playbook_json.parent
    if claude.exists() and not os.access(claude, os.W_OK):
        text = f"{claude} cannot be written, so playbook.json is not kept up to date"
        yield Check("files", "error", text, f"chmod u+w {claude}")
    if not state.exists():
        yield Check("state", "ok", f"{state} does not exist yet; it is created with the ledger")
        return
    open_ = [path for path in (state, project.ledger_file, project.spool_dir) if open_to_others(path)]
    if open_:
        names = " ".join(str(path) for path in open_)
        fix = Fix("takes them, and all below, from everybody but you", partial(close_to_others, *open_))
        yield Check("permissions", "warning", f"others may read {names}", f"chmod -R go= {names}", fix)
    else:
        yield Check("permissions", "ok", f"{state} is yours alone")
    if reason := locks.why_none(state):
        text = f"no file can be locked in {state} ({reason})"
        if project.config.ledger_url:
            yield Check("locks", "ok", f"{text}; files among the temporary ones of this machine are locked instead")
        else:
            yield Check("locks", "error", f"{text}, so its ledger cannot be written", _OTHER_LEDGER)
    free = shutil.disk_usage(state).free
    text = f"{free / 2**30:.1f} GiB free"
    if free < _LITTLE_SPACE:
        yield Check("disk", "error", f"{text} for {state}", "make room: what cannot be written is not counted")
    else:
        yield Check("disk", "ok", text)


def _place(project: Project) -> Iterator[Check]:
    """Yield which project it is, and what else lies in its repository that would keep sessions from it."""
    root = project.root.resolve().as_posix()
    linked = locate.worktrees(root)
    text = str(project.root)
    if linked:
        text += f"; {_counted(len(linked), 'linked worktree')} {'counts' if len(linked) == 1 else 'count'} here too"
    apart = [path for path in linked if locate.is_project(path) and _has_ledger(path)]
    outer = locate.find_project(str(Path(root).parent.as_posix()), Path.home().resolve().as_posix())
    if outer != root and locate.is_project(outer) and not project.playbook_json.exists() and _has_ledger(root):
        mend = f"rm -r {project.state_dir}, then reflector import-history; if it has bullets, see docs/git.md first"
        yield Check("project", "warning", f"{text} has a ledger without a playbook inside the project {outer}", mend)
    elif project.config.worktrees == "own" and linked:
        yield Check("project", "ok", f"{project.root}; linked worktrees have ledgers of their own")
    elif apart:
        yield Check(
            "project",
            "warning",
            f"{text}, but a ledger of its own lies in {', '.join(apart)}",
            "merge it, then remove it, as docs/git.md says",
        )
    else:
        yield Check("project", "ok", text)


def _has_ledger(root: str) -> bool:
    return (Path(root) / ".claude" / "reflector" / "ledger.db").exists()


def _playbook(project: Project) -> Iterator[Check]:
    """Yield why playbook.json cannot be read, and the copies of it that another ledger wrote."""
    raw = read(project.playbook_json)
    for problem in load(raw).problems[:5] if raw is not None else ():
        yield _refused(project, problem)
    for kept in kept_of_others(project):
        text = f"playbook.json was written by another ledger, or by a later state of this one; kept as {kept}"
        mend = f"reflector restore BACKUP, or reflector import-history; then reflector import {kept}, and remove it"
        yield Check("playbook", "warning", text, mend)


def _refused(project: Project, problem: Finding) -> Check:
    return Check("playbook", "error", f"{project.playbook_json}, {problem.where}: {problem.message}", problem.remedy)


def _git(project: Project) -> Iterator[Check]:
    """Yield whether playbook.json can be shared through git without conflicts over counts."""
    if is_shared(project.root):
        driver = driver_of(project.root)
        fix = Fix("sets the merge driver in this clone's git configuration", partial(git_setup.install, project.root))
        if driver is None:
            text = "playbook.json is shared, but this clone merges it line by line"
            yield Check("git", "warning", text, "reflector install --git", fix)
        elif (gone := missing_program(driver)) is not None:
            text = f"{gone} is gone, so git cannot merge playbook.json"
            yield Check("git", "warning", text, "reflector install --git", fix)
        else:
            yield Check("git", "ok", "playbook.json is shared without counters, and merged bullet by bullet")
    elif version_in_git(project.root) is not None:
        text = "playbook.json is committed with its counters, which conflict between clones"
        yield Check("git", "warning", text, "reflector install --git")


def _ledger(project: Project) -> Iterator[Check]:
    if came := project.came_with():
        yield Check("ledger", "error", came, "decide whose it is; the spool keeps what comes meanwhile")
        return
    if not project.has_ledger():
        yield Check("ledger", "ok", "none yet; `reflector add` begins it, or a session that has a playbook")
        return
    if (found := _revision(project)) is not None:
        yield found
        if found.state == "error":
            return
    try:
        with project.open_ledger() as ledger:
            yield from _open_ledger(ledger, project)
    except LedgerError as error:
        what, _, way_out = str(error).partition("; ")
        yield Check("ledger", "error", what, way_out or "reflector verify")


def _revision(project: Project) -> Check | None:
    """The schema's revision, read without a migration; None for a ledger on a server, and where no ledger can be."""
    if project.config.ledger_url or not is_regular(project.ledger_file):
        return None
    try:
        with read_only(project.ledger_file) as connection:
            revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    except (sqlite3.Error, TypeError, UnicodeDecodeError):  # opening it says why
        return None
    if revision == HEAD_REVISION:
        return Check("schema", "ok", f"revision {revision}")
    if str(revision) > HEAD_REVISION:
        return Check("schema", "error", f"revision {revision} is newer than this reflector", "upgrade reflector")
    return Check(
        "schema", "warning", f"revision {revision} is older than {HEAD_REVISION}", "the next command upgrades it"
    )


def _open_ledger(ledger: Ledger, project: Project) -> Iterator[Check]:
    from reflector.proof.verify import wrong_triggers

    if ledger.engine.dialect == "postgresql":
        yield from checks_of_citus(ledger)
        yield from checks_of_schemas(ledger)
    head = ledger.head()
    yield Check("ledger", "ok", f"{_counted(head.position, 'event')}, head {head.chain[:20]}…")
    yield from checks_of_unread(ledger, project)
    if (lost := missed(project, ledger)) is not None:
        yield Check("head", "error", str(lost), lost.remedy)
    if wrong := wrong_triggers(ledger):
        names = ", ".join(wrong)
        yield Check("triggers", "error", f"missing or changed: {names}", "reflector verify --mend-triggers")
    else:
        yield Check("triggers", "ok", "changes of history are refused by the database")
    if ledger.engine.dialect == "sqlite":
        with ledger.engine.connection() as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        is_wal = mode == "wal"
        yield Check(
            "journal", "ok" if is_wal else "error", f"mode {mode}", "" if is_wal else "put the ledger on a local disk"
        )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if head.position and head.recorded_at[:19] > now:
        yield Check(
            "clock",
            "warning",
            f"the last event is from {head.recorded_at[:19]}, which is to come: the clock was set back",
            "set the clock if it is wrong now; positions, not times, order the events, so no count is wrong",
        )
    else:
        yield Check("clock", "ok", f"{now} UTC")
    for mirror in mirrors(ledger, project):
        state: State = "warning" if mirror.trouble else "ok"
        yield Check(
            "mirror", state, f"{mirror.name}: {mirror.trouble or mirror.state}", "correct it" if mirror.trouble else ""
        )
    # What the file says by itself has a row of its own.
    is_told = any(_playbook(project))
    refused = [] if is_told else [_refused(project, problem) for problem in untaken(ledger, project)[:5]]
    yield from refused
    yield from _windows(ledger, project)
    if not is_told and not refused:
        yield from _bullets(ledger, project)


def _windows(ledger: Ledger, project: Project) -> Iterator[Check]:
    windows = ledger.window_states()
    failed = windows.get("failed", 0) + windows.get("given_up", 0)
    waiting = windows.get("pending", 0) + windows.get("answered", 0)
    if failed:
        yield Check("reflections", "warning", f"{failed} failed", "reflector failures")
    elif waiting:
        yield Check(
            "reflections",
            "warning",
            f"{waiting} {'waits' if waiting == 1 else 'wait'} to be judged",
            "reflector drain",
            _draining(project),
        )
    else:
        yield Check("reflections", "ok", f"{_counted(sum(windows.values()), 'session window')}, none open")


def _bullets(ledger: Ledger, project: Project) -> Iterator[Check]:
    bullets = ledger.bullets()
    # `add` and edits refuse these; a file that is adopted or imported does not wait for an answer.
    secrets = [bullet.name for bullet in bullets if found(bullet.text)]
    if secrets:
        yield Check(
            "playbook",
            "warning",
            f"{_counted(len(secrets), 'bullet')} with what looks like a secret: {', '.join(secrets[:10])}",
            "take it out of playbook.json, erase it with `reflector redact`, and change the secret",
        )
    elif not bullets and not project.is_users:
        yield Check("playbook", "warning", "it is empty: nothing can be cited", 'reflector add pat "…"')
    elif bullets and not os.path.lexists(project.playbook_json):
        text = f"{project.playbook_json} is missing: a session that starts now is told nothing of this playbook"
        yield Check("playbook", "warning", text, "write it again from the ledger with `reflector drain`")
    else:
        yield Check("playbook", "ok", _counted(len(bullets), "bullet"))


def _beside(project: Project) -> Iterator[Check]:
    """Yield the state of the user's own playbook; of a name that both have, the agent gets the project's bullet."""
    beside = told_beside(project)
    if beside is None:
        return
    text = f"{_counted(beside.bullets, 'bullet')} of your own beside the project's"
    if not beside.hidden:
        yield Check("yours", "ok", text)
        return
    names = ", ".join(beside.hidden)
    yield Check(
        "yours",
        "warning",
        f"{text}; not shown here, because the project gave their names to others: {names}",
        f"give them other names in {project.playbook_json}; those of your own begin at {USER_FIRST}",
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _deliveries(number: int) -> str:
    return f"{number:,} {'delivery' if number == 1 else 'deliveries'}"


def _spool(project: Project) -> Iterator[Check]:
    return _waiting(project, _draining(project))


def _waiting(project: Project, fix: Fix | None = None) -> Iterator[Check]:
    counts = spool.counts(project.spool_dir)
    if counts.failed or counts.broken:
        text = f"{_deliveries(counts.failed)} failed, {counts.broken} could not be understood"
        yield Check("spool", "warning", text, "reflector status")
    elif counts.oldest_ns and time.time_ns() - counts.oldest_ns > _OLD_BACKLOG_SECONDS * 1_000_000_000:
        text = f"{_deliveries(counts.pending)} waiting for over an hour"
        yield Check("spool", "warning", text, "reflector drain", fix)
    else:
        yield Check("spool", "ok", f"{counts.pending} pending, {_counted(counts.waiting, 'session')} open")


def _draining(project: Project) -> Fix | None:
    """Return how what waits is processed; what costs money waits for a person's command."""
    if BACKENDS[project.config.backend]:
        return None
    return Fix("processes what waits", partial(_drain, project))


def _drain(project: Project) -> None:
    from reflector.sessions.pipeline import drain

    drain(project)


def _backend(project: Project) -> Iterator[Check]:
    text, mend = described(project.config, project.root)
    yield Check("backend", "error" if mend else "ok", text, mend)


def _prompts(project: Project) -> Iterator[Check]:
    packaged = 0
    for name in PLACEHOLDERS:
        try:
            template = find_template(name, project.root)
        except TemplateError as error:
            yield Check("prompt", "error", str(error), "correct the file or remove it")
            continue
        if template.path.parent == resource_dir("prompts"):
            packaged += 1
        else:
            yield Check("prompt", "ok", f"{name}: {template.path}")
    if packaged:
        yield Check("prompt", "ok", f"{packaged} of {len(PLACEHOLDERS)} templates are the ones that ship")
