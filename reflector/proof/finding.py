"""What `verify` tells people to do, and the heads that it compares with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RESTORE: Final = "restore a backup, or compare with an export from before the change"
REBUILD: Final = "run `reflector rebuild`"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that was published earlier."""

    position: int
    chain: str
