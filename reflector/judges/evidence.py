"""Whether a model's verdict rests on an event of the session, and whose words prove it.

Invariant: a helpful or harmful verdict counts only if its quote, with white space folded, is in the
one turn that it names, after a citation of its bullet. The quote must be from a user's words, or
from the output of a run that ended as the verdict states. A run is a command that only tests,
builds, checks or starts something. These prove nothing: the playbook, the agent's own words and
those of its commands, the printed content of a file, a page or history, and the texts of MCP
servers, of subagents and of the client. Pure: the same tags and messages give the same answer.

Three more kinds of evidence are shown with a verdict: the message of a failed command of a program
that the project does not decide (`reading/commands.py`); the same action, which failed before the
citation and works after it; and the user's choice in the client's own question tool. None of them
counts before ten labelled cases show how often it is right (`LABELLED`).

There is one exception: a template of the user's own that does not ask for quotes. Its verdicts
count as its format asks, and every screen shows that they have no quote.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reflector.judges.answers import ParsedTag
from reflector.judges.reading.commands import Action, action_of, failure_words, has_failed
from reflector.judges.reading.steps import Ending, is_run, read_call, read_result
from reflector.text.bounds import visible
from reflector.text.secrets import redact
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

LEAST_QUOTE = 12
#: The verdict that a run can prove, by how it ended.
_PROVES: Final[Mapping[Ending, Collection[str]]] = {
    "fails": ("harmful",),
    "passes": ("helpful",),
    "ran": ("helpful",),
}
_BOTH = ("helpful", "harmful")
#: The labelled cases of each further kind of evidence (docs/judging.md).
LABELLED: Final[Mapping[str, int]] = {"command": 0, "repeated": 0, "choice": 1}
#: The fewest labelled cases of a kind that counts.
_LEAST_CASES = 10


class Ground(NamedTuple):
    """The evidence of a tag.

    fault  why it does not count, a key of `DROPPED`; "" if it counts
    words  the speaker of its quote: person, run, agent, tool, subagent, client, playbook, or a kind
           of `LABELLED`; "" if there is none
    """

    fault: str
    words: str


def unquoted(tags: Sequence[ParsedTag]) -> dict[int, Ground]:
    """Return the faults of tags that need no quote, by their index: the advice was not followed."""
    return {tag.index: Ground("not_followed", "") for tag in tags if _is_beside(tag)}


def _is_beside(tag: ParsedTag) -> bool:
    """Return whether the advice was not followed, or has nothing to do with the session."""
    return not tag.relevant or tag.followed == "no"


class _Text(NamedTuple):
    """A folded text of a turn, with its speaker.

    proves   the verdicts that it can prove
    command  the command of the agent that printed it
    action   of a successful command of another program
    """

    words: str
    text: str
    proves: Collection[str] = ()
    command: str = ""
    action: Action | None = None


class _Turn(NamedTuple):
    number: int
    chain: str
    texts: Sequence[_Text]


class _Place(NamedTuple):
    """The turn that cites a bullet first, and its chain."""

    number: int
    chain: str


@dataclass(slots=True)
class _Window:
    """A window as tags quote it: the turns that they name, and the first citation of each bullet.

    chain    of the first turn
    actions  the turns and chains in which an action ended, each with whether it failed
    """

    turns: dict[int | None, _Turn] = field(default_factory=dict)
    cited: dict[str, _Place] = field(default_factory=dict)
    chain: str = ""
    actions: dict[Action, list[tuple[_Place, bool]]] = field(default_factory=dict)

    def failed_before(self, action: Action | None, cited: _Place | None) -> bool:
        """Return whether an action failed at its last end before a citation."""
        if action is None or cited is None:
            return False
        failures = [
            is_failure
            for place, is_failure in self.actions.get(action, ())
            if place.number < cited.number and place.chain == cited.chain
        ]
        return bool(failures) and failures[-1]


def grounds(
    tags: Sequence[ParsedTag],
    messages: Iterable[Message],
    asked: Collection[str],
    advice: Iterable[str],
    trusted: Collection[str],
) -> dict[int, Ground]:
    """Return the evidence of each tag, by its index.

    messages  of the window, as the model was shown them: the first is turn 1
    asked     the names in its question; empty if the question was about the whole playbook
    advice    the playbook's texts
    trusted   the words of certainty with which a model's tag counts
    """
    window = _read_window(messages, {tag.turn for tag in tags})
    advice_texts = [folded(text) for text in advice]
    quotes = {tag.index: folded(tag.quote) for tag in tags}
    by_tag: dict[int, Ground] = {}
    for tag in tags:
        cited = window.cited.get(tag.name or "") if asked else _Place(0, window.chain)
        turn = window.turns.get(tag.turn)
        by_tag[tag.index] = _ground(tag, quotes[tag.index], turn, cited, window, advice_texts)
        if asked and tag.name not in asked:
            by_tag[tag.index] = Ground("not_asked", "")
    sound = [tag for tag in tags if tag.tag in _BOTH and not by_tag[tag.index].fault]
    for tag in sound:
        words = by_tag[tag.index].words
        if _is_shared(tag, sound, quotes):
            by_tag[tag.index] = Ground("shared", words)
        elif tag.sure not in trusted:
            by_tag[tag.index] = Ground("unsure", words)
    return by_tag


def _read_window(messages: Iterable[Message], quoted: Collection[int | None]) -> _Window:
    """Return the parts of a window that can be evidence: the place of each first citation, the
    actions with their results, and the texts of the quoted turns.
    """
    window = _Window()
    calls: dict[str, ToolCall] = {}
    for number, message in enumerate(messages, start=1):
        if number == 1:
            window.chain = message.chain
        for name in citations_of(message):
            window.cited.setdefault(name, _Place(number, message.chain))
        calls.update((call.id, call) for call in message.calls)
        answered = [(calls.pop(result.call_id, None), result) for result in message.results]
        for call, result in answered:
            action = action_of(call) if call else None
            if action is not None:
                place = _Place(number, message.chain)
                window.actions.setdefault(action, []).append((place, has_failed(result)))
        if number in quoted:
            texts = list(_texts(message, answered))
            window.turns[number] = _Turn(number, message.chain, texts)
    return window


def _is_shared(tag: ParsedTag, sound: Iterable[ParsedTag], quotes: Mapping[int, str]) -> bool:
    """Return whether a tag quotes the same words of a turn as a tag of another bullet."""
    quote = quotes[tag.index]
    of_turn = [other for other in sound if other.turn == tag.turn]
    of_others = [quotes[other.index] for other in of_turn if other.name != tag.name]
    return any(quote in other or other in quote for other in of_others)


class _Holder(NamedTuple):
    """The speaker of a quote, "" for none, and whether the quote proves the verdict."""

    words: str
    is_proof: bool = False


def _ground(
    tag: ParsedTag,
    quote: str,
    turn: _Turn | None,
    cited: _Place | None,
    window: _Window,
    advice: Sequence[str],
) -> Ground:
    """Return the evidence of one tag: its first fault, and the speaker of its quote."""
    is_short = tag.turn is None or len(quote) < LEAST_QUOTE
    holder = _Holder("")
    is_early = True
    if turn is not None and not is_short:
        holder = _holder_of(tag, quote, turn, advice)
        if holder.words == "tool" and _is_repeated(tag, quote, turn, cited, window):
            holder = _Holder("repeated", is_proof=True)
        if holder.words not in ("", "playbook") and cited and turn.chain != cited.chain:
            holder = _Holder("subagent")
        is_early = cited is None or turn.number <= cited.number
    faults = {
        "not_followed": _is_beside(tag),
        "no_quote": is_short,
        "misquoted": not holder.words,
        "too_early": is_early,
        "no_proof": not holder.is_proof,
        "few_cases": LABELLED.get(holder.words, _LEAST_CASES) < _LEAST_CASES,
    }
    fault = next((fault for fault, is_so in faults.items() if is_so), "")
    return Ground(fault, holder.words)


def _is_repeated(
    tag: ParsedTag, quote: str, turn: _Turn, cited: _Place | None, window: _Window
) -> bool:
    """Return whether a helpful verdict quotes an action that had failed before the citation."""
    actions = [text.action for text in turn.texts if quote in text.text]
    return tag.tag == "helpful" and any(window.failed_before(each, cited) for each in actions)


def _holder_of(tag: ParsedTag, quote: str, turn: _Turn, advice: Iterable[str]) -> _Holder:
    """Return the speaker of a quote in its turn: of several texts, one that proves the verdict."""
    holding = [text for text in turn.texts if quote in text.text]
    if not holding:
        return _Holder("")
    if any(quote in text for text in advice):
        return _Holder("playbook")
    for text in holding:
        if tag.tag in text.proves and quote not in text.command:  # not an echo of the command
            return _Holder(text.words, is_proof=True)
    return _Holder(holding[0].words)


def _texts(
    message: Message, answered: Sequence[tuple[ToolCall | None, ToolResult]]
) -> Iterator[_Text]:
    """Yield the texts of a message that a verdict may quote, each with its speaker and the tags
    that it proves.
    """
    if message.origin in ("human", "refusal"):
        yield _Text("person", folded(message.text), _BOTH)
    else:
        yield _Text("agent" if message.role == "assistant" else "client", folded(message.text))
    for call, result in answered:
        if result.choice:
            yield _Text("choice", folded(result.choice), _BOTH)
        if call is not None and (failure := failure_words(call, result)):
            command = folded(str(call.input.get("command")))
            yield _Text("command", folded(failure), ("harmful",), command)
        yield _text_of(call, result)
    yield _Text("agent", folded(message.thinking))
    for call in message.calls:
        yield _Text("agent", folded(json.dumps(call.input, ensure_ascii=False)))


def _text_of(call: ToolCall | None, result: ToolResult) -> _Text:
    """Return the result of a call. Of runs, a failed one proves harm, and one with a visible
    success proves help.
    """
    text = folded(result.text)
    if call is None or not is_run(call):
        works = call is not None and not result.is_error and not has_failed(result)
        return _Text("tool", text, action=action_of(call) if call and works else None)
    ending = read_result(read_call(call), result.text, result.is_error).ending
    return _Text("run", text, _PROVES.get(ending, ()), folded(str(call.input.get("command"))))


def folded(text: str) -> str:
    """Return a text as a model was shown it, with each run of white space as one space."""
    return " ".join(redact(visible(text)).split())
