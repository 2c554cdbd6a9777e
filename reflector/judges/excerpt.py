"""The question about a window: the template, the playbook and the window's turns, cut to a limit by
their importance.

Invariant: a prompt fits its limit, whatever the window contains, and omitted turns are counted. The
same window, playbook and template give the same prompt, byte for byte. Data cannot leave its place
in the prompt: secrets are removed before anything is cut or sent, and a bullet or a turn cannot
close its tag. The mark in the session's tag is a digest of the session, so its own text cannot
contain it. The template is filled once. The window is read twice, and a few numbers for each
message are kept between the readings. The estimate of a text is never above the sum of those of its
pieces.

A message is omitted or shown at one of three levels, in the order of docs/judging.md (Long
sessions). Among equal messages, those that follow a citation soonest come first, then the newest.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from reflector.judges.prompts import Template
from reflector.judges.protocol import BackendError, Prompt
from reflector.judges.reading.steps import is_run
from reflector.text.bounds import head_and_tail, visible, with_errors
from reflector.text.lazy import lazy_pattern
from reflector.text.secrets import redact
from reflector.transcripts.citations import CITED, citations_of, spread
from reflector.transcripts.message import Message, ToolResult

#: The smallest limit, in tokens: it has room for the task and a citation as lines.
LEAST_LIMIT = 1_500
_PLAIN = frozenset({"model", "human", "tool"})
_PEOPLE = frozenset({"human", "refusal"})
#: Tokens of the brackets around the turns.
_BRACKETS = 4
#: Above the level of a line, no message takes more than the limit divided by this number.
_SHARE = 4
#: Tokens for the tags, and for the difference between the estimates of a whole and of its parts.
_MARGIN = 500
_LEAST_TRANSCRIPT = 2_000
#: A tag of the packaged template, opened or closed.
_TAG = lazy_pattern(r"<(?=/?(?:playbook|session|cited_ids)\b)", re.IGNORECASE)


class Level(NamedTuple):
    """The most characters of a message's text, of an argument and of a tool's output; and the
    most tool calls.
    """

    text: int
    argument: int
    output: int
    items: int


class _Step(NamedTuple):
    """A step in which room is assigned: messages of this rank or a better one get this level."""

    rank: int
    level: int


LINE = Level(160, 60, 80, 2)
SHORT = Level(2_000, 200, 500, 8)
WHOLE = Level(*[sys.maxsize] * 4)
_LEVELS = (LINE, SHORT, WHOLE)
#: The ranks of messages, the best first: the task and the last citation of each bullet, a user's
#: words, another citation, the end of a run, and all others.
_BEST, _SAID, _CITING, _RUN, _OTHER = range(5)
_STEPS = (
    _Step(_CITING, 0),
    _Step(_CITING, 1),
    _Step(_RUN, 0),
    _Step(_CITING, 2),
    _Step(_OTHER, 0),
    _Step(_OTHER, 1),
    _Step(_OTHER, 2),
)


def compose(
    template: Template,
    playbook: str,
    cited: Sequence[str],
    messages: Callable[[], Iterable[Message]],
    limit: int,
    more: str = "",
) -> Prompt:
    """Return the prompt for a window, within `limit` estimated tokens.

    `playbook` is the bullets as text, `more` a second question after the first one.

    Raises: BackendError if they leave no room for a session.
    """
    values = {
        "playbook": _TAG.sub("&lt;", redact(visible(playbook))),
        "cited_ids": json.dumps(list(cited), ensure_ascii=False),
        "transcript": "",
    }
    taken = estimate_tokens(template.fill(values) + more) + _MARGIN
    room = limit - taken
    if room < _LEAST_TRANSCRIPT:
        raise BackendError(
            f"the template and the playbook need about {taken:,} of {limit:,} tokens, which "
            "leaves no room for a session; raise request_tokens, or remove rules",
            stage="request",
            attempts=0,
        )
    # Before a text is cut, because no rule recognises half a key.
    shown = excerpt_of(lambda: map(_redacted, messages()), frozenset(cited), room)
    transcript = redact(visible(shown.text))
    tag = f"session-{sha256(transcript.encode('utf-8', 'replace')).hexdigest()[:32]}"
    before, after = template.split(
        values | {"transcript": f"<{tag}>\n{transcript}\n</{tag}>"}, "transcript"
    )
    after += more
    tokens = estimate_tokens(before) + estimate_tokens(after)
    return Prompt(before, after, template.sha256, tokens, shown.left_out)


def _redacted(message: Message) -> Message:
    """Return the message without secrets. The arguments of a call are redacted as one text, because
    their names show which values are secret.
    """
    calls = []
    for call in message.calls:
        arguments = json.dumps(call.input, ensure_ascii=False)
        cleared = redact(visible(arguments))
        calls.append(call if cleared == arguments else call._replace(input=json.loads(cleared)))
    results = [result._replace(text=redact(visible(result.text))) for result in message.results]
    return message._replace(
        text=redact(visible(message.text)),
        thinking=redact(visible(message.thinking)),
        calls=tuple(calls),
        results=tuple(results),
    )


class Excerpt(NamedTuple):
    """The shown turns of a window, oldest first, and the number of omitted ones by kind."""

    turns: tuple[Mapping[str, Any], ...]
    left_out: Mapping[str, int]

    @property
    def text(self) -> str:
        """The turns as a JSON list, one a line."""
        return "[\n" + ",\n".join(map(_written, self.turns)) + "\n]"


class _Worth(NamedTuple):
    """The importance of a message; the smallest value comes first.

    rank    from `_BEST` to `_OTHER`
    since   how many messages come between it and the last citation
    number  its place in the stream from 1 on, negated: the newest comes first
    """

    rank: int
    since: float
    number: int


class _Size(NamedTuple):
    """The tokens of a message at each level, and its characters if it is whole."""

    tokens: Sequence[int]
    characters: int


class _Measuring:
    """Ranks and measures the messages of a window, in order, and keeps a few numbers of each."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._since = math.inf
        self._has_task = False
        self._runs: set[str] = set()
        self._last_answer: int | None = None
        self._last_citations: dict[str, int] = {}
        self.worths: list[_Worth] = []
        self.sizes: list[_Size] = []

    def take(self, message: Message) -> None:
        """Add a message with its rank. The first words of the user are the task, which has the best
        rank.
        """
        place = len(self.worths)
        citing = _cites(message, self._names)
        self._since = 0.0 if citing else self._since + 1
        self._last_citations.update(dict.fromkeys(citing, place))
        self._runs.update(call.id for call in message.calls if is_run(call))
        rank = _rank(message, self._since, self._runs)
        if message.origin == "human" and not self._has_task:
            self._has_task = True
            rank = _BEST
        self.worths.append(_Worth(rank, self._since, -(place + 1)))
        self.sizes.append(_size(message, place + 1, citing))
        if message.origin == "model" and message.text:
            self._last_answer = place
        elif message.origin in _PEOPLE and self._last_answer is not None:
            # The agent's last words before a user's are at least as important as the end of a run.
            answer = self.worths[self._last_answer]
            self.worths[self._last_answer] = answer._replace(rank=min(answer.rank, _RUN))
            self._last_answer = None

    def finish(self) -> None:
        """Give the last citation of each bullet the best rank."""
        for place in self._last_citations.values():
            self.worths[place] = _Worth(_BEST, 0, -(place + 1))


