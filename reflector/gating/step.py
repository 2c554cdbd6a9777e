"""The step after a turn: the gate, a reflection within its budgets, its entries and its line in `t3_reflection.jsonl`;
and the same on a fixed turn, for a host that wants to know that its settings do what it thinks, and how fast.

Invariant: a turn is never harmed. Whatever goes wrong is a reason in the result and in the log, and what took too long
is cut off and writes nothing; a log that cannot be written is forgotten. With the gate closed nothing is read, made,
written or logged. What a file of fixtures answers depends on the prompt alone, and what it cannot answer is a
FixtureMissingError; the file has the form of the backend `fixtures`: `{"prompt_hash": <64 hex digits>, "completion":
<text>}` on each line. Measured figures are the same on every machine but for a time that is asked for.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from reflector.config import ConfigError
from reflector.files import NO_WAIT, read_bounded
from reflector.gating.config import GatedConfig, load_config
from reflector.gating.turn import (
    ReflectionBundle,
    ReflectionResult,
    canonical_prompt,
    clipped,
    entries,
    prompt_sha256,
    should_run,
    summarize,
    used,
    write_entries,
)
from reflector.locate import parse_toml
from reflector.reflection.backends.fixtures import read_fixtures
from reflector.reflection.protocol import BackendError
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

FILE_NAME = "t3_reflection.jsonl"
#: Where the log stands among the logs of a turn, for a host that flushes several of them together.
STAGE_ORDINAL = 10
TIMEOUT = "reflection_timeout"
_log = logging.getLogger("reflector")
#: Python cannot end a thread, so work that hangs goes on alone, as a daemon; only so many may hang at once, and
#: further work waits for its turn within its own budget.
_MOST_HANGING = 32
_LONGEST = 10**12
_free = threading.BoundedSemaphore(_MOST_HANGING)
_T = TypeVar("_T")


class Completion(NamedTuple):
    """An answer: its text, how many words it has, and whether it had more."""

    text: str
    tokens: int
    truncated: bool


class Adapter(Protocol):
    """Who answers prompts; `generate` returns anything with a `text`."""

    def generate(self, prompt: str, *, max_tokens: int, temperature: float) -> Any:
        """Answer one prompt; whatever it raises is the reason for which the turn has no summary."""
        ...


class FixtureMissingError(BackendError):
    """The fixtures cannot be read, or have no answer for the prompt."""

    def __init__(self, message: str) -> None:
        super().__init__(message, stage="fixtures")


@dataclass(frozen=True, slots=True)
class FixturesAdapter:
    """Answers from a file of fixtures."""

    path: str

    def generate(self, prompt: str, *, max_tokens: int, temperature: float = 0.0) -> Completion:
        """Return the recorded answer, of `max_tokens` words at most. Raises FixtureMissingError."""
        if not self.path.strip():
            raise FixtureMissingError("t3.llm.fixtures.path is empty; name the file of fixtures")
        wanted = prompt_sha256(prompt)
        try:
            found = read_fixtures(Path(self.path)).get(wanted)
        except BackendError as error:
            raise FixtureMissingError(str(error)) from error
        if found is None:
            raise FixtureMissingError(f"{self.path} has no completion for the prompt {wanted}")
        text = clipped(found, max_tokens)
        return Completion(text, len(text.split()), len(text.split()) < len(found.split()))


AnyAdapter = Adapter | Callable[[str], str]


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


class OutOfTime(Exception):
    """The work was not done within its budget."""


def within(milliseconds: int, work: Callable[[], _T]) -> Future[_T]:
    """Return the work's result or its error. Raises OutOfTime, and RuntimeError where no thread can be started."""
    seconds = min(milliseconds, _LONGEST) / 1000
    end = time.monotonic() + seconds
    free = _free
    if not free.acquire(timeout=seconds):
        raise OutOfTime
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
            done.set_exception(error)
        finally:
            free.release()

    try:
        threading.Thread(target=copy_context().run, args=(run,), name="reflection", daemon=True).start()
    except RuntimeError:
        free.release()
        raise
    if not wait([done], max(end - time.monotonic(), 0)).done:
        raise OutOfTime
    return done


def think(bundle: ReflectionBundle, config: GatedConfig, *, adapter: AnyAdapter | None = None) -> ReflectionResult:
    """Reflect on a turn without a budget of time.

    Raises ValueError for fixtures that are not enabled and for a bad context, FixtureMissingError, and whatever the
    adapter raises.
    """
    _ = bundle.turn  # what is not a number is refused here, before an entry gets the id of turn 0
    metrics: dict[str, Any] = {"backend": config.backend}
    if config.backend == "rulebased":
        kept = len(used(bundle.snippets, config.topk_snippets))
        summary = summarize(bundle.utter, bundle.snippets, topk=config.topk_snippets, tokens=config.summary_tokens)
    else:
        kept = len(bundle.snippets[: config.topk_snippets])
        prompt = canonical_prompt(bundle, config)
        if adapter is None:
            if not config.fixtures.enabled:
                raise ValueError("the backend llm needs t3.llm.fixtures.enabled: true, or an adapter")
            adapter = FixturesAdapter(config.fixtures.path or "")
            metrics = {"backend": "llm-fixture", "fixture_key": prompt_sha256(prompt)[:12]}
        summary = answer(adapter, prompt, config.summary_tokens)
    metrics |= {"summary_len": len(summary.split()), "used_topk": kept, "embed": config.embed}
    metrics |= {"ops_cap": config.ops_reflection}
    return ReflectionResult(summary, entries(bundle, config, summary), metrics)


