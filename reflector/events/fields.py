"""The kinds of fields that event types are made of, and the form of packed record keys.

A window carries the keys of its records, so that the ledger alone knows which records of transcripts it holds, long
after the transcript is gone: 8 bytes a record instead of a uuid of 36 characters.
"""

from __future__ import annotations

import re
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from reflector.events.event import MAX_INT
from reflector.events.kinds import Fault, Field
from reflector.playbook.admissible import MAX_COUNT, text_fault
from reflector.playbook.counting import is_counting
from reflector.playbook.names import SECTIONS, is_name

_LONGEST_WORD: Final = 200
_ID: Final = re.compile("[0-9a-f]{32}")
#: A number from 0 to 1 as canonical JSON has it.
_UNIT: Final = re.compile(r"0\.\d{6}|1\.000000")


def pack_keys(keys: Iterable[int]) -> str:
    """Base64 of the keys as big-endian signed 64-bit integers, in order."""
    packed = array("q", keys)
    if sys.byteorder == "little":
        packed.byteswap()
    return b64encode(packed.tobytes()).decode("ascii")


def unpack_keys(text: str) -> array[int]:
    """Return the keys of `pack_keys`. Raises ValueError for a text that it did not make."""
    packed = array("q")
    packed.frombytes(b64decode(text, validate=True))
    if sys.byteorder == "little":
        packed.byteswap()
    return packed


def _whole_number(most: int) -> Fault:
    def fault(value: Any) -> str | None:
        return None if type(value) is int and 0 <= value <= most else f"must be a whole number from 0 to {most:,}"

    return fault


def _of_type(type_: type, what: str, *, or_null: bool = False) -> Fault:
    def fault(value: Any) -> str | None:
        return None if isinstance(value, type_) or (or_null and value is None) else f"must be {what}"

    return fault


def list_of(fault: Fault, what: str) -> Fault:
    """Return the check that a value is a list of values that pass a check."""

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


def _id(value: Any) -> str | None:
    return None if isinstance(value, str) and _ID.fullmatch(value) else "must be the id of an event, 32 hex digits"


def _unit(value: Any) -> str | None:
    sound = type(value) is int and value in (0, 1) if not isinstance(value, str) else _UNIT.fullmatch(value)
    return None if sound else "must be a number from 0 to 1"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _counting(value: Any) -> str | None:
    return None if is_counting(value) else "must be a counting policy"


def _keys(value: Any) -> str | None:
    try:
        unpack_keys(value) if value is not None else None
    except (ValueError, TypeError) as error:
        return f"must be packed record keys ({error})"
    return None


def _merged_events(value: Any) -> str | None:
    return None if isinstance(value, list) and all(map(_is_merged, value)) else "must be a list of merged events"


def _is_merged(entry: Any) -> bool:
    """Return whether an entry is (position, id, time); earlier versions appended the leaf of the event."""
    sound = isinstance(entry, list) and len(entry) in (3, 4) and type(entry[0]) is int
    return sound and all(isinstance(text, str) for text in entry[1:])


def _renamed(value: Any) -> str | None:
    sound = isinstance(value, dict) and all(is_name(name) for pair in value.items() for name in pair)
    return None if sound else "must map names of bullets to names of bullets"


def _names_or_null(value: Any) -> str | None:
    return None if value is None else _of_names(value)


def _any(_: str) -> bool:
    return True


def _anything(_: Any) -> None:
    return None


def _is_phrase(text: str) -> bool:
    """Return False for one word, such as the reasons for which an agent ends a session."""
    return not text.replace("_", "").isalnum()


def one_of(*values: str | None) -> Field:
    """Return the field of a word that is one of these; a newer version may have written another one."""

    def fault(value: Any) -> str | None:
        return None if value in values else f"must be one of {', '.join(map(str, values))}"

    return Field(fault, shape=_text_or_null)


def bounded(most: int, *, null: bool = False) -> Field:
    """Return the field of a text that somebody wrote, of so many characters at most; `null` allows none."""

    def fault(value: Any) -> str | None:
        if value is None and null:
            return None
        return (
            None if isinstance(value, str) and len(value) <= most else f"must be a text of at most {most:,} characters"
        )

    return Field(fault, prose=_any, shape=_text_or_null if null else _text)


def several(one: Field, most: int, what: str) -> Field:
    """Return the field of a list of so many values at most, each as `one` is."""
    of_list = list_of(one.fault, what)

    def fault(value: Any) -> str | None:
        return of_list(value) or (None if len(value) <= most else f"must be a list of at most {most:,} {what}")

    return replace(one, fault=fault, shape=list_of(one.shape or one.fault, what))


def loose(one: Field) -> Field:
    """Return the field as one that is read whatever it holds: a model's word for it was kept as it came."""
    return replace(one, shape=_anything)


def needed(one: Field) -> Field:
    """Return the field as one without which an object is refused."""
    return replace(one, needed=True)


def within(fields: Mapping[str, Field], *, several: bool = False) -> Field:
    """Return a field that is an object with these fields, or a list of such objects."""
    return Field(list_of(_object, "objects") if several else _object, within=fields)


_text: Final = _of_type(str, "a text")
_text_or_null: Final = _of_type(str, "a text or null", or_null=True)
_of_names: Final = list_of(_text, "names")
_object: Final = _of_type(dict, "an object")

TEXT: Final = Field(_text)
TEXT_OR_NULL: Final = Field(_text_or_null)
#: A word of a client, such as a session's reason to end; a phrase in its place is prose.
WORD: Final = Field(_word, shape=_text_or_null)
WORD_OR_PROSE: Final = Field(_word, prose=_is_phrase, shape=_text_or_null)
#: A text that somebody wrote: a redaction erases it.
PROSE: Final = Field(_text, prose=_any)
PROSE_OR_NULL: Final = Field(_text_or_null, prose=_any)
PROSES: Final = Field(list_of(_text, "texts"), prose=_any)
OBJECT: Final = Field(_object)
NUMBER: Final = Field(_whole_number(MAX_INT))
COUNT: Final = Field(_whole_number(MAX_COUNT), shape=_whole_number(MAX_INT))
SECTION: Final = replace(one_of(*SECTIONS), shape=_text)
#: The text of a bullet.
ADVICE: Final = Field(text_fault, prose=_any, shape=_text)
#: The name of a bullet of this playbook.
NAME: Final = Field(_name, names=True, shape=_text)
NAME_OR_NULL: Final = Field(_name_or_null, names=True, shape=_text_or_null)
NAMES: Final = Field(list_of(_name, "names of bullets"), names=True, shape=_names_or_null)
COUNTING: Final = Field(_counting, shape=_text)
RECORD_KEYS: Final = Field(_keys)
MERGED_EVENTS: Final = Field(_merged_events)
RENAMED: Final = Field(_renamed, shape=_object)
EVENT_ID: Final = Field(_id, shape=_text)
#: A score or a share: not an integer is stored as text with six decimals.
UNIT: Final = Field(_unit)
FLAG: Final = Field(_flag)
