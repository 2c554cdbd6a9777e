"""The status line: one line for the agent's screen, from what the drain left ready.

Invariant: it reads two small files and a folder, opens no ledger, and never fails: where there is nothing to say it
prints nothing. It imports what the hook imports, for the agent runs it after every turn.
"""

import sys

from reflector.folders import read_all, read_file, state_folder, write_all
from reflector.handover import MAX_PAYLOAD
from reflector.hooks.fast import MAX_INJECTION, has_work, keeper_of, physical, user_home
from reflector.locate import environment, find_project, user_config, worktree_notes

#: What the drain leaves in the state folder: the verdicts of the session that it judged last.
LAST = "last-session.txt"
_MOST = 200


def line_of(project: str) -> str:
    """Return the line of a project, "" for one without a playbook."""
    state = state_folder(project)
    try:
        lines = read_file(state + "/injection.txt", MAX_INJECTION).split(b"\n")
    except (OSError, ValueError):
        return ""
    shown = sum(line[:1] == b"[" and b"] helpful=" in line for line in lines)
    cut = [line[1:].split(b" ", 1)[0] for line in lines if line[:1] == b"(" and b" left out here for length" in line]
    count = shown + int(cut[-1]) if cut and cut[-1].isdigit() else shown
    parts = [f"playbook: {count} key point{'' if count == 1 else 's'}" + (f", {shown} shown" if shown < count else "")]
    try:
        last = read_file(f"{state}/{LAST}", _MOST).decode("utf-8", "replace").strip()
        parts.append(f"last session: {last}")
    except (OSError, ValueError):
        pass
    if has_work(state):
        parts.append("a session waits to be processed")
    return " \u00b7 ".join(parts)


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
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
        write_all(1, f"{shown}\n".encode("utf-8", "replace") if shown else b"")
    except (OSError, ValueError):
        pass
