"""The kinds of fields of event types, and the format of packed record keys.

A window contains the keys of its records. So the ledger alone shows which records of transcripts it
has recorded, even if the transcript is gone. A key takes 8 bytes instead of the 36 characters of a
uuid.
"""

from __future__ import annotations

import re
import sys
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reflector.events.event import MAX_INT
from reflector.events.kinds import Fault, Field
from reflector.playbook.admissible import MAX_COUNT, text_fault
from reflector.playbook.bullet import is_counting
from reflector.playbook.names import SECTIONS, is_name

_MAX_WORD_CHARACTERS = 200
_ID = re.compile("[0-9a-f]{32}")
#: A number from 0 to 1 as canonical JSON has it.
_UNIT = re.compile(r"0\.\d{6}|1\.000000")
#: The number of names that a line of the log shows.
_MAX_SHOWN = 8


def pack_keys(keys: Iterable[int]) -> str:
    """Return the keys in their order as Base64 of big-endian signed 64-bit integers."""
    packed = array("q", keys)
    if sys.byteorder == "little":
        packed.byteswap()
    return b2a_base64(packed.tobytes(), newline=False).decode("ascii")


def unpack_keys(text: str) -> array[int]:
    """Return the keys that `pack_keys` packed.

    Raises:
        ValueError: `pack_keys` did not make the text.
    """
    packed = array("q")
    packed.frombytes(a2b_base64(text, strict_mode=True))
    if sys.byteorder == "little":
        packed.byteswap()
    return packed


def _must_be(description: str, holds: Callable[[Any], object]) -> Fault:
    """Return the check that a value is as described: `holds` is true for it."""
    return lambda value: None if holds(value) else f"must be {description}"


def _or_null(fault: Fault) -> Fault:
    return lambda value: None if value is None else fault(value)


def list_of(fault: Fault, noun: str) -> Fault:
    """Return the check that a value is a list of values that pass a check."""
    return _must_be(
        f"a list of {noun}", lambda value: isinstance(value, list) and not any(map(fault, value))
    )


def _whole_number(most: int) -> Fault:
    return _must_be(
        f"a whole number from 0 to {most:,}",
        lambda value: type(value) is int and 0 <= value <= most,
    )


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_WORD_CHARACTERS and value.isprintable()


def _is_unit(value: Any) -> bool:
    if isinstance(value, str):
        return _UNIT.fullmatch(value) is not None
    return type(value) is int and value in (0, 1)


def _keys_fault(value: Any) -> str | None:
    if value is None:
        return None
    try:
        unpack_keys(value)
    except (ValueError, TypeError) as error:
        return f"must contain packed keys of transcript records ({error})"
    return None


def _is_merged(entry: Any) -> bool:
    """Return whether an entry is (position, id, time).

    Earlier versions appended the leaf of the event.
    """
    if not isinstance(entry, list) or len(entry) not in (3, 4):
        return False
    position, *texts = entry
    return type(position) is int and all(isinstance(text, str) for text in texts)


def _renames_fault(value: Any) -> str | None:
    if isinstance(value, dict) and all(map(is_name, (*value, *value.values()))):
        return None
    return "must map each old rule name to a new name"


def _any(_: object) -> bool:
    return True


def _is_phrase(text: str) -> bool:
    """Return False for one word, such as the reasons for which an agent ends a session."""
    return not text.replace("_", "").isalnum()


def first_of(names: Sequence[str]) -> str:
    """Return the first eight names of a list, and the number of further names."""
    hidden = len(names) - _MAX_SHOWN
    rest = [f"… and {hidden} more"] if hidden > 0 else []
    return ", ".join([*names[:_MAX_SHOWN], *rest])


def one_of(*values: str | None) -> Field:
    """Return the field of a word that is one of these. A newer version may have written another
    word.
    """
    fault = _must_be(f"one of {', '.join(map(str, values))}", lambda value: value in values)
    return Field(fault, shape=_text_or_null)


def bounded(most: int, *, null: bool = False) -> Field:
    """Return the field of a free text of at most `most` characters.

    null  whether the value may be null
    """
    fault = _must_be(
        f"a text of at most {most:,} characters",
        lambda value: isinstance(value, str) and len(value) <= most,
    )
    if null:
        return Field(_or_null(fault), prose=_any, shape=_text_or_null)
    return Field(fault, prose=_any, shape=_text)


def several(element: Field, most: int, noun: str) -> Field:
    """Return the field of a list of at most `most` values, each of the form of `element`."""
    listed = list_of(element.fault, noun)
    bound = _must_be(f"a list of at most {most:,} {noun}", lambda value: len(value) <= most)
    return element._replace(
        fault=lambda value: listed(value) or bound(value),
        shape=list_of(element.shape or element.fault, noun),
    )


def loose(field: Field) -> Field:
    """Return the field as one that is read with any value, because a model's word was kept as it
    came.
    """
    return field._replace(shape=_must_be("", _any))


def needed(field: Field) -> Field:
    """Return the field as a required one: an object without it is refused."""
    return field._replace(needed=True)


def within(fields: Mapping[str, Field], *, several: bool = False) -> Field:
    """Return a field that is an object with these fields, or a list of such objects."""
    return Field(list_of(_object, "objects") if several else _object, within=fields)


_text = _must_be("a text", lambda value: isinstance(value, str))
_stored = _must_be("a text without NUL", lambda value: isinstance(value, str) and "\0" not in value)
_text_or_null = _must_be("a text or null", lambda value: value is None or isinstance(value, str))
_object = _must_be("an object", lambda value: isinstance(value, dict))
_name = _must_be("the name of a rule, such as pat-001", is_name)
_word = _or_null(_must_be(f"null or at most {_MAX_WORD_CHARACTERS} printable characters", _is_word))

TEXT = Field(_text)
TEXT_OR_NULL = Field(_text_or_null)
#: A word of a client, such as a session's reason to end; a phrase in its place is prose.
WORD = Field(_word, shape=_text_or_null)
WORD_OR_PROSE = Field(_word, prose=_is_phrase, shape=_text_or_null)
#: A free text: a redaction erases it.
PROSE = Field(_text, prose=_any)
PROSE_OR_NULL = Field(_text_or_null, prose=_any)
PROSES = Field(list_of(_text, "texts"), prose=_any)
OBJECT = Field(_object)
NUMBER = Field(_whole_number(MAX_INT))
COUNT = Field(_whole_number(MAX_COUNT), shape=_whole_number(MAX_INT))
SECTION = one_of(*SECTIONS)._replace(shape=_text)
#: The text of a bullet.
ADVICE = Field(text_fault, prose=_any, shape=_text)
#: The name of a bullet of this playbook.
NAME = Field(_name, names=True, shape=_stored)
NAME_OR_NULL = Field(_or_null(_name), names=True, shape=_or_null(_stored))
NAMES = Field(list_of(_name, "names of rules"), names=True, shape=_or_null(list_of(_text, "names")))
COUNTING = Field(_must_be("a counting policy", is_counting), shape=_text)
RECORD_KEYS = Field(_keys_fault)
MERGED_EVENTS = Field(list_of(_must_be("", _is_merged), "merged events"))
RENAMED = Field(_renames_fault, shape=_object)
EVENT_ID = Field(
    _must_be(
        "the id of an event, 32 hex digits",
        lambda value: isinstance(value, str) and _ID.fullmatch(value),
    ),
    shape=_text,
)
#: A score or a share. If it is not an integer, it is stored as text with six decimals.
UNIT = Field(_must_be("a number from 0 to 1", _is_unit))
FLAG = Field(_must_be("true or false", lambda value: isinstance(value, bool)))
