"""A finished turn, the result of a reflection on it, and whether it is reflected on.

Invariant: a turn is read and never changed, without a clock.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reflector.embed.gated.settings import read_flag
from reflector.text.secrets import redact

if TYPE_CHECKING:
    from reflector.embed.gated.settings import GatedConfig

NO_TIME = "0000-00-00T00:00:00Z"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
#: How an orchestrator marks a dry run in the context.
_DRY_RUN = ("_dry_run", "_dry_run_until_t4")
_log = logging.getLogger("reflector")


@dataclass(frozen=True, slots=True)
class ReflectionBundle:
    """A finished turn. A context, a plan or a state may be a mapping or an object with attributes.

    ctx         agent_id (or agent), turn_id (or turn), and a time: now_iso, now or now_ms (since
                1970)
    state_view  the state after planning: `_planner_reflection_flag`
    plan        `reflection`: whether the planner asks for it
    utter       the agent's answer to its user
    snippets    the retrieved texts of the turn, best first
    """

    ctx: Any
    state_view: Any
    plan: Any
    utter: str
    snippets: Sequence[Any]

    @property
    def agent(self) -> str:
        """The agent's id, "unknown" if the context has none."""
        return redact(
            str(value_of(self.ctx, "agent_id") or value_of(self.ctx, "agent") or "unknown")
        )

    @property
    def turn(self) -> int:
        """The turn's number, 0 if the context has none.

        Raises: ValueError if it is not a number.
        """
        turn = value_of(self.ctx, "turn_id") or value_of(self.ctx, "turn") or 0
        try:
            return int(turn)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"ctx.turn_id is {turn!r}; it must be a whole number") from error

    @property
    def is_dry_run(self) -> bool:
        """Whether the host applies nothing in this turn."""
        return any(value_of(self.ctx, name) for name in _DRY_RUN)

    @property
    def time(self) -> str:
        """The context's own time as text. The clock is never read.

        Raises: OverflowError for a time after the year 9999.
        """
        now = value_of(self.ctx, "now_iso") or value_of(self.ctx, "now")
        since = value_of(self.ctx, "now_ms")
        if now is None and since is not None:
            now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(since))
        if isinstance(now, datetime):
            return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return str(now or NO_TIME)


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """The result of a reflection.

    summary         the summary; "" without one
    memory_entries  the entries to remember: dictionaries of owner, ts, text, tags, kind and perhaps
                    vec_full
    metrics         backend, summary_len, used_topk, embed, ops_cap; fixture_key for fixtures;
                    reason if it failed
    ms              how long it took; not compared, so that equal reflections are equal
    """

    summary: str
    memory_entries: list[dict[str, Any]]
    metrics: dict[str, Any]
    ms: float = field(default=0.0, compare=False)

    @property
    def reason(self) -> str | None:
        return self.metrics.get("reason")


def should_run(config: GatedConfig, plan: Any, state: Any = None, dry_run: bool = False) -> bool:
    """Return whether to reflect on a turn: if it is allowed, requested by the plan or the state,
    and not a dry run.

    A flag that is neither true nor false is logged and requests nothing.
    """
    is_allowed = config.allow_reflection and not dry_run
    return is_allowed and (asks(plan, "reflection") or asks(state, "_planner_reflection_flag"))


def plan_flag(value: object) -> bool:
    """Return a planner's flag: a boolean, 0 or 1, or a word for it; None is False.

    Raises: ValueError.
    """
    try:
        return value is not None and read_flag(value, _TRUE, _FALSE)
    except ValueError:
        raise ValueError(f"plan.reflection must be boolean, not {reprlib.repr(value)}") from None


def value_of(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def asks(source: Any, name: str) -> bool:
    try:
        return plan_flag(value_of(source, name))
    except ValueError as fault:
        _log.warning("%s", fault)
        return False
