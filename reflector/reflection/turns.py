"""One message as the turn that a model reads, whole or cut.

Invariant: nothing vanishes without a count. Every character of a message is either in its turn or in what the
turn says it left out; the last strength makes any message small, and a citation outlives every cut.

Three strengths are tried in order. First nothing is cut; then thinking goes and tool output is cut; then words are cut
too, around the citations they hold, and tools go, by half again and again until the message fits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from reflector.reflection.token_estimate import units
from reflector.text.bounds import encodable, head_and_tail, shortened_output
from reflector.transcripts.citations import CITATION, citations_of
from reflector.transcripts.message import Message

_PLAIN_ORIGINS = frozenset({"model", "human", "tool"})
#: Longer digit strings are no bullet's name.
_LONGEST_NAME = 68

_encode = json.JSONEncoder(indent=2, ensure_ascii=False).encode
#: Writes in C what `_encode` writes in Python, with a line for each item as deep as a turn without nested
#: inputs goes; only the line breaks inside brackets are missing, of which each pair takes this.
_encode_flat = json.JSONEncoder(ensure_ascii=False, separators=(",\n" + " " * 10, ": ")).encode
_BRACKETS = 2 * units("\n" + " " * 10 + "x")


class Strength(NamedTuple):
    """What is left of a message, in characters: its text, each tool output, each string of a tool's input,
    thinking around a citation; and how many tool calls and results. None: all of it."""

    text: int | None = None
    output: int | None = None
    argument: int | None = None
    thinking: int | None = None
    items: int | None = None

    def harder(self) -> Strength | None:
        """Return the next one, None behind the last: `SMALL`, then the half of it, again and again."""
        if self.text is None:
            return SMALL
        return Strength(*(most // 2 for most in self if most is not None)) if self.text >= _LEAST_TEXT else None


#: Nothing is cut; thinking goes and tool output is cut; words and tools are cut too.
WHOLE = Strength()
LIGHT = Strength(output=500, argument=200, thinking=300)
SMALL = Strength(text=2_000, output=300, argument=120, thinking=200, items=8)
_LEAST_TEXT = 16


class Volume(NamedTuple):
    """Characters of a message: visible words, tools (outputs and the strings of inputs), thinking."""

    characters: int = 0
    tool_characters: int = 0
    thinking_characters: int = 0


class Turn(NamedTuple):
    """`data` is what JSON is made of, `shown` what of the message stands in it, marks not counted."""

    data: dict[str, Any]
    shown: Volume

    @property
    def size(self) -> int:
        """Units that the turn takes at most in a list of turns, its share of brackets and commas included."""
        return size_of(self.data)


def size_of(data: dict[str, Any]) -> int:
    """Most units of a turn's data in a list that is written with an indent of 2."""
    calls, results = data.get("tool_calls", ()), data.get("tool_results", ())
    for call in calls:
        if any(isinstance(value, dict | list) for value in call["input"].values()):
            return units(_encode([data]))
    pairs = 2 + (1 + 2 * len(calls) if calls else 0) + (1 + len(results) if results else 0)
    return units(_encode_flat([data])) + _BRACKETS * pairs


def gap(turns: int) -> dict[str, Any]:
    """Return the note in place of turns that were left out."""
    return {"note": f"… {turns} {_turns(turns)} left out …"}


def elsewhere(turns: int, where: str) -> dict[str, Any]:
    """Return the note in place of turns of other parts; `where` is before or after."""
    return {"note": f"… {turns} {_turns(turns)} {where} this, judged in other parts …"}


def _turns(count: int) -> str:
    return "turn" if count == 1 else "turns"


#: Most units that these two take: a window of a billion turns would not fit a disk.
GAP = size_of(gap(10**9))
ELSEWHERE = size_of(elsewhere(10**9, "before"))


def volume(message: Message) -> Volume:
    """Everything there is of a message."""
    tools = sum(len(result.text) for result in message.results)
    for call in message.calls:
        tools += sum(map(len, _strings(call.input)))
    return Volume(len(message.text), tools, len(message.thinking))


def cites(message: Message, cited: Collection[str]) -> list[str]:
    """Return the names of `cited` that a message cites."""
    return [name for name in citations_of(message) if name in cited] if cited else []


def speaks(message: Message, cited: Collection[str]) -> bool:
    """Return whether there is more than thinking, or thinking that cites: a turn that stays when thinking goes."""
    if message.text or message.calls or message.results:
        return True
    return bool(message.thinking) and bool(cites(message, cited))


