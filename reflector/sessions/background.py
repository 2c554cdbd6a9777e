"""The drain that a hook starts: the same work as the command's, without the command line around it.

Invariant: it ends as `reflector drain --background` would. It prints nothing; after an error
the command line runs instead, which meets the error again and has its words and its exit code. What the drain
recorded until then stays. While the ledger's server is away, as in a failover, one drain of the project waits for it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.sessions.deliveries import Drained


def run(project: str) -> int | None:
    """Drain a project. Returns the exit code, None after an error to report."""
    from reflector.project import Project

    try:
        root = Path(project).absolute()
        if not root.is_dir():
            return None
        done = _drained(Project.at(root))
    except Exception:  # noqa: BLE001  the command line meets it again
        return None
    return 1 if done is not None and (done.failed or done.broken) else 0


def _drained(project: Project) -> Drained | None:
    """Drain a project; None where another process does or will. Raises as `drain` does."""
    from reflector.ledger.errors import LedgerAway
    from reflector.sessions import locks
    from reflector.sessions.pauses import OUTAGE_PAUSES
    from reflector.sessions.pipeline import drain

    for pause in OUTAGE_PAUSES:
        try:
            return drain(project, retry="due")
        except LedgerAway:
            # Held for the pause alone, so that who holds it looks into the spool after who leaves.
            with locks.held(project.state_dir, "away.lock", wait=False) as held:
                if not held:
                    return None
                time.sleep(pause)
    return drain(project, retry="due")
