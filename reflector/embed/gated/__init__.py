"""Reflection as an optional step of your own agent loop (docs/embedding.md): the gate, a reflection
within its budgets, its entries in the ledger and its line in the log. The same runs on a fixed
turn, so that a host can check the effect and the speed of its settings.

Invariant: a turn is never harmed or changed. Every failure is a reason in the result and in the
log, and a step that took too long writes nothing. If the gate is closed, nothing is read, made,
written or logged. Secrets are removed before a text is summarised, hashed or sent. A result depends
only on the turn and the settings, in every process, locale and time zone. Its agent, turn, slot and
text identify an entry, so writing it again adds nothing. Importing this package loads no database
and uses no network.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.embed.gated.log import (
    RecordLog,
    canonical_line,
    log_record,
    result_figures,
    shown_ms,
)
from reflector.embed.gated.settings import GatedConfig
from reflector.embed.gated.turn import (
    NO_TIME,
    ReflectionBundle,
    ReflectionResult,
    asks,
    should_run,
)
from reflector.embed.lessons.book import embed
from reflector.judges.backends.fixtures import read_fixtures
from reflector.judges.protocol import BackendError
from reflector.text.secrets import quote, redact

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

_log = logging.getLogger("reflector")
_PUNCTUATION = re.compile(r"[^\w\s]+")


@dataclass(frozen=True, slots=True)
class Written:
    """The report of a call of `write_entries`.

    attempted  how many entries the call got
    written    how many entries the call added to the ledger
    known      how many entries were in the ledger already
    errors     `add_error[<slot>]:<type>` of each entry that the ledger refused
    reason     ops_cap=0, index_missing or partial_failure; None without a problem
    ids        of the entries that are in the ledger now, in order
    """

    attempted: int
    written: int = 0
    known: int = 0
    errors: tuple[str, ...] = ()
    reason: str | None = None
    ids: tuple[str, ...] = ()


class Completion(NamedTuple):
    """An answer: its text, its number of words, and whether it was cut."""

    text: str
    tokens: int
    truncated: bool


class FixtureMissingError(Exception):
    """The fixtures cannot be read, or do not have an answer for the prompt."""


@dataclass(frozen=True, slots=True)
class FixturesAdapter:
    """An adapter that answers from a file of fixtures. Each line is `{"prompt_hash": <64 hex
    digits>, "completion": <text>}`.
    """

    path: str

    def generate(self, prompt: str, *, max_tokens: int, temperature: float = 0.0) -> Completion:
        """Return the recorded answer, cut to `max_tokens` words.

        Raises:
            FixtureMissingError: the file cannot be read, or does not have an answer for the prompt.
        """
        prompt_hash = prompt_sha256(prompt)
        try:
            recorded = read_fixtures(Path(self.path)).get(prompt_hash)
        except BackendError as error:
            raise FixtureMissingError(str(error)) from error
        if recorded is None:
            raise FixtureMissingError(
                f"{self.path} does not contain a completion for the prompt {prompt_hash}"
            )
        text = _clipped(recorded, max_tokens)
        tokens = len(text.split())
        return Completion(text, tokens, tokens < len(recorded.split()))


def canonical_prompt(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the prompt of the backend `llm`: JSON in ASCII with sorted keys.

    Raises:
        ValueError: the turn is not a number.
    """
    request = {
        "task": "reflect_summary",
        "version": 1,
        "agent": bundle.agent,
        "turn": bundle.turn,
        "summary_tokens": config.summary_tokens,
        "utter": _collapsed(bundle.utter),
        "snippets": [_collapsed(snippet) for snippet in bundle.snippets[: config.topk_snippets]],
        "plan_reflection": asks(bundle.plan, "reflection"),
    }
    return canonical_line(request)


def prompt_sha256(prompt: str) -> str:
    """Return the key of a prompt in a file of fixtures: SHA-256 in hex, over LF line ends."""
    return sha256(prompt.replace("\r\n", "\n").encode()).hexdigest()


