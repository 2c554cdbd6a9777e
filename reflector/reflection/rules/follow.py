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
from typing import TypeVar

from reflector.playbook.bullet import Bullet
from reflector.reflection.rules.citation import Citation, Heard, Ran, checked, opened
from reflector.reflection.rules.outcomes import RunEnd, read_result
from reflector.reflection.rules.people import concedes, read_remark
from reflector.reflection.rules.steps import CHECKS, Step, read_call
from reflector.reflection.rules.wordings import first, wordings
from reflector.transcripts.citations import BEFORE, FOLLOWED, citations_of
from reflector.transcripts.message import Message, ToolCall, ToolResult

_T = TypeVar("_T")
#: Open citations per bullet and chain, chains, calls and tasks that are remembered, characters that are read.
_OPEN_PER_BULLET, _CHAINS, _KEPT, _READ = 8, 32, 128, 16 * 1024

#: A question mark of a sentence, not that of `?page=2`.
_ASKS = re.compile(r"\?(?=[\s*_)\"']|$)")
_NOTICE = re.compile(r"<(?:task|bash)-notification>|<background-task")
_TASK_ID = re.compile(r"<(?:task-id|shell-id|task_id)>([^<]+)<")
_BACKGROUND = re.compile(r"(?:running in (?:the )?background with ID: ?|task_id: ?|agentId: ?)([\w-]+)")

_STARTED = ("background", "task_id", "agentId")
_NONE = (0, None, "", "")


@dataclass(slots=True)
class Chain:
    """One conversation while it is read: the main one, or one sidechain.

    at           the place of the last record
    turn         messages of people so far
    calls        calls that wait for their result with their places, read or as they are while nothing is cited
    before       the last results before the first citation, unread: only which checks were red matters
    tasks        background tasks, as the call that started them: its place, what it does, by what its runs are the
                 same, its id
    runs         how checks and commands ended: the place of the result, that of its call, by what it is the same
    uncommented  results that the agent has not spoken about
    pending      a person's message as heard, until the agent's first words show how it was meant
    last         the agent's last words, "" after those of a person
    """

    at: int = 0
    turn: int = 0
    citations: list[Citation] = field(default_factory=list)
    calls: OrderedDict[str, tuple[int, Step | ToolCall]] = field(default_factory=OrderedDict)
    before: deque[tuple[int, int, Step | ToolCall, ToolResult]] = field(default_factory=deque)
    tasks: OrderedDict[str, tuple[int, Step, str, str]] = field(default_factory=OrderedDict)
    runs: deque[tuple[int, int, str, bool]] = field(default_factory=deque)
    uncommented: list[Ran] = field(default_factory=list)
    pending: list[Heard] = field(default_factory=list)
    last: str = ""


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
            yield from self.take(message, citations_of(message))
        yield from self.left()

    def take(self, message: Message, names: Iterable[str]) -> Iterator[Citation]:
        """Read one message, which cites these names; yield each citation when nothing more can bear on it."""
        chain = self._chains.get(message.chain)
        if chain is None:
            yield from self._forgotten()
            chain = self._chains[message.chain] = Chain()
        chain.at, self.at = self.at, self.at + 1
        yield from _expired(chain)
        if message.origin == "model":
            yield from self._model(chain, message, names)
        elif message.origin in ("human", "refusal"):
            yield from _settled(chain)
            self._person(chain, message)
        elif message.origin == "tool":
            for result in message.results:
                self._result(chain, result)
        elif message.origin == "injected":
            self._notice(chain, message.text)

    def left(self) -> Iterable[Citation]:
        """Return the citations that are open where the messages end."""
        return [citation for chain in self._chains.values() for citation in chain.citations if not citation.over]

    def _forgotten(self) -> Iterator[Citation]:
        """A window may hold thousands of sidechains: those are settled that nothing followed for long."""
        long = self.at - FOLLOWED - BEFORE
        for key in (
            [key for key, chain in self._chains.items() if chain.at < long] if len(self._chains) > _CHAINS else ()
        ):
            yield from (citation for citation in self._chains.pop(key).citations if not citation.over)

    def _model(self, chain: Chain, message: Message, names: Iterable[str]) -> Iterator[Citation]:
        spoken = message.text.strip()
        said = spoken or message.thinking.strip()
        if said:
            if chain.pending and concedes(said):
                for heard in chain.pending:
                    heard.conceded = True
            if chain.uncommented:
                _excuse(chain, said)
            for citation in chain.citations:
                citation.open = citation.open and not citation.own
        if spoken:
            chain.pending = []
            chain.last = spoken[-500:]
        elif any(name in self._bullets for name in names):
            chain.last = ""  # asked before the citation, which is in the agent's thoughts
        elif message.calls:
            chain.pending = [] if not said else chain.pending
        for name in names:
            if name in self._bullets:
                yield from self._cited(chain, name, said)
        for call in message.calls:
            step = read_call(call) if chain.citations else call
            _remember(chain.calls, call.id, (chain.at, step))
            for citation in chain.citations:
                citation.take_call(call, step if isinstance(step, Step) else read_call(call), chain.turn)

    def _cited(self, chain: Chain, name: str, said: str) -> Iterator[Citation]:
        mine = [citation for citation in chain.citations if citation.name == name]
        if mine and mine[-1].open and mine[-1].turn == chain.turn and chain.at - mine[-1].mentioned <= BEFORE:
            mine[-1].mentioned = chain.at
            return
        mine = [citation for citation in mine if not citation.over]
        if len(mine) >= _OPEN_PER_BULLET:
            chain.citations.remove(mine[0])
            yield mine[0]
        while chain.before:
            self._read(chain, *chain.before.popleft())
        red: dict[str, bool] = {}
        for _, began, key, passed in chain.runs:
            if began >= chain.at - BEFORE:
                red[key] = not passed
        failed = [key for key, is_red in red.items() if is_red]
        chain.citations.append(opened(name, self._bullets[name], chain.turn, failed, said, chain.at))

    def _result(self, chain: Chain, result: ToolResult) -> None:
        known = chain.calls.pop(result.call_id, None)
        if known is None:
            return
        began, call = known
        if chain.citations:
            self._read(chain, chain.at, began, call, result)
            return
        chain.before.append((chain.at, began, call, result))
        while chain.before[0][0] < chain.at - BEFORE:
            chain.before.popleft()

    def _read(self, chain: Chain, at: int, began: int, call: Step | ToolCall, result: ToolResult) -> None:
        step = read_call(call) if isinstance(call, ToolCall) else call
        text = result.text[:_READ]
        head = text[:400]
        started = _BACKGROUND.search(head) if any(word in head for word in _STARTED) else None
        if started:
            _remember(chain.tasks, started.group(1), (began, step, checked(step.kind, step.command), result.call_id))
        key, call_id = "", result.call_id
        if step.task:
            task = chain.tasks.get(step.task)
            if task is None:
                return
            began, step, key, call_id = task
        _ended(chain, at, began, step, key, read_result(step, text, result.is_error), call_id)

    def _notice(self, chain: Chain, text: str) -> None:
        """Notifications of background tasks are results that come late; all else here is the client's."""
        if not chain.citations or not _NOTICE.search(text[:200]):
            return
        for citation in chain.citations:
            citation.open = citation.open and not citation.own
        task = _TASK_ID.search(text)
        began, step, key, call_id = chain.tasks.get(task.group(1).strip(), _NONE) if task else _NONE
        if step is None:
            return
        summary = re.search(r"<summary>(.*?)</summary>", text, re.DOTALL)
        words = " ".join(summary.group(1).split())[:200] if summary else ""
        if re.search(r"<status>failed|failed with exit code|exit code [1-9]", text):
            _ended(chain, -1, began, step, key, RunEnd("fails", words, "background-failed"), call_id)
        elif "exit code 0" in text and step.kind in CHECKS:
            _ended(chain, -1, began, step, key, RunEnd("passes", words, "background-done"), call_id)

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
                heard = Heard(remark, citation.later, citation.shares(remark.about), asked)
                citation.take_word(heard)
                chain.pending.append(heard)
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
    done = [citation for citation in chain.citations if citation.done and not citation.over]
    chain.citations = [citation for citation in chain.citations if not citation.done]
    yield from done


