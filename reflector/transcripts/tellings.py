"""What a text of our hook showed an agent: the names of bullets and lessons in it.

Invariant: bullets count as shown only if a record of the agent marks the text as a hook's output or
as its own instructions. The same lines in the words of a user, a tool or the model do not count.
A text has one digest, whichever ends of its lines a client writes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reflector.text.lazy import lazy_pattern

#: Begins the placebo of a trial, which is the last part of a text.
PLACEBO_HEADING = "## GENERAL NOTES AND FACTS"

#: A bullet and a lesson as the hook prints them (requirements A-08), and the seed of the draw if
#: some are omitted.
_BULLET = lazy_pattern(
    r"^\[((?:pat|mis|pref|ctx|oth)-\d{1,20}|kpt_\d{1,20})\] "
    r"(?:helpful=\d{1,20} harmful=\d{1,20} )?:: ",
    re.ASCII | re.MULTILINE,
)
_LESSON = lazy_pattern(r"^\[lesson ([0-9a-f]{8})\] ", re.MULTILINE)
_SEED = lazy_pattern(
    r"^\(\d+ more (?:bullet|key point)s? w\w+ left out here for length, by draw ([0-9a-f]{8});",
    re.MULTILINE,
)
#: Twice the longest text that our hook prints.
_MAX_TELLING = 20_000


class Telling(NamedTuple):
    """The bullets and lessons in one text.

    bullets  names
    lessons  the first 8 digits of their ids
    digest   SHA-256 in hex: of the text, or of the placebo in it
    seed     of the draw that chose the bullets, "" if none was omitted
    """

    bullets: tuple[str, ...]
    lessons: tuple[str, ...]
    digest: str
    seed: str


def telling_of(text: str) -> Telling | None:
    """Return the bullets and lessons in a text of our hook; None for any other text."""
    marks = ("] helpful=", "] :: ", "[lesson ", PLACEBO_HEADING)
    if len(text) > _MAX_TELLING or not any(mark in text for mark in marks):
        return None
    text = text.replace("\r\n", "\n").strip()
    bullets = tuple(dict.fromkeys(_BULLET.findall(text)))
    lessons = tuple(dict.fromkeys(_LESSON.findall(text)))
    begin = text.find(PLACEBO_HEADING)
    if not bullets and not lessons and begin < 0:
        return None
    seed = _SEED.search(text)
    digest = digest_of_text(text[max(0, begin) :])
    return Telling(bullets, lessons, digest, seed[1] if seed else "")


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of a text that was shown."""
    from hashlib import sha256

    return sha256(text.encode("utf-8", "replace")).hexdigest()
