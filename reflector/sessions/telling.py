"""Which lessons a session was told at its start, recorded when the session is taken in.

Invariant: nothing is recorded that is not known. The hook that prints the text writes to no ledger, so it is asked
afterwards: if the lessons to tell did not change since the session's first record, those that stand in the printed
text were told. If they did, nobody can say, and nothing is recorded.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from reflector.folders import state_folder
from reflector.ledger.store import Ledger
from reflector.lessons.recording import record_told
from reflector.sessions.injection import LESSONS_FILE, lessons_to_tell
from reflector.transcripts.formats import read_messages

_LINE = re.compile(r"^\[lesson ([0-9a-f]{8})\] ", re.MULTILINE)


def record_lessons_told(ledger: Ledger, project: Path, session_id: str, transcript: Path) -> None:
    """Record the lessons that a session was told, once. Raises LedgerError."""
    lessons = lessons_to_tell(project)
    if not lessons:
        return
    state = Path(state_folder(os.fspath(project)))
    try:
        since = datetime.fromtimestamp((state / LESSONS_FILE).stat().st_mtime, UTC)
        begun = next((message.timestamp for message in read_messages(transcript) if message.timestamp), None)
        if begun is None or datetime.fromisoformat(begun) < since:
            return
        shown = set(_LINE.findall((state / "injection.txt").read_text("utf-8", "replace")))
    except (OSError, ValueError, TypeError):
        return
    told = [one.name for one in lessons if one.name[:8] in shown]
    record_told(ledger, told, via="injection", actor="hook", session_id=session_id, key=[])
