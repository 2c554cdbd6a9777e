"""Reflection as a step of your own agent loop, which can be switched off without a trace (docs/embedding.md): its
settings, the gate, a reflection within its budgets, its entries in the ledger and its line in the log; and the same on
a fixed turn, for a host that wants to know that its settings do what it thinks, and how fast.

Invariant: a turn is never harmed or changed. Whatever goes wrong is a reason in the result and in the log, and what
took too long writes nothing. With the gate closed nothing is read, made, written or logged. Secrets are gone before a
text is summarised, hashed or sent. A result depends on the turn and the settings alone, in every process, locale and
time zone; an entry is known by its agent, turn, slot and text, so writing it again adds nothing. A setting is
understood or refused, every fault in one error: nothing becomes a default or a zero. Keys that are not ours pass, but
for those of `t3.reflection`. Importing this loads no database, and it calls no network.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import reprlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.config import ConfigError
from reflector.files import read_bounded
from reflector.lessons.book import embed as embed
from reflector.locate import parse_toml
from reflector.mistakes import check_whole
from reflector.reflection.backends.fixtures import read_fixtures
from reflector.reflection.protocol import BackendError
from reflector.text.secrets import quote, redact

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

FILE_NAME = "t3_reflection.jsonl"
#: Where the log stands among the logs of a turn, for a host that flushes several of them together.
STAGE_ORDINAL = 10
_NO_TIME = "0000-00-00T00:00:00Z"
_log = logging.getLogger("reflector")
_PUNCTUATION = re.compile(r"[^\w\s]+")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")

_BACKENDS = ("rulebased", "llm")
_OWN = "t3.reflection"


@dataclass(frozen=True, slots=True)
class Fixtures:
    """Where the backend `llm` finds its recorded answers: `t3.llm.fixtures`."""

    enabled: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True)
class GatedConfig:
    """Every setting and its default, as `load_config` reads them; docs/embedding.md says what each means."""

    allow_reflection: bool = False
    backend: str = "rulebased"
    summary_tokens: int = 128
    embed: bool = True
    log: bool = True
    topk_snippets: int = 3
    time_ms_reflection: int = 6000
    ops_reflection: int = 5
    fixtures: Fixtures = field(default_factory=Fixtures)

    def __post_init__(self) -> None:
        if self.backend not in _BACKENDS:
            raise ConfigError(f"backend is {self.backend!r}; it must be one of {', '.join(_BACKENDS)}")
        for name in ("summary_tokens", "topk_snippets", "ops_reflection"):
            check_whole(name, getattr(self, name))
        check_whole("time_ms_reflection", self.time_ms_reflection, 1)


def load_config(mapping: Mapping[str, Any]) -> GatedConfig:
    """Return the settings of a host's configuration, as its YAML, TOML or JSON reads. Raises ConfigError, which is a
    ValueError, with a line for every fault."""
    faults: list[str] = []
    found: dict[str, Any] = {}
    for section, readers in _SECTIONS.items():
        for key, value in _section(mapping, section, faults).items():
            if key in readers:
                try:
                    found[key] = readers[key](value)
                except ValueError as error:
                    faults.append(f"{section}.{key} is {reprlib.repr(value)}; it {error}")
            elif section == _OWN:
                near = min((_distance(str(key), known), known) for known in readers)
                meant = f" (did you mean {near[1]!r})" if near[0] <= 2 else ""
                faults.append(f"{section}.{key}: unknown key{meant}")
    fixtures = Fixtures(found.pop("enabled", False), found.pop("path", None))
    if fixtures.enabled and fixtures.path is None:
        faults.append("t3.llm.fixtures.path must be a non-empty string where t3.llm.fixtures.enabled is true")
    if found.get("allow_reflection") and found.get("backend") == "llm" and not fixtures.enabled:
        faults.append("t3.reflection.backend is 'llm', which needs t3.llm.fixtures.enabled: true")
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return GatedConfig(**found, fixtures=fixtures)


def _section(mapping: Mapping[str, Any], section: str, faults: list[str]) -> Mapping[str, Any]:
    values, where = mapping, ""
    for part in section.split("."):
        values, where = values.get(part) or {}, f"{where}.{part}".lstrip(".")
        if not isinstance(values, Mapping):
            faults.append(f"{where} is {reprlib.repr(values)}; it takes a mapping")
            return {}
    return values


def _distance(one: str, other: str) -> int:
    """Return how many letters have to be added, removed or changed (Levenshtein)."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, start=1):
        last, row[0] = above - 1, above
        for index, wanted in enumerate(other, start=1):
            last, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, last + (letter != wanted))
    return row[-1]


