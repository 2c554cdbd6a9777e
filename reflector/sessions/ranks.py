"""What a session that starts now is told, and by which order: as the last writing of the playbook left it.

Invariant: what a ranking knows of each bullet besides its counters is kept for the hook, which opens no ledger. It
changes only when the playbook, the settings of the ranking, or the turn does, so that all starts between two changes
get the same bytes. A turn is `TURN` texts that were told: a playbook whose counters stand still moves on as well, and
no clock is asked.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reflector.files import write_durably
from reflector.handover import open_own, read_own
from reflector.playbook.bullet import Bullet
from reflector.playbook.ranking import Standing
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.ledger.store import Ledger
    from reflector.lessons.book import LessonBook

#: The section of the lessons.
LESSONS: Final = "LESSONS"
_MOST_LESSONS: Final = 20
#: In a person's own folder of the project: what the ranking knows, and the lessons to tell.
RANKS: Final = "ranks.json"
#: Texts that were told, after which others have their turn.
TURN: Final = 10
_MOST_RANKS: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Told(Bullet):
    """A lesson as it is told and ranked: its successes and failures are its counters."""

    @property
    def line(self) -> str:
        return f"[lesson {self.name[:8]}] {' '.join(self.text.split())}"


def ranks(ledger: Ledger, config: Config, upto: int | None = None) -> Standing:
    """Return what is known up to a position; None for now. Raises LedgerError."""
    from reflector.ledger.usage import usage_at

    known = usage_at(ledger, upto)
    return Standing(config.pinned, known.told, known.idle, known.texts // TURN)


def keep_ranks(root: Path, ledger: Ledger, config: Config, book: LessonBook | None) -> None:
    """Leave what the ranking knows, and the best lessons, to the sessions that start from now on."""
    from reflector.ledger.usage import told_texts

    best = [one for one in (book.best() if book else ()) if one.bullet is None and one.kind != "summary"]
    lessons = [[one.id, quote(one.text, 300), one.successes, one.failures] for one in best[:_MOST_LESSONS]]
    of = [list(config.pinned), ledger.updated_at(), told_texts(ledger) // TURN, lessons]
    if _kept_ranks(root).get("of", [[], ledger.updated_at(), 0, []]) == of:
        return
    found = ranks(ledger, config)
    content = {"of": of, "told": dict(found.told), "idle": dict(found.idle)}
    write_durably(open_own(os.fspath(root)), json.dumps(content).encode(), RANKS)


def kept_standing(root: Path, users: Path) -> tuple[Standing, list[Told]]:
    """Return what the last writing of the playbook left to the ranking, with that of the user's own playbook beside,
    and the lessons that it left to be told."""
    own = _kept_ranks(root)
    found = [_kept_ranks(users), own] if users != root else [own]
    try:
        told, idle = ({n: int(k) for one in found for n, k in one.get(key, {}).items()} for key in ("told", "idle"))
        pinned, _, turn, rows = own.get("of", [[], None, 0, []])[-4:]  # an older one began with a policy
        lessons = [Told(str(id), LESSONS, str(text), int(good), int(bad)) for id, text, good, bad in rows]
        return Standing(tuple(map(str, pinned)), told, idle, int(turn)), lessons
    except (ValueError, TypeError, AttributeError):
        return Standing(), []


def _kept_ranks(root: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_own(os.fspath(root), RANKS, _MOST_RANKS))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def told_text(project: Path) -> str:
    """Return the text that the next session is told; "" where none is rendered."""
    rendered = read_own(os.fspath(project), "injection.txt", 1 << 20)
    return rendered.decode("utf-8", "replace").split("\n", 4)[-1]


def told_names(text: str) -> set[str]:
    """Return the names of the bullets in a text that sessions are told."""
    return set(re.findall(r"^\[([a-z_]+-?\d+)\] helpful=", text, re.MULTILINE))
