"""Work that is cut off when its time is over.

Invariant: the caller waits no longer than the budget, whatever the work does. Python cannot end a thread, so work that
hangs goes on alone, as a daemon that does not keep the process alive. Only so many may hang at once; further work
waits for its turn within its own budget.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import TypeVar

_T = TypeVar("_T")
_MOST_HANGING = 32
_LONGEST = 10**12
_free = threading.BoundedSemaphore(_MOST_HANGING)


class OutOfTime(Exception):
    """The work was not done within its budget."""


def within(milliseconds: int, work: Callable[[], _T]) -> Future[_T]:
    """Return the work's result or its error. Raises OutOfTime, and RuntimeError where no thread can be started."""
    seconds = min(milliseconds, _LONGEST) / 1000
    end = time.monotonic() + seconds
    free = _free
    if not free.acquire(timeout=seconds):
        raise OutOfTime
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
            done.set_exception(error)
        finally:
            free.release()

    try:
        threading.Thread(target=copy_context().run, args=(run,), name="reflection", daemon=True).start()
    except RuntimeError:
        free.release()
        raise
    if not wait([done], max(end - time.monotonic(), 0)).done:
        raise OutOfTime
    return done
