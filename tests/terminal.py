"""A terminal of a chosen width for a command."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from contextlib import suppress
from subprocess import Popen

from tests.road.agent import Agent


def sent(agent: Agent, columns: int, command: list[str], typed: bytes = b"", **stderr: int) -> str:
    """All that a command sends to a terminal of so many columns, on which a person typed something."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # A process of its own: the size is that of the terminal which the process was started on.
    process = Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=stderr.get("stderr", slave),
        env={"TERM": "xterm", **agent.env()},
        cwd=agent.project,
    )
    os.close(slave)
    os.write(master, typed)
    read = b""
    with suppress(OSError):  # the last one closed its end
        while piece := os.read(master, 65536):
            read += piece
    os.close(master)
    assert process.wait() == 0
    return read.decode().replace("\r\n", "\n")
