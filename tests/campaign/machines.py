"""A machine: a home, a project and a ledger, and commands that run there as real processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pkgutil
import resource
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import reflector
from reflector.cli.app import run
from reflector.judges.reading.wordings import all_wordings
from tests.kills import die_before
from tests.road.agent import REFLECTOR

#: What ends a command that hangs.
_PATIENCE = 120


def preload() -> None:
    """Load the whole program and compile its expressions, so that a forked command starts at
    once.
    """
    for module in pkgutil.walk_packages(reflector.__path__, "reflector."):
        if not module.name.endswith("__main__"):
            for value in vars(import_module(module.name)).values():
                _compile(value)
    for wording in all_wordings():
        _compile(wording.expression)


def _compile(value: object) -> None:
    """Compile an expression that would be compiled when a command first uses it."""
    for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
        getattr(value, method, None)


@dataclass(frozen=True)
class Ran:
    """A command that ended, or was killed."""

    code: int
    out: str
    err: str

    @property
    def is_killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass
class Recorded:
    """An event as the table `event` has it."""

    position: int
    event_id: str
    type: str
    actor: str
    session: str | None
    reflection: str | None
    target: str | None
    data: dict[str, Any]
    meta: dict[str, Any]
    chain: str


@dataclass(frozen=True, order=True)
class Row:
    """A bullet as the view `bullets` has it."""

    name: str
    section: str
    text: str
    status: str
    into: str | None
    helpful: int
    harmful: int

    @property
    def counters(self) -> tuple[int, int]:
        return self.helpful, self.harmful


@dataclass
class Machine:
    """One person's machine."""

    name: str
    folder: Path
    url: str = ""
    said: Callable[[str], None] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        (self.project / ".claude").mkdir(parents=True)
        if self.url:
            self.said(f"export REFLECTOR_LEDGER_URL_{self.name}=NEW_DATABASE  # on PostgreSQL")

    @property
    def home(self) -> Path:
        return self.folder / f"home-{self.name}"

    @property
    def project(self) -> Path:
        return self.folder / self.name

    @property
    def playbook(self) -> Path:
        return self.project / ".claude" / "playbook.json"

    @property
    def ledger(self) -> Path:
        return self.project / ".claude" / "reflector" / "ledger.db"

    def environ(self) -> dict[str, str]:
        """The variables of every command on this machine."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.folder)}
        environ |= {"CLAUDE_PROJECT_DIR": str(self.project), "REFLECTOR_NO_SPAWN": "1"}
        return environ | ({"REFLECTOR_LEDGER_URL": self.url} if self.url else {})

    # Commands

    def run(
        self, *words: str, kill_at: int = 0, is_spawned: bool = False, quiet: bool = False
    ) -> Ran:
        """Run a command in a process of its own; with `kill_at`, killed right before so many of
        its calls.
        """
        if is_spawned and not kill_at:
            process = subprocess.run(
                [*REFLECTOR, *words],
                cwd=self.project,
                env=self.environ(),
                capture_output=True,
                timeout=_PATIENCE,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            ran = Ran(process.returncode, process.stdout.decode(), process.stderr.decode())
        else:
            ran = self._forked(lambda: run([*words]), kill_at)
        if not quiet:
            note = (
                f"  # killed before its call {kill_at}"
                if ran.is_killed
                else f"  # exit {ran.code}" * (ran.code != 0)
            )
            self.said(f"{self.name} {' '.join(map(_quoted, words))}{note}")
        return ran

    def runs(self, commands: Sequence[Sequence[str]]) -> list[Ran]:
        """Run commands that only read one after the other in one process, and return their
        answers.
        """

        def answers() -> list[Any]:
            return [_answer(words) for words in commands]

        return [Ran(*answer) for answer in self.asks(answers)]

    def asks(self, work: Callable[[], Any]) -> Any:
        """Call a function in a process that sees what commands see, and return its answer."""

        def answer() -> int:
            print(json.dumps(work()))
            return 0

        ran = self._forked(answer, 0)
        if ran.code:
            raise AssertionError(ran.err)
        return json.loads(ran.out)

    def _forked(self, work: Callable[[], int], kill_at: int) -> Ran:
        paths = [self.folder / f"{self.name}.{stream}" for stream in ("out", "err")]
        child = os.fork()
        if child == 0:
            code = 99
            try:
                signal.alarm(_PATIENCE)
                self._enter(paths)
                if kill_at:
                    die_before(kill_at)
                code = work()
                sys.setprofile(None)
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:  # noqa: BLE001 - it is the child's answer
                sys.setprofile(None)
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(code)
        status = os.waitpid(child, 0)[1]
        if kill_at and self.url:
            self._wait_for_the_server()
        out, err = (path.read_text("utf-8", "replace") for path in paths)
        return Ran(os.waitstatus_to_exitcode(status), out, err)

    def _enter(self, paths: list[Path]) -> None:
        environ = self.environ()
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(self.project)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(paths, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), "utf-8")
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), "utf-8", newline="")
            for number in (1, 2)
        )

    # What is in its ledger, read without the program

    def head(self) -> int:
        """The position of the last event; 0 without a ledger."""
        rows = self._rows("SELECT max(position) FROM event")
        return (rows[0][0] if rows else 0) or 0

    def events(self, after: int = 0) -> list[Recorded]:
        """The events after a position."""
        columns = (
            "position, event_id, type, actor, session_id, reflection_id, target_id, data, "
            "meta, chain"
        )
        found = self._rows(
            f"SELECT {columns} FROM event WHERE position > {after} ORDER BY position"
        )
        return [Recorded(*row[:7], _json(row[7]), _json(row[8]), row[9]) for row in found]

    def rows(self) -> list[Row]:
        """Every bullet, removed ones included."""
        columns = "name, section, text, status, removed_into, helpful, harmful"
        return sorted(Row(*row) for row in self._rows(f"SELECT {columns} FROM bullets"))

    def _wait_for_the_server(self) -> None:
        """Wait until the server has noticed that its client is gone: it may still be committing."""
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
            "pid <> pg_backend_pid()"
        )
        until = time.monotonic() + _PATIENCE
        while self._rows(f"{others} AND backend_type = 'client backend'")[0][0]:
            assert time.monotonic() < until, "the server keeps a client that was killed"
            time.sleep(0.01)

    def _rows(self, query: str) -> list[Any]:
        with self._connected() as connection:
            if connection is None:
                return []
            try:
                return list(connection.execute(query).fetchall())
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return []  # its making was killed

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        if self.url:
            import psycopg

            with psycopg.connect(self.url) as connection:
                yield connection
        elif not self.ledger.exists() or not self.ledger.stat().st_size:
            yield None
        else:
            connection = sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True)
            try:
                yield connection
            finally:
                connection.close()


def _answer(words: Sequence[str]) -> tuple[int, str, str]:
    """A command in this process: its exit code, and what it printed."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = run([*words])
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return code, out, err


def _json(text: Any) -> dict[str, Any]:
    value = json.loads(text) if isinstance(text, str | bytes) else text
    return value or {}


def _quoted(word: str) -> str:
    return shlex.quote(word)


def seconds_of_cpu() -> float:
    """The CPU that this process and its children took so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
