"""The events of a lesson, and the lessons that changed between two positions.

Invariant: both are read from the events up to a position, so the answer for a moment never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from reflector.embed.lessons.book import Lesson, lesson_book
from reflector.events.event import ADVICE_TOLD, Event
from reflector.ledger.as_of import Past

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger


def events_of(ledger: Ledger, lesson: Lesson, upto: int | None) -> list[Event]:
    """Return the events about a lesson up to a position, in order."""
    tellings = (
        event
        for event in ledger.events(types=[ADVICE_TOLD])
        if lesson.id in event.fact("lessons", ())
    )
    events = chain(ledger.at([lesson.position]), _about(ledger, lesson.id), tellings)
    last = ledger.head().position if upto is None else upto
    return sorted(
        (event for event in events if event.position <= last), key=lambda event: event.position
    )


def _about(ledger: Ledger, event_id: str) -> Iterator[Event]:
    """Yield the events about an event, and the events about those."""
    for event in ledger.targeting(event_id):
        yield event
        yield from _about(ledger, event.event_id)


def changed_lessons(ledger: Ledger, first: int, last: int) -> list[dict[str, Any]]:
    """Return the lessons whose worth or state differs between two positions, in JSON form. `before`
    is None for a new lesson.
    """
    before, after = _views(ledger, first), _views(ledger, last)
    texts = {lesson.id: lesson.text for lesson in lesson_book(Past(ledger, last))}
    return [
        {"id": id, "text": texts[id], "before": before.get(id), "after": view}
        for id, view in after.items()
        if before.get(id) != view
    ]


def _views(ledger: Ledger, position: int) -> dict[str, dict[str, Any]]:
    """Return the compared values of each lesson at a position, by its id."""
    book = lesson_book(Past(ledger, position))
    shown = {lesson.id for lesson in book.best()}
    return {
        lesson.id: {
            "worth": lesson.effectiveness,
            "banked": lesson.banked,
            "told": lesson.id in shown,
            "due": lesson.due,
            "state": lesson.state,
        }
        for lesson in book
    }
