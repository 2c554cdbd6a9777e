"""Start a process that outlives the hook where the system has no `posix_spawn`.

Invariant: the child belongs to no job, console or session of the agent's, and holds none of its pipes,
or the agent would wait for it.
"""

import subprocess
import sys


def start_detached(command: list[str]) -> None:
    """Start `command` and return at once. Raises OSError."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if sys.platform == "win32":
        apart = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        try:
            subprocess.Popen(command, **quiet, creationflags=apart | subprocess.CREATE_BREAKAWAY_FROM_JOB)
        except OSError:  # the agent's job forbids to break away
            subprocess.Popen(command, **quiet, creationflags=apart)
    else:
        subprocess.Popen(command, **quiet, start_new_session=True, cwd="/")
