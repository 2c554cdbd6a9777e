"""The drain: moves sessions from the spool into the ledger, and writes the ledger's playbook to
playbook.json.

Invariant: a delivery is settled after its content is committed. If it cannot be recorded, it is
kept with its error. So if a drain is killed at any point, the next one does the rest, and recording
the same delivery again adds nothing. One process at a time drains a project. If another process
finds the lock held, it can leave, because the holder checks the spool once more after it released
the lock.

The user's own edits are recorded first, and playbook.json is written once, at the end. A transcript
goes into the project's ledger, then into the user's, and then its delivery is settled. After a
crash in between, the delivery is recorded again and adds only the missing part. Locks are taken in
one order: the project's first, then the user's for one step at a time. If the user's playbook
cannot be opened, the delivery waits in the spool with this error, and the project's counts do not
wait for it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import ConfigError
from reflector.events.event import LESSON_RECORDED, TRIAL_OPENED
from reflector.handover import TRIAL
from reflector.ledger.errors import LedgerError
from reflector.locate import home_folder, own_folder, user_folder
from reflector.memory.places import has_changed
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.git_versions import is_shared
from reflector.playbook_files.kept_copies import FOREIGN, of_another
from reflector.playbook_files.mirrors import Mirrors
from reflector.playbook_files.playbook_json import FileState, known, sync
from reflector.project import Project
from reflector.sessions import locks, seen_head, spool
from reflector.sessions.injection import keep_ranks, told_by_hook, write_injection
from reflector.sessions.last_session import leave_last_session, leave_waiting, waiting_proposals
from reflector.text.phrases import counted

# The code that records and judges sessions is imported inside functions: a command that adds or
# shows rules does not need it.
if TYPE_CHECKING:
    from reflector.counts.rules import RuleSet
    from reflector.judges.protocol import Backend
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.reflection.recorder import Reflected
    from reflector.reflection.runner import Retry, Runner
    from reflector.sessions.intake import Source, Taken, WindowMode
    from reflector.sessions.loaded import LoadedRules
    from reflector.sessions.spool import Delivery
    from reflector.transcripts.message import Message
    from reflector.transcripts.reading import Scan

#: The pauses in seconds of a drain in the background while the ledger's server is away: together
#: five minutes. A cluster has another primary within one minute. If the server stays away longer,
#: the next drain tries again.
OUTAGE_PAUSES = (1, 2, 4, 8, 15, 30, 60, 60, 60, 60)
_TROUBLE = (LedgerError, ConfigError, OSError)


@dataclass(slots=True)
class Drained:
    """The work of a drain, with notes for the user; `ran` is false if another one was at work.

    recorded  deliveries that brought something new; `empty` ones brought nothing
    failed    deliveries that were set aside
    """

    ran: bool = True
    recorded: int = 0
    empty: int = 0
    reflected: list[Reflected] = field(default_factory=list)
    failed: list[spool.Failed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def drain_for_hook(project: str) -> int | None:
    """Return the exit code of a drain in the background. None after an error, because the command
    line meets the same error and has the text and the exit code for it.

    While the ledger's server is away, for example in a failover, one drain of the project waits for
    it.
    """
    try:
        root = Path(project).absolute()
        if not root.is_dir():
            return None
        drained = _drain_patiently(Project.at(root))
    except Exception:  # noqa: BLE001
        return None
    return 1 if drained is not None and drained.failed else 0


def _drain_patiently(project: Project) -> Drained | None:
    from reflector.ledger.errors import LedgerAway

    for pause in OUTAGE_PAUSES:
        try:
            return drain_project(project)
        except LedgerAway:
            # Held only for the pause: the holder looks into the spool after the others returned.
            with locks.held(project.state_dir, "away.lock", wait=False) as is_held:
                if not is_held:
                    return None
                time.sleep(pause)
    return drain_project(project)


def drain_project(
    project: Project, *, wait: bool = False, retry: Retry = "due", confirmed: int | None = None
) -> Drained | None:
    """Process the spool and finish pending work; return None if another process is at it and `wait`
    is False. A project without any of our files stays untouched.

    retry      the failed reflections to try again; "all" also tries failed deliveries again, which
               otherwise wait until their pause is over
    confirmed  for `ask_model` of this project; the user's playbook keeps to the limit of a day

    Raises:
        LedgerError: the delivery stays in the spool
        PlaybookRefused, ConfigError: the playbook or the settings cannot be used
    """
    drained = Drained()
    if spool.is_untouched(project):
        return drained
    recorded: set[Path] = set()
    round_retry = retry
    is_first = True
    while True:
        with open_pipeline(project, wait=wait, drained=drained) as pipeline:
            if pipeline is None:
                # The holder of the lock looks into the spool once more after releasing it.
                return drained if drained != Drained() else None
            if is_first and has_changed(project):
                from reflector.sessions.memory_drain import record_memory

                pipeline.note(*record_memory(project, pipeline.ledger))
            recorded |= _take_deliveries(pipeline, round_retry, completes=is_first)
            projects = pipeline.asking_model()
        is_first = False
        round_retry = "due"
        # A delivery that is still pending after it was settled is left to the next drain.
        pending = spool.pending_for(project.root)
        if all(delivery.path in recorded for delivery in pending):
            break
    for asking in projects:
        agreed = confirmed if asking is project else None
        asked = ask_model(asking, retry=retry, wait=wait, confirmed=agreed)
        leave_last_session(asking.root, asked.reflected)
        drained.reflected += asked.reflected
        drained.notes += asked.notes
    return drained


def _take_deliveries(pipeline: Pipeline, retry: Retry, *, completes: bool = False) -> set[Path]:
    """Record the deliveries of the spool, finish pending work, and write playbook.json; return the
    deliveries' paths.

    completes  whether to complete sessions whose last answer was missing when an earlier drain
               recorded them

    Raises: as `drain_project` does.
    """
    from reflector.reflection.recorder import Reflected

    root = pipeline.project.root
    drained = pipeline.drained
    spool.tidy(root, everything=retry == "all")
    if completes:
        for delivery in spool.pending_for(root, "unanswered", drained.failed):
            _complete(pipeline, delivery)
    open_sessions = _claim_stops(pipeline)
    deliveries = spool.pending_for(root, aside=drained.failed)
    for delivery in deliveries:
        _take_delivery(pipeline, delivery)
    _take_undelivered(pipeline, open_sessions | {delivery.session_id for delivery in deliveries})
    pipeline.finish(retry=retry)
    pipeline.waiting = waiting_proposals(pipeline.ledger, sweeps=True)
    pipeline.write()
    waiting = []
    if drained.recorded and pipeline.project.config.asks_model:
        # The model is asked when the project is free again.
        for window in pipeline.ledger.open_windows():
            waiting.append(Reflected(window.session_id, window.event_id, "waiting"))
    leave_last_session(root, [*pipeline.reflected, *waiting])
    return {delivery.path for delivery in deliveries}


def _claim_stops(pipeline: Pipeline) -> set[str | None]:
    """Make the last Stop of each session pending if the session is idle or its client has ended.
    Return the other sessions with a Stop.
    """
    from reflector.sessions import ends

    project = pipeline.project
    now = time.time_ns()
    oldest = now - project.config.idle_minutes * 60_000_000_000
    open_sessions: set[str | None] = set()
    for stop in spool.pending_for(project.root, "waiting", pipeline.drained.failed):
        if not oldest < stop.received_at_ns <= now or ends.is_gone(stop):
            spool.claim(stop)
        else:
            open_sessions.add(stop.session_id)
    return open_sessions


def _take_undelivered(pipeline: Pipeline, busy: set[str | None]) -> None:
    """Record the sessions that ended without a delivery, except the busy ones."""
    from reflector.sessions import ends

    for source in ends.undelivered(pipeline.project, pipeline.ledger, busy):
        # The session has no delivery, so the next drain tries it again.
        with suppress(OSError, ValueError):
            _take(pipeline, source)


def _take(pipeline: Pipeline, source: Source) -> Taken:
    """Record a transcript, as new as its agent has it."""
    from reflector.sessions.opencode_store import refresh_export

    refresh_export(source.path)
    taken = pipeline.take(source)
    pipeline.drained.recorded += taken.event_id is not None
    return taken


def _take_delivery(pipeline: Pipeline, delivery: Delivery) -> None:
    """Record the session of a delivery, then settle the delivery, or keep it with the failure."""
    from reflector.sessions import ends
    from reflector.sessions.intake import source_of
    from reflector.sessions.opencode_store import StoreRefused

    source = source_of(delivery)
    is_new = False
    finish: Callable[[Delivery], None] = spool.settle_delivery
    if source is not None:
        try:
            taken = _take(pipeline, source)
            is_new = taken.event_id is not None
            finish = ends.settling(delivery, taken.scan)
        except (OSError, ValueError) as error:
            is_refused = isinstance(error, StoreRefused)
            if is_refused or not ends.is_without_words(pipeline.ledger, delivery, source.path):
                reason = getattr(error, "strerror", None) or str(error)  # shown after the path
                pipeline.drained.failed.append(spool.Failed(str(source.path), reason))
                spool.fail(delivery.path, delivery.path.parent, error)
                return
            # A client may write a subagent's transcript after its end.
            if delivery.event in ("SessionEnd", "SubagentStop") and not source.path.exists():
                finish = spool.keep_silent
    pipeline.drained.empty += not is_new
    finish(delivery)


def _complete(pipeline: Pipeline, delivery: Delivery) -> None:
    """Record the last answer of a session: from its transcript if the answer is there now, else
    from its Stop.
    """
    try:
        is_missing = _retake(pipeline, delivery)
        if is_missing:
            _take_answer(pipeline, delivery)
    except (OSError, ValueError) as error:
        pipeline.drained.notes.append(
            f"the last answer in session {delivery.session_id} is not recorded: {error}"
        )
        return
    spool.settle_delivery(delivery)


def _retake(pipeline: Pipeline, delivery: Delivery) -> bool:
    """Record the new records of a delivery's transcript; return whether it lacks the answer."""
    from reflector.sessions import ends
    from reflector.sessions.intake import source_of

    source = source_of(delivery)
    if source is None:
        return True
    try:
        taken = _take(pipeline, source)
    except FileNotFoundError:
        return True
    return ends.lacks(taken.scan, ends.answer_of(delivery))


