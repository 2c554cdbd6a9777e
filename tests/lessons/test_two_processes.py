"""Processes store, retrieve and score lessons on one ledger at once and are killed at random: nothing counts twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from reflector.ledger.store import Ledger
from reflector.lessons.book import lesson_book
from reflector.lessons.outcomes import promotion_confidence, tally
from reflector.proof.verify import verify

_STEPS = 120
_LESSONS = 12
#: (what, which lesson, kind of outcome) of each step of a worker: the whole oracle.
_KINDS = ("success", "failure", "review_approved")
_WORKER = """
import sys
from tests.lessons.test_two_processes import work
work(sys.argv[1], int(sys.argv[2]))
"""


def steps(worker: int) -> list[tuple[str, int, str]]:
    """What a worker does, by its number."""
    chance = random.Random(worker)
    what = ("store", "outcome", "outcome", "tell")
    return [(chance.choice(what), chance.randrange(_LESSONS), chance.choice(_KINDS)) for _ in range(_STEPS)]


def work(url: str, worker: int) -> None:
    """Do every step of a worker; whoever was killed begins again."""
    from reflector.lessons.recording import observe_outcome, record_lesson, record_told, relevant

    with Ledger.open(url) as ledger:
        for number, (what, which, kind) in enumerate(steps(worker)):
            id = record_lesson(ledger, "mistake", f"Lesson {which}", actor="engine", task="api")
            if what == "outcome":
                observe_outcome(ledger, id, kind, source="tests", key=[worker, number])
            elif what == "tell":
                relevant(lesson_book(ledger), "api", "", 3)
                record_told(ledger, [id], via="retrieval", actor="engine", task="api", key=[worker, number])
            print(number, flush=True)


@pytest.mark.slow
def test_counts_equal_the_oracle_however_often_the_processes_are_killed(ledger: Ledger) -> None:
    with ThreadPoolExecutor() as both:
        killed = sum(both.map(lambda worker: _worked_and_killed(ledger.engine.url.text, worker), (1, 2)))
    assert killed
    _equals_the_oracle(ledger)


def _worked_and_killed(url: str, worker: int) -> int:
    """Run a worker to its end; kill it four times on the way, each time somewhere in the step after a random one."""
    chance = random.Random(worker)
    killed = 0
    for last_step in [*(chance.randrange(_STEPS // 2) for _ in range(4)), None]:
        with subprocess.Popen([sys.executable, "-c", _WORKER, url, str(worker)], stdout=subprocess.PIPE) as process:
            assert process.stdout
            for number, _ in enumerate(process.stdout):
                if number == last_step:
                    time.sleep(0.01 * chance.random())
                    process.kill()
                    break
        assert process.returncode in (0, -signal.SIGKILL)
        killed += process.returncode != 0
    assert process.returncode == 0
    return killed


def _equals_the_oracle(ledger: Ledger) -> None:
    done = [step for worker in (1, 2) for step in steps(worker)]
    outcomes: dict[int, Counter[str]] = {which: Counter() for _, which, _ in done}
    told: Counter[int] = Counter()
    for what, which, kind in done:
        outcomes[which][kind] += what == "outcome"
        told[which] += what == "tell"
    book = {one.text: one for one in lesson_book(ledger)}
    assert len(book) == len(outcomes)
    for which, counts in outcomes.items():
        one = book[f"Lesson {which}"]
        assert Counter(outcome.kind for outcome in one.outcomes) == +counts
        assert one.times_applied == told[which]
        assert (one.successes, one.failures) == tally(one.outcomes)
        assert one.confidence == promotion_confidence(None, one.outcomes)
        # The order is that of the ledger, whoever came first.
        worth = 0.5
        for outcome in one.outcomes:
            worth = round(worth + 0.2 * ((outcome.kind != "failure") - worth), 6)
        assert one.effectiveness == worth
    assert list(verify(ledger)) == []
