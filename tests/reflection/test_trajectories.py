"""Trajectories in the ledger (B-07, B-13 to B-20): what is appended, nothing is asked twice,
what a failure leaves.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.audit.blame import blame_bullet
from reflector.config import Config, ConfigError
from reflector.events import event as ev
from reflector.events.registry import fold
from reflector.ground_truth import (
    LedgerPlaybooks,
    ReflectionResult,
    ReflectorAgent,
    ReflectorPromptBuilder,
    Trajectory,
    llm_client,
)
from reflector.judges.protocol import Answer, BackendError
from reflector.judges.rules.judge import RulesBackend
from reflector.judges.truth.questions import Question
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.proof.verify import verify
from reflector.reflection.gate import Gate
from reflector.reflection.runner import Runner
from reflector.reflection.standing import reparse
from tests.judges.truth.cases import Model, attempt, insight, insights, script, verdict
from tests.ledger.events import added
from tests.reading import counters

TYPES = [
    ev.TRAJECTORY_RECORDED,
    ev.REFLECTION_ANSWERED,
    ev.LESSON_RECORDED,
    ev.REFLECTION_COMPLETED,
    ev.BULLET_TAGGED,
]
AWAY = RuntimeError("away")


@pytest.fixture
def store(ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerPlaybooks:
    """Playbooks of datasets in a project whose ledger is the test's; `sums` has pat-001 and
    mis-001.
    """
    monkeypatch.setenv("REFLECTOR_LEDGER_URL", ledger_url)
    made = LedgerPlaybooks(tmp_path)
    with made.ledger("sums") as ledger:
        ledger.append([added("pat-001", "Subtract b."), added("mis-001", "Mind the sign.")])
    return made


@pytest.fixture
def sums(store: LedgerPlaybooks) -> Iterator[Ledger]:
    with store.ledger("sums") as ledger:
        yield ledger


def run(
    store: LedgerPlaybooks,
    model: object,
    trajectory: Trajectory,
    iterations: int = 1,
    truth: str = "a + b",
) -> ReflectionResult:
    return ReflectorAgent(model, ReflectorPromptBuilder(), store).run(
        trajectory, truth, "", "sums", iterations
    )


def types(ledger: Ledger) -> list[str]:
    return [event.type for event in ledger.events() if event.type != ev.BULLET_ADDED]


def data(ledger: Ledger, type_: str) -> list[dict[str, object]]:
    return [dict(event.data or {}) for event in ledger.events(types=[type_])]


def states(ledger: Ledger) -> list[str]:
    return [window.state for window in ledger.windows()]


def test_run_records_trajectory_answers_lessons_and_tags(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    said = verdict("harmful", "It subtracts.")
    result = run(store, Model(insights("a", "b"), said), attempt(["pat-001", "x"]))
    assert [one.key_insight for one in result.insights] == ["a", "b"]
    assert types(sums) == [*TYPES[:2], ev.REFLECTION_ANSWERED, ev.LESSON_RECORDED, *TYPES[2:]]
    (recorded,) = sums.events(types=[ev.TRAJECTORY_RECORDED])
    assert (recorded.data["cited"], recorded.data["unknown"]) == (["pat-001"], ["x"])
    answers = data(sums, ev.REFLECTION_ANSWERED)
    assert [(one["answer"], one["mode"]) for one in answers] == [
        (insights("a", "b"), "ground_truth"),
        (said, "ground_truth"),
    ]
    about = sums.events(types=[ev.REFLECTION_ANSWERED, ev.LESSON_RECORDED])
    assert {event.target_id for event in about} == {recorded.event_id}
    assert counters(sums) == {"pat-001": (0, 1), "mis-001": (0, 0)}
    assert [(step.tag, step.rationale) for step in blame_bullet(sums, "pat-001")] == [
        ("harmful", "It subtracts.")
    ]
    assert list(verify(sums)) == []
    assert fold(sums.history()).counters("pat-001") == (0, 1)


def test_repeated_trajectory_adds_nothing_and_asks_nobody(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    first = run(store, Model(insights("a"), verdict()), attempt(["pat-001"]))
    before, model = sums.head(), Model(insights("b"), verdict("harmful"))
    assert run(store, model, attempt(["pat-001"])) == first
    assert list(reparse(sums)) == []
    assert (model.prompts, sums.head()) == ([], before)
    run(store, model, attempt(["pat-001"]), truth="another")
    assert types(sums).count(ev.TRAJECTORY_RECORDED) == 2


class Killed(BaseException):
    pass


def test_killed_run_resumes_at_the_first_open_question(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    model = Model(insights("first"))

    def dies(prompt: str) -> str:
        if not model.answers:
            raise Killed
        return model.invoke_with_template(prompt)

    dies.name = "model"  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        run(store, dies, attempt(["pat-001"]), 2)
    assert types(sums) == TYPES[:2]
    again = Model(insights("second"), verdict())
    assert [one.key_insight for one in run(store, again, attempt(["pat-001"]), 2).insights] == [
        "second"
    ]
    assert ["first" in prompt for prompt in again.prompts] == [True, False]


@pytest.mark.parametrize(
    ("answers", "iterations", "stages", "more"),
    [
        (script("a -"), 1, ["parse"], "+"),
        ([*script("a"), AWAY, *script("- +")], 3, ["backend", "parse"], "b c"),
    ],
)
def test_trajectory_stays_open_until_each_answer(
    answers: list[Any],
    iterations: int,
    stages: list[str],
    more: str,
    store: LedgerPlaybooks,
    sums: Ledger,
) -> None:
    model = Model(*answers)
    assert run(store, model, attempt(["pat-001"]), iterations).insights == [insight("a")]
    assert model.answers == []
    assert [one["stage"] for one in data(sums, ev.REFLECTION_FAILED)] == stages
    assert (counters(sums)["pat-001"], states(sums)) == ((0, 0), ["failed"])
    assert data(sums, ev.REFLECTION_COMPLETED) == data(sums, ev.LESSON_RECORDED) == []
    again = Model(*script(more))
    run(store, again, attempt(["pat-001"]), iterations)
    assert (again.answers, counters(sums)["pat-001"], states(sums)) == ([], (1, 0), ["completed"])
    assert list(verify(sums)) == []


def test_drains_ask_for_an_answer_twice_more(store: LedgerPlaybooks, sums: Ledger) -> None:
    run(store, Priced(insights("a"), "no JSON"), attempt(["pat-001"]))
    for _ in range(3):
        runner = Runner(sums, Priced(*["no JSON"] * 2), gate=Gate(Config(), store.project))
        runner.finish_pending(retry="left")
    assert [one["part"] for one in data(sums, ev.REFLECTION_FAILED)] == [[1, 2]] * 3
    assert len(data(sums, ev.REFLECTION_ANSWERED)) == 4
    assert run(store, Priced(verdict()), attempt(["pat-001"])).insights == [insight("a")]
    assert states(sums) == ["completed"]


@pytest.mark.parametrize(
    ("first", "said", "asked"),
    [
        ([], None, 2),
        ([insights("first"), BackendError("the API is away", stage="transport")], "first", 2),
    ],
    ids=["nobody answers", "an outage"],
)
def test_failed_model_leaves_the_trajectory_open(
    first: list[str | Exception], said: str | None, asked: int, store: LedgerPlaybooks, sums: Ledger
) -> None:
    iterations, model = (3, Model(*first)) if first else (1, Model())
    result = run(store, model, attempt(["pat-001"]), iterations)
    assert [one.key_insight for one in result.insights] == ([said] if said else [])
    assert (result.bullet_evaluations, len(model.prompts), states(sums)) == ([], asked, ["failed"])
    again = Model(*[insights("again")] * (iterations - bool(said)), verdict())
    assert run(store, again, attempt(["pat-001"]), iterations).insights == [insight("again")]
    assert (counters(sums)["pat-001"], states(sums)) == ((1, 0), ["completed"])


def test_a_drain_asks_on_in_the_language(store: LedgerPlaybooks, sums: Ledger) -> None:
    agent = ReflectorAgent(Model(), ReflectorPromptBuilder(language="ja"), store)
    agent.run(attempt(), "a + b", "", "sums")
    backend = Priced(insights("k"))
    Runner(sums, backend, gate=Gate(Config(), store.project)).finish_pending(retry="all")
    assert "(使用されたBulletはありません)" in backend.prompts[0]


@pytest.mark.slow
def test_half_emoji_and_secret_are_replaced(store: LedgerPlaybooks, sums: Ledger) -> None:
    with pytest.raises(Mistake, match=r"answer is .*at most 4,000,000 characters"):
        run(store, Model(), attempt(generated_answer="x" * 4_000_001))
    key = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
    half, model = f"\ud83d {key}", Model(insights(f"\ud83d {key}"))
    trajectory = attempt(
        [half], query=half, generated_answer=half, error_message=half, reasoning_steps=[half]
    )
    result = run(store, model, trajectory)
    assert [one.key_insight for one in result.insights] == ["? [redacted:github-token]"]
    assert run(store, Model(), trajectory) == result
    assert key not in model.prompts[0] + str([event.data for event in sums.events()])


def test_every_dataset_has_a_playbook_of_its_own(store: LedgerPlaybooks) -> None:
    assert [bullet.id for bullet in store.load("sums").bullets] == ["pat-001", "mis-001"]
    assert store.load("products-v1.0").bullets == []
    with pytest.raises(ValueError, match=r"\.\./sums"):
        store.load("../sums")
    with pytest.raises(Mistake, match=r"'default'.*ledger_url"), store.ledger("default"):
        pass


class Priced:
    """A model whose answers cost tokens."""

    name, is_model, rereads, quotes = "priced", True, False, True

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    def answer(self, *_: object) -> Answer:
        raise NotImplementedError

    def reply(self, question: Question) -> Answer:
        self.prompts.append(question.prompt)
        return Answer(
            self.answers.pop(0), "priced", meta={"input_tokens": 4_000, "output_tokens": 10}
        )


def test_spent_budget_leaves_the_trajectory_open(
    store: LedgerPlaybooks, sums: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tokens, key, left in (("1", None, 2), ("8500", "first", 1), ("60000", "second", 0)):
        monkeypatch.setenv("REFLECTOR_MONTHLY_TOKENS", tokens)
        model = Priced(
            *([insights("first"), insights("second")] if left else [insights("second"), verdict()])
        )
        found = run(store, model, attempt(["pat-001"]), 2).insights
        assert found == ([insight(key)] if key else [])
        assert (len(model.answers), states(sums)) == (left, ["skipped" if left else "completed"])
    assert counters(sums)["pat-001"] == (1, 0)


def test_drain_by_a_model_finishes_open_trajectories(store: LedgerPlaybooks, sums: Ledger) -> None:
    for backend, ended in (
        (Priced(insights("k"), verdict("harmful")), ("completed", "1 insight, pat-001 harmful")),
        (RulesBackend(), ("skipped", "the judge `rules` judges only sessions")),
    ):
        trajectory = attempt(["pat-001"], query=backend.name)
        run(store, Model(), trajectory)
        (done,) = Runner(sums, backend, gate=Gate(Config(), store.project)).finish_pending(
            retry="all"
        )
        assert (done.outcome, done.detail.partition(";")[0]) == ended
    assert run(store, Model(insights("later"), verdict()), trajectory).insights == [
        insight("later")
    ]
    with pytest.raises(ConfigError, match="name a model, for example with --judge anthropic"):
        llm_client("rules")
