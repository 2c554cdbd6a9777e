"""The keys of a window's records, packed into one text.

A session's event carries them so that the ledger alone knows which transcript records it holds,
long after the transcript is gone: 8 bytes a record instead of a 36-character uuid.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable


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
