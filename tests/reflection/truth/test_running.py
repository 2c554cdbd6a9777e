"""Trajectories in the ledger: what is appended, that nothing is asked twice, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.audit.blame import blame
from reflector.config import Config
from reflector.events import event as ev
from reflector.events.fold import fold
from reflector.ground_truth import LedgerPlaybooks, ReflectionResult, ReflectorAgent, ReflectorPromptBuilder, Trajectory
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.proof.verify import verify
from reflector.reflection.gate import Gate
from reflector.reflection.protocol import Answer, BackendError
from reflector.reflection.reparsing import reparse
from reflector.reflection.runner import Runner
from reflector.reflection.truth.asking import Question
from reflector.reflection.truth.running import TrajectoryRefused
from tests.ledger.events import added, adopted, retracted
from tests.reflection.truth.cases import Model, attempt, insight, insights, verdict

TYPES = [ev.TRAJECTORY_RECORDED, ev.REFLECTION_ANSWERED, ev.LESSON_RECORDED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED]


@pytest.fixture
def store(ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerPlaybooks:
    """Playbooks of datasets in a project whose ledger is the test's; `sums` has pat-001 and mis-001."""
    monkeypatch.setenv("REFLECTOR_LEDGER_URL", ledger_url)
    made = LedgerPlaybooks(tmp_path)
    with made.ledger("sums") as ledger:
        ledger.append([added("pat-001", "Subtract b."), added("mis-001", "Mind the sign.")])
    return made


@pytest.fixture
def sums(store: LedgerPlaybooks) -> Iterator[Ledger]:
    with store.ledger("sums") as ledger:
        yield ledger


def run(store: LedgerPlaybooks, model: object, trajectory: Trajectory, iterations: int = 1) -> ReflectionResult:
    agent = ReflectorAgent(model, ReflectorPromptBuilder(language="en"), store)
    return agent.run(trajectory, "a + b", "", "sums", iterations)


def types(ledger: Ledger) -> list[str]:
    return [event.type for event in ledger.events() if event.type != ev.BULLET_ADDED]


def counters(ledger: Ledger) -> dict[str, tuple[int, int]]:
    return {bullet.name: (bullet.helpful, bullet.harmful) for bullet in ledger.bullets()}


def test_a_run_is_a_trajectory_its_answers_its_lessons_and_its_tags(store: LedgerPlaybooks, sums: Ledger) -> None:
    result = run(store, Model(insights("a", "b"), verdict("harmful", "It subtracts.")), attempt(["pat-001", "x"]))
    assert [one.key_insight for one in result.insights] == ["a", "b"]
    assert types(sums) == [*TYPES[:2], ev.REFLECTION_ANSWERED, ev.LESSON_RECORDED, *TYPES[2:]]
    recorded = next(sums.events(types=[ev.TRAJECTORY_RECORDED]))
    assert recorded.data is not None
    assert (recorded.data["cited"], recorded.data["unknown"]) == (["pat-001"], ["x"])
    answers = list(sums.events(types=[ev.REFLECTION_ANSWERED]))
    assert [(a.data or {})["answer"] for a in answers] == [insights("a", "b"), verdict("harmful", "It subtracts.")]
    assert [(a.data or {})["mode"] for a in answers] == ["ground_truth"] * 2
    assert all(event.target_id == recorded.event_id for event in [*answers, *sums.events(types=[ev.LESSON_RECORDED])])
    assert counters(sums) == {"pat-001": (0, 1), "mis-001": (0, 0)}
    (last,) = blame(sums, "pat-001")[-1:]
    assert (last.tag, last.rationale) == ("harmful", "It subtracts.")
    assert list(verify(sums)) == []
    assert fold(sums.history()).counters("pat-001") == (0, 1)


def test_running_the_same_trajectory_again_adds_nothing_and_asks_nobody(store: LedgerPlaybooks, sums: Ledger) -> None:
    first = run(store, Model(insights("a"), verdict()), attempt(["pat-001"]))
    before = sums.head()
    model = Model(insights("b"), verdict("harmful"))
    assert run(store, model, attempt(["pat-001"])) == first
    assert model.prompts == []
    assert sums.head() == before


def test_another_truth_is_another_run(store: LedgerPlaybooks, sums: Ledger) -> None:
    for truth in ("a", "b"):
        agent = ReflectorAgent(Model(insights("k")), ReflectorPromptBuilder(), store)
        agent.run(attempt(), truth, "", "sums")
    assert types(sums).count(ev.TRAJECTORY_RECORDED) == 2


