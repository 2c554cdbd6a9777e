"""The gate: whether a recorded window is reflected on, and how much that may cost.

Invariant: a closed gate has a reason in words, which becomes `reflection.skipped`; an open one says how many tokens
are left. Models are asked where the user wants it: a project's own file can choose a model, but not on behalf of a
user who has not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reflector.config import Config
from reflector.events.event import Event
from reflector.files import read_bounded
from reflector.ledger.store import Ledger
from reflector.locate import agent_folder
from reflector.reflection.protocol import BackendError
from reflector.reflection.spending import Spending, left_of, spent_this_month

#: More than anybody's settings.
_MOST_BYTES = 4 << 20
#: Why most windows are not reflected on.
CITES_NOTHING = "the window cites nothing"
_UNTOLD = (
    "the monthly budget is unknown: the record {} cannot be used ({}); correct or remove it, or set monthly_tokens to 0"
)
#: Settings of the ACE tool, in the client's user settings: what they switch off, where they are false.
_ACE = {
    "playbook_update_on_exit": ("SessionEnd", "prompt_input_exit"),
    "playbook_update_on_clear": ("SessionEnd", "clear"),
    "playbook_update_on_subagent_stop": ("SubagentStop", None),
}


class Gate:
    """The gate of one project."""

    def __init__(self, config: Config, project: Path, environ: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.project = project
        self.spending = Spending(environ)
        self._ace = ace_settings(environ)
        #: How many requests a person confirmed, and are left; None for what starts by itself.
        self.confirmed: int | None = None

    def check(
        self, ledger: Ledger, recorded: Event, *, cited: bool, live: bool, is_model: bool, forced: bool = False
    ) -> int | str | None:
        """Return how many tokens may be spent on a window, None for no limit; why it is not reflected on where it is
        not.

        A person who asks for one window by hand (`forced`) needs no consent and spends what it takes.
        """
        if not live:
            return "the playbook is empty"
        if forced:
            return None
        if not cited and not (is_model and self.config.uncited):
            return CITES_NOTHING
        data: Mapping[str, Any] = recorded.data or {}
        for setting, (trigger, reason) in _ACE.items():
            if self._ace.get(setting) is False and data.get("trigger") == trigger and reason in (None, data["reason"]):
                return f"{setting} is false in the client's settings"
        if not is_model:
            return None
        return self._consent(data) or self.left_of_day() or self.left_of_month(ledger)

    def _consent(self, data: Mapping[str, Any]) -> str | None:
        """Return why a model may not be asked about this project, else None. Running a command by hand is consent.

        A trajectory has no trigger: a person recorded it.
        """
        if data.get("trigger", "ingest") == "ingest" or self.config.layer("backend") == "flag":
            return None
        if self.config.lists(self.project):
            return None
        if self.config.projects:
            return "the project is not among `projects` in the user's configuration"
        if self.config.layer("backend") == "project":
            return "only the project's own file asks for a model; add the project to `projects` in the user's one"
        return None

    def left_of_month(self, ledger: Ledger) -> int | str | None:
        """Return the tokens that the month has left, None for no limit; or why it allows no question."""
        limit = self.config.monthly_tokens
        try:
            return left_of(limit, self.spending.month(ledger)) if limit else None
        except OSError as error:
            return _UNTOLD.format(self.spending.path, error.strerror)

    def left_of_day(self, *, one_more: bool = False) -> str | None:
        """Return why today allows no question to the person's agent that starts by itself, else None.

        With one more, a question is about to be asked, and is recorded.
        """
        limit = self.config.daily_requests
        if self.config.backend != "agent" or (self.confirmed is None and not limit):
            return None
        if self.confirmed is not None:
            self.confirmed -= one_more
            return "the budget of requests that you confirmed is spent" if self.confirmed < (not one_more) else None
        try:
            spent = self.spending.requests_today(one_more)
        except OSError as error:
            return (
                f"the daily budget is unknown: the record beside {self.spending.path} cannot be used ({error.strerror})"
            )
        if spent < limit + one_more:
            return None
        return f"the daily budget is spent: {limit:,} of {limit:,} requests (setting daily_requests)"

    def reserve(self, ledger: Ledger, tokens: int, *, forced: bool = False) -> None:
        """Record for the person's other ledgers what the next request may take.

        Raises BackendError if the month's budget has not that much left, also because of what they reserved meanwhile.
        """
        if not forced and (spent := self.left_of_day(one_more=True)):
            raise BackendError(spent, stage="budget", attempts=0)
        limit = None if forced else self.config.monthly_tokens or None
        try:
            missing = self.spending.reserve(ledger.head().origin, spent_this_month(ledger), tokens, limit)
        except OSError as error:
            if limit is not None:
                said = _UNTOLD.format(self.spending.path, error.strerror)
                raise BackendError(said, stage="budget", attempts=0) from error
            return
        if missing:
            raise BackendError(
                f"a request may take {tokens:,} tokens, {missing:,} more than are left", stage="budget", attempts=0
            )

    def settle(self, ledger: Ledger) -> None:
        """Record for them what the ledger took in the end."""
        with suppress(OSError):  # the ledger has it, and says it again before its next request
            self.spending.write(ledger.head().origin, spent_this_month(ledger))


def ace_settings(environ: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the client's user settings as an object; empty where there are none or they cannot be read."""
    try:
        settings = json.loads(read_bounded(Path(agent_folder(environ)).expanduser() / "settings.json", _MOST_BYTES))
    except (OSError, ValueError, RuntimeError):  # the last for a home that there is not, and for nesting
        return {}
    return settings if isinstance(settings, dict) else {}
