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

#: A merged bullet as ours and as theirs. The two differ in the fields of a conflict.
Pair = tuple[Bullet, Bullet]

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
) -> list[Pair]:
    """Return the bullets of a merge, each as a pair (ours, theirs). The two differ if both sides
    changed the text.
    """
    merge = _Merge(base, ours, theirs)
    merge.take_base()
    merge.take_their_new_bullets()
    merge.take_our_new_bullets()
    merge.take_lost_texts()
    return merge.pairs()


class _Side:
    """One side of a merge.

    bullets  the bullets of the side, in order
    by_name  the same bullets by their names
    names    the name on this side of each bullet of the base, by its name there
    removed  the advice of the bullets of the base that the side removed
    """

    def __init__(
        self, bullets: Sequence[Bullet], base: Sequence[Bullet], reworded: Container[str]
    ) -> None:
        self.bullets = bullets
        self.by_name = _by_name(bullets)
        # A side may have the old words of a reworded bullet under a new name. There, its own name
        # means other advice.
        self.names = names_on((bullet for bullet in bullets if bullet.name not in reworded), base)
        self.removed = {
            _advice(bullet) for bullet in base if self.names[bullet.name] not in self.by_name
        }

    def new_bullets(self) -> list[Bullet]:
        """Return the bullets that the base does not have."""
        names_of_base = {*self.names.values()}
        return [bullet for bullet in self.bullets if bullet.name not in names_of_base]


class _Merge:
    """The bullets of a merge so far, as pairs (ours, theirs).

    merged     the pairs that keep their names
    displaced  the pairs whose name the other side gave to another bullet; each gets a new name
    """

    def __init__(
        self, base: Sequence[Bullet], ours: Sequence[Bullet], theirs: Sequence[Bullet]
    ) -> None:
        self._base = _by_name(base)
        self._reworded = _reworded_by_both(self._base, _by_name(ours), _by_name(theirs))
        self._ours = _Side(ours, base, self._reworded)
        self._theirs = _Side(theirs, base, self._reworded)
        #: The names that do not mean on their side what they mean in the base.
        self._their_new_names = {
            name for name in self._theirs.by_name if self._theirs.names.get(name) != name
        }
        self.merged: list[Pair] = []
        self.displaced: list[Pair] = []

    def take_base(self) -> None:
        """Merge the bullets of the base."""
        for name, base_bullet in self._base.items():
            our_name = self._ours.names[name]
            their_name = self._theirs.names[name]
            # Only we renamed it, and they gave its new name to another bullet.
            is_taken = our_name != name == their_name and our_name in self._theirs.by_name
            named = replace(base_bullet, name=our_name if their_name == name else their_name)
            our_bullet = self._ours.by_name.get(our_name)
            their_bullet = self._theirs.by_name.get(their_name)
            self._add(_merged(named, our_bullet, their_bullet), is_taken=is_taken)

    def take_their_new_bullets(self) -> None:
        """Take their new bullets, except those that we removed under another name."""
        for bullet in self._theirs.new_bullets():
            if not self._was_removed(bullet, self._ours):
                self._add([(bullet, bullet)])

    def take_our_new_bullets(self) -> None:
        """Take our new bullets, except those that they removed or have under another name."""
        pairs = (pair for pair in self.merged if pair[1].name in self._their_new_names)
        their_new_advice = {_advice(bullet) for _, bullet in pairs}
        for bullet in self._ours.new_bullets():
            is_theirs = _advice(bullet) in their_new_advice
            if not (is_theirs or self._was_removed(bullet, self._theirs)):
                self._add([(bullet, bullet)], is_taken=bullet.name in self._their_new_names)

    def take_lost_texts(self) -> None:
        """Take the texts that both sides have, if each side removed another one of their names."""
        kept_texts = {bullet.text for pair in (*self.merged, *self.displaced) for bullet in pair}
        lost_texts = {bullet.text for bullet in self._ours.bullets} - kept_texts
        used_names = {bullet.name for bullet, _ in self.merged}
        for bullet in self._theirs.bullets:
            if bullet.text in lost_texts:
                self._add([(bullet, bullet)], is_taken=bullet.name in used_names)

    def pairs(self) -> list[Pair]:
        """Return all pairs; those of taken names have new names."""
        names = Names([*self._base, *self._ours.by_name, *self._theirs.by_name])
        return self.merged + [_named(pair, names.next(pair[0].section)) for pair in self.displaced]

    def _add(self, pairs: Iterable[Pair], *, is_taken: bool = False) -> None:
        (self.displaced if is_taken else self.merged).extend(pairs)

    def _was_removed(self, bullet: Bullet, side: _Side) -> bool:
        """Return whether a side removed a new bullet of the other side, which had another name."""
        return bullet.name not in self._reworded and _advice(bullet) in side.removed


def _reworded_by_both(*versions: Mapping[str, Bullet]) -> set[str]:
    """Return the names under which each of three versions has another text."""
    base, ours, theirs = versions
    names = base.keys() & ours.keys() & theirs.keys()
    return {name for name in names if len({version[name].text for version in versions}) == 3}


def _named(pair: Pair, name: str) -> Pair:
    ours, theirs = pair
    return replace(ours, name=name), replace(theirs, name=name)


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
) -> list[Pair]:
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
