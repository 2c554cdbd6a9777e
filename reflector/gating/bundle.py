"""What one turn of the host gives to reflect on, the gate that decides whether to, and the prompt of it.

Invariant: nothing here changes what it reads. A context, a plan or a state may be a mapping or an object with
attributes; what is missing has one default. Secrets are gone before a text is summarised, hashed or sent.
"""

from __future__ import annotations

import json
import logging
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from reflector.gating.config import GatedConfig, flag
from reflector.text.secrets import redact

NO_TIME = "0000-00-00T00:00:00Z"
_log = logging.getLogger("reflector")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, slots=True)
class ReflectionBundle:
    """A turn that is over.

    ctx         agent_id (or agent), turn_id (or turn), and a time: now_iso, now or now_ms (since 1970)
    state_view  what the planner left behind: `_planner_reflection_flag`
    plan        `reflection`: whether the planner asks for it
    utter       what the agent said to its user
    snippets    what retrieval found for the turn, best first
    """

    ctx: Any
    state_view: Any
    plan: Any
    utter: str
    snippets: Sequence[Any]

    @property
    def agent(self) -> str:
        """The agent's id, "unknown" where the context has none."""
        return redact(str(_of(self.ctx, "agent_id") or _of(self.ctx, "agent") or "unknown"))

    @property
    def turn(self) -> int:
        """The turn's number, 0 where the context has none. Raises ValueError for what is not a number."""
        turn = _of(self.ctx, "turn_id") or _of(self.ctx, "turn") or 0
        try:
            return int(turn)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"ctx.turn_id is {turn!r}; it must be a whole number") from error

    @property
    def time(self) -> str:
        """The context's own time as text; nothing here looks at a clock. Raises OverflowError for one beyond 9999."""
        now = _of(self.ctx, "now_iso") or _of(self.ctx, "now")
        since = _of(self.ctx, "now_ms")
        if now is None and since is not None:
            now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(since))
        if isinstance(now, datetime):
            return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return str(now or NO_TIME)

    @property
    def is_dry_run(self) -> bool:
        return bool(_of(self.ctx, "_dry_run_until_t4"))


def should_run(config: GatedConfig, plan: Any, state: Any = None, dry_run: bool = False) -> bool:
    """Return whether a turn is reflected on: allowed, asked for by the plan or the state, and not a dry run.

    A flag that is neither true nor false is logged, and asks for nothing.
    """
    if not config.allow_reflection or dry_run:
        return False
    return _asks(plan, "reflection") or _asks(state, "_planner_reflection_flag")


def plan_flag(value: object) -> bool:
    """Return a planner's flag: a boolean, 0 or 1, or a word for it; None is False. Raises ValueError."""
    try:
        return value is not None and flag(value, _TRUE, _FALSE)
    except ValueError:
        raise ValueError(f"plan.reflection must be boolean, not {reprlib.repr(value)}") from None


def canonical_prompt(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the prompt of the backend `llm`: JSON in ASCII with sorted keys. Raises ValueError for a bad turn."""
    asked = {
        "task": "reflect_summary",
        "version": 1,
        "agent": bundle.agent,
        "turn": bundle.turn,
        "summary_tokens": config.summary_tokens,
        "utter": collapsed(bundle.utter),
        "snippets": [collapsed(snippet) for snippet in bundle.snippets[: config.topk_snippets]],
        "plan_reflection": _asks(bundle.plan, "reflection"),
    }
    return json.dumps(asked, sort_keys=True, separators=(",", ":"))


def prompt_sha256(prompt: str) -> str:
    """Return the key of a prompt in a file of fixtures: SHA-256 in hex, over LF line ends."""
    return sha256(prompt.replace("\r\n", "\n").encode()).hexdigest()


def fixture_key(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the first 12 digits of the hash of a bundle's prompt. Raises ValueError for a bad turn."""
    return prompt_sha256(canonical_prompt(bundle, config))[:12]


def collapsed(text: object) -> str:
    """Return a text without secrets, each run of white space one space; "" for what is empty or None."""
    return " ".join(redact(str(text)).split()) if text else ""


def _of(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _asks(source: Any, name: str) -> bool:
    try:
        return plan_flag(_of(source, name))
    except ValueError as fault:
        _log.warning("%s", fault)
        return False