def fixture_key(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the first 12 digits of the hash of a bundle's prompt.

    Raises:
        ValueError: the turn is not a number.
    """
    return prompt_sha256(canonical_prompt(bundle, config))[:12]


def _used(snippets: Sequence[Any], topk: int) -> list[str]:
    """Return the texts among the first `topk` snippets."""
    return [snippet for snippet in snippets[: max(topk, 0)] if isinstance(snippet, str)]


def _collapsed(text: object) -> str:
    """Return a text without secrets and with single spaces; "" for None or an empty value."""
    return " ".join(redact(str(text)).split()) if text else ""


def _clipped(text: str, tokens: int) -> str:
    return " ".join(text.split()[: max(tokens, 0)])


def summarize(
    utterance: str, snippets: Sequence[Any] = (), *, topk: int = 3, tokens: int = 128
) -> str:
    """Return the first `tokens` words of an utterance and the first `topk` snippets. Snippets that
    are not text are ignored.
    """
    pieces = (
        _PUNCTUATION.sub(" ", _collapsed(text).lower())
        for text in (utterance, *_used(snippets, topk))
    )
    return _clipped(" ".join(pieces), tokens)


def think(
    bundle: ReflectionBundle, config: GatedConfig, *, adapter: Any = None
) -> ReflectionResult:
    """Reflect on a turn without a time limit and without asking the gate.

    adapter  answers for the backend `llm` instead of the file of fixtures: an object whose
             `generate(prompt, *, max_tokens, temperature)` returns something with a `text`, or a
             function from the prompt to a text

    Raises: ValueError if fixtures are not enabled or the context is bad, FixtureMissingError, and
    any error of the adapter.
    """
    _ = bundle.turn  # a turn that is not a number is refused before an entry gets the id of turn 0
    metrics: dict[str, Any] = {"backend": config.backend}
    if config.backend == "rulebased":
        used = len(_used(bundle.snippets, config.topk_snippets))
        summary = summarize(
            bundle.utter, bundle.snippets, topk=config.topk_snippets, tokens=config.summary_tokens
        )
    else:
        used = len(bundle.snippets[: config.topk_snippets])
        prompt = canonical_prompt(bundle, config)
        if adapter is None:
            adapter = _fixtures_of(config)
            metrics = {"backend": "llm-fixture", "fixture_key": prompt_sha256(prompt)[:12]}
        summary = _answered_summary(adapter, prompt, config.summary_tokens)
    metrics |= {
        "summary_len": len(summary.split()),
        "used_topk": used,
        "embed": config.embed,
        "ops_cap": config.ops_reflection,
    }
    entry: dict[str, Any] = {
        "owner": bundle.agent,
        "ts": bundle.time,
        "text": summary,
        "tags": ["reflection"],
        "kind": "summary",
    }
    if config.embed and summary:
        with suppress(UnicodeEncodeError):
            entry["vec_full"] = [round(value, 6) for value in embed(summary)]
    return ReflectionResult(summary, [entry] if config.ops_reflection else [], metrics)


def _fixtures_of(config: GatedConfig) -> FixturesAdapter:
    if not config.fixtures.enabled:
        raise ValueError("the backend llm needs an adapter, or t3.llm.fixtures.enabled: true")
    return FixturesAdapter(config.fixtures.path or "")


def _answered_summary(adapter: Any, prompt: str, tokens: int) -> str:
    """Return the first `tokens` words of an adapter's answer, which must not be empty."""
    if hasattr(adapter, "generate"):
        answer = adapter.generate(prompt, max_tokens=tokens, temperature=0.0).text
    else:
        answer = adapter(prompt)
    if not isinstance(answer, str):
        raise TypeError(f"the adapter answered with {type(answer).__name__}, not with text")
    summary = _clipped(answer, tokens)
    if not summary:
        raise FixtureMissingError(f"the answer to the prompt {prompt_sha256(prompt)} is empty")
    return summary


def reflect(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    adapter: Any = None,
    clock: Callable[[], float] = time.monotonic,
) -> ReflectionResult:
    """Reflect on a turn as `think` does, within its time limit. It never raises: the result's
    reason names the error.

    A reflection that took too long keeps its summary and loses its entries. `clock` returns
    seconds.
    """
    begun = clock()
    try:
        result = think(bundle, config, adapter=adapter)
    except Exception as error:  # noqa: BLE001 - a reflection is an extra: the turn continues
        reason = f"reflect_error:{type(error).__name__}"
        _log.warning(
            "reflector did not reflect on this turn (%s): %s", reason, quote(str(error), 300)
        )
        result = ReflectionResult("", [], {"backend": config.backend, "reason": reason})
    ms = (clock() - begun) * 1000
    if ms > config.time_ms_reflection and result.reason is None:
        result = ReflectionResult(
            result.summary, [], {**result.metrics, "reason": "reflection_timeout"}
        )
    return replace(result, ms=ms)


def after_turn(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    ledger: Ledger | None = None,
    log: RecordLog | None = None,
    adapter: Any = None,
    clock: Callable[[], float] = time.monotonic,
) -> ReflectionResult | None:
    """Do the whole step after a turn was applied, and return the result of `reflect`; None if the
    gate is closed.

    The entries are appended to the ledger, and a record of the turn to the log, if these are given.
    """
    if not should_run(config, bundle.plan, bundle.state_view, bundle.is_dry_run):
        return None
    result = reflect(bundle, config, adapter=adapter, clock=clock)
    turn = 0
    with suppress(ValueError):  # the result's reason shows this error
        turn = bundle.turn
    report = write_entries(ledger, result.memory_entries, ops_cap=config.ops_reflection, turn=turn)
    if report.reason and not result.reason:
        result = replace(result, metrics={**result.metrics, "reason": report.reason})
    if log is not None and config.log:
        record = log_record(
            config, result, agent=bundle.agent, turn=turn, ops_written=report.written
        )
        try:
            log.add(record)
        except Exception as error:  # noqa: BLE001 - a host's own log, and the turn continues
            _log.warning("reflector could not write a turn to the log: %s", quote(str(error), 300))
    return result


def entry_id(agent: str, turn: int, slot: int, text: str) -> str:
    """Return the id of an entry: `refl-{turn}-{agent}-{slot}-` and 12 digits of a hash of all
    four.
    """
    digest = sha256(f"{agent}|{turn}|{slot}|{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"refl-{turn}-{agent}-{slot}-{digest[:12]}"


def _record(entry: Mapping[str, Any], *, turn: int, slot: int) -> dict[str, Any]:
    """Return an entry as it is stored, with its keys in this order: id, owner, ts, kind, tags,
    text, vec_full.
    """
    owner = redact(str(entry.get("owner") or "unknown"))
    text = redact(entry.get("text", "")).strip()
    record = {
        "id": entry_id(owner, turn, slot, text),
        "owner": owner,
        "ts": str(entry.get("ts") or NO_TIME),
        "kind": entry.get("kind") or "summary",
        "tags": list(entry.get("tags") or ["reflection"]),
        "text": text,
    }
    if entry.get("vec_full"):
        record["vec_full"] = entry["vec_full"]
    return record


def write_entries(
    ledger: Ledger | None, entries: Sequence[Mapping[str, Any]], *, ops_cap: int, turn: int = 0
) -> Written:
    """Append the first `ops_cap` entries of a turn to the ledger.

    It never raises, because refused entries are in the report.
    """
    if ops_cap <= 0:
        return Written(len(entries), reason="ops_cap=0")
    if ledger is None:
        return Written(len(entries), reason="index_missing")
    added: dict[str, bool] = {}
    errors: list[str] = []
    for slot, entry in enumerate(entries[:ops_cap]):
        try:
            record = _record(entry, turn=turn, slot=slot)
            added[record["id"]] = _append(ledger, record, turn, slot)
        except Exception as error:  # noqa: BLE001 - the others are written, and the turn continues
            errors.append(f"add_error[{slot}]:{type(error).__name__}")
    written = sum(added.values())
    return Written(
        len(entries),
        written,
        known=len(added) - written,
        errors=tuple(errors),
        reason="partial_failure" if errors else None,
        ids=tuple(added),
    )


def _append(ledger: Ledger, record: Mapping[str, Any], turn: int, slot: int) -> bool:
    """Append an entry as a lesson, and return whether it is new.

    Raises: LedgerError.
    """
    from reflector.embed.lessons.recording import lesson_event
    from reflector.ledger.errors import Conflict

    event = lesson_event(
        record["kind"],
        record["text"],
        actor="agent",
        key=[record["id"]],
        owner=record["owner"],
        ts=record["ts"],
        tags=record["tags"],
        entry=record["id"],
        turn=turn,
        slot=slot,
        embed="vec_full" in record,  # a vector follows from its text, and is not stored
    )
    try:
        return ledger.append([event])[0].added
    except Conflict:  # the same words of the same turn, at another time: the first record stands
        return False


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
    """Return the figures of the last of several reflections on the fixed turn. The gate is not
    asked.
    """
    for _ in range(max(repeats, 1)):
        result = reflect(_TURN, config)
    return result_figures(config, result) | {
        "allow_reflection": config.allow_reflection,
        "ms": shown_ms(result.ms) if raw_time else 0.0,
        "ops": len(result.memory_entries),
        "ops_cap": config.ops_reflection,
        "time_budget_ms": config.time_ms_reflection,
        "tokens_budget": config.summary_tokens,
    }