def _ended(chain: Chain, at: int, began: int, step: Step, key: str, outcome: RunEnd, call_id: str) -> None:
    """Hands how a call ended to the citations of its chain that it does not come before by too much; `key` is by what
    its runs are the same, where known. A notice has no place: it bears on no later citation."""
    citations = [citation for citation in chain.citations if began >= citation.at - BEFORE]
    for citation in citations:
        if call_id in citation.calls:
            citation.take_end(outcome)
    if outcome.ending in ("silent", "mechanics"):
        return
    passed, key = outcome.ending in ("passes", "ran"), key or checked(step.kind, step.command)
    for citation in citations:
        mends = passed and key in citation.red
        if outcome.ending == "ran" and not mends:
            continue
        ran = Ran(
            step.kind, key, passed, call_id in citation.calls, citation.changes, mends, outcome.rule, outcome.quote
        )
        citation.take_result(ran)
        chain.uncommented.append(ran)
    if at >= 0:
        chain.runs.append((at, began, key, passed))
        while chain.runs and chain.runs[0][0] < chain.at - BEFORE:
            chain.runs.popleft()


def _excuse(chain: Chain, said: str) -> None:
    """A comment explains the results since the last one: "as expected" never excuses an older failure."""
    expected = [row for row in wordings("agent") if row.says == "expected"]
    if first(expected, " ".join(said[:600].split())) is not None:
        for ran in chain.uncommented:
            ran.excused = not ran.passed
    chain.uncommented = []


def _remember(kept: OrderedDict[str, _T], key: str, value: _T) -> None:
    """Keeps the newest."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
