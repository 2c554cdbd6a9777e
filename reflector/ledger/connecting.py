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
_TRACES_HOW_IT_BEGINS = 180000


def refusal(conninfo: str) -> tuple[str, str] | None:
    """Return the SQLSTATE and the words with which a server refuses a connection that is tried again now.

    The driver keeps no code of a connection that never came about, and the server words its answer in its own language;
    libpq's trace has the code. None where the server takes the connection, says nothing, or cannot be reached, and
    where libpq has no trace (not Linux), or none of how a connection begins (before version 18); nothing is sent there.
    """
    from psycopg import OperationalError, pq

    if not hasattr(os, "memfd_create") or pq.version() < _TRACES_HOW_IT_BEGINS:
        return None
    memory = os.memfd_create("trace")
    try:
        tried = pq.PGconn.connect_start(conninfo.encode())
        try:
            tried.trace(memory)
            try:
                with suppress(OperationalError):  # it has no socket
                    _finish(tried)
            finally:
                # Writes what it has. The driver's stream stays open, and at the end of the process it would write the
                # rest to whatever has this descriptor by then.
                tried.untrace()
            is_taken, said = tried.status == pq.ConnStatus.OK, tried.error_message
        finally:
            tried.finish()
        found = _CODE.findall(os.pread(memory, 1 << 16, 0))
    finally:
        os.close(memory)
    return (found[-1].decode(), said.decode(errors="replace")) if found and not is_taken else None


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
