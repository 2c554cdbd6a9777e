"""How `rules` judge a trajectory: by its test report alone.

Invariant: the same trajectory and report give the same answer, and a verdict needs a named test and a tie. A bullet is
tied to a test by a step that cites it alone, as `[pat-001]`, when two words of that step (or one that only code has)
stand in what the report says of the test and in no step that does not cite the bullet. A tied test that failed last
speaks against it, one that passed after having failed for it; both together, and everything else, are neutral.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from reflector.playbook.counting import decisive
from reflector.reflection.rules.people import content_words
from reflector.reflection.truth.asking import Question
from reflector.reflection.truth.models import Insight
from reflector.reflection.truth.reports import TestOutcome, read_report
from reflector.text.bounds import clean

_MOST_TESTS = 20
_NO_PROSE = re.compile(r"[a-z0-9]+[_.][a-z0-9_.]+|[a-z]+\d+")
_UNKNOWN = "The report does not tie it to a step."


def judged(question: Question) -> dict[str, object]:
    """Return the answer to a question as an object of the form that is asked for."""
    if question.bullet is not None:
        tag, reason = _verdict(question, question.bullet.id)
        return {"bullet_id": question.bullet.id, "tag": tag, "reason": reason}
    report = read_report(question.case.test_report)
    steps = _Steps(question.case.trajectory.reasoning_steps)
    found = [_insight(question, steps, outcome) for outcome in [*report.failing, *report.repaired][:_MOST_TESTS]]
    return {"insights": [insight.model_dump() for insight in found]}


def _verdict(question: Question, bullet_id: str) -> tuple[str, str]:
    steps = question.case.trajectory.reasoning_steps
    cited = re.compile(r"\[([^\[\]\s]{1,200})\]")
    own = [number for number, step in enumerate(steps, 1) if set(cited.findall(step)) == {bullet_id}]
    if not own:
        return "neutral", "no reasoning step cites it alone"
    report = read_report(question.case.test_report)
    if not report.outcomes:
        return "neutral", "the test report names no test"
    known = _Steps(steps, bullet_id)
    said = [
        (tag, f"{outcome.test} {how} ({', '.join(ties)} in step {number})" + _quoted(outcome))
        for tag, how, outcomes in (
            ("harmful", "fails at what its step does", report.failing),
            ("helpful", "passes after having failed at what its step does", report.repaired),
        )
        for outcome in outcomes
        for words in [_words_of(outcome)]
        for number in own
        if (ties := known.ties(number, words))
    ]
    decided = decisive(said, lambda one: one[0])
    if not decided:
        return "neutral", "no test of the report is tied to its step"
    if len(decided) > 1:
        return "neutral", f"{decided[0][1]}; but {decided[1][1]}"
    return decided[0]


class _Steps:
    """The steps of a trajectory by their words, as they tie a bullet ("" for none) to tests."""

    def __init__(self, steps: Sequence[str], bullet_id: str = "") -> None:
        citation = f"[{bullet_id}]"
        self._texts = [step.replace(citation, " ") for step in steps]
        self._words = [_words(text) for text in self._texts]
        self._is_other = [citation not in step for step in steps]
        others = (words for words, is_other in zip(self._words, self._is_other, strict=True) if is_other)
        self._in_others = Counter(word for words in others for word in words)

    def ties(self, number: int, test: frozenset[str]) -> list[str]:
        """Return the words that tie a step, from 1, to a test, as the step has them; none where they are too few."""
        own, itself = self._words[number - 1], int(self._is_other[number - 1])
        shared = {word for word in own & test if self._in_others[word] == itself}
        if len(shared) < 2 and not any(map(_NO_PROSE.fullmatch, shared)):
            return []
        shown = (word.strip(".,:;!?()'\"`") for word in self._texts[number - 1].split())
        return [word for word in dict.fromkeys(shown) if not shared.isdisjoint(_words(word))][:8]


def _words_of(outcome: TestOutcome) -> frozenset[str]:
    return _words(f"{outcome.test} {outcome.message}")


def _words(text: str) -> frozenset[str]:
    """Return the words of a text and of the names in it: test_empty_cart speaks of an empty cart."""
    return content_words(text) | content_words(re.sub(r"[^A-Za-z0-9]+", " ", text))


def _insight(question: Question, steps: _Steps, outcome: TestOutcome) -> Insight:
    trajectory = question.case.trajectory
    words, said = _words_of(outcome), trajectory.reasoning_steps
    tied = next((number for number in range(1, len(said) + 1) if steps.ties(number, words)), None)
    cause = f"Step {tied}: {clean(said[tied - 1], 300)}" if tied else _UNKNOWN
    if outcome.passed:
        wrong, approach = f"{outcome.test} failed at first{_quoted(outcome)}", "The trajectory was mended, as it ended."
        key = f"{clean(trajectory.query, 200)}: {outcome.test} passes after having failed."
    else:
        wrong, approach = f"{outcome.test} fails{_quoted(outcome)}", f"Make {outcome.test} pass before answering."
        key = f"{clean(trajectory.query, 200)}: {outcome.test} fails{_quoted(outcome)}"
    return Insight(
        reasoning="Read from the test report alone.",
        error_identification=wrong,
        root_cause_analysis=cause,
        correct_approach=approach,
        key_insight=key,
    )


def _quoted(outcome: TestOutcome) -> str:
    """Return what the report says of a test, in a few words."""
    lines = [line.removeprefix("E").strip() for line in outcome.message.split("\n") if line.strip()]
    shown = next((line for line in lines if re.match(r"\w*(?:Error|Exception|assert)", line)), "".join(lines[:1]))
    return f': "{clean(shown, 160)}"' if shown else ""
