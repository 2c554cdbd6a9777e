"""The quality signals of one answer or of a session's window, and the score that follows (requirements D-02 to D-06).

Invariant: a score is a pure function of the signals, rounded to 6 decimals, from 0 to 1. Every comparison is made
after that rounding, so that 32-bit and 64-bit arithmetic agree at a boundary. A list of words is searched as it stands
in `words.toml`, or in a person's own; a file that cannot be read, that names an unknown list or holds anything but
texts is refused, with its name, before anything is searched.

Each call of a window has one status. A result that the agent marks as an error is an error, a call that a person
refused or that was never answered is skipped, everything else is a success. Sidechains say nothing about the answer of
the main chain, and a transcript does not say how many rounds were allowed, so their number costs nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.files import read_bounded
from reflector.locate import parse_toml, user_settings
from reflector.mistakes import Mistake
from reflector.resources import resource_dir

if TYPE_CHECKING:
    from reflector.transcripts.message import Message

#: How many decimals a figure keeps before it is compared.
DECIMALS = 6
STATUSES = ("success", "error", "skipped")

_ERRORS, _TRUNCATED, _PATTERNS = 0.4, 0.15, 0.25
#: The share of the iterations from which on each further one costs, and how much.
_MANY, _EXCESS = 0.7, 0.5
_MOST_BYTES = 64 * 1024
_NAME = "words.toml"


def rounded(value: float) -> float:
    """Return a figure as it is compared: with 6 decimals, never a negative zero."""
    return round(value, DECIMALS) + 0.0


@dataclass(frozen=True, slots=True)
class QualitySignals:
    """What shows how good an answer was.

    tool_error_rate       errors of all tool calls, from 0 to 1; skipped calls are not errors
    iterations_used       rounds that the agent took
    max_iterations        rounds that it could have taken; 0 for no limit
    was_truncated         whether the answer was cut off
    has_failure_patterns  whether its text gives up, asserts without ground, or reports an error without its structure
    is_empty_response     whether it is blank
    """

    tool_error_rate: float = 0.0
    iterations_used: int = 0
    max_iterations: int = 0
    was_truncated: bool = False
    has_failure_patterns: bool = False
    is_empty_response: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.tool_error_rate):
            raise ValueError(f"tool_error_rate is {self.tool_error_rate}; it must be a number from 0 to 1")

    def score(self) -> float:
        """Return the score, from 0 (useless, or empty) to 1 (nothing speaks against the answer)."""
        if self.is_empty_response:
            return 0.0
        score = 1.0 - _ERRORS * self.tool_error_rate - _PATTERNS * self.has_failure_patterns
        score -= _TRUNCATED * self.was_truncated
        share = rounded(self.iterations_used / self.max_iterations) if self.max_iterations > 0 else 0.0
        if share > _MANY:
            score -= _EXCESS * (share - _MANY)
        return rounded(min(max(score, 0.0), 1.0))


class WordsError(Mistake):
    """A file of word lists that cannot be used; the text names the file, the list and the way out."""


@dataclass(frozen=True, slots=True)
class Words:
    """The lists, in lower case. Each word is searched for as a part of the text."""

    failure_patterns: tuple[str, ...] = ()
    assertive_uncertainty: tuple[str, ...] = ()
    debug_context: tuple[str, ...] = ()
    root_cause: tuple[str, ...] = ()
    verification: tuple[str, ...] = ()
    looking: tuple[str, ...] = ()


def quality_signals_for_response(
    content: str,
    tool_results: Sequence[Mapping[str, Any]],
    iterations_used: int,
    max_iterations: int,
    was_truncated: bool = False,
) -> QualitySignals:
    """Return the signals of an answer.

    A tool result is a mapping with `name`, `status` (success, error or skipped) and, of an error, `error`.
    Raises ValueError for another status.
    """
    for result in tool_results:
        if result.get("status") not in STATUSES:
            raise ValueError(
                f"tool result {result.get('name')!r}: status is {result.get('status')!r}, not {', '.join(STATUSES)}"
            )
    errors = sum(result["status"] == "error" for result in tool_results)
    detectors = (detect_failure_patterns, detect_assertive_uncertainty, detect_missing_debug_structure)
    return QualitySignals(
        tool_error_rate=errors / len(tool_results) if tool_results else 0.0,
        iterations_used=iterations_used,
        max_iterations=max_iterations,
        was_truncated=was_truncated,
        has_failure_patterns=any(detect(content) for detect in detectors),
        is_empty_response=not content.strip(),
    )


@dataclass(frozen=True, slots=True)
class WindowQuality:
    """How good the work of a window was.

    iterations  how often the model was asked: records of the model in a row are one answer
    """

    score: float
    tool_calls: int
    tool_errors: int
    tool_skipped: int
    tool_error_rate: float
    iterations: int
    truncated: bool
    failure_patterns: bool
    empty: bool
    signals: QualitySignals = field(repr=False)


@dataclass(slots=True)
class _Chain:
    """What was seen of the main chain, or of all sidechains together."""

    answer: str = ""
    truncated: bool = False
    rounds: int = 0
    unanswered: set[str] = field(default_factory=set)
    statuses: list[str] = field(default_factory=list)
    begins: bool = True
    in_round: bool = False

    def take(self, message: Message) -> None:
        if message.origin == "human":
            self.begins = True
        if message.origin == "model":
            if self.begins:
                self.answer, self.begins = "", False
            self.rounds += not self.in_round
            # What is said beside a call is not the answer, but better than none.
            self.answer = message.text if message.text.strip() else self.answer
            self.truncated = message.truncated
            self.unanswered.update(call.id for call in message.calls)
        self.in_round = message.origin == "model"
        failed = "skipped" if message.origin == "refusal" else "error"
        for result in message.results:
            self.unanswered.discard(result.call_id)
            self.statuses.append(failed if result.is_error else "success")


def window_quality(messages: Iterable[Message]) -> WindowQuality:
    """Return the quality of a window, by its messages in order."""
    main, aside = _Chain(), _Chain()
    for message in messages:
        (aside if message.chain else main).take(message)
    chain = main if main.rounds else aside  # a subagent's transcript is one sidechain
    statuses = [*chain.statuses, *("skipped" for _ in chain.unanswered)]
    results = [{"status": status} for status in statuses]
    signals = quality_signals_for_response(chain.answer, results, chain.rounds, 0, chain.truncated)
    tools = (len(results), statuses.count("error"), statuses.count("skipped"), rounded(signals.tool_error_rate))
    answer = (signals.was_truncated, signals.has_failure_patterns, signals.is_empty_response)
    return WindowQuality(signals.score(), *tools, chain.rounds, *answer, signals)


def detect_failure_patterns(text: str) -> bool:
    """Return whether a text gives up or reports that something failed."""
    return _has_any(text, default_words().failure_patterns)


def detect_assertive_uncertainty(text: str) -> bool:
    """Return whether a text asserts with emphasis where it should give a ground."""
    return _has_any(text, default_words().assertive_uncertainty)


def detect_missing_debug_structure(text: str) -> bool:
    """Return whether a text is about a defect and lacks its cause, or a way to verify it."""
    words = default_words()
    is_whole = _has_any(text, words.root_cause) and _has_any(text, words.verification)
    return _has_any(text, words.debug_context) and not is_whole


def _has_any(text: str, words: Iterable[str]) -> bool:
    text = text.lower()
    return any(word in text for word in words)


def default_words() -> Words:
    """Return the packaged lists, with those of `reflector/prompts/words.toml` in the user's configuration folder in
    their place. Raises WordsError."""
    own = Path(user_settings(), "prompts", _NAME)
    packaged = _packaged()
    return _read_words(own, packaged) if os.path.lexists(own) else packaged


def _read_words(path: Path, base: Words) -> Words:
    """Return the lists of a file, and those of `base` that the file does not name. Raises WordsError."""
    try:
        given = parse_toml(read_bounded(path, _MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise WordsError(f"{path}: cannot be read ({error.strerror}); correct or remove the file") from None
    except ValueError as error:
        raise WordsError(f"{path}: is not TOML ({error}); correct or remove the file") from None
    known = [one.name for one in fields(Words)]
    for name, words in given.items():
        if name not in known:
            raise WordsError(f"{path}: {name!r} is not a word list; the lists are {', '.join(known)}")
        if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
            raise WordsError(f'{path}: {name} must be a list of texts, such as ["i cannot"]')
    return replace(base, **{name: tuple(word.lower() for word in words) for name, words in given.items()})


@lru_cache(maxsize=1)
def _packaged() -> Words:
    return _read_words(resource_dir("prompts") / _NAME, Words())
