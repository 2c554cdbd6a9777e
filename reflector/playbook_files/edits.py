"""Edits of playbook.json as events: by the user in the file, and by others through git if several
clones share it.

Invariant: an edit is appended once, however often the file is read before it is written again, and
even if an edited file comes back. A change that the ledger already contains, or that it recorded
after the file was written, is not an event. Later counts stay.

Changes from git are credited to git, and no count is read from them: a shared file contains the
advice, each clone's ledger contains its counts, and evidence follows its advice. A version from git
does not remove bullets that its branch never had, because it was made before or beside them. So a
checkout of another branch neither removes nor rewords advice that the ledger learned elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from reflector.changes.apply import bullet_event, is_taken, of_file, of_new
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.registry import WORDING_TYPES, bullets_worded
from reflector.events.renamings import RENAMING_TYPES, Renamings
from reflector.events.state import REDACTED
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import CHANGE_EVENTS, Change, added, hidden_changes
from reflector.playbook.document import Loaded
from reflector.playbook.names import Names
from reflector.playbook.versions import edits_between, names_on
from reflector.playbook_files.git_versions import (
    BranchHistory,
    Entry,
    branch_history,
    entry_in_file,
)

#: The actor of what came through git.
GIT = "git"


class Base(NamedTuple):
    """The state from which a file was edited: a ledger's bullets, and their position."""

    bullets: Sequence[Bullet]
    position: int


class EditedFile(NamedTuple):
    """A file that was edited after it had the bullets of its `base`.

    by_git  the version of git, if that was made from the same base
    digest  of the file's content, which identifies the events
    """

    base: Base
    by_git: Loaded | None
    loaded: Loaded
    digest: str


class TwoVersions(NamedTuple):
    """The bullets of a file's earlier version, and the later version, under the ledger's names."""

    bullets: list[Bullet]
    loaded: Loaded


def take_in_turn(ledger: Ledger, edited: EditedFile, first: int) -> int:
    """Append the changes of git in a file, and then the user's changes of git's version. Return the
    number of events.

    If the file differs less from its base than from git's version, it was not edited from git's
    version. `first` is the lowest number of a new name.
    """
    base, by_git, loaded, digest = edited
    if by_git is None:
        return _take_edits(ledger, base, loaded, digest, first)
    changes_of_git = len(loaded.edits_of(by_git.bullets))
    if changes_of_git > len(loaded.edits_of(base.bullets)):
        return _take_edits(ledger, base, loaded, digest, first)
    bullets = tuple(replace(bullet, helpful=0, harmful=0) for bullet in by_git.bullets)
    advice = replace(_without_counts(by_git), bullets=bullets)
    edits = _take_edits(ledger, base, advice, digest, first, GIT)
    taken = [bullet for bullet in by_git.bullets if ledger.row(bullet.name) is not None]
    return edits + _take_edits(ledger, Base(taken, base.position), loaded, digest, first)


def _take_edits(
    ledger: Ledger, base: Base, loaded: Loaded, digest: str, first: int, actor: str = ev.HUMAN
) -> int:
    """Append the changes that an actor made in a file, in addition to the counts since then. Return
    the number of events.
    """
    loaded = _recognised(base.bullets, loaded)
    edits = loaded.edits_of(base.bullets)
    if not edits:
        return 0
    intake = _Intake(ledger, base, edits, first, actor)
    content = digest if actor == ev.HUMAN else f"{digest} {actor}"
    events: list[NewEvent] = []
    for change in merges_undone(edits, intake.rows):
        edit = intake.revived(change, loaded)
        event = intake.event(edit, of_file(content, base.position, edit))
        if event is not None:
            events.append(event)
    ledger.append(events, tx=ledger.draw() if events else None)
    return len(events)


