"""The drain: from the spool into the ledger, and from the ledger to playbook.json; the one road of
a session.

Invariant: a delivery is settled after what it says is committed, and one that cannot be recorded is
kept with its error. So a drain that is killed at any point leaves the rest to the next one, and
taking the same delivery in again adds nothing. One process at a time drains a project; one that
leaves because another holds the lock can do so because the holder looks once more after it let go.

What a person wrote is recorded before anything else, and playbook.json is written once, at the end.
A transcript goes into the user's ledger after it is in the project's and before its delivery is
settled; after a crash in between the delivery is recorded again and adds what is missing, once.
Locks are taken in one order, the project's and then the user's, the second for one step each time.
A user's playbook that cannot be opened is an error of the delivery, which waits in the spool; what
the project counts does not wait for it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reflector.changes.propose import proposals, sweep
from reflector.config import ConfigError
from reflector.events.event import LESSON_RECORDED, TRIAL_OPENED
from reflector.handover import TRIAL
from reflector.ledger.errors import LedgerError
from reflector.locate import home_folder, own_folder, user_folder
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.git_versions import is_shared
from reflector.playbook_files.mirrors import Mirrors
from reflector.playbook_files.playbook_json import (
    FOREIGN,
    FileState,
    known,
    of_another,
    sync,
)
from reflector.project import Project
from reflector.sessions import locks, seen_head, spool
from reflector.sessions.injection import (
    keep_ranks,
    leave_last_session,
    leave_waiting,
    told_by_hook,
    write_injection,
)

# Taking sessions in and judging them is imported where it is done: who adds advice or asks for it
# needs none of that.
if TYPE_CHECKING:
    from reflector.judges.protocol import Backend
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.reflection.recorder import Reflected
    from reflector.reflection.runner import Retry, Runner
    from reflector.sessions.intake import Source, Taken, WindowMode
    from reflector.sessions.spool import Delivery
    from reflector.transcripts.message import Message
    from reflector.transcripts.reading import Scan

#: The pauses of a drain in the background that finds the ledger's server away, in seconds: five
#: minutes. A cluster has another primary within one; a server that stays away is asked by the next
#: drain.
OUTAGE_PAUSES: Final = (1, 2, 4, 8, 15, 30, 60, 60, 60, 60)
_TROUBLE: Final = (LedgerError, ConfigError, OSError)


@dataclass(slots=True)
class Drained:
    """What a drain did, with notes for the user; `ran` is false where another one was at work.

    recorded  deliveries that brought something new; `empty` ones brought nothing
    failed    what was set aside
    """

    ran: bool = True
    recorded: int = 0
    empty: int = 0
    reflected: list[Reflected] = field(default_factory=list)
    failed: list[spool.Failed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(project: str) -> int | None:
    """Drain a project for a hook; return the exit code, None after an error: the command line meets
    it again, and has its words and its exit code. While the ledger's server is away, as in a
    failover, one drain of the project waits for it.
    """
    try:
        root = Path(project).absolute()
        if not root.is_dir():
            return None
        done = _drain_patiently(Project.at(root))
    except Exception:  # noqa: BLE001
        return None
    return 1 if done is not None and done.failed else 0


def _drain_patiently(project: Project) -> Drained | None:
    from reflector.ledger.errors import LedgerAway

    for pause in OUTAGE_PAUSES:
        try:
            return drain(project)
        except LedgerAway:
            # Held for the pause alone, so that who holds it looks into the spool after who leaves.
            with locks.held(project.state_dir, "away.lock", wait=False) as held:
                if not held:
                    return None
                time.sleep(pause)
    return drain(project)


def drain(
    project: Project, *, wait: bool = False, retry: Retry = "due", confirmed: int | None = None
) -> Drained | None:
    """Process the spool and finish what is pending; None if another process is at it and `wait` is
    False.

    `retry` says which failed reflections are tried again; "all" tries failed deliveries again as
    well, which otherwise are tried when their pause is over. `confirmed` is for `ask_model` of this
    project; the user's playbook keeps to what a day allows. Raises LedgerError (the delivery stays
    in the spool), PlaybookRefused, ConfigError. A project that has nothing yet is left as it is.
    """
    done = Drained()
    if spool.is_untouched(project):
        return done
    met: set[Path] = set()
    round_ = retry
    completes = True
    while True:
        with open_pipeline(project, wait=wait, done=done) as pipeline:
            if pipeline is None:
                # The holder of the lock looks into the spool once more after releasing it.
                return done if done != Drained() else None
            met |= _take_deliveries(pipeline, round_, completes=completes)
            completes = False
            asking = [project] if project.config.asks_model else []
            if pipeline.users is not None and (waits := pipeline.users.asks_model):
                asking.append(waits)
        round_ = "due"
        # One that is there though it was settled is left to the next drain.
        if all(one.path in met for one in spool.pending_for(project.root)):
            break
    for one in asking:
        asked = ask_model(
            one, retry=retry, wait=wait, confirmed=confirmed if one is project else None
        )
        leave_last_session(one.root, asked.reflected)
        done.reflected += asked.reflected
        done.notes += asked.notes
    return done


def _take_deliveries(pipeline: Pipeline, retry: Retry, *, completes: bool = False) -> set[Path]:
    """Record what waits in the spool, finish what is pending, and write playbook.json; return the
    deliveries' paths.

    `completes` says whether sessions are completed whose last answer was missing when an earlier
    drain recorded them. Raises as `drain` does.
    """
    from reflector.reflection.recorder import Reflected
    from reflector.sessions import ends

    root, done = pipeline.project.root, pipeline.done
    spool.tidy(root, everything=retry == "all")
    now = time.time_ns()
    oldest = now - pipeline.project.config.idle_minutes * 60_000_000_000
    for delivery in spool.pending_for(root, "unanswered", done.failed) if completes else ():
        _complete(pipeline, delivery)
    open_: set[str | None] = set()
    for stop in spool.pending_for(root, "waiting", done.failed):  # of sessions whose end never came
        if not oldest < stop.received_at_ns <= now or ends.is_gone(stop):
            spool.claim(stop)
        else:
            open_.add(stop.session_id)
    deliveries = spool.pending_for(root, aside=done.failed)
    for delivery in deliveries:
        _take_delivery(pipeline, delivery)
    for source in ends.left(
        pipeline.project, pipeline.ledger, open_.union(one.session_id for one in deliveries)
    ):
        # it has no delivery, and is met again by the next drain
        with suppress(OSError, ValueError):
            done.recorded += pipeline.take(source).event_id is not None
    pipeline.finish(retry=retry)
    sweep(pipeline.ledger)
    pipeline.write()
    # The model is asked when the project is free again.
    asked = (
        pipeline.ledger.open_windows()
        if done.recorded and pipeline.project.config.asks_model
        else []
    )
    waiting = [Reflected(one.session_id, one.event_id, "waiting") for one in asked]
    leave_last_session(root, [*pipeline.reflected, *waiting])
    return {delivery.path for delivery in deliveries}


def _take_delivery(pipeline: Pipeline, delivery: Delivery) -> None:
    from reflector.sessions import opencode_store
    from reflector.sessions.intake import source_of

    done, source, is_new = pipeline.done, source_of(delivery), False
    end: Callable[[Delivery], None] = spool.settle
    if source is not None:
        try:
            opencode_store.refresh(source.path)
            taken = pipeline.take(source)
            is_new = taken.event_id is not None
            end = _end_of(delivery, taken)
        except (OSError, ValueError) as error:
            is_refused = isinstance(error, opencode_store.StoreRefused)
            if is_refused or not _says_nothing(pipeline, delivery, source.path):
                # The path stands before it already.
                done.failed.append(
                    spool.Failed(str(source.path), getattr(error, "strerror", None) or str(error))
                )
                spool.fail(delivery, error)
                return
            # A client may write a subagent's transcript after its end.
            if delivery.event in ("SessionEnd", "SubagentStop") and not source.path.exists():
                end = spool.keep_silent
    done.recorded += is_new
    done.empty += not is_new
    end(delivery)


def _end_of(delivery: Delivery, taken: Taken) -> Callable[[Delivery], None]:
    """Return how a recorded delivery ends: the next drain completes one whose last answer the
    transcript lacks.
    """
    from reflector.handover import STOPS
    from reflector.sessions import ends

    if delivery.event == "SessionEnd":
        stop = spool.stop_of(delivery)
        if stop is not None and ends.lacks(taken.found, ends.answer_of(stop)):
            spool.keep_unanswered(stop)
    elif delivery.event in (*STOPS, "SubagentStop") and ends.lacks(
        taken.found, ends.answer_of(delivery)
    ):
        return spool.keep_unanswered
    return spool.settle


def _complete(pipeline: Pipeline, delivery: Delivery) -> None:
    """Record the last answer of a session: from its transcript if it is there by now, else from
    its stop.
    """
    from reflector.sessions import ends, opencode_store
    from reflector.sessions.intake import source_of

    is_missing, done = True, pipeline.done
    try:
        if (source := source_of(delivery)) is not None:
            with suppress(FileNotFoundError):
                opencode_store.refresh(source.path)
                taken = pipeline.take(source)
                done.recorded += taken.event_id is not None
                is_missing = ends.lacks(taken.found, ends.answer_of(delivery))
        if (
            is_missing
            and (source := ends.completed(pipeline.project.root, pipeline.ledger, delivery))
            is not None
        ):
            done.recorded += pipeline.take(source).event_id is not None
    except (OSError, ValueError) as error:
        done.notes.append(
            f"the last answer of session {delivery.session_id} is not recorded: {error}"
        )
        return
    spool.settle(delivery)


def _says_nothing(pipeline: Pipeline, delivery: Delivery, transcript: Path) -> bool:
    """Return whether there never was anything to record, so that nothing is lost. An empty
    transcript says nothing. A missing one may have been lost, but two never exist: that of a
    client's own summariser run, and that of a session which was opened and left without a word, of
    which only start and end is heard: a turn would have left its Stop.
    """
    try:
        return transcript.stat().st_size == 0 and not delivery.transcript_bytes
    except FileNotFoundError:
        if delivery.transcript_bytes is not None:
            return False
        if delivery.event == "SubagentStop":
            return True
        from reflector.sessions.intake import safe_id

        session_id = safe_id(delivery.session_id) if delivery.event == "SessionEnd" else None
        return (
            session_id is not None
            and not spool.has_stop(delivery)
            and not pipeline.ledger.windows(session_id)
        )
    except OSError:
        return False


@contextmanager
def open_pipeline(
    project: Project, *, wait: bool = True, write: bool = True, done: Drained | None = None
) -> Iterator[Pipeline | None]:
    """Hold the project's lock and open its ledger; None when another process holds the lock and
    `wait` is False.

    What a person wrote is recorded first, so that it is known when it is cited; what the playbook
    says is written last, playbook.json itself only if `write`. A question to a ledger that may only
    be read records nothing. Raises LedgerError, PlaybookRefused and ConfigError.
    """
    state = project.make_state_dir()
    with locks.held(state, "drain.lock", wait=wait) as held:
        if not held:
            yield None
            return
        with project.open_ledger() as ledger, ExitStack() as closing:
            pipeline = Pipeline(project, ledger, Drained() if done is None else done)
            own = [
                Path(user_folder(), ".claude", name)
                for name in ("reflector/ledger.db", "playbook.json")
            ]
            if not project.is_users and any(path.exists() for path in own):
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
            leave_waiting(project.root, len(proposals(ledger)), is_users=project.is_users)


class Pipeline:
    """A project with its ledger open and its lock held, and what came of it: the one way from a
    transcript to playbook.json. `users` is the user's own playbook if the agent gets one beside the
    project's.
    """

    def __init__(self, project: Project, ledger: Ledger, done: Drained) -> None:
        self.project = project
        self.ledger = ledger
        self.users: Users | None = None
        #: Whether playbook.json and what is made of it say what the ledger said when it was written
        #: last.
        self.is_written = False
        self.done, self.notes, self.reflected = done, done.notes, done.reflected
        #: Whether a server lets us ask and nothing more.
        self.only_reads = False
        self._mirrors = Mirrors(ledger, project)
        self._is_shared = is_shared(project.root)
        #: What playbook.json was after it was synchronised last; None if somebody saved it since.
        self._file: FileState | None = None
        #: What people said in each window; None of a large one, which is read once more.
        self.heard: dict[str, Sequence[Message] | None] = {}
        #: The messages of each window as it was scanned.
        self._held: dict[str, Sequence[Message]] = {}

    @cached_property
    def runner(self) -> Runner:
        """What judges, by the project's settings. Raises ConfigError."""
        runner = runner_of(self.project, self.ledger)
        runner.held = self._held
        return runner

    def take(self, source: Source, *, window: WindowMode = "new") -> Taken:
        """Record a window; its reflection follows with `finish`. Raises ValueError when it is
        recorded here and not in the user's ledger.
        """
        from reflector.sessions.intake import take_in

        source = replace(source, project=self.project.root)
        taken = take_in(self.ledger, source, window=window)
        if taken.event_id is not None:
            self.heard[taken.event_id] = taken.found.people
            self._held[taken.event_id] = taken.found.messages if taken.found.cited else ()
        if self.users is not None:
            self.users.take(
                source, taken.found, window=window, beside={row.name for row in self.ledger.rows()}
            )
        return taken

    def finish(self, *, retry: Retry = "due") -> None:
        """Finish what is pending, into `reflected`; `ask_model` asks a model, without the project's
        lock. What the sessions' own tests say of lessons, and what people asked for, is recorded
        first, while a window is open.
        """
        from reflector.curator import listening

        fresh = [one.event_id for one in self.ledger.open_windows() if not one.attempts]
        if fresh and self.ledger.has(LESSON_RECORDED):
            from reflector.sessions.crediting import record_test_outcomes

            record_test_outcomes(self.ledger, fresh)
        self.note(listening.hear(self.project.config, self.ledger, fresh, self.heard))
        if not self.runner.backend.is_model:
            self.reflected += self.runner.finish_pending(retry=retry)
            if self.project.config.curate:
                self.note(listening.propose_learned(self.ledger))
        if self.users is not None:
            self.users.finish(retry)
        self._held.clear()

    def adopt(self, *, file: bool = True) -> None:
        """Record what a person wrote into playbook.json and its mirrors; `write` follows, with
        the same `file`.
        """
        self.note(*self._mirrors.take())
        self._sync(write=False, later=file)

    def write(self, *, file: bool = True) -> None:
        """Write playbook.json, its mirrors and what the start hook prints. A question leaves the
        `file` as it is: it may be under version control.
        """
        self.is_written = True
        self._sync(write=file)
        if file:
            self.note(*self._mirrors.write())
        root = self.project.root
        # a state folder that cannot be written keeps no session from starting
        with suppress(OSError):
            book = None
            if self.ledger.has(LESSON_RECORDED):
                from reflector.embed.lessons.book import lesson_book

                book = lesson_book(self.ledger)
            keep_ranks(root, self.ledger, self.project.config, book)
            # A note may outlive its ledger, and the hook would go on withholding.
            if self.ledger.has(TRIAL_OPENED) or Path(own_folder(str(root)), TRIAL).exists():
                from reflector.trials.trial import keep_note

                keep_note(self.project, self.ledger)
        if self.project.playbook_json.exists():
            try:
                write_injection(root, partial(known, self.ledger, self.project, self._file))
            # a person's own template; counting does not wait for its mending
            except ValueError as error:
                self.note(f"the agent does not get the current playbook: {error}")

    def _sync(self, *, write: bool, later: bool = False) -> None:
        synced = sync(self.ledger, self.project, write=write, later=later, shared=self._is_shared)
        self._file = synced.state
        if synced.is_foreign:
            self.note(FOREIGN.format(path=self.project.playbook_json))
        if synced.of_another is not None:
            self.note(of_another(self.project.playbook_json, synced.of_another))
        for theirs, ours in synced.renamed.items():
            self.note(
                f"{theirs} of {self.project.playbook_json} is {ours} here: another bullet "
                "has had that name"
            )
        for problem in synced.problems[:20]:
            self.note(
                f"{self.project.playbook_json}, {problem}. The file is unchanged, and "
                "counting continues"
            )

    def note(self, *texts: str) -> None:
        """Add what the user is to read, each text once."""
        self.notes += dict.fromkeys(text for text in texts if text and text not in self.notes)


