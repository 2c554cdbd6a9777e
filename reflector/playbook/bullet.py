"""One piece of advice as every reader of a playbook sees it, and which of its verdicts count.

Invariant: under every counting policy, a counter is a baseline plus the size of a set of tags. A
policy only chooses the key by which two tags are the same member of the set, so no policy can
subtract.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard, get_args

from .names import SECTIONS

Verdict = Literal["helpful", "harmful", "neutral"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Counting = Literal["as_applied", "once_per_reflection", "once_per_session"]

COUNTINGS: Final[tuple[Counting, ...]] = get_args(Counting)
DEFAULT: Final[Counting] = "as_applied"
#: The most tags of one reflection. They follow its completion within this many positions, so the
#: ledger finds them as a range of its key, without an index. A tag elsewhere can only be retracted
#: on its own.
MAX_TAGS = 10_000


def policy_words(counting: str) -> str:
    """Return how often verdicts count under a policy, in a clause."""
    if counting == DEFAULT:
        return "each verdict counts"
    return f"equal verdicts of one {counting.rpartition('_')[2]} count once"


@dataclass(frozen=True, slots=True)
class Bullet:
    """A rule in the playbook: `[pat-001] helpful=7 harmful=1 :: text`. `section` is a short name
    such as pat or mis; JSON contains the section's title.
    """

    name: str
    section: str
    text: str
    helpful: int = 0
    harmful: int = 0

    @property
    def line(self) -> str:
        """The bullet as prompts and the agent see it (requirements A-08), always on one line."""
        return (
            f"[{self.name}] helpful={self.helpful} harmful={self.harmful} :: "
            f"{' '.join(self.text.split())}"
        )


def best_first(bullet: Bullet) -> tuple[float, int, str]:
    """Sort key: Laplace's rule of succession (helpful+1)/(all+2), then more helpful, then name.

    A bullet without tags has 0.5, so it comes after those that helped and before those that harmed.
    """
    rate = (bullet.helpful + 1) / (bullet.helpful + bullet.harmful + 2)
    return (-rate, -bullet.helpful, bullet.name)


def sections_text(bullets: Iterable[Bullet]) -> str:
    """Return a playbook as text: `## TITLE` and a line for each bullet. Sections are in canonical
    order, without the empty ones. The text is "" without any bullet.
    """
    lines: dict[str, list[str]] = {slug: [] for slug in SECTIONS}
    for bullet in bullets:
        lines[bullet.section].append(bullet.line)
    parts = [f"## {SECTIONS[slug]}\n" + "\n".join(items) for slug, items in lines.items() if items]
    return "\n\n".join(parts)


def is_counting(value: object) -> TypeGuard[Counting]:
    """Return whether a value is the name of a counting policy."""
    return value in COUNTINGS


def member(
    counting: Counting, event_id: str, reflection_id: str | None, session_id: str | None
) -> str:
    """Return the id that a tag counts as: its own, that of its reflection or that of its session. A
    tag without that id counts as itself.
    """
    if counting == "once_per_reflection":
        return reflection_id or event_id
    if counting == "once_per_session":
        return session_id or event_id
    return event_id