class _Intake:
    """The edits of a file, compared with all events after the file's base.

    The events of an edit may be there already, because a process read the same edit and did not
    write the file.
    """

    def __init__(
        self, ledger: Ledger, base: Base, edits: Iterable[Change], first: int, actor: str
    ) -> None:
        self.rows = ledger.rows_by_name()
        self._actor = actor
        self._names = Names(self.rows, first)
        self._unerased = _unerased(ledger, base, edits)
        live = [row for row in self.rows.values() if row.status == "live"]
        self._new_texts = {(row.section, row.text) for row in live if row.position > base.position}
        changes = ledger.events(after=base.position, types=CHANGE_EVENTS)
        self._changes = [(event.type, event.data) for event in changes]

    def revived(self, edit: Change, loaded: Loaded) -> Change:
        """Return an edit. A revision of a removed bullet becomes an addition with its counts.

        Sessions do not get removed bullets, so a revised one must be restored.
        """
        row = self.rows.get(edit.name or "")
        if edit.kind != "revise" or row is None or row.status == "live":
            return edit
        if row.name in self._unerased:
            return edit
        section = next(bullet.section for bullet in loaded.bullets if bullet.name == row.name)
        bullet = come_back(row, row.name)
        return added(replace(bullet, section=section, text=edit.text or ""))

    def event(self, edit: Change, place: tuple[str | int, ...]) -> NewEvent | None:
        """Return the event of an edit; None if the ledger has its result already."""
        row = self.rows.get(edit.name or "")
        if edit.kind == "add":
            return self._addition(edit, row)
        if row is None or is_so(row, edit):
            return None
        if edit.kind == "revise" and edit.name in self._unerased:
            return None
        event = bullet_event(edit, *place, actor=self._actor)
        return None if (event.type, event.data) in self._changes else event

    def _addition(self, edit: Change, row: BulletRow | None) -> NewEvent | None:
        """Return the event of an added bullet. If the ledger removed it, it is restored with its
        counts.
        """
        section = edit.section or ""
        if (section, edit.text) in self._new_texts:
            return None
        if row is not None and not is_taken(row, edit):
            return None
        name = self._names.give(edit.name, section)
        if row is not None and is_older(row, edit):
            return _added(added(come_back(row, name)), self._actor)
        return _added(edit._replace(name=name), self._actor)


def _unerased(ledger: Ledger, base: Base, edits: Iterable[Change]) -> set[str]:
    """Return the bullets whose erased text an older export would restore, for example after the
    checkout of another branch.
    """
    erased = {bullet.name for bullet in base.bullets if bullet.text == REDACTED}
    revisions = [edit for edit in edits if edit.kind == "revise"]
    texts = {str(edit.name): str(edit.text) for edit in revisions if edit.name in erased}
    if not texts:
        return set()
    from reflector.changes.erase import returning_texts

    return returning_texts(ledger, base.position, texts)


def in_names_of(ledger: Ledger, before: Loaded, after: Loaded) -> TwoVersions:
    """Return two versions of a file under the ledger's names.

    The ledger recorded an entry under another name if a removed bullet had its name, or if the
    entry had none.
    """
    rows = ledger.rows_by_name()
    names = _names_taken_in(rows, before)
    bullets = [replace(bullet, name=names[bullet.name]) for bullet in before.bullets]
    names_after = {bullet.name for bullet in after.bullets}
    free = {old: new for old, new in names.items() if new not in names_after}
    renamed = _renamed(after, {old: free[old] for old in free.keys() - after.named_here})
    return TwoVersions([bullet for bullet in bullets if bullet.name in rows], renamed)


def _names_taken_in(rows: Mapping[str, BulletRow], loaded: Loaded) -> dict[str, str]:
    """Return the ledger's names of a file's bullets, by the names in the file."""
    return names_on((row for row in rows.values() if row.status == "live"), loaded.bullets)


def new_names_of(ledger: Ledger, loaded: Loaded) -> dict[str, str]:
    """Return the ledger's names of a file's live bullets, by the names in the file, if the two
    differ.
    """
    names = _names_taken_in(ledger.rows_by_name(), loaded)
    changed = {old: new for old, new in names.items() if new != old}
    return {old: changed[old] for old in changed if old not in loaded.named_here}


def under_free_names(ledger: Ledger, loaded: Loaded, first: int) -> Loaded:
    """Return a file in which each bullet whose name means another bullet in the ledger has the next
    free name.
    """
    rows = ledger.rows_by_name()
    names = Names([*rows, *(bullet.name for bullet in loaded.bullets)], first)
    known = [bullet for bullet in loaded.bullets if bullet.name in rows]
    taken = [bullet for bullet in known if is_taken(rows[bullet.name], bullet)]
    return _renamed(loaded, {bullet.name: names.next(bullet.section) for bullet in taken})


def is_older(row: BulletRow, edit: Change) -> bool:
    """Return whether the name belongs to a removed bullet with the same section and text."""
    return row.status != "live" and (row.section, row.text) == (edit.section, edit.text)


def come_back(row: BulletRow, name: str) -> Bullet:
    """Return a bullet that is not live any more under a new name. It keeps its counts, unless they
    count for the bullet into which it was merged.
    """
    bullet = replace(row.bullet, name=name)
    return replace(bullet, helpful=0, harmful=0) if row.status == "merged" else bullet


