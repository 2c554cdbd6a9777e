"""The server of tests/processes.py: imports a program, runs none of it, and forks a process for each request.

Run as `python -I [-S] forker.py SOCKET PROGRAM`. Its forks are children of whoever started it (CLONE_PARENT), who
can wait for them as for any other. It has one thread and no open ledger, so a fork is as good as a new process.
"""

import ctypes
import gc
import importlib
import marshal
import os
import platform
import posix
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress

_CLONE = {"x86_64": 56, "aarch64": 220}
_FLAGS = 0x00008000 | 0x01000000 | 0x00200000 | signal.SIGCHLD  # CLONE_PARENT, CHILD_SETTID, CHILD_CLEARTID
_PR_GET_TID_ADDRESS = 40
_LIBC = ctypes.PyDLL(None, use_errno=True)  # holds Python's lock over a call


def fork_for_the_parent() -> int:
    """`os.fork`, but for the child being the parent's."""
    number, where = _CLONE.get(platform.machine()), ctypes.c_void_p()
    # The C library keeps its thread's id where the kernel writes it for a fork of its own.
    if number is None or _LIBC.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(where), 0, 0, 0) != 0:
        return -1
    last = (where, None) if number == 56 else (None, where)
    ctypes.pythonapi.PyOS_BeforeFork()
    _LIBC.syscall.restype = ctypes.c_long
    pid: int = _LIBC.syscall(ctypes.c_long(number), ctypes.c_ulong(_FLAGS), None, None, *last)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid


def serve(server: socket.socket, program: str) -> None:
    """Fork until nobody asks any more."""
    probe = fork_for_the_parent()
    if probe == 0:
        os._exit(0)
    server.sendall(max(probe, 0).to_bytes(8, "big"))
    while True:
        head, streams, _, _ = socket.recv_fds(server, 8, 3)
        if not head:
            return
        message = server.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        pid = fork_for_the_parent()
        if pid == 0:
            become(program, streams, *marshal.loads(message))
        server.sendall(pid.to_bytes(8, "big"))
        for stream in streams:
            os.close(stream)


def become(
    program: str,
    streams: list[int],
    arguments: list[str],
    environ: dict[bytes, bytes],
    folder: str,
    session: bool,
    mask: int,
) -> None:
    """Be the process that was asked for, and end as it does."""
    if session:
        os.setsid()
    os.umask(mask)
    os.chdir(folder)
    above = [os.dup(stream) for stream in streams]
    for own, stream in enumerate(above):
        os.dup2(stream, own)
    os.closerange(3, max(above) + 1)
    os.environb.clear()
    os.environb.update(environ)
    posix.environ.clear()
    posix.environ.update(environ)
    tempfile.tempdir = None
    for own, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        lines = own == 2 or (own == 1 and os.isatty(1))
        stream = open(own, "rw"[own > 0], encoding=old.encoding, errors=old.errors, newline="\n", closefd=False)  # noqa: SIM115
        stream.buffer.raw.name = f"<{name}>"
        stream.reconfigure(line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    code = 1
    try:
        run(program, arguments)
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
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                code = code or 120
        os._exit(code)


def run(program: str, arguments: list[str]) -> None:
    """Run a module as `python -m` does, or a file."""
    if program.endswith(".py"):
        sys.argv = [program, *arguments]
        with open(program, "rb") as file:
            exec(compile(file.read(), program, "exec"), {"__name__": "__main__", "__file__": program})
    else:
        main = importlib.import_module(f"{program}.__main__")
        sys.modules["__main__"] = main
        sys.argv = [str(main.__file__), *arguments]
        main.main()


def prepare(program: str) -> None:
    """Import what most of the program's processes import."""
    if program.endswith(".py"):
        sys.path.insert(0, program.rsplit("/", 3)[0])
        importlib.import_module("reflector.hooks.fast")
        importlib.import_module("reflector.sessions.injection")
    else:
        for name in PRELOADED:
            with suppress(ModuleNotFoundError):  # pysqlite3 is not everywhere
                importlib.import_module(name)


PRELOADED = (
    "alembic.config alembic.command pysqlite3 reflector.__main__ reflector.cli.app reflector.cli.arguments "
    "reflector.cli.audit reflector.cli.ingest reflector.cli.log reflector.cli.moments reflector.cli.output "
    "reflector.cli.playbook reflector.ledger.migration reflector.ledger.store reflector.project "
    "reflector.reflection.backends.rules reflector.sessions.background reflector.sessions.pipeline"
).split()


if __name__ == "__main__":
    prepare(sys.argv[2])
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
