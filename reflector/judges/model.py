"""The backend that asks a model through a client, whatever the model's maker.

Invariant: a question takes no more than the allowance, and an answer is never lost. Its clients are
`agent_process.py`, `http_api.py`, and those of other packages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reflector.judges.excerpt import compose, estimate_tokens
from reflector.judges.prompts import TemplateError, find_template
from reflector.judges.protocol import MAX_TOKENS, Answer, BackendError, Prompt, Request
from reflector.playbook.bullet import sections_text
from reflector.prices import Price, Usage, cost
from reflector.text.bounds import visible
from reflector.text.secrets import quote, redact

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.judges.truth.questions import Question

#: The way out if a model rejects a prompt as too long.
SHORTER = "; lower request_tokens"


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, the reason why it ended, and the tokens that it took.

    request_id  the API's id of the request; None if it has no ids
    cost        in USD, if the client reports it itself
    requests    the number of requests that the text took
    origin      the judge of another package that answered
    """

    text: str
    model: str
    stop_reason: str
    usage: Usage
    request_id: str | None = None
    cost: str = ""
    requests: int = 1
    origin: Mapping[str, str] = field(default_factory=dict)


class Client(Protocol):
    """The sender of questions to a model. The methods of this class, except `send`, are those of
    the only client of a judge, which can be asked at any time.

    worst     the most requests that it may make on its own for one question
    overhead  the tokens that it adds to each
    """

    @property
    def worst(self) -> int:
        return 1

    @property
    def overhead(self) -> int:
        return 0

    def of(self, writer: str) -> Client:
        """Return the client to ask about a session of this agent."""
        return self

    def name(self) -> str:
        """Return its name among several, "" for the only one."""
        return ""

    def admit(self) -> None:
        """Raise BackendError if no client can be asked now, before anything is reserved for it."""
        return

    async def send(self, texts: Sequence[str]) -> Reply:
        """Send one question. All its texts except the last are the same for many questions.

        Raises: BackendError and nothing else.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelBackend:
    """Asks the model of the client.

    project         the project whose own template is used, None for the user's or ours
    request_tokens  most tokens of one request
    allowed         the templates of projects whose answers count without a quote, by their SHA-256
    prices          of the models that may answer
    """

    name: str
    client: Client
    project: Path | None = None
    request_tokens: int = 100_000
    allowed: Collection[str] = ()
    prices: Sequence[Price] = ()
    is_model = True
    rereads = False
    quotes = True

    def prompt(self, request: Request) -> Prompt:
        """Return the text to send about a window.

        Raises: BackendError if template or limit forbid it.
        """
        limit = self.request_tokens
        if request.allowance is not None:
            client = self.client.of(request.agent)
            limit = min(limit, request.allowance // client.worst - MAX_TOKENS - client.overhead)
        try:
            template = find_template(request.template, self.project)
            more = find_template("learn.txt", self.project).fill({}) if request.learns else ""
            advice = sections_text(request.playbook)
            prompt = compose(template, advice, request.cited, request.messages, limit, more)
            unquoted = request.template == "reflector.txt" and template.counts_unquoted(
                self.allowed
            )
            return replace(prompt, unquoted=unquoted)
        except TemplateError as error:
            raise BackendError(str(error), stage="template", attempts=0) from error
        except BackendError as error:
            if limit < self.request_tokens:
                error.stage = "budget"
            raise

    def answer(self, request: Request) -> Answer:
        """Judge a window.

        Raises: BackendError, and any error of reading the transcript.
        """
        client = self.client.of(request.agent)
        prompt = self.prompt(request)
        client.admit()
        request.reserve(client.worst * (prompt.tokens + client.overhead + MAX_TOKENS))
        answer = self._ask(client, (prompt.before, prompt.after), prompt.tokens)
        of = prompt.template_sha256
        how: Any = {"left_out": prompt.left_out, "unquoted": prompt.unquoted}
        return replace(answer, prompt_sha256=prompt.sha256, template_sha256=of, **how)

    def who(self, agent: str) -> str:
        """Return the name of the client to ask about a session of this agent."""
        return self.client.of(agent).name()

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory.

        Raises: BackendError.
        """
        answer = self.complete(question.prompt)
        return replace(answer, template_sha256=question.prompt.template_sha256)

    def complete(self, prompt: str) -> Answer:
        """Answer a prompt, sent without its secrets.

        Raises: BackendError.
        """
        text = redact(visible(prompt))
        tokens = estimate_tokens(text)
        if tokens > self.request_tokens:
            said = (
                f"the prompt needs about {tokens:,} tokens, more than the limit of "
                f"{self.request_tokens:,}"
            )
            way_out = "shorten the texts in the prompt, or raise request_tokens"
            raise BackendError(f"{said}; {way_out}", stage="request", attempts=0)
        answer = self._ask(self.client, (text,), tokens)
        return replace(answer, prompt_sha256=sha256(text.encode()).hexdigest())

    def _ask(self, client: Client, texts: Sequence[str], estimated: int) -> Answer:
        """Return the answer to one question. If its tokens were not counted, the estimate counts,
        because budgets must hold.

        Raises: BackendError.
        """
        begun = time.monotonic()
        reply = asyncio.run(client.send(texts))
        usage = reply.usage if reply.usage.total else Usage(estimated, estimate_tokens(reply.text))
        meta: dict[str, object] = {
            **usage.meta(),
            "estimated_tokens": estimated,
            "milliseconds": round((time.monotonic() - begun) * 1000),
            "requests": reply.requests,
            "stop_reason": quote(reply.stop_reason, 60),
        }
        if (price := reply.cost or cost(self.prices, reply.model, usage)) is not None:
            meta["cost_usd"] = str(price)
        if reply.origin:
            meta["extension"] = reply.origin
        if reply.request_id:
            meta["request_id"] = quote(reply.request_id, 100)
        return Answer(reply.text, quote(reply.model, 100), meta=meta)


def model_backend(
    name: str, client: Client, config: Config, project: Path | None, prices: Sequence[Price] = ()
) -> ModelBackend:
    """Return the backend that asks a client, with the limits of a configuration."""
    return ModelBackend(name, client, project, config.request_tokens, config.templates, prices)
