"""The backend that asks a model.

Invariant: one answer takes one deadline and at most `MAX_RETRIES` requests, and what was answered is never thrown
away. Where a question is too long for its model, half of it is asked, never the same again; what the answers took is
added up, and one that the window's end cut short counts if no better one follows. All stay within the allowance.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.playbook.bullet import sections_text
from reflector.prices import Usage, cost
from reflector.reflection.backends.clients.settings import MAX_RETRIES, MAX_TOKENS, Reply, Tries
from reflector.reflection.excerpt import compose, estimate_tokens
from reflector.reflection.prompts import TemplateError, find_template, read_template
from reflector.reflection.protocol import Answer, BackendError, Prompt, Request
from reflector.text.bounds import visible
from reflector.text.secrets import quote, redact
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.reflection.backends.clients.anthropic import AnthropicClient
    from reflector.reflection.truth.asking import Question


@dataclass(frozen=True, slots=True)
class ModelBackend:
    """Asks the model of the client.

    project         whose own template is used, None for the user's or ours
    template        a template file instead of these
    request_tokens  most tokens of one request
    """

    client: AnthropicClient
    project: Path | None = None
    template: Path | None = None
    request_tokens: int = 100_000
    is_model: bool = True
    rereads: bool = False
    name: str = "anthropic"

    def prompt(self, request: Request, most: int | None = None) -> Prompt:
        """Return what would be sent about a window, in at most so many tokens where the model takes no more.

        Raises BackendError where template or limit forbid it.
        """
        limit = self.request_tokens
        if request.allowance is not None:
            limit = min(limit, request.allowance - MAX_TOKENS)
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
        except BackendError as error:
            if limit < self.request_tokens and most is None:
                error.stage = "budget"
            raise

    def answer(self, request: Request) -> Answer:
        """Judge a window. Raises BackendError; what the file of the transcript raises goes through."""
        prompt: Prompt | None = self.prompt(request)
        usage, tries = Usage(), Tries()
        given: Answer | None = None
        refused: BackendError | None = None
        while prompt is not None:
            try:
                request.reserve(usage.total + prompt.tokens + MAX_TOKENS)
                reply = asyncio.run(self.client.send((prompt.before, prompt.after), tries))
            except BackendError as error:
                refused = error
                if given is not None or not error.too_long:
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
        answer = self.complete(question.prompt)
        return replace(answer, template_sha256=question.prompt.template_sha256)

    def complete(self, prompt: str) -> Answer:
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
        reply = asyncio.run(self.client.send((text,), tries))
        meta = _meta(reply, _used(reply, tokens), tokens, tries)
        return Answer(reply.text, quote(reply.model, 100), prompt_sha256=sha256(text.encode()).hexdigest(), meta=meta)

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
    }
    if (price := cost(reply.model, usage)) is not None:
        meta["cost_usd"] = str(price)
    if reply.request_id:
        meta["request_id"] = quote(reply.request_id, 100)
    return meta
