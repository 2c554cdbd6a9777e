"""A vector for a text, without a model: the same 32 numbers on every machine, for ever.

Invariant: the vector depends on the text alone. SHAKE-256 gives 32 integers, IEEE division and a square root that is
correctly rounded do the rest, so no platform differs in any bit. Equal texts are close, and all others are far.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from hashlib import shake_256

DIMENSIONS = 32


def embed(text: str) -> list[float]:
    """Return the text's vector: 32 floats of norm 1. Raises UnicodeEncodeError for a lone surrogate."""
    integers = struct.unpack(f"<{DIMENSIONS}I", shake_256(text.encode()).digest(4 * DIMENSIONS))
    return unit([integer / 0xFFFFFFFF * 2 - 1 for integer in integers])


def unit(vector: Sequence[float]) -> list[float]:
    """Return a vector's direction: of norm 1, or zeros for zeros."""
    norm = math.sqrt(math.fsum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]