class Users:
    """The user's playbook beside a project's. Its ledger, and the pipeline over it, are opened when
    they are needed; `closing` releases them. What came of it goes to the project's.
    """

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
        return (
            pipeline.project
            if pipeline.ledger.open_windows() or pipeline.runner.reopened()
            else None
        )

    def take(
        self, source: Source, found: Scan, *, window: WindowMode, beside: Collection[str]
    ) -> None:
        """Record what a transcript says of the user's bullets; `beside` are the project's names.

        A transcript that may have come with the project is recorded only if a person names it.
        Raises ValueError.
        """
        from reflector.sessions.intake import safe_id, take_in

        is_ours = source.agent is not None
        if source.trigger != "ingest" and not is_ours and self._may_have_come_along(source.path):
            if found.cited:
                self._project.note(
                    f"{source.path} lies in the project, so it may have come with an archive, and "
                    "nothing of it counts "
                    "in your own playbook; where it is yours, run: reflector ingest "
                    f"{shlex.quote(str(source.path))}"
                )
            return
        given_id = source.session_id or found.session_id
        told = [
            *(telling for _, telling in found.told),
            *told_by_hook(source.project, given_id or ""),
        ]
        names = {name for _, names in found.cited for name in names}.union(
            *(one.bullets for one in told)
        )
        try:
            with self._held() as pipeline:
                session_id = safe_id(given_id)
                own = {row.name for row in pipeline.ledger.rows()}.difference(beside)
                if own.isdisjoint(names) and not (
                    session_id and pipeline.ledger.windows(session_id)
                ):
                    return
                taken = take_in(pipeline.ledger, source, window=window, found=found, beside=beside)
                if taken.event_id is not None:
                    pipeline.heard[taken.event_id] = taken.found.people
        except _TROUBLE as error:
            raise ValueError(f"the user's playbook recorded nothing: {error}") from error

    def _may_have_come_along(self, transcript: Path) -> bool:
        """Return whether a transcript is in the project, as one of an archive would be.

        An agent's folder there may have come along as well, unless the project is the person's home
        folder.
        """
        root, path = self._project.project.root.resolve(), transcript.resolve()
        own = Path(home_folder() or "/nowhere", ".claude", "projects").resolve()
        return path.is_relative_to(root) and not path.is_relative_to(own)

    def finish(self, retry: Retry) -> None:
        """Judge what waits and write playbook.json. What fails becomes a note."""
        try:
            with self._held() as pipeline:
                pipeline.finish(retry=retry)
                self._keep_file(pipeline.write)
        except _TROUBLE as error:
            self._project.note(f"the user's playbook was not brought up to date: {error}")

    @contextmanager
    def _held(self) -> Iterator[Pipeline]:
        project = self._pipeline.project if self._pipeline else Project.of_user()
        with locks.held(project.make_state_dir(), "drain.lock", wait=True):
            if self._pipeline is None:
                ledger = self._closing.enter_context(project.open_ledger())
                self._pipeline = Pipeline(project, ledger, self._project.done)
                # So that what a person wrote into playbook.json is known when it is cited.
                self._keep_file(self._pipeline.adopt)
            yield self._pipeline

    def _keep_file(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PlaybookRefused as error:  # the ledger knows what stood there before
            self._project.note(str(error))


def runner_of(project: Project, ledger: Ledger, judge: Backend | None = None) -> Runner:
    """Return the runner that a project's settings ask for, with their judge or another one.
    Raises ConfigError.
    """
    from reflector.judges.registry import backend_of
    from reflector.reflection.gate import Gate
    from reflector.reflection.runner import Runner

    config, root = project.config, project.root
    judge = judge or backend_of(config, root)
    return Runner(ledger, judge, gate=Gate(config, root), max_attempts=config.max_attempts)


def ask_model(
    project: Project, *, retry: Retry = "due", wait: bool = True, confirmed: int | None = None
) -> Drained:
    """Finish what is pending with a model, each window tried once, while others may use the
    project.

    `confirmed` is how many requests to their agent a person agreed to; None where nobody was asked.

    If another process is at it, the windows are left to it. When the API cannot be reached or
    refuses us, the other windows wait for a later drain. Raises as `drain` does.
    """
    from reflector.curator.listening import propose_learned

    done = Drained()
    tried: set[str] = set()
    left = True
    while left:
        with locks.held(project.make_state_dir(), "model.lock", wait=wait) as held:
            if not held:
                break
            with project.open_ledger() as ledger:
                runner = runner_of(project, ledger)
                runner.gate.confirmed = confirmed
                done.reflected += _ask_about(runner, tried, retry)
                confirmed = runner.gate.confirmed
        # After releasing the lock: a window that another process recorded before that is left to
        # this one.
        with project.open_ledger() as ledger:
            left = bool(_untried(ledger, tried))
    if done.reflected:
        with open_pipeline(project, done=done) as pipeline:
            assert pipeline is not None  # it waited
            if project.config.curate:
                pipeline.note(propose_learned(pipeline.ledger))
            pipeline.write()
    return done


def _ask_about(runner: Runner, tried: set[str], retry: Retry) -> Iterator[Reflected]:
    """Finish those that are due, and those that waited for a budget, as long as it lasts, oldest
    first. All of who cannot be reached or refuses us count as tried from then on.
    """
    from reflector.judges.protocol import OUTAGES

    open_ = _untried(runner.ledger, tried)
    away = runner.resting(open_, retry)
    reopened = {
        window.event_id: window for window in runner.reopened() if window.event_id not in tried
    }
    windows = sorted([*open_, *reopened.values()], key=lambda window: window.position)
    budget_is_spent = False
    for window in windows:
        tried.add(window.event_id)
        waited = window.event_id in reopened
        if (
            (waited and budget_is_spent)
            or (who := runner.who(window)) in away
            or not runner.is_due(window, retry)
        ):
            continue
        reflected = runner.finish(window)
        if waited and reflected.outcome == "skipped":  # it waits as before
            budget_is_spent = True
            continue
        yield reflected
        if reflected.outcome == "failed" and reflected.stage in {*OUTAGES, "request"}:
            away.add(who)


def _untried(ledger: Ledger, tried: Collection[str]) -> list[WindowRow]:
    return [window for window in ledger.open_windows() if window.event_id not in tried]


def unread_notes(project: Project) -> list[str]:
    """Return notes on the sessions that an answer lacks because the ledger may only be read."""
    waits = len(spool.pending_for(project.root))
    return [f"the ledger may only be read; sessions that wait here: {waits}"] if waits else []


def refresh(project: Project) -> list[str]:
    """Process the spool before a question is answered, unless another process is at it; return
    notes for the user, also on what the answer lacks. playbook.json is written only where sessions
    had ended: asking changes no file of the project. What a model would be asked waits for the
    drain.
    """
    with open_pipeline(project, wait=False, write=False) as pipeline:
        if pipeline is None:
            drains = spool.pending_for(project.root)
            what = (
                "a session is still being processed"
                if drains
                else "another command is at work on this playbook"
            )
            return [f"{what}; ask again in a moment"]
        if pipeline.only_reads:
            return unread_notes(project)
        if spool.pending_for(project.root):
            _take_deliveries(pipeline, "due")
        else:
            sweep(pipeline.ledger)
        notes = list(pipeline.done.notes)
        for one in pipeline.done.failed:
            kept = "" if one.error == spool.NOT_A_PAYLOAD else "; kept in the spool"
            notes.append(f"{one.delivery}: {one.error}{kept}")
        if project.config.asks_model and (asked := len(pipeline.ledger.open_windows())):
            notes.append(
                f"{asked} session window{'s wait' if asked > 1 else ' waits'} for the "
                "model's verdicts"
            )
        return notes
