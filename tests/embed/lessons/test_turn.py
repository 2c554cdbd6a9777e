"""One bounded revision of a turn by the caller's own agent: requirements D-20 and D-21."""

from typing import Any

import pytest

from reflector.embed.experience import _asks_for_tools
from reflector.embed.lessons.book import LessonPolicy, lesson_book
from reflector.events import event as ev
from reflector.experience import (
    AgentReflection,
    Answer,
    ReflectionConfig,
    RevisedTurn,
    revise_turn,
)
from reflector.ledger.store import Ledger

REFLECTION = "ATTEMPT: guessed\nISSUE: no evidence\nSTRATEGY: {}\nTAGS: guess"
GIVEN_UP = Answer(
    "I cannot do that.", [{"name": "read", "status": "error", "error": "no such file"}]
)


class Agent:
    """An agent that answers from a script, and remembers what it was asked."""

    def __init__(
        self, *answers: str | Answer | Exception, strategy: str = "Say what is known"
    ) -> None:
        self.answers = [REFLECTION.format(strategy), *answers]
        self.asked: list[tuple[str, str]] = []

    def __call__(self, prompt: str, mode: str) -> str | Answer:
        self.asked.append((mode, prompt))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def turn(agent: Any, answer: Answer = GIVEN_UP, **more: Any) -> RevisedTurn:
    return revise_turn("Read the file.", answer, agent, **({"session_id": "s-1", "turn": 3} | more))


def types(ledger: Ledger) -> list[str]:
    return [event.type for event in ledger.events()]


def test_a_better_answer_is_appended_and_recorded(ledger: Ledger) -> None:
    agent = Agent("The file does not exist; the folder holds a.txt.")
    found = turn(agent, ledger=ledger)
    assert [mode for mode, _ in agent.asked] == ["reflect", "text"]
    assert "- read: no such file" in agent.asked[0][1]
    assert "- Strategy: Say what is known" in agent.asked[1][1]
    assert found.content == (
        "I cannot do that.\n\nRevised answer after reflection:\n\nThe file does not exist; the "
        "folder holds a.txt."
    )
    # Other words undo no failed call: 1 - 0.4 - 0.25, then 1 - 0.4.
    assert (found.signals.score(), found.retried.score(), found.improvement) == (
        0.35,
        0.6,
        0.384615,
    )
    assert types(ledger) == [
        ev.GATE_DECIDED,
        ev.LESSON_RECORDED,
        ev.REVISION_ATTEMPTED,
        ev.OUTCOME_OBSERVED,
    ]
    decided, _, attempted, outcome = (event.data or {} for event in ledger.events())
    assert (decided["reflects"], decided["turn"]) == (True, 3)
    assert decided["reason"] == (
        "Quality score 0.35 below threshold 0.60 (tool errors: 100%) (failure patterns detected)"
    )
    scores = {"initial": "0.350000", "retried": "0.600000", "improved": True}
    assert attempted.items() >= scores.items()
    assert (outcome["kind"], outcome["source"]) == ("retry_improved", "retry")
    lesson = lesson_book(ledger).lessons[str(found.lesson_id)]
    assert (lesson.text, lesson.improvement, lesson.successes) == ("Say what is known", 0.384615, 1)
    assert lesson.confidence == round(0.55 + 0.35 * 0.384615 + 0.03, 6)


def test_worse_revision_is_recorded_and_not_shown(ledger: Ledger) -> None:
    found = turn(Agent("I cannot do that either."), ledger=ledger)
    assert (found.content, found.improved, found.improvement) == ("I cannot do that.", False, 0.0)
    assert [one.kind for one in next(iter(lesson_book(ledger))).outcomes] == [
        "retry_did_not_improve"
    ]
    assert not turn(Agent(" "), session_id="s-2").improved


def test_an_improvement_of_exactly_the_least_counts() -> None:
    """From 0.40 to 0.43 is 0.05 of the gap, also in 64-bit arithmetic."""

    def answer(errors: int) -> Answer:
        results = [{"name": "t", "status": "error", "error": ""}] * errors
        return Answer(
            "I cannot",
            results + [{"name": "t", "status": "success"}] * (40 - errors),
            was_truncated=True,
        )

    for errors, improvement, improved in ((17, 0.05, True), (18, 0.033333, False)):
        found = turn(Agent(answer(errors), strategy="Read it"), answer(20), has_tools=True)
        assert found.signals.score() == 0.4
        assert (found.improvement, found.improved) == (improvement, improved)


