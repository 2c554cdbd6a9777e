"""Checks of the text and the counters of a bullet, for all sources: people, agents, models and files.

Invariant: one rule for all. Control, escape and bidirectional characters are refused, not cleaned: texts are shown in
terminals and prompts, and a cleaned text would differ from the file that its owner sees. So are Unicode's invisible
"tag" characters, which only ever hide instructions.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TEXT: Final = 10_000
MAX_COUNT: Final = 10**9 - 1

_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def text_fault(text: object) -> str | None:
    """Why `text` cannot be a bullet's text, None where it can."""
    if not isinstance(text, str):
        return "the text is not a string"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT:
        return f"the text has {len(text):,} characters, more than {MAX_TEXT:,}"
    if refused := _REFUSED.search(text):
        return f"the text holds the character U+{ord(refused[0]):04X} at {refused.start()}"
    return None
