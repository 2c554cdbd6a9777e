"""The canonical form of an event and the hash chain over it.

Model: an event's `data` and `meta` are canonical JSON texts. The leaf of an event hashes its header
fields and the hashes of both texts. The chain hashes the previous chain value and the leaf. So one
chain value commits to every event up to it, and reveals each edit, removal and change of order.

Invariant: the same values give the same bytes permanently. This form is a documented contract
(docs/ledger-format.md) with golden tests. Changing it would change every hash, so a change is a new
prefix beside `pl1:`, never an edit here. `data` is hashed by its own hash so that a text can be
erased later while the chain still verifies.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from reflector.events.event import MAX_INT

MAX_DEPTH = 32
PREFIX = "pl1:"
CHAIN = re.compile(rf"{PREFIX}[0-9a-f]{{64}}")

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode


class NotCanonical(ValueError):
    """A value without a canonical form; the text names its place."""


def plain(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object as it is read back from its canonical text. A float becomes a string with 6
    decimals, so that every engine and language reads the same value.

    Raises: `NotCanonical` for other types, non-string keys, integers beyond 2**53 - 1, NaN and
    infinities.
    """
    canonical: Mapping[str, Any] = _plain(value, "", 0)
    return canonical


def sealed(value: Mapping[str, Any]) -> tuple[str, str]:
    """Return the canonical JSON of a `plain` object (keys sorted, no spaces, UTF-8) and its
    `digest`.

    Raises: `NotCanonical` for a lone surrogate.
    """
    text = _encode(value)
    try:
        return text, sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise NotCanonical(
            "a text contains half of a character (the lone surrogate "
            f"{error.object[error.start]!r}); correct the text"
        ) from error


def _plain(value: Any, path: str, depth: int) -> Any:
    """Return the value with floats written as strings, or the same object if nothing had to change.

    It runs for each appended value. Its branches are not separate functions, because the call for a
    text would cost more than its branch.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _plain_number(value, path)
    if depth >= MAX_DEPTH:
        raise NotCanonical(f"{path}: nested more than {MAX_DEPTH} levels deep")
    if kind is dict or isinstance(value, Mapping):
        changed = _changed_members(value, path, depth)
        if not changed and kind is dict:
            return value
        return {**value, **changed}
    if kind is list or isinstance(value, list | tuple):
        return [_plain(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(value)]
    raise NotCanonical(
        f"{path or 'value'}: the ledger cannot store a value of type {kind.__name__}"
    )


def _plain_number(value: float, path: str) -> int | str:
    if isinstance(value, int):
        if -MAX_INT <= value <= MAX_INT:
            return value
        raise NotCanonical(f"{path or 'value'}: the integer {value} is beyond 2**53 - 1")
    if not math.isfinite(value):
        raise NotCanonical(
            f"{path or 'value'}: the ledger cannot store {value}; use a finite number"
        )
    return f"{value + 0.0:.6f}".replace("-0.000000", "0.000000")


def _changed_members(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    """Return those members of an object that differ from their canonical form."""
    changed: dict[str, Any] = {}
    for key, member in value.items():
        if type(key) is not str:
            raise NotCanonical(f"{path or 'value'}: the key {key!r} is not a string")
        member_kind = type(member)
        # Most values have these types. Skipping the call for them halves a small event's cost.
        if member_kind is str or member is None or member_kind is bool:
            continue
        if member_kind is int and -MAX_INT <= member <= MAX_INT:
            continue
        plain_member = _plain(member, f"{path}.{key}" if path else key, depth + 1)
        if plain_member is not member:
            changed[key] = plain_member
    return changed


def digest(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, as 64 hex digits."""
    return sha256(text.encode()).hexdigest()


def genesis(playbook: str, origin: str) -> str:
    """Return the chain before the first event. `origin` is random, so that two ledgers do not share
    a history by chance.
    """
    return PREFIX + sha256(b"\x00" + f"{playbook}\n{origin}".encode()).hexdigest()


def next_chain(
    previous: str, header: tuple[str | int | None, ...], data_hash: str, meta_hash: str
) -> str:
    """Return the next chain: chain(n) = SHA-256(0x03 ‖ chain(n-1) ‖ leaf), leaf = SHA-256(0x01 ‖
    header by newlines ‖ data_hash ‖ meta_hash).

    `header` is (position, event_id, type, schema_version, occurred_at, recorded_at, actor,
    session_id, reflection_id, target_id). An absent field is the empty string.

    Raises: ValueError if `previous` is not a chain.
    """
    leaf_hash = leaf(header, data_hash, meta_hash)
    return PREFIX + sha256(b"\x03" + bytes.fromhex(previous[4:]) + leaf_hash).hexdigest()


def leaf(header: tuple[str | int | None, ...], data_hash: str, meta_hash: str) -> bytes:
    """Return the bytes by which the chain commits to one event; see `next_chain`."""
    # One format with names, because a join of the fields takes a quarter longer for each event.
    (
        position,
        event_id,
        type_,
        version,
        occurred_at,
        recorded_at,
        actor,
        session_id,
        reflection_id,
        target_id,
    ) = header
    return sha256(
        f"\x01{position}\n{event_id}\n{type_}\n{version}\n{occurred_at}\n{recorded_at}\n"
        f"{actor}\n{session_id or ''}\n"
        f"{reflection_id or ''}\n{target_id or ''}\n{data_hash}\n{meta_hash}".encode()
    ).digest()
