"""The state of a project: recorded, waiting and failed sessions, and the text that sessions are
shown.

Invariant: reading it records and changes nothing, and uses no network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from reflector import entries
from reflector.audit.dropped import DroppedJson, dropped
from reflector.audit.worked import ModelChange, WorkedModels
from reflector.config import BACKENDS
from reflector.events import event as ev
from reflector.judges.registry import described
from reflector.ledger.errors import LedgerError
from reflector.ledger.sqlite_copy import before_upgrade
from reflector.locate import own_folder, user_folder
from reflector.mistakes import os_error_words
from reflector.playbook.document import load
from reflector.playbook_files.kept_copies import kept_of_others, of_another, read_playbook
from reflector.reflection.gate import Spending, waiting_for_budget
from reflector.sessions import locks, spool
from reflector.sessions.former_shares import former_shares
from reflector.sessions.injection import told_beside
from reflector.sessions.last_session import waiting_proposals
from reflector.sessions.seen_head import missed
from reflector.sessions.told import told_names, told_text
from reflector.text.words import context_tokens

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.project import Project
    from reflector.reflection.trouble import Trouble

#: Returns a command with the given words, as the user would type it for the same playbook.
Command = Callable[..., str]

TROUBLED = frozenset({"failed", "given_up"})
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


# Not frozen: these are printed once, and a frozen class takes three times as long to define at
# each start.
@dataclass
class LedgerJson:
    """The place and the end of the ledger."""

    url: str
    events: int
    head: str
    last_event: str | None
    counting: str


@dataclass
class UpgradeJson:
    """The newest upgrade of the ledger: the time of the copy before it, the copy's schema revision,
    and its file.
    """

    at: str
    revision: str
    file: Path


@dataclass
class UserJson:
    """The rules of your own playbook beside the project's. The `hidden` names mean other rules in
    the project.
    """

    bullets: int
    hidden: list[str]


@dataclass
class MonthJson:
    """The tokens that models used this month in all your projects; `limit` is null for no limit."""

    tokens: int
    limit: int | None


@dataclass
class FailureJson:
    """A window without a judge's answer: the last failure, the time of the next try, and the
    command that asks again.

    asked_by  the command whose question failed: reflect or check
    next_try  null if it is not tried again automatically
    command   null if no command by the session's id can change it
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
    """The text that a session is shown when it starts: its rules, its length, and an estimate of
    its tokens.
    """

    bullets: int
    characters: int
    tokens: int


@dataclass(kw_only=True)
class StatusJson:
    """The recorded, waiting and failed sessions; `ledger` is null before the first event.

    backend_lacks  the missing part of the backend, and how to get it
    off            the settings file that switches the project off; null if it is on
    file_rules     rules of files such as CLAUDE.md that have a name
    sessions       the number of sessions that have a window in each state
    told           null before a text is rendered, and if sessions are shown nothing
    user           null if you have no playbook of your own
    month          null if its record cannot be read
    dropped        helpful and harmful verdicts of the last 30 days that do not count, newest first
    model          the change of your agent to another model in the last 30 days; null without one
    trial          the state of a running trial, or of one that is open elsewhere; null without one
    upgrade        null without a copy from before an upgrade
    """

    project: str
    off: str | None = None
    backend: str
    backend_lacks: str | None
    ledger: LedgerJson | None = None
    bullets: int = 0
    file_rules: int = 0
    told: StartJson | None
    user: UserJson | None
    problems: list[str]
    windows: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    proposals: int = 0
    spool: spool.Spool
    month: MonthJson | None = None
    waiting_for_budget: int = 0
    failures: list[FailureJson] = field(default_factory=list)
    dropped: list[DroppedJson] = field(default_factory=list)
    trial: str | None = None
    model: ModelChange | None = None
    upgrade: UpgradeJson | None = None
    #: A line for each rule with counts that an upgrade changed; not in JSON.
    changed: list[str] = field(default_factory=list, repr=False)

    @property
    def is_troubled(self) -> bool:
        """Whether something failed or could not be understood."""
        has_failed = bool(self.failures or TROUBLED & self.windows.keys())
        return has_failed or bool(self.spool.failed or self.spool.broken or self.problems)


@dataclass
class OwnJson:
    """A ledger of yours: whether its project still has it (`is_there`), and the number of `events`
    in its copy.
    """

    project: str
    is_there: bool
    events: int
    waiting: int
    written_at: str | None