def merges_undone(edits: Sequence[Change], rows: Mapping[str, BulletRow]) -> list[Change]:
    """Return the edits, with one edit that undoes a merge instead of the edits that restore all of
    its sources and remove it.
    """
    undone = _undone_merges(edits, rows)
    restored = set[str | None]().union(*undone.values())
    changes: list[Change] = []
    for edit in edits:
        if edit.kind == "remove" and edit.name in undone:
            changes.append(Change("unmerge", edit.name))
        elif edit.kind != "add" or edit.name not in restored:
            changes.append(edit)
    return changes


def _undone_merges(
    edits: Sequence[Change], rows: Mapping[str, BulletRow]
) -> dict[str | None, set[str]]:
    """Return the sources of each merged bullet that the edits remove while they restore all of its
    sources.
    """
    removed = {edit.name for edit in edits if edit.kind == "remove"}
    additions = {edit.name: edit for edit in edits if edit.kind == "add"}
    restored = {name for name in rows.keys() & additions if is_older(rows[name], additions[name])}
    sources: dict[str | None, set[str]] = {}
    for row in rows.values():
        if row.status == "merged":
            sources.setdefault(row.removed_into, set()).add(row.name)
    return {name: sources[name] for name in removed & sources.keys() if sources[name] <= restored}


def is_so(row: BulletRow, edit: Change) -> bool:
    """Return whether the ledger already has the result of an edit of this bullet."""
    return edit.is_so(row.bullet) if edit.values else row.status != "live"


def _recognised(base: Sequence[Bullet], loaded: Loaded) -> Loaded:
    """Return a file whose entries without a name have the names of the base's bullets with the same
    text. For example, a file was adopted and not written since.
    """
    nameless = [bullet for bullet in loaded.bullets if bullet.name in loaded.named_here]
    names_in_file = {bullet.name for bullet in loaded.bullets} - loaded.named_here
    names = names_on((old for old in base if old.name not in names_in_file), nameless)
    # A new entry keeps the name that was made up for it.
    unknown = frozenset(made_up for made_up, name in names.items() if made_up == name)
    return replace(_renamed(loaded, names), named_here=unknown)


def _renamed(loaded: Loaded, names: Mapping[str, str]) -> Loaded:
    def renamed(name: str) -> str:
        return names.get(name, name)

    return replace(
        loaded,
        bullets=tuple(replace(bullet, name=renamed(bullet.name)) for bullet in loaded.bullets),
        uncounted=frozenset(map(renamed, loaded.uncounted)),
        places={renamed(name): place for name, place in loaded.places.items()},
    )


def _without_counts(loaded: Loaded) -> Loaded:
    return replace(loaded, uncounted=frozenset(bullet.name for bullet in loaded.bullets))


def take_version(ledger: Ledger, root: Path, theirs: Loaded, digest: str, before: Loaded) -> int:
    """Append the advice in a version from git that is not in the ledger. Return the number of
    events. Counts stay the ledger's.

    If the version has some advice under another name, a merge renamed it. The advice keeps its
    evidence and its pin. So does advice of the ledger whose name means other advice in the version.
    `before` is the file as the ledger last saw it.
    """
    position = ledger.head().position
    version = _Version(ledger, root, theirs, before, (digest, position))
    additions = [version.addition(edit) for edit in version.edits if edit.kind == "add"]
    renamings = version.renamings()
    changes = [version.changed(edit) for edit in version.edits if edit.kind != "add"]
    events = list(chain(*additions, renamings, *changes, version.second_names()))
    ledger.append(events, tx=ledger.draw() if events else None)
    return len(events)


