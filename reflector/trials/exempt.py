"""Bullets that a trial cannot withhold: the agent reads their text in a file by itself.

Invariant: a bullet is exempt where all of its words stand in a row in such a file, whatever is between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from reflector.files import read_bounded
from reflector.locate import AGENT_FILES, agent_folder
from reflector.playbook.bullet import Bullet

_MOST = 1 << 20


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, Path]:
    """Return the bullets whose text stands in a file that an agent loads by itself in a project, by name."""
    texts = {}
    for path in (*(root / name for name in (*AGENT_FILES, ".claude/CLAUDE.md")), _users()):
        with suppress(OSError, ValueError):
            texts[path] = _words(read_bounded(path, _MOST).decode("utf-8", "replace"))
    named = [(one.name, _words(one.text)) for one in bullets]
    return {name: path for path, text in texts.items() for name, words in named if words.strip() and words in text}


def _users() -> Path:
    return Path(agent_folder()).expanduser() / "CLAUDE.md"


def _words(text: str) -> str:
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])
