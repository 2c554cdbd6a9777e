"""Bullets that a trial cannot withhold: the agent reads their text in a file by itself.

Invariant: a bullet is exempt where every word of it stands in a row in such a file, whatever the spaces and the marks
around it. Files that an agent's instructions import (`@FILE`) are among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from reflector.files import read_bounded
from reflector.locate import AGENT_FILES, agent_folder
from reflector.playbook.bullet import Bullet

_MOST: Final = 1 << 20
_IMPORT: Final = re.compile(r"(?:^|\s)@([\w./~-]+\.\w+)")
_WORD: Final = re.compile(r"\w+")


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, Path]:
    """Return the bullets whose text stands in a file that an agent loads by itself in a project, by name."""
    texts = [(path, _words(text)) for path, text in _loaded(root)]
    named = ((one.name, _words(one.text)) for one in bullets)
    found = ((name, [path for path, text in texts if words in text]) for name, words in named if words.strip())
    return {name: paths[0] for name, paths in found if paths}


def _loaded(root: Path) -> Iterator[tuple[Path, str]]:
    paths = [root / name for name in (*AGENT_FILES, ".claude/CLAUDE.md")]
    paths.append(Path(agent_folder()).expanduser() / "CLAUDE.md")
    met: set[Path] = set()
    while paths:
        path = paths.pop(0)
        if path in met or len(met) > 100:
            continue
        met.add(path)
        try:
            text = read_bounded(path, _MOST).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        paths += [(path.parent / Path(name).expanduser()) for name in _IMPORT.findall(text)]
        yield path, text


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "
