"""Finds a session's file where its hook named none: Codex CLI may name none, Copilot CLI names none at an end.

Invariant: only a file that is named by the very id is taken, so another agent's session never finds one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def transcript_of(session_id: str | None) -> Path | None:
    """Return the newest transcript of a session of Codex CLI or Copilot CLI; None for one that left no file.

    They are looked for under `$CODEX_HOME` or `~/.codex`, and `$COPILOT_HOME` or `~/.copilot`.
    """
    if not session_id or _ID.fullmatch(session_id) is None:
        return None
    try:
        codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        copilot = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
        found = sorted(codex.glob(f"sessions/*/*/*/rollout-*-{session_id}.jsonl"))
        found += copilot.glob(f"session-state/{session_id}/events.jsonl")
    except (OSError, RuntimeError):
        return None
    return found[-1] if found else None