def _take_answer(pipeline: Pipeline, delivery: Delivery) -> None:
    from reflector.sessions import ends

    source = ends.answer_source(pipeline.project.root, pipeline.ledger, delivery)
    if source is not None:
        _take(pipeline, source)


@contextmanager
def open_pipeline(
    project: Project,
    *,
    wait: bool = True,
    write: bool = True,
    drained: Drained | None = None,
    opened: Ledger | None = None,
) -> Iterator[Pipeline | None]:
    """Hold the project's lock and open its ledger, unless it is open. Yield None if another process
    holds the lock and `wait` is False.

    Edits of playbook.json are recorded first, so that a session can cite them. The files are
    written last, playbook.json itself only if `write`. A question to a ledger that is only readable
    records nothing.

    Raises:
        LedgerError, PlaybookRefused, ConfigError: the ledger, the playbook or the settings cannot
            be used
    """
    with locks.held(project.make_state_dir(), "drain.lock", wait=wait) as is_held:
        if not is_held:
            yield None
            return
        with ExitStack() as closing:
            ledger = opened
            if ledger is None or not project.is_in_place(ledger):
                ledger = closing.enter_context(project.open_ledger())
            pipeline = Pipeline(project, ledger, Drained() if drained is None else drained)
            if not project.is_users and _has_users_playbook():
                pipeline.users = Users(pipeline, closing)
            if not write and not ledger.may_append():
                pipeline.only_reads = True
                yield pipeline
                return
            pipeline.adopt(file=write)
            if lost := seen_head.missed(project, ledger):
                pipeline.note(f"{lost.message}; {lost.remedy}")
            yield pipeline
            if lost and not seen_head.missed(project, ledger):  # an import brought them back
                pipeline.notes.remove(f"{lost.message}; {lost.remedy}")
                lost = None
            if not pipeline.is_written:
                pipeline.write(file=write)
            if not lost:
                seen_head.keep_head(project, ledger)
            _leave_waiting(pipeline)


