"""The drain: from the spool into the ledger, and from the ledger to playbook.json.

Invariant: a delivery is settled after what it says is committed, so a drain that is killed at any point
leaves the rest to the next one, and taking the same delivery in again adds nothing. One process at a time
drains a project; one that leaves because another holds the lock can do so because the holder looks again
after it let go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.curation.adoption import of_another
from reflector.curation.mirrors import take_mirrored, write_mirrored
from reflector.curation.playbook_file import known, sync
from reflector.curation.proposals import proposals, sweep
from reflector.events.event import LESSON_RECORDED
from reflector.locate import user_folder
from reflector.sessions import last_session, locks, seen_head, spool
from reflector.sessions.injection import keep_lessons, lessons_to_tell, told_by_hook, write_injection
from reflector.sessions.ranks import keep_ranks

# Taking sessions in and judging them is imported where it is done: who adds advice or asks for it needs none of that.
if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.project import Project
    from reflector.reflection.recording import Reflected
    from reflector.reflection.runner import Retry, Runner
    from reflector.sessions.deliveries import Drained
    from reflector.sessions.intake import Source, Taken, WindowMode
    from reflector.sessions.spool import Delivery
    from reflector.sessions.user_playbook import Users

#: No time at which a playbook changed.
_NEVER = "never"


class Pipeline:
    """A project with its ledger open and its lock held: the one way from a transcript to playbook.json.

    `users` is the user's own playbook if the agent gets one beside the project's.
    """

    def __init__(self, project: Project, ledger: Ledger, users: Users | None = None) -> None:
        self.project = project
        self.ledger = ledger
        self.users = users
        #: The state of the playbook that the start hook prints; a shared file says nothing about it.
        self._rendered: str | None = _NEVER
        self.notes: list[str] = []
        #: Whether a server lets us ask and nothing more.
        self.only_reads = False
        self.reflected: list[Reflected] = []
        #: What people said in each window, as far as it is asked for.
        self.heard: dict[str, Sequence[Any]] = {}

    @cached_property
    def runner(self) -> Runner:
        """What judges, by the project's settings. Raises ConfigError."""
        return runner_of(self.project, self.ledger)

    def take(self, source: Source, *, window: WindowMode = "new") -> Taken:
        """Record a window; its reflection follows with `finish`.

        Raises UsersPlaybookError, a ValueError, when it is recorded here and not in the user's ledger.
        """
        from reflector import curator
        from reflector.sessions.intake import take_in

        source = replace(source, told=partial(told_by_hook, self.project.root))
        taken = take_in(self.ledger, source, window=window, gather=curator.gatherer(self.project.config))
        if taken.event_id is not None:
            self.heard[taken.event_id] = taken.gathered
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
        self._note(curator.hear(self.project.config, self.ledger, fresh, self.heard))
        if not self.runner.backend.is_model:
            self.reflected += self.runner.finish_pending(retry=retry)
            self._note(curator.ask(self.ledger, self.runner))
            self._note(curator.propose(self.project.config, self.ledger))
        if self.users is not None:
            judged = self.users.finish(retry)
            self.reflected += judged
            if judged:
                self._rendered = _NEVER
            for text in self.users.notes:
                self._note(text)

    def write(self, *, file: bool = True) -> None:
        """Record edits of playbook.json and its mirrors, write them, and render the text that the start hook prints.

        A question leaves the `file` as it is: it may be under version control. Notes for the user go to
        `notes`.
        """
        edited = take_mirrored(self.ledger, self.project)
        synced = sync(self.ledger, self.project, write=file)
        for text in [*edited, *(write_mirrored(self.ledger, self.project) if file else ())]:
            self._note(text)
        if synced.of_another is not None:
            self._note(of_another(self.project.playbook_json, synced.of_another))
        for problem in synced.problems[:20]:
            self._note(f"{self.project.playbook_json}, {problem}. The file is unchanged, and counting continues")
        updated_at = self.ledger.updated_at()
        learned = False
        with suppress(OSError):  # a state folder that cannot be written keeps no session from starting
            learned = self._keep_lessons()
            learned |= keep_ranks(self.project.root, self.ledger, self.project.config)
        if (synced.written or learned or self._rendered != updated_at) and self.project.playbook_json.exists():
            self._rendered = updated_at
            try:
                write_injection(self.project.root, partial(known, self.ledger, self.project))
            except ValueError as error:  # a person's own template; counting does not wait for its mending
                self._note(f"the agent does not get the current playbook: {error}")

    def _keep_lessons(self) -> bool:
        if not self.ledger.has(LESSON_RECORDED) and not lessons_to_tell(self.project.root):
            return False
        from reflector.lessons.book import lesson_book

        return keep_lessons(self.project.root, lesson_book(self.ledger))

    def _note(self, text: str) -> None:
        if text and text not in self.notes:
            self.notes.append(text)


