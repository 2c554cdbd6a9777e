"""Real processes of `reflector` and of the hook that need not load the interpreter and its libraries each.

`Popen` and `run` accept what those of `subprocess` accept. A command line that begins with `REFLECTOR` or `HOOK`
becomes a fork of a server that has imported the commands and has run nothing: it has its own folder, environment,
arguments, streams and session, so signals and exit codes are the system's own. Its parent is a process that passes its
exit status on. Each other command line, and each option that a fork does not honour, starts a process the usual way.

A test whose subject is how a process starts (what it imports, its entry points, its environment before an import)
uses `subprocess`.
"""

from __future__ import annotations

import array
import gc
import importlib
import marshal
import os
import pkgutil
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from reflector.hooks.install import SCRIPT

HOOK = [sys.executable, "-I", "-S", SCRIPT]
REFLECTOR = [sys.executable, "-I", "-m", "reflector"]

#: Read by the interpreter or the C library before the first line of ours runs.
_EARLY = re.compile(r"LC_|LANG|PYTHON|TZ|LD_|MALLOC")
_SERVE = "import sys; sys.path.insert(0, {!r}); from tests.processes import serve; serve({})"
_lock = threading.Lock()


@cache
def _server() -> socket.socket:
    """The server, started when first asked for; it ends when this process does."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-c", _SERVE.format(str(Path(__file__).parents[1]), theirs.fileno())]
    with theirs:
        # Of the environment each fork gets its own; the interpreter sees at its start what it sees in a test.
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={"PATH": os.environ["PATH"]})
    process.returncode = 0  # nobody waits for it
    return ours


def _fork(request: tuple[Any, ...], streams: list[int]) -> int:
    """Start a process; its id. The last of the streams gets its exit status."""
    message = marshal.dumps(request)
    with _lock:  # threads that ask at once would mix their requests
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
        _server().sendmsg([len(message).to_bytes(8, "big")], rights)
        _server().sendall(message)
        return int.from_bytes(_server().recv(8), "big")


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, by a fork where that is the same."""

    _status: int | None = None

    def _execute_child(  # type: ignore[misc] # the one step of Popen that differs
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        _, _, shell, *pipes, restore_signals = rest[:10]
        *identity, session, group = rest[10:]
        words = [os.fspath(word) for word in args] if isinstance(args, list) else []
        known = next((known for known in (REFLECTOR, HOOK) if words[: len(known)] == known), None)
        environ = dict(os.environ if env is None else env)
        folder = os.fspath(cwd or Path.cwd())
        if (
            known is None
            or (executable, preexec_fn, close_fds, tuple(pass_fds)) != (None, None, True, ())
            or (shell, restore_signals, *identity, group) != (False, True, None, None, None, -1, -1)
            or any(map(_EARLY.match, environ))
            or not Path(folder).is_dir()
        ):
            usual = super()._execute_child  # type: ignore[misc]
            usual(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        mask = os.umask(0)
        os.umask(mask)
        variables = {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}
        streams = [given if given != -1 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._status, status = os.pipe()
        self.pid = _fork((known[-1], words[len(known) :], variables, folder, session, mask), [*streams, status])
        os.close(status)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Return the process and its exit status, (0, 0) while it runs and nobody wants to wait."""
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        os.set_blocking(self._status, not wait_flags)
        try:
            status = os.read(self._status, 4)
        except BlockingIOError:
            return 0, 0
        os.close(self._status)
        return self.pid, int.from_bytes(status, "big")

    def _internal_poll(self, *arguments: Any, **more: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*arguments, **more)  # type: ignore[misc,no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run(
    command: Any,
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, by a fork where that is the same."""
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


def serve(number: int) -> NoReturn:
    """Import the commands, and fork until nobody asks any more."""
    for name in ("alembic.command", "reflector.cli", "reflector.sessions", "reflector.hooks"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            if module.name != "__main__":
                importlib.import_module(f"{name}.{module.name}")
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(fileno=number)
    while True:
        head, streams, _, _ = socket.recv_fds(server, 8, 4)
        if not head:
            sys.exit()
        request = marshal.loads(server.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        if os.fork() == 0:
            _start(server, streams, request)
        for stream in streams:
            os.close(stream)


def _start(server: socket.socket, streams: list[int], request: tuple[Any, ...]) -> NoReturn:
    """Be the parent of the process that was asked for, until that ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        _become(streams[:3], *request)
    server.sendall(child.to_bytes(8, "big"))
    for stream in streams[:3]:
        os.close(stream)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(streams[3], os.waitpid(child, 0)[1].to_bytes(4, "big"))
    os._exit(0)


def _become(
    streams: list[int],
    program: str,
    arguments: list[str],
    environ: dict[bytes, bytes],
    folder: str,
    session: bool,
    mask: int,
) -> NoReturn:
    """Be the process that was asked for, and end as it does."""
    if session:
        os.setsid()
    os.umask(mask)
    os.chdir(folder)
    above = [os.dup(stream) for stream in streams]
    for own, stream in enumerate(above):
        os.dup2(stream, own)
    os.closerange(3, max(above) + 1)
    for known in (os.environb, __import__("posix").environ):
        known.clear()
        known.update(environ)
    tempfile.tempdir = None
    for own, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = open(own, "rw"[own > 0], encoding=old.encoding, errors=old.errors, newline="\n", closefd=False)  # noqa: SIM115
        stream.buffer.raw.name = f"<{name}>"
        stream.reconfigure(line_buffering=own == 2 or (own == 1 and os.isatty(1)))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    code: Any = 1
    try:
        sys.argv = [program, *arguments]
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            sys.modules["__main__"] = importlib.import_module(f"{program}.__main__")
            sys.argv[0] = str(sys.modules["__main__"].__file__)
            sys.modules["__main__"].main()
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        else:
            code = end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        for written in (sys.stdout, sys.stderr):
            try:
                written.flush()
            except (OSError, ValueError, AttributeError):
                code = code or 120
        os._exit(code)
