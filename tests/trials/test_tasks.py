"""`trial run`: tasks done with and without advice, by an agent that is a script."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from reflector.trials.tasks import Run, pairs, sign_test
from tests.road.agent import Agent

#: Does what CLAUDE.md says, notes its arm, and costs two cents.
SCRIPT = """\
grep -q "failing test" CLAUDE.md 2>/dev/null && touch test_first && echo with >> "$ARMS" || echo without >> "$ARMS"
grep -q "total" && echo "$PROMPT" >> "$ARMS" && test -f cart.py && echo '{"total_cost_usd": 0.02}'
"""


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    agent = Agent.in_folder(tmp_path)
    for name, check in (("one", "test -f test_first"), ("two", "test -f cart.py")):
        task = tmp_path / "tasks" / name
        (task / "files").mkdir(parents=True)
        (task / "prompt.md").write_text("Fix the total.")
        (task / "check").write_text(check)
        (task / "files" / "cart.py").write_text("")
    agent.environ["ARMS"] = str(tmp_path / "arms")
    return agent


def test_each_task_is_done_in_turn_with_and_without_and_the_pairs_are_compared(agent: Agent, tmp_path: Path) -> None:
    run = ["trial", "run", tmp_path / "tasks", "--command", SCRIPT]
    assert "were not agreed to: add --yes" in agent.call(*run, code=2).err
    told = agent.call(*run, "--yes").out
    assert "one/check: test -f test_first" in told
    arms = (tmp_path / "arms").read_text().splitlines()
    assert arms[::2] == ["with", "without", "without", "with"] * 2
    assert set(arms[1::2]) == {"Fix the total."}
    rows = [line.split() for line in told.splitlines() if line.startswith("with")]
    assert [(row[0], row[1], row[3]) for row in rows] == [("with", "4/4", "0.08"), ("without", "2/4", "0.08")]
    assert "4 pairs: 2 better with it, 0 worse; chance alone parts them so in 50.0% of cases" in told
    assert agent.events("session.recorded") == []
    again = agent.call(*run).out  # the same commands are agreed to
    assert "one/check" not in again
    (tmp_path / "tasks" / "one" / "check").write_text("true")
    assert "add --yes" in agent.call(*run, code=2).err


def test_one_bullet_or_a_file_is_compared_alone(agent: Agent, tmp_path: Path) -> None:
    run = ["trial", "run", tmp_path / "tasks", "--command", SCRIPT, "--yes"]
    assert "0 better with it, 0 worse" in agent.call(*run, "--bullet", "pat-002").out
    (tmp_path / "rules.md").write_text("Begin with a failing test.")
    assert "2 better with it, 0 worse" in agent.call(*run, "--file", tmp_path / "rules.md").out
    assert "leave one of them out" in agent.call(*run, "--bullet", "pat-002", "--file", tmp_path / "arms", code=2).err
    assert "has no task" in agent.call("trial", "run", tmp_path / "home", "--command", "true", code=2).err


@pytest.mark.parametrize(("better", "worse", "chance"), [(0, 0, 1.0), (5, 0, 0.0625), (1, 1, 1.0), (9, 1, 22 / 1024)])
def test_the_sign_test_is_exact_and_of_both_sides(better: int, worse: int, chance: float) -> None:
    assert sign_test(better, worse) == sign_test(worse, better) == pytest.approx(chance)


def test_a_pair_is_one_run_of_each_arm() -> None:
    passed = [True, False, False, False, False, True, True, True]
    runs = [Run("t", told, ok, 1.0, None) for told, ok in zip([True, False, False, True] * 2, passed, strict=True)]
    assert pairs(runs) == (1, 1)
    assert all(one.told != two.told for one, two in list(pairwise(runs))[::2])
