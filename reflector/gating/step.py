"""The step after a turn: the gate, a reflection within its budgets, its entries and its record in the log.

Invariant: a turn is never harmed. Whatever goes wrong is a reason in the result and in the log, and what took too long
is cut off and writes nothing. With the gate closed nothing is read, made, written or logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reflector.gating import summary as summaries
from reflector.gating.budget import OutOfTime, within
from reflector.gating.bundle import ReflectionBundle, canonical_prompt, prompt_sha256, should_run
from reflector.gating.config import GatedConfig
from reflector.gating.entries import write_entries
from reflector.gating.fixtures import Adapter, FixturesAdapter, answer
from reflector.gating.log import ReflectionLog, log_record
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

TIMEOUT = "reflection_timeout"
_log = logging.getLogger("reflector")
AnyAdapter = Adapter | Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """What a reflection gave.

    summary         the summary; "" where there is none
    memory_entries  what is to be remembered: dictionaries of owner, ts, text, tags, kind and perhaps vec_full
    metrics         backend, summary_len, used_topk, embed, ops_cap; fixture_key for fixtures; reason where it failed
    ms              how long it took; no part of what two equal reflections have in common
    """

    summary: str
    memory_entries: list[dict[str, Any]]
    metrics: dict[str, Any]
    ms: float = field(default=0.0, compare=False)

    @property
    def reason(self) -> str | None:
        """Why it failed; None where it did not."""
        return self.metrics.get("reason")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON has it, the same for the same inputs."""
        return {"summary": self.summary, "memory_entries": self.memory_entries, "metrics": self.metrics}


def reflect(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    adapter: AnyAdapter | None = None,
    clock: Callable[[], float] | None = None,
) -> ReflectionResult:
    """Reflect on a turn, within its time; the gate is not asked. Never raises: what failed is the result's reason.

    adapter  who answers the backend `llm`, in place of the file of fixtures: `generate(prompt, *, max_tokens,
             temperature)` returns something with a `text`, or a function from the prompt to a text
    clock    seconds, as `time.monotonic` counts them; a reflection that it finds too long keeps its summary and
             loses its entries
    """
    clock = clock or time.monotonic
    begun = clock()
    try:
        done = within(config.time_ms_reflection, lambda: think(bundle, config, adapter=adapter))
        failed = done.exception()
    except (OutOfTime, RuntimeError) as error:
        failed = error
    ms = (clock() - begun) * 1000
    if failed is not None:
        reason = TIMEOUT if isinstance(failed, OutOfTime) else f"reflect_error:{type(failed).__name__}"
        _log.warning("no reflection on this turn (%s): %s", reason, _words(failed))
        return ReflectionResult("", [], {"backend": config.backend, "reason": reason}, ms)
    result = done.result()
    if ms > config.time_ms_reflection:
        return ReflectionResult(result.summary, [], {**result.metrics, "reason": TIMEOUT}, ms)
    return ReflectionResult(result.summary, result.memory_entries, result.metrics, ms)


def think(bundle: ReflectionBundle, config: GatedConfig, *, adapter: AnyAdapter | None = None) -> ReflectionResult:
    """Reflect on a turn without a budget of time.

    Raises ValueError for an unknown backend, for fixtures that are not enabled and for a bad context,
    FixtureMissingError, and whatever the adapter raises.
    """
    _ = bundle.turn  # what is not a number is refused here, before an entry gets the id of turn 0
    metrics: dict[str, Any] = {"backend": config.backend}
    if config.backend == "rulebased":
        kept = len(summaries.used(bundle.snippets, config.topk_snippets))
        summary = summaries.summarize(
            bundle.utter, bundle.snippets, topk=config.topk_snippets, tokens=config.summary_tokens
        )
    elif config.backend == "llm":
        kept = len(bundle.snippets[: config.topk_snippets])
        prompt = canonical_prompt(bundle, config)
        if adapter is None:
            if not config.fixtures.enabled:
                raise ValueError("the backend llm needs t3.llm.fixtures.enabled: true, or an adapter")
            adapter = FixturesAdapter(config.fixtures.path or "")
            metrics = {"backend": "llm-fixture", "fixture_key": prompt_sha256(prompt)[:12]}
        summary = answer(adapter, prompt, config.summary_tokens)
    else:
        raise ValueError(f"{config.backend!r} is not a backend; the backends are rulebased and llm")
    metrics |= {
        "summary_len": len(summary.split()),
        "used_topk": kept,
        "embed": config.embed,
        "ops_cap": config.ops_reflection,
    }
    return ReflectionResult(summary, summaries.entries(bundle, config, summary), metrics)


def after_turn(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    ledger: Ledger | None = None,
    log: ReflectionLog | None = None,
    adapter: AnyAdapter | None = None,
    clock: Callable[[], float] | None = None,
) -> ReflectionResult | None:
    """Do the whole step after a turn was applied; None where the gate is closed. Never raises.

    The entries are appended to the ledger, and a record of the turn to the log, where there is one.
    """
    try:
        if not should_run(config, bundle.plan, bundle.state_view, bundle.is_dry_run):
            return None
    except Exception as error:  # noqa: BLE001 - a gate that nobody can read is closed
        _log.warning("no reflection on this turn: %s", _words(error))
        return None
    result = reflect(bundle, config, adapter=adapter, clock=clock)
    agent, turn = "unknown", 0
    with suppress(Exception):  # then it is the result's reason
        agent, turn = bundle.agent, bundle.turn
    report = write_entries(ledger, result.memory_entries, ops_cap=config.ops_reflection, turn=turn)
    if report.reason and not result.reason:
        result = replace(result, metrics={**result.metrics, "reason": report.reason})
    if log is not None and config.log:
        log.add(log_record(config, result, agent=agent, turn=turn, ops_written=report.written))
    return result


def _words(error: BaseException) -> str:
    """What an error says, which may itself fail."""
    try:
        return quote(str(error), 300)
    except Exception:  # noqa: BLE001
        return ""
