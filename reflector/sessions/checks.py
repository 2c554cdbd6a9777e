"""A check: records the sessions that agents still keep, one by one, and asks each about some lines
of the files that agents read.

Invariant: a check begins with the newest session. A session is recorded before it is asked about,
in its own transaction. While a judge is asked, only the model's lock is held. An answer is recorded
as soon as it arrives. A stopped check continues with the first window without an answer, and a
transcript that has not grown is not opened. A check writes no file of the project. `reflector
check` uses this module.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from reflector.curator.listening import learned_words, propose_learned
from reflector.events import event as ev
from reflector.events.event import time_of
from reflector.judges.protocol import Asks, Backend, BackendError
from reflector.ledger.store import Ledger
from reflector.playbook_files.births import Births, LineState
from reflector.playbook_files.watching import Line, watch, watching
from reflector.reflection.checking import Checker, Todo, session_starts, todo
from reflector.reflection.gate import Gate
from reflector.reflection.window import transcript_of
from reflector.sessions import locks
from reflector.sessions.drain import waiting_pipeline
from reflector.sessions.found_transcripts import (
    FoundTranscript,
    ended_at,
    find_transcripts,
    is_in_project,
)
from reflector.sessions.intake import Source
from reflector.sessions.loaded import tell_recorded
from reflector.transcripts.heads import read_head
from reflector.transcripts.readers import Reader, is_subagents, stores
from reflector.transcripts.reading import UnknownTranscript, read_messages, session_named_in

if TYPE_CHECKING:
    from reflector.project import Project

#: The sessions of transcripts by path and size in bytes; "" for a file with only copied records.
Recorded = Mapping[tuple[str, int], str]

#: The number of sessions without a line at their start in which the judge is asked about it.
_MOST_BEFORE = 10
#: The file in the state folder that lists transcripts without new records: no event names them.
_COPIES = "copies"


@dataclass(slots=True)
class Ran:
    """The result of a check.

    asked     the number of windows about which a judge was asked
    answered  the number of windows with an answer
    spent     the cost in USD, as far as prices are known
    failed    the reasons of the windows without an answer
    notes     for the user
    """

    asked: int = 0
    answered: int = 0
    spent: Decimal = Decimal(0)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Subject(NamedTuple):
    """The lines that a check is about, and when each was in force."""

    lines: Sequence[Line]
    births: Births


class Asking(NamedTuple):
    """The limits of a check's questions: at most `most`, `at_once` of them at a time.

    learns        also ask for advice that seems to be missing
    again         also ask about sessions whose judge failed as often as it is asked automatically
    keeps_limits  the limits of the day apply, because the user did not agree to this number of
                  questions
    most_before   as for `asked_sessions`
    """

    most: int
    at_once: int = 1
    learns: bool = False
    again: bool = False
    keeps_limits: bool = False
    most_before: int = _MOST_BEFORE


def open_or_empty(project: Project) -> Ledger:
    """Return the project's ledger, or a temporary empty one if it has none."""
    return project.open_ledger() if project.has_ledger() else Ledger.open("sqlite://")


def recorded_files(
    project: Project, ledger: Ledger, among: Container[str] | None = None
) -> Recorded:
    """Return the transcripts that were recorded to their end, including files with only copied
    records.

    among  only these paths; a ledger may have recorded many more than agents still keep
    """
    sessions: dict[str, tuple[int, str]] = {}
    with suppress(OSError, ValueError):
        for line in (project.state_dir / _COPIES).read_text("utf-8").splitlines():
            size, _, path = line.partition(" ")
            sessions[path] = (int(size), "")
    for window in ledger.events(types=[ev.SESSION_RECORDED]):
        with suppress(UnknownTranscript):
            transcript = transcript_of(window)
            if among is None or transcript["path"] in among:
                sessions[transcript["path"]] = transcript["bytes"], window.session_id or ""
    return {(path, size): session_id for path, (size, session_id) in sessions.items()}


def sessions_of(
    root: Path,
    folders: Iterable[tuple[Path, str]],
    known: Recorded,
    since: float,
    each: Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]] = iter,
) -> list[FoundTranscript]:
    """Return a project's transcripts in the agents' folders, newest first.

    folders  each with the pattern of its files
    known    as for `find_transcripts`
    since    a time: sessions that ended before are omitted
    each     passes on the transcripts, and may show their number

    The files of subagents are omitted, because their sessions show their purpose.
    """
    dated: list[tuple[float, str, FoundTranscript]] = []
    transcripts = (
        file for folder, pattern in folders for file in find_transcripts(folder, pattern, known)
    )
    for file in each(transcripts):
        with suppress(OSError):
            if is_subagents(file.path) or not is_in_project(root, file):
                continue
            ended = ended_at(file.path)
            if ended >= since:
                dated.append((-ended, str(file.path), file))
    return [file for _, _, file in sorted(dated, key=lambda row: row[:2])]


