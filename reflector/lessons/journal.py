"""Where an embedder's events go: a ledger, or memory where none is given.

Invariant: both admit the same events and answer alike. The same id with the same data is one event; with other data it
is a Conflict. What is told from memory is told from a ledger, because both are folded by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from reflector.events.event import Appended, Event, NewEvent
from reflector.ledger.append import prepare
from reflector.ledger.errors import Conflict
from reflector.ledger.rows import Head


class Journal(Protocol):
    """What a ledger and a `Memory` have in common."""

    def head(self) -> Head: ...
    def append(self, events: Sequence[NewEvent]) -> list[Appended]: ...
    def event(self, event_id: str) -> Event | None: ...
    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] | None = None,
        session_id: str | None = None,
    ) -> Iterator[Event]: ...


class Memory:
    """Events of one process, in order; gone with it."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}

    def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        """Append events, all or none; answer where each stands. Raises Conflict, NotCanonical or LedgerError."""
        prepared = [prepare(event) for event in events]
        for one in prepared:
            known = self._events.get(one.event.event_id)
            if known is not None and known.data_hash != one.data_hash:
                raise Conflict(known.event_id, known.type, known.position)
        answers = []
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for one in prepared:
            new, known = one.event, self._events.get(one.event.event_id)
            if known is None:
                header = (len(self._events) + 1, new.event_id, new.type, new.schema_version)
                about = (new.actor, new.session_id, new.reflection_id, new.target_id)
                self._events[new.event_id] = Event(
                    *header, new.occurred_at or now, now, *about, one.facts, one.data_hash, new.meta, ""
                )
            answers.append(Appended(new.event_id, self._events[new.event_id].position, known is None))
        return answers

    def head(self) -> Head:
        return Head("", "memory", len(self._events), "", "")

    def event(self, event_id: str) -> Event | None:
        return self._events.get(event_id)

    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] | None = None,
        session_id: str | None = None,
    ) -> Iterator[Event]:
        """Yield the events behind a position, in order."""
        chosen = None if types is None else frozenset(types)
        for event in list(self._events.values())[after:upto]:
            if (chosen is None or event.type in chosen) and session_id in (None, event.session_id):
                yield event


def append_next(journal: Journal, first: int, make: Callable[[int], NewEvent]) -> Appended:
    """Append the event that `make` makes of a number, under the first one that is free from `first` on.

    Another process may have taken a number since it was counted. Raises LedgerError.
    """
    number = first
    while True:
        with suppress(Conflict):
            (appended,) = journal.append([make(number)])
            if appended.added:
                return appended
        number += 1
