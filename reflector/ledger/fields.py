"""What the data of each type of event holds, field by field.

Invariant: this is the only list. Admission checks data against it, a redaction erases what it calls prose, and the
triggers let through the erasure of exactly those types that hold some. A type that is missing here is refused.

A field that is not named here is a fact of a newer version: it is kept as it is, unread and unchecked.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reflector.ledger import event as ev
from reflector.ledger.canonical import MAX_INT
from reflector.ledger.record_keys import unpack_keys
from reflector.playbook.admissible import MAX_COUNT, text_fault
from reflector.playbook.counting import is_counting
from reflector.playbook.names import SECTIONS, is_name

Fault = Callable[[Any], str | None]

_VERDICTS: Final = ("helpful", "harmful", "neutral", "unknown", None)
_DISPOSITIONS: Final = ("counted", "neutral", "unknown_bullet", "retired_bullet", "unknown_tag", "malformed")
_HEX: Final = frozenset("0123456789abcdef")
_LONGEST_WORD: Final = 200


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an object.

    fault    what is wrong with a value, None where nothing is
    needed   whether an object without the field is refused
    prose    whether a text of it is one that somebody wrote, which a redaction erases; the value may be a list of texts
    within   the fields of the object that the value is, or of each object of the list that it is
    """

    fault: Fault
    needed: bool = False
    prose: Callable[[str], bool] | None = None
    within: Mapping[str, Field] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """The data of one type of event.

    whole  it holds nothing that counts: a redaction keeps none of it
    """

    fields: Mapping[str, Field]
    whole: bool = False

    @property
    def holds_prose(self) -> bool:
        """Whether a redaction has something to erase."""
        return any(_holds_prose(one) for one in self.fields.values())


def _holds_prose(one: Field) -> bool:
    return one.prose is not None or any(_holds_prose(inner) for inner in one.within.values())


def _one_of(values: tuple[object, ...]) -> Fault:
    return lambda value: None if value in values else f"must be one of {', '.join(map(str, values))}"


def _whole_number(most: int) -> Fault:
    def fault(value: Any) -> str | None:
        return None if type(value) is int and 0 <= value <= most else f"must be a whole number from 0 to {most:,}"

    return fault


def _of_type(type_: type, what: str, *, or_null: bool = False) -> Fault:
    def fault(value: Any) -> str | None:
        return None if isinstance(value, type_) or (or_null and value is None) else f"must be {what}"

    return fault


def _list_of(fault: Fault, what: str) -> Fault:
    def of_list(value: Any) -> str | None:
        return None if isinstance(value, list) and not any(map(fault, value)) else f"must be a list of {what}"

    return of_list


def _name(value: Any) -> str | None:
    return None if is_name(value) else "must be the name of a bullet, such as pat-001"


def _name_or_null(value: Any) -> str | None:
    return None if value is None else _name(value)


def _word(value: Any) -> str | None:
    sound = value is None or (isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable())
    return None if sound else f"must be null or at most {_LONGEST_WORD} printable characters"


def _counting(value: Any) -> str | None:
    return None if is_counting(value) else "must be a counting policy"


def _keys(value: Any) -> str | None:
    try:
        unpack_keys(value)
    except (ValueError, TypeError) as error:
        return f"must be packed record keys ({error})"
    return None


def _leaves(value: Any) -> str | None:
    return None if isinstance(value, list) and all(map(_is_leaf, value)) else "must be a list of merged events"


