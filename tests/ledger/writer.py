"""A process that appends, for tests of many writers and of killed ones.

It tells of each append as soon as it is acknowledged, so that whoever kills it knows what must not
be lost. The processes are real ones, forked from a server that has the imports behind it: start-up
would be most of the time of these tests.
"""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from reflector.ledger.errors import LedgerAway, LedgerLocked
from reflector.ledger.store import Ledger

from .events import added, reflected, window

_CONTEXT = multiprocessing.get_context("forkserver")
#: The last two are imported by the first connection to PostgreSQL, which would be most of the time
#: of a writer's start.
_CONTEXT.set_forkserver_preload(
    ["__main__", "tests.ledger.writer", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"]
)


@dataclass(frozen=True)
class Ack:
    """An append that was acknowledged: the positions of its first and last event, and whose they
    are.
    """

    first: int
    last: int
    reflection: str


@dataclass
class Writer:
    """A writer process; `acks` are the appends it told of, `error` the traceback it ended with."""

    process: BaseProcess
    pipe: Connection
    acks: list[Ack] = field(default_factory=list)
    error: str | None = None

    def begin(self) -> None:
        self.pipe.send("begin")

    def heard(self) -> int:
        """Read what it said so far; how many appends it told of."""
        while self.pipe.poll():
            said = self.pipe.recv()
            assert isinstance(said, Ack), said
            self.acks.append(said)
        return len(self.acks)

    def kill(self) -> None:
        self.process.kill()
        self.finish()

    def finish(self) -> None:
        """Read what it says until it ends."""
        try:
            while (said := self.pipe.recv()) is not None:
                if isinstance(said, Ack):
                    self.acks.append(said)
                elif said != "ready":
                    self.error = said
        except (EOFError, OSError):
            pass
        self.process.join(30)
        assert self.process.exitcode is not None


@contextmanager
def writers(
    url: str,
    *numbers: int,
    batches: int | None,
    tags: int = 4,
    wait: bool = True,
    playbook: str = "default",
    pause: float | None = None,
) -> Iterator[list[Writer]]:
    """Processes that each append `batches` reflections (None: until killed) once they are told to
    begin.

    A `{}` in the playbook's name is the writer's number. One with a `pause` makes it between two
    appends, and tries again where the server is away, which passes by itself.
    """
    made = []
    for number in numbers:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_write, args=(theirs, url, playbook.format(number), number, batches, tags, pause)
        )
        process.start()
        theirs.close()
        made.append(Writer(process, ours))
    try:
        for writer in made if wait else ():
            said = writer.pipe.recv()
            assert said == "ready", said
        yield made
    finally:
        for writer in made:
            writer.process.kill()
            writer.process.join()
            writer.pipe.close()


def _again(what: Callable[[], Any]) -> Any:
    while True:
        try:
            return what()
        except (LedgerAway, LedgerLocked):
            time.sleep(0.3)


def _write(
    pipe: Any,
    url: str,
    playbook: str,
    writer: int,
    batches: int | None,
    tags: int,
    pause: float | None,
) -> None:
    try:
        with Ledger.open(url, playbook) as ledger:
            own = window(writer, f"session-{writer}", keys=[writer])
            ledger.append([own])
            pipe.send("ready")
            pipe.recv()
            number = 0
            while batches is None or number < batches:
                verdicts = [("pat-001", "helpful"), ("mis-001", "harmful")] * (tags // 2)
                events = reflected(f"{writer}-{number}", own, *verdicts)
                if pause is None:
                    answers = ledger.append(events)
                else:
                    answers = _again(lambda events=events: ledger.append(events))
                    time.sleep(pause)
                pipe.send(Ack(answers[0].position, answers[-1].position, f"{writer}-{number}"))
                number += 1
    except BaseException:  # noqa: BLE001  the test shows whatever it was
        pipe.send(traceback.format_exc())
    pipe.send(None)


def prepare(url: str, playbook: str = "default") -> None:
    """The bullets that every writer judges."""
    with Ledger.open(url, playbook) as ledger:
        ledger.append([added("pat-001"), added("mis-001")])
