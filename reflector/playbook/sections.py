"""A playbook as text: `## TITLE` and one line for each bullet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reflector.playbook.names import SECTIONS

if TYPE_CHECKING:
    from reflector.playbook.bullet import Bullet


def sections_text(bullets: Iterable[Bullet]) -> str:
    """Sections in canonical order with a blank line between them, empty ones left out; "" without any bullet."""
    lines: dict[str, list[str]] = {slug: [] for slug in SECTIONS}
    for bullet in bullets:
        lines[bullet.section].append(bullet.line)
    return "\n\n".join(f"## {SECTIONS[slug]}\n" + "\n".join(found) for slug, found in lines.items() if found)
