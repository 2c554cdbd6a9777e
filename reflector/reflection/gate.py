"""The gate: whether a window is reflected on, and the tokens that models used and may use.

Invariant: a closed gate has a reason in words, which becomes `reflection.skipped`. An open one has
the number of remaining tokens. Models are asked only if the user allowed it. A project's own file
can choose a model, but cannot allow it on behalf of the user.

Each ledger has its own spending, the sum over its answers. The record of the month (`Spending`)
shows the user's ledgers to each other. If it is lost or damaged, each ledger still has its own
part. If a budget kept a window from being judged, the window is open again as soon as the budget
allows it: the reason of its last `reflection.skipped` contains the word.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

from reflector.config import Config, users_config
from reflector.events.event import REFLECTION_ANSWERED, REFLECTION_FAILED, REFLECTION_SKIPPED, Event
from reflector.files import read_bounded
from reflector.ledger.reader import of_types
from reflector.ledger.rows import object_in
from reflector.ledger.store import Ledger, WindowRow
from reflector.locate import agent_folder, user_state
from reflector.prices import tokens_in
from reflector.text.lazy import lazy_pattern
from reflector.text.phrases import counted

#: More than any settings file.
_MAX_SETTINGS_BYTES = 4 << 20
#: Why no model is asked about a project.
NEVER_READ = "no model may read this folder (setting `never`)"
#: Why most windows are not reflected on.
CITES_NOTHING = "the session part does not cite a rule"
_UNKNOWN_BUDGET = (
    "the monthly budget is unknown: reflector cannot use the file {} ({}); correct or remove the "
    "file, or set monthly_tokens to 0"
)
#: Settings of the ACE tool, in the client's user settings. If one is false, it switches off this
#: trigger, with this reason or with any.
_ACE = {
    "playbook_update_on_exit": ("SessionEnd", "prompt_input_exit"),
    "playbook_update_on_clear": ("SessionEnd", "clear"),
    "playbook_update_on_subagent_stop": ("SubagentStop", None),
}

#: About a million lines.
_MAX_RECORD_BYTES = 64 << 20
#: Ledger (a digest of its origin), tokens it took this month, tokens it has reserved.
_LINE = lazy_pattern(rb"^([0-9a-f]{32}) ([0-9]{1,15}) ([0-9]{1,15})$", re.M)
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
#: With fewer tokens left in a budget, no question is asked.
LEAST_ALLOWANCE = 8_000
_MILLION = 1_000_000
#: A word in every reason of a budget, and in no other reason of the gate.
_WORD = "budget"
_DAY_IS_SPENT = "the daily budget is spent: "
_MONTH_IS_SPENT = "the monthly budget is spent: "


class Gate:
    """The gate of one project."""

    def __init__(self, config: Config, project: Path) -> None:
        self.config = config
        self.project = project
        self.spending = Spending()
        self.dollars = Spending(unit="dollars")
        self._ace = ace_settings()
        #: The tokens that the requests of each thread may take; together they are one reservation.
        self._reserved: dict[int, int] = {}
        self._turn = Lock()
        #: How many of the requests that the user confirmed are left; None for an automatic start.
        self.confirmed: int | None = None

    def check(
        self,
        ledger: Ledger,
        recorded: Event,
        *,
        cited: bool,
        live: bool,
        is_model: bool,
        forced: bool = False,
    ) -> int | str | None:
        """Return how many tokens may be spent on a window, None for no limit. If it is not
        reflected on, return the reason.

        A window that you ask for by hand (`forced`) needs no consent and has no limit, but no model
        reads a folder of `never`.
        """
        if not live:
            return "the playbook is empty"
        if is_model and self._is_unread(recorded):
            return NEVER_READ
        if forced:
            return None
        if not cited and not (is_model and self.config.uncited):
            return CITES_NOTHING
        switched_off = self._switched_off(recorded.facts)
        if switched_off or not is_model:
            return switched_off
        closed = self._no_consent(recorded.facts) or self.left_of_day() or self._no_dollars(ledger)
        return closed or self.left_of_month(ledger)

    def _switched_off(self, facts: Mapping[str, Any]) -> str | None:
        """Return the ACE tool's setting that switches a window's trigger off, None if none does."""
        for setting, (trigger, reason) in _ACE.items():
            is_off = self._ace.get(setting) is False
            if is_off and facts.get("trigger") == trigger and reason in (None, facts["reason"]):
                return f"{setting} is false in the agent's settings"
        return None

    def _is_unread(self, recorded: Event) -> bool:
        """Return whether no model may read a window: its project, or the folder in which its
        session worked, is below a folder of `never`.
        """
        if not self.config.never:
            return False
        from reflector.reflection.window import folder_of

        folder = folder_of(recorded)
        folders = [self.project, *([Path(folder)] if folder.startswith("/") else [])]
        return any(map(self.config.keeps_unread, folders))

    def lets_start(self) -> bool:
        """Return whether a model may read this project without a command by hand."""
        return not self.config.keeps_unread(self.project) and not self._no_consent({"trigger": ""})

    def closed(self, ledger: Ledger) -> str | None:
        """Return why the budgets allow no automatic question now, None if they do."""
        left = self.left_of_month(ledger)
        closed = self.left_of_day() or self._no_dollars(ledger)
        return closed or (left if isinstance(left, str) else None)

    def _no_consent(self, facts: Mapping[str, Any]) -> str | None:
        """Return why a model may not be asked about this project, None if it may. A command by hand
        is consent. Recording a trajectory is consent too, because it has no trigger.
        """
        if facts.get("trigger", "ingest") == "ingest" or self.config.layer("backend") == "flag":
            return None
        if fault := self._address_fault():
            return fault
        if self.config.lists(self.project):
            return None
        if self.config.projects:
            return "the project is not among `projects` in your own configuration file"
        if self.config.layer("backend") == "project":
            return (
                "the project's settings choose a model, but your own settings do not; to allow "
                "this model, add the project to `projects` in your own settings file"
            )
        return None

    def _address_fault(self) -> str | None:
        """Return why the API may not be asked at its present address, None if it may."""
        from reflector.judges.consent import address_fault
        from reflector.judges.registry import kind_of

        kind = kind_of(self.config)
        if kind.address is None:
            return None
        address = kind.address(self.config)
        is_environments = self.config.layer("backend") == "environment"
        return address_fault(address, kind.name, kind.maker, by_environment=is_environments)

    def _limit(self, key: str) -> int:
        """Return a limit of automatic questions, 0 for none. The environment may come with a
        repository, so it can lower your limit but not raise it.
        """
        limit: int = getattr(self.config, key)
        if self.config.layer(key) != "environment":
            return limit
        yours: int = getattr(users_config(), key)
        return min(filter(None, (limit, yours)), default=0)

    def _no_dollars(self, ledger: Ledger) -> str | None:
        """Return why the dollars of the month allow no question, None if they do."""
        limit = self._limit("monthly_dollars")
        if not limit:
            return None
        try:
            spent = self.dollars.total(ledger.head().origin, dollars_this_month(ledger))
        except OSError as error:
            return _UNKNOWN_BUDGET.format(self.dollars.path, error.strerror)
        if spent < limit * _MILLION:
            return None
        return f"{_MONTH_IS_SPENT}${spent / _MILLION:.2f} of ${limit} (setting monthly_dollars)"

    def left_of_month(self, ledger: Ledger) -> int | str | None:
        """Return the tokens that are left of the month's budget, None for no limit; or the reason
        why it allows no question.
        """
        limit = self.config.monthly_tokens
        if not limit:
            return None
        try:
            spent = self.spending.month(ledger)
        except OSError as error:
            return _UNKNOWN_BUDGET.format(self.spending.path, error.strerror)
        remaining = limit - spent
        if remaining >= LEAST_ALLOWANCE:
            return remaining
        if remaining <= 0:
            return f"{_MONTH_IS_SPENT}{spent:,} of {limit:,} tokens (setting monthly_tokens)"
        return (
            f"only {remaining:,} of {limit:,} tokens of the monthly budget are left, but a "
            f"request needs {LEAST_ALLOWANCE:,} (setting monthly_tokens)"
        )

    def left_of_day(self, *, one_more: bool = False) -> str | None:
        """Return why today's budget allows no automatic question to the user's agent, None if it
        does. With `one_more`, a question is about to be asked, and is recorded.
        """
        limit = self._limit("daily_requests")
        if not self.config.is_daily_limited or (self.confirmed is None and not limit):
            return None
        if self.confirmed is not None:
            self.confirmed -= one_more
            is_spent = self.confirmed < (not one_more)
            return "all requests that you confirmed are sent" if is_spent else None
        try:
            spent = self.spending.requests_today(one_more)
        except OSError as error:
            record = f"the file next to {self.spending.path}"
            return f"the daily budget is unknown: reflector cannot use {record} ({error.strerror})"
        if spent < limit + one_more:
            return None
        return f"{_DAY_IS_SPENT}{limit:,} of {limit:,} requests (setting daily_requests)"

    def reserve(self, ledger: Ledger, tokens: int, *, forced: bool = False) -> None:
        """Record for the user's other ledgers the tokens that the next request may take.

        Raises:
            BackendError: the budget has fewer tokens left, also because of other reservations.
        """
        from reflector.judges.protocol import BackendError  # `status` needs only the spending

        with self._turn:
            self._reserved[get_ident()] = tokens
            try:
                if refusal := self._reserve(ledger, tokens, forced=forced):
                    raise BackendError(refusal, stage="budget", attempts=0)
            except BaseException:
                del self._reserved[get_ident()]
                raise

    def _reserve(self, ledger: Ledger, tokens: int, *, forced: bool) -> str | None:
        """Reserve the tokens of the next request; return why it may not be made, None if it may."""
        if self.config.keeps_unread(self.project):
            return NEVER_READ
        if not forced and (
            spent := self._too_dear(ledger, tokens) or self.left_of_day(one_more=True)
        ):
            return spent
        limit = None if forced else self.config.monthly_tokens or None
        origin = ledger.head().origin
        own = spent_this_month(ledger)
        others = sum(self._reserved.values()) - tokens
        try:
            missing = self.spending.reserve(origin, own, tokens, limit, others)
        except OSError as error:
            unknown = _UNKNOWN_BUDGET.format(self.spending.path, error.strerror)
            return unknown if limit is not None else None
        too_many = (
            f"a request may need {tokens:,} tokens, {missing:,} more than the monthly budget allows"
        )
        return too_many if missing else None

    def _too_dear(self, ledger: Ledger, tokens: int) -> str | None:
        """Reserve the dollars of the next request for the user's other ledgers; return why the
        month's limit does not allow it, None if it does.
        """
        limit = self._limit("monthly_dollars")
        if not limit:
            return None
        origin = ledger.head().origin
        own = dollars_this_month(ledger)
        price = self._price(tokens)
        others = self._reserved_dollars() - price
        try:
            if not self.dollars.reserve(origin, own, price, limit * _MILLION, others):
                return None
            spent = self.dollars.total(origin, own)
        except OSError as error:
            return _UNKNOWN_BUDGET.format(self.dollars.path, error.strerror)
        return (
            f"{_MONTH_IS_SPENT}${spent / _MILLION:.2f} of ${limit} are spent or reserved, and a "
            f"request may cost ${price / _MILLION:.2f} (setting monthly_dollars)"
        )

    def _reserved_dollars(self) -> int:
        """Return the dollars that the requests of all threads may take, in millionths."""
        return sum(map(self._price, self._reserved.values()))

    def _price(self, tokens: int) -> int:
        """Return the list price of a request with at most this number of tokens, in millionths of a
        dollar. Return 0 for a model without a known price.
        """
        from reflector.judges.protocol import MAX_TOKENS
        from reflector.judges.registry import kind_of
        from reflector.prices import Usage, cost

        kind = kind_of(self.config)
        model = kind.model(self.config, self.config.judge_client or "claude")
        usage = Usage(output=MAX_TOKENS, cache_write=max(0, tokens - MAX_TOKENS))
        return int((cost(kind.prices, model, usage) or 0) * _MILLION)

    def settle(self, ledger: Ledger) -> None:
        """Record for the user's other ledgers the tokens that this request took in the end."""
        with self._turn, suppress(OSError):  # it is recorded again before the next request
            self._reserved.pop(get_ident(), None)
            others = sum(self._reserved.values())
            self.spending.write(ledger.head().origin, spent_this_month(ledger), others)
            if self._limit("monthly_dollars"):
                own = dollars_this_month(ledger)
                self.dollars.write(ledger.head().origin, own, self._reserved_dollars())


def waiting_words(reason: str, now: datetime | None = None) -> str:
    """Return in words that a budget is spent and when judging continues, in local time; "" if a
    window was skipped for another reason.
    """
    moment = now or datetime.now(UTC)
    if reason.startswith(_DAY_IS_SPENT):
        midnight = moment.replace(hour=0, minute=0) + timedelta(days=1)
        limit = int(reason.removeprefix(_DAY_IS_SPENT).split()[0].replace(",", ""))
        return (
            f"reflector has used its {counted(limit, 'request')} for today (setting "
            f"daily_requests); judging continues at {midnight.astimezone():%H:%M}"
        )
    if reason.startswith(_MONTH_IS_SPENT):
        first = (moment.replace(day=1) + timedelta(days=32)).replace(day=1)
        return f"this month's budget is spent; judging continues on 1 {first:%B}"
    return ""


def ace_settings() -> Mapping[str, Any]:
    """Return the client's user settings as an object; empty if they cannot be read."""
    try:
        path = Path(agent_folder()).expanduser() / "settings.json"
        settings = json.loads(read_bounded(path, _MAX_SETTINGS_BYTES))
    # RuntimeError for a missing home folder, and for deep nesting
    except (OSError, ValueError, RuntimeError):
        return {}
    return settings if isinstance(settings, dict) else {}


