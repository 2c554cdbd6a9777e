"""The question about a window: template, playbook and its turns, cut to a limit by what they are
worth.

Invariant: a prompt fits its limit, whatever the window holds, and what is not shown is counted. The
same window, playbook and template give the same prompt, byte for byte. The data cannot leave its
place: secrets are removed before anything is cut or sent, a bullet or a turn cannot close the tag
around it, the mark in the session's tag is a digest of what stands in it, which nobody can write
there, and the template is filled once. The window is read twice, and a few numbers for each message
are held between. The estimate of a text is never above the sum of those of its pieces.

A message is left out or shown at one of three levels, in the order of docs/judging.md (Long
sessions); among equals what follows a citation soonest, then the newest.
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
from typing import Any, Final, NamedTuple

from reflector.judges.prompts import Template
from reflector.judges.protocol import BackendError, Prompt
from reflector.judges.reading.steps import is_run
from reflector.text.bounds import head_and_tail, visible, with_errors
from reflector.text.secrets import redact
from reflector.transcripts.citations import CITED, citations_of, spread
from reflector.transcripts.message import Message

#: The least limit, in tokens: it has room for the task and a citation as lines.
LEAST_LIMIT: Final = 1_500
_PLAIN: Final = frozenset({"model", "human", "tool"})
_PEOPLE: Final = frozenset({"human", "refusal"})
#: Tokens of the brackets around the turns.
_BRACKETS: Final = 4
#: Above the level of a line, no message takes more than this fraction of the limit.
_SHARE: Final = 4
#: Room for the tags and for what an estimate of a whole differs from those of its parts, in tokens.
_MARGIN = 500
_LEAST_TRANSCRIPT = 2_000
#: A tag of the packaged template, opened or closed.
_TAG = re.compile(r"<(?=/?(?:playbook|session|cited_ids)\b)", re.IGNORECASE)


class Level(NamedTuple):
    """The most characters of a message's text, of an argument and of a tool's output; and the
    most tool calls.
    """

    text: int
    argument: int
    output: int
    items: int


LINE, SHORT, WHOLE = Level(160, 60, 80, 2), Level(2_000, 200, 500, 8), Level(*[sys.maxsize] * 4)
_LEVELS: Final = (LINE, SHORT, WHOLE)
#: The steps in which room is given: (rank, level) gives that level to the messages of this rank and
#: of better ones.
_STEPS: Final = ((2, 0), (2, 1), (3, 0), (2, 2), (4, 0), (4, 1), (4, 2))


def compose(
    template: Template,
    playbook: str,
    cited: Sequence[str],
    messages: Callable[[], Iterable[Message]],
    limit: int,
    more: str = "",
) -> Prompt:
    """Return the prompt for a window, within `limit` estimated tokens.

    `playbook` is the bullets as text, `more` a second question behind the first one. Raises
    BackendError where they leave no room for a session.
    """
    values = {
        "playbook": _TAG.sub("&lt;", redact(visible(playbook))),
        "cited_ids": json.dumps(list(cited), ensure_ascii=False),
        "transcript": "",
    }
    rest = estimate_tokens(template.fill(values) + more) + _MARGIN
    room = limit - rest
    if room < _LEAST_TRANSCRIPT:
        said = (
            f"template and playbook take about {rest:,} of {limit:,} tokens, which leaves no room "
            "for a session; "
            "raise request_tokens or prune the playbook"
        )
        raise BackendError(said, stage="request", attempts=0)
    # Before a text is cut: of half a key no rule knows what it was.
    shown = excerpt(lambda: map(_redacted, messages()), frozenset(cited), room)
    transcript = redact(visible(shown.text))
    tag = f"session-{sha256(transcript.encode('utf-8', 'replace')).hexdigest()[:32]}"
    before, after = template.split(
        values | {"transcript": f"<{tag}>\n{transcript}\n</{tag}>"}, "transcript"
    )
    after += more
    tokens = estimate_tokens(before) + estimate_tokens(after)
    return Prompt(before, after, template.sha256, tokens, shown.left_out)


def _redacted(message: Message) -> Message:
    """The message without secrets. The names of a call's arguments give secrets away, so these
    are redacted as one.
    """
    calls = []
    for call in message.calls:
        given = json.dumps(call.input, ensure_ascii=False)
        cleared = redact(visible(given))
        calls.append(call if cleared == given else call._replace(input=json.loads(cleared)))
    return message._replace(
        text=redact(visible(message.text)),
        thinking=redact(visible(message.thinking)),
        calls=tuple(calls),
        results=tuple(
            result._replace(text=redact(visible(result.text))) for result in message.results
        ),
    )


class Excerpt(NamedTuple):
    """What is shown of a window, oldest turn first, and how much is left out, by kind."""

    turns: tuple[Mapping[str, Any], ...]
    left_out: Mapping[str, int]

    @property
    def text(self) -> str:
        """The turns as a JSON list, one a line."""
        return "[\n" + ",\n".join(map(_written, self.turns)) + "\n]"


def excerpt(
    messages: Callable[[], Iterable[Message]], cited: Collection[str], limit: int
) -> Excerpt:
    """Return the turns of a window whose text takes at most `limit` estimated tokens.

    `messages` is called for a fresh stream, the same each time. Raises ValueError for a limit below
    LEAST_LIMIT.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"limit is {limit:,} tokens; a window needs at least {LEAST_LIMIT:,}")
    names, runs = frozenset(cited), set[str]()
    worth: list[tuple[int, float, int]] = []
    sizes: list[tuple[int, ...]] = []
    last: dict[str, int] = {}
    since, task, answered = math.inf, False, 0
    for number, message in enumerate(messages(), 1):
        citing = _cites(message, names)
        since = 0.0 if citing else since + 1
        last.update(dict.fromkeys(citing, number))
        is_task = not task and message.origin == "human"
        task = task or is_task
        runs.update(call.id for call in message.calls if is_run(call))
        worth.append((0 if is_task else _rank(message, since, runs), since, -number))
        sizes.append(_sizes(message, number, citing))
        if message.origin == "model" and message.text:
            answered = number
        elif message.origin in _PEOPLE and answered:
            rank, near, order = worth[answered - 1]
            worth[answered - 1], answered = (min(rank, 3), near, order), 0
    for number in last.values():
        worth[number - 1] = (0, 0, -number)
    note = {
        "note": (f"{len(worth):,} turns; those whose numbers are missing are left out for length")
    }
    levels = _given(worth, sizes, limit - _tokens(_written(note)) - _BRACKETS)
    turns: list[dict[str, Any]] = []
    lost: Counter[str] = Counter()
    for number, (message, level, size) in enumerate(zip(messages(), levels, sizes, strict=True), 1):
        citing = _cites(message, names)
        if level < 0:
            lost.update(turns=1, citations=int(bool(citing)), characters=size[-1])
            continue
        turns.append(_turn(message, number, citing, _LEVELS[level]))
        lost["characters"] += max(0, size[-1] - len(_written(turns[-1])))
    if lost["turns"]:
        turns.insert(0, note)
    return Excerpt(tuple(turns), {kind: count for kind, count in lost.items() if count})


