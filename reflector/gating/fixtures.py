"""Answers to the prompts of gated reflection, from a file or from the host's own model.

Invariant: what a file answers depends on the prompt alone, and what it cannot answer is a FixtureMissingError. The
file has the form of the backend `fixtures`: `{"prompt_hash": <64 hex digits>, "completion": <text>}` on each line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from reflector.gating.bundle import prompt_sha256
from reflector.gating.summary import clipped
from reflector.reflection.backends.fixtures import read_fixtures
from reflector.reflection.protocol import BackendError


class Completion(NamedTuple):
    """An answer: its text, how many words it has, and whether it had more."""

    text: str
    tokens: int
    truncated: bool


class Adapter(Protocol):
    """Who answers prompts; `generate` returns anything with a `text`."""

    def generate(self, prompt: str, *, max_tokens: int, temperature: float) -> Any:
        """Answer one prompt; whatever it raises is the reason for which the turn has no summary."""
        ...


class FixtureMissingError(BackendError):
    """The fixtures cannot be read, or have no answer for the prompt."""

    def __init__(self, message: str) -> None:
        super().__init__(message, stage="fixtures")


@dataclass(frozen=True, slots=True)
class FixturesAdapter:
    """Answers from a file of fixtures."""

    path: str

    def generate(self, prompt: str, *, max_tokens: int, temperature: float = 0.0) -> Completion:
        """Return the recorded answer, of `max_tokens` words at most. Raises FixtureMissingError."""
        if not self.path.strip():
            raise FixtureMissingError("t3.llm.fixtures.path is empty; name the file of fixtures")
        wanted = prompt_sha256(prompt)
        try:
            found = read_fixtures(Path(self.path)).get(wanted)
        except BackendError as error:
            raise FixtureMissingError(str(error)) from error
        if found is None:
            raise FixtureMissingError(f"{self.path} has no completion for the prompt {wanted}")
        words = found["completion"].split()
        text = clipped(found["completion"], max_tokens)
        return Completion(text, len(text.split()), len(text.split()) < len(words))


def answer(adapter: Adapter | Callable[[str], str], prompt: str, tokens: int) -> str:
    """Return an adapter's answer, clipped. Raises what the adapter raises, and FixtureMissingError for no words."""
    if hasattr(adapter, "generate"):
        said = adapter.generate(prompt, max_tokens=max(tokens, 0), temperature=0.0)
        text = getattr(said, "text", said)
    else:
        text = adapter(prompt)
    if not isinstance(text, str):
        raise TypeError(f"the adapter answered with {type(text).__name__}, not with a text")
    if not (summary := clipped(text, tokens)):
        raise FixtureMissingError(f"the answer to the prompt {prompt_sha256(prompt)} has no words")
    return summary
