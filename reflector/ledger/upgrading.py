"""Who is shown how far the tables of an older ledger are, which the first opening after an upgrade fills again.

Invariant: nobody, unless whoever runs the program says so. Needs nothing, so that it is said at every start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

#: Opened with the last position, it gives what is called with each position that is reached; None for nobody.
Shown = Callable[[int], AbstractContextManager[Callable[[int], None] | None]]


def _to_nobody(_: int) -> AbstractContextManager[None]:
    return nullcontext()


shown: Shown = _to_nobody
