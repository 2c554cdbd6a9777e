"""Turns: the order in which processes that write to one file get its lock.

Invariant: `flock` alone keeps writers apart, and the kernel takes it back from a process that dies. It is not fair: who
lets go of it and asks again is faster than those whom the kernel wakes. So a writer queues before it asks: it holds one
byte of the lock's file, numbered by the time at which it came, and waits until nobody holds a byte before. Whatever
happens to the queue costs the order only. A writer that knows nothing of it is kept out all the same.

A stopped process keeps its byte. Those behind it see that nobody has the lock, pass it, and regard no byte up to then.
"""

from __future__ import annotations

import _thread
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

#: Seconds in the queue before a writer looks whether nobody has the lock; how often nobody may before it passes.
_LOOK_AFTER: Final = 0.1
_LOOK_AGAIN: Final = 0.02
_LOOKS: Final = 3
#: A place is drawn again where whoever has the turn came later and holds the bytes before its own, this one among them.
_DRAWS: Final = 3


class Turns:
    """One writer's way to the lock of a file, used by one thread at a time; `opened` opens that file anew."""

    def __init__(self, opened: Callable[[], int]) -> None:
        self._opened = opened
        self._handle: int | None = None
        #: The first byte that counts.
        self._front = 0

    def take(self, limit: float) -> bool:
        """Wait for the lock, `limit` seconds at most; return whether it is held. Raises OSError."""
        until = time.monotonic() + limit
        if self._handle is None:
            self._handle = self._opened()
        place = self._draw(self._handle)
        if place is not None and not self._reaches(self._handle, place, until):
            return False
        if _has_lock(self._handle):
            return True
        with self._calling(self._handle, _wait_for_lock) as call:
            if call.ends(until - time.monotonic()):
                return True
        self._give_up(call)
        return False

    def leave(self) -> None:
        """Let the next one in."""
        import fcntl

        if self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            _let_bytes_go(self._handle)

    def close(self) -> None:
        """Close the lock's file, and let the next one in."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _draw(self, handle: int) -> int | None:
        """Return the place to wait at; None where nobody waits, and where no bytes can be locked."""
        with suppress(OSError):
            for _ in range(_DRAWS):
                place = time.monotonic_ns()
                if _has_bytes(handle, self._front, place):
                    return None
                if _has_bytes(handle, place, place):
                    return place
        return None

    def _reaches(self, handle: int, place: int, until: float) -> bool:
        """Wait until nobody is before a place, or whoever is does not take the lock; return False when time is up."""
        pause, free, passing = _LOOK_AFTER, 0, None
        with self._calling(handle, partial(_wait_for_bytes, first=self._front, last=place)) as call:
            while not call.ends(min(pause, until - time.monotonic())):
                if time.monotonic() >= until:
                    break
                pause, free = _LOOK_AGAIN, free + 1 if self._is_free() else 0
                if free == _LOOKS:
                    passing = self._opened()
                    break
            else:
                return True
        self._give_up(call)
        if passing is None:
            return False
        self._handle, self._front = passing, time.monotonic_ns()
        return True

    def _is_free(self) -> bool:
        handle = self._opened()
        try:
            return _has_lock(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _calling(self, handle: int, wait: Callable[[int], None]) -> Iterator[_Call]:
        call = _Call(handle, wait)
        try:
            yield call
        except BaseException:
            self._give_up(call)
            raise

    def _give_up(self, call: _Call) -> None:
        if self._handle is not None:
            _let_bytes_go(self._handle)
            self._handle = None
        call.leave()


class _Call:
    """A call that waits for a lock without a limit of time, so on a thread, which closes the file if it is left."""

    def __init__(self, handle: int, call: Callable[[int], None]) -> None:
        self._handle = handle
        self._error: OSError | None = None
        self._left = self._over = False
        self._changing = _thread.allocate_lock()
        self._waiting = _thread.allocate_lock()
        self._waiting.acquire()
        _thread.start_new_thread(self._run, (call,))  # threading.Thread would wait until it runs

    def ends(self, seconds: float) -> bool:
        """Wait for so long at most; return whether it ended. Raises its OSError."""
        if not self._waiting.acquire(timeout=max(0.0, seconds)):
            return False
        if self._error is not None:
            raise self._error
        return True

    def leave(self) -> None:
        """Wait no longer."""
        with self._changing:
            self._left = True
            if self._over:
                os.close(self._handle)

    def _run(self, call: Callable[[int], None]) -> None:
        try:
            call(self._handle)
        except OSError as error:
            self._error = error
        with self._changing:
            self._over = True
            if self._left:
                os.close(self._handle)
        self._waiting.release()


def _has_lock(handle: int) -> bool:
    """Take the lock if it is free; return whether it was. Raises OSError."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(handle: int) -> None:
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX)


def _has_bytes(handle: int, first: int, last: int) -> bool:
    """Lock these bytes if nobody holds one of them; return whether nobody did. Raises OSError."""
    try:
        _bytes(handle, first, last)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _wait_for_bytes(handle: int, first: int, last: int) -> None:
    _bytes(handle, first, last, wait=True)


def _let_bytes_go(handle: int) -> None:
    with suppress(OSError):
        _bytes(handle, 0, None)


def _bytes(handle: int, first: int, last: int | None, *, wait: bool = False) -> None:
    """Lock bytes for this opening of the file, or let go of all from `first` on. Raises OSError."""
    # The classic locks of bytes are a process's: they would not keep two ledgers of one process apart.
    if sys.platform != "linux":
        raise OSError
    import fcntl

    kind = fcntl.F_UNLCK if last is None else fcntl.F_WRLCK
    length = 0 if last is None else last - first + 1
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    fcntl.fcntl(handle, command, struct.pack("hhqqi", kind, os.SEEK_SET, first, length, 0))
