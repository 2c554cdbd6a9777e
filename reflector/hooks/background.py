"""The drain that a hook starts: the same work as the command's, without the command line around it.

Invariant: it ends as `reflector drain --background` would. It says nothing, for nobody listens; where it meets an
error the command line is run in its place, which meets it again and knows its words and its exit code. What the
drain took in until then stays.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from reflector.hooks.turn import load_in_turn


def run(project: str) -> int:
    """Drain a project, unless another drain is about to, and return the exit code."""
    if not load_in_turn(project, lambda: import_module("reflector.hooks.drain")):
        return 0
    from reflector.hooks.drain import drain
    from reflector.project import Project

    root = Path(project).absolute()
    try:
        if root.is_dir():
            done = drain(Project.at(root), retry="due")
            return 1 if done is not None and done.failed else 0
    except Exception:  # noqa: BLE001  told by the command line
        pass
    from reflector.cli import main as cli_main

    return cli_main()
