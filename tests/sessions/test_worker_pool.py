"""Processes that work out answers: the same answers, whatever becomes of the processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from reflector.sessions.worker_pool import WorkerPool, pool_size, processors


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # a killed child that nobody waited for yet


def ends(pid: int) -> bool:
    """Whether a process ends within the time that a busy machine may take to end it."""
    end = time.monotonic() + 120
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_tasks_are_worked_out_in_another_process(pool: WorkerPool) -> None:
    assert pool.submit(os.getpid)() != os.getpid()
    assert [task() for task in [pool.submit(abs, -number) for number in range(20)]] == list(range(20))


def test_an_error_is_raised_where_the_answer_is_asked_for_and_the_worker_goes_on(
    pool: WorkerPool, tmp_path: Path
) -> None:
    worker = pool.submit(os.getpid)()
    with pytest.raises(FileNotFoundError, match="missing"):
        pool.submit(os.path.getsize, tmp_path / "missing")()
    assert pool.submit(os.getpid)() == worker


def test_what_a_killed_worker_was_asked_is_worked_out_here(pool: WorkerPool) -> None:
    os.kill(pool.submit(os.getpid)(), signal.SIGKILL)
    assert pool.submit(os.getpid)() == os.getpid()
    assert pool.submit(abs, -1)() == 1


def test_where_no_process_can_be_started_this_one_does_the_work(pool: WorkerPool) -> None:
    multiprocessing.set_executable("/nowhere/python")
    try:
        assert pool.submit(os.getpid)() == os.getpid()
        assert pool.submit(abs, -1)() == 1
    finally:
        multiprocessing.set_executable(sys.executable)


def test_closing_ends_what_is_at_work_at_once() -> None:
    pool = WorkerPool(2)
    worker = pool.submit(os.getpid)()
    sleeping = [pool.submit(time.sleep, 3_600) for _ in range(5)]
    pool.close()  # they would sleep for an hour
    for task in sleeping:
        with pytest.raises(CancelledError):
            task()
    assert ends(worker)


def test_workers_end_when_the_process_that_started_them_is_killed() -> None:
    script = (
        "import os, time\n"
        "from reflector.sessions.worker_pool import WorkerPool\n"
        "if __name__ == '__main__':\n"
        "    print(WorkerPool(1).submit(os.getpid)(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
    assert ends(worker)


def test_one_job_needs_no_pool_and_many_are_bounded() -> None:
    assert pool_size(1) == 0
    assert pool_size(2) == 2
    assert pool_size(1000) == 8
    assert pool_size(None) == (0 if processors() == 1 else min(processors(), 8))
