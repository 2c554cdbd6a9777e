"""The backend `anthropic`: a window as a prompt, the model's text as the answer.

Invariant: one `answer` is one question with one deadline. Where the API says that the question is too long for its
model, it is asked again with half of it, at most twice; what the answers took is added up.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from reflector.playbook.sections import sections_text
from reflector.reflection.backends.anthropic.calling import CallFailed, Pacing, Reply, ask
from reflector.reflection.backends.anthropic.prices import Usage, cost
from reflector.reflection.backends.anthropic.settings import ModelSettings
from reflector.reflection.prompting import Prompt, PromptTooLong, compose
from reflector.reflection.prompts import TemplateError, find_template, read_template
from reflector.reflection.protocol import Answer, BackendError, Request

_MOST_HALVINGS = 2
_MOST_PARTS = 4


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

    def prompt(self, request: Request, part: int = 1, halvings: int = 0) -> Prompt:
        """What would be sent for one part of the window. Raises BackendError where template or limit forbid it."""
        limit = self.request_tokens
        most_parts = _MOST_PARTS
        if request.allowance is not None:
            limit = min(limit, request.allowance)
            most_parts = max(1, min(most_parts, request.allowance // limit)) if limit else 1
        try:
            template = (
                find_template("reflector.txt", self.project)
                if self.template is None
                else read_template("reflector.txt", self.template)
            )
            playbook = sections_text(request.playbook)
            return compose(
                template,
                playbook,
                request.cited,
                request.messages,
                limit >> halvings,
                part=part,
                most_parts=most_parts,
            )
        except TemplateError as error:
            raise BackendError(str(error), stage="template", attempts=0) from error
        except PromptTooLong as error:
            raise BackendError(str(error), stage="request", attempts=0) from error

    def answer(self, request: Request, part: int = 1) -> Answer:
        """One part of a window, judged. Raises BackendError; what the file of the transcript raises goes through."""
        usage = Usage()
        for halvings in range(_MOST_HALVINGS + 1):
            prompt = self.prompt(request, part, halvings)
            try:
                reply = asyncio.run(ask(self.settings, prompt.blocks, self.pacing))
            except CallFailed as error:
                if error.too_long and halvings < _MOST_HALVINGS:
                    continue
                raise
            usage += reply.usage
            if reply.stop_reason == "model_context_window_exceeded" and halvings < _MOST_HALVINGS:
                continue
            return _answer(prompt, reply, usage)
        raise AssertionError("the last round returns or raises")


def _answer(prompt: Prompt, reply: Reply, usage: Usage) -> Answer:
    meta: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "estimated_tokens": prompt.tokens,
        "milliseconds": reply.milliseconds,
        "requests": reply.attempts,
        "stop_reason": reply.stop_reason[:60],
        "structured": reply.structured,
    }
    if (price := cost(reply.model, usage)) is not None:
        meta["cost_usd"] = str(price)
    if reply.request_id:
        meta["request_id"] = reply.request_id[:100]
    return Answer(
        text=reply.text,
        model=reply.model[:100],
        prompt_sha256=prompt.sha256,
        template_sha256=prompt.template_sha256,
        meta=meta,
        parts=prompt.parts,
        left_out=prompt.left_out,
    )
