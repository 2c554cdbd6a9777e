"""The backend `anthropic`: a window as a prompt, the model's text as the answer.

Invariant: one `answer` is one question with one deadline and at most `MAX_RETRIES` requests, and what was answered is
never thrown away. Where the API says that the question is too long for its model, half of it is asked, never the same
again; what the answers took is added up, and one that the window's end cut short counts if no better one follows. Both
stay within the allowance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.events.spent import Usage, cost
from reflector.playbook.bullet import sections_text
from reflector.reflection.backends.anthropic.calling import CallFailed, Pacing, Reply, Tries, ask
from reflector.reflection.backends.anthropic.settings import MAX_RETRIES, MAX_TOKENS, ModelSettings
from reflector.reflection.prompting import Prompt, PromptTooLong, compose
from reflector.reflection.prompts import TemplateError, find_template, read_template
from reflector.reflection.protocol import Answer, BackendError, Request
from reflector.reflection.token_estimate import estimate_tokens
from reflector.text.bounds import visible
from reflector.text.secrets import quote, redact
from reflector.transcripts.source import UnknownTranscript

if TYPE_CHECKING:
    from reflector.reflection.truth.asking import Question


@dataclass(frozen=True, slots=True)
class AnthropicBackend:
    """Asks a Claude model.

    project         whose own template is used, None for the user's or ours
    template        a template file instead of these
    request_tokens  most tokens of one request
    """

    settings: ModelSettings
    project: Path | None = None
    template: Path | None = None
    request_tokens: int = 100_000
    pacing: Pacing | None = None
    name: str = "anthropic"
    is_model: bool = True

    def prompt(self, request: Request, most: int | None = None) -> Prompt:
        """Return what would be sent about a window, in at most so many tokens where the API takes no more.

        Raises BackendError where template or limit forbid it.
        """
        limit = (
            self.request_tokens
            if request.allowance is None
            else min(self.request_tokens, request.allowance - MAX_TOKENS)
        )
        try:
            template = (
                find_template("reflector.txt", self.project)
                if self.template is None
                else read_template("reflector.txt", self.template)
            )
            return compose(
                template,
                sections_text(request.playbook),
                request.cited,
                request.messages,
                limit if most is None else most,
            )
        except TemplateError as error:
            raise BackendError(str(error), stage="template", attempts=0) from error
        except PromptTooLong as error:
            stage = "budget" if limit < self.request_tokens and most is None else "request"
            raise BackendError(str(error), stage=stage, attempts=0) from error

    def answer(self, request: Request) -> Answer:
        """A window, judged. Raises BackendError; what the file of the transcript raises goes through."""
        prompt = self.prompt(request)
        usage, tries = Usage(), Tries()
        given: Answer | None = None
        while True:
            try:
                request.reserve(usage.total + prompt.tokens + MAX_TOKENS)
                reply = asyncio.run(ask(self.settings, prompt.blocks, self.pacing, tries))
            except BackendError as error:
                if given is not None:
                    return given
                if not (isinstance(error, CallFailed) and error.too_long):
                    raise
                refused = error
            else:
                # An API that says nothing of tokens must not go past the budgets: the most that they can be counts.
                usage += reply.usage if reply.usage.total else Usage(prompt.tokens, estimate_tokens(reply.text))
                given = _answer(prompt, reply, usage)
                if reply.stop_reason != "model_context_window_exceeded":
                    return given
            shorter = None if tries.made >= MAX_RETRIES else self._half(request, prompt)
            if shorter is not None:
                prompt = shorter
            elif given is not None:
                return given
            else:
                raise refused

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
        reply = asyncio.run(ask(self.settings, [{"type": "text", "text": text}], self.pacing, schema=schema))
        usage = reply.usage if reply.usage.total else Usage(tokens, estimate_tokens(reply.text))
        sent = sha256(text.encode()).hexdigest()
        return Answer(reply.text, quote(reply.model, 100), prompt_sha256=sent, meta=_meta(reply, usage, tokens))

    def _half(self, request: Request, prompt: Prompt) -> Prompt | None:
        """Half of a question, which is another one whatever its limit was; None where that has no room for a session:
        the API's words say more than ours."""
        try:
            return self.prompt(request, prompt.tokens // 2)
        except (BackendError, OSError, UnknownTranscript):
            return None


def _meta(reply: Reply, usage: Usage, estimated: int) -> dict[str, object]:
    meta: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "estimated_tokens": estimated,
        "milliseconds": reply.milliseconds,
        "requests": reply.attempts,
        "stop_reason": quote(reply.stop_reason, 60),
        "structured": reply.structured,
    }
    if (price := cost(reply.model, usage)) is not None:
        meta["cost_usd"] = str(price)
    if reply.request_id:
        meta["request_id"] = quote(reply.request_id, 100)
    return meta


def _answer(prompt: Prompt, reply: Reply, usage: Usage) -> Answer:
    return Answer(
        text=reply.text,
        model=quote(reply.model, 100),
        prompt_sha256=prompt.sha256,
        template_sha256=prompt.template_sha256,
        meta=_meta(reply, usage, prompt.tokens),
        left_out=prompt.left_out,
    )
