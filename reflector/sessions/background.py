"""The drain that a hook starts: the same work as the command's, without the command line around it.

Invariant: it ends as `reflector drain --background` would. It prints nothing; after an error
the command line runs instead, which meets the error again and has its words and its exit code. What the drain
recorded until then stays.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from reflector.sessions.start_queue import load_in_turn


def run(project: str) -> int | None:
    """Drain a project, unless another drain is about to. Returns the exit code, None after an error to report."""
    if not load_in_turn(project, lambda: import_module("reflector.sessions.pipeline")):
        return 0
    from reflector.project import Project
    from reflector.sessions.pipeline import drain

    root = Path(project).absolute()
    try:
        done = drain(Project.at(root), retry="due") if root.is_dir() else None
    except Exception:  # noqa: BLE001  the command line meets it again
        return None
    if done is None:
        return 0 if root.is_dir() else None
    return 1 if done.failed else 0