class _Version:
    """A version from git, compared with the live bullets of a ledger.

    edits  the changes that lead from these bullets to the version

    `place` is the version's digest and the ledger's position.
    """

    def __init__(
        self, ledger: Ledger, root: Path, theirs: Loaded, before: Loaded, place: tuple[str, int]
    ) -> None:
        self._ledger = ledger
        self._root = root
        self._place = place
        self._rows = ledger.rows_by_name()
        names = _names_taken_in(self._rows, before)
        self._names_in_file = {name: old for old, name in names.items()}
        live = [row for row in self._rows.values() if row.status == "live"]
        self._live_by_words = {(row.section, row.text): row for row in live}
        edits = _without_counts(theirs).edits_of([row.bullet for row in live])
        self._wordings = Wordings(ledger)
        self._their_words = {(bullet.section, bullet.text): bullet for bullet in theirs.bullets}
        self._their_names = {bullet.name: bullet for bullet in theirs.bullets}
        self._names = Names([*self._rows, *(bullet.name for bullet in theirs.bullets)])
        edits = merges_undone(edits, self._rows)
        self.edits = [change for edit in edits for change in self._of_one_bullet(edit)]
        changes = [edit for edit in self.edits if edit.kind in ("revise", "remove")]
        self._changed_names = {edit.name for edit in changes}
        #: The new names of bullets that a merge renamed.
        self._new_names: dict[str, str] = {}
        #: The renamed bullets, by names that other bullets of the ledger had.
        self._arrived: dict[str, BulletRow] = {}
        #: The bullets that the version also has under a name that the ledger never used, with these
        #: additions.
        self._second_names: list[tuple[BulletRow, Change]] = []

    def _of_one_bullet(self, edit: Change) -> list[Change]:
        """Return the edit; of a bullet whose name means another bullet in the version, an addition
        and a removal.
        """
        name = edit.name or ""
        if edit.kind != "revise":
            return [edit]
        row = self._rows[name]
        has_other_name = self._names_in_file.get(name, name) != name
        is_gone = (row.section, row.text) not in self._their_words
        if not is_gone or not (has_other_name or self._was_replaced(row, edit)):
            return [edit]
        other = Bullet(self._names.next(row.section), row.section, edit.text or "")
        return [added(other), Change("remove", name)]

    def _was_replaced(self, row: BulletRow, revision: Change) -> bool:
        """Return whether a commit of the branch removed a bullet, and another commit gave its name
        to other advice.
        """
        entry = entry_in_file(row.bullet)
        revised = entry_in_file(replace(row.bullet, text=revision.text or ""))
        is_reworded = entry in self._history.earlier(revised)
        return entry in self._history.removed and not is_reworded

    @cached_property
    def _history(self) -> BranchHistory:
        return branch_history(self._root)

    def addition(self, edit: Change) -> list[NewEvent]:
        """Return the events of a bullet that is in the version and not in the ledger."""
        section = edit.section or ""
        text = edit.text or ""
        row = self._live_by_words.get((section, text))
        if row is not None:
            return self._with_new_name(row, edit)
        row = self._with_earlier_words(edit)
        if row is not None:
            if row.name not in self._their_names:
                return self._under_their_name(row, edit)
            self._second_names.append((row, edit))
            return []
        bullet = Bullet(edit.name or self._names.next(section), section, text)
        entry = entry_in_file(bullet)
        removed = self._rows.get(bullet.name)
        wordings = self._wordings.entries(removed) if removed is not None else set()
        is_known = entry in wordings
        row = None if is_known else self._removed_beside(edit)
        if row is not None:
            self._second_names.append((row, edit))
            return []
        if removed is None:
            return [_added(added(bullet), GIT)]
        if is_known and entry in self._history.removed:
            if not self._history.is_back(entry):
                return []
            if removed.status == "removed":
                return _restored(removed, bullet, of_file(*self._place, edit))
            back = come_back(removed, self._names.next(section))
            return [_added(added(replace(back, section=section, text=text)), GIT)]
        replaced = {*self._history.removed} if is_known else self._history.earlier(entry)
        if removed.status == "removed" and wordings & replaced:
            return _restored(removed, bullet, of_file(*self._place, edit))
        # A branch that never removed the bullet says nothing of its removal here.
        if is_known:
            return []
        return [_added(added(replace(bullet, name=self._names.next(section))), GIT)]

    def _removed_beside(self, addition: Change) -> BulletRow | None:
        """Return the removed bullet to which an addition only gives a second name, because a commit
        added it beside the removal.
        """
        for name in sorted(self._wordings.names(addition.text or "")):
            row = self._rows.get(name)
            if row is None or row.status != "removed" or row.text != addition.text:
                continue
            if self._history.has_lost(row.bullet):
                return row
        return None

    def _with_new_name(self, row: BulletRow, edit: Change) -> list[NewEvent]:
        """Return the event of a bullet that has another name in the version, if the version changed
        or removed the bullet of the old name.
        """
        is_changed = row.name in self._changed_names
        if not is_changed or self._is_stale(row) or self._is_reworded(row):
            self._second_names.append((row, edit))
            return []
        return self._under_their_name(row, edit)

    def _under_their_name(self, row: BulletRow, edit: Change) -> list[NewEvent]:
        """Return the event that gives a bullet the name that it has in the version."""
        if edit.name is None or row.name in self._new_names:
            self._second_names.append((row, edit))
            return []
        if edit.name not in self._rows:
            return [self._moved(row, edit.name)]
        # The ledger used the name for another bullet, so both have to agree on a third one.
        return [self._moved(row, self._names.next(row.section))] if self._was_changed(row) else []

    def second_names(self) -> Iterator[NewEvent]:
        """Yield the events that give a bullet the second name that it has in the version. Otherwise
        the ledger could give the name to another bullet, and the clones would take the two for one.
        """
        for row, edit in self._second_names:
            if edit.name is not None and edit.name not in self._rows:
                into = self._new_names.get(row.name, row.name)
                removal = Change("remove", edit.name)
                place = of_file(*self._place, removal)
                yield _added(edit._replace(helpful=0, harmful=0), GIT)
                yield bullet_event(removal, *place, actor=GIT, reason="merged", into=into)

    def _is_stale(self, row: BulletRow) -> bool:
        """Return whether the version has a bullet's words under another name, and earlier words of
        it under its own name: the two are one bullet, whose name and words stay.
        """
        theirs = self._their_names.get(row.name)
        if theirs is None or theirs.text == row.text:
            return False
        is_twice = (row.section, row.text) in self._their_words
        return is_twice and row.name in self._wordings.names(theirs.text)

    def _is_reworded(self, row: BulletRow) -> bool:
        """Return whether a commit reworded a bullet, so that its words under another name are only
        an earlier copy of it, which another branch added beside that commit.
        """
        theirs = self._their_names.get(row.name)
        if theirs is None or not self._history.has_lost(row.bullet):
            return False
        return entry_in_file(row.bullet) in self._history.earlier(entry_in_file(theirs))

    def _with_earlier_words(self, addition: Change) -> BulletRow | None:
        """Return the live bullet of which a bullet that is new in the version has earlier words.
        There is none if a commit of the branch replaced these words, and another one added them
        again.
        """
        text = addition.text or ""
        for name in sorted(self._wordings.names(text)):
            row = self._rows.get(name)
            if row is not None and row.status == "live":
                earlier = self._history.earlier(entry_in_file(row.bullet))
                former = replace(row.bullet, text=text)
                is_replaced = entry_in_file(former) in earlier
                return None if is_replaced and not self._history.has_lost(former) else row
        return None

    def renamings(self) -> list[NewEvent]:
        """Decide which bullets get another name because the version gave theirs to another bullet.
        Return the events of those that get a name that the ledger never used.

        If the version has two bullets of the ledger under exchanged names, each gets the other's.
        """
        revisions = {edit.name: edit for edit in self.edits if edit.name and edit.kind == "revise"}
        arriving = self._arriving(revisions)
        events: list[NewEvent] = []
        leaving = {row.name for row in arriving.values()}
        # A bullet can arrive only under a name that its bullet leaves.
        while taken := sorted(arriving.keys() - self._new_names.keys() - leaving):
            for name in taken:
                if self._must_leave(revisions[name]):
                    events.append(self._moved_to_next(name))
                else:
                    leaving.discard(arriving.pop(name).name)
        self._new_names |= {row.name: name for name, row in arriving.items()}
        self._arrived = arriving
        for name, edit in revisions.items():
            if name not in self._new_names and self._must_leave(edit):
                events.append(self._moved_to_next(name))
        return events

    def _arriving(self, revisions: Collection[str]) -> dict[str, BulletRow]:
        """Return the bullets whose words the version has under the name of another bullet, by that
        name.
        """
        arriving: dict[str, BulletRow] = {}
        for words, row in self._live_by_words.items():
            bullet = self._their_words.get(words)
            is_renamed = row.name in self._changed_names - self._new_names.keys()
            if bullet is not None and bullet.name in revisions and is_renamed:
                arriving[bullet.name] = row
        return arriving

    def _must_leave(self, revision: Change) -> bool:
        """Return whether a bullet's name means another bullet in the version, because the branch
        never had the bullet of the ledger.
        """
        row = self._rows[revision.name or ""]
        is_known = is_so(row, revision) or self._was_changed(row)
        return not is_known and not self._is_of_branch(row)

    def _moved_to_next(self, name: str) -> NewEvent:
        row = self._rows[name]
        return self._moved(row, self._names.next(row.section))

    def _moved(self, row: BulletRow, to: str) -> NewEvent:
        self._new_names[row.name] = to
        # An import may have brought the rule from a machine where git gave it this name.
        moved = added(replace(row.bullet, name=to))
        return bullet_event(moved, *of_file(*self._place, moved), actor=GIT, origin="playbook.json")

    def _was_changed(self, row: BulletRow) -> bool:
        """Return whether a commit of the branch changed a bullet that says what the ledger says."""
        names = (row.name, self._names_in_file.get(row.name, row.name))
        entries = {entry_in_file(replace(row.bullet, name=name)) for name in names}
        return not entries.isdisjoint(self._history.changed)

    def _is_of_branch(self, row: BulletRow) -> bool:
        """Return whether the branch ever had the bullet, in words that the ledger knows."""
        erased = entry_in_file(replace(row.bullet, text=REDACTED))
        return not self._wordings.entries(row).isdisjoint({erased, *self._history.changed})

    def changed(self, edit: Change) -> list[NewEvent]:
        """Return the events of a changed or removed bullet."""
        place = of_file(*self._place, edit)
        name = edit.name or ""
        row = self._rows[name]
        if name in self._new_names:
            return self._left(edit, row, place)
        # A version of the present branch said of the bullet what the ledger says now.
        if is_so(row, edit) or not self._was_changed(row) or self._is_stale(row):
            return []
        return [bullet_event(edit, *place, actor=GIT)]

    def _left(self, edit: Change, row: BulletRow, place: tuple[str | int, ...]) -> list[NewEvent]:
        """Return the events for the old name of a renamed bullet. The old name now belongs to
        another bullet, or to none.
        """
        to = self._new_names[row.name]
        new = BulletRow(to, row.section, row.text)
        taken_along = hidden_changes(self._rows.get(to, new), row, to)
        arrived = self._arrived.get(row.name)
        if arrived is None:
            taken_along += hidden_changes(row, new, row.name)
        along = [
            bullet_event(change, *place, change.name or "", actor=GIT) for change in taken_along
        ]
        if edit.kind == "remove":
            return [bullet_event(edit, *place, actor=GIT, reason="merged", into=to), *along]
        event = bullet_event(edit, *place, actor=GIT)
        if edit.kind != "revise":
            return [event]
        counts = (arrived.helpful, arrived.harmful) if arrived else (0, 0)
        recount = Change("recount", edit.name, helpful=counts[0], harmful=counts[1])
        recounted = bullet_event(recount, *place, actor=GIT)
        return [replace(recounted, data={**recounted.data, "into": to}), event, *along]


