"""The quality of a session's window, from the transcript's own records.

Invariant: each call has one status. A result that the agent marks as an error is an error, a call that a person refused
or that was never answered is skipped, everything else is a success. Sidechains say nothing about the answer of the main
chain, and a transcript does not say how many rounds were allowed, so their number costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reflector.quality.signals import QualitySignals, quality_signals_for_response
from reflector.transcripts.message import Message

_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class WindowQuality:
    """The signals of a window's last answer, and the calls that they count.

    rounds  how often the model was asked: records of the model in a row are one answer
    """

    signals: QualitySignals
    calls: int
    errors: int
    skipped: int
    rounds: int


@dataclass(slots=True)
class _Chain:
    """What was seen of the main chain, or of all sidechains together."""

    answer: str = ""
    truncated: bool = False
    rounds: int = 0
    names: dict[str, str] = field(default_factory=dict)
    results: list[Mapping[str, Any]] = field(default_factory=list)
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
            self.names.update((call.id, call.name) for call in message.calls)
        self.in_round = message.origin == "model"
        for result in message.results:
            name = self.names.pop(result.call_id, "")
            failed = "skipped" if message.origin == "refusal" else "error"
            status = failed if result.is_error else "success"
            self.results.append({"name": name, "status": status, "error": result.text[:_LONGEST_ERROR]})


def window_quality(messages: Iterable[Message]) -> WindowQuality:
    """Return the quality of a window, by its messages in order."""
    main, aside = _Chain(), _Chain()
    for message in messages:
        (aside if message.chain else main).take(message)
    chain = main if main.rounds else aside  # a subagent's transcript is one sidechain
    unanswered = [{"name": name, "status": "skipped", "error": ""} for name in chain.names.values()]
    results = chain.results + unanswered
    signals = quality_signals_for_response(chain.answer, results, chain.rounds, 0, chain.truncated)
    counted = Counter(result["status"] for result in results)
    return WindowQuality(signals, len(results), counted["error"], counted["skipped"], chain.rounds)
