"""Processes that work out answers for the one that writes.

Invariant: an answer is the same whoever works it out. What cannot be given to a process (none can be started here,
or one was killed) is worked out in this one, so a pool costs time at worst. A worker holds one task and nothing of
ours that is open: started anew instead of forked, it has no lock and no ledger, and it ends when we do, however we do.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

T = TypeVar("T")

#: One process writes for all of them: it could not follow many more.
_MOST = 8


def processors() -> int:
    """How many processors this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def pool_size(jobs: int | None) -> int:
    """How many workers for `jobs` processes asked for; None for one a processor. 0 where they would not help."""
    wanted = processors() if jobs is None else jobs
    return min(wanted, _MOST) if wanted > 1 else 0


class WorkerPool:
    """Up to `size` workers, each started when it is first needed. Close it, or use it as a context manager."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._own = threading.local()
        self._workers: list[_Worker] = []
        self._starting = threading.Lock()
        self._closed = False
        # A thread waits for each worker, so none is idle while this process writes.
        self._threads = ThreadPoolExecutor(size, "pool", _leave_interrupts_to_the_main_thread)

    def submit(self, task: Callable[..., T], *given: Any) -> Future[T]:
        """Work a task out: a function of a module, which keeps nothing, and what it is given. Both are pickled."""
        return self._threads.submit(self._answer, task, given)

    def close(self) -> None:
        """Stop at once: what is not done is cancelled."""
        with self._starting:
            self._closed = True
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _answer(self, task: Callable[..., T], given: tuple[Any, ...]) -> T:
        if self._closed:
            raise CancelledError
        try:
            is_done, answer = self._worker().work(task, given)
        except (OSError, EOFError, ImportError, ValueError, RuntimeError):
            if self._closed:
                raise CancelledError from None
            return task(*given)
        if is_done:
            done: T = answer
            return done
        raise answer

    def _worker(self) -> _Worker:
        """This thread's own."""
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            if getattr(self._own, "refused", False):
                raise OSError("no worker could be started")
            self._own.refused = True  # until one is there
            with self._starting:
                if self._closed:
                    raise OSError("the pool is closed")
                worker = self._own.worker = _Worker()
                self._workers.append(worker)
        return worker


class _Worker:
    """One process, asked one thing at a time. All raise OSError or EOFError once it is gone."""

    def __init__(self) -> None:
        from multiprocessing import get_context

        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        try:
            self._process.start()
        finally:
            theirs.close()

    def work(self, task: Callable[..., Any], given: tuple[Any, ...]) -> tuple[bool, Any]:
        """(whether it was done, the answer or the error)."""
        self._ours.send((task, given))
        done: tuple[bool, Any] = self._ours.recv()
        return done

    def stop(self) -> None:
        self._process.kill()


def _leave_interrupts_to_the_main_thread() -> None:
    """Ctrl-C reaches every process of a terminal. A worker has this thread's mask; we end it ourselves."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def _serve(asked: Connection[Any, Any]) -> None:
    """A worker's life. It ends with the pipe, whose other end only the process that started it holds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is made here holds no cycles; to look for them took a tenth of the time.
    gc.set_threshold(100_000)
    while True:
        try:
            task, given = asked.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, task(*given)
        except Exception as error:  # noqa: BLE001  whoever asked raises it
            answer = False, error
        try:
            asked.send(answer)
        except OSError:
            return
