"""Reads a window once, as a stream, and gives each citation what follows it.

Invariant: evidence flows forward and stays on its chain. What stands before a citation, or on
another sidechain, is never evidence for it; of what stood before only which checks were red, and
what else was cited, is known. A verdict rests on the `BEFORE` records before its citation and the
`FOLLOWED` after it, so one who begins to read `BEFORE` records before it finds the same.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from reflector.judges.rules.citation import Citation, Heard, checked, opened
from reflector.judges.rules.people import concedes, read_remark
from reflector.judges.rules.steps import Step, read_call, read_result
from reflector.playbook.bullet import Bullet
from reflector.transcripts.citations import BEFORE, FOLLOWED, called_wrong, citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

#: Open citations per bullet and chain, chains and calls that are remembered, characters that are
#: read.
_OPEN_PER_BULLET, _CHAINS, _KEPT, _READ = 8, 32, 128, 16 * 1024

#: A question mark of a sentence, not that of `?page=2`.
_ASKS = re.compile(r"\?(?=[\s*_)\"']|$)")


@dataclass(frozen=True)
class Began:
    """A call and its place. What it does is read when it is asked for: most calls come before
    any citation.
    """

    at: int
    call: ToolCall

    @cached_property
    def step(self) -> Step:
        return read_call(self.call)


@dataclass(slots=True)
class Chain:
    """One conversation while it is read: the main one, or one sidechain.

    at       the place of the last record
    turn     messages of people so far
    named    the place where this turn cites each bullet last
    calls    calls that wait for their result
    before   the last results before the first citation, unread: only which checks were red matters
    runs     how checks and commands ended: the place of the result, that of its call, by what it is
             the same
    pending  a person's message as heard, until the agent's first words show how it was meant
    last     the agent's last words, "" after those of a person
    """

    at: int = 0
    turn: int = 0
    named: dict[str, int] = field(default_factory=dict)
    citations: list[Citation] = field(default_factory=list)
    calls: OrderedDict[str, Began] = field(default_factory=OrderedDict)
    before: deque[tuple[int, Began, ToolResult]] = field(default_factory=deque)
    runs: deque[tuple[int, int, str, bool]] = field(default_factory=deque)
    pending: list[Heard] = field(default_factory=list)
    last: str = ""

    def released(self, *, at_once: bool = False) -> Iterator[Citation]:
        """Yield each citation that is followed no longer, or is to be so at once, and forget those
        whose step is over. One whose step goes on stays: its repetition opens no other.
        """
        for citation in [
            one for one in self.citations if at_once or one.done or self.at - one.at > FOLLOWED
        ]:
            if not citation.over:
                yield citation
            citation.over = True
            if citation.done or not citation.open:
                self.citations.remove(citation)


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
            yield from chain.released(at_once=True)

    def _take(self, message: Message) -> Iterator[Citation]:
        chain = self._chains.get(message.chain)
        if chain is None:
            yield from self._forgotten()
            chain = self._chains[message.chain] = Chain()
        chain.at, self.at = self.at, self.at + 1
        yield from chain.released()
        if message.origin == "model":
            yield from self._model(chain, message)
        elif message.origin in ("human", "refusal"):
            self._person(chain, message)
        elif message.origin == "tool":
            for result in message.results:
                self._result(chain, result)

    def _forgotten(self) -> Iterator[Citation]:
        """A window may hold thousands of sidechains: those are settled that nothing followed for
        long.
        """
        long = self.at - FOLLOWED - BEFORE
        old = (
            [key for key, chain in self._chains.items() if chain.at < long]
            if len(self._chains) > _CHAINS
            else ()
        )
        for key in old:
            yield from self._chains.pop(key).released(at_once=True)

    def _model(self, chain: Chain, message: Message) -> Iterator[Citation]:
        names, spoken = citations_of(message), message.text.strip()
        said = spoken or message.thinking.strip()
        cited = {*names, *message.beside}
        for citation in chain.citations if said else ():
            # a step ends where the agent goes on after a call
            citation.open = citation.open and not citation.own
        if spoken:
            for heard in chain.pending:
                heard.conceded = concedes(spoken)
            chain.pending, chain.last = [], spoken[-500:]
        elif cited:
            chain.last = ""  # asked before the citation, which is in the agent's thoughts
        chain.named.update(dict.fromkeys(cited, chain.at))
        for name in names:
            if name in self._bullets:
                yield from self._cited(chain, name, said)
        wrong = called_wrong(message)
        for citation in chain.citations if cited else ():
            citation.alone = citation.alone and (
                citation.turn != chain.turn or cited == {citation.name}
            )
            citation.wrong = (
                wrong[citation.name][:200] if citation.name in wrong else citation.wrong
            )
        for call in message.calls:
            began = Began(chain.at, call)
            chain.calls.pop(call.id, None)
            chain.calls[call.id] = began
            if len(chain.calls) > _KEPT:
                chain.calls.popitem(last=False)
            for citation in chain.citations:
                citation.take_call(call, began.step)

    def _cited(self, chain: Chain, name: str, said: str) -> Iterator[Citation]:
        mine = [citation for citation in chain.citations if citation.name == name]
        if (
            mine
            and mine[-1].open
            and mine[-1].turn == chain.turn
            and chain.at - mine[-1].mentioned <= BEFORE
        ):
            mine[-1].mentioned = chain.at
            return
        mine = [citation for citation in mine if not citation.over]
        if len(mine) >= _OPEN_PER_BULLET:
            chain.citations.remove(mine[0])
            yield mine[0]
        while chain.before:
            self._read(chain, *chain.before.popleft())
        last = {key: passed for _, began, key, passed in chain.runs if began >= chain.at - BEFORE}
        failed = [key for key, passed in last.items() if not passed]
        citation = opened(self._bullets[name], chain.turn, failed, said, chain.at)
        citation.alone = all(
            at < chain.at - BEFORE for other, at in chain.named.items() if other != name
        )
        chain.citations.append(citation)

    def _result(self, chain: Chain, result: ToolResult) -> None:
        began = chain.calls.pop(result.call_id, None)
        if began is not None and chain.citations:
            self._read(chain, chain.at, began, result)
        elif began is not None:
            chain.before.append((chain.at, began, result))
            while chain.before[0][0] < chain.at - BEFORE:
                chain.before.popleft()

    def _read(self, chain: Chain, at: int, began: Began, result: ToolResult) -> None:
        """Hand how a call ended to the citations of its chain that it does not come before by
        too much.
        """
        step = began.step
        if step.kind == "poll":
            return
        outcome = read_result(step, result.text[:_READ], result.is_error)
        for citation in chain.citations:
            if began.at >= citation.at - BEFORE:
                citation.take_result(began.call.id, step, outcome)
        if outcome.ending not in ("silent", "mechanics"):
            chain.runs.append((at, began.at, checked(step), outcome.ending != "fails"))
            while chain.runs and chain.runs[0][0] < chain.at - BEFORE:
                chain.runs.popleft()

    def _person(self, chain: Chain, message: Message) -> None:
        refuses = message.origin == "refusal"
        if not refuses:  # a refusal is no turn of its own: its sequel is
            chain.turn += 1
            chain.named.clear()
        chain.pending = []
        for citation in chain.citations:
            citation.open = False
        for result in message.results:
            if not result.is_error:
                self._result(chain, result)
        if message.text.strip() and chain.citations:
            remark = read_remark(
                message.text, refuses=refuses, answers=_ASKS.search(chain.last) is not None
            )
            chain.pending = [citation.take_word(remark) for citation in chain.citations]
        chain.last = ""
