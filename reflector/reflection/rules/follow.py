"""Reads a window once, as a stream, and gives each citation what follows it.

Invariant: evidence flows forward and stays on its chain. What stands before a citation, or on another sidechain, is
never evidence for it; of what stood before only which checks were red is known. A verdict rests on the `BEFORE` records
before its citation and the `FOLLOWED` after it, so one who begins to read `BEFORE` records before it finds the same.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from reflector.playbook.bullet import Bullet
from reflector.reflection.rules.citation import Citation, Heard, Ran, checked, opened
from reflector.reflection.rules.people import concedes, read_remark
from reflector.reflection.rules.steps import RunEnd, Step, read_call, read_result
from reflector.reflection.rules.wordings import first, wordings
from reflector.transcripts.citations import BEFORE, FOLLOWED, called_wrong, citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

#: Open citations per bullet and chain, chains and calls that are remembered, characters that are read.
_OPEN_PER_BULLET, _CHAINS, _KEPT, _READ = 8, 32, 128, 16 * 1024

#: A question mark of a sentence, not that of `?page=2`.
_ASKS = re.compile(r"\?(?=[\s*_)\"']|$)")


@dataclass(frozen=True)
class Began:
    """A call and its place. What it does is read when it is asked for: most calls come before any citation."""

    at: int
    call: ToolCall

    @cached_property
    def step(self) -> Step:
        return read_call(self.call)


@dataclass(slots=True)
class Chain:
    """One conversation while it is read: the main one, or one sidechain.

    at           the place of the last record
    turn         messages of people so far
    calls        calls that wait for their result
    before       the last results before the first citation, unread: only which checks were red matters
    runs         how checks and commands ended: the place of the result, that of its call, by what it is the same
    uncommented  results that the agent has not spoken about
    pending      a person's message as heard, until the agent's first words show how it was meant
    last         the agent's last words, "" after those of a person
    """

    at: int = 0
    turn: int = 0
    citations: list[Citation] = field(default_factory=list)
    calls: OrderedDict[str, Began] = field(default_factory=OrderedDict)
    before: deque[tuple[int, Began, ToolResult]] = field(default_factory=deque)
    runs: deque[tuple[int, int, str, bool]] = field(default_factory=deque)
    uncommented: list[Ran] = field(default_factory=list)
    pending: list[Heard] = field(default_factory=list)
    last: str = ""

    @property
    def left(self) -> list[Citation]:
        """The citations that are still followed."""
        return [citation for citation in self.citations if not citation.over]


class Reader:
    """Reads messages in order; `bullets` are the live ones whose citations are judged, by name.

    at  the place of the next record: how many of its session come before it
    """

    def __init__(self, bullets: Mapping[str, Bullet], at: int = 0) -> None:
        self._bullets = bullets
        self.at = at
        self._chains: dict[str, Chain] = {}

    def read(self, messages: Iterable[Message]) -> Iterator[Citation]:
        """Yield every citation once, as soon as nothing more can bear on it."""
        for message in messages:
            yield from self._take(message)
        for chain in self._chains.values():
            yield from chain.left

    def _take(self, message: Message) -> Iterator[Citation]:
        chain = self._chains.get(message.chain)
        if chain is None:
            yield from self._forgotten()
            chain = self._chains[message.chain] = Chain()
        chain.at, self.at = self.at, self.at + 1
        yield from _expired(chain)
        if message.origin == "model":
            yield from self._model(chain, message)
        elif message.origin in ("human", "refusal"):
            yield from _settled(chain)
            self._person(chain, message)
        elif message.origin == "tool":
            for result in message.results:
                self._result(chain, result)

    def _forgotten(self) -> Iterator[Citation]:
        """A window may hold thousands of sidechains: those are settled that nothing followed for long."""
        long = self.at - FOLLOWED - BEFORE
        old = [key for key, chain in self._chains.items() if chain.at < long] if len(self._chains) > _CHAINS else ()
        for key in old:
            yield from self._chains.pop(key).left

    def _model(self, chain: Chain, message: Message) -> Iterator[Citation]:
        names = [name for name in citations_of(message) if name in self._bullets]
        spoken = message.text.strip()
        said = spoken or message.thinking.strip()
        if said:
            if chain.pending and concedes(said):
                for heard in chain.pending:
                    heard.conceded = True
            if chain.uncommented:
                _excuse(chain, said)
            _close_steps(chain)
        if spoken:
            chain.pending = []
            chain.last = spoken[-500:]
        elif names:
            chain.last = ""  # asked before the citation, which is in the agent's thoughts
        elif message.calls:
            chain.pending = [] if not said else chain.pending
        for name in names:
            yield from self._cited(chain, name, said)
        for name, why in called_wrong(message).items():
            for citation in chain.citations:
                citation.wrong = why[:200] if citation.name == name else citation.wrong
        for call in message.calls:
            began = Began(chain.at, call)
            chain.calls.pop(call.id, None)
            chain.calls[call.id] = began
            if len(chain.calls) > _KEPT:
                chain.calls.popitem(last=False)
            for citation in chain.citations:
                citation.take_call(call, began.step, chain.turn)

    def _cited(self, chain: Chain, name: str, said: str) -> Iterator[Citation]:
        mine = [citation for citation in chain.citations if citation.name == name]
        if mine and mine[-1].open and mine[-1].turn == chain.turn and chain.at - mine[-1].mentioned <= BEFORE:
            mine[-1].mentioned = chain.at
            return
        mine = [citation for citation in chain.left if citation.name == name]
        if len(mine) >= _OPEN_PER_BULLET:
            chain.citations.remove(mine[0])
            yield mine[0]
        while chain.before:
            self._read(chain, *chain.before.popleft())
        last = {key: passed for _, began, key, passed in chain.runs if began >= chain.at - BEFORE}
        failed = [key for key, passed in last.items() if not passed]
        chain.citations.append(opened(name, self._bullets[name], chain.turn, failed, said, chain.at))

    def _result(self, chain: Chain, result: ToolResult) -> None:
        began = chain.calls.pop(result.call_id, None)
        if began is None:
            return
        if chain.citations:
            self._read(chain, chain.at, began, result)
            return
        chain.before.append((chain.at, began, result))
        while chain.before[0][0] < chain.at - BEFORE:
            chain.before.popleft()

    def _read(self, chain: Chain, at: int, began: Began, result: ToolResult) -> None:
        step = began.step
        if step.kind != "poll":
            _ended(chain, at, began, read_result(step, result.text[:_READ], result.is_error))

    def _person(self, chain: Chain, message: Message) -> None:
        refuses = message.origin == "refusal"
        chain.turn += not refuses  # a refusal is no turn of its own: its sequel is
        chain.pending = []
        for citation in chain.citations:
            citation.open = False
        for result in message.results:
            if not result.is_error:
                self._result(chain, result)
        if message.text.strip() and chain.citations:
            asked = _ASKS.search(chain.last) is not None
            remark = read_remark(message.text, refuses=refuses, answers=asked)
            for citation in chain.citations:
                chain.pending.append(citation.take_word(remark, asked=asked))
        chain.last = ""


def _expired(chain: Chain) -> Iterator[Citation]:
    """The citations that are followed no longer. One whose step goes on stays: its repetition opens no other."""
    for citation in [one for one in chain.citations if chain.at - one.at > FOLLOWED]:
        if not citation.over:
            yield citation
        citation.over = True
        if not citation.open:
            chain.citations.remove(citation)


def _settled(chain: Chain) -> Iterator[Citation]:
    """The agent has answered the last message that these heard."""
    yield from (citation for citation in chain.left if citation.done)
    chain.citations = [citation for citation in chain.citations if not citation.done]


def _close_steps(chain: Chain) -> None:
    """A step ends where the agent goes on after a call of it."""
    for citation in chain.citations:
        citation.open = citation.open and not citation.own


def _ended(chain: Chain, at: int, began: Began, outcome: RunEnd) -> None:
    """Hands how a call ended to the citations of its chain that it does not come before by too much."""
    step, call_id = began.step, began.call.id
    citations = [citation for citation in chain.citations if began.at >= citation.at - BEFORE]
    for citation in citations:
        if call_id in citation.calls:
            citation.take_end(outcome)
    if outcome.ending in ("silent", "mechanics"):
        return
    passed, key = outcome.ending in ("passes", "ran"), checked(step.kind, step.command)
    for citation in citations:
        own, mends = call_id in citation.calls, passed and key in citation.red
        if outcome.ending == "ran" and not mends:
            continue
        ran = Ran(step.kind, key, passed, own, citation.changes, mends, outcome.rule, outcome.quote)
        citation.take_result(ran)
        chain.uncommented.append(ran)
    chain.runs.append((at, began.at, key, passed))
    while chain.runs and chain.runs[0][0] < chain.at - BEFORE:
        chain.runs.popleft()


def _excuse(chain: Chain, said: str) -> None:
    """A comment explains the results since the last one: "as expected" never excuses an older failure."""
    expected = [row for row in wordings("agent") if row.says == "expected"]
    if first(expected, " ".join(said[:600].split())) is not None:
        for ran in chain.uncommented:
            ran.excused = not ran.passed
    chain.uncommented = []