def _is_leaf(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 4 or type(entry[0]) is not int:
        return False
    return all(isinstance(text, str) for text in entry[1:]) and len(entry[3]) == 64 and set(entry[3]) <= _HEX


def _renamed(value: Any) -> str | None:
    sound = isinstance(value, dict) and all(is_name(name) for pair in value.items() for name in pair)
    return None if sound else "must map names of bullets to names of bullets"


def _any(_: str) -> bool:
    return True


def _phrase(text: str) -> bool:
    """True for anything but one word, such as the reasons for which an agent ends a session."""
    return not text.replace("_", "").isalnum()


_text = _of_type(str, "a text")
_text_or_null = _of_type(str, "a text or null", or_null=True)
_object = _of_type(dict, "an object")
_objects = _list_of(_object, "objects")
_section = _one_of(tuple(SECTIONS))
_number = _whole_number(MAX_INT)

_PROSE: Final = Field(_text, prose=_any)
_NEEDED_PROSE: Final = Field(_text, needed=True, prose=_any)
_NAMED: Final = {"name": Field(_name, needed=True)}
_SECTION: Final = {"section": Field(_section, needed=True)}
_ADVICE: Final = {"text": Field(text_fault, needed=True, prose=_any)}
_BASELINE: Final = {"helpful": Field(_whole_number(MAX_COUNT)), "harmful": Field(_whole_number(MAX_COUNT))}
_BULLET: Final = {**_NAMED, **_SECTION, **_ADVICE, **_BASELINE}
_NAMES: Final = Field(_list_of(_name, "names of bullets"))
_HEAD: Final = {"position": Field(_number, needed=True), "chain": Field(_text, needed=True)}

KINDS: Final[Mapping[str, Kind]] = {
    ev.PLAYBOOK_IMPORTED: Kind({"bullets": Field(_objects, needed=True, within=_BULLET)}),
    ev.BULLET_PROPOSED: Kind({**_SECTION, **_ADVICE, "reason": _NEEDED_PROSE}, whole=True),
    ev.BULLET_ADDED: Kind(_BULLET),
    ev.BULLET_REVISED: Kind({**_NAMED, **_ADVICE}),
    ev.BULLET_MOVED: Kind({**_NAMED, **_SECTION}),
    ev.BULLET_REMOVED: Kind({**_NAMED, "reason": Field(_word), "into": Field(_name_or_null)}),
    ev.BULLET_RECOUNTED: Kind({**_NAMED, **_BASELINE}),
    ev.BULLET_ASSERTED: Kind(
        {**_NAMED, "helpful": Field(_number, needed=True), "harmful": Field(_number, needed=True)},
    ),
    ev.BULLET_TAGGED: Kind(
        {
            "index": Field(_number),
            "name": Field(_name_or_null, needed=True),
            "tag": Field(_one_of(_VERDICTS), needed=True),
            "disposition": Field(_one_of(_DISPOSITIONS), needed=True),
        }
    ),
    ev.SESSION_RECORDED: Kind(
        {
            "agent_id": Field(_text_or_null, needed=True),
            "trigger": Field(_text, needed=True),
            "reason": Field(_word, prose=_phrase),
            "transcript": Field(
                _object, needed=True, within={"path": _NEEDED_PROSE, "bytes": Field(_number, needed=True)}
            ),
            "window": Field(
                _object, needed=True, within={"keys": Field(_keys, needed=True), "after": Field(_text_or_null)}
            ),
            "cited": Field(_NAMES.fault, needed=True),
            "carried": Field(_NAMES.fault, needed=True),
            "retired": _NAMES,
            "unknown": _NAMES,
        }
    ),
    ev.REFLECTION_SKIPPED: Kind({"reason": _NEEDED_PROSE}, whole=True),
    ev.REFLECTION_ANSWERED: Kind(
        {
            "answer": _NEEDED_PROSE,
            "iteration": Field(_number),
            "part": Field(_number),
            "parts": Field(_number),
            "plan": Field(_object),
        },
        whole=True,
    ),
    ev.REFLECTION_COMPLETED: Kind(
        {
            "analysis": _NEEDED_PROSE,
            "rationales": Field(_objects, within={"rationale": _PROSE}),
            "problems": Field(_list_of(_text, "texts"), prose=_any),
        },
        whole=True,
    ),
    ev.REFLECTION_FAILED: Kind(
        {"stage": Field(_text, needed=True), "message": _NEEDED_PROSE, "attempts": Field(_number)}
    ),
    ev.EVIDENCE_RETRACTED: Kind({"reason": _NEEDED_PROSE}, whole=True),
    ev.EVENT_REDACTED: Kind(
        {
            "reason": _NEEDED_PROSE,
            "earlier": Field(_list_of(_text, "texts"), prose=_any),
            # Prose of the event that was redacted, whose kind says which.
            "kept": Field(_object),
        }
    ),
    ev.POLICY_ADOPTED: Kind(
        {
            "policy": Field(_text, needed=True),
            "counting": Field(_counting, needed=True),
            "reason": Field(_text_or_null, prose=_any),
        }
    ),
    ev.LEDGER_MERGED: Kind(
        {
            "playbook": Field(_text, needed=True),
            "origin": Field(_text, needed=True),
            "after": Field(_object, needed=True, within=_HEAD),
            **_HEAD,
            "here": Field(_leaves, needed=True),
            "renamed": Field(_renamed, needed=True),
        }
    ),
}


def faults(type_: str, data: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an event's data, field by field."""
    yield from _faults(KINDS[type_].fields, data, "")


def _faults(fields: Mapping[str, Field], value: Mapping[str, Any], where: str) -> Iterator[str]:
    for name, one in fields.items():
        if name not in value:
            if one.needed:
                yield f"{where}{name} is missing"
            continue
        found = value[name]
        if what := one.fault(found):
            yield f"{where}{name} is {_show.repr(found)}: {what}"
        elif one.within:
            # Of an import, people count the bullets from 1.
            several = enumerate(found, start=1) if isinstance(found, list) else [(0, found)]
            for number, inner in several:
                yield from _faults(one.within, inner, f"{name} {number}: " if number else f"{name}.")


_show = reprlib.Repr()
_show.maxstring = _show.maxother = _show.maxlong = 60
