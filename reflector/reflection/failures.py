"""What the failures of a window say about its next try.

Invariant: an outage says nothing about the session, so it uses up none of its attempts, however long it lasts; it is
tried again with a pause that grows to an hour. Where the API said how long it wants to be left alone, no pause is
shorter, and none of the windows is asked about before that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from reflector.events.event import REFLECTION_FAILED, Event
from reflector.reflection.protocol import OUTAGES

#: The first pause; each further failure doubles it, up to the longest.
BACKOFF = timedelta(minutes=1)
_LONGEST = timedelta(hours=1)
#: Stage of the failure with which a person ends the tries.
GIVEN_UP = "given up"
#: Stage of a window whose event was redacted: it cannot be judged any more.
REDACTED = "window"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The failures of a window so far.

    attempts  those that the window itself used up
    outages   those since the last of these: the API was away or refused us
    last      the last failure
    """

    attempts: int
    outages: int
    last: Event

    @property
    def stage(self) -> str:
        """Where it failed last."""
        return str((self.last.data or {}).get("stage"))

    @property
    def not_before(self) -> datetime:
        """Until when the API asked to be left alone."""
        seconds = self.last.meta.get("retry_after", 0)
        wait = timedelta(seconds=seconds) if type(seconds) is int else timedelta()
        return datetime.fromisoformat(self.last.recorded_at) + wait

    @property
    def next_try(self) -> datetime:
        """When the pause after the last failure is over."""
        doubled = min(max(self.outages or self.attempts, 1) - 1, 10)
        pause: timedelta = min(BACKOFF * 2**doubled, _LONGEST)
        return max(self.not_before, datetime.fromisoformat(self.last.recorded_at) + pause)


def trouble_of(story: Iterable[Event]) -> Trouble | None:
    """Return the trouble with a window from the events about it, in order; None where none is a failure."""
    attempts = outages = 0
    last: Event | None = None
    for event in story:
        if event.type != REFLECTION_FAILED:
            continue
        last = event
        stage = (event.data or {}).get("stage")
        if stage in OUTAGES:
            outages += 1
        else:
            outages = 0
            attempts += stage != GIVEN_UP
    return None if last is None else Trouble(attempts, outages, last)
