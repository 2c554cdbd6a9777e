"""What happened: the ledger of events, and the tables that are kept from it.

Imports nothing of ours, because every command loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

#: Called with the last position, the context yields a function to call with each position reached, or None.
ShowUpgrade = Callable[[int], AbstractContextManager[Callable[[int], None] | None]]


def _nothing(_: int) -> AbstractContextManager[None]:
    return nullcontext()


#: Shows how far the first opening of an older ledger is, which fills its tables again; the command line sets it.
show_upgrade: ShowUpgrade = _nothing
#: Called with what a person is to know of their ledgers; the command line prints it.
tell: Callable[[str], None] = lambda _: None  # noqa: E731
