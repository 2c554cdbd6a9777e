"""The playbook as a pure fold over events.

Invariant: `fold(events, policy)` depends on nothing but its arguments. It is the definition of every counter; the
tables that the ledger keeps beside the events are only a faster way to the same value, and `verify` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable

from reflector.events.effects import Effect
from reflector.events.registry import EVENT_TYPES
from reflector.events.state import MAX_TAGS, REDACTED, Entry, FoldedEvent, Playbook, verdict
from reflector.playbook.counting import Counting

__all__ = ["MAX_TAGS", "REDACTED", "Entry", "FoldedEvent", "Playbook", "apply", "fold", "verdict"]


_EFFECTS = {name: one.effect for name, one in EVENT_TYPES.items() if type(one.effect).apply is not Effect.apply}


def fold(events: Iterable[FoldedEvent], counting: Counting | None = None) -> Playbook:
    """Return the playbook after `events`, in order, under `counting` (None: the policy they adopt)."""
    playbook = Playbook(counting=counting)
    for event in events:
        apply(playbook, event)
    return playbook


def apply(book: Playbook, event: FoldedEvent) -> None:
    """Fold one event in. One that says nothing about bullets or counts, or cannot be read, only moves the position."""
    book.position = event.position
    effect = _EFFECTS.get(event.type)
    if effect is not None and not event.fault:
        effect.apply(book, event, event.data if event.data is not None else {})
        if effect.changes:
            book.updated_at = event.recorded_at
