"""A project with its ledger open and its lock held, and the user's own playbook beside it.

Invariant: what a person wrote is recorded before anything else, and playbook.json is written once, at the end. A
transcript goes into the user's ledger after it is in the project's and before its delivery is settled. Each ledger
knows by itself which records it has, so after a crash in between the delivery is recorded again and adds what is
missing, once. Locks are taken in one order, the project's and then the user's, the second for one step each time; no
process that holds the user's asks for a project's.

A user's playbook that cannot be opened is an error of the delivery, which waits in the spool; what the project counts
does not wait for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.config import ConfigError
from reflector.curation.adoption import PlaybookRefused, of_another
from reflector.curation.mirrors import take_mirrored, write_mirrored
from reflector.curation.playbook_file import known, sync
from reflector.curation.proposals import proposals
from reflector.events.event import LESSON_RECORDED
from reflector.ledger.errors import LedgerError
from reflector.locate import agent_folder, user_folder
from reflector.project import Project
from reflector.sessions import last_session, locks, seen_head
from reflector.sessions.injection import keep_ranks, told_by_hook, write_injection

# Taking sessions in and judging them is imported where it is done: who adds advice or asks for it needs none of that.
if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.reflection.recording import Reflected
    from reflector.reflection.runner import Retry, Runner
    from reflector.sessions.intake import Source, Taken, WindowMode
    from reflector.transcripts.message import Message
    from reflector.transcripts.reading import Scan

_TROUBLE = (LedgerError, ConfigError, OSError)


class Pipeline:
    """A project with its ledger open and its lock held: the one way from a transcript to playbook.json.

    `users` is the user's own playbook if the agent gets one beside the project's. `notes` are for the user.
    """

    def __init__(self, project: Project, ledger: Ledger, notes: list[str] | None = None) -> None:
        self.project = project
        self.ledger = ledger
        self.users: Users | None = None
        #: Whether playbook.json and what is made of it say what the ledger said when it was written last.
        self.is_written = False
        self.notes: list[str] = [] if notes is None else notes
        #: Whether a server lets us ask and nothing more.
        self.only_reads = False
        self.reflected: list[Reflected] = []
        #: What people said in each window, as far as it is asked for.
        self.heard: dict[str, Sequence[Any]] = {}
        #: The messages of each window as it was scanned.
        self._held: dict[str, Sequence[Message]] = {}

    @cached_property
    def runner(self) -> Runner:
        """What judges, by the project's settings. Raises ConfigError."""
        runner = runner_of(self.project, self.ledger)
        runner.held = self._held
        return runner

    def take(self, source: Source, *, window: WindowMode = "new") -> Taken:
        """Record a window; its reflection follows with `finish`.

        Raises ValueError when it is recorded here and not in the user's ledger.
        """
        from reflector import curator
        from reflector.sessions.intake import take_in

        source = replace(source, told=partial(told_by_hook, self.project.root))
        taken = take_in(self.ledger, source, window=window, gather=curator.gatherer(self.project.config))
        if taken.event_id is not None:
            self.heard[taken.event_id] = taken.gathered
            self._held[taken.event_id] = taken.found.messages
        if self.users is not None:
            self.users.take(source, taken.found, window=window, beside={row.name for row in self.ledger.rows()})
        return taken

    def finish(self, *, retry: Retry = "due") -> None:
        """Finish what is pending, into `reflected`. A model is asked by `ask_model`, without the project's lock.

        What the sessions' own tests say of lessons, and what people asked for, is recorded first, while a window is
        open.
        """
        from reflector import curator

        fresh = [one.event_id for one in self.ledger.open_windows() if not one.attempts]
        if fresh and self.ledger.has(LESSON_RECORDED):
            from reflector.sessions.crediting import record_test_outcomes

            record_test_outcomes(self.ledger, fresh)
        self.note(curator.hear(self.project.config, self.ledger, fresh, self.heard))
        if not self.runner.backend.is_model:
            self.reflected += self.runner.finish_pending(retry=retry)
            self.note(curator.ask(self.ledger, self.runner), curator.propose(self.project.config, self.ledger))
        if self.users is not None:
            self.reflected += self.users.finish(retry)
        self._held.clear()

    def adopt(self, *, file: bool = True) -> None:
        """Record what a person wrote into playbook.json and its mirrors; `write` follows, with the same `file`.

        Notes for the user go to `notes`.
        """
        self.note(*take_mirrored(self.ledger, self.project))
        self._sync(write=False, later=file)

    def write(self, *, file: bool = True) -> None:
        """Write playbook.json, its mirrors and what the start hook prints.

        A question leaves the `file` as it is: it may be under version control.
        """
        self.is_written = True
        self._sync(write=file)
        if file:
            self.note(*write_mirrored(self.ledger, self.project))
        root = self.project.root
        with suppress(OSError):  # a state folder that cannot be written keeps no session from starting
            book = None
            if self.ledger.has(LESSON_RECORDED):
                from reflector.lessons.book import lesson_book

                book = lesson_book(self.ledger)
            keep_ranks(root, self.ledger, self.project.config, book)
        if self.project.playbook_json.exists():
            try:
                write_injection(root, partial(known, self.ledger, self.project))
            except ValueError as error:  # a person's own template; counting does not wait for its mending
                self.note(f"the agent does not get the current playbook: {error}")

    def _sync(self, *, write: bool, later: bool = False) -> None:
        synced = sync(self.ledger, self.project, write=write, later=later)
        if synced.of_another is not None:
            self.note(of_another(self.project.playbook_json, synced.of_another))
        for problem in synced.problems[:20]:
            self.note(f"{self.project.playbook_json}, {problem}. The file is unchanged, and counting continues")

    def note(self, *texts: str) -> None:
        """Add what the user is to read, each text once."""
        self.notes += dict.fromkeys(text for text in texts if text and text not in self.notes)