class Wordings:
    """Every text that each bullet and each name of a ledger ever had. They are read at the first
    question.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @cached_property
    def _named(self) -> list[tuple[str, str, str]]:
        """Each text with its name then, and the name that its bullet has now."""
        renamings = Renamings(self._ledger.head().origin)
        for event in self._ledger.events(types=RENAMING_TYPES):
            renamings.take(event.type, event.actor, event.facts, event.position, event.meta)
        named: list[tuple[str, str, str]] = []
        for event in self._ledger.events(types=WORDING_TYPES):
            for bullet in bullets_worded(event.type, event.facts):
                name = bullet["name"]
                later_name = renamings.later_name(name, event.position, event.meta)
                named.append((bullet["text"], name, later_name))
        return named

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        names: dict[str, set[str]] = {}
        for text, _, later_name in self._named:
            names.setdefault(text, set()).add(later_name)
        return names

    @cached_property
    def _texts(self) -> dict[str, set[str]]:
        texts: dict[str, set[str]] = {}
        for text, name, _ in self._named:
            texts.setdefault(name, set()).add(text)
        return texts

    def names(self, text: str) -> Set[str]:
        """Return the names of the bullets that ever had a text."""
        return self._names.get(text, set())

    def entries(self, row: BulletRow) -> Set[Entry]:
        """Return the entries that a name ever had in the file, one for each of its texts."""
        texts = self._texts.get(row.name, set())
        return {entry_in_file(replace(row.bullet, text=text)) for text in texts}


def _restored(row: BulletRow, bullet: Bullet, place: tuple[str | int, ...]) -> list[NewEvent]:
    """Return the events that bring back a removed bullet with the text and section of git."""
    changes = edits_between([row.bullet], [bullet], uncounted=[row.name])
    restoration = Change("restore", row.name)
    return [bullet_event(change, *place, actor=GIT) for change in (restoration, *changes)]


def _added(bullet: Change, actor: str) -> NewEvent:
    return bullet_event(bullet, *of_new(bullet), actor=actor, origin="playbook.json")
