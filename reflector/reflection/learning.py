"""What a model says that a playbook lacks, read from the answer in which it judges.

Invariant: a proposal without a quote that stands in the one turn that it names is dropped, and so is one that quotes
the playbook. Whose words it quotes is found here, never believed. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from reflector.playbook.names import SECTIONS
from reflector.reflection.answers import MAX_QUOTE, ParsedTag, find_answer
from reflector.reflection.evidence import grounds
from reflector.text.secrets import quote
from reflector.transcripts.message import Message

#: The most proposals of one answer, and the characters of a text.
MOST_PROPOSED: Final = 10
MOST_TEXT: Final = 500


def learned_in(answer: str, messages: Iterable[Message], advice: Collection[str]) -> list[dict[str, Any]]:
    """Return the proposals of an answer, as the event of its reading keeps them; `messages` as for `grounds`."""
    found = (find_answer(answer, ("bullet_tags", "proposals")).value or {}).get("proposals")
    read = [one for one in map(_read, found[:MOST_PROPOSED] if isinstance(found, list) else ()) if one]
    if not read:
        return []
    quoted = [ParsedTag(n, None, None, turn=one["turn"], quote=one["quote"]) for n, one in enumerate(read)]
    rest = grounds(quoted, messages, (), advice, ())
    words = [rest[number].words for number in range(len(read))]
    return [one | {"words": whose} for one, whose in zip(read, words, strict=True) if whose not in ("", "playbook")]


def _read(entry: object) -> dict[str, Any] | None:
    """Return one proposal, None where it cannot be understood."""
    if not isinstance(entry, Mapping):
        return None
    kind, section, name, turn = map(entry.get, ("kind", "section", "name", "turn"))
    text, why, words = (value if isinstance(value := entry.get(key), str) else "" for key in ("text", "why", "quote"))
    is_whole = text.strip() and len(text) <= MOST_TEXT and section in SECTIONS and words.strip()
    if not is_whole or type(turn) is not int or kind not in ("add", "supersede"):
        return None
    if kind == "supersede" and not isinstance(name, str):
        return None
    of = str(name).strip("[] ") if kind == "supersede" else None
    said = {"text": quote(text, MOST_TEXT), "why": quote(why, MOST_TEXT), "quote": quote(words, MAX_QUOTE)}
    return {"kind": kind, "name": of, "section": section, "turn": turn, **said}
