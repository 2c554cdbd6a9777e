"""An event type as one value: everything that the program knows of a type, and of its data,
field by field.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from reflector.events.effects import Effect
from reflector.events.state import Data

Fault = Callable[[Any], str | None]


class Field(NamedTuple):
    """One field of an object.

    fault      returns a message for a value that is wrong, None for one that is right
    needed     an object without the field is refused
    prose      returns whether a text of the field was written by somebody, so that a redaction
               erases it; the value may be a list of texts
    names      the value is the name of a bullet, or a list of names: a merge renames them
    elsewhere  returns whether the name in this object belongs to another playbook, so that a merge
               leaves it
    within     the fields of the object that the value is, or of each object in the list that it is
    shape      the part of `fault` that an event must pass to be read, where that is less: no
               admission of today may keep an old event from being read
    """

    fault: Fault
    needed: bool = False
    prose: Callable[[str], bool] | None = None
    names: bool = False
    elsewhere: Callable[[Data], bool] | None = None
    within: Mapping[str, Field] = MappingProxyType({})
    shape: Fault | None = None


def all_fields(fields: Mapping[str, Field]) -> Iterator[Field]:
    """Yield the fields of an object, and those of the objects within."""
    for one in fields.values():
        yield one
        yield from all_fields(one.within)


class Target(NamedTuple):
    """The event that another one points to.

    event     which event that is, for the documents
    required  an event without a target is refused
    once      a target is taken by one event of the type at most
    """

    event: str
    required: bool = False
    once: bool = False


class Merge(Enum):
    """What a merge does with an event whose id is here with other data."""

    FIRST = "the one that is here stays"
    BESIDE = "both stay, the other one under an id of its own"
    LOCAL = "not appended: it speaks of its own ledger alone"


class _Known(dict[str, Any]):
    """Data of which an absent field is None."""

    def __missing__(self, key: str) -> None:
        return None


def said(form: str) -> Callable[[Data], str]:
    """Return the summary of data in a form that names its fields, such as `{name}: {text}`."""
    return lambda data: form.format_map(_Known(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """One type of event.

    meaning    one sentence for the documents: an event of this type records that …
    since      the schema revision of the first release that appended it, where that is not the
               first of all
    fields     of the data, by name; a field that is not named here is a fact of a newer version:
               kept as it is, unread and unchecked
    effect     what the event changes
    summary    returns the event's line in `log` from its data
    merge      what becomes of a differing event with the same id
    no_retraction  why it cannot be retracted, and what to do instead; "" for evidence, which can
    target     the event that it points to; None where it points to none
    all_prose  the data holds nothing that counts: a redaction keeps none of it
    checked    the data is admitted by `fault` also when this program appends it, because people and
               models word it; so an event that lacks a needed field cannot be read
    id_is_name the event's id is the identity of the name of its bullet
    """

    name: str
    meaning: str
    since: int = 1
    fields: Mapping[str, Field]
    effect: Effect
    summary: Callable[[Any], str]
    merge: Merge = Merge.FIRST
    no_retraction: str
    target: Target | None = None
    all_prose: bool = False
    checked: bool = False
    id_is_name: bool = False

    @property
    def holds_prose(self) -> bool:
        """Whether a redaction has something to erase."""
        return any(one.prose is not None for one in all_fields(self.fields))

    def fault(self, data: Data) -> str | None:
        """Return the first thing that is wrong with an event's data, None where nothing is."""
        return _fault(self.fields, data, "")

    def unreadable(self, data: Data) -> str | None:
        """Return why data cannot be read as this type's, None where it can: the one check of an
        event that is read.
        """
        return _fault(self.fields, data, "", reads=True, has_needed=self.checked)


def _fault(
    fields: Mapping[str, Field],
    value: Data,
    where: str,
    *,
    reads: bool = False,
    has_needed: bool = True,
) -> str | None:
    for name, one in fields.items():
        if name not in value:
            if one.needed and has_needed:
                return f"{where}{name} is missing"
            continue
        found = value[name]
        if what := (one.shape if reads and one.shape is not None else one.fault)(found):
            return f"{where}{name} is {_show.repr(found)}: {what}"
        if not one.within:
            continue
        # Of an import, people count the bullets from 1.
        for number, inner in enumerate(found, start=1) if isinstance(found, list) else [(0, found)]:
            place = f"{name} {number}: " if number else f"{name}."
            if fault := _fault(one.within, inner, place, reads=reads, has_needed=has_needed):
                return fault
    return None


_show = reprlib.Repr()
_show.maxstring = _show.maxother = _show.maxlong = 60
