"""Processes that work out answers: the same answers, whatever becomes of the processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.reflection.crew import Crew, crew_size, processors


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(1) as crew:
        yield crew


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


def test_tasks_are_worked_out_in_another_process(crew: Crew) -> None:
    assert crew.submit(os.getpid).result() != os.getpid()
    assert [task.result() for task in [crew.submit(abs, -number) for number in range(20)]] == list(range(20))


def test_an_error_is_raised_where_the_answer_is_asked_for_and_the_worker_goes_on(crew: Crew, tmp_path: Path) -> None:
    worker = crew.submit(os.getpid).result()
    with pytest.raises(FileNotFoundError, match="missing"):
        crew.submit(os.path.getsize, tmp_path / "missing").result()
    assert crew.submit(os.getpid).result() == worker


def test_what_a_killed_worker_was_asked_is_worked_out_here(crew: Crew) -> None:
    os.kill(crew.submit(os.getpid).result(), signal.SIGKILL)
    assert crew.submit(os.getpid).result() == os.getpid()
    assert crew.submit(abs, -1).result() == 1


def test_where_no_process_can_be_started_this_one_does_the_work(crew: Crew) -> None:
    multiprocessing.set_executable("/nowhere/python")
    try:
        assert crew.submit(os.getpid).result() == os.getpid()
        assert crew.submit(abs, -1).result() == 1
    finally:
        multiprocessing.set_executable(sys.executable)


def test_closing_ends_what_is_at_work_at_once() -> None:
    crew = Crew(2)
    worker = crew.submit(os.getpid).result()
    sleeping = [crew.submit(time.sleep, 3_600) for _ in range(5)]
    crew.close()  # they would sleep for an hour
    assert all(task.done() for task in sleeping)
    assert ends(worker)


def test_workers_end_when_the_process_that_started_them_is_killed() -> None:
    script = (
        "import os, time\n"
        "from reflector.reflection.crew import Crew\n"
        "if __name__ == '__main__':\n"
        "    print(Crew(1).submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
    assert ends(worker)


def test_one_job_needs_no_crew_and_many_are_bounded() -> None:
    assert crew_size(1) == 0
    assert crew_size(2) == 2
    assert crew_size(1000) == 8
    assert crew_size(None) == (0 if processors() == 1 else min(processors(), 8))
