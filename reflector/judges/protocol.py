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

#: Stages at which a failure shows nothing about the window: the API is away, or refuses every
#: question of ours.
OUTAGES = frozenset({"transport", "access"})
#: Stages at which the judge gave no answer: its text could not be used, or there was none.
NO_ANSWER = frozenset({"parse", "answer"})
#: How often a judge is asked automatically for an answer about one part of a session.
MOST_QUESTIONS = 3
#: The most tokens of one answer (requirements A-15).
MAX_TOKENS = 4096

Mode = Literal["citation_guided", "content_based", "ground_truth", "checked"]


@dataclass(frozen=True, slots=True)
class Request:
    """One window to judge.

    playbook   the live bullets, canonical order
    cited      known names to judge, in order of first appearance: those that the window cites, and
               those of earlier windows of its session that are judged again
    again      those of earlier windows
    messages   returns a fresh stream of the window's messages, oldest first, each bounded
    agent      the agent that wrote the session, as its events name it; "" if none is known
    passed, judged_from, settled   the beginning of that stream in the session, as `SessionText`
               has it
    allowance  most tokens that the answer may take, None for no limit
    template   of the question to a model
    learns     whether the question also asks for gaps of the playbook
    reserve    called before a model is asked, with the most tokens that all of this request may
               take by then; raises BackendError of the stage budget if that is more than is left
               by now
    """

    session_id: str
    playbook: tuple[Bullet, ...]
    cited: tuple[str, ...]
    messages: Callable[[], Iterable[Message]]
    agent: str = ""
    passed: int = 0
    judged_from: int = 0
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
    """The text to send: `before` is the same for every session with this playbook (it is cached),
    `after` is not.

    tokens    an estimate, never too low
    left_out  the omitted parts of the window, by kind
    unquoted  whether its template is the user's and asks for no quotes
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
    """The answer of a judge.

    `text` is the raw answer. A valid one is the JSON `{"analysis": str, "bullet_tags": [{"name":
    str, "tag": "helpful" | "harmful" | "neutral", "rationale": str}]}`. If a model judges, each tag
    has its evidence, as `prompts/reflector.txt` asks for it.

    meta      nondeterministic facts: tokens, latency, cost, request ids
    left_out  the parts of the window that were cut to make it fit, by kind
    unquoted  whether a verdict counts without a quote, because the user's own template asks for
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
    """The failure of a reflection.

    stage        the failed step: template, request, transport (the API is away), access (it refuses
                 every question of ours) or answer; budget if the allowance is too small for any
                 request
    attempts     how many requests were made for it
    final        True if asking again would end the same way
    retry_after  seconds that the API asks to wait
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
    """The judge of a window.

    name      its name in events and configuration
    is_model  True if an answer costs time and money: the gate's budgets hold, no process waits for
              it under a project's lock, and a window without citations may be judged as well
    rereads   True if it judges each window together with the earlier ones of its session, so that
              its verdicts do not depend on the place at which the session was cut; False if it is
              asked once, about the new records
    quotes    True if a model judges: its verdicts count with evidence only, see
              `reflector.judges.evidence`
    """

    is_model: bool
    rereads: bool
    quotes: bool

    @property
    def name(self) -> str: ...

    def answer(self, request: Request) -> Answer:
        """Judge a window.

        Raises: BackendError and nothing else.
        """
        ...


@runtime_checkable
class Asks(Protocol):
    """A backend that sends a prompt to a client, which may differ between sessions."""

    def prompt(self, request: Request) -> Prompt:
        """Return the prompt about a window.

        Raises: BackendError, and any error of reading the transcript.
        """
        ...

    def who(self, agent: str) -> str:
        """Return the name of the client to ask about this agent's session, "" for the only one."""
        ...


@runtime_checkable
class Replies(Protocol):
    """A backend that also answers questions about trajectories."""

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory.

        Raises: BackendError and nothing else.
        """
        ...


def reply_of(backend: Backend) -> Callable[[Question], Answer]:
    """Return the method with which a backend answers about trajectories.

    Raises: ConfigError if it has none.
    """
    if not isinstance(backend, Replies):
        raise ConfigError(
            f"the judge `{backend.name}` judges only sessions; for a trajectory, name a model, for "
            "example with --judge anthropic"
        )
    return backend.reply


def judge_named(backend: str, client: str) -> str:
    """Return a judge's name: the backend, then the client that it asks. `client` is "" if the
    backend has only one.
    """
    return f"{backend} {client}".strip()