class Users:
    """The user's playbook beside a project's. Its ledger, and the pipeline over it, are opened when they are needed;
    `closing` releases them. Notes are the project's."""

    def __init__(self, project: Pipeline, closing: ExitStack) -> None:
        self._project = project
        self._closing = closing
        self._pipeline: Pipeline | None = None

    @property
    def asks_model(self) -> Project | None:
        """The user's playbook where windows of it wait for a model."""
        pipeline = self._pipeline
        if pipeline is None or not pipeline.runner.backend.is_model:
            return None
        return pipeline.project if pipeline.ledger.open_windows() or pipeline.runner.reopened() else None

    def take(self, source: Source, found: Scan, *, window: WindowMode, beside: Collection[str]) -> None:
        """Record what a transcript says of the user's bullets; `beside` are the project's names.

        A transcript that may have come with the project is recorded only if a person names it. Raises ValueError.
        """
        from reflector import curator
        from reflector.sessions.intake import safe_id, take_in

        if source.trigger != "ingest" and self._may_have_come_along(source.path):
            if found.cited:
                self._project.note(
                    f"{source.path} lies in the project, so it may have come with an archive, and nothing of it counts "
                    f"in your own playbook; where it is yours, run: reflector ingest {shlex.quote(str(source.path))}"
                )
            return
        try:
            with self._held() as pipeline:
                session_id = safe_id(source.session_id or found.session_id)
                known = pipeline.ledger.windows(session_id) if session_id else []
                own = {row.name for row in pipeline.ledger.rows()}.difference(beside)
                if not known and not own.intersection(_names(source, found)):
                    return
                gather = curator.gatherer(pipeline.project.config)
                taken = take_in(pipeline.ledger, source, window=window, found=found, beside=beside, gather=gather)
                if taken.event_id is not None:
                    pipeline.heard[taken.event_id] = taken.gathered
        except _TROUBLE as error:
            raise ValueError(f"the user's playbook recorded nothing: {error}") from error

    def _may_have_come_along(self, transcript: Path) -> bool:
        """Return whether a transcript lies in the project, and the person's agent keeps its own elsewhere.

        An archive can bring both a transcript and the delivery that names it.
        """
        root, transcripts = self._project.project.root.resolve(), Path(agent_folder()).expanduser() / "projects"
        return transcript.resolve().is_relative_to(root) and not transcripts.resolve().is_relative_to(root)

    def finish(self, retry: Retry) -> list[Reflected]:
        """Judge what waits and write playbook.json; return the reflections. What fails becomes a note."""
        try:
            with self._held() as pipeline:
                pipeline.finish(retry=retry)
                done, pipeline.reflected = pipeline.reflected, []
                self._keep_file(pipeline.write)
                return done
        except _TROUBLE as error:
            self._project.note(f"the user's playbook was not brought up to date: {error}")
            return []

    @contextmanager
    def _held(self) -> Iterator[Pipeline]:
        project = self._pipeline.project if self._pipeline else Project.of_user()
        with locks.held(project.make_state_dir(), "drain.lock", wait=True):
            if self._pipeline is None:
                ledger = self._closing.enter_context(project.open_ledger())
                self._pipeline = Pipeline(project, ledger, self._project.notes)
                # So that what a person wrote into playbook.json is known when it is cited.
                self._keep_file(self._pipeline.adopt)
            yield self._pipeline

    def _keep_file(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PlaybookRefused as error:  # the ledger knows what stood there before
            self._project.note(str(error))


def _names(source: Source, found: Scan) -> set[str]:
    """Return all bullets that a transcript cites or was told."""
    session_id = source.session_id or found.session_id
    told = [*(telling for _, telling in found.told), *(source.told(session_id) if session_id else ())]
    return {name for _, names in found.cited for name in names}.union(*(telling.bullets for telling in told))


@contextmanager
def open_pipeline(project: Project, *, wait: bool = True, write: bool = True) -> Iterator[Pipeline | None]:
    """Hold the project's lock and open its ledger; None when another process holds the lock and `wait` is False.

    What a person wrote is recorded first, so that it is known when it is cited; what the playbook says is written last,
    playbook.json itself only if `write`. A question to a ledger that may only be read records nothing.
    Raises LedgerError, PlaybookRefused and ConfigError.
    """
    state = project.make_state_dir()
    with locks.held(state, "drain.lock", wait=wait) as held:
        if not held:
            yield None
            return
        with project.open_ledger() as ledger, ExitStack() as closing:
            pipeline = Pipeline(project, ledger)
            if _has_users_beside(project):
                pipeline.users = Users(pipeline, closing)
            if not write and not ledger.may_append():
                pipeline.only_reads = True
                yield pipeline
                return
            pipeline.adopt(file=write)
            if lost := seen_head.missed(project, ledger):
                pipeline.note(f"{lost.message}; {lost.remedy}")
            yield pipeline
            if not pipeline.is_written:
                pipeline.write(file=write)
            if not lost:
                seen_head.keep(project, ledger)
            last_session.leave_waiting(project.root, len(proposals(ledger)), is_users=project.is_users)


def _has_users_beside(project: Project) -> bool:
    """Return whether the agent gets the user's playbook beside a project's."""
    claude = Path(user_folder(), ".claude")
    return not project.is_users and any((claude / name).exists() for name in ("reflector/ledger.db", "playbook.json"))


def runner_of(project: Project, ledger: Ledger) -> Runner:
    """Return the runner that a project's settings ask for. Raises ConfigError."""
    from reflector.reflection.backends import backend_of
    from reflector.reflection.gate import Gate
    from reflector.reflection.runner import Runner

    return Runner(
        ledger,
        backend_of(project.config, project.root),
        gate=Gate(project.config, project.root),
        max_attempts=project.config.max_attempts,
    )
