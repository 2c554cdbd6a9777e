"""Compares two versions of a playbook, and merges them with their common ancestor.

Invariant: the changes of `edits_between(base, edited)`, applied to base, give edited. They contain
only your edits, so counts that arrived meanwhile stay. Bullets are matched by name, so a bullet
whose name was changed by hand is a removal and an addition. The order inside a section is that of
creation, so moving a bullet is not a change.

A merge loses no advice: the result has everything that one side added, changed or removed. If one
side changed a bullet and the other removed it, the changed bullet stays. If both sides gave one
name to different advice, theirs keeps it, because others may have it already, and ours gets the
next free one. The only conflict is a bullet whose text both sides changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from .bullet import Bullet
from .change import KINDS, Change, ChangeKind, added
from .names import Names

#: The kinds of changes whose result playbook.json shows, in the order of the edits.
_SHOWN_KINDS = tuple(kind for kind in KINDS.values() if kind.is_shown)
#: The kinds whose result a file without counters shows.
_SHARED_KINDS = tuple(kind for kind in _SHOWN_KINDS if kind.both_changed)


def edits_between(
    base: Sequence[Bullet],
    edited: Sequence[Bullet],
    unnamed: Collection[str] = (),
    uncounted: Collection[str] = (),
) -> list[Change]:
    """Return the changes that lead from `base` to `edited`: changes and additions in the order of
    `edited`, then removals.

    unnamed    names in `edited` that the reader made up (`Loaded.named_here`); such a bullet is
               added without a name
    uncounted  names of bullets without counters; their counts stay
    """
    before = _by_name(base)
    after = _by_name(edited)
    edits: list[Change] = []
    for name, bullet in after.items():
        old_bullet = before.get(name)
        if name in unnamed:
            edits.append(added(bullet)._replace(name=None))
        elif old_bullet is None:
            edits.append(added(bullet))
        else:
            kinds = _SHARED_KINDS if name in uncounted else _SHOWN_KINDS
            changes = [kind.change_to(bullet) for kind in kinds]
            edits += [change for change in changes if not change.is_so(old_bullet)]
    remaining = after.keys() - set(unnamed)
    return edits + [Change("remove", name) for name in before if name not in remaining]


def merge_versions(
    base: Sequence[Bullet], ours: Sequence[Bullet], theirs: Sequence[Bullet]
) -> list[tuple[Bullet, Bullet]]:
    """Return the bullets of a merge, each as a pair (ours, theirs). The two differ if both sides
    changed the text.
    """
    base_bullets = _by_name(base)
    our_bullets = _by_name(ours)
    their_bullets = _by_name(theirs)
    their_new_advice = {
        _advice(bullet) for name, bullet in their_bullets.items() if name not in base_bullets
    }
    merged: list[tuple[Bullet, Bullet]] = []
    displaced: list[Bullet] = []
    for name in dict.fromkeys((*base_bullets, *their_bullets, *our_bullets)):
        base_bullet = base_bullets.get(name)
        our_bullet = our_bullets.get(name)
        their_bullet = their_bullets.get(name)
        if base_bullet is not None:
            merged += _merged(base_bullet, our_bullet, their_bullet)
            continue
        if their_bullet is not None:
            merged.append((their_bullet, their_bullet))
        if our_bullet is None or _advice(our_bullet) in their_new_advice:
            continue
        if their_bullet is None:
            merged.append((our_bullet, our_bullet))
        else:
            displaced.append(our_bullet)
    names = Names([*base_bullets, *our_bullets, *their_bullets])
    for bullet in displaced:
        renamed_bullet = replace(bullet, name=names.next(bullet.section))
        merged.append((renamed_bullet, renamed_bullet))
    return merged


def _merged(
    base_bullet: Bullet, our_bullet: Bullet | None, their_bullet: Bullet | None
) -> list[tuple[Bullet, Bullet]]:
    """Return the merged form of a bullet of the base. The list is empty if one side removed the
    bullet and the other did not change it.
    """
    if our_bullet is not None and their_bullet is not None:
        ours: dict[str, Any] = {}
        theirs: dict[str, Any] = {}
        for kind in _SHARED_KINDS:
            is_ours = not kind.change_to(base_bullet).is_so(our_bullet)
            is_theirs = not kind.change_to(base_bullet).is_so(their_bullet)
            is_conflict = is_ours and is_theirs and kind.both_changed == "both"
            ours |= _fields(kind, our_bullet if is_ours else their_bullet)
            theirs |= _fields(kind, our_bullet if is_ours and not is_conflict else their_bullet)
        bare = Bullet(base_bullet.name, base_bullet.section, base_bullet.text)
        return [(replace(bare, **ours), replace(bare, **theirs))]
    remaining = our_bullet or their_bullet
    if remaining is None or _advice(remaining) == _advice(base_bullet):
        return []
    return [(remaining, remaining)]


def _fields(kind: ChangeKind, bullet: Bullet) -> dict[str, Any]:
    return kind.change_to(bullet).values


def _by_name(bullets: Sequence[Bullet]) -> dict[str, Bullet]:
    return {bullet.name: bullet for bullet in bullets}


def _advice(bullet: Bullet) -> tuple[str, str]:
    return bullet.section, bullet.text
