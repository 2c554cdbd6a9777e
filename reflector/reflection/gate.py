"""The gate: whether a recorded window is reflected on, and how much that may cost.

Invariant: a closed gate has a reason in words, which becomes `reflection.skipped`; an open one says how many tokens
are left. Models are asked where the user wants it: a project's own file can choose a model, but not on behalf of a
user who has not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflector.config import Config
from reflector.files import read_bounded
from reflector.ledger import event as ev
from reflector.ledger.event import Event
from reflector.ledger.store import Ledger

#: More than anybody's settings.
_MOST_BYTES = 4 << 20
#: What is left of a budget below this is not worth a question.
LEAST_ALLOWANCE = 8_000
#: Settings of the ACE tool, in the client's user settings: what they switch off, where they are false.
_ACE = {
    "playbook_update_on_exit": ("SessionEnd", "prompt_input_exit"),
    "playbook_update_on_clear": ("SessionEnd", "clear"),
    "playbook_update_on_subagent_stop": ("SubagentStop", None),
}


@dataclass(frozen=True, slots=True)
class Opened:
    """An open gate; `allowance` is how many tokens may be spent on the window, None for no limit."""

    allowance: int | None = None


class Gate:
    """The gate of one project."""

    def __init__(self, config: Config, project: Path, environ: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.project = project
        self._ace = ace_settings(environ)

    def check(
        self, ledger: Ledger, recorded: Event, *, cited: bool, live: bool, is_model: bool, forced: bool = False
    ) -> Opened | str:
        """Whether a window is reflected on; where it is not, the reason.

        A person who asks for one window by hand (`forced`) needs nobody's consent and spends what it takes.
        """
        if not live:
            return "the playbook is empty"
        if forced:
            return Opened()
        if not cited and not (is_model and self.config.uncited):
            return "the window cites nothing"
        data: Mapping[str, Any] = recorded.data or {}
        for setting, (trigger, reason) in _ACE.items():
            if self._ace.get(setting) is False and data.get("trigger") == trigger and reason in (None, data["reason"]):
                return f"{setting} is false in the client's settings"
        if not is_model:
            return Opened()
        return self._consent(data) or self._budget(ledger, recorded)

    def _consent(self, data: Mapping[str, Any]) -> str | None:
        """Why nobody agreed to ask a model about this project, else None. Who runs a command by hand agrees."""
        if data.get("trigger") == "ingest" or self.config.layer("backend") == "flag":
            return None
        if self.config.lists(self.project):
            return None
        if self.config.projects:
            return "the project is not among `projects` in the user's configuration"
        if self.config.layer("backend") == "project":
            return "only the project's own file asks for a model; add the project to `projects` in the user's one"
        return None

    def _budget(self, ledger: Ledger, recorded: Event) -> Opened | str:
        left: list[int] = []
        for kind, limit, spent in (
            ("session", self.config.session_tokens, spent_on_session(ledger, recorded.session_id)),
            ("monthly", self.config.monthly_tokens, spent_this_month(ledger)),
        ):
            if not limit:
                continue
            if limit - spent < LEAST_ALLOWANCE:
                return f"the {kind} budget is spent: {spent:,} of {limit:,} tokens (setting {kind}_tokens)"
            left.append(limit - spent)
        return Opened(min(left, default=None))


def ace_settings(environ: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """The client's user settings as an object; empty where there are none or they cannot be read."""
    environ = os.environ if environ is None else environ
    folder = environ.get("CLAUDE_CONFIG_DIR") or f"{environ.get('HOME') or environ.get('USERPROFILE') or '~'}/.claude"
    try:
        settings = json.loads(read_bounded(Path(folder).expanduser() / "settings.json", _MOST_BYTES))
    except (OSError, ValueError, RuntimeError):  # the last for a home that there is not, and for nesting
        return {}
    return settings if isinstance(settings, dict) else {}


def tokens_of(event: Event) -> int:
    """Every token that an answer took, as its event's meta tells."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    values = [event.meta.get(name) for name in names]
    return sum(value for value in values if isinstance(value, int))


def spent_on_session(ledger: Ledger, session_id: str | None) -> int:
    """Tokens that a session's reflections took so far."""
    if session_id is None:
        return 0
    return sum(tokens_of(event) for event in ledger.events(session_id=session_id, types=(ev.REFLECTION_ANSWERED,)))


def spent_this_month(ledger: Ledger, now: datetime | None = None) -> int:
    """Tokens that all reflections of the playbook took since the calendar month (UTC) began."""
    begin = (now or datetime.now(UTC)).strftime("%Y-%m-01T00:00:00.000000Z")
    after = ledger.position_at(begin)
    return sum(tokens_of(event) for event in ledger.events(after=after, types=(ev.REFLECTION_ANSWERED,)))