@contextmanager
def open_pipeline(project: Project, *, wait: bool = True, write: bool = True) -> Iterator[Pipeline | None]:
    """Hold the project's lock and open its ledger; None when another process holds the lock and `wait` is False.

    Edits of playbook.json are recorded; the file itself is left as it is unless `write`. A question to a ledger that
    may only be read records nothing. Raises LedgerError, PlaybookRefused and ConfigError.
    """
    state = project.make_state_dir()
    with locks.held(state, "drain.lock", wait=wait) as held:
        if not held:
            yield None
            return
        with project.open_ledger() as ledger, _users_beside(project) as users:
            pipeline = Pipeline(project, ledger, users)
            if not write and not ledger.may_append():
                pipeline.only_reads = True
                yield pipeline
                return
            # First of all, so that what a person wrote into playbook.json is known when it is cited.
            pipeline.write(file=write)
            lost = seen_head.missed(project, ledger)
            if lost is not None:
                pipeline.notes.append(f"{lost}; {lost.remedy}")
            yield pipeline
            if lost is None:
                seen_head.keep(project, ledger)
            last_session.leave_waiting(project.root, len(proposals(ledger)), is_users=project.is_users)


def _users_beside(project: Project) -> AbstractContextManager[Users | None]:
    # Most people have none, and this module is loaded at every session's end.
    if not Path(user_folder()).is_dir():
        return nullcontext()
    from reflector.sessions.user_playbook import users_beside

    return users_beside(project, Pipeline)


def drain(
    project: Project,
    *,
    wait: bool = False,
    retry: Retry = "due",
    progress: Callable[[Delivery], None] | None = None,
) -> Drained | None:
    """Process the spool and finish what is pending; None if another process is at it and `wait` is False.

    `retry` says which failed reflections are tried again; "all" tries failed deliveries again as well, which
    otherwise are tried when their pause is over.
    Raises LedgerError (the delivery stays in the spool), PlaybookRefused, ConfigError.
    """
    from reflector.sessions.deliveries import Drained, take_deliveries

    done = Drained()
    asking: list[Project] = []
    round_ = retry
    again = True
    while again:
        with open_pipeline(project, wait=wait) as pipeline:
            if pipeline is None:
                # The holder of the lock looks into the spool once more after releasing it.
                return done if done.taken or done.empty or done.failed or done.broken else None
            take_deliveries(pipeline, done, retry=round_, progress=progress)
            asking = [project] if project.config.asks_model else []
            if pipeline.users is not None and (waits := pipeline.users.asks_model):
                asking.append(waits)
        round_ = "due"
        again = bool(spool.ready_for(project.root))
    for one in asking:
        asked = ask_model(one, retry=retry, wait=wait)
        last_session.leave(one.root, asked.reflected)
        done.reflected += asked.reflected
        done.notes += asked.notes
    return done


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


