"""The status line: one line for the agent's screen, from what the drain left ready.

Invariant: it reads two small files and a folder, opens no ledger, and never fails: where there is nothing to say it
prints nothing. It imports what the hook imports, for the agent runs it after every turn.
"""

import sys

from reflector.folders import read_all, read_file, state_folder, write_all
from reflector.handover import INJECTION_FORM, MAX_PAYLOAD
from reflector.hooks import fast
from reflector.hooks.fast import MAX_INJECTION, keeper_of, physical, user_home
from reflector.locate import environment, find_project, user_config, worktree_notes


def line_of(project: str) -> str:
    """Return the line of a project, "" for one without a playbook."""
    try:
        kept = read_file(state_folder(project) + "/injection.txt", MAX_INJECTION)
    except (OSError, ValueError):
        return ""
    line = kept.split(b"\n", 2)[1] if kept.startswith(INJECTION_FORM + b" ") else b""
    return fast.line_of(project, line) if line else ""


def _project() -> str:
    """Return the project of the session whose state the agent wrote to stdin, "" for none."""
    import json

    if named := environment("REFLECTOR_PROJECT"):
        return physical(named)
    start = environment("CLAUDE_PROJECT_DIR")
    if not start and not sys.stdin.isatty():
        try:
            told = json.loads(read_all(0, MAX_PAYLOAD) or b"{}")
            place = told.get("workspace") or {}
            start = place.get("project_dir") or told.get("cwd") or ""
        except (OSError, ValueError, AttributeError):
            start = ""
    start = physical(start if isinstance(start, str) and start and "\0" not in start else ".")
    return find_project(start, user_home(), users_config=user_config(), notes=worktree_notes()) if start else ""


def main() -> None:
    """Print the line, and end well whatever happens: an agent shows an error in its place."""
    try:
        project = _project()
        line = line_of(keeper_of(project)) if project else ""
        write_all(1, f"{line}\n".encode() if line else b"")
    except (OSError, ValueError):
        pass
