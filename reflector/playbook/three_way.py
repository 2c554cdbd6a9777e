"""Two versions of a playbook with a common ancestor, merged bullet by bullet.

Invariant: no advice is lost. What one side added, changed or removed is in the result; what one side changed and the
other removed stays as it was changed. A name that both gave to different advice stays with theirs, which others may
have already, and ours gets the next free one. The only conflict is a bullet whose text both changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .bullet import Bullet
from .names import Names


def merge(base: Sequence[Bullet], ours: Sequence[Bullet], theirs: Sequence[Bullet]) -> list[tuple[Bullet, Bullet]]:
    """Return the bullets of what two sides made of `base`, each with our text and with theirs: they differ where both
    changed one."""
    old, mine, other = ({bullet.name: bullet for bullet in side} for side in (base, ours, theirs))
    said = {(bullet.section, bullet.text) for name, bullet in other.items() if name not in old}
    kept: list[tuple[Bullet, Bullet]] = []
    clashing: list[Bullet] = []
    for name in dict.fromkeys((*old, *other, *mine)):
        was, a, b = old.get(name), mine.get(name), other.get(name)
        if was is not None and a is not None and b is not None:
            section = b.section if a.section == was.section else a.section
            texts = (b.text, b.text) if a.text == was.text else (a.text, a.text if b.text == was.text else b.text)
            kept.append((Bullet(name, section, texts[0]), Bullet(name, section, texts[1])))
        elif was is not None:
            kept += [(one, one) for one in (a, b) if one is not None and (one.section, one.text) != _said(was)]
        elif b is not None:
            kept.append((b, b))
            if a is not None and _said(a) not in said:
                clashing.append(a)
        elif a is not None and _said(a) not in said:
            kept.append((a, a))
    names = Names([*old, *mine, *other])
    for bullet in clashing:
        moved = replace(bullet, name=names.next(bullet.section))
        kept.append((moved, moved))
    return kept


def _said(bullet: Bullet) -> tuple[str, str]:
    return bullet.section, bullet.text
