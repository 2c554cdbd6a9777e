"""The figures of a bank of lessons (E-12), counted from events."""

from __future__ import annotations

from typing import Any

from reflector.events import event as ev
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.lessons.book import LessonBook, lesson_book
from reflector.lessons.recording import is_kept
from reflector.quality.signals import rounded


def figures(of: Ledger | Past) -> dict[str, Any]:
    """Return how often a gate reflected, what retries gained, and what the bank keeps. Raises LedgerError."""
    ledger, upto = (of.ledger, of.position) if isinstance(of, Past) else (of, None)
    decided = [event.data or {} for event in ledger.events(types=[ev.GATE_DECIDED], upto=upto)]
    retries = [event.data or {} for event in ledger.events(types=[ev.REVISION_ATTEMPTED], upto=upto)]
    return {
        "total_reflections": sum(bool(data.get("reflects")) for data in decided),
        "retries_triggered": len(retries),
        "improvements_made": sum(bool(data.get("improved")) for data in retries),
        **bank_figures(lesson_book(of)),
    }


def bank_figures(book: LessonBook) -> dict[str, float | int]:
    """Return how many mistakes the bank keeps, how many it could, and their average effectiveness, 0.0 without one."""
    bank = [one for one in book if is_kept(one)]
    average = sum(one.effectiveness for one in bank) / len(bank) if bank else 0.0
    return {
        "lessons_stored": len(bank),
        "bank_capacity": book.policy.bank_size,
        "average_lesson_effectiveness": rounded(average),
    }


def is_used(found: dict[str, Any]) -> bool:
    """Return whether anything was counted."""
    return any(found[name] for name in ("total_reflections", "retries_triggered", "lessons_stored"))
