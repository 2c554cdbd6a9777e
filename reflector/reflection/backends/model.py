"""A backend that asks a model, whichever client sends the question.

Invariant: one answer takes one deadline and at most `MAX_RETRIES` requests, and what was answered is never thrown
away. Where a question is too long for its model, half of it is asked, never the same again; what the answers took is
added up, and one that the window's end cut short counts if no better one follows. All stay within the allowance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from reflector.playbook.bullet import sections_text
from reflector.playbook.counting import VERDICTS
from reflector.prices import Usage, cost
from reflector.reflection.excerpt import estimate_tokens
from reflector.reflection.prompting import Prompt, PromptTooLong, compose
from reflector.reflection.prompts import TemplateError, find_template, read_template
from reflector.reflection.protocol import Answer, BackendError, Request
from reflector.text.bounds import visible
from reflector.text.secrets import quote, redact
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.reflection.truth.asking import Question

#: Requests for one answer, whatever they are for (requirement A-16).
MAX_RETRIES: Final = 3
#: The form of an answer about a window, for a client that can demand one.
SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {
        "analysis": {"type": "string"},
        "bullet_tags": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "rationale": {"type": "string"},
                    "tag": {"type": "string", "enum": list(VERDICTS)},
                },
                "required": ["name", "rationale", "tag"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["analysis", "bullet_tags"],
    "additionalProperties": False,
}


class CallFailed(BackendError):
    """A model did not answer. `too_long` is True where a shorter question might get an answer."""

    def __init__(
        self, message: str, *, stage: str, attempts: int, too_long: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(message, stage=stage, attempts=attempts, retry_after=retry_after)
        self.too_long = too_long


@dataclass(slots=True)
class Tries:
    """What a question has used up, in whatever form it was put: requests, and seconds since the first of them."""

    made: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, why it ended there, and the tokens that it took.

    request_id  by which the API knows the request; None where it has no ids
    structured  whether the model was bound to the schema
    """

    text: str
    model: str
    stop_reason: str
    usage: Usage
    request_id: str | None = None
    structured: bool = False


class Client(Protocol):
    """Who sends a question to a model.

    name           the backend's name in events and configuration
    output_tokens  most tokens of an answer
    """

    @property
    def name(self) -> str: ...

    @property
    def output_tokens(self) -> int: ...

    async def send(self, texts: Sequence[str], schema: Mapping[str, object] | None, tries: Tries) -> Reply:
        """Send one question and count each request in `tries`, of which there must be one left.

        All texts but the last are the same for many questions, so a client may have them cached. `schema` is the form
        of the answer, where a client can demand one. Raises CallFailed and nothing else.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelBackend:
    """Asks the model of a client.

    project         whose own template is used, None for the user's or ours
    template        a template file instead of these
    request_tokens  most tokens of one request
    """

    client: Client
    project: Path | None = None
    template: Path | None = None
    request_tokens: int = 100_000
    is_model: bool = True
    rereads: bool = False

    @property
    def name(self) -> str:
        return self.client.name

    def prompt(self, request: Request, most: int | None = None) -> Prompt:
        """Return what would be sent about a window, in at most so many tokens where the model takes no more.

        Raises BackendError where template or limit forbid it.
        """
        limit = self.request_tokens
        if request.allowance is not None:
            limit = min(limit, request.allowance - self.client.output_tokens)
        try:
            template = (
                find_template("reflector.txt", self.project)
                if self.template is None
                else read_template("reflector.txt", self.template)
            )
            playbook = sections_text(request.playbook)
            return compose(template, playbook, request.cited, request.messages, limit if most is None else most)
        except TemplateError as error:
            raise BackendError(str(error), stage="template", attempts=0) from error
        except PromptTooLong as error:
            stage = "budget" if limit < self.request_tokens and most is None else "request"
            raise BackendError(str(error), stage=stage, attempts=0) from error

    def answer(self, request: Request) -> Answer:
        """Judge a window. Raises BackendError; what the file of the transcript raises goes through."""
        prompt: Prompt | None = self.prompt(request)
        usage, tries = Usage(), Tries()
        given: Answer | None = None
        refused: BackendError | None = None
        while prompt is not None:
            try:
                request.reserve(usage.total + prompt.tokens + self.client.output_tokens)
                reply = self._send((prompt.before, prompt.after), SCHEMA, tries)
            except BackendError as error:
                refused = error
                if given is not None or not (isinstance(error, CallFailed) and error.too_long):
                    break
            else:
                usage += _used(reply, prompt.tokens)
                given = Answer(
                    reply.text,
                    quote(reply.model, 100),
                    prompt.sha256,
                    prompt.template_sha256,
                    _meta(reply, usage, prompt.tokens, tries),
                    prompt.left_out,
                )
                if reply.stop_reason != "model_context_window_exceeded":
                    break
            prompt = self._half(request, prompt) if tries.made < MAX_RETRIES else None
        if given is None:
            assert refused is not None  # each round ends with an answer or a refusal
            raise refused
        return given

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory. Raises BackendError."""
        answer = self.complete(question.prompt, question.schema)
        return replace(answer, template_sha256=question.prompt.template_sha256)

    def complete(self, prompt: str, schema: Mapping[str, object] | None = None) -> Answer:
        """Answer a prompt, sent without its secrets. Raises BackendError."""
        text = redact(visible(prompt))
        tokens = estimate_tokens(text)
        if tokens > self.request_tokens:
            raise BackendError(
                f"the prompt takes about {tokens:,} of {self.request_tokens:,} tokens; shorten what it is about, or "
                "raise request_tokens",
                stage="request",
                attempts=0,
            )
        tries = Tries()
        reply = self._send((text,), schema, tries)
        meta = _meta(reply, _used(reply, tokens), tokens, tries)
        return Answer(reply.text, quote(reply.model, 100), prompt_sha256=sha256(text.encode()).hexdigest(), meta=meta)

    def _send(self, texts: Sequence[str], schema: Mapping[str, object] | None, tries: Tries) -> Reply:
        return asyncio.run(self.client.send(texts, schema, tries))

    def _half(self, request: Request, prompt: Prompt) -> Prompt | None:
        """Return half of a question; None where that has no room for a session, so that the model's words are said."""
        try:
            return self.prompt(request, prompt.tokens // 2)
        except (BackendError, OSError, UnknownTranscript):
            return None


def _used(reply: Reply, estimated: int) -> Usage:
    """Return the tokens that an answer took. Where nobody counted, the most that they can be: budgets must hold."""
    return reply.usage if reply.usage.total else Usage(estimated, estimate_tokens(reply.text))


def _meta(reply: Reply, usage: Usage, estimated: int, tries: Tries) -> dict[str, object]:
    meta: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "estimated_tokens": estimated,
        "milliseconds": round(tries.seconds * 1000),
        "requests": tries.made,
        "stop_reason": quote(reply.stop_reason, 60),
        "structured": reply.structured,
    }
    if (price := cost(reply.model, usage)) is not None:
        meta["cost_usd"] = str(price)
    if reply.request_id:
        meta["request_id"] = quote(reply.request_id, 100)
    return meta
