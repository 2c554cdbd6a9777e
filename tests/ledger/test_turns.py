"""The queue for a file's lock: first come, first served, and nobody waits for a process that is dead or stopped."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reflector.ledger import turns
from reflector.ledger.turns import Turns

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has locks of bytes for each opened file")
_LONG = 30.0
_WAITER = """
import os, sys
from reflector.ledger.turns import Turns
turns = Turns(lambda: os.open(sys.argv[1], os.O_RDWR))
print("asks", flush=True)
print(turns.take(30), flush=True)
sys.stdin.readline()
turns.leave()
print("left", flush=True)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db.lock"
    path.touch()
    return path


def _turns(lock: Path) -> Turns:
    return Turns(lambda: os.open(lock, os.O_RDWR))


def _until(happened: object) -> None:
    """Wait until a function of no arguments says that something happened."""
    assert callable(happened)
    end = time.monotonic() + _LONG
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.002)


def _waiting(lock: Path) -> int:
    """How many wait for a lock on this file, as the kernel lists them."""
    inode = f":{lock.stat().st_ino} "
    return sum("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@contextmanager
def _process(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that asks for its turn, and has it until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert _said(process) == "asks"
        yield process
    finally:
        process.kill()
        process.communicate()


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@linux
def test_turns_come_in_the_order_in_which_they_were_asked_for(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody is passed for coming late to the processor, as somebody may be who was stopped.
    monkeypatch.setattr(turns, "_LOOK_AFTER", _LONG)
    holder = _turns(lock)
    assert holder.take(_LONG)
    order: list[int] = []

    def wait(number: int) -> None:
        mine = _turns(lock)
        assert mine.take(_LONG)
        order.append(number)
        mine.leave()
        mine.close()

    waiters = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for number, waiter in enumerate(waiters):
        waiter.start()
        _until(lambda number=number: _waiting(lock) == number + 1)
    # Whoever just had its turn asks again behind those that wait already.
    holder.leave()
    assert holder.take(_LONG)
    assert order == list(range(6))
    for waiter in waiters:
        waiter.join()
    holder.close()


@linux
def test_a_turn_lasts_until_its_holder_leaves_or_dies(lock: Path) -> None:
    mine = _turns(lock)
    with _process(lock) as first, _process(lock) as second:
        assert _said(first) == "True"
        _until(lambda: _waiting(lock) == 1)
        assert not mine.take(0.01)
        first.kill()
        assert _said(second) == "True"
        _go_on(second)
        assert _said(second) == "left"
        assert mine.take(_LONG)
    mine.close()


@linux
def test_a_waiter_that_is_killed_is_nobodys_predecessor(lock: Path) -> None:
    mine = _turns(lock)
    assert mine.take(_LONG)
    with _process(lock) as first:
        _until(lambda: _waiting(lock) == 1)
        with _process(lock) as second:
            _until(lambda: _waiting(lock) == 2)
            first.kill()
            _until(lambda: _waiting(lock) == 1)
            mine.leave()
            assert _said(second) == "True"
    mine.close()


@linux
def test_a_stopped_waiter_is_passed_and_gets_its_turn_when_it_goes_on(lock: Path) -> None:
    mine = _turns(lock)
    assert mine.take(_LONG)
    with _process(lock) as stopped:
        _until(lambda: _waiting(lock) == 1)
        stopped.send_signal(signal.SIGSTOP)
        _until(lambda: _waiting(lock) == 0)
        with _process(lock) as behind:
            _until(lambda: _waiting(lock) == 1)
            mine.leave()
            assert _said(behind) == "True"
            _go_on(behind)
            assert _said(behind) == "left"
        # It keeps its place, and whoever comes later passes it as well.
        with _process(lock) as third:
            assert _said(third) == "True"
        mine.close()
        stopped.send_signal(signal.SIGCONT)
        assert _said(stopped) == "True"


@linux
def test_a_waiter_without_time_leaves_no_place_behind(lock: Path) -> None:
    holder, short, patient = _turns(lock), _turns(lock), _turns(lock)
    assert holder.take(_LONG)
    assert not short.take(0.01)
    waiting = threading.Thread(target=lambda: patient.take(_LONG))
    waiting.start()
    _until(lambda: _waiting(lock) >= 1)
    holder.leave()
    waiting.join()
    patient.leave()
    assert short.take(_LONG)
    for one in (holder, short, patient):
        one.close()


def test_a_process_that_knows_no_queue_is_kept_out_and_waited_for(lock: Path) -> None:
    mine = _turns(lock)
    other = os.open(lock, os.O_RDWR)
    assert mine.take(_LONG)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    mine.leave()
    fcntl.flock(other, fcntl.LOCK_EX)
    assert not mine.take(0.01)
    threading.Timer(0.05, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
    assert mine.take(_LONG)
    mine.close()
    os.close(other)


def test_where_no_bytes_can_be_locked_the_lock_alone_keeps_writers_apart(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "no such lock")

    monkeypatch.setattr(turns, "_bytes", refused)
    mine, other = _turns(lock), _turns(lock)
    assert mine.take(_LONG)
    assert not other.take(0.01)
    mine.leave()
    assert other.take(_LONG)
    other.close()
    mine.close()
