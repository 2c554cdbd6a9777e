"""The kinds of fields that event types are made of, and the form of packed record keys.

A window carries the keys of its records, so that the ledger alone knows which records of
transcripts it holds, long after the transcript is gone: 8 bytes a record instead of a uuid of 36
characters.
"""

from __future__ import annotations

import re
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from reflector.events.event import MAX_INT
from reflector.events.kinds import Fault, Field
from reflector.playbook.admissible import MAX_COUNT, text_fault
from reflector.playbook.bullet import is_counting
from reflector.playbook.names import SECTIONS, is_name

_LONGEST_WORD: Final = 200
_ID: Final = re.compile("[0-9a-f]{32}")
#: A number from 0 to 1 as canonical JSON has it.
_UNIT: Final = re.compile(r"0\.\d{6}|1\.000000")
#: Names of a list that a line of the log shows.
_SHOWN: Final = 8


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


def _that(holds: Callable[[Any], object], what: str) -> Fault:
    """Return the check that a value is what `what` says."""
    return lambda value: None if holds(value) else f"must be {what}"


def _or_null(fault: Fault) -> Fault:
    return lambda value: None if value is None else fault(value)


def list_of(fault: Fault, what: str) -> Fault:
    """Return the check that a value is a list of values that pass a check."""
    return _that(
        lambda value: isinstance(value, list) and not any(map(fault, value)), f"a list of {what}"
    )


def _whole_number(most: int) -> Fault:
    return _that(
        lambda value: type(value) is int and 0 <= value <= most,
        f"a whole number from 0 to {most:,}",
    )


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable()


def _is_unit(value: Any) -> bool:
    if isinstance(value, str):
        return _UNIT.fullmatch(value) is not None
    return type(value) is int and value in (0, 1)


def _keys(value: Any) -> str | None:
    try:
        unpack_keys(value) if value is not None else None
    except (ValueError, TypeError) as error:
        return f"must be packed record keys ({error})"
    return None


def _is_merged(entry: Any) -> bool:
    """Return whether an entry is (position, id, time); earlier versions appended the leaf of the
    event.
    """
    sound = isinstance(entry, list) and len(entry) in (3, 4) and type(entry[0]) is int
    return sound and all(isinstance(text, str) for text in entry[1:])


def _renamed(value: Any) -> str | None:
    sound = isinstance(value, dict) and all(
        is_name(name) for pair in value.items() for name in pair
    )
    return None if sound else "must map names of bullets to names of bullets"


def _any(_: object) -> bool:
    return True


def _is_phrase(text: str) -> bool:
    """Return False for one word, such as the reasons for which an agent ends a session."""
    return not text.replace("_", "").isalnum()


def first_of(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = [f"… and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more])


def one_of(*values: str | None) -> Field:
    """Return the field of a word that is one of these; a newer version may have written another
    one.
    """
    return Field(
        _that(lambda value: value in values, f"one of {', '.join(map(str, values))}"),
        shape=_text_or_null,
    )


def bounded(most: int, *, null: bool = False) -> Field:
    """Return the field of a text that somebody wrote, of so many characters at most; `null`
    allows none.
    """
    fault = _that(
        lambda value: isinstance(value, str) and len(value) <= most,
        f"a text of at most {most:,} characters",
    )
    return Field(
        _or_null(fault) if null else fault, prose=_any, shape=_text_or_null if null else _text
    )


def several(one: Field, most: int, what: str) -> Field:
    """Return the field of a list of so many values at most, each as `one` is."""
    of_list = list_of(one.fault, what)
    bound = _that(lambda value: len(value) <= most, f"a list of at most {most:,} {what}")
    return one._replace(
        fault=lambda value: of_list(value) or bound(value),
        shape=list_of(one.shape or one.fault, what),
    )


def loose(one: Field) -> Field:
    """Return the field as one that is read whatever it holds: a model's word for it was kept as
    it came.
    """
    return one._replace(shape=_that(_any, ""))


def needed(one: Field) -> Field:
    """Return the field as one without which an object is refused."""
    return one._replace(needed=True)


def within(fields: Mapping[str, Field], *, several: bool = False) -> Field:
    """Return a field that is an object with these fields, or a list of such objects."""
    return Field(list_of(_object, "objects") if several else _object, within=fields)


_text: Final = _that(lambda value: isinstance(value, str), "a text")
_stored: Final = _that(
    lambda value: isinstance(value, str) and "\0" not in value, "a text without NUL"
)
_text_or_null: Final = _that(
    lambda value: value is None or isinstance(value, str), "a text or null"
)
_object: Final = _that(lambda value: isinstance(value, dict), "an object")
_name: Final = _that(is_name, "the name of a bullet, such as pat-001")
_word: Final = _or_null(_that(_is_word, f"null or at most {_LONGEST_WORD} printable characters"))

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
SECTION: Final = one_of(*SECTIONS)._replace(shape=_text)
#: The text of a bullet.
ADVICE: Final = Field(text_fault, prose=_any, shape=_text)
#: The name of a bullet of this playbook.
NAME: Final = Field(_name, names=True, shape=_stored)
NAME_OR_NULL: Final = Field(_or_null(_name), names=True, shape=_or_null(_stored))
NAMES: Final = Field(
    list_of(_name, "names of bullets"), names=True, shape=_or_null(list_of(_text, "names"))
)
COUNTING: Final = Field(_that(is_counting, "a counting policy"), shape=_text)
RECORD_KEYS: Final = Field(_keys)
MERGED_EVENTS: Final = Field(list_of(_that(_is_merged, ""), "merged events"))
RENAMED: Final = Field(_renamed, shape=_object)
EVENT_ID: Final = Field(
    _that(
        lambda value: isinstance(value, str) and _ID.fullmatch(value),
        "the id of an event, 32 hex digits",
    ),
    shape=_text,
)
#: A score or a share: not an integer is stored as text with six decimals.
UNIT: Final = Field(_that(_is_unit, "a number from 0 to 1"))
FLAG: Final = Field(_that(lambda value: isinstance(value, bool), "true or false"))
