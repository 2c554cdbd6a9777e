"""The twelve tasks of examples/ground_truth: their tests are run, and the ledger says in `blame` what a model saw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from tests.reflection.api import Api, Asked, Behaviour, sound
from tests.reflection.truth.cases import insights, verdict
from tests.road.agent import Agent

EXAMPLE = Path(__file__).parents[3] / "examples" / "ground_truth"
SAID = json.loads((EXAMPLE / "tasks.json").read_text("utf-8"))
ITERATIONS = 3


def answered(asked: Asked) -> Behaviour:
    """What the file of the tasks says of the task that is asked about, whose answer the prompt holds."""
    task = next(task for task in SAID["tasks"] if task["query"] in asked.text)
    return sound(
        verdict(task["verdict"], f"It is the step of {task['name']}.")
        if "<bullet id=" in asked.text
        else insights(task["insight"])
    )


@pytest.mark.slow
def test_the_ledger_shows_lessons_tags_and_blame_that_says_why(api: Api, tmp_path: Path) -> None:
    """The example's file is made with reports of real runs of pytest."""
    made = subprocess.run(
        [sys.executable, EXAMPLE / "make_trajectories.py", tmp_path / "tasks"],
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    trajectories = Path(made.stdout.strip())
    agent = Agent.in_folder(tmp_path, {})
    agent.environ = api.environ(REFLECTOR_BACKEND="anthropic")
    api.else_ = answered
    agent.call("--dataset", "python-tasks", "import", trajectories.with_name("playbook.json"))

    def events() -> list[str]:
        folder = agent.state / "datasets" / "python-tasks" / ".claude" / "reflector"
        with Ledger.open_file(folder / "ledger.db", "python-tasks") as ledger:
            return [event.type for event in ledger.events()]

    run = ("lab", "trajectory", "--iterations", ITERATIONS, trajectories)
    told = agent.call(*run)
    assert told.err == ""
    for task in SAID["tasks"]:
        assert f"{task['bullet']} {task['verdict']}" in told.out
    types = events()
    assert types.count("trajectory.recorded") == 12
    assert types.count("reflection.answered") == 12 * (ITERATIONS + 1)
    assert types.count("lesson.recorded") == 12
    assert types.count("bullet.tagged") == 12
    counts = {row["name"]: (row["helpful"], row["harmful"]) for row in agent.json("--dataset", "python-tasks", "list")}
    for name in SAID["bullets"]:
        said = [task["verdict"] for task in SAID["tasks"] if task["bullet"] == name]
        assert counts[name] == (said.count("helpful"), said.count("harmful"))
    reasons = str(agent.json("--dataset", "python-tasks", "blame", "pat-002"))
    assert all(f"of {name}" in reasons for name in ("total", "split_bill"))
    assert agent.call("--dataset", "python-tasks", "verify").out == ""
    again = agent.call(*run)
    assert again.out.count("recorded before") == 12
    assert events() == types
