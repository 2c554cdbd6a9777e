"""Finds a Codex session's file where its hook named none.

Invariant: only a file whose name ends with the very id is taken, so another agent's session never finds one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_THREAD_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def rollout_of(thread_id: str | None) -> Path | None:
    """Return the newest rollout of a thread under `$CODEX_HOME` or `~/.codex`; None for a session that left no file."""
    if not thread_id or _THREAD_ID.fullmatch(thread_id) is None:
        return None
    try:
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        found = sorted(home.glob(f"sessions/*/*/*/rollout-*-{thread_id}.jsonl"))
    except (OSError, RuntimeError):
        return None
    return found[-1] if found else None
