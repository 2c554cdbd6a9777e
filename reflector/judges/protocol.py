"""The interface of a backend: rules, fixtures and models implement it.

Invariant: a backend answers with text and facts about the call, and judges nothing itself. The
answer's text is appended to the ledger before anybody parses it, so no call is ever made twice. An
outage says nothing about a session, so it uses up none of its attempts, however long it lasts: it
is tried again with a pause that grows to an hour, never before the API wants to be asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from reflector.config import ConfigError
from reflector.events.event import REFLECTION_FAILED, Event
from reflector.playbook.bullet import Bullet
from reflector.prices import Usage
from reflector.transcripts.message import Message

if TYPE_CHECKING:
    from reflector.judges.truth.questions import Question

#: Stages at which a failure says nothing about the window: the API is away, or refuses us whatever
#: it is asked.
OUTAGES = frozenset({"transport", "access"})
#: Stages at which what came was no answer: the judge's words could not be used, or it had none.
NO_ANSWER = frozenset({"parse", "answer"})
#: How often a judge is asked by itself for an answer about one part of a session.
MOST_QUESTIONS = 3
#: Of one answer (requirements A-15).
MAX_TOKENS = 4096

Mode = Literal["citation_guided", "content_based", "ground_truth", "checked"]


@dataclass(frozen=True, slots=True)
class Request:
    """One window to judge.

    playbook   the live bullets, canonical order
    cited      known names to judge, in order of first appearance: those that the window cites, and
               of earlier windows of its session those that are judged again
    again      those of earlier windows
    messages   call it for a fresh stream of the window's messages, oldest first, bounded each
    agent      the agent that wrote the session, as its events name it; "" where none is known
    passed, judged, settled   where that stream begins in the session, as `SessionText` has it
    allowance  most tokens that the answer may take, None for no limit
    template   of the question that a model is asked, and whether it is asked as well what the
               playbook lacks (`learns`)
    reserve    called before a model is asked, with the most tokens that all of this request may
               take by then; raises BackendError of the stage budget where that is more than is left
               by now
    """

    session_id: str
    playbook: tuple[Bullet, ...]
    cited: tuple[str, ...]
    messages: Callable[[], Iterable[Message]]
    agent: str = ""
    passed: int = 0
    judged: int = 0
    settled: Mapping[str, Sequence[str]] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    allowance: int | None = None
    reserve: Callable[[int], None] = lambda _: None
    template: str = "reflector.txt"
    learns: bool = False

    @property
    def mode(self) -> Mode:
        """Citation-guided when the window cites anything, else content-based (requirements
        A-12).
        """
        return "citation_guided" if self.cited else "content_based"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent: `before` is the same for every session with this playbook (it is cached),
    `after` is not.

    tokens    an estimate, never too low
    left_out  what of the window was cut, by kind
    unquoted  whether its template is the person's and asks for no quotes
    """

    before: str
    after: str
    template_sha256: str
    tokens: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    unquoted: bool = False

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.before + self.after

    @property
    def sha256(self) -> str:
        """Hex digest of the whole prompt."""
        return sha256(self.text.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    `text` is the raw answer, when all is well the JSON `{"analysis": str, "bullet_tags": [{"name":
    str, "tag": "helpful" | "harmful" | "neutral", "rationale": str}]}`. Where a model judges, each
    tag has its evidence, as `prompts/reflector.txt` asks for it.

    meta      what is not deterministic: tokens, latency, cost, request ids
    left_out  what was cut from the window to make it fit, by kind
    unquoted  whether a verdict counts without a quote, since the person's own template asks for
              none
    """

    text: str
    model: str
    prompt_sha256: str | None = None
    template_sha256: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unquoted: bool = False


class BackendError(Exception):
    """A reflection could not be had.

    stage        where: template, request, transport (the API is away), access (it refuses us,
                 whatever it is asked) or answer; budget where the allowance is too small for any
                 request
    attempts     how many requests were made for it
    final        True where asking again would end the same way
    retry_after  seconds for which the API asked to be left alone
    usage        tokens that the requests took or may have taken
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str,
        attempts: int = 1,
        final: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.stage, self.attempts, self.final = stage, attempts, final
        self.retry_after = retry_after
        self.usage = Usage()


class Backend(Protocol):
    """Who judges a window.

    name     its name in events and configuration
    is_model True where an answer costs time and money: the gate's budgets hold, no process waits
    for it under
             a project's lock, and a window without citations may be judged as well
    rereads  True where it judges each window together with those before it of its session, so that
             its verdicts do not depend on where the session was cut; False where it is asked once,
             about the new records
    quotes   True where a model judges: its verdicts count with evidence only, see
             `reflector.judges.evidence`
    """

    is_model: bool
    rereads: bool
    quotes: bool

    @property
    def name(self) -> str: ...

    def answer(self, request: Request) -> Answer:
        """Judge a window. May raise `BackendError` and nothing else."""
        ...


@runtime_checkable
class Asks(Protocol):
    """A backend that sends a prompt, perhaps to one about this session and to another one about
    the next.
    """

    def prompt(self, request: Request) -> Prompt:
        """Return the prompt about a window. Raises BackendError, and what reading the transcript
        raises.
        """
        ...

    def who(self, agent: str) -> str:
        """Return who is asked about a session that this agent wrote, "" for the only one."""
        ...


@runtime_checkable
class Replies(Protocol):
    """A backend that answers questions about trajectories too."""

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory. May raise `BackendError` and nothing else."""
        ...


def reply_of(backend: Backend) -> Callable[[Question], Answer]:
    """Return the method with which a backend answers about trajectories. Raises ConfigError
    where it has none.
    """
    if not isinstance(backend, Replies):
        raise ConfigError(
            f"the backend {backend.name} judges sessions only; a trajectory needs a model: "
            "name anthropic, agent or fixtures with --backend"
        )
    return backend.reply


#: The first pause; each further failure doubles it, up to the longest.
BACKOFF = timedelta(minutes=1)
_LONGEST = timedelta(hours=1)
#: Stage of the failure with which a person ends the tries.
GIVEN_UP = "given up"
#: Stage of a window whose event was redacted: it cannot be judged any more.
REDACTED = "window"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The failures of a window so far, by one judge.

    attempts  those that the window itself used up; of several parts of it, the most that one used
              up
    outages   those since the last of these: the API was away or refused us
    unusable  how often what came was no answer, in the same way
    last      the last failure
    """

    attempts: int
    outages: int
    unusable: int
    last: Event

    def is_over(self, max_attempts: int) -> bool:
        """Return whether the window is not tried again by itself."""
        is_final = bool(self.last.facts.get("final"))
        return is_final or self.attempts >= max_attempts or self.unusable >= MOST_QUESTIONS

    @property
    def stage(self) -> str:
        """Where it failed last."""
        return str(self.last.facts.get("stage"))

    @property
    def not_before(self) -> datetime:
        """Until when the API asked to be left alone."""
        seconds = self.last.meta.get("retry_after", 0)
        wait = timedelta(seconds=seconds) if type(seconds) is int else timedelta()
        return datetime.fromisoformat(self.last.recorded_at) + wait

    @property
    def next_try(self) -> datetime:
        """When the pause after the last failure is over."""
        doubled = min(max(self.outages or self.attempts, 1) - 1, 10)
        pause: timedelta = min(BACKOFF * 2**doubled, _LONGEST)
        return max(self.not_before, datetime.fromisoformat(self.last.recorded_at) + pause)


def judge_in(failure: Event) -> str:
    """Return who was asked when a reflection failed: the backend, and which of its clients."""
    return judge_named(str(failure.facts.get("backend")), str(failure.facts.get("client", "")))


def judge_named(backend: str, client: str) -> str:
    """Return a judge's name: its backend's, and that of the client that it asks, "" for the only
    one.
    """
    return f"{backend} {client}".strip()


def trouble_of(story: Iterable[Event], judge: str | None = None) -> Trouble | None:
    """Return the trouble of a judge with a window, from the events about it in order; None where
    none is a failure of its. Without a judge, it is that of the last one that failed.
    """
    failures = [event for event in story if event.type == REFLECTION_FAILED]
    if judge is None and failures:
        judge = judge_in(failures[-1])
    outages = 0
    attempts, unusable = Counter[str](), Counter[str]()
    last: Event | None = None
    for event in failures:
        stage = event.facts.get("stage")
        if judge_in(event) != judge and stage not in (GIVEN_UP, REDACTED):
            continue
        last = event
        if stage in OUTAGES:
            outages += 1
        else:
            outages = 0
            part = str(event.facts.get("part"))
            attempts[part] += stage != GIVEN_UP
            unusable[part] += stage in NO_ANSWER
    if last is None:
        return None
    return Trouble(
        max(attempts.values(), default=0), outages, max(unusable.values(), default=0), last
    )
