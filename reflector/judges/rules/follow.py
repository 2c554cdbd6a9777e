"""Reads a window once, as a stream, and gives each citation the messages that follow it.

Invariant: evidence comes only from later messages on the same chain. A message before a citation,
or on another sidechain, is never evidence for it. Of the messages before it, only two things are
used: which checks were red, and which other bullets were cited. A verdict depends on the `BEFORE`
records before its citation and the `FOLLOWED` records after it. So a reader that begins `BEFORE`
records earlier finds the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from reflector.judges.reading.people import read_remark
from reflector.judges.reading.steps import Step, read_call, read_result
from reflector.judges.reading.wordings import expression
from reflector.judges.rules.citation import Citation, check_of
from reflector.playbook.bullet import Bullet
from reflector.transcripts.citations import BEFORE, FOLLOWED, called_wrong, citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

#: The most open citations per bullet and chain, chains and calls that are kept, and characters of
#: a result that are read.
_OPEN_PER_BULLET = 8
_MAX_CHAINS = 32
_MAX_CALLS = 128
_READ = 16 * 1024


@dataclass(frozen=True)
class _Began:
    """A call and its place. Its step is read only when it is needed, because most calls come before
    any citation.
    """

    at: int
    call: ToolCall

    @cached_property
    def step(self) -> Step:
        return read_call(self.call)


class _Ended(NamedTuple):
    """The result of a call. Before the first citation it stays unread, because only the red checks
    matter.
    """

    at: int
    began: _Began
    result: ToolResult


class _Run(NamedTuple):
    """How a check or command ended: the place of its result and of its call."""

    at: int
    began_at: int
    check: str
    passed: bool


@dataclass(slots=True)
class _Chain:
    """One conversation while it is read: the main one, or one sidechain.

    at         the place of the last record
    turn       messages of users so far
    cited_at   the place of this turn's last citation of each bullet
    calls      calls that wait for their result, by their ids
    unread     the last results before the first citation
    runs       how checks and commands ended
    last_text  the agent's last words, "" after those of a user
    wants_words_at  the place of the user's last message, if it asks for words
    """

    at: int = 0
    turn: int = 0
    cited_at: dict[str, int] = field(default_factory=dict)
    citations: list[Citation] = field(default_factory=list)
    calls: dict[str, _Began] = field(default_factory=dict)
    unread: deque[_Ended] = field(default_factory=deque)
    runs: deque[_Run] = field(default_factory=deque)
    last_text: str = ""
    wants_words_at: int | None = None

    def release(self, *, at_once: bool = False) -> Iterator[Citation]:
        """Yield, once, each citation that no later message can affect. With `at_once`, yield all.

        A yielded citation stays while its step continues, so that its repetition does not open
        another one.
        """
        for citation in [*self.citations]:
            is_far = self.at - citation.at > FOLLOWED
            if not (at_once or is_far or citation.is_done):
                continue
            if not citation.is_over:
                yield citation
            citation.is_over = True
            if citation.is_done or not citation.is_open:
                self.citations.remove(citation)

    def read_end(self, ended: _Ended) -> None:
        """Read how a call ended. Pass its end to the open citations, and keep it in `runs` for the
        red checks of later citations. A call that began more than `BEFORE` records before a
        citation is not about it.
        """
        call, step = ended.began.call, ended.began.step
        if step.kind == "poll":
            return
        end = read_result(step, ended.result.text[:_READ], ended.result.is_error)
        for citation in self.citations:
            if ended.began.at >= citation.at - BEFORE:
                citation.take_result(call, step, end)
        if end.ending not in ("silent", "mechanics"):
            has_passed = end.ending != "fails"
            self.runs.append(_Run(ended.at, ended.began.at, check_of(step), has_passed))
        while self.runs and self.runs[0].at < self.at - BEFORE:
            self.runs.popleft()

    def red(self) -> frozenset[str]:
        """Return the checks and commands whose last run failed."""
        while self.unread:
            self.read_end(self.unread.popleft())
        recent = [run for run in self.runs if run.began_at >= self.at - BEFORE]
        last = {run.check: run.passed for run in recent}
        return frozenset(check for check, passed in last.items() if not passed)


@dataclass(slots=True)
class Reader:
    """Reads messages in order; `bullets` are the live ones whose citations are judged, by name.

    at  the place of the next record: how many of its session come before it
    """

    bullets: Mapping[str, Bullet]
    at: int
    _chains: dict[str, _Chain] = field(default_factory=dict)

    def read(self, messages: Iterable[Message]) -> Iterator[Citation]:
        """Yield every citation once, as soon as no later message can affect it."""
        for message in messages:
            yield from self._take(message)
        for chain in self._chains.values():
            yield from chain.release(at_once=True)

    def _take(self, message: Message) -> Iterator[Citation]:
        """Read a message, and yield the citations that are now complete."""
        chain = self._chains.get(message.chain)
        if chain is None:
            yield from self._forget_chains()
            chain = self._chains[message.chain] = _Chain()
        chain.at = self.at
        self.at += 1
        yield from chain.release()
        if message.origin == "model":
            yield from self._take_model(chain, message)
        elif message.origin in ("human", "refusal"):
            _take_person(chain, message)
        elif message.origin == "tool":
            for result in message.results:
                _take_result(chain, result)

    def _forget_chains(self) -> Iterator[Citation]:
        """Yield the citations of sidechains without recent messages, and forget these chains,
        because a window may contain thousands.
        """
        if len(self._chains) <= _MAX_CHAINS:
            return
        oldest = self.at - FOLLOWED - BEFORE
        for key in [key for key, chain in self._chains.items() if chain.at < oldest]:
            yield from self._chains.pop(key).release(at_once=True)

    def _take_model(self, chain: _Chain, message: Message) -> Iterator[Citation]:
        """Begin a citation for each cited bullet, and add the calls to the steps of the citations
        that are still open.
        """
        names = citations_of(message)
        cited = {*names, *message.beside}
        spoken = message.text.strip()
        text = spoken or message.thinking.strip()
        if text:
            for citation in chain.citations:
                # a step ends when the agent speaks again after a call
                citation.is_open = citation.is_open and not citation.step_kinds
        if spoken or cited:
            chain.last_text = spoken[-500:]  # "" after a citation in the agent's thoughts
        chain.cited_at.update(dict.fromkeys(cited, chain.at))
        for name in names:
            if name in self.bullets:
                yield from self._cite(chain, name, text)
        if cited:
            _note_names(chain, cited, called_wrong(message))
        for call in message.calls:
            _take_call(chain, call)

    def _cite(self, chain: _Chain, name: str, text: str) -> Iterator[Citation]:
        """Open a citation, unless its step repeats it; yield one that must make room for it."""
        mine = [citation for citation in chain.citations if citation.name == name]
        if mine and _is_repeated(mine[-1], chain):
            mine[-1].mentioned = chain.at
            return
        followed = [citation for citation in mine if not citation.is_over]
        if len(followed) >= _OPEN_PER_BULLET:
            chain.citations.remove(followed[0])
            yield followed[0]
        chain.citations.append(_open(chain, self.bullets[name], text))


def _is_repeated(citation: Citation, chain: _Chain) -> bool:
    is_near = chain.at - citation.mentioned <= BEFORE
    return citation.is_open and citation.turn == chain.turn and is_near


def _open(chain: _Chain, bullet: Bullet, text: str) -> Citation:
    """Return a citation that begins at the present message of a chain."""
    wants_words_at = chain.wants_words_at
    other_places = [place for name, place in chain.cited_at.items() if name != bullet.name]
    return Citation(
        bullet=bullet,
        text=text,
        answers=wants_words_at is not None and chain.at - wants_words_at <= BEFORE,
        red=chain.red(),
        turn=chain.turn,
        at=chain.at,
        mentioned=chain.at,
        is_alone=all(place < chain.at - BEFORE for place in other_places),
    )


def _note_names(chain: _Chain, names: Iterable[str], wrong: Mapping[str, str]) -> None:
    """Record in the citations the bullets that a message of the agent cites or calls wrong."""
    for citation in chain.citations:
        if citation.turn == chain.turn and {*names} != {citation.name}:
            citation.is_alone = False
        if citation.name in wrong:
            citation.wrong = wrong[citation.name][:200]


def _take_call(chain: _Chain, call: ToolCall) -> None:
    began = _Began(chain.at, call)
    chain.calls.pop(call.id, None)
    chain.calls[call.id] = began
    if len(chain.calls) > _MAX_CALLS:
        del chain.calls[next(iter(chain.calls))]
    for citation in chain.citations:
        citation.take_call(call, began.step)


def _take_result(chain: _Chain, result: ToolResult) -> None:
    began = chain.calls.pop(result.call_id, None)
    if began is None:
        return
    ended = _Ended(chain.at, began, result)
    if chain.citations:
        chain.read_end(ended)
        return
    chain.unread.append(ended)
    while chain.unread[0].at < chain.at - BEFORE:
        chain.unread.popleft()


def _take_person(chain: _Chain, message: Message) -> None:
    """End the steps of all citations, and add the user's words to each citation as a reply. Results
    in the message are read before its words.
    """
    refuses = message.origin == "refusal"
    if not refuses:  # a refusal is not a turn of its own; the next message is
        chain.turn += 1
        chain.cited_at.clear()
        wants_words = expression("wants-words").search(message.text)
        chain.wants_words_at = chain.at if wants_words else None
    for citation in chain.citations:
        citation.is_open = False
    for result in message.results:
        if not result.is_error:  # an error here is the user's refusal, not the end of the command
            _take_result(chain, result)
    if message.text.strip() and chain.citations:
        agent_asked = expression("question-mark").search(chain.last_text) is not None
        remark = read_remark(message.text, refuses=refuses, answers=agent_asked)
        for citation in chain.citations:
            citation.take_reply(remark)
    chain.last_text = ""