def project_sessions(
    project: Project,
    known: Recorded,
    *,
    most: int,
    since: float,
    each: Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]],
) -> list[FoundTranscript]:
    """Return the newest transcripts of a project that agents keep, as `sessions_of` finds them."""
    folders = [(store.kept.folder, store.kept.pattern) for store in stores()]
    of_project = dict.fromkeys(known, str(project.root))
    return sessions_of(project.root, folders, of_project, since, each)[:most]


def kept_sessions(project: Project, ledger: Ledger) -> Counter[str]:
    """Return the number of a project's sessions that agents keep on this machine, by agent."""
    known = recorded_files(project, ledger)
    kept = project_sessions(project, known, most=sys.maxsize, since=0.0, each=iter)
    return Counter(reader_of(file).name for file in kept)


def readable(project: Project, files: Sequence[FoundTranscript]) -> list[FoundTranscript]:
    """Return the transcripts that a model may read: the sessions that did not work in a folder of
    `never`.
    """
    config = project.config
    if not config.never:
        return [*files]
    allowed = []
    for file in files:
        with suppress(OSError):
            folder = read_head(file.path).folder
            if not (folder.startswith("/") and config.keeps_unread(Path(folder))):
                allowed.append(file)
    return allowed


def reader_of(file: FoundTranscript) -> Reader:
    """Return the reader of the agent in whose folder a transcript is."""
    return next(store.reader for store in stores() if file.path.is_relative_to(store.kept.folder))


def session_of(file: FoundTranscript) -> str:
    """Return the id of a transcript's session from its first records, else the file's name."""
    return session_named_in(file.path) or file.path.stem


class Asked(NamedTuple):
    """A transcript, and the names of the lines that its judge is asked about."""

    file: FoundTranscript
    names: Sequence[str]


def asked_sessions(
    ledger: Ledger,
    files: Iterable[FoundTranscript],
    known: Recorded,
    lines: Mapping[str, Line],
    births: Births,
    most_before: int = _MOST_BEFORE,
) -> list[Asked]:
    """Return the transcripts to ask about. Those that started with some of the lines come first,
    then the others, each group in its order.

    lines        by the names of their bullets
    most_before  the number of sessions without a line at their start in which it is asked about
    """
    starts = session_starts(ledger)
    answers = ledger.events(types=[ev.REFLECTION_ANSWERED])
    answered = {answer.session_id for answer in answers}
    left = Counter(dict.fromkeys(lines, most_before))
    current: list[Asked] = []
    earlier: list[Asked] = []
    for file in files:
        session_id = known.get((str(file.path), file.bytes), "")
        if session_id not in answered and not _has_step(file):
            continue
        started = starts.get(session_id) or time_of(file.started_at)
        states = {name: births.state_of(line, started) for name, line in lines.items()}
        since = [name for name in lines if states[name] is LineState.SINCE]
        before = [name for name in lines if states[name] is LineState.BEFORE and left[name] > 0]
        left.subtract(before)
        if since or before:
            (current if since else earlier).append(Asked(file, [*since, *before]))
    return current + earlier


def _has_step(file: FoundTranscript) -> bool:
    """Return whether the agent acted in a session; True if that cannot be read."""
    with suppress(OSError, UnknownTranscript):
        return any(message.origin == "model" for message in read_messages(file.path))
    return True


def questions(
    ledger: Ledger,
    sessions: Sequence[Asked],
    known: Recorded,
    judge: Callable[[str], str],
    *,
    again: bool = False,
) -> list[tuple[FoundTranscript, int]]:
    """Return the transcripts that still have questions, each with their number; `judge` and `again`
    as for `todo`.
    """
    asked = []
    counted = set[str]()
    for file, names in sessions:
        session_id = known.get((str(file.path), file.bytes))
        count = 1
        if session_id in counted:  # the session has several files
            continue
        if session_id is not None:
            counted.add(session_id)
            count = len(list(todo(ledger, session_id, names, judge, again=again)))
        if count:
            asked.append((file, count))
    return asked


def check_sessions(
    project: Project,
    judge: Backend,
    files: Sequence[FoundTranscript],
    subject: Subject,
    asking: Asking,
    advance: Callable[[Decimal], object],
    goes_on: Callable[[], bool] = lambda: True,
) -> Ran:
    """Record the lines and the transcripts of `asked_sessions`, and ask about them. The lines are
    watched from then on. `goes_on` is called before each group of transcripts, and `advance` after
    each transcript.

    Raises: as `drain_project` does.
    """
    files = readable(project, files)
    with waiting_pipeline(project, write=False) as pipeline:
        watched = watching(pipeline.ledger, subject.lines, first=project.first_number)
        watch(pipeline.ledger, watched)
        tell_recorded(project, pipeline.ledger)
        known = recorded_files(project, pipeline.ledger)
        left = deque(
            asked_sessions(
                pipeline.ledger, files, known, watched.lines, subject.births, asking.most_before
            )
        )
    check = _Check(project, judge, asking)
    ran = check.ran
    while left and not check.is_over and goes_on():
        group = [left.popleft() for _ in range(min(asking.at_once, len(left)))]
        sessions: dict[str, Sequence[str]] = {}
        for file, names in group:
            try:
                sessions.setdefault(_record_session(project, file, known), names)
            except (OSError, ValueError) as error:
                ran.failed.append(f"{file.path}: {error}")
        with locks.held(project.make_state_dir(), "model.lock", wait=True):
            check.ask_about(sessions)
        for _ in group:
            advance(ran.spent)
    if asking.learns:
        with waiting_pipeline(project, write=False) as pipeline:
            ran.notes.append(learned_words(propose_learned(pipeline.ledger), ran.answered))
    return ran


