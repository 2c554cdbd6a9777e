"""Differences between the events, and the tables and playbook.json that are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Literal

from reflector.events.registry import fold
from reflector.files import read_ours
from reflector.playbook.document import MAX_BYTES, load
from reflector.playbook_files.admission import PlaybookRefused
from reflector.playbook_files.playbook_json import (
    dump_for,
    examine_playbook,
    render_playbook,
)
from reflector.project import Project

#: Why something differs from the events: another hand changed the tables; a command was stopped
#: before it wrote the file, or the file was removed; somebody edited it.
Cause = Literal["tables", "left", "edited"]


@dataclass(frozen=True, slots=True)
class DriftJson:
    """A thing that differs from the events, and the lines of the difference."""

    of: str
    diff: list[str]
    cause: Cause = field(repr=False)


def drift_of(project: Project) -> list[DriftJson]:
    """Return the tables and playbook.json if they differ from the events.

    A file whose edit a question has recorded has the time from before it, and is no drift. Raises
    LedgerError, OSError.
    """
    with project.open_ledger() as ledger:
        playbook = fold(ledger.history())
        tables = render_playbook(ledger, project).decode()
        try:
            kind = examine_playbook(ledger, project).kind
        except PlaybookRefused:
            kind = "unreadable"
    bullets = playbook.bullets()

    def differing(of: str, text: str, updated_at: str | None, cause: Cause) -> list[DriftJson]:
        due = dump_for(project, bullets, updated_at).decode()
        if text == due or not (text or playbook.entries):
            return []
        lines = unified_diff(text.splitlines(), due.splitlines(), of, "the events", lineterm="")
        return [DriftJson(of, [*lines], cause)]

    drift = differing("the ledger's tables", tables, playbook.updated_at, "tables")
    if kind == "foreign":
        return drift
    path = project.playbook_json
    raw = read_ours(path, MAX_BYTES) if path.exists() else b""
    written_at = load(raw).last_updated or playbook.updated_at
    cause: Cause = "left" if kind in ("missing", "written") else "edited"
    return drift + differing(str(path), raw.decode("utf-8", "replace"), written_at, cause)
