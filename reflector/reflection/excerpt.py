"""The question about a window: template, playbook and its turns, cut to a limit by what they are worth.

Invariant: a prompt fits its limit, whatever the window holds, and what is not shown is counted. The same window,
playbook and template give the same prompt, byte for byte. The data cannot leave its place: secrets are removed before
anything is cut or sent, a bullet or a turn cannot close the tag around it, and the template is filled once. The window
is read twice, and four numbers for each message are held between. The estimate of a text is never above the sum of the
estimates of its pieces.

A message is left out or shown at one of three levels: as a line, short, or whole. Room is given step by step: first to
the task and the last citation of each bullet, then to the other citations and all that people said, then to errors, to
ends of runs and to what follows a citation, then a line to each other message. What is left raises them in the same
order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from reflector.reflection.prompts import Template
from reflector.reflection.protocol import BackendError, Prompt
from reflector.text.bounds import encodable, head_and_tail, shortened_output, visible
from reflector.text.secrets import redact
from reflector.transcripts.citations import CITED, citations_of
from reflector.transcripts.message import Message

#: The least limit, in tokens: it has room for the task and a citation as lines.
LEAST_LIMIT: Final = 1_500
_PLAIN: Final = frozenset({"model", "human", "tool"})
#: Tokens of the note about turns that are left out; each shown turn pays for one.
_GAP: Final = 40
#: Turns after a citation, and at the end of the window, that are worth more than others.
_NEAR, _END = 12, 6
#: Above the level of a line, no message takes more than this fraction of the limit.
_SHARE: Final = 4
#: Room for the tags and for what an estimate of a whole differs from those of its parts, in tokens.
_MARGIN = 500
_LEAST_TRANSCRIPT = 2_000
#: A tag of the packaged template, opened or closed.
_TAG = re.compile(r"<(?=/?(?:playbook|session|cited_ids)\b)", re.IGNORECASE)


class Level(NamedTuple):
    """The most characters of a message's text, of a tool's output and of an argument; and the most tool calls."""

    text: int | None
    output: int | None
    argument: int | None
    items: int | None


LINE, SHORT, WHOLE = Level(200, 240, 80, 2), Level(2_000, 500, 200, 8), Level(None, None, None, None)
_LEVELS: Final = (LINE, SHORT, WHOLE)
#: The steps in which room is given: (rank, level) gives that level to each message of this rank or a better one.
_STEPS: Final = ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 0), (5, 1), (4, 2), (5, 2))
#: How a run of tests or a build ends.
_ENDS: Final = re.compile(
    r"\b\d+ (?:\w+ )?(?:passed|failed|passing|failing|failures?|errors?|warnings?|tests?|problems?|issues?)\b"
    r"|\b(?:BUILD|Tests?|ok|FAIL(?:ED)?|PASS(?:ED)?|Compiled|Finished|exit code)\b"
)


def compose(
    template: Template,
    playbook: str,
    cited: Sequence[str],
    messages: Callable[[], Iterable[Message]],
    limit: int,
) -> Prompt:
    """Return the prompt for a window, within `limit` estimated tokens.

    `playbook` is the bullets as text. Raises BackendError where they leave no room for a session.
    """
    values = {
        "playbook": _TAG.sub("&lt;", redact(visible(playbook))),
        "cited_ids": json.dumps(list(cited), ensure_ascii=False),
        "transcript": "",
    }
    rest = estimate_tokens(template.fill(values)) + _MARGIN
    room = limit - rest
    if room < _LEAST_TRANSCRIPT:
        said = (
            f"template and playbook take about {rest:,} of {limit:,} tokens, which leaves no room for a session; "
            "raise request_tokens or prune the playbook"
        )
        raise BackendError(said, stage="request", attempts=0)
    # Before a text is cut: of half a key no rule knows what it was.
    shown = excerpt(lambda: map(_redacted, messages()), frozenset(cited), room)
    transcript = _TAG.sub("&lt;", redact(visible(json.dumps(list(shown.turns), indent=2, ensure_ascii=False))))
    before, after = template.split(values | {"transcript": transcript}, "transcript")
    tokens = estimate_tokens(before) + estimate_tokens(after)
    return Prompt(before, after, template.sha256, tokens, shown.left_out)


def _redacted(message: Message) -> Message:
    """The message without secrets. The names of a call's arguments give secrets away, so these are redacted as one."""
    calls = []
    for call in message.calls:
        given = json.dumps(call.input, ensure_ascii=False)
        cleared = redact(visible(given))
        calls.append(call if cleared == given else call._replace(input=json.loads(cleared)))
    return message._replace(
        text=redact(visible(message.text)),
        thinking=redact(visible(message.thinking)),
        calls=tuple(calls),
        results=tuple(result._replace(text=redact(visible(result.text))) for result in message.results),
    )


