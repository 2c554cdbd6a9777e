"""The interface of every fold, and the two ways to compute one.

A fold computes one answer from a history. The answer as of a position depends on the events up to
it, and a rebuild does not change it. There are six folds: the playbook (`registry.PlaybookFold`),
windows (`windows.WindowFold`), usage, lessons, proposals and trials. The ledger keeps the playbook,
the windows and the usage as tables, which SQL updates with each event. For these the fold is the
definition, and tests compare the two.

Invariant: an answer depends only on the events of `types`, so no other event is read for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from reflector.events.event import Event

_Answer_co = TypeVar("_Answer_co", covariant=True)
_Answer = TypeVar("_Answer")


class Fold(Protocol[_Answer_co]):
    """One answer, computed event by event."""

    @property
    def types(self) -> tuple[str, ...]:
        """The event types on which the answer depends."""

    def apply(self, event: Event) -> None:
        """Apply an event; an event of another type changes nothing."""

    def answer(self) -> _Answer_co:
        """Return the answer after the events so far."""


class History(Protocol):
    """A ledger, as far as a fold reads it."""

    def events(self, *, types: Sequence[str], upto: int | None) -> Iterable[Event]:
        """Return the events of these types in order, up to a position; None for all."""


def fold_events(fold: Fold[_Answer], events: Iterable[Event]) -> _Answer:
    """Return a fold's answer after events, in order."""
    for event in events:
        fold.apply(event)
    return fold.answer()


def fold_ledger(fold: Fold[_Answer], ledger: History, upto: int | None = None) -> _Answer:
    """Return a fold's answer at a position of a ledger, or now without `upto`.

    The events are found by the index of types.
    """
    return fold_events(fold, ledger.events(types=fold.types, upto=upto))
