"""The interface of a backend, which rules, fixtures and models implement.

Invariant: text in, answer out. A backend returns a text and facts about the call, and does not use
the ledger. The answer's text is appended to the ledger before it is parsed, so no call is made
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from reflector.config import ConfigError
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
        self.stage = stage
        self.attempts = attempts
        self.final = final
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
            f"{backend.name} judges sessions only; a trajectory needs a model, such as "
            "--judge anthropic"
        )
    return backend.reply


def judge_named(backend: str, client: str) -> str:
    """Return a judge's name: its backend's, and that of the client that it asks, "" for the only
    one.
    """
    return f"{backend} {client}".strip()