class Spending:
    """The spending of one user in the current month: tokens, or millionths of a dollar in a file of
    its own.

    A line contains the tokens that a ledger has taken this month in all, and those that its next
    request may take in addition. The largest number of a ledger counts. So a line that is written
    again changes nothing, and the next one repairs the reservation of a process that died. Lines
    are single writes, and the sum is read after one. If two processes would exceed the limit
    together, both step back.
    """

    def __init__(self, now: datetime | None = None, unit: str = "tokens") -> None:
        state = user_state()
        month = (now or datetime.now(UTC)).strftime("%Y-%m")
        #: None if the user has no home folder; then each ledger counts alone.
        self.path = Path(state, f"{unit}-{month}") if state else None

    def month(self, ledger: Ledger) -> int:
        """Return the tokens that all of the user's ledgers took since the calendar month began.

        Raises:
            OSError: the record cannot be read.
        """
        return self.total(ledger.head().origin, spent_this_month(ledger))

    def total(self, origin: str, own: int) -> int:
        """Return the tokens that all ledgers took or have reserved; `own` are those of the caller's
        ledger.

        Raises:
            OSError: the record cannot be read.
        """
        ledgers = self._ledgers()
        if not ledgers:
            return own
        # The record of the caller's ledger may be older than `own`. Its reservation does not count,
        # because the caller adds the tokens of its request.
        taken, _ = ledgers.pop(_key(origin), (0, 0))
        return max(taken, own) + sum(sum(other) for other in ledgers.values())

    def write(self, origin: str, own: int, reserved: int = 0) -> None:
        """Record durably the tokens that a ledger took in all and has reserved now.

        Raises:
            OSError: the record cannot be written.
        """
        if self.path is None:
            return
        with _appended(self.path) as file:
            # The rest of a write that was cut short must not damage this line.
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - 1))
            is_torn = size > 0 and file.read(1) != b"\n"
            file.write(b"\n" * is_torn + f"{_key(origin)} {own} {reserved}\n".encode("ascii"))
            os.fsync(file.fileno())

    def reserve(
        self, origin: str, own: int, tokens: int, limit: int | None, others: int = 0
    ) -> int:
        """Reserve tokens for a request; return by how many they exceed the limit, 0 if it may be
        made. `others` are the tokens that the ledger's other requests have reserved.

        The reservation is written before the total is read. So if two ledgers reserve at the same
        time, at least one of them sees the other's reservation and takes its own back.

        Raises:
            OSError: the record cannot be read or written.
        """
        self.write(origin, own, others + tokens)
        if limit is None:
            return 0
        missing = max(0, self.total(origin, own) + others + tokens - limit)
        if missing:
            self.write(origin, own, others)
        return missing

    def requests_today(self, one_more: bool = False) -> int:
        """Return how many requests started automatically today (UTC); `one_more` is recorded first.

        Raises:
            OSError: the record cannot be read or written.
        """
        if self.path is None:
            return 0
        path = self.path.with_name(f"requests-{datetime.now(UTC):%Y-%m-%d}")
        if not one_more:
            return path.stat().st_size if path.exists() else 0
        for other in path.parent.glob("requests-*"):
            if other.name < path.name:
                other.unlink(missing_ok=True)
        with _appended(path) as file:
            file.write(b".")
            return os.fstat(file.fileno()).st_size

    def _ledgers(self) -> dict[str, tuple[int, int]]:
        """Return (taken, reserved) by ledger; other lines are skipped."""
        if self.path is None:
            return {}
        try:
            lines = _LINE.findall(read_bounded(self.path, _MAX_RECORD_BYTES))
        except FileNotFoundError:
            return {}
        ledgers: dict[str, tuple[int, int]] = {}
        for name, taken, reserved in lines:
            key = name.decode("ascii")
            most, _ = ledgers.get(key, (0, 0))
            ledgers[key] = (max(int(taken), most), int(reserved))
        return ledgers


