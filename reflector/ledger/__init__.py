"""The ledger of events, and the tables that are computed from it.

It imports no other module of reflector, because every command loads it.
"""

from __future__ import annotations

from collections.abc import Callable

#: Called with a message for the user about a ledger; the command line prints it.
tell: Callable[[str], None] = lambda _: None  # noqa: E731
