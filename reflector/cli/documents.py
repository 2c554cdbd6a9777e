"""The JSON documents of `show` and `log`: a screen does without these classes, which take longer to
define than the answer to find.
"""

from __future__ import annotations

from dataclasses import dataclass

from reflector.cli.playbook import ListedJson
from reflector.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJson(ListedJson):
    """A bullet as in `list`, and every event about it.

    recent  the votes of the last eight sessions, oldest first: `+` helped, `-` harmed, `.` neither
    """

    recent: str
    events: list[Event]


@dataclass(slots=True, kw_only=True)
class LoggedJson(Event):
    """An event of `log`.

    undo  the command that undoes it, or the place where it was undone; null if it changed nothing
    """

    undo: str | None
