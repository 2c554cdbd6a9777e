"""The text that the next session is shown, as the last writing of the playbook left it, and how its
rules rank.

A question that lists rules needs no more of the start's text than this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflector import handover
from reflector.playbook.ranking import RankingFacts

if TYPE_CHECKING:
    from reflector.ledger.usage import Usage

#: The number of shown texts after which other bullets get their turn.
TURN = 10


def told_text(project: Path) -> str:
    """Return the text that the next session is shown; "" if no text is rendered."""
    rendered = handover.read_own(os.fspath(project), "injection.txt", 1 << 20)
    return rendered.decode("utf-8", "replace").split("\n", 4)[-1]


def told_names(text: str) -> set[str]:
    """Return the names of the bullets in a text that sessions are shown."""
    return set(re.findall(r"^\[([a-z_]+-?\d+)\] (?:helpful=|:: )", text, re.MULTILINE))


def ranking_facts(usage: Usage, pinned: Sequence[str]) -> RankingFacts:
    """Return the facts of sessions so far by which bullets are ranked."""
    return RankingFacts(pinned, usage.told, usage.idle, usage.texts // TURN)