def ask_model(project: Project, *, retry: Retry = "due", wait: bool = True) -> Drained:
    """Finish what is pending with a model, each window tried once, while others may use the project.

    If another process is at it, the windows are left to it. When the API cannot be reached or refuses us, the
    other windows wait for a later drain. Raises as `drain` does.
    """
    from reflector import curator
    from reflector.sessions.deliveries import Drained

    done = Drained()
    tried: set[str] = set()
    left = True
    while left:
        with locks.held(project.make_state_dir(), "model.lock", wait=wait) as held:
            if not held:
                break
            with project.open_ledger() as ledger:
                runner = runner_of(project, ledger)
                done.reflected += _ask_about(runner, tried, retry)
                done.notes.append(curator.ask(ledger, runner))
        # After releasing the lock: a window that another process recorded before that is left to this one.
        with project.open_ledger() as ledger:
            left = bool(_untried(ledger, tried))
    if done.reflected:
        with open_pipeline(project) as pipeline:
            assert pipeline is not None  # it waited
            pipeline.notes.append(curator.propose(project.config, pipeline.ledger))
            pipeline.write()
            done.notes += pipeline.notes
    done.notes = [text for text in done.notes if text]
    return done


def _ask_about(runner: Runner, tried: set[str], retry: Retry) -> Iterator[Reflected]:
    """Finish those that are due, and those that waited for a budget, as long as it lasts, oldest first. All count as
    tried as soon as the API cannot be reached or refuses us."""
    from reflector.reflection.protocol import OUTAGES

    open_ = _untried(runner.ledger, tried)
    if runner.api_rests(open_, retry):
        tried.update(window.event_id for window in open_)
        return
    reopened = {window.event_id: window for window in runner.reopened() if window.event_id not in tried}
    windows = sorted([*open_, *reopened.values()], key=lambda window: window.position)
    month_is_spent = False
    for window in windows:
        tried.add(window.event_id)
        waited = window.event_id in reopened
        if (waited and month_is_spent) or not runner.is_due(window, retry):
            continue
        reflected = runner.finish(window)
        if waited and reflected.outcome == "skipped":  # it waits as before
            month_is_spent = "monthly" in reflected.detail
            continue
        yield reflected
        if reflected.outcome == "failed" and reflected.stage in {*OUTAGES, "request"}:
            tried.update(other.event_id for other in windows)
            return


def _untried(ledger: Ledger, tried: Collection[str]) -> list[WindowRow]:
    return [window for window in ledger.open_windows() if window.event_id not in tried]


def refresh(project: Project) -> list[str]:
    """Process the spool before a question is answered, unless another process is at it.

    playbook.json is written only where sessions had ended, as the drain would have done: asking changes no file of the
    project. What a model would be asked waits for the drain. Returns notes for the user: also on what the answer lacks.
    """
    with open_pipeline(project, wait=False, write=False) as pipeline:
        if pipeline is None:
            drains = spool.counts(project.spool_dir).pending
            what = "a session is still being processed" if drains else "another command is at work on this playbook"
            return [f"{what}; ask again in a moment"]
        if pipeline.only_reads:
            waits = len(spool.ready_for(project.root))
            return [f"the ledger may only be read; sessions that wait here: {waits}"] if waits else []
        aside: list[str] = []
        if spool.ready_for(project.root):
            from reflector.sessions.deliveries import NOT_A_PAYLOAD, Drained, take_deliveries

            done = Drained()
            take_deliveries(pipeline, done, retry="due", progress=None)
            aside = [f"{where}: {error}; kept in the spool" for where, error in done.failed]
            aside += [f"{path}: {NOT_A_PAYLOAD}" for path in done.broken]
        else:
            sweep(pipeline.ledger)
        notes = [*pipeline.notes, *aside]
        if project.config.asks_model and (asked := len(pipeline.ledger.open_windows())):
            notes.append(f"{asked} session window{'s wait' if asked > 1 else ' waits'} for the model's verdicts")
        return notes