class _Check:
    """The questions of a check. Each of several sessions has a thread with its own ledger, so each
    answer is recorded as soon as it arrives.
    """

    def __init__(self, project: Project, judge: Backend, asking: Asking) -> None:
        self.project = project
        self.judge = judge
        self.asking = asking
        self.gate = Gate(project.config, project.root)
        self.gate.confirmed = None if asking.keeps_limits else asking.most
        self.ran = Ran()
        self.is_over = False
        #: The judges that cannot be asked now.
        self.away: set[str] = set()
        self._turn = Lock()

    def ask_about(self, sessions: Mapping[str, Sequence[str]]) -> None:
        """Ask about lines of some sessions, given by the sessions' ids. The lock of the model must
        be held.
        """
        if len(sessions) < 2:
            for session, names in sessions.items():
                self._ask_about(session, names)
            return
        from concurrent.futures import ThreadPoolExecutor, wait

        from reflector.judges.agent_process import STOPPED

        with ThreadPoolExecutor(self.asking.at_once) as threads:
            # Each thread also gets the agents that may judge in this run only.
            pending = [
                threads.submit(copy_context().run, self._ask_about, session_id, names)
                for session_id, names in sessions.items()
            ]
            try:
                for future in pending:
                    future.result()
            except BaseException:
                STOPPED.set()  # the other threads end their judges and return
                wait(pending)
                raise
            finally:
                STOPPED.clear()

    def _ask_about(self, session_id: str, names: Sequence[str]) -> None:
        """Ask about the windows of a session."""
        with self.project.open_ledger() as ledger:
            checker = Checker(ledger, self.judge, self.gate, learns=self.asking.learns)
            windows = list(todo(ledger, session_id, names, checker.judge, again=self.asking.again))
            for question in windows:
                self._ask(checker, question)
            with self._turn:
                self.ran.spent += checker.spent
                if not windows and waits_for_verdicts(ledger, session_id):
                    self.ran.notes.append(
                        f"session {session_id[:8]} is not checked yet, because one of its "
                        "citations does not have a verdict"
                    )

    def _ask(self, checker: Checker, question: Todo) -> None:
        """Ask one question, unless its judge is away or the limit is reached."""
        is_new = question.answer is None  # otherwise the stored answer is read, without a request
        agent = str(question.window.fact("agent") or "")
        judge = self.judge.who(agent) if isinstance(self.judge, Asks) else ""
        with self._turn:
            if self.is_over or (judge in self.away and is_new):
                return
            self.ran.asked += is_new
            # If the limit is reached now, this question is the last one.
            self.is_over = self.ran.asked >= self.asking.most
        try:
            reason = checker.ask(question)
        except BackendError as error:
            self._note_failure(error, judge)
            return
        with self._turn:
            if not reason:
                self.ran.answered += 1
                return
            session = (question.window.session_id or "")[:8]
            self.ran.failed.append(f"session {session}: {reason}")

    def _note_failure(self, error: BackendError, judge: str) -> None:
        """Note the reason why a judge cannot be asked now, once for each judge."""
        with self._turn:
            if error.stage != "budget":
                if judge not in self.away:
                    self.ran.failed.append(str(error))
                self.away.add(judge)
                return
            self.ran.asked -= 1  # the budget refused it before a request was made
            self.is_over = True
            if str(error) not in self.ran.notes:
                self.ran.notes.append(str(error))


def _record_session(project: Project, file: FoundTranscript, known: Recorded) -> str:
    """Record a transcript that is new or has grown, and return the id of its session."""
    with waiting_pipeline(project, write=False) as pipeline:
        session_id = known.get((str(file.path), file.bytes))
        if session_id is None:
            taken = pipeline.take(Source(file.path, "ingest", limit=file.bytes))
            session_id = taken.session_id
            if taken.event_id is None:
                with (project.state_dir / _COPIES).open("a", encoding="utf-8") as copies:
                    copies.write(f"{file.bytes} {file.path}\n")
        pipeline.finish()
    return session_id


def waits_for_verdicts(ledger: Ledger, session_id: str) -> bool:
    """Return whether a session waits for the verdicts on its citations."""
    return any(window.state in ("pending", "failed") for window in ledger.windows(session_id))