def test_a_run_that_was_killed_goes_on_with_the_first_question_without_an_answer(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    class Killed(BaseException):
        pass

    killed = Killed()
    model = Model(insights("first"), killed)  # type: ignore[arg-type]
    model.answers = [insights("first")]

    def dies(prompt: str) -> str:
        if not model.answers:
            raise killed
        return model.invoke_with_template(prompt)

    dies.name = "model"  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        run(store, dies, attempt(["pat-001"]), 2)
    assert types(sums) == TYPES[:2]
    again = Model(insights("second"), verdict())
    assert [one.key_insight for one in run(store, again, attempt(["pat-001"]), 2).insights] == ["second"]
    assert len(again.prompts) == 2
    assert "first" in again.prompts[0]


def test_an_answer_that_cannot_be_read_is_kept_as_a_failure_and_no_tag(store: LedgerPlaybooks, sums: Ledger) -> None:
    result = run(store, Model(insights("a"), "no verdict"), attempt(["pat-001"]))
    assert result.bullet_evaluations == []
    failed = next(sums.events(types=[ev.REFLECTION_FAILED]))
    assert (failed.data or {})["stage"] == "parse"
    assert "the evaluation of pat-001" in (failed.data or {})["message"]
    assert ev.BULLET_TAGGED not in types(sums)
    completed = next(sums.events(types=[ev.REFLECTION_COMPLETED]))
    assert "pat-001" in (completed.data or {})["problems"][0]
    assert [window.state for window in sums.windows()] == ["completed"]


def test_an_iteration_that_fails_is_recorded_and_the_last_good_one_stands(store: LedgerPlaybooks, sums: Ledger) -> None:
    result = run(store, Model(insights("first"), RuntimeError("broken"), "no JSON"), attempt(), 3)
    assert result.insights == [insight("first")]
    assert [(e.data or {})["stage"] for e in sums.events(types=[ev.REFLECTION_FAILED])] == ["backend", "parse"]
    completed = next(sums.events(types=[ev.REFLECTION_COMPLETED]))
    assert [p.endswith("the insights of iteration 1 stand") for p in (completed.data or {})["problems"]] == [True] * 2


def test_after_three_failed_iterations_each_failure_is_recorded_and_no_other_is_asked_for(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    model = Model(insights("first"), RuntimeError("away"), "no JSON", RuntimeError("away"), verdict())
    assert run(store, model, attempt(["pat-001"]), 100).insights == [insight("first")]
    assert len(model.prompts) == 5
    assert types(sums).count(ev.REFLECTION_FAILED) == 3
    completed = next(sums.events(types=[ev.REFLECTION_COMPLETED]))
    assert "iteration 5 was not asked for" in (completed.data or {})["problems"][3]


def test_a_model_that_fails_leaves_the_trajectory_open_for_the_next_run(store: LedgerPlaybooks, sums: Ledger) -> None:
    result = run(store, Model(), attempt(["pat-001"]))
    assert (result.insights, result.bullet_evaluations, result.iteration_count) == ([], [], 0)
    assert [window.state for window in sums.windows()] == ["failed"]
    assert run(store, Model(insights("a"), verdict()), attempt(["pat-001"])).insights == [insight("a")]
    assert counters(sums)["pat-001"] == (1, 0)


def test_an_outage_ends_the_run_and_keeps_what_was_answered(store: LedgerPlaybooks, sums: Ledger) -> None:
    away = BackendError("the API is away", stage="transport")
    model = Model(insights("first"), away)
    result = run(store, model, attempt(["pat-001"]), 3)
    assert result.insights == [insight("first")]
    assert len(model.prompts) == 2
    assert [window.state for window in sums.windows()] == ["failed"]
    again = Model(insights("second"), insights("third"), verdict())
    assert run(store, again, attempt(["pat-001"]), 3).insights == [insight("third")]
    assert [window.state for window in sums.windows()] == ["completed"]


def test_tags_count_under_every_policy_and_can_be_retracted(store: LedgerPlaybooks, sums: Ledger) -> None:
    for number in range(3):
        run(store, Model(insights("a"), verdict()), attempt(["pat-001"], query=f"Task {number}."))
    assert counters(sums)["pat-001"] == (3, 0)
    sums.append([adopted("once_per_session")])
    assert counters(sums)["pat-001"] == (3, 0)
    recorded = next(sums.events(types=[ev.TRAJECTORY_RECORDED]))
    target = added()
    object.__setattr__(target, "event_id", recorded.event_id)
    sums.append([retracted(target)])
    assert counters(sums)["pat-001"] == (2, 0)
    assert list(verify(sums)) == []


def test_the_prose_of_a_run_can_be_erased_and_its_counts_stay(store: LedgerPlaybooks, sums: Ledger) -> None:
    run(store, Model(insights("a"), verdict()), attempt(["pat-001"], query="A customer's name"))
    sums.redact_all([event.event_id for event in sums.events() if event.type in TYPES[:4]], reason="GDPR", actor="me")
    assert "customer" not in str([event.data for event in sums.events()])
    assert counters(sums)["pat-001"] == (1, 0)
    assert list(verify(sums)) == []


def test_secrets_reach_neither_the_ledger_nor_a_model_that_is_asked_through_it(
    store: LedgerPlaybooks, sums: Ledger
) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
    model = Model(insights(f"Use {key}"))
    run(store, model, attempt(generated_answer=f"token = '{key}'"))
    assert key not in str([event.data for event in sums.events()])
    assert key not in model.prompts[0]


def test_a_trajectory_that_is_too_long_is_refused_by_name(store: LedgerPlaybooks, sums: Ledger) -> None:
    with pytest.raises(TrajectoryRefused, match=r"answer is .*at most 4,000,000 characters"):
        run(store, Model(), attempt(generated_answer="x" * 10_000_000))
    assert types(sums) == []


def test_every_dataset_has_a_playbook_of_its_own(store: LedgerPlaybooks) -> None:
    assert [bullet.id for bullet in store.load("sums").bullets] == ["pat-001", "mis-001"]
    assert store.load("products").bullets == []
    with pytest.raises(ValueError, match=r"\.\./sums"):
        store.load("../sums")


def test_an_open_trajectory_is_finished_by_the_runner_of_sessions(store: LedgerPlaybooks, sums: Ledger) -> None:
    """A drain of the dataset's playbook meets it among its windows."""
    report = "FAILED tests/test_s.py::test_total_sum - total_sum is -1"
    trajectory = attempt(["pat-001"], reasoning_steps=["[pat-001] subtract b from total_sum"])
    ReflectorAgent(Model(), ReflectorPromptBuilder(), store).run(trajectory, "a + b", report, "sums")
    from reflector.reflection.backends.rules import RulesBackend

    done = Runner(sums, RulesBackend(), gate=Gate(Config(), store.project)).finish_pending(retry="all")
    assert [(one.outcome, one.detail) for one in done] == [("completed", "1 insight, pat-001 harmful")]
    assert counters(sums)["pat-001"] == (0, 1)


class Priced:
    """A model whose answers cost tokens."""

    name, is_model = "priced", True

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def answer(self, *_: object) -> Answer:
        raise NotImplementedError

    def reply(self, question: Question) -> Answer:
        return Answer(self.answers.pop(0), "priced", meta={"input_tokens": 100, "output_tokens": 10})


def test_a_budget_that_is_spent_leaves_the_trajectory_open_with_what_was_answered(
    store: LedgerPlaybooks, sums: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLECTOR_SESSION_TOKENS", "8500")
    model = Priced(insights("first"), insights("second"))
    assert run(store, model, attempt(["pat-001"]), 2).insights == [insight("first")]
    assert [window.state for window in sums.windows()] == ["skipped"]
    monkeypatch.setenv("REFLECTOR_SESSION_TOKENS", "60000")
    again = Priced(insights("second"), verdict())
    assert run(store, again, attempt(["pat-001"]), 2).insights == [insight("second")]
    assert counters(sums)["pat-001"] == (1, 0)


def test_a_budget_of_nothing_asks_nobody(store: LedgerPlaybooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLECTOR_SESSION_TOKENS", "1")
    model = Priced(insights("first"))
    assert run(store, model, attempt()).insights == []
    assert len(model.answers) == 1


def test_reading_old_answers_again_leaves_trajectories_alone(store: LedgerPlaybooks, sums: Ledger) -> None:
    run(store, Model(insights("a"), insights("b"), verdict("harmful")), attempt(["pat-001"]), 2)
    before = types(sums)
    assert list(reparse(sums)) == []
    assert types(sums) == before
    assert counters(sums)["pat-001"] == (0, 1)


@pytest.mark.parametrize("field", ["query", "generated_answer", "error_message", "reasoning_steps", "used_bullet_ids"])
def test_half_an_emoji_costs_no_trajectory(field: str, store: LedgerPlaybooks) -> None:
    half: object = ["\ud83d"] if field in ("reasoning_steps", "used_bullet_ids") else "\ud83d"
    trajectory = attempt(**{field: half})
    result = run(store, Model(insights("\ud83d")), trajectory)
    assert [one.key_insight for one in result.insights] == ["?"]
    assert run(store, Model(), trajectory) == result


def test_a_dataset_is_not_called_as_the_playbook_that_it_would_share_a_ledger_with(store: LedgerPlaybooks) -> None:
    with pytest.raises(Mistake, match=r"'default'.*ledger_url"), store.ledger("default"):
        pass
