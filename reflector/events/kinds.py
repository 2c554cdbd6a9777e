"""An event type as one value, with everything that the program knows about the type and its fields.

The other modules of this package list the types, and `registry` collects them. Append, reader,
redaction and merge use the types. There is no second list of types or fields.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from reflector.events.effects import Effect
from reflector.events.state import Data

#: Returns a message for a wrong value, None for a right one.
Fault = Callable[[Any], str | None]


class Field(NamedTuple):
    """One field of an object.

    fault      the check that admits a value
    needed     an object without the field is refused
    prose      returns whether a text of the field is free text, so that a redaction erases it; the
               value may be a list of texts
    names      the value is the name of a bullet, or a list of names: a merge renames them
    elsewhere  returns whether the name in this object belongs to another playbook, so that a merge
               leaves it
    within     the fields of the object that is the value, or of each object in a list
    shape      the part of `fault` that an event must pass to be read, if that is less, because a
               check of today must not make an old event unreadable
    """

    fault: Fault
    needed: bool = False
    prose: Callable[[str], bool] | None = None
    names: bool = False
    elsewhere: Callable[[Data], bool] | None = None
    within: Mapping[str, Field] = MappingProxyType({})
    shape: Fault | None = None


def all_fields(fields: Mapping[str, Field]) -> list[Field]:
    """Return the fields of an object, and those of the objects within."""
    flat = list(fields.values())
    for field in flat:
        flat += field.within.values()  # the loop also visits these
    return flat


class Target(NamedTuple):
    """The event that another one points to.

    event     the kind of that event, for the documents
    required  an event without a target is refused
    once      at most one event of the type points to a target
    """

    event: str
    required: bool = False
    once: bool = False


class Merge(Enum):
    """The treatment of an event whose id is already here with other data."""

    FIRST = "this ledger keeps its present event"
    BESIDE = "this ledger keeps both events; the imported event gets a new id"
    LOCAL = "reflector does not import the event, because the event concerns only its own ledger"


class _Known(dict[str, Any]):
    """Data in which an absent field is None."""

    def __missing__(self, key: str) -> None:
        return None


def as_line(form: str) -> Callable[[Data], str]:
    """Return a function from data to one line in a form of its fields, such as `{name}: {text}`."""
    return lambda facts: form.format_map(_Known(facts))


class EventType(NamedTuple):
    """One type of event.

    meaning    one sentence for the documents: an event of this type records that …
    fields     of the data, by name; an unnamed field is a fact of a newer version: it is kept, but
               neither read nor checked
    effect     the change that the event makes
    summary    returns the event's line in `log` from its data
    no_retraction  why it cannot be retracted, and the alternative, with {target} for the target's
                   short id; "" for evidence, which can
    since      the schema revision of the first release that appended it, if not the first of all
    merge      the treatment of a differing event with the same id
    target     the event that it points to; None if it points to none
    all_prose  nothing in the data counts, so a redaction erases all of it
    checked    `fault` also checks the data if this program appends it, because users and models
               write it; so an event that lacks a needed field cannot be read
    id_is_name the event's id is the identity of the name of its bullet
    """

    name: str
    meaning: str
    fields: Mapping[str, Field]
    effect: Effect
    summary: Callable[[Any], str]
    no_retraction: str
    since: int = 1
    merge: Merge = Merge.FIRST
    target: Target | None = None
    all_prose: bool = False
    checked: bool = False
    id_is_name: bool = False

    @property
    def holds_prose(self) -> bool:
        """Whether a redaction has something to erase."""
        return any(field.prose for field in all_fields(self.fields))

    def fault(self, facts: Data) -> str | None:
        """Return the first fault of an event's data; None if the data is admitted."""
        return _first_fault(self.fields, facts, "")

    def unreadable(self, facts: Data) -> str | None:
        """Return the reason why data cannot be read as data of this type; None if it can.

        An event that is read gets only this check.
        """
        return _first_fault(self.fields, facts, "", reads=True, has_needed=self.checked)


def _first_fault(
    fields: Mapping[str, Field],
    facts: Data,
    path: str,
    *,
    reads: bool = False,
    has_needed: bool = True,
) -> str | None:
    """Return the first fault of an object whose own place in the data is `path`; None for none.

    reads       check the shape of a field that has one, not its admission
    has_needed  an object that lacks a needed field is at fault
    """
    for name, field in fields.items():
        if name not in facts:
            if field.needed and has_needed:
                return f"{path}{name} is missing"
            continue
        value = facts[name]
        check = field.fault
        if reads and field.shape is not None:
            check = field.shape
        if fault := check(value):
            return f"{path}{name} is {_shortener.repr(value)}: {fault}"
        if not field.within:
            continue
        objects = value if isinstance(value, list) else [value]
        for number, inner in enumerate(objects, start=1):  # users count bullets from 1
            place = f"{name} {number}: " if objects is value else f"{name}."
            fault = _first_fault(field.within, inner, place, reads=reads, has_needed=has_needed)
            if fault:
                return fault
    return None


_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = _shortener.maxlong = 60
