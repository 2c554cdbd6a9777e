"""An agent at work in a project: real hooks, real commands, and questions about the results."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from unittest.mock import patch

import click

from reflector import entries
from reflector.cli.app import run
from reflector.cli.table import COMMANDS
from reflector.handover import sealed
from reflector.hooks import fast
from reflector.hooks.install import SCRIPT
from reflector.ledger.store import Ledger
from reflector.locate import own_folder
from reflector.project import Project
from tests.road.sessions import Session
from tests.schemas import check

#: The command lines of the hook and of `reflector`, as processes of the tests' own checkout.
HOOK = [sys.executable, "-I", "-S", SCRIPT]
_MAIN = (
    "import sys; sys.path.insert(0, {!r}); sys.argv[0] = 'reflector'; from reflector.__main__ "
    "import main; main()"
)
REFLECTOR = [sys.executable, "-I", "-c", _MAIN.format(str(Path(__file__).parents[2]))]
#: On a busy machine, a drain that a hook started takes seconds.
PATIENCE = 60.0

BULLETS = {
    "PATTERNS & APPROACHES": [
        {"name": "pat-001", "text": "Write the failing test first.", "helpful": 0, "harmful": 0},
        {"name": "pat-002", "text": "Keep functions small.", "helpful": 3, "harmful": 1},
    ],
    "MISTAKES TO AVOID": [
        {
            "name": "mis-001",
            "text": ("Mocking the database hides broken migrations."),
            "helpful": 0,
            "harmful": 0,
        }
    ],
}


class Keyboard(io.StringIO):
    """A terminal on which the user types these keys."""

    def isatty(self) -> bool:
        return True

    def press(self) -> str:
        """Return the next key.

        Raises: EOFError after the last one.
        """
        if key := self.read(1):
            return key
        raise EOFError


@contextmanager
def environ(values: Mapping[str, str]) -> Iterator[None]:
    """Give this process exactly these variables. Only those that differ are changed."""

    def become(values: Mapping[str, str], now: Mapping[str, str]) -> None:
        for name in now.keys() - values.keys():
            del os.environ[name]
        os.environ.update(dict(values.items() - now.items()))

    before = dict(os.environ)
    become(values, before)
    try:
        yield
    finally:
        become(before, dict(os.environ))


def hooked(payload: bytes) -> tuple[bytes, bytes]:
    """Run the hook in this process, and return its output and its errors."""
    ours = [os.dup(number) for number in range(3)]
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(payload)
        given.seek(0)
        for number, stream in enumerate((given, out, err)):
            os.dup2(stream.fileno(), number)
        try:
            fast.hook()
        finally:
            for number, own in enumerate(ours):
                os.dup2(own, number)
                os.close(own)
        return _content(out), _content(err)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str


@dataclass
class Agent:
    """A project folder with its own home, separate from the files of the user who runs the
    tests.
    """

    project: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def bare(cls, folder: Path, environ: dict[str, str] | None = None) -> Agent:
        """Return an agent in a new, empty project."""
        agent = cls(folder / "project", folder / "home", environ or {})
        for made in (agent.project, agent.home):
            made.mkdir(parents=True, exist_ok=True)
        return agent

    @classmethod
    def in_folder(cls, folder: Path, bullets: dict[str, Any] | None = None) -> Agent:
        """Return an agent in a new project with a playbook."""
        agent = cls.bare(folder)
        agent.claude.mkdir()
        agent.write_playbook(BULLETS if bullets is None else bullets)
        return agent

    @property
    def claude(self) -> Path:
        return self.project / ".claude"

    @property
    def playbook(self) -> Path:
        return self.claude / "playbook.json"

    @property
    def state(self) -> Path:
        return self.claude / "reflector"

    @property
    def own(self) -> Path:
        """The user's own folder of the project."""
        with environ({**os.environ, "HOME": str(self.home)}):
            return Path(own_folder(str(self.project)))

    @property
    def spool(self) -> Path:
        return self.state / "spool"

    @property
    def ledger(self) -> Path:
        return self.state / "ledger.db"

    def loses_its_copy(self) -> None:
        """Remove the ledger's entries from the user's own folder, as on a machine that never had
        the ledger.
        """
        shutil.rmtree(self.own, ignore_errors=True)

    def open_ledger(self) -> Ledger:
        """Open the ledger like the project, so that it is known as this user's."""

        def at_home(ledger: Ledger) -> None:
            with patch.dict(os.environ, self.env(), clear=True):
                entries.update_copy(ledger, project.place, opened)

        with patch.dict(os.environ, self.env(), clear=True):
            project = Project.at(self.project)
            ledger = project.open_ledger()
            opened = entries.file_identity(project.ledger_file)
        ledger.on_close = at_home
        return ledger

    def env(self, **more: str) -> dict[str, str]:
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDE_PROJECT_DIR": str(self.project),
        }
        base["TMPDIR"] = str(self.project.parent)
        return {**base, **self.environ, **more}

    def change_delivery(self, path: Path, **values: Any) -> None:
        """Change values of a delivery, as if its hook had written them."""
        facts = json.loads(path.read_bytes()) | values
        del facts["v"], facts["seal"]
        with patch.dict(os.environ, self.env(), clear=True):
            path.write_bytes(sealed(json.dumps(facts).removeprefix("{").encode()))

    def write_playbook(self, sections: dict[str, Any]) -> None:
        document = {"version": "1.0", "last_updated": None, "sections": sections}
        self.playbook.write_text(json.dumps(document, indent=2), "utf-8")

    def _payload(self, event: str, fields: Mapping[str, Any]) -> bytes:
        payload = {"hook_event_name": event, "cwd": str(self.project), **fields}
        return json.dumps(payload).encode()

    def start_hook(
        self, event: str, *, spawn: bool = False, **fields: Any
    ) -> subprocess.Popen[bytes]:
        """Start a hook, give it its payload, and return its process."""
        process = subprocess.Popen(
            HOOK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env() if spawn else self.env(REFLECTOR_NO_SPAWN="1"),
        )
        process.stdin.write(self._payload(event, fields))
        process.stdin.close()
        process.stdin = None
        return process

    def hook(self, event: str, *, spawn: bool = False, **fields: Any) -> str:
        """Run a hook to its end and return the text for the agent.

        It runs in this process, unless it starts a drain or other threads run beside it: streams
        and variables belong to the whole process.
        """
        alone = threading.current_thread() is threading.main_thread()
        if alone and not spawn:
            with environ(self.env(REFLECTOR_NO_SPAWN="1")):
                out, err = hooked(self._payload(event, fields))
            assert err == b""
            return out.decode()
        process = self.start_hook(event, spawn=spawn, **fields)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, b"")
        return out.decode()

    def hands(self, event: str, transcript: Path, *, drain: bool = False, **fields: Any) -> str:
        """Run a hook about a transcript that has the name of its session. Return the text for the
        agent, or a drain's output.
        """
        told = self.hook(
            event, **{"session_id": transcript.stem, "transcript_path": str(transcript)} | fields
        )
        return self.call("drain").out if drain else told

    def ended(
        self,
        cites: str = "pat-001",
        verdict: str | None = "helpful",
        *,
        id: str = "s-1",
        **fields: Any,
    ) -> Path:
        """Let a session end that cites a bullet, and return its transcript."""
        transcript = Session(id).cites(cites, verdict).write(self.home / f"{id}.jsonl")
        self.hands("SessionEnd", transcript, **fields)
        return transcript

    def counted(
        self, cites: str = "pat-001", verdict: str | None = "helpful", *, id: str = "s-1"
    ) -> Ran:
        """Record a session that cites a bullet, and return the output of `ingest`."""
        return self.call(
            "ingest", Session(id).cites(cites, verdict).write(self.home / f"{id}.jsonl")
        )

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a command, and return its process."""
        options = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.env(),
        } | options
        command = [*options.pop("program", REFLECTOR), *map(str, arguments)]
        return subprocess.Popen(command, text=True, cwd=self.project, **options)

    def sent(
        self,
        columns: int,
        *arguments: str,
        typed: bytes = b"",
        code: int | None = 0,
        errors: bool = True,
    ) -> str:
        """Return all output that a command sends to a terminal of N columns on which the user types
        a text.
        """
        child, master = pty.fork()
        if child == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                if not errors:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                sys.stdin, sys.stdout, sys.stderr = (
                    os.fdopen(number, mode) for number, mode in enumerate("rww")
                )
                os.chdir(self.project)
                with patch.dict(os.environ, {"TERM": "xterm", **self.env()}, clear=True):
                    ended = run([*arguments])
                sys.stdout.flush()
                os._exit(ended)
            except BaseException:  # noqa: BLE001 - it goes to the terminal, as an error does
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(99)
        os.write(master, typed)
        read = b""
        with suppress(OSError):  # the last one closed its end
            while piece := os.read(master, 65536):
                read += piece
        os.close(master)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code is None or ended == code, (ended, read)
        return read.decode().replace("\r\n", "\n")

    def run(self, *arguments: str | Path, code: int | None = 0, **options: Any) -> Ran:
        """Run a command to its end. Its exit code must be `code` unless that is None."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=PATIENCE * 2)
        assert code is None or process.returncode == code, (process.returncode, out, err)
        return Ran(process.returncode, out, err)

    def commit_long_ago(self) -> None:
        """Commit the whole project with a date before any session, so that each session started
        with its lines.
        """
        git = ["git", "-C", str(self.project), "-c", "user.name=n", "-c", "user.email=e"]
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2020-01-01T00:00:00Z")
        for words in (["init"], ["add", "-A"], ["commit", "-m", "x"]):
            environ = {**os.environ, **dates}
            subprocess.run([*git, *words], env=environ, check=True, capture_output=True)

    def call(
        self,
        *arguments: str | Path,
        code: int | None = 0,
        typed: str | None = None,
        keys: str | None = None,
    ) -> Ran:
        """Run a command in this process, if it need not be one of its own. It gets typed text, or
        keys that were pressed in a terminal.
        """
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        stdin = sys.stdin if typed is None else io.StringIO(typed)
        keyboard = Keyboard(keys or "")
        with (
            environ(self.env()),
            patch.object(sys, "stdin", stdin if keys is None else keyboard),
            patch.object(click, "getchar", keyboard.press),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            ended = run([*map(str, arguments)])
        err.flush()
        out.flush()
        told = Ran(ended, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]
        assert code is None or ended == code, told
        return told

    def dies(self, appends: int, *arguments: str | Path) -> bool:
        """Run a command in a process that ends after N appends, as if it was killed. Return whether
        it ended so.
        """
        child = os.fork()
        if child == 0:
            append, left = Ledger.append, iter(range(appends, 0, -1))

            def and_die(*given: Any, **named: Any) -> Any:
                appended = append(*given, **named)
                if next(left, 0) == 1:
                    os._exit(9)
                return appended

            with suppress(BaseException), patch.object(Ledger, "append", and_die):
                self.call(*arguments)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    def killed_at(self, step: int, *arguments: str | Path) -> bool:
        """Run a command that is killed at the N-th file to open, copy, rename or remove. Return
        whether it was killed.
        """
        child = os.fork()
        if child == 0:
            left = step

            def count(event: str, _: object) -> None:
                nonlocal left
                if event in (
                    "open",
                    "os.rename",
                    "os.remove",
                    "os.chmod",
                    "os.mkdir",
                    "shutil.copyfile",
                ):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            with suppress(BaseException):
                self.call(*arguments)
                os._exit(0)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or status == 0, arguments
        return os.WIFSIGNALED(status)

    def json(self, *arguments: str | Path, code: int | None = 0) -> Any:
        """Return a command's answer to --json, which must match its schema."""
        document = json.loads(self.call(*arguments, "--json", code=code).out)
        words = [str(word) for word in arguments]
        if words[:2] == ["lab", "--dataset"]:
            words = words[3:]
        start = next(number for number, word in enumerate(words) if word in COMMANDS)
        check(" ".join(words[start : start + 2]), document)
        return document

    def counters(self) -> dict[str, tuple[int, int]]:
        """Return (helpful, harmful) by name, as in playbook.json."""
        sections = json.loads(self.playbook.read_bytes())["sections"].values()
        return {b["name"]: (b["helpful"], b["harmful"]) for bullets in sections for b in bullets}

    def events(self, type_: str | None = None) -> list[dict[str, Any]]:
        """Return all events, or those of one type."""
        events: list[dict[str, Any]] = json.loads(self.call("log", "-n", "0", "--json").out)
        return sorted(
            (one for one in events if type_ in (None, one["type"])),
            key=lambda one: int(one["position"]),
        )

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait for the drains that hooks started, until `holds` returns true."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, (self.deliveries(), self.counters())
            time.sleep(0.05)

    def deliveries(self) -> list[str]:
        """Return the names of the deliveries in the spool: pending, waiting, failed or broken."""
        return sorted(str(path.relative_to(self.spool)) for path in self.spool.rglob("*.json"))
