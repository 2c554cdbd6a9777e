"""A window made to fit: whole where it can be, else cut in an order that keeps the evidence.

Invariant: what is shown never needs more than the limit, and what is not shown is counted. The same window,
names and limit give the same parts. Messages are streamed, several times; between two passes only a few
numbers for each turn are held, so a window of any size takes flat memory.

What goes first: thinking and the middles of tool output; then old turns (`selection` says which stay); then
the window is judged in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.reflection.selection import (
    CITES,
    ERROR,
    HUMAN,
    NARROW,
    REFUSAL,
    WIDE,
    Plan,
    Survey,
    core,
    one_part,
    parts,
    thinned,
)
from reflector.reflection.token_estimate import UNITS, estimate_tokens
from reflector.reflection.turns import (
    LIGHT,
    SMALL,
    WHOLE,
    Strength,
    cites,
    elsewhere,
    fitted,
    gap,
    speaks,
    volume,
)
from reflector.transcripts.message import Message

__all__ = ["LEAST_LIMIT", "NoSuchPart", "Reduced", "estimate_tokens", "reduce_messages"]

#: A task, a citation and the notes around them fit this, whatever they hold; in estimated tokens.
LEAST_LIMIT = 1_500
#: The share of the limit that each turn may take, and where little room is left.
_SHARE, _SMALL_SHARE = 3, 48

Messages = Callable[[], Iterable[Message]]


class NoSuchPart(ValueError):
    """A part that the window does not have."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """One part of a window, ready to be written as JSON.

    turns     in order: {"role": "user" | "assistant", "content": text}, with "thinking", "tool_calls"
              [{"name", "input"}], "tool_results" [{"output", "is_error": true only if so}] where there are any,
              "origin" where it is none of model, human and tool, "note" where tools of this turn are missing.
              A gap is a turn with nothing but {"note": "… 37 turns left out …"}
    part      from 1
    parts     in how many the window is judged
    left_out  what of this part is not shown, empty where nothing: `turns`; `citations`, those of the turns that
              cite; `characters` of visible words, `tool_characters`, `thinking_characters`, of left out
              turns too
    """

    turns: tuple[dict[str, Any], ...]
    part: int
    parts: int
    left_out: Mapping[str, int] = field(default_factory=dict)


def reduce_messages(
    messages: Messages, cited: Collection[str], limit: int, *, part: int = 1, most_parts: int = 4
) -> Reduced:
    """One part of a window, cut so that its turns need at most `limit` estimated tokens as JSON.

    messages    call it for a fresh stream, the same each time
    cited       names whose citations are followed; with none, people's words and errors are
    limit       most tokens of `json.dumps(list(turns), indent=2, ensure_ascii=False)`
    most_parts  how many parts there may be

    Raises ValueError for a limit below LEAST_LIMIT and for most_parts below 1, NoSuchPart, and whatever `messages`
    raises.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"limit is {limit:,} tokens; a part of a window needs at least {LEAST_LIMIT:,}")
    if most_parts < 1:
        raise ValueError(f"most_parts is {most_parts}; there is at least 1")
    names = frozenset(cited)
    plan = _plan(messages, names, limit * UNITS, most_parts)
    if not 1 <= part <= len(plan.ranges):
        raise NoSuchPart(f"part is {part}; this window has {len(plan.ranges)}, counted from 1")
    return _built(messages, names, plan, part)


def _plan(messages: Messages, cited: frozenset[str], limit: int, most_parts: int) -> Plan:
    cap = limit // _SHARE
    survey = Survey()
    strength = _surveyed(messages, cited, limit, cap, survey)
    size = len(survey.marks)
    if strength is not None:
        return Plan(strength, None, bytearray(b"\x01" * size), None, ((0, size),))
    kept = core(survey, WIDE)
    if (filled := one_part(survey, kept, limit)) is not None:
        return Plan(LIGHT, cap, filled, survey.task, ((0, size),))
    if (ranges := parts(survey, kept, WIDE.before, limit, most_parts)) is not None:
        return Plan(LIGHT, cap, kept, survey.task, ranges)
    cap = limit // _SMALL_SHARE
    for turn, message in enumerate(message for message in messages() if speaks(message, cited)):
        survey.sizes[turn] = fitted(message, cited, SMALL, cap)[1]
    kept = core(survey, NARROW)
    if (ranges := parts(survey, kept, NARROW.before, limit, most_parts)) is None:
        kept = thinned(survey, limit, most_parts)
        ranges = parts(survey, kept, 0, limit, most_parts)
    assert ranges is not None  # `thinned` keeps no more than fits
    return Plan(SMALL, cap, kept, survey.task, ranges)


def _surveyed(messages: Messages, cited: frozenset[str], limit: int, cap: int, survey: Survey) -> Strength | None:
    """Fill the survey, with sizes at `LIGHT`; WHOLE or LIGHT where all fits at it, else None."""
    whole = light = 0
    first_user: int | None = None
    for message in messages():
        turn = len(survey.marks)
        is_turn = speaks(message, cited)
        if whole <= limit and (is_turn or message.thinking):
            whole += fitted(message, cited, WHOLE, None)[1]
        if not is_turn:
            continue
        _, size = fitted(message, cited, LIGHT, None)
        light += size
        survey.sizes.append(size if size <= cap else fitted(message, cited, SMALL, cap)[1])
        names = cites(message, cited)
        survey.latest.update(dict.fromkeys(names, turn))
        survey.marks.append(
            (HUMAN if message.origin == "human" else 0)
            | (REFUSAL if message.origin == "refusal" else 0)
            | (ERROR if any(result.is_error for result in message.results) else 0)
            | (CITES if names else 0)
        )
        if survey.task is None and message.origin == "human":
            survey.task = turn
        if first_user is None and message.role == "user" and message.text:
            first_user = turn
    if survey.task is None:
        survey.task = first_user
    return WHOLE if whole <= limit else LIGHT if light <= limit else None


def _built(messages: Messages, cited: frozenset[str], plan: Plan, part: int) -> Reduced:
    start, stop = plan.ranges[part - 1]
    total = len(plan.kept)
    turns: list[dict[str, Any]] = []
    lost: Counter[str] = Counter(turns=0, citations=0)
    missing = seen = 0
    for message in messages():
        is_turn = speaks(message, cited)
        turn = seen
        seen += is_turn
        if turn >= stop and stop < total:
            break
        if turn < start:
            if is_turn and turn == plan.task:
                turns.append(fitted(message, cited, plan.strength, plan.cap)[0].data)
            continue
        # What only thinks belongs to the part of the turn behind it.
        if plan.kept[turn] if is_turn else plan.strength is WHOLE and message.thinking:
            if missing:
                turns.append(gap(missing))
                missing = 0
            data, shown = fitted(message, cited, plan.strength, plan.cap)[0]
            turns.append(data)
            lost.subtract(shown._asdict())
        elif is_turn:
            missing += 1
            lost.update(turns=1, citations=bool(cites(message, cited)))
        lost.update(volume(message)._asdict())
    if missing:
        turns.append(gap(missing))
    if stop < total:
        turns.append(elsewhere(total - stop, "after"))
    if start > 0:
        led = plan.task is not None and plan.task < start
        turns.insert(1 if led else 0, elsewhere(start - led, "before"))
    return Reduced(tuple(turns), part, len(plan.ranges), {kind: count for kind, count in lost.items() if count})
