"""A turn of the host: whether it is reflected on, its prompt, its summary by rules, and the entries that this becomes.

Invariant: nothing here changes what it reads. A context, a plan or a state may be a mapping or an object with
attributes; what is missing has one default. Secrets are gone before a text is summarised, hashed or sent. A summary
depends on the texts and the limits alone, in every process, locale and time zone. An entry is known by its agent, turn,
slot and text, so writing it again adds nothing, and what is reported as written was written.
"""

from __future__ import annotations

import json
import logging
import re
import reprlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reflector.gating.config import GatedConfig, flag
from reflector.lessons.outcomes import embed
from reflector.text.secrets import redact

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

NO_TIME = "0000-00-00T00:00:00Z"
_log = logging.getLogger("reflector")
_PUNCTUATION = re.compile(r"[^\w\s]+")
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

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON has it, the same for the same inputs."""
        return {"summary": self.summary, "memory_entries": self.memory_entries, "metrics": self.metrics}


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


def used(snippets: Sequence[Any], topk: int) -> list[str]:
    """Return the texts among the first `topk` snippets."""
    return [snippet for snippet in snippets[: max(topk, 0)] if isinstance(snippet, str)]


def summarize(utterance: str, snippets: Sequence[Any] = (), *, topk: int = 3, tokens: int = 128) -> str:
    """Return the first `tokens` words of an utterance and of the first `topk` snippets, those that are texts."""
    pieces = (_PUNCTUATION.sub(" ", collapsed(text).lower()) for text in (utterance, *used(snippets, topk)))
    return clipped(" ".join(pieces), tokens)


def clipped(text: str, tokens: int) -> str:
    """Return the first words of a text, joined by single spaces; "" for no words."""
    return " ".join(text.split()[: max(tokens, 0)])


def entries(bundle: ReflectionBundle, config: GatedConfig, summary: str) -> list[dict[str, Any]]:
    """Return the entries that a summary becomes: one, or none where none may be written. Raises OverflowError."""
    if config.ops_reflection <= 0:
        return []
    said = {"text": summary, "tags": ["reflection"], "kind": "summary"}
    entry: dict[str, Any] = {"owner": bundle.agent, "ts": bundle.time, **said}
    if config.embed and summary:
        with suppress(UnicodeEncodeError):
            entry["vec_full"] = [round(value, 6) for value in embed(summary)]
    return [entry]


def entry_id(agent: str, turn: int, slot: int, text: str) -> str:
    """Return the id of an entry: `refl-{turn}-{agent}-{slot}-` and 12 digits of a hash of all four."""
    digest = sha256(f"{agent}|{turn}|{slot}|{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"refl-{turn}-{agent}-{slot}-{digest[:12]}"


def record(entry: Mapping[str, Any], *, turn: int, slot: int) -> dict[str, Any]:
    """Return an entry as it is kept, its keys in order: id, owner, ts, kind, tags, text, vec_full.

    Raises TypeError for a text that is not one.
    """
    text, owner = entry.get("text", ""), redact(str(entry.get("owner") or "unknown"))
    if not isinstance(text, str):
        raise TypeError(f"the text of entry {slot} is {type(text).__name__}")
    text = redact(text).strip()
    kept = {
        "id": entry_id(owner, turn, slot, text),
        "owner": owner,
        "ts": str(entry.get("ts") or NO_TIME),
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
            kept = record(entry, turn=turn, slot=slot)
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
