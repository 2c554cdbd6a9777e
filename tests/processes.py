"""Real processes of `reflector` and of the hook that need not load the interpreter and its libraries each.

`Popen` and `run` take what those of `subprocess` take. A command line that starts with `REFLECTOR` or `HOOK` becomes
a fork of a server that has imported what most commands import and has run nothing: it has its own folder,
environment, arguments, streams and session, and is a child of the process that asked for it, so waiting, signals and
exit codes are the system's own. Each other command line, and each option that a fork does not honour, starts a
process the usual way; so does every command where forks of this kind are not to be had (not Linux).

A test whose subject is how a process starts (what it imports, its entry points, its environment before an import)
uses `subprocess`.
"""

from __future__ import annotations

import array
import marshal
import os
import re
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from reflector.hooks.install import SCRIPT

HOOK = [sys.executable, "-I", "-S", SCRIPT]
REFLECTOR = [sys.executable, "-I", "-m", "reflector"]

_FORKER = Path(__file__).with_name("forker.py")
#: Read by the interpreter or the C library before the first line of ours runs.
_EARLY = re.compile(r"LC_|LANG|PYTHON|TZ|LD_|MALLOC")


_starting = threading.Lock()


class _Server:
    """A process that forks others, which are children of this one."""

    def __init__(self, prefix: list[str]) -> None:
        self.socket, theirs = socket.socketpair()
        flags = [flag for flag in prefix[1:] if flag in ("-I", "-S")]
        command = [sys.executable, *flags, str(_FORKER), str(theirs.fileno()), prefix[-1]]
        with theirs:
            # Of the environment each fork gets its own; the interpreter sees at its start what it sees in a test.
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={"PATH": os.environ["PATH"]})
        self.works = _is_child(self._answer())
        # Threads that ask at once would mix their requests.
        self._one = threading.Lock()

    def fork(self, request: tuple[Any, ...], streams: list[int]) -> int:
        """Start a process; its id."""
        message = marshal.dumps(request)
        rights = array.array("i", streams)
        head = len(message).to_bytes(8, "big")
        with self._one:
            self.socket.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self.socket.sendall(message)
            pid = self._answer()
        assert pid > 0, "the server of tests/forker.py has ended"
        return pid

    def _answer(self) -> int:
        return int.from_bytes(self.socket.recv(8), "big")


def _is_child(pid: int) -> bool:
    """Wait for a process that is a child of this one; False where it is none."""
    try:
        return pid > 0 and os.waitpid(pid, 0)[0] == pid
    except ChildProcessError:
        return False


def _server(prefix: tuple[str, ...]) -> _Server | None:
    """The server for a command line, started when first asked for; it ends when this process does."""
    with _starting:
        return _started(prefix)


@cache
def _started(prefix: tuple[str, ...]) -> _Server | None:
    server = _Server(list(prefix)) if sys.platform == "linux" else None
    return server if server is not None and server.works else None


def _prefix(command: Any) -> tuple[str, ...]:
    """`REFLECTOR` or `HOOK` where a command line starts with it."""
    words = [os.fspath(word) for word in command] if isinstance(command, (list, tuple)) else []
    return next((tuple(known) for known in (REFLECTOR, HOOK) if words[: len(known)] == known), ())


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, by a fork where that is the same."""

    def _execute_child(  # type: ignore[misc] # the one step of Popen that differs
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        _, _, shell, *pipes, restore_signals = rest[:10]
        *identity, session, group = rest[10:]
        environ = dict(os.environ if env is None else env)
        prefix = _prefix(args)
        folder = os.fspath(cwd or Path.cwd())
        forked = (
            prefix
            and (executable, preexec_fn, close_fds, tuple(pass_fds)) == (None, None, True, ())
            and (shell, restore_signals, *identity, group) == (False, True, None, None, None, -1, -1)
            and not any(map(_EARLY.match, environ))
            and Path(folder).is_dir()
        )
        server = _server(prefix) if forked else None
        if server is None:
            usual = super()._execute_child  # type: ignore[misc]
            usual(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        mask = os.umask(0)
        os.umask(mask)
        arguments = [os.fspath(word) for word in args[len(prefix) :]]
        request = (arguments, {os.fsencode(k): os.fsencode(v) for k, v in environ.items()}, folder, session, mask)
        streams = [given if given != -1 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = server.fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(
    command: Any, *, input: Any = None, capture_output: bool = False, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, by a fork where that is the same."""
    check = options.pop("check", False)
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
