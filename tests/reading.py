"""Readers for tests of several rooms: events and counters of a ledger, sections of docs/, and real
transcripts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.ledger.store import Ledger


def of_type(ledger: Ledger, type_: str) -> list[Event]:
    """Return the events of a type."""
    return list(ledger.events(types=[type_]))


def counters(ledger: Ledger) -> dict[str, tuple[int, int]]:
    """Return the counters of each bullet."""
    return {bullet.name: (bullet.helpful, bullet.harmful) for bullet in ledger.bullets()}


def windows(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the data of each recorded window."""
    return [dict(event.data or {}) for event in ledger.events(types=[ev.SESSION_RECORDED])]


DOCS = Path(__file__).parents[1] / "docs"


def section(page: str, title: str) -> str:
    """Return the part of a page of docs/ below one of its headings of the second level."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## (?![A-Z]+ )|\Z)", text, re.M | re.S)
    assert found, f"docs/{page} lacks the part {title}"
    return found[1]


SHARED = Path(
    os.environ.get("REFLECTOR_TRANSCRIPTS") or Path(__file__).parents[2] / "shared" / "transcripts"
)
#: Real transcripts, which are not part of the project.
FILES = sorted(SHARED.glob("*.jsonl")) if SHARED.is_dir() else []