def _rank(message: Message, since: float, runs: Collection[str]) -> int:
    """Return what a message is worth, 1 for the most.

    `since` counts the messages since the last citation, `runs` are the ids of calls that test,
    build, check or start.
    """
    if message.origin in _PEOPLE:
        return 1
    if not since:
        return 2
    return 3 if any(result.is_error or result.call_id in runs for result in message.results) else 4


def _given(
    worth: Sequence[tuple[int, float, int]], sizes: Sequence[tuple[int, ...]], limit: int
) -> list[int]:
    """Return the level of each message, -1 for one that is not shown."""
    levels, left = [-1] * len(worth), limit
    best = sorted(worth)
    for most, level in _STEPS:
        for rank, _, number in best:
            at = -number - 1
            if rank > most or levels[at] >= level:
                continue
            cost = sizes[at][level] - (sizes[at][levels[at]] if levels[at] >= 0 else 0)
            if cost <= left and (sizes[at][level] <= limit // _SHARE or level == 0):
                levels[at], left = level, left - cost
    return levels


def _sizes(message: Message, number: int, citing: Collection[str]) -> tuple[int, ...]:
    """Return the tokens of a message at each level, and its characters when it is whole."""
    written = [_written(_turn(message, number, citing, level)) for level in _LEVELS]
    return (*map(_tokens, written), len(written[-1]))


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

    `citing` are the names that it cites; its thinking is shown where there are any.
    """
    turn: dict[str, Any] = {"turn": number, "role": message.role}
    if message.origin not in _PLAIN:
        turn["origin"] = message.origin
    if message.thinking and (citing or level is WHOLE):
        turn["thinking"] = _cut(message.thinking, citing, level.text)
    if message.text:
        turn["content"] = _cut(message.text, citing, level.text)
    calls, results = message.calls[: level.items], message.results[: level.items]
    if calls:
        turn["tool_calls"] = [
            {"name": call.name, "input": _input(call.input, level.argument)} for call in calls
        ]
    if results:
        turn["tool_results"] = [
            {"output": _output(result.text, level.output)}
            | ({"is_error": True} if result.is_error else {})
            for result in results
        ]
    if missing := len(message.calls) - len(calls) + len(message.results) - len(results):
        turn["note"] = f"… {missing:,} tool {'item' if missing == 1 else 'items'} left out …"
    return turn


def _cut(text: str, citing: Collection[str], most: int) -> str:
    """Return a text, of a longer one its head and tail and what surrounds the first citation of
    each name.
    """
    if len(text) <= most:
        return text
    text = spread(text)
    spans = {
        m[1]: (m.start(), m.end(1) + 1)
        for m in reversed(list(CITED.finditer(text)))
        if m[1] in citing
    }
    if not spans:
        return head_and_tail(text, most) if most > LINE.text else _head(text, most)
    each = max(40, most // (len(spans) + 1))
    shown = [
        text[max(0, start - each // 3) : end + each - each // 3]
        for start, end in sorted(spans.values())
    ]
    return "\n[…]\n".join([text[: most // 4], *shown[: max(1, most // each)], text[-most // 4 :]])


def _input(given: Mapping[str, Any], most: int) -> Mapping[str, Any]:
    """Return a call's arguments, of longer ones the first four, each cut to so many characters."""
    if len(json.dumps(given, ensure_ascii=False)) <= most:
        return given
    first = islice(given.items(), 4)
    texts = (
        (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for key, value in first
    )
    return {_head(key, most): _head(text, most) for key, text in texts}


def _head(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _output(text: str, most: int) -> str:
    """Return a tool's answer; how it ended decides, so of a line's worth there is only the end."""
    if len(text) <= most:
        return text
    quarter = most // 4
    return (
        with_errors(text, quarter, len(text) - quarter, most)
        if most > LINE.output
        else "…" + text[-most:]
    )


#: Units are twentieths of a token: whole numbers, so that sums are exact. Claude's tokenizers are
#: not published, and newer ones need up to 35 % more tokens than older ones for the same text, so
#: each class of characters is charged what the newer ones need of it, and a bit more:
#:
#: | what | tokens | because | |---|---|---| | a run of characters between white space | 0.65 | a
#: short word is one token, with the space before it | | lower case letter | 0.35 | rare words fall
#: apart into pieces of about three letters | | capital, digit, punctuation, control | 1 | hashes,
#: base64 and operators have few tokens of two characters | | space | 0.1 | indentation is one token
#: for several | | line break | 0.6 | a token of its own, or one with the indentation behind it | |
#: tab and other white space | 0.5 | | | character of two bytes (accents, Cyrillic, Greek, Arabic,
#: Hebrew) | 1.5 | at most 2: its bytes | | character of three bytes (CJK, kana, hangul, Thai, box
#: drawing) | 2 | at most 3 | | character of four bytes (emoji) | 4 | its bytes: no byte-level
#: tokenizer needs more |
UNITS = 20

_SPACES = b" \t\n\r\x0b\x0c"
#: White space becomes a space, everything else x: ` x` is where a run begins.
_RUNS = bytes(0x20 if byte in _SPACES else 0x78 for byte in range(256))
#: The bytes of each class but that of a whole token, and what one of them is charged.
_CHARGES = (
    (bytes(range(ord("a"), ord("z") + 1)), 7),
    (b" ", 2),
    (b"\n", 12),
    (_SPACES, 10),
    (bytes(range(0x80, 0xC0)), 0),  # the bytes of a character but its first
    (bytes(range(0xC0, 0xE0)), 30),
    (bytes(range(0xE0, 0xF0)), 40),
    (bytes(range(0xF0, 0x100)), 80),
)


def estimate_tokens(text: str) -> int:
    """Most tokens that `text` takes; 0 for "". Linear in the text."""
    rest = text.encode("utf-8", "surrogatepass")
    runs = rest.translate(_RUNS)
    units = 13 * (runs.count(b" x") + runs.startswith(b"x"))
    for bytes_of_class, charge in _CHARGES:
        left = rest.translate(None, bytes_of_class)
        units += charge * (len(rest) - len(left))
        rest = left
    return -(-(units + UNITS * len(rest)) // UNITS)