def own_ledgers() -> Iterator[OwnJson]:
    """Yield your ledgers, one for each project."""
    for entry in entries.entries():
        root = Path(entry.root)
        copy = Path(own_folder(entry.root), "events.ndjson")
        written_at = _second(copy.stat().st_mtime) if copy.exists() else None
        state = root / ".claude" / "reflector"
        yield OwnJson(
            entry.root,
            is_there=(state / "ledger.db").exists(),
            events=entries.copy_end(root).position,
            waiting=spool.look_into(state / "spool").pending,
            written_at=written_at,
        )


def _second(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat()[:19] + "Z"


def overview(project: Project, command: Command, off: str) -> StatusJson:
    """Return the state of a project.

    command  returns a command with the given words, as you would type it
    off      the settings file that switches the project off, "" for none

    Raises: ConfigError.
    """
    text = "" if off else told_text(project.root)
    users_bullets = told_beside(project)
    backend, way_out = described(project.config, project.root)
    state = StatusJson(
        project=str(project.root),
        off=off or None,
        backend=project.config.backend,
        backend_lacks=f"{backend}; {way_out}" if way_out else None,
        told=StartJson(len(told_names(text)), len(text), context_tokens(text)) if text else None,
        user=UserJson(*users_bullets) if users_bullets else None,
        problems=list(_problems(project)),
        spool=spool.look_into(project.spool_dir),
    )
    if project.has_ledger():
        try:
            with project.open_ledger() as ledger:
                _Reading(project, ledger, command).fill(state)
        except LedgerError as error:
            # The waiting sessions matter most if the ledger cannot be opened.
            state.problems.append(str(error))
    if state.ledger is None:
        state.month = month_of(None, project)
    return state


def _problems(project: Project) -> Iterator[str]:
    """Yield the reasons why the project's or your playbook.json cannot be read, or the ledger
    cannot be written.
    """
    own_file = Path(user_folder()).absolute() / ".claude" / "playbook.json"
    for path in dict.fromkeys((project.playbook_json, own_file)):
        yield from _file_problems(path)
    # Otherwise the command is shown that restores the events of a lost export.
    if not entries.lost_exports(project.root):
        yield from (of_another(project.playbook_json, kept) for kept in kept_of_others(project))
    if not project.config.ledger_url and (reason := locks.why_none(project.state_dir)):
        yield f"{reason}; see `reflector doctor`"


def _file_problems(path: Path) -> Iterator[str]:
    try:
        raw = read_playbook(path)
    except OSError as error:
        yield os_error_words(error)
        return
    if raw is None:
        return
    loaded = load(raw)
    # Only the ledger shows whether it wrote a file that is not a playbook.
    if loaded.format != "foreign":
        yield from (f"{path}: {problem}" for problem in loaded.problems)


@dataclass
class _Reading:
    """A project's ledger, read for its overview."""

    _project: Project
    _ledger: Ledger
    _command: Command

    def fill(self, state: StatusJson) -> None:
        """Fill a state with the ledger's facts."""
        project = self._project
        ledger = self._ledger
        head = ledger.head()
        state.ledger = LedgerJson(
            url=str(project.ledger_file) if ledger.only_reads else ledger.engine.url.public,
            events=head.position,
            head=head.chain,
            last_event=head.recorded_at if head.position else None,
            counting=ledger.counting(),
        )
        rules = Counter(row.status for row in ledger.rows())
        state.bullets = rules["live"]
        state.file_rules = rules["watched"]
        state.windows = ledger.window_states()
        state.sessions = ledger.session_states()
        state.month = month_of(ledger, project)
        state.upgrade = self._upgrade()
        state.changed = former_shares(project, ledger)
        state.trial = self._trial()
        state.failures = [*self._failures(state.windows), *self._unchecked()]
        if lost := missed(project, ledger):
            state.problems.append(f"{lost.message}; {lost.remedy}")
        state.proposals = waiting_proposals(ledger)
        if "skipped" in state.windows:
            state.waiting_for_budget = len(waiting_for_budget(ledger))
        month_ago = (datetime.now(UTC) - timedelta(days=30)).strftime(_TIME)
        if ledger.has(ev.REFLECTION_ANSWERED):
            state.dropped = dropped(ledger, month_ago)
        state.model = WorkedModels(ledger).change(month_ago)
        # The last question has already recorded the file that it saw.
        if not spool.was_seen(project, spool.current_state(project, ledger)):
            from reflector.playbook_files.playbook_json import untaken

            problems = [f"{project.playbook_json}: {fault}" for fault in untaken(ledger, project)]
            state.problems += [text for text in problems if text not in state.problems]

    def _upgrade(self) -> UpgradeJson | None:
        """Return the copy that the newest upgrade left beside a SQLite ledger; None without one."""
        url = self._ledger.engine.url
        before = before_upgrade(Path(url.database)) if url.is_file else None
        if before is None:
            return None
        return UpgradeJson(_second(before.copied_at), before.revision, before.file)

    def _trial(self) -> str | None:
        if not self._ledger.has(ev.TRIAL_OPENED):
            return None
        from reflector.trials.trial import ELSEWHERE, current_status, trial_place

        trial = current_status(self._ledger, trial_place(self._project))
        if trial is None or trial.state == "closed":
            return None
        return ELSEWHERE if trial.state == "elsewhere" else trial.sentence

    def _failures(self, windows: Mapping[str, int]) -> Iterator[FailureJson]:
        """Yield the windows whose reflection failed."""
        if not TROUBLED & windows.keys():
            return
        from reflector.reflection.trouble import trouble_of

        for window in self._ledger.windows_in(*TROUBLED):
            trouble = trouble_of(self._ledger.targeting(window.event_id))
            if trouble is not None:
                yield self._failure(window, trouble)

    def _failure(self, window: WindowRow, trouble: Trouble) -> FailureJson:
        """Return the failure of a window, with its next try and the command that tries again."""
        config = self._project.config
        backend = str(trouble.last.fact("backend"))
        is_anothers = backend != config.backend and backend in (*BACKENDS, *config.judges)
        is_over = trouble.is_over(config.max_attempts)
        is_tried_again = window.state == "failed" and not is_anothers and not is_over
        judge = backend if is_anothers else ""
        return FailureJson(
            asked_by="reflect",
            session_id=window.session_id,
            attempts=window.attempts,
            command=self._way_out(window, trouble, judge),
            window_id=window.event_id,
            state=window.state,
            next_try=trouble.next_try.strftime(_TIME) if is_tried_again else None,
            **_last_failure(trouble),
        )

    def _way_out(self, window: WindowRow, trouble: Trouble, judge: str) -> str | None:
        """Return the command that asks the judge again about a window. If the window's text was
        erased, it is the command that gives the session up.

        None for a window that was already given up and cannot be asked about again: its text was
        erased, or it has no session id for `reflect`.
        """
        from reflector.reflection.trouble import REDACTED

        is_given_up = window.state != "failed"
        session = quote(window.session_id) if window.session_id is not None else ""
        is_erased = session != "" and trouble.stage == REDACTED
        if is_given_up and (is_erased or not session):
            return None
        if is_erased:
            return self._command("review give-up", session, "--why redacted")
        named = ("--judge", judge) if judge else ()
        return self._command("reflect", *filter(None, [session]), *named)

    def _unchecked(self) -> Iterator[FailureJson]:
        """Yield the windows about which `check` did not get an answer."""
        if not self._ledger.has(ev.REFLECTION_FAILED):
            return
        from reflector.reflection.checking import unanswered

        config = self._project.config
        for window, trouble in unanswered(self._ledger):
            facts = trouble.last.facts
            judge = str(facts.get("client") or facts.get("backend"))
            named = ("--judge", judge) if judge != config.backend else ()
            again = ("--retry-failed",) if trouble.is_over(config.max_attempts) else ()
            yield FailureJson(
                asked_by="check",
                session_id=window.session_id,
                attempts=trouble.attempts,
                command=self._command("check", *named, *again, "--yes"),
                window_id=window.event_id,
                state="failed",
                next_try=None,
                **_last_failure(trouble),
            )


def _last_failure(trouble: Trouble) -> dict[str, Any]:
    """Return the fields of a FailureJson that are about the last failure."""
    last = trouble.last
    facts = {key: last.fact(key) for key in ("backend", "stage", "message")}
    return {"position": last.position, "failed_at": last.recorded_at, **facts}


def month_of(ledger: Ledger | None, project: Project) -> MonthJson | None:
    """Return the tokens that models used this month; None if their record cannot be read."""
    try:
        tokens = Spending().total("", 0) if ledger is None else Spending().month(ledger)
    except OSError:
        return None
    return MonthJson(tokens, project.config.monthly_tokens or None)
