"""A change of the playbook as a value, and each kind of change as one value.

`KINDS` has everything that the program knows of a kind: the type of its event, the fields that it
sets, the reasons to refuse it, and the kind that it undoes. Plans, events and their types, undo,
the merge of two versions of playbook.json and the merge of ledgers derive from it. So a kind that
sets fields of a bullet is one entry of `KINDS` and one field of `Entry`.

Invariant: `Change.from_data(change.to_data()) == change`, so two changes are equal exactly if their
data is. Bullets are matched by name, never by likeness, because a name permanently means one
bullet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self

from .admissible import MAX_COUNT
from .bullet import Bullet
from .entry import BulletRow
from .names import SECTIONS

#: The most bullets that one change merges.
MAX_SOURCES = 20


#: The bullets as the ledger has them now, by name; removed and merged ones are included.
Bullets = Mapping[str, BulletRow]


class Change(NamedTuple):
    """One change of one bullet, or a merge of several. `KINDS` describes the kinds.

    name     the bullet; None for a bullet that gets its name when the change is made
    names    the bullets that a merge makes one
    section  a slug, such as `pat`
    """

    kind: str
    name: str | None = None
    names: tuple[str, ...] = ()
    section: str | None = None
    text: str | None = None
    helpful: int | None = None
    harmful: int | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the change as events and JSON hold it, without absent fields."""
        fields = {**self._asdict(), "names": list(self.names) or None}
        return {field: value for field, value in fields.items() if value is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the change of an event's data.

        Raises: KeyError for data without a kind.
        """
        fields = {field: data.get(field) for field in cls._fields if field != "names"}
        return cls(**{**fields, "kind": data["kind"]}, names=tuple(data.get("names") or ()))

    @property
    def values(self) -> dict[str, Any]:
        """The values that the change gives to the bullet that it makes or names, by field: its own
        ones for the `fields` of its kind, and the kind's `constants`.
        """
        kind = KINDS[self.kind]
        return {**{name: getattr(self, name) for name in kind.fields}, **kind.constants}

    def is_so(self, bullet: object) -> bool:
        """Return whether a bullet already has the values that the change sets."""
        return all(getattr(bullet, field) == value for field, value in self.values.items())

    @property
    def about(self) -> tuple[str, ...]:
        """The names of the existing bullets that the change changes."""
        if self.name is None or KINDS[self.kind].makes_bullet:
            return self.names
        return (*self.names, self.name)

    @property
    def line(self) -> str:
        """The change in words, such as `revise pat-003: Run the tests first.`."""
        kind = KINDS[self.kind]
        words = [self.kind, *self.about]
        if kind.makes_bullet and self.name:
            words.append(f"into {self.name}" if self.names else self.name)
        if self.section:
            words += [kind.place_word, self.section]
        if kind.is_count:
            words.append(f"to {self.helpful}/{self.harmful}")
        line = " ".join(words)
        return f"{line}: {' '.join(self.text.split())}" if self.text else line


def added(bullet: Bullet) -> Change:
    """Return the change that adds a bullet with its counters."""
    return Change(
        "add",
        bullet.name,
        section=bullet.section,
        text=bullet.text,
        helpful=bullet.helpful,
        harmful=bullet.harmful,
    )


def why_not_live(bullets: Bullets, name: str) -> str | None:
    """Return the reason why a bullet is not live, with the next step; None for a live bullet."""
    bullet = bullets.get(name)
    if bullet is None:
        return (
            f"the rule {name!r} does not exist; to see all rules, including removed ones, run "
            "`reflector list --removed`"
        )
    if bullet.status == "live":
        return None
    if bullet.status == "watched":
        return (
            f"{name} is a rule of your file: change the rule in the file, or move the file's "
            "rules into the playbook with `reflector adopt --move FILE`"
        )
    heir = bullet.removed_into
    if bullet.status == "merged":
        return (
            f"{name} was merged into {heir}; change {heir}, or undo the merge with `reflector "
            f"undo {heir}`"
        )
    into = f" into {heir}" if heir else ""
    return (
        f"{name} was removed ({bullet.reason}{into}); to restore this rule, run `reflector undo "
        f"{name}`"
    )


def sources_of(bullets: Bullets, name: str) -> list[str]:
    """Return the names of the bullets that were merged into one."""
    merged = [bullet for bullet in bullets.values() if bullet.status == "merged"]
    return [bullet.name for bullet in merged if bullet.removed_into == name]


def _not_live(bullets: Bullets, change: Change) -> str | None:
    return why_not_live(bullets, change.name or "")


def _merge_fault(bullets: Bullets, change: Change) -> str | None:
    names = change.names
    if not names or len(set(names)) != len(names):
        return "a merge needs two or more rules, or one rule and a new text"
    if len(names) > MAX_SOURCES:
        return f"a merge takes at most {MAX_SOURCES} rules, not {len(names)}"
    faults = (why_not_live(bullets, name) for name in names)
    return next(filter(None, faults), None)


def _unmerge_fault(bullets: Bullets, change: Change) -> str | None:
    name = change.name or ""
    fault = why_not_live(bullets, name)
    if fault is None and not sources_of(bullets, name):
        return f"{name} is not a merged rule; see `reflector show {name}`"
    return fault


def _restore_fault(bullets: Bullets, change: Change) -> str | None:
    bullet = bullets.get(change.name or "")
    if bullet is None or bullet.status == "merged":
        return _not_live(bullets, change)
    return f"{bullet.name} is already in the playbook" if bullet.status == "live" else None


def _watch_fault(bullets: Bullets, change: Change) -> str | None:
    bullet = bullets.get(change.name or "")
    return None if bullet and bullet.status == "removed" else _not_live(bullets, change)


def _forget_fault(bullets: Bullets, change: Change) -> str | None:
    bullet = bullets.get(change.name or "")
    return None if bullet and bullet.status == "watched" else _not_live(bullets, change)


def _recount_fault(bullets: Bullets, change: Change) -> str | None:
    if fault := _not_live(bullets, change):
        return fault
    for count in (change.helpful, change.harmful):
        if count is None or not 0 <= count <= MAX_COUNT:
            return f"counters are whole numbers from 0 to {MAX_COUNT:,}"
    return None


class ChangeKind(NamedTuple):
    """One kind of change: all that the program knows of it.

    name          the kind's name in events, proposals and JSON
    event         the type of the event that records such a change
    meaning       of an event that only sets fields. This kind defines its type; of several kinds of
                  one event, only one has the meaning
    log_line      the form of the event's line in `log`, such as `{name} to {section}`
    since         the schema revision of the first release that appended the event
    undo_order    its place if several changes undo something together; the lowest is made first
    fields        the fields to which the change itself gives values, so they are fields of `Change`
    constants     the fields to which every change of the kind gives the same value
    makes_bullet  whether the change makes a bullet; else it is about an existing one
    status        the status of the named bullet afterwards; "" if the change leaves it
    undoes        the steps of a bullet's status (before, after) that such a change takes back
    both_changed  of two versions of playbook.json that both changed the fields: keep "ours", or
                  keep "both", so that you choose; "" for fields that are not shared
    event_facts   the facts in the event's data besides the name and the values
    place_word    the word before the section in the line of a change
    fault         returns the reason why a change of these bullets cannot be made; None if it can
    already       the fault if the bullet has the values, a form such as `{name} is in {title}`
    """

    name: str
    event: str
    meaning: str = ""
    log_line: str = ""
    since: int = 1
    undo_order: int = 0
    fields: tuple[str, ...] = ()
    constants: Mapping[str, object] = MappingProxyType({})
    makes_bullet: bool = False
    status: str = ""
    undoes: frozenset[tuple[str, str]] = frozenset()
    both_changed: Literal["ours", "both", ""] = ""
    event_facts: Mapping[str, object] = MappingProxyType({})
    place_word: str = "in"
    fault: Callable[[Bullets, Change], str | None] = _not_live
    already: str = ""

    @property
    def set_fields(self) -> tuple[str, ...]:
        """The fields of an existing bullet that such a change sets: `fields` and `constants`."""
        return () if self.makes_bullet else (*self.fields, *self.constants)

    @property
    def is_count(self) -> bool:
        """Whether the change sets counters, which sessions move too."""
        return "helpful" in self.set_fields

    @property
    def is_shown(self) -> bool:
        """Whether playbook.json shows the values that the change sets."""
        return bool(self.set_fields) and {*Bullet.__slots__}.issuperset(self.set_fields)

    def refusal(self, bullets: Bullets, change: Change) -> str | None:
        """Return the reason why a change of this kind cannot be made, with the next step; None if
        it can.
        """
        fault = self.fault(bullets, change)
        if fault is None and self.already and change.is_so(bullets[change.name or ""]):
            title = SECTIONS.get(change.section or "")
            return self.already.format(title=title, **change.to_data())
        return fault

    def fits(self, bullet: object) -> bool:
        """Return whether a bullet has the values that every change of the kind gives."""
        return all(getattr(bullet, field) == value for field, value in self.constants.items())

    def change_to(self, bullet: Any) -> Change:
        """Return the change of this kind that sets the fields to those of a bullet."""
        fields = {field: getattr(bullet, field) for field in self.fields}
        return Change(self.name, bullet.name, **fields)


_ALL = (
    # A bullet in a section, with counters if it comes from elsewhere.
    ChangeKind(
        name="add",
        event="bullet.added",
        fields=("section", "text", "helpful", "harmful"),
        makes_bullet=True,
        fault=lambda _bullets, _change: None,
    ),
    ChangeKind(
        name="revise",
        event="bullet.revised",
        meaning="The text of a rule was changed.",
        log_line="{name}: {text}",
        undo_order=2,
        fields=("text",),
        both_changed="both",
    ),
    ChangeKind(
        name="move",
        event="bullet.moved",
        meaning="A rule was moved to another section.",
        log_line="{name} to {section}",
        undo_order=3,
        fields=("section",),
        both_changed="ours",
        place_word="to",
        already="{name} is already in {title}",
    ),
    # The name of a removed bullet is never given out again.
    ChangeKind(
        name="remove",
        event="bullet.removed",
        undo_order=7,
        status="removed",
        undoes=frozenset({("removed", "live"), ("removed", "merged")}),
    ),
    # Several bullets become a new one, which has their evidence.
    ChangeKind(
        name="merge",
        event="bullet.merged",
        undo_order=4,
        fields=("section", "text"),
        makes_bullet=True,
        fault=_merge_fault,
    ),
    # The merged bullet is removed, and its sources are live again.
    ChangeKind(
        name="unmerge",
        event="bullet.unmerged",
        undo_order=1,
        status="removed",
        fault=_unmerge_fault,
    ),
    ChangeKind(
        name="restore",
        event="bullet.restored",
        undo_order=0,
        status="live",
        undoes=frozenset({("live", "removed"), ("live", "watched")}),
        fault=_restore_fault,
    ),
    ChangeKind(
        name="recount",
        event="bullet.recounted",
        undo_order=5,
        fields=("helpful", "harmful"),
        fault=_recount_fault,
        already="{name} already has {helpful} helpful, {harmful} harmful",
    ),
    # The bullet is only watched again, as `check` watches a line of a file.
    ChangeKind(
        name="watch",
        event="bullet.restored",
        undo_order=6,
        status="watched",
        undoes=frozenset({("watched", "live"), ("watched", "removed")}),
        event_facts={"watched": True},
        fault=_watch_fault,
    ),
    # A rule in a file is no longer known by its name.
    ChangeKind(
        name="forget",
        event="bullet.removed",
        undo_order=8,
        status="removed",
        undoes=frozenset({("removed", "watched")}),
        fault=_forget_fault,
    ),
)
KINDS: Final[Mapping[str, ChangeKind]] = {kind.name: kind for kind in _ALL}
#: The types of the events that record changes.
CHANGE_EVENTS = frozenset(kind.event for kind in _ALL)
_WITH_FIELDS = [kind for kind in _ALL if kind.set_fields]
#: The kinds that set fields of an existing bullet, except counters.
SETTING_KINDS = tuple(kind for kind in _WITH_FIELDS if not kind.is_count)
#: The fields that changes set, except counters.
SET_FIELDS = tuple(dict.fromkeys(field for kind in SETTING_KINDS for field in kind.set_fields))
_HIDDEN_KINDS = tuple(kind for kind in SETTING_KINDS if not kind.is_shown)


def hidden_changes(before: object, after: object, name: str | None) -> list[Change]:
    """Return the changes of fields that playbook.json does not show, from the values of `before` to
    those of `after`.

    name  of the bullet that they change; None for one that gets its name when they are made
    """
    fitting = [kind for kind in _HIDDEN_KINDS if kind.fits(after)]
    changes = [kind.change_to(after)._replace(name=name) for kind in fitting]
    return [change for change in changes if not change.is_so(before)]