def _leave_waiting(pipeline: Pipeline) -> None:
    """Leave the number of proposals and files that wait for a decision, for the next start."""
    project = pipeline.project
    proposals = pipeline.waiting
    if proposals is None:
        proposals = waiting_proposals(pipeline.ledger)
    files = 0
    if project.config.memory == "tell":
        from reflector.sessions.memory_drain import undecided_files

        files = undecided_files(project, pipeline.ledger)
    leave_waiting(project.root, proposals, is_users=project.is_users, files=files)


@contextmanager
def waiting_pipeline(project: Project, *, write: bool = True) -> Iterator[Pipeline]:
    """Open a project's pipeline as `open_pipeline` does, after waiting for its lock."""
    with open_pipeline(project, write=write) as pipeline:
        assert pipeline is not None  # it waited
        yield pipeline


def _has_users_playbook() -> bool:
    folder = Path(user_folder(), ".claude")
    return any((folder / name).exists() for name in ("reflector/ledger.db", "playbook.json"))


class Pipeline:
    """A project with its ledger open and its lock held: the only way from a transcript to
    playbook.json.

    users            the user's own playbook if the agent is shown one beside the project's
    is_written       whether playbook.json and the files made of it are as new as the ledger
    only_reads       whether a server allows questions only
    waiting          the number of proposals that wait for a decision; None if not counted
    people_messages  the user's messages in each window; None for a large one, which is read again
    """

    def __init__(self, project: Project, ledger: Ledger, drained: Drained) -> None:
        self.project = project
        self.ledger = ledger
        self.drained = drained
        self.notes = drained.notes
        self.reflected = drained.reflected
        self.users: Users | None = None
        self.is_written = False
        self.only_reads = False
        self._mirrors = Mirrors(ledger, project)
        self._is_shared = is_shared(project.root)
        #: The state of playbook.json after the last synchronisation; None if it was saved since.
        self._file: FileState | None = None
        self.waiting: int | None = None
        self.people_messages: dict[str, Sequence[Message] | None] = {}
        #: The scanned messages of each window.
        self._messages: dict[str, Sequence[Message]] = {}

    @cached_property
    def runner(self) -> Runner:
        """The judge with the project's settings.

        Raises: ConfigError.
        """
        runner = runner_of(self.project, self.ledger)
        runner.scanned = self._messages
        return runner

    def take(self, source: Source, *, window: WindowMode = "new") -> Taken:
        """Record a window; its reflection follows with `finish`.

        Raises:
            ValueError: the window is recorded here, but not in the user's ledger
        """
        from reflector.sessions.intake import take_in

        source = source._replace(project=self.project.root)
        taken = take_in(self.ledger, source, window=window, rules=self._rules, loaded=self._loaded)
        if taken.event_id is not None:
            self.people_messages[taken.event_id] = taken.scan.people
            # Most windows cite no bullet. If one is judged anyway, its messages are read again.
            self._messages[taken.event_id] = taken.scan.messages if taken.scan.cited else ()
        if self.users is not None:
            names = {row.name for row in self.ledger.rows()}
            self.users.take(source, taken.scan, window=window, projects_names=names)
        return taken

    @cached_property
    def _rules(self) -> RuleSet:
        """The rules that are counted in the windows of this project."""
        from reflector.sessions.counted import rules_of

        return rules_of(self.project, self.ledger.rows())

    @cached_property
    def _loaded(self) -> LoadedRules | None:
        """The rules in files; None if a file cannot be read."""
        from reflector.sessions.loaded import loaded_rules

        with suppress(OSError):
            return loaded_rules(self.project, self.ledger)
        return None

    @cached_property
    def has_lessons(self) -> bool:
        """Whether the ledger has a lesson. A drain does not record any."""
        return self.ledger.has(LESSON_RECORDED)

    def asking_model(self) -> list[Project]:
        """Return the projects with windows that may wait for a model: this one, and the user's."""
        projects = [self.project] if self.project.config.asks_model else []
        users = self.users.asks_model if self.users is not None else None
        return projects if users is None else [*projects, users]

    def finish(self, *, retry: Retry = "due") -> None:
        """Judge the waiting windows, and add the results to `reflected`. Windows for a model wait
        for `ask_model`, which does not hold the project's lock.

        Before that, the outcomes of lessons and the wishes of the user are recorded from the new
        windows, because a judged window is not looked up again.
        """
        from reflector.curator import listening
        from reflector.playbook_files.watching import rules_in_files

        fresh = [window.event_id for window in self.ledger.open_windows() if not window.attempts]
        if fresh and self.has_lessons:
            from reflector.sessions.crediting import record_test_outcomes

            record_test_outcomes(self.ledger, fresh)
        in_files = partial(rules_in_files, self.project.root)
        said = self.people_messages
        self.note(listening.hear(self.project.config, self.ledger, fresh, said, in_files))
        if not self.runner.backend.is_model:
            self.reflected += self.runner.finish_pending(retry=retry)
            if self.project.config.curate:
                self.note(listening.propose_learned(self.ledger))
        if self.users is not None:
            self.users.finish(retry)
        self._messages.clear()

    def adopt(self, *, file: bool = True) -> None:
        """Record the edits of playbook.json and its mirrors; `write` follows with the same
        `file`.
        """
        self.note(*self._mirrors.take())
        self._sync(write=False, later=file)

    def write(self, *, file: bool = True) -> None:
        """Write playbook.json, its mirrors and the text of the start hook. A question does not
        write the `file` that was edited, because it may be under version control.
        """
        self.is_written = True
        self._sync(write=file)
        if file:
            self.note(*self._mirrors.write())
        root = self.project.root
        # A state folder that cannot be written does not prevent the start of a session.
        with suppress(OSError):
            book = None
            if self.has_lessons:
                from reflector.embed.lessons.book import lesson_book

                book = lesson_book(self.ledger)
            keep_ranks(root, self.ledger, self.project.config, book)
            # A note may outlive its ledger, and the hook would continue to withhold rules.
            if self.ledger.has(TRIAL_OPENED) or Path(own_folder(str(root)), TRIAL).exists():
                from reflector.trials.trial import keep_note

                keep_note(self.project, self.ledger)
        if self.project.playbook_json.exists():
            try:
                write_injection(root, partial(known, self.ledger, self.project, self._file))
            # The user's own template is unusable. Counting continues before it is repaired.
            except ValueError as error:
                self.note(f"the agent does not get the current playbook: {error}")

    def _sync(self, *, write: bool, later: bool = False) -> None:
        """Synchronise playbook.json with the ledger, and note the results for the user."""
        synced = sync(self.ledger, self.project, write=write, later=later, shared=self._is_shared)
        self._file = synced.state
        if synced.is_foreign:
            self.note(FOREIGN.format(path=self.project.playbook_json))
        if synced.of_another is not None:
            self.note(of_another(self.project.playbook_json, synced.of_another))
        self.note(*synced.news(self.project.playbook_json))
        for problem in synced.problems[:20]:
            self.note(
                f"{self.project.playbook_json}, {problem}. reflector does not change "
                "the file, and continues to count your sessions"
            )

    def note(self, *texts: str) -> None:
        """Add notes for the user, each text once."""
        new = [text for text in texts if text not in self.notes]
        self.notes += dict.fromkeys(filter(None, new))