def turn_of(message: Message, cited: Collection[str], strength: Strength) -> Turn:
    """Return the message as a turn, cut by a strength."""
    content, words = _excerpt(message.text, cited, strength.text)
    data: dict[str, Any] = {"role": message.role, "content": content}
    thinking = 0
    if strength.thinking is None:
        if message.thinking:
            data["thinking"] = encodable(message.thinking)
            thinking = len(message.thinking)
    elif message.thinking and cites(message, cited):
        data["thinking"], thinking = _around(message.thinking, cited, strength.thinking)
    calls, results = message.calls[: strength.items], message.results[: strength.items]
    tools = 0
    if calls:
        given: list[dict[str, Any]] = []
        for call in calls:
            shown, count = _cut_value(call.input, strength.argument)
            given.append({"name": call.name, "input": shown})
            tools += count
        data["tool_calls"] = given
    if results:
        data["tool_results"] = []
        for result in results:
            limit = len(result.text) if strength.output is None else strength.output
            output, lost = shortened_output(result.text, limit)
            tools += len(result.text) - lost
            data["tool_results"].append({"output": output, **({"is_error": True} if result.is_error else {})})
    if message.origin not in _PLAIN_ORIGINS:
        data["origin"] = message.origin
    missing = len(message.calls) - len(calls) + len(message.results) - len(results)
    if missing:
        data["note"] = f"… {missing:,} tool {'item' if missing == 1 else 'items'} left out …"
    return Turn(data, Volume(words, tools, thinking))


def fitted(message: Message, cited: Collection[str], strength: Strength, cap: int | None) -> tuple[Turn, int]:
    """Return the message cut by the first strength from this one on that needs no more than `cap` units, and its size.

    The last strength takes fewer than 500 tokens for any message.
    """
    turn = turn_of(message, cited, strength)
    size = turn.size
    while cap is not None and size > cap and (harder := strength.harder()) is not None:
        strength = harder
        turn = turn_of(message, cited, strength)
        size = turn.size
    return turn, size


def _excerpt(text: str, cited: Collection[str], limit: int | None) -> tuple[str, int]:
    """Return head, tail and what surrounds the citations; and how many characters of the text that is."""
    if limit is None or len(text) <= limit:
        return encodable(text), len(text)
    if not any(match[1] in cited for match in CITATION.finditer(text)):
        return head_and_tail(text, limit), limit
    quarter = limit // 4
    return _joined(text, [(0, quarter), *_spans(text, cited, limit - 2 * quarter), (len(text) - quarter, len(text))])


def _around(text: str, cited: Collection[str], limit: int) -> tuple[str, int]:
    """Return only what surrounds the citations."""
    return _joined(text, _spans(text, cited, limit))


def _spans(text: str, cited: Collection[str], room: int) -> list[tuple[int, int]]:
    """Return the spans of the citations, the first of each name first, with more behind each than before it."""
    first: dict[str, tuple[int, int]] = {}
    for match in CITATION.finditer(text):
        if match[1] in cited and match.end() - match.start() <= _LONGEST_NAME:
            first.setdefault(match[1], match.span())
    each = room // max(1, len(first))
    spans: list[tuple[int, int]] = []
    for start, end in first.values():
        if spans and room < end - start:
            break
        spare = max(0, min(each, room) - (end - start))
        spans.append((max(0, start - spare // 3), min(len(text), end + spare - spare // 3)))
        room -= end - start + spare
    return spans


def _joined(text: str, spans: Iterable[tuple[int, int]]) -> tuple[str, int]:
    """Return the pieces of a text in order, with a mark for what is missing between, before and after them."""
    pieces: list[str] = []
    done = shown = 0
    for start, end in [*sorted(spans), (len(text), len(text))]:
        if start > done:
            pieces.append(f"\n[… {start - done} characters …]\n")
            done = start
        if end > done:
            pieces.append(text[done:end])
            shown += end - done
            done = end
    return encodable("".join(pieces)), shown


def _cut_value(value: Any, limit: int | None) -> tuple[Any, int]:
    """Return a tool's input with its strings cut, and how many characters of them are left."""
    if isinstance(value, str):
        if limit is None or len(value) <= limit:
            return encodable(value), len(value)
        return head_and_tail(value, limit), limit
    if isinstance(value, dict):
        cut = {key: _cut_value(one, limit) for key, one in value.items()}
        return {key: one for key, (one, _) in cut.items()}, sum(count for _, count in cut.values())
    if isinstance(value, list | tuple):
        items = [_cut_value(one, limit) for one in value]
        return [one for one, _ in items], sum(count for _, count in items)
    return value, 0


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
