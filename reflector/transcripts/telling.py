"""What a session was told by our hook: read from the echo that an agent keeps of a hook's output.

Invariant: only what the agent's own records call a hook's output, or its own instructions, is read. The same lines in
a person's words, in a tool's answer or in the model's are nobody's telling.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

#: A bullet and a lesson as the hook prints them (requirements A-08), and the seed of the draw where some are left out.
_BULLET = re.compile(
    r"^\[((?:pat|mis|pref|ctx|oth)-\d{1,20}|kpt_\d{1,20})\] helpful=\d{1,20} harmful=\d{1,20} :: ",
    re.ASCII | re.MULTILINE,
)
_LESSON = re.compile(r"^\[lesson ([0-9a-f]{8})\] ", re.MULTILINE)
_SEED = re.compile(
    r"^\(\d+ more (?:bullet|key point)s? w\w+ left out here for length, by draw ([0-9a-f]{8});", re.MULTILINE
)
#: The longest text that a hook prints for the agent, twice: nothing longer is ours.
_LONGEST = 20_000


class Telling(NamedTuple):
    """What one text told: names of bullets, the first 8 digits of lessons' ids, SHA-256 of the text in hex, and the
    seed of the draw by which it was chosen, "" where nothing was left out."""

    bullets: tuple[str, ...]
    lessons: tuple[str, ...]
    digest: str
    seed: str


def telling_of(text: str) -> Telling | None:
    """Return what a text of a hook told; None for the text of somebody else's."""
    if len(text) > _LONGEST or ("] helpful=" not in text and "[lesson " not in text):
        return None
    text = text.replace("\r\n", "\n").strip()
    bullets, lessons = _BULLET.findall(text), _LESSON.findall(text)
    if not bullets and not lessons:
        return None
    seed = _SEED.search(text)
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return Telling(tuple(dict.fromkeys(bullets)), tuple(dict.fromkeys(lessons)), digest, seed[1] if seed else "")
