"""Text from outside, made fit to be seen: without what a terminal obeys or hides.

Invariant: in time linear in the text. What is shown cannot move the cursor, change a line's direction or hide a letter.
"""

from __future__ import annotations

import re

#: Compiled when a text first needs them: most are plain.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, …
    r"|\x1b[ -/]{0,8}[0-~]"
)
_INVISIBLE = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES = "[\ud800-\udfff]"


def clean(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, safe for a terminal, a prompt and UTF-8.

    Escape sequences, control, bidirectional and invisible characters go; line breaks and runs of white
    space become one space; a lone surrogate becomes U+FFFD; what is cut ends in `…`.
    """
    line = " ".join(visible(text).split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…" if limit > 0 else ""


def visible(text: str) -> str:
    """`text` without escape sequences, control, bidirectional and invisible characters; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_SURROGATES, "\ufffd", re.sub(_INVISIBLE, "", re.sub(_ESCAPES, "", text)))
