"""The user's own playbook beside a project's: what a session cites of it counts in its own ledger.

Invariant: a transcript goes into the user's ledger after it is in the project's and before its delivery is settled.
Each ledger knows by itself which records it has, so after a crash in between the delivery is recorded again and adds
what is missing, once. Locks are taken in one order, the project's and then the user's, the second for one step each
time; no process that holds the user's asks for a project's.

A user's playbook that cannot be opened is an error of the delivery, which waits in the spool; what the
project counts does not wait for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import ConfigError
from reflector.curation.adoption import PlaybookRefused
from reflector.files import read_ours
from reflector.ledger.errors import LedgerError
from reflector.locate import agent_folder, user_folder
from reflector.playbook.document import MAX_BYTES, load
from reflector.playbook.names import USER_FIRST
from reflector.project import Project
from reflector.sessions import locks

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.reflection.recording import Reflected
    from reflector.reflection.runner import Retry
    from reflector.sessions.intake import Source, WindowMode
    from reflector.sessions.pipeline import Pipeline
    from reflector.transcripts.reading import Scan

_TROUBLE = (LedgerError, ConfigError, OSError)


class UsersPlaybookError(ValueError):
    """The user's playbook did not take a transcript in; the text says why."""


class Users:
    """The user's playbook while the pipeline of the project at `root` is open. Its ledger, and the pipeline over it,
    are opened when they are needed."""

    def __init__(self, root: Path, pipeline: Callable[[Project, Ledger], Pipeline]) -> None:
        self._root = root
        self._make = pipeline
        self.notes: list[str] = []
        self._pipeline: Pipeline | None = None
        self._closing = ExitStack()

    @property
    def asks_model(self) -> Project | None:
        """The user's playbook where windows of it wait for a model."""
        pipeline = self._pipeline
        if pipeline is None or not pipeline.runner.backend.is_model:
            return None
        return pipeline.project if pipeline.ledger.open_windows() or pipeline.runner.reopened() else None

    def take(self, source: Source, found: Scan, *, window: WindowMode, beside: Collection[str]) -> None:
        """Record what a transcript says of the user's bullets; `beside` are the project's names.

        A transcript that may have come with the project is recorded only if a person names it. Raises
        UsersPlaybookError.
        """
        from reflector import curator
        from reflector.sessions.intake import safe_id, take_in

        if source.trigger != "ingest" and self._may_have_come_along(source.path):
            if found.cited:
                self._note(
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
            raise UsersPlaybookError(f"the user's playbook recorded nothing: {error}") from error

    def _may_have_come_along(self, transcript: Path) -> bool:
        """Return whether a transcript lies in the project, and the person's agent keeps its own elsewhere.

        An archive can bring both a transcript and the delivery that names it.
        """
        root, transcripts = self._root.resolve(), Path(agent_folder()).expanduser() / "projects"
        return transcript.resolve().is_relative_to(root) and not transcripts.resolve().is_relative_to(root)

    def finish(self, retry: Retry) -> list[Reflected]:
        """Judge what waits and write playbook.json; return the reflections. What fails becomes a note."""
        try:
            with self._held() as pipeline:
                pipeline.finish(retry=retry)
                done, pipeline.reflected = pipeline.reflected, []
                self._write(pipeline)
                return done
        except _TROUBLE as error:
            self._note(f"the user's playbook was not brought up to date: {error}")
            return []

    def close(self) -> None:
        """Release the ledger."""
        self._pipeline = None
        self._closing.close()

    @contextmanager
    def _held(self) -> Iterator[Pipeline]:
        project = self._pipeline.project if self._pipeline else Project.of_user()
        with locks.held(project.make_state_dir(), "drain.lock", wait=True):
            if self._pipeline is None:
                self._pipeline = self._make(project, self._closing.enter_context(project.open_ledger()))
                # So that what a person wrote into playbook.json is known when it is cited.
                self._write(self._pipeline)
            yield self._pipeline

    def _write(self, pipeline: Pipeline) -> None:
        try:
            pipeline.write()
        except PlaybookRefused as error:  # the ledger knows what stood there before
            self._note(str(error))
        for text in pipeline.notes:
            self._note(text)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _names(source: Source, found: Scan) -> set[str]:
    """Return all bullets that a transcript cites or was told."""
    session_id = source.session_id or found.session_id
    told = [*(telling for _, telling in found.told), *(source.told(session_id) if session_id else ())]
    return {name for _, names in found.cited for name in names}.union(*(telling.bullets for telling in told))


@dataclass(frozen=True, slots=True)
class Beside:
    """The user's bullets beside a project's: how many, and the names that mean another bullet in the project's."""

    bullets: int
    hidden: tuple[str, ...]


def told_beside(project: Project) -> Beside | None:
    """Return what the agent gets of the user's playbook beside a project's; None if empty or the project itself."""
    if project.is_users:
        return None
    names: list[set[str]] = []
    for path, first in ((Path(user_folder()) / ".claude" / "playbook.json", USER_FIRST), (project.playbook_json, 0)):
        try:
            loaded = load(read_ours(path, MAX_BYTES), first=first)
        except OSError:  # missing; of other trouble `status` tells
            names.append(set())
        else:
            names.append({bullet.name for bullet in loaded.bullets} - loaded.named_here)
    return Beside(len(names[0]), tuple(sorted(names[0] & names[1]))) if names[0] else None


@contextmanager
def users_beside(project: Project, pipeline: Callable[[Project, Ledger], Pipeline]) -> Iterator[Users | None]:
    """Yield the user's playbook beside a project; None where there is none, and beside itself."""
    claude = Path(user_folder()) / ".claude"
    if project.is_users or not ((claude / "reflector" / "ledger.db").exists() or (claude / "playbook.json").exists()):
        yield None
        return
    users = Users(project.root, pipeline)
    try:
        yield users
    finally:
        users.close()
