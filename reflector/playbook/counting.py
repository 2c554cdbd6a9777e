"""Verdicts on a bullet, and which of those that were given are counted.

Invariant: under every counting policy a counter is a baseline plus the size of a set of tags; a policy only chooses the
key by which two tags are one member of that set, so none can subtract.
"""

from __future__ import annotations

from typing import Final, Literal, TypeGuard, get_args

Verdict = Literal["helpful", "harmful", "neutral"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Counting = Literal["as_applied", "once_per_reflection", "once_per_session"]

COUNTINGS: Final[tuple[Counting, ...]] = get_args(Counting)
DEFAULT: Final[Counting] = "as_applied"


def is_counting(value: object) -> TypeGuard[Counting]:
    """True for the name of a counting policy."""
    return value in COUNTINGS


def member(counting: Counting, event_id: str, reflection_id: str | None, session_id: str | None) -> str:
    """Return what a tag counts as: itself, its reflection or its session. Missing ids fall back to the tag itself."""
    if counting == "once_per_reflection":
        return reflection_id or event_id
    if counting == "once_per_session":
        return session_id or event_id
    return event_id
