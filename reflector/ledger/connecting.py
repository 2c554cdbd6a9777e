"""Why a server refused a connection, in its own code and not in its language.

Invariant: nothing is written to a disk: what libpq tells of an attempt holds what it sent, which may be a password.
"""

from __future__ import annotations

import os
import re
import select
import time
from contextlib import suppress
from typing import Any

#: A field of the server's answer, as libpq's trace has it.
_CODE = re.compile(rb'\tErrorResponse\t.* C "([0-9A-Z]{5})"')
_LONGEST_S = 5.0


def refusal_code(conninfo: str) -> str | None:
    """Return the SQLSTATE with which a server refuses a connection that is tried again now.

    The driver keeps no code of a connection that never came about, and the server words its answer in its own language;
    libpq's trace has the code. None where the server takes the connection, says nothing, or cannot be reached, and
    where libpq has no trace (not Linux), or none of how a connection begins (before version 18).
    """
    from psycopg import NotSupportedError, OperationalError, pq

    if not hasattr(os, "memfd_create"):
        return None
    memory = os.memfd_create("trace")
    try:
        tried = pq.PGconn.connect_start(conninfo.encode())
        try:
            with suppress(NotSupportedError, OperationalError):
                tried.trace(memory)
                _finish(tried)
                tried.untrace()  # writes what it has
        finally:
            tried.finish()
        found = _CODE.findall(os.pread(memory, 1 << 16, 0))
    finally:
        os.close(memory)
    return found[-1].decode() if found else None


def _finish(tried: Any) -> None:
    """Go on with an attempt to its end, for a while."""
    from psycopg.pq import PollingStatus

    waits_for = {PollingStatus.READING: select.POLLIN, PollingStatus.WRITING: select.POLLOUT}
    until, state = time.monotonic() + _LONGEST_S, PollingStatus.WRITING
    while state in waits_for and (left := until - time.monotonic()) > 0 and tried.socket >= 0:
        ready = select.poll()
        ready.register(tried.socket, waits_for[state])
        if ready.poll(left * 1000):
            state = tried.connect_poll()
