"""Which words of a judge count, by the model that its client recorded."""

import json
from pathlib import Path

import pytest

from reflector.config import Config
from reflector.events import event as ev
from reflector.judges.agent_clients import JUDGES, Ours
from reflector.judges.measured import counting_words
from reflector.judges.protocol import Answer, Request
from reflector.ledger.store import Ledger
from reflector.reflection.gate import Gate
from reflector.reflection.runner import Runner
from reflector.reflection.standing import Reparsed, reparse
from reflector.sessions.intake import Source, take_in
from tests.building import Says, tags
from tests.reading import counters, of_type
from tests.road.sessions import Session

LARGEST = "claude-fable-5-1"
BOTH = frozenset({"sure", "likely"})
SURE = frozenset({"sure"})
THANKS = "Perfect, that works. Thanks!"
LIKELY = {
    "name": "pat-001",
    "relevant": True,
    "followed": "yes",
    "rationale": "The user accepts it.",
    "turn": 3,
    "quote": THANKS,
    "sure": "likely",
    "tag": "helpful",
}


@pytest.mark.parametrize("backend", ["agent", "anthropic"])
@pytest.mark.parametrize(
    "model",
    [LARGEST, "claude-fable-5", "claude-fable-5-20261001", "anthropic/claude-fable-5.1[1m]"],
)
def test_likely_counts_for_a_measured_model(backend: str, model: str) -> None:
    assert counting_words(Config(), {"backend": backend, "model": model}) == BOTH


@pytest.mark.parametrize(
    ("backend", "model"),
    [
        ("agent", "claude-haiku-5-5"),
        ("agent", "fable"),
        ("agent", "claude-fable-mini-5"),
        ("agent", "claude-fable-5-mini"),
        ("agent", "not-claude-fable-5"),
        ("agent", "other/claude-fable-5"),
        ("agent", "claude-haiku-5-5, claude-fable-5"),
        ("agent", "claude-fable-5\n"),
        ("agent", "claude-fable-٥"),
        ("agent", ""),
        ("agent", None),
        ("fixtures", LARGEST),
        ("rules", LARGEST),
        ("a-package", LARGEST),
        (None, LARGEST),
    ],
)
def test_only_sure_counts_for_other_models(backend: str | None, model: str | None) -> None:
    assert counting_words(Config(), {"backend": backend, "model": model}) == SURE


@pytest.mark.parametrize("model", [LARGEST, "claude-haiku-5-5"])
@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ("sure=95 likely=84", SURE),
        ("likely=85", {"likely"}),
        ("sure=95 likely=90 unsure=86", {"sure", "likely", "unsure"}),
    ],
)
def test_your_own_figures_replace_ours(measured: str, words: set[str], model: str) -> None:
    config = Config(judge_measured=measured)
    assert counting_words(config, {"backend": "agent", "model": model}) == words


class _Judge(Says):
    """Answers in the name of a model."""

    model = LARGEST

    def answer(self, request: Request) -> Answer:
        return Answer(super().answer(request).text, self.model, "p" * 64, "t" * 64)


def _judged(ledger: Ledger, folder: Path, backend: str, model: str) -> list[str]:
    """Return the dispositions of a verdict that is likely, of this model."""
    path = Session().cites("pat-001").write(folder / "s-1.jsonl")
    take_in(ledger, Source(path, "SessionEnd"))
    judge = _Judge([tags(LIKELY, analysis=f"I am {LARGEST}.")], name=backend, quotes=True)
    judge.model = model
    Runner(ledger, judge, gate=Gate(Config(), folder)).finish_pending(retry="all")
    return [str(event.facts["disposition"]) for event in of_type(ledger, ev.BULLET_TAGGED)]


@pytest.mark.parametrize(
    ("backend", "model", "disposition"),
    [
        ("agent", LARGEST, "counted"),
        ("agent", "claude-haiku-5-5", "unsure"),
        ("a-package", LARGEST, "unsure"),
    ],
)
def test_an_answer_cannot_name_its_model(
    book: Ledger, tmp_path: Path, backend: str, model: str, disposition: str
) -> None:
    assert _judged(book, tmp_path, backend, model) == [disposition]


def _reparsed(ledger: Ledger, *, dry_run: bool) -> Reparsed:
    config = Config(judge_measured="sure=95 likely=90")
    (reading,) = reparse(ledger, dry_run=dry_run, config=config)
    return reading


def test_reparse_shows_verdicts_that_would_count(book: Ledger, tmp_path: Path) -> None:
    _judged(book, tmp_path, "agent", "claude-haiku-5-5")
    reading = _reparsed(book, dry_run=True)
    assert reading.reading == "changed"
    assert reading.before == (("pat-001", "helpful, not counted"),)
    assert reading.after == (("pat-001", "helpful"),)
    assert counters(book)["pat-001"] == (0, 0)


def test_reparse_counts_them_once(book: Ledger, tmp_path: Path) -> None:
    _judged(book, tmp_path, "agent", "claude-haiku-5-5")
    assert _reparsed(book, dry_run=False).reading == "changed"
    assert _reparsed(book, dry_run=False).reading == "same"
    assert counters(book)["pat-001"] == (1, 0)


def test_reparse_keeps_answers_without_a_transcript(book: Ledger, tmp_path: Path) -> None:
    _judged(book, tmp_path, "agent", "claude-haiku-5-5")
    (tmp_path / "s-1.jsonl").unlink()
    assert _reparsed(book, dry_run=False).reading == "same"


@pytest.mark.parametrize(
    ("authors", "usage", "model"),
    [
        ([LARGEST], [LARGEST], LARGEST),
        ([LARGEST, "claude-haiku-5-5"], [LARGEST, "claude-haiku-5-5"], "claude-haiku-5-5"),
        ([], [LARGEST], LARGEST),
        ([], [LARGEST, "claude-haiku-5-5"], "haiku"),
        ([], [], "haiku"),
    ],
)
def test_claude_names_the_model_that_answered(
    authors: list[str], usage: list[str], model: str
) -> None:
    lines = [{"type": "assistant", "message": {"model": name}} for name in authors]
    result = json.dumps({"message": {"model": LARGEST}})
    end = {"type": "result", "result": result, "modelUsage": {name: {} for name in usage}}
    out = "\n".join(map(json.dumps, [*lines, end]))
    said = JUDGES["claude"].read(out.encode(), b"", Ours(Path(), {}, "haiku"))
    assert said.model == model


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (["Reconnecting", "You hit your limit"], "You hit your limit"),
        (["You hit your limit", ""], "You hit your limit"),
        ([], "the agent did not finish the turn"),
    ],
)
def test_codex_names_the_last_error_with_words(messages: list[str], error: str) -> None:
    lines = [{"type": "error", "error": {"message": words}} for words in messages]
    lines += [{"type": "turn.failed", "error": None}] * bool(messages)
    out = "\n".join(map(json.dumps, lines))
    assert JUDGES["codex"].read(out.encode(), b"", Ours(Path(), {}, "m")).error == error