def _flag(
    value: Any, true: Collection[str] = ("1", "true", "yes", "on"), false: Collection[str] = ("0", "false", "no", "off")
) -> bool:
    """Return a boolean, 0, 1 or one of these words as a boolean. Raises ValueError."""
    word = str(value).strip().lower() if isinstance(value, bool | int | str) else ""
    if word not in true and word not in false:
        raise ValueError("takes true or false")
    return word in true


def _from(least: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        try:
            number = math.floor(float("" if isinstance(value, bool) else value))
        except (TypeError, ValueError, OverflowError):
            raise ValueError("takes a whole number") from None
        if number < least:
            raise ValueError(f"must be >= {least}")
        return number

    return whole


def _backend(value: Any) -> str:
    if (name := str(value).strip().lower()) not in _BACKENDS:
        raise ValueError(f"must be one of {', '.join(_BACKENDS)}")
    return name


def _path(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a non-empty string")
    return value and value.strip()


#: How each key is read, by its section of the host's mapping.
_SECTIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "t3": {"allow_reflection": _flag},
    _OWN: {"backend": _backend, "summary_tokens": _from(0), "embed": _flag, "log": _flag, "topk_snippets": _from(0)},
    "t3.llm.fixtures": {"enabled": _flag, "path": _path},
    "scheduler.budgets": {"time_ms_reflection": _from(1), "ops_reflection": _from(0)},
}


@dataclass(frozen=True, slots=True)
class ReflectionBundle:
    """A turn that is over. A context, a plan or a state may be a mapping or an object with attributes.

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
        now, since = _of(self.ctx, "now_iso") or _of(self.ctx, "now"), _of(self.ctx, "now_ms")
        if now is None and since is not None:
            now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(since))
        if isinstance(now, datetime):
            return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return str(now or _NO_TIME)


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
        return self.metrics.get("reason")


@dataclass(frozen=True, slots=True)
class Written:
    """What became of entries.

    attempted  how many were given
    written    how many the ledger has because of this call
    known      how many it had already
    errors     `add_error[<slot>]:<type>` of each that it refused
    reason     ops_cap=0, index_missing or partial_failure; None where nothing went wrong
    ids        of the entries that the ledger has, in order
    """

    attempted: int
    written: int = 0
    known: int = 0
    errors: tuple[str, ...] = ()
    reason: str | None = None
    ids: tuple[str, ...] = ()


class Completion(NamedTuple):
    """An answer: its text, how many words it has, and whether it had more."""

    text: str
    tokens: int
    truncated: bool


class FixtureMissingError(Exception):
    """The fixtures cannot be read, or have no answer for the prompt."""


@dataclass(frozen=True, slots=True)
class FixturesAdapter:
    """Answers from a file of fixtures: `{"prompt_hash": <64 hex digits>, "completion": <text>}` on each line."""

    path: str

    def generate(self, prompt: str, *, max_tokens: int, temperature: float = 0.0) -> Completion:
        """Return the recorded answer, of `max_tokens` words at most. Raises FixtureMissingError."""
        wanted = prompt_sha256(prompt)
        try:
            found = read_fixtures(Path(self.path)).get(wanted)
        except BackendError as error:
            raise FixtureMissingError(str(error)) from error
        if found is None:
            raise FixtureMissingError(f"{self.path} has no completion for the prompt {wanted}")
        text = _clipped(found, max_tokens)
        return Completion(text, len(text.split()), len(text.split()) < len(found.split()))


def should_run(config: GatedConfig, plan: Any, state: Any = None, dry_run: bool = False) -> bool:
    """Return whether a turn is reflected on: allowed, asked for by the plan or the state, and not a dry run.

    A flag that is neither true nor false is logged, and asks for nothing.
    """
    is_allowed = config.allow_reflection and not dry_run
    return is_allowed and (_asks(plan, "reflection") or _asks(state, "_planner_reflection_flag"))


def plan_flag(value: object) -> bool:
    """Return a planner's flag: a boolean, 0 or 1, or a word for it; None is False. Raises ValueError."""
    try:
        return value is not None and _flag(value, _TRUE, _FALSE)
    except ValueError:
        raise ValueError(f"plan.reflection must be boolean, not {reprlib.repr(value)}") from None


def _of(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _asks(source: Any, name: str) -> bool:
    try:
        return plan_flag(_of(source, name))
    except ValueError as fault:
        _log.warning("%s", fault)
        return False


def canonical_prompt(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the prompt of the backend `llm`: JSON in ASCII with sorted keys. Raises ValueError for a bad turn."""
    asked = {
        "task": "reflect_summary",
        "version": 1,
        "agent": bundle.agent,
        "turn": bundle.turn,
        "summary_tokens": config.summary_tokens,
        "utter": _collapsed(bundle.utter),
        "snippets": [_collapsed(snippet) for snippet in bundle.snippets[: config.topk_snippets]],
        "plan_reflection": _asks(bundle.plan, "reflection"),
    }
    return canonical_line(asked)


def prompt_sha256(prompt: str) -> str:
    """Return the key of a prompt in a file of fixtures: SHA-256 in hex, over LF line ends."""
    return sha256(prompt.replace("\r\n", "\n").encode()).hexdigest()


def fixture_key(bundle: ReflectionBundle, config: GatedConfig) -> str:
    """Return the first 12 digits of the hash of a bundle's prompt. Raises ValueError for a bad turn."""
    return prompt_sha256(canonical_prompt(bundle, config))[:12]


def _used(snippets: Sequence[Any], topk: int) -> list[str]:
    """Return the texts among the first `topk` snippets."""
    return [snippet for snippet in snippets[: max(topk, 0)] if isinstance(snippet, str)]


def _collapsed(text: object) -> str:
    """Return a text without secrets, each run of white space one space; "" for what is empty or None."""
    return " ".join(redact(str(text)).split()) if text else ""


def _clipped(text: str, tokens: int) -> str:
    return " ".join(text.split()[: max(tokens, 0)])


def summarize(utterance: str, snippets: Sequence[Any] = (), *, topk: int = 3, tokens: int = 128) -> str:
    """Return the first `tokens` words of an utterance and of the first `topk` snippets, those that are texts."""
    pieces = (_PUNCTUATION.sub(" ", _collapsed(text).lower()) for text in (utterance, *_used(snippets, topk)))
    return _clipped(" ".join(pieces), tokens)


def think(bundle: ReflectionBundle, config: GatedConfig, *, adapter: Any = None) -> ReflectionResult:
    """Reflect on a turn without a budget of time; the gate is not asked.

    adapter  who answers the backend `llm`, in place of the file of fixtures: `generate(prompt, *, max_tokens,
             temperature)` returns something with a `text`, or a function from the prompt to a text
    Raises ValueError for fixtures that are not enabled and for a bad context, FixtureMissingError, and whatever the
    adapter raises.
    """
    _ = bundle.turn  # what is not a number is refused here, before an entry gets the id of turn 0
    metrics: dict[str, Any] = {"backend": config.backend}
    if config.backend == "rulebased":
        kept = len(_used(bundle.snippets, config.topk_snippets))
        summary = summarize(bundle.utter, bundle.snippets, topk=config.topk_snippets, tokens=config.summary_tokens)
    else:
        kept = len(bundle.snippets[: config.topk_snippets])
        prompt = canonical_prompt(bundle, config)
        if adapter is None:
            if not config.fixtures.enabled:
                raise ValueError("the backend llm needs t3.llm.fixtures.enabled: true, or an adapter")
            adapter = FixturesAdapter(config.fixtures.path or "")
            metrics = {"backend": "llm-fixture", "fixture_key": prompt_sha256(prompt)[:12]}
        if hasattr(adapter, "generate"):
            said = adapter.generate(prompt, max_tokens=config.summary_tokens, temperature=0.0).text
        else:
            said = adapter(prompt)
        if not isinstance(said, str):
            raise TypeError(f"the adapter answered with {type(said).__name__}, not with a text")
        if not (summary := _clipped(said, config.summary_tokens)):
            raise FixtureMissingError(f"the answer to the prompt {prompt_sha256(prompt)} has no words")
    metrics |= {"summary_len": len(summary.split()), "used_topk": kept, "embed": config.embed}
    metrics |= {"ops_cap": config.ops_reflection}
    entry: dict[str, Any] = {"owner": bundle.agent, "ts": bundle.time, "text": summary}
    entry |= {"tags": ["reflection"], "kind": "summary"}
    if config.embed and summary:
        with suppress(UnicodeEncodeError):
            entry["vec_full"] = [round(value, 6) for value in embed(summary)]
    return ReflectionResult(summary, [entry] if config.ops_reflection else [], metrics)


def reflect(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    adapter: Any = None,
    clock: Callable[[], float] = time.monotonic,
) -> ReflectionResult:
    """Reflect on a turn as `think` does, within its time. Never raises: what failed is the result's reason.

    A reflection that took too long keeps its summary and loses its entries; `clock` gives seconds.
    """
    begun = clock()
    try:
        result = think(bundle, config, adapter=adapter)
    except Exception as error:  # noqa: BLE001 - a reflection is an extra: the turn goes on
        reason = f"reflect_error:{type(error).__name__}"
        _log.warning("no reflection on this turn (%s): %s", reason, quote(str(error), 300))
        result = ReflectionResult("", [], {"backend": config.backend, "reason": reason})
    ms = (clock() - begun) * 1000
    if ms > config.time_ms_reflection and result.reason is None:
        result = ReflectionResult(result.summary, [], {**result.metrics, "reason": "reflection_timeout"})
    return replace(result, ms=ms)


def after_turn(
    bundle: ReflectionBundle,
    config: GatedConfig,
    *,
    ledger: Ledger | None = None,
    log: ReflectionLog | None = None,
    adapter: Any = None,
    clock: Callable[[], float] = time.monotonic,
) -> ReflectionResult | None:
    """Do the whole step after a turn was applied, and return as `reflect` does; None where the gate is closed.

    The entries are appended to the ledger, and a record of the turn to the log, where there is one.
    """
    if not should_run(config, bundle.plan, bundle.state_view, bool(_of(bundle.ctx, "_dry_run_until_t4"))):
        return None
    result, turn = reflect(bundle, config, adapter=adapter, clock=clock), 0
    with suppress(ValueError):  # then it is the result's reason
        turn = bundle.turn
    report = write_entries(ledger, result.memory_entries, ops_cap=config.ops_reflection, turn=turn)
    if report.reason and not result.reason:
        result = replace(result, metrics={**result.metrics, "reason": report.reason})
    if log is not None and config.log:
        log.add(log_record(config, result, agent=bundle.agent, turn=turn, ops_written=report.written))
    return result


def entry_id(agent: str, turn: int, slot: int, text: str) -> str:
    """Return the id of an entry: `refl-{turn}-{agent}-{slot}-` and 12 digits of a hash of all four."""
    digest = sha256(f"{agent}|{turn}|{slot}|{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"refl-{turn}-{agent}-{slot}-{digest[:12]}"


def _record(entry: Mapping[str, Any], *, turn: int, slot: int) -> dict[str, Any]:
    """Return an entry as it is kept, its keys in order: id, owner, ts, kind, tags, text, vec_full."""
    owner, text = redact(str(entry.get("owner") or "unknown")), redact(entry.get("text", "")).strip()
    kept = {
        "id": entry_id(owner, turn, slot, text),
        "owner": owner,
        "ts": str(entry.get("ts") or _NO_TIME),
        "kind": entry.get("kind") or "summary",
        "tags": list(entry.get("tags") or ["reflection"]),
        "text": text,
    }
    return {**kept, "vec_full": entry["vec_full"]} if entry.get("vec_full") else kept


def write_entries(
    ledger: Ledger | None, entries: Sequence[Mapping[str, Any]], *, ops_cap: int, turn: int = 0
) -> Written:
    """Append the first `ops_cap` entries of a turn to the ledger. Never raises: what it refused is in the report."""
    if ops_cap <= 0:
        return Written(len(entries), reason="ops_cap=0")
    if ledger is None:
        return Written(len(entries), reason="index_missing")
    added: dict[str, bool] = {}
    errors: list[str] = []
    for slot, entry in enumerate(entries[:ops_cap]):
        try:
            kept = _record(entry, turn=turn, slot=slot)
            added[kept["id"]] = _append(ledger, kept, turn, slot)
        except Exception as error:  # noqa: BLE001 - the others are still written, and the turn goes on
            errors.append(f"add_error[{slot}]:{type(error).__name__}")
    written, reason = sum(added.values()), "partial_failure" if errors else None
    return Written(len(entries), written, len(added) - written, tuple(errors), reason, tuple(added))


def _append(ledger: Ledger, kept: Mapping[str, Any], turn: int, slot: int) -> bool:
    """Append an entry as a lesson; return whether the ledger did not have it. Raises LedgerError."""
    from reflector.ledger.errors import Conflict
    from reflector.lessons.recording import lesson_event

    more = {name: kept[name] for name in ("owner", "ts", "tags")}
    # A vector follows from its text, so only that there is one is a fact.
    more |= {"entry": kept["id"], "turn": turn, "slot": slot, "embed": "vec_full" in kept}
    event = lesson_event(kept["kind"], kept["text"], actor="agent", key=[kept["id"]], **more)
    try:
        return ledger.append([event])[0].added
    except Conflict:  # the same words of the same turn, at another time: the first record stands
        return False


def log_record(
    config: GatedConfig, result: ReflectionResult, *, agent: str, turn: int, ops_written: int
) -> dict[str, Any]:
    """Return a turn's record: turn, agent, backend, summary_len, ops_written, embed, ms, reason, fixture_key."""
    about = {"turn": turn, "agent": agent, "ops_written": ops_written, "ms": _shown_ms(result.ms)}
    return about | _figures(config, result)


def _figures(config: GatedConfig, result: ReflectionResult) -> dict[str, Any]:
    """Return what a log and a measure both say of a result."""
    key = {name: value for name, value in result.metrics.items() if name == "fixture_key"}
    length = len(result.summary.split())
    return {"backend": config.backend, "embed": config.embed, "summary_len": length, "reason": result.reason, **key}


def _shown_ms(ms: float) -> float:
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
            line = f"{canonical_line(record)}\n"
            with self.path.open("a", encoding="ascii") as file:
                file.write(line)
        except (OSError, TypeError, ValueError):  # a full disk, a folder that is not there
            self.lost += 1


#: Settings that ship with the package, by the name that `-c` takes.
_EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent / "examples").glob("*.toml"))}
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
    return _figures(config, result) | {
        "allow_reflection": config.allow_reflection,
        "ms": _shown_ms(result.ms) if raw_time else 0.0,
        "ops": len(result.memory_entries),
        "ops_cap": config.ops_reflection,
        "time_budget_ms": config.time_ms_reflection,
        "tokens_budget": config.summary_tokens,
    }


def read_config(path: Path | str) -> GatedConfig:
    """Return the settings in a file of TOML or JSON, or in one of `_EXAMPLES`; the gate is open unless it says no.

    A path of fixtures is one from the file's folder. Raises ConfigError.
    """
    path = _EXAMPLES.get(str(path)) or Path(path)
    try:
        text = read_bounded(path, 1 << 20).decode("utf-8-sig")
        mapping = json.loads(text) if path.suffix.lower() == ".json" else parse_toml(text)
        if not isinstance(mapping, dict):
            raise ConfigError("the settings are not a table")
        config = load_config(mapping)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error
    is_open = (mapping.get("t3") or {}).get("allow_reflection") is None or config.allow_reflection
    beside = config.fixtures.path and str(path.parent / config.fixtures.path)
    return replace(config, allow_reflection=is_open, fixtures=replace(config.fixtures, path=beside))
