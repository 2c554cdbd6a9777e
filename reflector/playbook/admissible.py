"""Checks the text and the counters of a bullet from every source: users, agents, models and files.

Invariant: there is one rule for all sources. Control, escape and bidirectional characters are
refused, not removed, because texts are shown in terminals and prompts, and a cleaned text would
differ from the file that its owner sees. Unicode's invisible "tag" characters are refused too,
because they only serve to hide instructions. A ledger keeps other invisible characters from before
they were refused, so `hidden_fault` checks only new texts.
"""

from __future__ import annotations

import re
import unicodedata

MAX_TEXT = 10_000
MAX_COUNT = 10**9 - 1

#: Compiled at its first use, like the next one.
_REFUSED = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
    "\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)

#: Characters without width. A joiner is admitted between two letters or pictures of a script that
#: has joiners; in Unicode, these scripts all come after Armenian. A space without width is admitted
#: between two letters of Thai, Lao, Tibetan, Burmese or Khmer. Two variation selectors in a row are
#: refused, because they select nothing.
_HIDDEN = (
    "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2060-\u2064\u206a-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb"
    "\U000e0080-\U000e0fff]|[\u200c\u200d]{2}|[\ufe00-\ufe0f]{2}"
    "|(?<![^\x00-\u058f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u058f])"
    "|(?<![\u0e00-\u109f\u1780-\u17ff])\u200b|\u200b(?![\u0e00-\u109f\u1780-\u17ff])"
)
_EDGES = " \t\n.,;:!…\"'`*_-。、「」『』・។៕၊။"


def text_fault(text: object) -> str | None:
    """Return the reason why `text` cannot be a bullet's text; None if it can."""
    if not isinstance(text, str):
        return "the text is not a string"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT:
        return f"the text has {len(text):,} characters, more than {MAX_TEXT:,}"
    if refused := re.search(_REFUSED, text):
        return f"the text contains the character U+{ord(refused[0]):04X} at index {refused.start()}"
    return None


def hidden_fault(text: str) -> str | None:
    """Return a message about the first invisible character of a new text; None if it has none."""
    if not text.isascii() and (hidden := re.search(_HIDDEN, text)):
        before = text[: hidden.start()][-20:]
        where = f"at index {hidden.start()}, after {before!r}" if before else "at index 0"
        return f"the text contains the invisible character U+{ord(hidden[0][0]):04X} {where}"
    return None


def same_words(text: str) -> str:
    """Return a text for comparison, without differences in case, in white space and in the
    punctuation around it.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)
