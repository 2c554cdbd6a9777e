"""Whether a model's verdict rests on something that happened, and whose words say so.

Invariant: a helpful or harmful verdict counts only where its quote, white space folded, stands in the one turn that it
names, behind a citation of its bullet, in what a person said or in what a run printed that ended as the verdict says. A
run is a command that tests, builds, checks or starts something and does nothing else. The playbook, the agent's own
words and those of its commands, what a command prints of a file, a page or history, and the texts of MCP servers, of
subagents and of the client prove nothing, whoever asks for it. Pure: the same tags and messages give the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from reflector.reflection.answers import ParsedTag
from reflector.reflection.rules.steps import is_run, read_call, read_result
from reflector.text.bounds import visible
from reflector.text.secrets import redact
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

LEAST_QUOTE: Final = 12


class Ground(NamedTuple):
    """What a tag rests on.

    fault  why it does not count, a key of `DROPPED`; "" where nothing speaks against it
    words  whose words it quotes: person, run, agent, tool, subagent, client, playbook; "" where they are nobody's
    """

    fault: str
    words: str


class _Turn(NamedTuple):
    """A turn that is quoted: its number, its message, and the calls that its results answer."""

    number: int
    message: Message
    answered: Sequence[tuple[ToolCall | None, ToolResult]]


def grounds(
    tags: Sequence[ParsedTag],
    messages: Iterable[Message],
    asked: Collection[str],
    advice: Iterable[str],
    trusted: Collection[str],
) -> dict[int, Ground]:
    """Return what each tag rests on, by its index.

    messages  the window's, as the model was shown them: the first is turn 1
    asked     the names that it was asked about; empty where it was asked about the whole playbook
    advice    the playbook's texts
    trusted   the words for how sure a model is that count
    """
    wanted = {tag.turn for tag in tags}
    turns: dict[int | None, _Turn] = {}
    cited: dict[str, tuple[int, str]] = {}
    calls: dict[str, ToolCall] = {}
    chain: str | None = None
    for number, message in enumerate(messages, start=1):
        chain = message.chain if chain is None else chain
        for name in citations_of(message):
            cited.setdefault(name, (number, message.chain))
        calls.update((call.id, call) for call in message.calls)
        answered = [(calls.pop(result.call_id, None), result) for result in message.results]
        if number in wanted:
            turns[number] = _Turn(number, message, answered)
    texts = [folded(text) for text in advice]
    found: dict[int, Ground] = {}
    for tag in tags:
        at = cited.get(tag.name or "") if asked else (0, chain or "")
        found[tag.index] = _ground(tag, turns.get(tag.turn), at, texts)
        if asked and tag.name not in asked:
            found[tag.index] = Ground("not_asked", "")
    counted = [tag for tag in tags if tag.tag in ("helpful", "harmful") and not found[tag.index].fault]
    for tag in counted:
        words = found[tag.index].words
        if any(_same_words(tag, other) for other in counted):
            found[tag.index] = Ground("shared", words)
        elif tag.sure not in trusted:
            found[tag.index] = Ground("unsure", words)
    return found


def _ground(tag: ParsedTag, turn: _Turn | None, cited: tuple[int, str] | None, advice: Sequence[str]) -> Ground:
    quote = folded(tag.quote)
    words = "" if turn is None or len(quote) < LEAST_QUOTE else _words_of(quote, tag.tag, turn, cited, advice)
    if not tag.relevant or tag.followed == "no":
        return Ground("not_followed", words)
    if tag.turn is None or len(quote) < LEAST_QUOTE:
        return Ground("no_quote", "")
    if turn is None or not words:
        return Ground("misquoted", "")
    if cited is None or turn.number <= cited[0]:
        return Ground("too_early", words)
    return Ground("" if words in ("person", "run") else "no_proof", words)


def _words_of(
    quote: str, verdict: str | None, turn: _Turn, cited: tuple[int, str] | None, advice: Sequence[str]
) -> str:
    """Return whose words a quote is; "" where the turn does not hold it."""
    found = next((whose for whose, text in _pieces(quote, verdict, turn) if quote in folded(text)), "")
    if found and any(quote in text for text in advice):
        return "playbook"
    return "subagent" if found and cited is not None and turn.message.chain != cited[1] else found


def _pieces(quote: str, verdict: str | None, turn: _Turn) -> Iterator[tuple[str, str]]:
    """Yield whose words each text of a turn is, those that prove something first."""
    message = turn.message
    if message.origin in ("human", "refusal"):
        yield "person", message.text
    for call, result in turn.answered:
        is_said = call is None or quote in folded(str(call.input.get("command")))  # the agent had it printed
        yield "run" if call and not is_said and _proves(call, result, verdict) else "tool", result.text
    yield "agent" if message.role == "assistant" else "client", message.text
    yield "agent", message.thinking
    for call in message.calls:
        yield "agent", json.dumps(call.input, ensure_ascii=False)


def _proves(call: ToolCall, result: ToolResult, verdict: str | None) -> bool:
    """Return whether a call is a run that ended as a verdict says: only a failed one proves harm, and it no help."""
    if not is_run(call):
        return False
    ending = read_result(read_call(call), result.text, result.is_error).ending
    return ending == "fails" if verdict == "harmful" else ending != "fails" and not result.is_error


def _same_words(tag: ParsedTag, other: ParsedTag) -> bool:
    """Return whether two verdicts, on different bullets, quote the same words: one sentence is no proof of each."""
    if tag.name == other.name or tag.turn != other.turn:
        return False
    one, two = folded(tag.quote), folded(other.quote)
    return one in two or two in one


def folded(text: str) -> str:
    """Return a text as a model was shown it, with each run of white space as one space."""
    return " ".join(redact(visible(text)).split())
