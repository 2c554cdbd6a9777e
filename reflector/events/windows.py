"""The states of windows, as a fold over the events that open and change them.

Invariant: a judged window stays judged, and a window that was skipped or given up can still be
judged. The ledger keeps the current states in the table `session_window`, which `WindowFold`
defines. `stats` and `log` use this module for a past moment and for one session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from reflector.events.effects import MovesWindow
from reflector.events.event import Event
from reflector.events.registry import STEP_TYPES, WINDOW_TYPES, effect_of


class Movable(Protocol):
    """Any object that has the state of a window.

    state       pending, answered, completed, skipped, failed or given_up
    attempts    the number of failed attempts
    changed_at  the time when it came to the state, as the ledger writes time
    """

    state: str
    attempts: int
    changed_at: str


@dataclass(slots=True)
class WindowState:
    """The state of a window, as `Movable` describes it."""

    changed_at: str
    state: str = "pending"
    attempts: int = 0


def move_window(window: Movable, event: Event) -> None:
    """Bring a window to the state that an event about it gives, if the event gives one."""
    effect = effect_of(event.type)
    if not isinstance(effect, MovesWindow) or window.state == "completed":
        return
    state = effect.state_by(event.facts)
    if not state:
        return
    window.state = state
    window.attempts += effect.attempts
    window.changed_at = event.recorded_at


class WindowFold:
    """The state of each window, by the id of the event that opened it."""

    types: Final = STEP_TYPES

    def __init__(self) -> None:
        self._windows: dict[str, WindowState] = {}

    def apply(self, event: Event) -> None:
        if event.fault:
            return
        if event.type in WINDOW_TYPES:
            self._windows[event.event_id] = WindowState(event.recorded_at)
        elif window := self._windows.get(event.target_id or ""):
            move_window(window, event)

    def answer(self) -> dict[str, WindowState]:
        return self._windows