class Excerpt(NamedTuple):
    """What is shown of a window: turns, ready to be written as JSON, and how much is left out, by kind."""

    turns: tuple[dict[str, Any], ...]
    left_out: Mapping[str, int]


def excerpt(messages: Callable[[], Iterable[Message]], cited: Collection[str], limit: int) -> Excerpt:
    """Return the turns of a window in at most `limit` estimated tokens as JSON with an indent of 2.

    `messages` is called for a fresh stream, the same each time. Raises ValueError for a limit below LEAST_LIMIT.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"limit is {limit:,} tokens; a window needs at least {LEAST_LIMIT:,}")
    names = frozenset(cited)
    sizes: list[tuple[int, ...]] = []
    ranks: list[int] = []
    last: dict[str, int] = {}
    since, task = _NEAR + 1, False
    for message in messages():
        citing = _cites(message, names)
        since = 0 if citing else since + 1
        last.update(dict.fromkeys(citing, len(ranks)))
        is_task = not task and message.origin == "human"
        task = task or is_task
        ranks.append(0 if is_task else _rank(message, since))
        sizes.append(_sizes(message, len(ranks), names, citing=bool(citing)))
    ranks = [min(rank, 4) if at >= len(ranks) - _END else rank for at, rank in enumerate(ranks)]
    for at in last.values():
        ranks[at] = 0
    levels = _given(ranks, sizes, limit)
    turns: list[dict[str, Any]] = []
    lost: Counter[str] = Counter()
    missing = 0
    for number, (message, level) in enumerate(zip(messages(), levels, strict=True), 1):
        cites, whole = bool(_cites(message, names)), _characters(message)
        if level < 0:
            missing += 1
            lost.update(whole | {"turns": 1, "citations": int(cites)})
            continue
        if missing:
            turns.append(_gap(missing))
            missing = 0
        turns.append(turn := _turn(message, number, names, _LEVELS[level], citing=cites))
        if _LEVELS[level] is not WHOLE:
            outputs = sum(len(result["output"]) for result in turn.get("tool_results", ()))
            shown = {"characters": len(turn["content"]), "output_characters": outputs}
            lost.update({kind: max(0, count - shown[kind]) for kind, count in whole.items()})
    if missing:
        turns.append(_gap(missing))
    return Excerpt(tuple(turns), {kind: count for kind, count in lost.items() if count})


def _rank(message: Message, since: int) -> int:
    """Return what a message is worth, 1 for the most; `since` counts the messages since the last citation."""
    if since == 0:
        return 1
    if message.origin in ("human", "refusal"):
        return 2
    if any(result.is_error or _ENDS.search(result.text[-400:]) for result in message.results):
        return 3
    return 4 if since <= _NEAR else 5


def _given(ranks: list[int], sizes: list[tuple[int, ...]], limit: int) -> list[int]:
    """Return the level of each message, -1 for one that is not shown."""
    levels = [-1] * len(ranks)
    left = limit - 2 * _GAP
    for most, level in _STEPS:
        for at in reversed(range(len(ranks))):
            if ranks[at] > most or levels[at] >= level:
                continue
            had = sizes[at][levels[at]] + _GAP if levels[at] >= 0 else 0
            cost = sizes[at][level] + _GAP - had
            if cost <= left and (sizes[at][level] <= limit // _SHARE or level == 0):
                levels[at] = level
                left -= cost
    return levels


def _characters(message: Message) -> dict[str, int]:
    outputs = sum(len(result.text) for result in message.results)
    return {"characters": len(message.text), "output_characters": outputs}


def _gap(turns: int) -> dict[str, Any]:
    return {"note": f"… {turns:,} {'turn' if turns == 1 else 'turns'} left out …"}


def _sizes(message: Message, number: int, cited: Collection[str], *, citing: bool) -> tuple[int, ...]:
    """Return the most tokens that a message takes at each level; most messages are short, and alike at several."""
    sizes: list[int] = []
    before: dict[str, Any] | None = None
    for level in _LEVELS:
        turn = _turn(message, number, cited, level, citing=citing)
        sizes.append(sizes[-1] if turn == before else _size(turn))
        before = turn
    return tuple(sizes)


def _size(turn: dict[str, Any]) -> int:
    """Return the most tokens of a turn in a list that is written with an indent of 2."""
    return estimate_tokens(json.dumps([turn], indent=2, ensure_ascii=False))


def _cites(message: Message, cited: Collection[str]) -> list[str]:
    return [name for name in citations_of(message) if name in cited] if cited else []


def _turn(message: Message, number: int, cited: Collection[str], level: Level, *, citing: bool) -> dict[str, Any]:
    """Return a message as a turn: {"turn", "role", "content"}, with "thinking" where it cites, calls, results, origin.

    `number` is its place in the stream of messages, from 1 on.
    """
    turn: dict[str, Any] = {"turn": number, "role": message.role, "content": _cut(message.text, cited, level.text)}
    if message.thinking and (citing or level is WHOLE):
        turn["thinking"] = _cut(message.thinking, cited, level.text)
    calls, results = message.calls[: level.items], message.results[: level.items]
    if calls:
        turn["tool_calls"] = [{"name": call.name, "input": _input(call.input, level.argument)} for call in calls]
    if results:
        turn["tool_results"] = [
            {
                "output": shortened_output(result.text, len(result.text) if level.output is None else level.output),
                **({"is_error": True} if result.is_error else {}),
            }
            for result in results
        ]
    if message.origin not in _PLAIN:
        turn["origin"] = message.origin
    if missing := len(message.calls) - len(calls) + len(message.results) - len(results):
        turn["note"] = f"… {missing:,} tool {'item' if missing == 1 else 'items'} left out …"
    return turn


def _cut(text: str, cited: Collection[str], most: int | None) -> str:
    """Return a text, of a longer one its head and tail and what surrounds the first citation of each name."""
    if most is None or len(text) <= most:
        return encodable(text)
    spans = {m[1]: (m.start(), m.end(1) + 1) for m in reversed(list(CITED.finditer(text))) if m[1] in cited}
    if not spans:
        return head_and_tail(text, most)
    each = max(40, most // (len(spans) + 1))
    shown = [text[max(0, start - each // 3) : end + each - each // 3] for start, end in sorted(spans.values())]
    return encodable("\n[…]\n".join([text[: most // 4], *shown[: max(1, most // each)], text[-most // 4 :]]))


def _input(given: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    """Return a call's arguments, each cut to so many characters, and all of them to eight times as many."""
    shown: dict[str, Any] = _shortened(given, most)
    if most is None or len(text := json.dumps(shown, ensure_ascii=False)) <= 8 * most:
        return shown
    return {"…": head_and_tail(text, 8 * most)}


