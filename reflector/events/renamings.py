"""The renamings of bullets in a ledger, and the names that bullets have since.

If git gives a name to other advice, the ledger adds its own bullet under another name, and from
then on the former name means the other advice. So in one ledger a name may mean two bullets, one
before and one after a position. A bullet is known by the name that it has at the end.

An import may show that two bullets of the ledger are one. It joins them: one of the two names means
the bullet from then on. The evidence of both counts, and so does the text that was changed last.
The other name's removals and restorations do not count, and neither do its texts from git.

Invariant: a renaming is a fact about the names of one ledger. It applies to each event that this
ledger had before, even if another ledger recorded the event first. A merge brings events under the
names that their bullets have at the end, so it does not bring the renaming itself. Merges of
earlier versions did bring it, with events under the names that they had there. Such a renaming
applies to the events of the ledger that it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflector.events import event as ev
from reflector.events.event import MERGED, TX, first_moment
from reflector.events.kinds import Field
from reflector.events.registry import fields_of, mapped, names_in
from reflector.events.state import Data

#: The types of events that may rename a bullet.
RENAMING_TYPES = (ev.BULLET_REMOVED, ev.BULLET_RECOUNTED)
_GIT = "git"
#: The reason for the removal of a name whose bullet an import joined with another one.
JOINED = "joined"
_STANDING_TYPES = (ev.BULLET_REMOVED, ev.BULLET_RESTORED, ev.BULLET_RECOUNTED)
_SHOWN_TYPES = (ev.BULLET_REVISED, ev.BULLET_MOVED)


def renamed_into(type_: str, facts: Data) -> str | None:
    """Return the name that a bullet has after an event because git gave its name to other advice or
    removed it, or because an import joined it with another one; None for any other event.

    Earlier versions wrote a merge of bullets in the same way, with another actor.
    """
    is_merged = type_ == ev.BULLET_REMOVED and facts.get("reason") in ("merged", JOINED)
    into = facts.get("into") if is_merged or type_ == ev.BULLET_RECOUNTED else None
    return into if isinstance(into, str) else None


def is_renaming(type_: str, actor: str, facts: Data) -> bool:
    """Return whether git or an import gave a bullet another name in this event."""
    is_ours = actor == _GIT or facts.get("reason") == JOINED
    return is_ours and renamed_into(type_, facts) is not None


def is_of_name(type_: str, actor: str, facts: Data) -> bool:
    """Return whether an event only concerns a name of a bullet that has another name, too: the
    bullet stays if that name is removed, and keeps its words if git gives the name earlier ones.
    """
    if renamed_into(type_, facts) is not None:
        return False
    return type_ in _STANDING_TYPES or (type_ in _SHOWN_TYPES and actor == _GIT)


class Renamings:
    """git's renamings in one ledger, by the former name.

    origin  the ledger's origin
    shared  the last position of the history that copies of the ledger have in common with it
    merges  whether merges of bullets that earlier versions wrote are renamings, too
    """

    def __init__(self, origin: str, shared: int = 0, *, merges: bool = False) -> None:
        self._origin = origin
        self._shared = shared
        self._has_merges = merges
        #: For each former name: the position, the transaction and the later name.
        self._own: dict[str, list[tuple[int, str, str]]] = {}
        #: The positions at which bullets were joined, and the names that ended there.
        self._joined: set[tuple[int, str]] = set()
        #: The last position of each transaction.
        self._ends: dict[str, int] = {}
        #: For each ledger ("" is this one) and former name: the position there, the position here
        #: and the later name.
        self._of_ledgers: dict[tuple[str, str], list[tuple[int, int, str]]] = {}

    def __bool__(self) -> bool:
        return bool(self._own or self._of_ledgers)

    def take(
        self, type_: str, actor: str, facts: Data, position: int, meta: Mapping[str, Any]
    ) -> None:
        """Add the next event of the ledger, if it is a renaming."""
        into = renamed_into(type_, facts)
        is_ours = is_renaming(type_, actor, facts)
        if into is None or not (is_ours or self._has_merges):
            return
        name = facts["name"]
        if is_ours and MERGED not in meta:
            tx = str(meta.get(TX, position))
            self._ends[tx] = position
            self._own.setdefault(name, []).append((position, tx, into))
            if facts.get("reason") == JOINED:
                self._joined.add((position, name))
        else:
            _, origin, first_position = first_moment(meta, ("", "", position))
            renamings = self._of_ledgers.setdefault((origin, name), [])
            renamings.append((first_position, position, into))

    def later_name(self, name: str, position: int, meta: Mapping[str, Any]) -> str:
        """Return the name that a bullet has at the end, if an event at a position names it."""
        *_, last = self._names_since(name, position, meta)
        return last[1]

    def is_joined(self, name: str, position: int, meta: Mapping[str, Any]) -> bool:
        """Return whether an import joined a bullet with another one after an event at a position
        named it.
        """
        return not self._joined.isdisjoint(self._names_since(name, position, meta))

    def _names_since(
        self, name: str, position: int, meta: Mapping[str, Any]
    ) -> Iterator[tuple[int, str]]:
        """Yield the names that a bullet has had since an event named it, each with the position at
        which it lost the name; 0 for the present one.
        """
        if self._of_ledgers:
            name, position = self._later_elsewhere(name, position, meta)
        while True:
            later = [each for each in self._own.get(name, ()) if each[0] > position]
            if not later:
                yield 0, name
                return
            lost_at, tx, later_name = min(later)
            yield lost_at, name
            name = later_name
            # One version of git renames bullets at once, so two may exchange their names.
            position = self._ends[tx]

    def _later_elsewhere(
        self, name: str, position: int, meta: Mapping[str, Any]
    ) -> tuple[str, int]:
        """Return the later name by the renamings of the ledger that first had the event, and the
        position from which the bullet has this name here.
        """
        _, origin, first_position = first_moment(meta, ("", "", position))
        origins = [origin]
        if not origin and position <= self._shared:
            origins.append(self._origin)
        while True:
            renamings = [each for key in origins for each in self._of_ledgers.get((key, name), ())]
            later = [each for each in renamings if each[0] > first_position]
            if not later:
                return name, position
            first_position, position_here, name = min(later)
            position = max(position, position_here)

    def later_names(
        self, type_: str, facts: Data, position: int, meta: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the names in an event's data whose bullets have other names at the end, with these
        names.
        """
        if not self:
            return {}
        names = {name: self.later_name(name, position, meta) for name in names_in(type_, facts)}
        return {name: later for name, later in names.items() if later != name}


def with_names(type_: str, data: Data, names: Mapping[str, str]) -> dict[str, Any]:
    """Return an event's data with its bullets under their new names.

    A renaming is one to one. It changes only the fields that name bullets, and no prose.
    """

    def new_value(field: Field, holder: Data, value: Any) -> Any:
        names_another_playbooks = field.elsewhere is not None and field.elsewhere(holder)
        if not field.names or names_another_playbooks:
            return value
        if isinstance(value, list):
            return [names.get(name, name) for name in value]
        return names.get(value, value) if isinstance(value, str) else value

    return mapped(fields_of(type_), data, new_value)
