"""The recorded changes to watched files, from a project's ledger and the user's, as values.

Invariant: a change is one event, and its position names it: `377` in the project's ledger, `u38` in
the user's. A change counts as taken back if a later change undid it and was not undone itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from reflector.attribution.files import Table, Watched, shown_name
from reflector.attribution.steps import Content
from reflector.authorship import is_yours
from reflector.events.event import MEMORY_CHANGED, Event
from reflector.events.memory import GIT, UNSEEN, YOU, who
from reflector.git import git_says
from reflector.ledger.store import Ledger
from reflector.memory.bytes import Versions
from reflector.memory.lines import LineChange, difference, line_change
from reflector.project import Project

#: The author of a change that another user or machine made by hand, for JSON and in words.
OTHER = "other"
OTHER_USER = "another user or machine"
#: The number of characters of a time up to its seconds, as in `2026-11-29T09:41:57`.
_SECONDS = 19


@dataclass(frozen=True)
class Store:
    """A ledger of changes, with its project.

    upto   the last position that counts; None for all
    until  the last time of changes that count; None for no limit
    """

    project: Project
    ledger: Ledger
    upto: int | None = None
    until: str | None = None

    @cached_property
    def table(self) -> Table:
        """The files that agents load or write: in the project, or the user's in any project."""
        is_users = self.project.is_users
        return Table(self.project.root, "user" if is_users else "project", in_any=is_users)

    def watched(self, file: str) -> Watched | None:
        """Return the file of an event; None if agents do not load or write it here.

        The event may be from another ledger.
        """
        watched = self.table.watch_of(file)
        return watched if watched is not None and watched.file == file else None

    def place_of(self, position: int) -> str:
        """Return a position in the form that users type."""
        return f"u{position}" if self.project.is_users else str(position)

    @cached_property
    def versions(self) -> Versions:
        """The kept versions of the files."""
        return Versions(self.project)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a watched file, from its event.

    undone_at  the place of the change that undid it; "" if it was not undone
    """

    store: Store
    event: Event
    undone_at: str = ""

    @property
    def place(self) -> str:
        """The position, with the prefix `u` in the user's ledger."""
        return self.store.place_of(self.event.position)

    def fact(self, name: str) -> str:
        """Return a text of the event; "" if it was erased or is absent."""
        value = self.event.facts.get(name)
        return value if isinstance(value, str) else ""

    @property
    def lines(self) -> LineChange:
        """The changed lines in its event."""
        return LineChange.recorded(self.event.facts)

    def content(self, name: str) -> Content:
        """Return the content `before` or `after` the change, from the kept versions or from git."""
        digest = self.fact(name)
        versions = self.store.versions
        kept = versions.read(digest)
        if kept is None and digest and (commit := self.fact("commit")):
            revision = f"{commit}^" if name == "before" else commit
            root = self.store.project.root
            committed = git_says(root, "cat-file", "blob", f"{revision}:./{self.file}")
            kept = committed if versions.is_version(digest, committed) else None
        return Content(digest, kept)

    @property
    def has_exact_lines(self) -> bool:
        """Whether its lines are not just all lines of a file whose version before is unknown."""
        return self.before != UNSEEN or self.after == UNSEEN

    @property
    def whole_lines(self) -> LineChange:
        """All changed lines in the form of an event; only the first ones if the contents are
        unknown.
        """
        if self.event.facts.get("more"):
            before, after = map(self.content, ("before", "after"))
            if before.is_known and after.is_known:
                return line_change(before.bytes, after.bytes)
        return self.lines

    @property
    def difference(self) -> list[str]:
        """Its lines as a difference."""
        return list(difference(self.whole_lines))

    @property
    def is_gits(self) -> bool:
        """Whether it is the change of a commit."""
        return self.fact("source") == GIT

    @property
    def is_foreign(self) -> bool:
        """Whether another user or machine recorded it."""
        return not is_yours(self.event)

    @property
    def by(self) -> str:
        """The kind of its author: `other` instead of `you` if another user or machine recorded
        it.
        """
        by = self.fact("by")
        return OTHER if by == YOU and self.is_foreign else by

    @property
    def author(self) -> str:
        """Its author in words."""
        return who(self.event.facts, OTHER_USER if self.is_foreign else YOU)

    @property
    def is_users(self) -> bool:
        """Whether it is in the user's ledger."""
        return self.store.project.is_users

    @property
    def file(self) -> str:
        return self.fact("file")

    @property
    def shown(self) -> str:
        """The name of the file on a screen."""
        return shown_name(self.file)

    @property
    def second(self) -> str:
        """Its time up to the second, because the clock of git has whole seconds."""
        return self.event.occurred_at[:_SECONDS]

    @property
    def before(self) -> str:
        return self.fact("before")

    @property
    def after(self) -> str:
        return self.fact("after")

    @property
    def undid(self) -> list[str]:
        """The ids of the changes that this one undid."""
        return list(self.event.facts.get("undid") or ())


def changes_in(stores: Iterable[Store], root: Path | None = None) -> list[Change]:
    """Return the changes of some ledgers in the order in which they happened.

    root  a project; changes of the user's files are limited to files that agents load there

    Raises:
        LedgerError: a ledger cannot be read.
    """
    table = Table(root, "user") if root is not None else None
    changes = [
        Change(store, event)
        for store in stores
        for event in store.ledger.events(types=[MEMORY_CHANGED], upto=store.upto)
        if store.until is None or event.occurred_at <= store.until
    ]
    # A project's file does not have an absolute path, so such an event was made elsewhere.
    changes = [one for one in changes if one.is_users or not one.file.startswith("/")]
    if table is not None:
        changes = [one for one in changes if not one.is_users or table.watch_of(one.file)]
    return _with_undone(_in_order(changes))


def _in_order(changes: Sequence[Change]) -> list[Change]:
    """Return changes in the order in which they happened.

    A commit comes first in its second, but after the change that made its content. That change was
    recorded before the commit, while a checkout that brings the content back was recorded later.
    """
    made_at = {  # of several equal changes, the first one
        (change.second, change.file, change.after): change.event.position
        for change in reversed(changes)
        if not change.is_gits
    }

    def order(change: Change) -> tuple[str, int, int]:
        position = change.event.position
        place = position  # in its second
        if change.is_gits:
            maker = made_at.get((change.second, change.file, change.after), position)
            place = maker if maker < position else 0
        return change.second, place, position

    return sorted(changes, key=order)


def _with_undone(changes: Sequence[Change]) -> list[Change]:
    undone_at: dict[str, str] = {}
    for change in reversed(changes):
        if change.event.event_id not in undone_at:  # an undone undo does not count
            undone_at.update(dict.fromkeys(change.undid, change.place))
    return [
        replace(change, undone_at=undone_at.get(change.event.event_id, "")) for change in changes
    ]


def file_named(root: Path | None, text: str) -> str | None:
    """Return the name in the ledger of a watched file that a user typed; None for another file.

    root  of the project whose agents load it; None for only the user's files
    """
    if root is None:
        return text if text.startswith("~/") else None
    tables = (Table(root, "project"), Table(root, "user"))
    for base in (str(Path.cwd()), ""):
        for table in tables:
            if watched := table.watch_of(text, base):
                # A link, such as CLAUDE.md to AGENTS.md, counts as the file that it leads to.
                return table.name_of(os.path.realpath(watched.path)) or watched.file
    names = [file for file in tables[1].files if shown_name(file) == text]
    return names[0] if len(names) == 1 else None
