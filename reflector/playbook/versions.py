"""Compares two versions of a playbook, and merges them with their common ancestor.

Invariant: the changes of `edits_between(base, edited)`, applied to base, give edited. They contain
only your edits, so counts that arrived meanwhile stay. Bullets are matched by name, so a bullet
whose name was changed by hand is a removal and an addition. The order inside a section is that of
creation, so moving a bullet is not a change.

A merge loses no advice: the result has everything that one side added, changed or removed. If one
side reworded a bullet and the other removed it, the new wording stays. A bullet that was only moved
is removed. If both sides gave one name to different advice, theirs keeps it, because others may
have it already, and ours gets the next free one. Advice that one side has under another name only
is the bullet of the base. So is advice under a new name if the other side removed the bullet of the
base. The only conflict is a bullet whose text both sides changed.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
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
    # A side may have the old words of such a bullet under a new name. There, its own name means
    # other advice.
    reworded = _reworded_by_both(base_bullets, our_bullets, their_bullets)
    our_names = names_on((bullet for bullet in ours if bullet.name not in reworded), base)
    their_names = names_on((bullet for bullet in theirs if bullet.name not in reworded), base)
    merged: list[tuple[Bullet, Bullet]] = []
    displaced: list[tuple[Bullet, Bullet]] = []
    for name, base_bullet in base_bullets.items():
        our_name = our_names[name]
        their_name = their_names[name]
        # Only we renamed it, and they gave its new name to another bullet.
        is_taken = our_name != name == their_name and our_name in their_bullets
        named = replace(base_bullet, name=our_name if their_name == name else their_name)
        pairs = _merged(named, our_bullets.get(our_name), their_bullets.get(their_name))
        (displaced if is_taken else merged).extend(pairs)
    # The names that do not mean there what they mean in the base.
    their_new_names = {name for name in their_bullets if their_names.get(name) != name}
    their_new_bullets = their_new_names - {*their_names.values()}
    our_new_bullets = our_bullets.keys() - {*our_names.values()}
    # A removed bullet may have a new name on the other side, where its name means another bullet.
    we_removed = _removed(base, our_names, our_bullets)
    they_removed = _removed(base, their_names, their_bullets)
    for bullet in theirs:
        is_removed = bullet.name not in reworded and _advice(bullet) in we_removed
        if bullet.name in their_new_bullets and not is_removed:
            merged.append((bullet, bullet))
    their_new_advice = {_advice(bullet) for _, bullet in merged if bullet.name in their_new_names}
    for bullet in ours:
        is_removed = bullet.name not in reworded and _advice(bullet) in they_removed
        is_theirs = _advice(bullet) in their_new_advice
        if bullet.name in our_new_bullets and not (is_removed or is_theirs):
            is_taken = bullet.name in their_new_names
            (displaced if is_taken else merged).append((bullet, bullet))
    # Each side may have removed another one of two names of the same text.
    kept_texts = {bullet.text for pair in (*merged, *displaced) for bullet in pair}
    lost_texts = {bullet.text for bullet in ours} - kept_texts
    used_names = {bullet.name for bullet, _ in merged}
    for bullet in theirs:
        if bullet.text in lost_texts:
            (displaced if bullet.name in used_names else merged).append((bullet, bullet))
    names = Names([*base_bullets, *our_bullets, *their_bullets])
    return merged + [_named(pair, names.next(pair[0].section)) for pair in displaced]


def _reworded_by_both(*versions: Mapping[str, Bullet]) -> set[str]:
    """Return the names under which each of three versions has another text."""
    base, ours, theirs = versions
    names = base.keys() & ours.keys() & theirs.keys()
    return {name for name in names if len({version[name].text for version in versions}) == 3}


def _named(pair: tuple[Bullet, Bullet], name: str) -> tuple[Bullet, Bullet]:
    ours, theirs = pair
    return replace(ours, name=name), replace(theirs, name=name)


def _removed(
    base: Iterable[Bullet], names: Mapping[str, str], side: Container[str]
) -> set[tuple[str, str]]:
    """Return the advice of the bullets that a side removed."""
    return {_advice(bullet) for bullet in base if names[bullet.name] not in side}


def names_on(side: Iterable[Bullet], bullets: Sequence[Bullet]) -> dict[str, str]:
    """Return the names under which a side has bullets: their own, else those of its other bullets
    with the same words; their own of a bullet that it has not.
    """
    own_names = {bullet.name for bullet in bullets}
    names: dict[str, str] = {}
    others: dict[tuple[str, str], list[str]] = {}
    for bullet in side:
        if bullet.name in own_names:
            names[bullet.name] = bullet.name
        else:
            others.setdefault(_advice(bullet), []).append(bullet.name)
    for bullet in bullets:
        if bullet.name not in names:
            same = others.get(_advice(bullet))
            names[bullet.name] = same.pop(0) if same else bullet.name
    return names


def _merged(
    base_bullet: Bullet, our_bullet: Bullet | None, their_bullet: Bullet | None
) -> list[tuple[Bullet, Bullet]]:
    """Return the merged form of a bullet of the base, as both sides would have it: they differ only
    in the fields of a conflict, which a user decides. The list is empty if one side removed the
    bullet and the other did not reword it.
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
    if remaining is None or remaining.text == base_bullet.text:
        return []
    return [(remaining, remaining)]


def _fields(kind: ChangeKind, bullet: Bullet) -> dict[str, Any]:
    return kind.change_to(bullet).values


def _by_name(bullets: Sequence[Bullet]) -> dict[str, Bullet]:
    return {bullet.name: bullet for bullet in bullets}


def _advice(bullet: Bullet) -> tuple[str, str]:
    return bullet.section, bullet.text
