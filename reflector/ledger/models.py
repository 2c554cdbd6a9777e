"""Which model worked in which session.

Invariant: a window has the models that its own record and its merged copies name. If there are
several, it has the last one in alphabetical order. So two machines that merged each other give the
same answer, even if one of them recorded the window with a version that did not record models. A
session has the model of most of its windows. Windows of subagents decide only if the session has no
other windows. Of two models with equally many windows, the session has the last one in alphabetical
order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reflector.events.event import (
    LEDGER_MERGED,
    MODEL,
    REFLECTION_COMPLETED,
    SESSION_RECORDED,
    as_written,
)
from reflector.ledger.reader import events_where, of_types, rare_events_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reflector.ledger.statements import Statements

#: Windows whose record names a model, or whose model came with a merge.
_WITH_MODEL = (
    f"{of_types((SESSION_RECORDED,))} AND position <= ? AND (meta LIKE ? OR event_id IN ?)"
)
_MOST_CHARACTERS = 100


@dataclass(slots=True)
class WorkedWindow:
    """A window with the models that its copies name.

    session  the id of its session, or its own id if it has none
    agent    the agent that worked, "" for an unknown one
    """

    session: str
    agent: str
    occurred_at: str
    of_subagent: bool
    models: set[str] = field(default_factory=set)


class WorkedSession(NamedTuple):
    """A session: its agent, the model of most of its windows, and the time of its first window."""

    agent: str
    model: str
    begun: str


def window_models(sql: Statements, upto: int) -> dict[str, WorkedWindow]:
    """Return the windows with a known model, by their ids."""
    models: dict[str, set[str]] = defaultdict(set)
    for merge in rare_events_between(sql, (LEDGER_MERGED,), 0, upto):
        brought: Mapping[str, str] = merge.fact("models") or {}
        for window_id, name in brought.items():
            models[window_id].add(str(name)[:_MOST_CHARACTERS])
    windows: dict[str, WorkedWindow] = {}
    for window in events_where(sql, _WITH_MODEL, upto, f'%"{MODEL}":%', [*models]):
        if own := window.meta.get(MODEL):
            models[window.event_id].add(str(own)[:_MOST_CHARACTERS])
        windows[window.event_id] = WorkedWindow(
            window.session_id or window.event_id,
            str(window.fact("agent") or ""),
            as_written(window.occurred_at),
            of_subagent=bool(window.fact("agent_id")),
            models=models[window.event_id],
        )
    return {window_id: window for window_id, window in windows.items() if window.models}


def worked_sessions(windows: Iterable[WorkedWindow]) -> dict[str, WorkedSession]:
    """Return the sessions of windows with a known model, by their ids."""
    by_session: dict[str, list[WorkedWindow]] = defaultdict(list)
    for window in windows:
        by_session[window.session].append(window)
    return {session: _session(of_session) for session, of_session in by_session.items()}


def windows_of_readings(sql: Statements, upto: int) -> dict[str, str]:
    """Return the windows without a session's id, by the ids of their reflections.

    A vote from such a window contains the reflection's id instead of the session's.
    """
    query = (
        "SELECT reflection_id, target_id FROM event "  # noqa: S608
        f"WHERE playbook_id = ? AND {of_types((REFLECTION_COMPLETED,))} "
        "AND session_id IS NULL AND reflection_id IS NOT NULL AND position <= ?"
    )
    return dict(sql.rows(query, upto))


def _session(windows: Iterable[WorkedWindow]) -> WorkedSession:
    every = sorted(windows, key=lambda window: (window.of_subagent, window.occurred_at))
    own = [window for window in every if not window.of_subagent] or every
    counts = Counter(max(window.models) for window in own)
    model = max(counts, key=lambda name: (counts[name], name))
    return WorkedSession(own[0].agent, model, own[0].occurred_at)