def _shortened(value: Any, most: int | None) -> Any:
    if isinstance(value, str):
        return encodable(value) if most is None else head_and_tail(value, most)
    if isinstance(value, dict):
        return {key: _shortened(one, most) for key, one in value.items()}
    return [_shortened(one, most) for one in value] if isinstance(value, list | tuple) else value


#: Units are twentieths of a token: whole numbers, so that sums are exact. Claude's tokenizers are not published, and
#: newer ones need up to 35 % more tokens than older ones for the same text, so each class of characters is charged what
#: the newer ones need of it, and a bit more:
#:
#: | what | tokens | because |
#: |---|---|---|
#: | a run of characters between white space | 0.65 | a short word is one token, with the space before it |
#: | lower case letter | 0.35 | rare words fall apart into pieces of about three letters |
#: | capital, digit, punctuation, control | 1 | hashes, base64 and operators have few tokens of two characters |
#: | space | 0.1 | indentation is one token for several |
#: | line break | 0.6 | a token of its own, or one with the indentation behind it |
#: | tab and other white space | 0.5 | |
#: | character of two bytes (accents, Cyrillic, Greek, Arabic, Hebrew) | 1.5 | at most 2: its bytes |
#: | character of three bytes (CJK, kana, hangul, Thai, box drawing) | 2 | at most 3 |
#: | character of four bytes (emoji) | 4 | its bytes: no byte-level tokenizer needs more |
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