@dataclass
class Users:
    """The user's playbook beside a project's. Its ledger, and the pipeline over it, are opened when
    they are needed; `closing` releases them. The project's pipeline gets its notes and reflections.
    """

    _project: Pipeline
    _closing: ExitStack
    _pipeline: Pipeline | None = None

    @property
    def asks_model(self) -> Project | None:
        """The user's playbook if some of its windows wait for a model, else None."""
        pipeline = self._pipeline
        if pipeline is None or not pipeline.runner.backend.is_model:
            return None
        waits = pipeline.ledger.open_windows() or pipeline.runner.reopened()
        return pipeline.project if waits else None

    def take(
        self, source: Source, scanned: Scan, *, window: WindowMode, projects_names: Collection[str]
    ) -> None:
        """Record the window of a transcript that concerns the user's bullets. A transcript that may
        have come with the project is recorded only by `reflector ingest`.

        projects_names  the names of the project's bullets, which do not mean the user's

        Raises:
            ValueError: the user's playbook cannot record it
        """
        from reflector.sessions.intake import take_in

        if not self._is_trusted(source):
            if scanned.cited:
                self._project.note(
                    f"{source.path} is in the project folder, so this file may have come with an "
                    "archive. The session in this file does not count in your own playbook. If "
                    f"the session is yours, run: reflector ingest {shlex.quote(str(source.path))}"
                )
            return
        session_id = source.session_id or scanned.session_id
        names = _names_in(source, scanned, session_id).difference(projects_names)
        try:
            with self._open() as pipeline:
                ledger = pipeline.ledger
                if not _concerns(ledger, names, session_id):
                    return
                taken = take_in(
                    ledger, source, window=window, scanned=scanned, projects_names=projects_names
                )
                if taken.event_id is not None:
                    pipeline.people_messages[taken.event_id] = taken.scan.people
        except _TROUBLE as error:
            raise ValueError(f"your own playbook was not updated: {error}") from error

    def _is_trusted(self, source: Source) -> bool:
        """Return whether a transcript cannot have come with the project, for example in an archive.
        That is so if a user names it, if reflector wrote it, or if it is outside the project.

        A transcript in an agent's folder in the project may have come with it, unless the folder is
        ~/.claude/projects.
        """
        if source.trigger == "ingest" or source.agent is not None:
            return True
        root = self._project.project.root.resolve()
        path = source.path.resolve()
        own = Path(home_folder() or "/nowhere", ".claude", "projects").resolve()
        return not path.is_relative_to(root) or path.is_relative_to(own)

    def finish(self, retry: Retry) -> None:
        """Judge waiting sessions and write playbook.json. A failure becomes a note."""
        try:
            with self._open() as pipeline:
                pipeline.finish(retry=retry)
                self._keep_file(pipeline.write)
        except _TROUBLE as error:
            self._project.note(f"your own playbook was not updated: {error}")

    @contextmanager
    def _open(self) -> Iterator[Pipeline]:
        """Hold the lock of the user's playbook for one step."""
        project = self._pipeline.project if self._pipeline else Project.of_user()
        with locks.held(project.make_state_dir(), "drain.lock", wait=True):
            if self._pipeline is None:
                ledger = self._closing.enter_context(project.open_ledger())
                self._pipeline = Pipeline(project, ledger, self._project.drained)
                # An edit of playbook.json must be recorded before a session that cites it.
                self._keep_file(self._pipeline.adopt)
            yield self._pipeline

    def _keep_file(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PlaybookRefused as error:  # the ledger has the file's earlier text
            self._project.note(str(error))


def _names_in(source: Source, scanned: Scan, session_id: str) -> set[str]:
    """Return the names that a session cites or was shown."""
    names = {name for _, cited in scanned.cited for name in cited}
    tellings = [telling for _, telling in scanned.told]
    for telling in (*tellings, *told_by_hook(source.project, session_id)):
        names.update(telling.bullets)
    return names


def _concerns(ledger: Ledger, names: set[str], session_id: str) -> bool:
    """Return whether a ledger has one of these names, or a window of the session."""
    from reflector.sessions.intake import safe_id

    if not names.isdisjoint(row.name for row in ledger.rows()):
        return True
    known_id = safe_id(session_id)
    return known_id is not None and bool(ledger.windows(known_id))


def runner_of(project: Project, ledger: Ledger, judge: Backend | None = None) -> Runner:
    """Return the runner of a project's settings, with their judge or the given one.

    Raises: ConfigError.
    """
    from reflector.judges.registry import backend_of
    from reflector.reflection.gate import Gate
    from reflector.reflection.runner import Runner

    config = project.config
    root = project.root
    judge = judge or backend_of(config, root)
    return Runner(ledger, judge, gate=Gate(config, root), max_attempts=config.max_attempts)


def ask_model(
    project: Project, *, retry: Retry, wait: bool = True, confirmed: int | None
) -> Drained:
    """Finish pending work with a model, each window tried once. Meanwhile, other processes may use
    the project, because only the lock of the model is held.

    If another process holds it and `wait` is False, the windows are left to that process. If the
    API cannot be reached or refuses us, the other windows wait for a later drain.

    confirmed  the number of requests to their agent that the user agreed to; None if the user was
               not asked

    Raises: as `drain_project` does.
    """
    from reflector.curator.listening import propose_learned
    from reflector.sessions.order import windows_of_order

    drained = Drained()
    tried: set[str] = set()
    has_untried = True
    while has_untried:
        with locks.held(project.make_state_dir(), "model.lock", wait=wait) as is_held:
            if not is_held:
                break
            with project.open_ledger() as ledger:
                runner = runner_of(project, ledger)
                runner.gate.confirmed = confirmed
                tried |= windows_of_order(project.root, ledger)
                drained.reflected += _ask_about(runner, tried, retry)
                confirmed = runner.gate.confirmed  # the requests that are left
        # Looked up after releasing the lock, because another process may have left new windows.
        with project.open_ledger() as ledger:
            has_untried = bool(_untried(ledger.open_windows(), tried))
    if drained.reflected:
        with open_pipeline(project, drained=drained) as pipeline:
            assert pipeline is not None  # it waited
            if project.config.curate:
                pipeline.note(propose_learned(pipeline.ledger))
            pipeline.write()
    return drained


def _ask_about(runner: Runner, tried: set[str], retry: Retry) -> Iterator[Reflected]:
    """Yield the results of the windows that are due and, within the budget, of those that waited
    for one. Windows that cite bullets come first, then the oldest. If a judge cannot be reached or
    refuses us, its other windows count as tried.
    """
    from reflector.judges.protocol import OUTAGES

    pending = _untried(runner.ledger.open_windows(), tried)
    away = runner.resting(pending, retry)
    reopened = _untried(runner.reopened(), tried)
    reopened_ids = {window.event_id for window in reopened}
    budget_is_spent = False
    for window in runner.cited_first([*pending, *reopened]):
        tried.add(window.event_id)
        waited = window.event_id in reopened_ids
        if waited and budget_is_spent:
            continue
        judge = runner.who(window)
        if judge in away or not runner.is_due(window, retry):
            continue
        reflected = runner.finish(window)
        if waited and reflected.outcome == "skipped":  # it waits as before
            budget_is_spent = True
            continue
        yield reflected
        if reflected.outcome == "failed" and reflected.stage in {*OUTAGES, "request"}:
            away.add(judge)


def _untried(windows: Iterable[WindowRow], tried: Collection[str]) -> list[WindowRow]:
    return [window for window in windows if window.event_id not in tried]


def unread_notes(project: Project) -> list[str]:
    """Return notes on the sessions that an answer lacks because the ledger is only readable."""
    waits = len(spool.pending_for(project.root))
    return (
        [
            f"this answer does not include {counted(waits, 'session')} of this machine, because "
            "you may only read this ledger"
        ]
        if waits
        else []
    )


def refresh_project(project: Project, ledger: Ledger) -> list[str]:
    """Process the spool before a question is answered, unless another process is at it. Return
    notes for the user, including parts that the answer lacks.

    playbook.json is written only if sessions had ended. Otherwise a question changes only the
    ledger, in which proposals lapse that no longer apply. Questions to a model wait for the drain.
    """
    with open_pipeline(project, wait=False, write=False, opened=ledger) as pipeline:
        if pipeline is None:
            reason = "another command is using this playbook"
            if spool.pending_for(project.root):
                reason = "a session is still being processed"
            return [f"{reason}; try again in a moment"]
        if pipeline.only_reads:
            return unread_notes(project)
        if spool.has_pending(project.root):
            _take_deliveries(pipeline, "due")
        else:  # only proposals may lapse
            waiting_proposals(pipeline.ledger, sweeps=True)
        notes = list(pipeline.notes)
        for failed in pipeline.drained.failed:
            is_kept = failed.error != spool.NOT_A_PAYLOAD
            place = "; reflector keeps this hook event" if is_kept else ""
            notes.append(f"{failed.delivery}: {failed.error}{place}")
        return notes
