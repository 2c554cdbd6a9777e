"""The progress of an upgrade: the first opening of an older ledger fills its tables again, which can take minutes.

Invariant: nothing is shown unless the program sets `shown`, as the command line does. Imports nothing of ours, because
every command loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

#: Called with the last position; the context yields a function to call with each position reached, or None.
Shown = Callable[[int], AbstractContextManager[Callable[[int], None] | None]]


def _nothing(_: int) -> AbstractContextManager[None]:
    return nullcontext()


shown: Shown = _nothing
