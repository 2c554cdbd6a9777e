"""The placebo of a trial: neutral lines instead of advice.

Invariant: a placebo has the form and the length of the advice, but no name that an agent could
cite. It is the first lines of one bundled text, so anyone with this version can compute its
digests.
"""

from __future__ import annotations

from functools import cache

from reflector.resources import resource_dir
from reflector.transcripts.tellings import PLACEBO_HEADING, digest_of_text


@cache
def _lines() -> tuple[str, ...]:
    text = (resource_dir("prompts") / "placebo.txt").read_text("utf-8")
    return tuple(f"- {line}" for line in text.splitlines())


def placebo_text(length: int) -> str:
    """Return the longest placebo of at most `length` characters, but at least one line of it."""
    chosen = [PLACEBO_HEADING]
    room = length - len(PLACEBO_HEADING)
    for line in _lines():
        room -= len(line) + 1
        if room < 0 and len(chosen) > 1:
            break
        chosen.append(line)
    return "\n".join(chosen)


def bundled_digest() -> str:
    """Return the SHA-256 of the whole bundled text."""
    return digest_of_text("\n".join(_lines()))


@cache
def placebo_digests() -> frozenset[str]:
    """Return the digest of each placebo of this version."""
    lines = _lines()
    texts = ("\n".join((PLACEBO_HEADING, *lines[:count])) for count in range(1, len(lines) + 1))
    return frozenset(map(digest_of_text, texts))
