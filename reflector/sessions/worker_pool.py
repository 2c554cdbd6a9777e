"""Processes that work out answers for the one that writes.

Invariant: an answer is the same in every process. If no process can be started, or one was killed, this one does the
work, so a pool costs time at worst. A worker holds no open file of ours: it is a new process, not a fork,
has no lock and no ledger, and ends when we do, however we do.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any, Self, TypeVar

T = TypeVar("T")

#: One process writes for all of them: it could not follow many more.
_MOST = 8
#: Tasks ahead for each worker. A long one keeps its worker busy while the others go on.
_AHEAD = 8


def processors() -> int:
    """Return how many processors this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def pool_size(jobs: int | None) -> int:
    """Return how many workers serve `jobs` processes, None for one a processor; 0 where they would not help."""
    wanted = processors() if jobs is None else jobs
    return min(wanted, _MOST) if wanted > 1 else 0


class WorkerPool:
    """Up to `size` workers. Close it, or use it as a context manager."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._closed = False
        self._workers = ProcessPoolExecutor(size, get_context("spawn"), initializer=_begin)

    def submit(self, task: Callable[..., T], *given: Any) -> Callable[[], T]:
        """Return a function that waits for a task's answer. The task is a function of a module, and keeps nothing."""
        future: Future[T] | None = None
        with suppress(OSError, RuntimeError), _interrupts_blocked():  # of a pool that is broken, too
            future = self._workers.submit(task, *given)

        def answer() -> T:
            try:
                if future is not None:
                    return future.result()
            except BrokenExecutor:
                pass
            if self._closed:
                raise CancelledError
            return task(*given)

        return answer

    def ahead(self, task: Callable[..., T], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Callable[[], T]]:
        """Return for each job, in order, a function that waits for its answer. Later jobs are worked on meanwhile."""
        left = iter(jobs)
        submitted = deque(self.submit(task, *job) for job in islice(left, _AHEAD * self.size))

        def answers() -> Iterator[Callable[[], T]]:
            while submitted:
                yield submitted.popleft()
                submitted.extend(self.submit(task, *job) for job in islice(left, 1))

        return answers()

    def close(self) -> None:
        """End the workers at once; what is not done is cancelled."""
        self._closed = True
        for worker in active_children():
            worker.kill()
        self._workers.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal. A worker is born with it blocked; we end it ourselves."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """What a worker does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is made here holds no cycles; to look for them took a tenth of the time.
    gc.set_threshold(100_000)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