def test_a_turn_is_revised_once(ledger: Ledger) -> None:
    first = turn(Agent("The file does not exist."), ledger=ledger)
    before = types(ledger)
    again = Agent("Never asked.")
    second = turn(again, ledger=ledger)
    assert again.asked == []
    assert (second.lesson_id, second.failure) == (first.lesson_id, "the turn was revised before")
    assert types(ledger) == before


def test_interrupted_turn_resumes_after_its_reflection(ledger: Ledger) -> None:
    turn(Agent(RuntimeError("stopped")), ledger=ledger)
    assert ev.REVISION_ATTEMPTED not in types(ledger)
    agent = Agent()
    agent.answers = ["The file does not exist."]
    assert turn(agent, ledger=ledger).improved
    assert [mode for mode, _ in agent.asked] == ["text"]


@pytest.mark.parametrize(
    ("promotion", "is_due"), [(0.1, True), (0.714, True), (0.715, False), (1.0, False)]
)
def test_the_configuration_decides_what_is_due(
    promotion: float, is_due: bool, ledger: Ledger
) -> None:
    config = ReflectionConfig(promotion_confidence=promotion)
    found = turn(Agent("The file does not exist."), ledger=ledger, config=config)
    lesson = lesson_book(ledger).lessons[str(found.lesson_id)]
    assert (lesson.promotion, lesson.confidence, lesson.due) == (promotion, 0.714615, is_due)
    assert lesson_book(ledger, LessonPolicy(promotion=0.7)).lessons[lesson.id].due


def says(answer: Any) -> Any:
    """An agent that answers everything so."""
    return lambda _prompt, _mode: answer


@pytest.mark.parametrize(
    ("agent", "more", "failure", "recorded"),
    [
        (
            Agent,
            {"config": ReflectionConfig(max_retry_attempts=0)},
            "",
            [ev.GATE_DECIDED, ev.LESSON_RECORDED],
        ),
        (Agent, {"answer": Answer("I can.")}, "", [ev.GATE_DECIDED]),
        (
            lambda: says("ATTEMPT: a\nISSUE: b"),
            {},
            "the reflection must contain an attempt, an issue and a strategy",
            [ev.GATE_DECIDED],
        ),
        (lambda: says(None), {}, "TypeError: the agent answered with NoneType", [ev.GATE_DECIDED]),
        (
            lambda: Agent(RuntimeError("no \x1b[31mkey")),
            {},
            "RuntimeError: no key",
            [ev.GATE_DECIDED, ev.LESSON_RECORDED],
        ),
    ],
)
def test_turn_without_a_revision_stays_unchanged(
    ledger: Ledger, agent: Any, more: dict[str, Any], failure: str, recorded: list[str]
) -> None:
    answer = more.get("answer", GIVEN_UP)
    found = turn(agent(), **{"answer": answer, "ledger": ledger, **more})
    assert (found.content, found.improved, found.improvement) == (answer.content, False, None)
    assert (failure in found.failure, bool(failure)) == (True, bool(found.failure))
    assert types(ledger) == recorded
    assert (found.reflection is not None) == (ev.LESSON_RECORDED in recorded)


@pytest.mark.parametrize(
    ("strategy", "statuses", "wanted"),
    [
        ("Inspect the folder first", ["success"], True),
        ("Say less", ["success"], False),
        ("Say less", ["success", "error"], True),
        ("Say less", ["skipped"], True),
        ("Say less", [], True),
    ],
)
def test_tools_are_used_for_another_look(strategy: str, statuses: list[str], wanted: bool) -> None:
    answer = Answer("x", [{"name": "t", "status": status} for status in statuses])
    assert _asks_for_tools(AgentReflection("r", "a", "i", strategy), answer) is wanted


def test_first_of_two_revisions_of_a_turn_wins(ledger: Ledger) -> None:
    class Late(Agent):
        """While it reflects, another process does the whole turn."""

        def __call__(self, prompt: str, mode: str) -> str | Answer:
            turn(Agent("The file does not exist."), ledger=ledger)
            return super().__call__(prompt, mode)

    found = turn(Late("I looked, and there is none.", strategy="Another"), ledger=ledger)
    assert (found.content, found.failure) == ("I cannot do that.", "the turn was revised before")
    assert found.reflection.corrective_strategy == "Say what is known"
    assert len(types(ledger)) == 4
