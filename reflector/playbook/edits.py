"""What a person changed in a playbook that is a text, as changes.

Invariant: the changes of `edits_between(base, edited)`, applied to base, give edited. They are computed
against the document that was edited, not against the ledger's present state, and say only what the
person touched. Appended to the ledger, they leave the counts that arrived meanwhile as they are.

Bullets are matched by name, never by likeness: a bullet whose name was changed by hand is a removal and
an addition, because a name means one bullet forever. The order inside a section is the order of creation
and not a person's to change, so a bullet that only changed its place gives no edit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .change import Change, added

if TYPE_CHECKING:
    from .bullet import Bullet


def edits_between(
    base: Sequence[Bullet],
    edited: Sequence[Bullet],
    unnamed: Collection[str] = (),
    uncounted: Collection[str] = (),
) -> list[Change]:
    """The changes that lead from `base` to `edited`: changes and additions in the order of `edited`, then removals.

    `unnamed` are names of `edited` that the reader made up (`Loaded.named_here`); such a bullet is
    added without a name. `uncounted` are those without counters, which says nothing about counts.
    Raises ValueError for a name that one of the two holds twice.
    """
    before = _by_name(base, "base")
    after = _by_name(edited, "edited")
    edits: list[Change] = []
    for name, bullet in after.items():
        old = before.get(name)
        if old is None or name in unnamed:
            given = None if name in unnamed else name
            edits.append(replace(added(bullet), name=given))
            continue
        if bullet.text != old.text:
            edits.append(Change("revise", name, text=bullet.text))
        if bullet.section != old.section:
            edits.append(Change("move", name, section=bullet.section))
        if name not in uncounted and (bullet.helpful, bullet.harmful) != (old.helpful, old.harmful):
            edits.append(Change("recount", name, helpful=bullet.helpful, harmful=bullet.harmful))
    edits += [Change("remove", name) for name in before if name not in after or name in unnamed]
    return edits


def _by_name(bullets: Sequence[Bullet], which: str) -> dict[str, Bullet]:
    found: dict[str, Bullet] = {}
    for bullet in bullets:
        if found.setdefault(bullet.name, bullet) is not bullet:
            raise ValueError(f"{which} holds {bullet.name} twice; a name means one bullet")
    return found
