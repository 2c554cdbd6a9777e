"""The ledger of events, and the tables that are computed from it.

It imports nothing else of ours, because every command loads it.
"""

from __future__ import annotations

from collections.abc import Callable

#: Called with what a person is to know of their ledgers; the command line prints it.
tell: Callable[[str], None] = lambda _: None  # noqa: E731
