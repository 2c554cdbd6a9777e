"""What verifying finds, as values.

Invariant: a finding says what is wrong, at which position, and what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RESTORE: Final = "restore a backup, or compare with an export from before the change"
REBUILD: Final = "run `reflector rebuild`"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was appended. `position` is the event it stands at, None for the whole ledger."""

    code: str
    position: int | None
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was published earlier."""

    position: int
    chain: str