def _appended(path: Path) -> FileIO:
    """Return a record that is open for appending, never a link; create its folder if it is missing.

    Raises:
        OSError: the record cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return FileIO(os.open(path, _FLAGS, 0o600), "r+")


def _key(origin: str) -> str:
    from hashlib import sha256

    return sha256(origin.encode("utf-8", "replace")).hexdigest()[:32]


def spent_this_month(ledger: Ledger, now: datetime | None = None) -> int:
    """Return the tokens that all reflections of the playbook, including failed ones, took since the
    calendar month (UTC) began.
    """
    types = [REFLECTION_ANSWERED, REFLECTION_FAILED]
    metas = _metas_of_month(ledger, types, now or datetime.now(UTC))
    return sum(tokens_in(meta) * times for meta, times in metas)


def dollars_this_month(ledger: Ledger) -> int:
    """Return the cost of all reflections of the playbook since the calendar month (UTC) began, by
    list prices, in millionths of a US dollar. Models without a known price cost nothing.
    """
    from reflector.prices import spent_on

    metas = _metas_of_month(ledger, [REFLECTION_ANSWERED], datetime.now(UTC))
    return int(sum(spent_on(meta).cost * times for meta, times in metas) * _MILLION)


def _metas_of_month(
    ledger: Ledger, types: Sequence[str], now: datetime
) -> list[tuple[Mapping[str, Any], int]]:
    """Return the `meta` of the events of these types since the calendar month (UTC) began, each
    with the number of its events. The answers themselves are not read, because they are most of the
    bytes.
    """
    after = ledger.position_at(now.strftime("%Y-%m-01"))
    query = (
        "SELECT meta, count(*) FROM event "  # noqa: S608
        f"WHERE playbook_id = ? AND {of_types(types)} AND position > ? GROUP BY meta"
    )
    return [(object_in(meta)[0], times) for meta, times in ledger.query(query, after)]


def waiting_for_budget(ledger: Ledger) -> list[WindowRow]:
    """Return the windows that were skipped because of a budget, oldest first."""
    with ledger.asking() as sql:
        reason = sql.data_field("reason")
        query = (
            f"SELECT target_id, {reason} FROM event "  # noqa: S608
            f"WHERE playbook_id = ? AND {of_types([REFLECTION_SKIPPED])} ORDER BY +position"
        )
        reasons = dict(sql.rows(query))
    waiting = {window_id for window_id, reason in reasons.items() if _WORD in str(reason)}
    if not waiting:
        return []
    return [window for window in ledger.windows_in("skipped") if window.event_id in waiting]
