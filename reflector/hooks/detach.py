"""Start a process that outlives the hook where the system has no `posix_spawn`.

Invariant: the child belongs to no job, console or session of the agent's, and holds none of its pipes,
or the agent would wait for it.
"""

import sys
from functools import partial
from subprocess import DEVNULL, Popen


def start_detached(command: list[str]) -> None:
    """Start `command` and return at once. Raises OSError."""
    start = partial(Popen[bytes], command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    if sys.platform == "win32":
        from subprocess import CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS

        apart = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP
        try:
            start(creationflags=apart | CREATE_BREAKAWAY_FROM_JOB)
        except OSError:  # the agent's job forbids to break away
            start(creationflags=apart)
    else:
        start(start_new_session=True, cwd="/")