def excerpt_of(
    messages: Callable[[], Iterable[Message]], cited: Collection[str], limit: int
) -> Excerpt:
    """Return the turns of a window whose text takes at most `limit` estimated tokens.

    `messages` is called for a fresh stream, the same each time.

    Raises: ValueError for a limit below LEAST_LIMIT.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"limit is {limit:,} tokens; it must be at least {LEAST_LIMIT:,}")
    names = frozenset(cited)
    measuring = _Measuring(names)
    for message in messages():
        measuring.take(message)
    measuring.finish()
    sizes = measuring.sizes
    note = {
        "note": f"{len(sizes):,} turns; turns whose numbers are missing were omitted for length"
    }
    levels = _levels(measuring.worths, sizes, limit - _tokens(_written(note)) - _BRACKETS)
    turns: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    for number, (message, level, size) in enumerate(zip(messages(), levels, sizes, strict=True), 1):
        citing = _cites(message, names)
        if level < 0:
            left_out.update(turns=1, citations=int(bool(citing)), characters=size.characters)
            continue
        turn = _turn(message, number, citing, _LEVELS[level])
        turns.append(turn)
        left_out["characters"] += max(0, size.characters - len(_written(turn)))
    if left_out["turns"]:
        turns.insert(0, note)
    return Excerpt(tuple(turns), {kind: count for kind, count in left_out.items() if count})


def _rank(message: Message, since: float, runs: Collection[str]) -> int:
    """Return the rank of a message, which is not the task or a last citation.

    `since` counts the messages since the last citation, `runs` are the ids of calls that test,
    build, check or start.
    """
    if message.origin in _PEOPLE:
        return _SAID
    if not since:
        return _CITING
    ends_run = any(result.is_error or result.call_id in runs for result in message.results)
    return _RUN if ends_run else _OTHER


def _levels(worths: Sequence[_Worth], sizes: Sequence[_Size], limit: int) -> list[int]:
    """Return the level of each message, -1 if it is omitted."""
    levels = [-1] * len(worths)
    room = limit
    by_worth = sorted(worths)
    for step in _STEPS:
        for worth in by_worth:
            place = -worth.number - 1
            if worth.rank > step.rank or levels[place] >= step.level:
                continue
            tokens = sizes[place].tokens
            known = tokens[levels[place]] if levels[place] >= 0 else 0
            cost = tokens[step.level] - known
            is_small = step.level == 0 or tokens[step.level] <= limit // _SHARE
            if cost <= room and is_small:
                levels[place] = step.level
                room -= cost
    return levels


def _size(message: Message, number: int, citing: Collection[str]) -> _Size:
    texts = [_written(_turn(message, number, citing, level)) for level in _LEVELS]
    return _Size([_tokens(text) for text in texts], len(texts[-1]))


def _written(turn: Mapping[str, Any]) -> str:
    return _TAG.sub("&lt;", json.dumps(turn, ensure_ascii=False))


def _tokens(written: str) -> int:
    """Return the most tokens of a turn in the list."""
    return estimate_tokens(f"{written},\n")


def _cites(message: Message, cited: Collection[str]) -> list[str]:
    return [name for name in citations_of(message) if name in cited] if cited else []


def _turn(message: Message, number: int, citing: Collection[str], level: Level) -> dict[str, Any]:
    """Return a message as a turn: its place in the stream from 1 on, role, content, calls, results
    and origin.

    `citing` are the names that it cites; its thinking is shown if there are any.
    """
    turn: dict[str, Any] = {"turn": number, "role": message.role}
    if message.origin not in _PLAIN:
        turn["origin"] = message.origin
    if message.thinking and (citing or level is WHOLE):
        turn["thinking"] = _cut(message.thinking, citing, level.text)
    if message.text:
        turn["content"] = _cut(message.text, citing, level.text)
    calls = message.calls[: level.items]
    results = message.results[: level.items]
    if calls:
        turn["tool_calls"] = [
            {"name": call.name, "input": _input(call.input, level.argument)} for call in calls
        ]
    if results:
        turn["tool_results"] = [_tool_result(result, level) for result in results]
    missing = len(message.calls) + len(message.results) - len(calls) - len(results)
    if missing:
        turn["note"] = f"… {missing:,} tool {'item' if missing == 1 else 'items'} left out …"
    return turn


def _tool_result(result: ToolResult, level: Level) -> dict[str, Any]:
    shown: dict[str, Any] = {"output": _short_output(result.text, level.output)}
    return shown | {"is_error": True} if result.is_error else shown


def _cut(text: str, citing: Collection[str], most: int) -> str:
    """Return a text. Of one longer than `most` characters, return its head and tail and the
    surroundings of each name's first citation.

    The result may be longer than `most`, about twice at worst. The callers measure it, and cut the
    session at the next level if it does not fit.
    """
    if len(text) <= most:
        return text
    # `[pat-001, pat-002]` becomes `[pat-001] [pat-002]`, so that each name is a citation.
    text = spread(text)
    first_citations: dict[str, re.Match[str]] = {}
    for citation in CITED.finditer(text):
        if citation[1] in citing:
            first_citations.setdefault(citation[1], citation)
    if not first_citations:
        return head_and_tail(text, most) if most > LINE.text else _head(text, most)

    surroundings = max(40, most // (len(first_citations) + 1))
    before = surroundings // 3
    after = surroundings - before
    parts = []
    for citation in first_citations.values():
        closing_bracket = citation.end(1) + 1
        parts.append(text[max(0, citation.start() - before) : closing_bracket + after])
    edge = most // 4
    shown_parts = parts[: max(1, most // surroundings)]
    return "\n[…]\n".join([text[:edge], *shown_parts, text[-edge:]])


def _input(arguments: Mapping[str, Any], most: int) -> Mapping[str, Any]:
    """Return a call's arguments; if they have more than `most` characters, the first four, each cut
    to that length.
    """
    if len(json.dumps(arguments, ensure_ascii=False)) <= most:
        return arguments
    shown = {}
    for key, value in islice(arguments.items(), 4):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown[_head(key, most)] = _head(text, most)
    return shown


def _head(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _short_output(text: str, most: int) -> str:
    """Return a tool's output in about `most` characters: its beginning, its errors and its end.

    At the level of a line it is only the end, because the end shows the result.
    """
    if len(text) <= most:
        return text
    is_line = most <= LINE.output
    if is_line:
        return "…" + text[-most:]
    quarter = most // 4
    return with_errors(text, quarter, len(text) - quarter, most)


#: Units are twentieths of a token: whole numbers, so that sums are exact. Claude's tokenizers are
#: not published, and newer ones need up to 35 % more tokens than older ones for the same text, so
#: each class of characters is charged with the need of the newer ones, and a bit more:
#:
#: - a run of characters between white space 0.65: a short word is one token, with the space before
#: - lower case letter 0.35: rare words fall apart into pieces of about three letters
#: - capital, digit, punctuation, control 1: hashes, base64 and operators have few longer tokens
#: - space 0.1: indentation is one token for several
#: - line break 0.6: a token of its own, or one with the indentation after it
#: - tab and other white space 0.5
#: - character of two bytes (accents, Cyrillic, Greek, Arabic, Hebrew) 1.5: at most 2, its bytes
#: - character of three bytes (CJK, kana, hangul, Thai, box drawing) 2: at most 3
#: - character of four bytes (emoji) 4: no byte-level tokenizer needs more
UNITS = 20

_SPACES = b" \t\n\r\x0b\x0c"
#: White space becomes a space, everything else x, so ` x` is the beginning of a run.
_RUNS = bytes(0x20 if byte in _SPACES else 0x78 for byte in range(256))
#: The bytes of each class except that of a whole token, and the charge for one of them.
_CHARGES = (
    (bytes(range(ord("a"), ord("z") + 1)), 7),
    (b" ", 2),
    (b"\n", 12),
    (_SPACES, 10),
    (bytes(range(0x80, 0xC0)), 0),  # the bytes of a character except its first
    (bytes(range(0xC0, 0xE0)), 30),
    (bytes(range(0xE0, 0xF0)), 40),
    (bytes(range(0xF0, 0x100)), 80),
)


def estimate_tokens(text: str) -> int:
    """Return the most tokens that `text` takes; 0 for "". Linear in the text."""
    rest = text.encode("utf-8", "surrogatepass")
    runs = rest.translate(_RUNS)
    units = 13 * (runs.count(b" x") + runs.startswith(b"x"))
    for bytes_of_class, charge in _CHARGES:
        others = rest.translate(None, bytes_of_class)
        units += charge * (len(rest) - len(others))
        rest = others
    return -(-(units + UNITS * len(rest)) // UNITS)
