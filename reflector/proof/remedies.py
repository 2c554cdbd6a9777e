"""What to do about a finding of `verify`, where several findings have one remedy."""

from __future__ import annotations

from typing import Final

RESTORE: Final = "restore a backup, or compare with an export from before the change"
REBUILD: Final = "run `reflector rebuild`"
MEND_HEAD: Final = "find out who moved it, then run `reflector verify --mend-head`"
