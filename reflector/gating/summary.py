"""The summary of a turn, by rules, and the entry of memory that it becomes.

Invariant: the words depend on the texts and the limits alone, in every process, locale and time zone. They are the
first words of what was said, in lower case and without punctuation; nothing is added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from reflector.gating.bundle import ReflectionBundle, collapsed
from reflector.gating.config import GatedConfig
from reflector.lessons.embedding import embed

_PUNCTUATION = re.compile(r"[^\w\s]+")


def used(snippets: Sequence[Any], topk: int) -> list[str]:
    """Return the texts among the first `topk` snippets."""
    return [snippet for snippet in snippets[: max(topk, 0)] if isinstance(snippet, str)]


def summarize(utterance: str, snippets: Sequence[Any] = (), *, topk: int = 3, tokens: int = 128) -> str:
    """Return the first `tokens` words of an utterance and of the first `topk` snippets, those that are texts."""
    pieces = [_plain(text) for text in (utterance, *used(snippets, topk))]
    return clipped(" ".join(filter(None, pieces)), tokens)


def clipped(text: str, tokens: int) -> str:
    """Return the first words of a text, joined by single spaces; "" for no words."""
    return " ".join(text.split()[: max(tokens, 0)])


def entries(bundle: ReflectionBundle, config: GatedConfig, summary: str) -> list[dict[str, Any]]:
    """Return the entries that a summary becomes: one, or none where none may be written. Raises OverflowError."""
    if config.ops_reflection <= 0:
        return []
    entry = {"owner": bundle.agent, "ts": bundle.time, "text": summary, "tags": ["reflection"], "kind": "summary"}
    vector = _vector(summary) if config.embed else None
    return [entry if vector is None else {**entry, "vec_full": vector}]


def _plain(text: str) -> str:
    return " ".join(_PUNCTUATION.sub(" ", collapsed(text).lower()).split())


def _vector(text: str) -> list[float] | None:
    """A text's vector, rounded as it is kept; None where it has none."""
    try:
        return [round(value, 6) for value in embed(text)] if text else None
    except UnicodeEncodeError:
        return None
