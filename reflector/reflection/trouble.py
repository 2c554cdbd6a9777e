"""The failures of a window's judges, and when each is asked again.

Invariant: an outage is not a property of a session, so it uses up none of its attempts, however
long it lasts. It is tried again after a pause that grows to an hour, and never earlier than the API
allows. `runner.py`, `checking.py` and `trajectories.py` use this module, and `status` shows the
failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from reflector.events.event import REFLECTION_FAILED, Event
from reflector.judges.protocol import MOST_QUESTIONS, NO_ANSWER, OUTAGES, judge_named

#: Each further failure doubles the first pause, up to the longest.
_FIRST_PAUSE = timedelta(minutes=1)
_LONGEST_PAUSE = timedelta(hours=1)
_MAX_DOUBLINGS = 10
#: Stage of the failure with which a user ends the attempts.
GIVEN_UP = "given up"
#: Stage of a window whose event was redacted: it cannot be judged any more.
REDACTED = "window"


class Trouble(NamedTuple):
    """The failures of a window so far, by one judge.

    attempts  those that the window itself used up; of several parts of it, the most of one part
    outages   failures after the last of these, because the API was away or refused us
    unusable  how often the judge gave no usable answer, counted like `attempts`
    last      the last failure
    """

    attempts: int
    outages: int
    unusable: int
    last: Event

    def is_over(self, max_attempts: int) -> bool:
        """Return whether the window is not tried again automatically."""
        is_final = bool(self.last.fact("final"))
        return is_final or self.attempts >= max_attempts or self.unusable >= MOST_QUESTIONS

    @property
    def stage(self) -> str:
        """The stage of the last failure."""
        return str(self.last.fact("stage"))

    @property
    def not_before(self) -> datetime:
        """The time before which the API refuses requests."""
        seconds = self.last.meta.get("retry_after", 0)
        wait = timedelta(seconds=seconds) if type(seconds) is int else timedelta()
        return datetime.fromisoformat(self.last.recorded_at) + wait

    @property
    def next_try(self) -> datetime:
        """The time at which the pause after the last failure is over."""
        failures = self.outages or self.attempts
        doublings = min(max(failures, 1) - 1, _MAX_DOUBLINGS)
        pause: timedelta = min(_FIRST_PAUSE * 2**doublings, _LONGEST_PAUSE)
        return max(self.not_before, datetime.fromisoformat(self.last.recorded_at) + pause)


def judge_in(failure: Event) -> str:
    """Return the name of the judge that failed (see `judge_named`)."""
    return judge_named(str(failure.fact("backend")), str(failure.fact("client", "")))


def trouble_of(story: Iterable[Event], judge: str | None = None) -> Trouble | None:
    """Return the trouble of a judge with a window, from the events about it in order; None if that
    judge did not fail. Without a judge, return the trouble of the last judge that failed.
    """
    failures = [event for event in story if event.type == REFLECTION_FAILED]
    if not failures:
        return None
    asked_judge = judge_in(failures[-1]) if judge is None else judge
    last: Event | None = None
    outages = 0
    attempts = Counter[str]()
    unusable = Counter[str]()
    for failure in failures:
        stage = failure.fact("stage")
        if judge_in(failure) != asked_judge and stage not in (GIVEN_UP, REDACTED):
            continue
        last = failure
        if stage in OUTAGES:
            outages += 1
            continue
        outages = 0
        part = str(failure.fact("part"))
        attempts[part] += stage != GIVEN_UP
        unusable[part] += stage in NO_ANSWER
    if last is None:
        return None
    most_attempts = max(attempts.values(), default=0)
    most_unusable = max(unusable.values(), default=0)
    return Trouble(most_attempts, outages, most_unusable, last)
