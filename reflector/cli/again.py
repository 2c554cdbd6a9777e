"""How a person gets judged what was not: the commands for failed reflections, and what waits for a budget.

Invariant: each command that is shown can be typed unchanged and does what is said of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reflector.cli.output import fields

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.project import Project
    from reflector.reflection.protocol import Trouble


def failures_of(ledger: Ledger, project: Project) -> list[dict[str, Any]]:
    """The windows whose reflection failed, oldest first, each with its last failure and the command that mends it."""
    from reflector.reflection.protocol import trouble_of

    found: list[dict[str, Any]] = []
    for window in ledger.windows_in("failed", "given_up"):
        trouble = trouble_of(ledger.targeting(window.event_id))
        if trouble is not None:
            found.append(_failure(window, trouble, project))
    return found


def _failure(window: WindowRow, trouble: Trouble, project: Project) -> dict[str, Any]:
    data = trouble.last.data or {}
    by_itself = window.state == "failed" and trouble.attempts < project.config.max_attempts
    return {
        "position": trouble.last.position,
        "session_id": window.session_id,
        "window_id": window.event_id,
        **fields(window, "state attempts"),
        "failed_at": trouble.last.recorded_at,
        "next_try": trouble.next_try.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if by_itself else None,
        **{key: data.get(key) for key in ("backend", "stage", "message")},
        "command": _command(window, trouble, project),
    }


def _command(window: WindowRow, trouble: Trouble, project: Project) -> str | None:
    """Return what to type for one failed window; None where nothing can be done by its session's id."""
    from reflector.reflection.protocol import REDACTED

    playbook = "--user" if project.is_users else f"--dataset {project.root.name}" if project.outer is not None else ""
    reflector = f"reflector {playbook}".rstrip()
    if window.session_id is None:
        return f"{reflector} drain --retry-failed" if window.state == "failed" else None
    import shlex

    session = shlex.quote(window.session_id)
    if trouble.stage == REDACTED:
        return f"{reflector} give-up {session} --why redacted" if window.state == "failed" else None
    return f"{reflector} reflect {session}"


def month_of(ledger: Ledger | None, project: Project) -> dict[str, Any] | None:
    """What models took this month over all of the person's projects; None where the record of it cannot be read."""
    from reflector.reflection.spending import Spending, this_month

    limit = project.config.monthly_tokens
    try:
        tokens = Spending().total("", 0) if ledger is None else this_month(ledger, Spending())
    except OSError:
        return None
    return {"tokens": tokens, "limit": limit or None}


def month_words(month: dict[str, Any] | None) -> str:
    """Return the month in a line."""
    if month is None:
        return "this month: unknown, the record of it cannot be read"
    limit = f"{month['limit']:,}" if month["limit"] else "any number of"
    return f"this month: {month['tokens']:,} of {limit} tokens, all projects"
