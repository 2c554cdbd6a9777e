"""The JSON documents of `show` and `log`: a screen does without these classes, which take longer to
define than the answer to find.
"""

from __future__ import annotations

from dataclasses import dataclass

from reflector.cli.playbook import ListedJson
from reflector.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJson(ListedJson):
    """A bullet as `list` has it, and every event about it.

    recent  the votes of the last eight sessions, oldest first: `+` helped, `-` harmed, `.` neither
    """

    recent: str
    events: list[Event]


@dataclass(slots=True, kw_only=True)
class LoggedJson(Event):
    """An event of `log`, and the command that undoes it, or where it was undone; null for what
    changed nothing.
    """

    undo: str | None
