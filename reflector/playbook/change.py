"""A change of the playbook as a value: what a person makes, an agent proposes, a file says and an
event records.

Invariant: `Change.from_data(change.to_data()) == change`, so two changes are the same exactly where
their data is; and the changes of `edits_between(base, edited)`, applied to base, give edited. They
say only what the person touched, so the counts that arrived meanwhile stay. Bullets are matched by
name, never by likeness: a bullet whose name was changed by hand is a removal and an addition,
because a name means one bullet forever. The order inside a section is that of creation, so a bullet
that only changed its place gives no change.

Where two versions of a playbook with a common ancestor are merged, no advice is lost: what one side
added, changed or removed is in the result; what one side changed and the other removed stays as it
was changed. A name that both gave to different advice stays with theirs, which others may have
already, and ours gets the next free one. The only conflict is a bullet whose text both changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, get_args

from .bullet import Bullet
from .names import Names

Kind = Literal["add", "revise", "move", "remove", "merge", "unmerge", "restore", "recount", "watch"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
#: What of a bullet a change gives another value, by its kind; the others make a bullet, or take one
#: away.
SETS: Final[dict[Kind, tuple[str, ...]]] = {
    "revise": ("text",),
    "move": ("section",),
    "recount": ("helpful", "harmful"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one bullet, or a merge of several.

    add      a bullet in `section` with `text`, and with counters where it comes from elsewhere;
             `name` is None until it is given one
    revise   `name` says `text`
    move     `name` goes to `section`, a slug
    remove   `name` goes; it is never given out again
    merge    `names` become one bullet in `section` with `text`; `name` as for add
    unmerge  the merged bullet `name` goes, and its sources come back
    restore  the removed bullet `name` comes back
    recount  `name` has the counters `helpful` and `harmful`
    watch    `name` is only watched again, as `check` does with a line of a file
    """

    kind: Kind
    name: str | None = None
    names: tuple[str, ...] = ()
    section: str | None = None
    text: str | None = None
    helpful: int | None = None
    harmful: int | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the change as an event and as JSON has it, without the fields that it does not
        have.
        """
        data = {key: getattr(self, key) for key in self.__slots__} | {
            "names": list(self.names) or None
        }
        return {key: value for key, value in data.items() if value is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the change of an event's data. Raises KeyError without a kind."""
        fields = ("name", "section", "text", "helpful", "harmful")
        return cls(
            data["kind"],
            names=tuple(data.get("names") or ()),
            **{key: data.get(key) for key in fields},
        )

    @property
    def values(self) -> dict[str, Any]:
        """What it sets of a bullet, by the names of `SETS`."""
        return {name: getattr(self, name) for name in SETS.get(self.kind, ())}

    def is_so(self, bullet: Bullet) -> bool:
        """Return whether a bullet has the values already that it sets."""
        return all(getattr(bullet, name) == value for name, value in self.values.items())

    @property
    def about(self) -> tuple[str, ...]:
        """The names of the bullets that there are already and that it changes."""
        named = (self.name,) if self.name is not None and self.kind not in ("add", "merge") else ()
        return (*self.names, *named)

    @property
    def line(self) -> str:
        """The change in words, such as `revise pat-003: Run the tests first.`."""
        named = [*self.names, *([self.name] if self.name and self.kind != "merge" else [])]
        into = f" into {self.name}" if self.kind == "merge" and self.name else ""
        to = " to" if self.kind == "move" else " in"
        place = f"{to} {self.section}" if self.section else ""
        counts = f" to {self.helpful}/{self.harmful}" if self.kind == "recount" else ""
        said = f": {' '.join(self.text.split())}" if self.text else ""
        return f"{' '.join([self.kind, *named])}{into}{place}{counts}{said}"


def added(bullet: Bullet) -> Change:
    """Return the change that adds a bullet as it is."""
    return Change(
        "add", bullet.name, (), bullet.section, bullet.text, bullet.helpful, bullet.harmful
    )


def edits_between(
    base: Sequence[Bullet],
    edited: Sequence[Bullet],
    unnamed: Collection[str] = (),
    uncounted: Collection[str] = (),
) -> list[Change]:
    """The changes that lead from `base` to `edited`: changes and additions in the order of
    `edited`, then removals.

    `unnamed` are names of `edited` that the reader made up (`Loaded.named_here`); such a bullet is
    added without a name. `uncounted` are those without counters, which says nothing about counts.
    Each of the two holds a name once.
    """
    before, after = ({bullet.name: bullet for bullet in side} for side in (base, edited))
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


def merge(
    base: Sequence[Bullet], ours: Sequence[Bullet], theirs: Sequence[Bullet]
) -> list[tuple[Bullet, Bullet]]:
    """Return the bullets of what two sides made of `base`, each with our text and with theirs: they
    differ where both changed one.
    """
    old, mine, other = ({bullet.name: bullet for bullet in side} for side in (base, ours, theirs))
    said = {(bullet.section, bullet.text) for name, bullet in other.items() if name not in old}
    kept: list[tuple[Bullet, Bullet]] = []
    clashing: list[Bullet] = []
    for name in dict.fromkeys((*old, *other, *mine)):
        was, a, b = old.get(name), mine.get(name), other.get(name)
        if was is not None and a is not None and b is not None:
            section = b.section if a.section == was.section else a.section
            texts = (
                (b.text, b.text)
                if a.text == was.text
                else (a.text, a.text if b.text == was.text else b.text)
            )
            kept.append((Bullet(name, section, texts[0]), Bullet(name, section, texts[1])))
        elif was is not None:
            kept += [
                (one, one)
                for one in (a, b)
                if one is not None and (one.section, one.text) != _said(was)
            ]
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
