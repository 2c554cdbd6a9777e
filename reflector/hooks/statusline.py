"""The status line: one line for the agent's screen, from what the drain left ready.

Invariant: it reads a few small files and a folder, opens no ledger, and never fails: where there is nothing to say it
prints nothing. It imports what the hook imports, for the agent runs it after every turn.
"""

import sys

from reflector.files import read_all, write_all
from reflector.handover import INJECTION_FORM, MAX_PAYLOAD, read_own
from reflector.hooks import fast
from reflector.hooks.fast import MAX_INJECTION, keeper_of


def line_of(project: str) -> str:
    """Return the line of a project, "" where there is nothing to say."""
    stamp, _, rest = read_own(project, "injection.txt", MAX_INJECTION).partition(b"\n")
    line = rest.partition(b"\n")[0] if stamp.startswith(INJECTION_FORM + b" ") else b""
    return fast.line_of(project, line)


def _project() -> str:
    """Return the project of the session whose state the agent wrote to stdin, "" for none."""
    import json

    cwd = None
    try:
        told = json.loads(b"" if sys.stdin.isatty() else read_all(0, MAX_PAYLOAD))
        cwd = (told.get("workspace") or {}).get("project_dir") or told.get("cwd")
    except (OSError, ValueError, AttributeError):
        pass
    return fast.project_of({"cwd": cwd})


def main() -> None:
    """Print the line, and end well whatever happens: an agent shows an error in its place."""
    try:
        project = _project()
        line = line_of(keeper_of(project)) if project else ""
        write_all(1, f"{line}\n".encode() if line else b"")
    except (OSError, ValueError):
        pass