def answer(adapter: Adapter | Callable[[str], str], prompt: str, tokens: int) -> str:
    """Return an adapter's answer, clipped. Raises what the adapter raises, and FixtureMissingError for no words."""
    if hasattr(adapter, "generate"):
        said = adapter.generate(prompt, max_tokens=max(tokens, 0), temperature=0.0)
        text = getattr(said, "text", said)
    else:
        text = adapter(prompt)
    if not isinstance(text, str):
        raise TypeError(f"the adapter answered with {type(text).__name__}, not with a text")
    if not (summary := clipped(text, tokens)):
        raise FixtureMissingError(f"the answer to the prompt {prompt_sha256(prompt)} has no words")
    return summary


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


def log_record(
    config: GatedConfig,
    result: ReflectionResult,
    *,
    agent: str,
    turn: int,
    ops_written: int,
    reason: str | None = None,
) -> dict[str, Any]:
    """Return a turn's record: turn, agent, backend, summary_len, ops_written, embed, ms, reason, fixture_key."""
    record = {
        "turn": turn,
        "agent": agent,
        "backend": config.backend,
        "summary_len": len(result.summary.split()),
        "ops_written": ops_written,
        "embed": config.embed,
        "ms": shown_ms(result.ms),
        "reason": reason or result.reason,
    }
    key = result.metrics.get("fixture_key")
    return record if key is None else {**record, "fixture_key": key}


def shown_ms(ms: float) -> float:
    """Return milliseconds as a log shows them: 0.0 where the environment has CI=true."""
    return 0.0 if os.environ.get("CI", "").lower() == "true" else round(ms, 3)


def canonical_line(record: Mapping[str, Any]) -> str:
    """Return a record as its line, without the line's end: JSON in ASCII with sorted keys."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


class ReflectionLog:
    """The log in a file, which is made with its first record. Agents in several threads may share one."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.lost = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Write a record, whole and at once. Never raises: what cannot be written is counted in `lost`."""
        try:
            line = f"{canonical_line(record)}\n".encode()
            # Opening a pipe that nobody reads would wait for ever.
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_WAIT, 0o600)
            try:
                self.lost += os.write(fd, line) < len(line)
            finally:
                os.close(fd)
        except (OSError, TypeError, ValueError):  # a full disk, a folder that is not there, a NUL in the path
            self.lost += 1


#: Settings that ship with the package, by the name that `-c` takes.
EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent / "examples").glob("*.toml"))}
_MOST_BYTES = 1 << 20
_TURN = ReflectionBundle(
    ctx={},
    state_view={},
    plan={},
    utter="assistant: summary: . next: question",
    snippets=(
        "user asked to summarise prior step",
        "agent proposed next action planning",
        "note: constraints unchanged in this turn",
        "hint: prefer concise phrasing",
        "meta: deterministic test path",
    ),
)


def measure(config: GatedConfig, *, repeats: int = 1, raw_time: bool = False) -> dict[str, Any]:
    """Return the figures of the last of several reflections on the fixed turn, whether the gate is open or not."""
    for _ in range(max(repeats, 1)):
        result = reflect(_TURN, config)
    figures = {
        "allow_reflection": config.allow_reflection,
        "backend": config.backend,
        "embed": config.embed,
        "ms": shown_ms(result.ms) if raw_time else 0.0,
        "ops": len(result.memory_entries),
        "ops_cap": config.ops_reflection,
        "reason": result.reason,
        "summary_len": len(result.summary.split()),
        "time_budget_ms": config.time_ms_reflection,
        "tokens_budget": config.summary_tokens,
    }
    key = result.metrics.get("fixture_key")
    return figures if key is None else {**figures, "fixture_key": key}


def read_config(path: Path | str) -> GatedConfig:
    """Return the settings in a file of TOML or JSON, or in one of `EXAMPLES`; the gate is open unless it says no.

    A path of fixtures is one from here, or else from the file's folder. Raises ConfigError.
    """
    path = EXAMPLES.get(str(path)) or Path(path)
    mapping = _parsed(path) or {}
    if isinstance(mapping, dict) and isinstance(gate := mapping.get("t3") or {}, dict):
        mapping["t3"] = {"allow_reflection": True, **gate}
    try:
        config = load_config(mapping)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{path}: {fault}" for fault in str(error).split("\n"))) from error
    fixtures = config.fixtures
    if fixtures.path and not os.path.exists(fixtures.path):  # noqa: PTH110 - a NUL is no error here
        fixtures = replace(fixtures, path=str(path.parent / fixtures.path))
    return replace(config, fixtures=fixtures)


def _parsed(path: Path) -> Any:
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8-sig")
        return _PARSERS[path.suffix.lower()](text)
    except KeyError:
        raise ConfigError(f"{path} is none of {', '.join(_PARSERS)}; name the file by what it holds") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be parsed: {error}") from error


_PARSERS: dict[str, Callable[[str], Any]] = {".toml": parse_toml, ".json": json.loads}
