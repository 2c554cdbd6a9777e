"""The order of a first reading, in the user's own folder of a project.

Invariant: an order is valid as long as the user's answer that created it. If the user withdraws the
answer, every order ends in every project. The drain does not touch windows that an order will ask
about, so no session is asked about twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reflector import handover
from reflector.events import event as ev
from reflector.judges import consent
from reflector.ledger.store import Ledger
from reflector.reflection.window import transcript_of, window_names
from reflector.transcripts.reading import UnknownTranscript

_MOST_BYTES = 1 << 20


class Order(NamedTuple):
    """An order.

    sessions  the paths of all its transcripts
    left      the paths of those without an answer
    choice    the id of the user's answer
    since     the time of that answer, in seconds since the epoch
    tries     the number of runs that left sessions without an answer
    """

    sessions: tuple[str, ...]
    left: tuple[str, ...]
    choice: str
    since: float
    tries: int = 0


def keep_order(root: Path, order: Order) -> None:
    """Keep the order of a project.

    Raises: OSError.
    """
    content = json.dumps(order._asdict()).encode()
    handover.write_own(str(root), handover.ORDER, content)


def live_order(root: Path) -> Order | None:
    """Return the order of a project; None if it has none, or the user withdrew the answer."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        kept = json.loads(handover.read_own(str(root), handover.ORDER, _MOST_BYTES))
        order = Order(**{**kept, **{name: tuple(kept[name]) for name in ("sessions", "left")}})
        if order.choice and order.choice == consent.chosen().id:
            return order
    return None


def remove_order(root: Path) -> None:
    """Remove the order of a project, if there is one."""
    handover.remove_own(str(root), handover.ORDER)


def windows_of_order(root: Path, ledger: Ledger) -> set[str]:
    """Return the windows without citations that the order of a project will ask about."""
    order = live_order(root)
    return set() if order is None else _windows_of(ledger, order.left)


def _windows_of(ledger: Ledger, paths: Collection[str]) -> set[str]:
    """Return the windows of these transcripts that cite nothing."""
    windows: set[str] = set()
    for window in ledger.events(types=[ev.SESSION_RECORDED]):
        cites = window_names(window, "cited") or window_names(window, "carried")
        with suppress(UnknownTranscript):
            if not cites and transcript_of(window)["path"] in paths:
                windows.add(window.event_id)
    return windows
