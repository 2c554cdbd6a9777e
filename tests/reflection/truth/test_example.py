"""The twelve tasks of examples/ground_truth: their tests are run, and the ledger names the failing one in `blame`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector.ground_truth import Bullet, ReflectorAgent, ReflectorPromptBuilder, Trajectory
from reflector.ledger.store import Ledger
from reflector.reflection.backends.fixtures import Recording
from reflector.reflection.protocol import Answer
from reflector.reflection.truth.asking import Question
from tests.reflection.truth.cases import Store, insights, verdict
from tests.road.agent import Agent

EXAMPLE = Path(__file__).parents[3] / "examples" / "ground_truth"
SAID = json.loads((EXAMPLE / "tasks.json").read_text("utf-8"))
ITERATIONS = 3


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the example makes, with reports of real runs of pytest."""
    folder = tmp_path_factory.mktemp("tasks")
    made = subprocess.run(
        [sys.executable, EXAMPLE / "make_trajectories.py", folder],
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


class Scripted:
    """A model that says of each task what tasks.json says."""

    name, is_model = "scripted", False

    def answer(self, *_: Any) -> Answer:
        raise NotImplementedError

    def reply(self, question: Question) -> Answer:
        task = next(one for one in SAID["tasks"] if one["query"] == question.case.trajectory.query)
        if question.bullet is None:
            return Answer(insights(f"{task['insight']} ({question.iteration})"), "scripted")
        return Answer(verdict(task["verdict"], f"See test_{task['name']}.py."), "scripted")


def fixtures(trajectories: Path, path: Path) -> Path:
    """Record the answers of the scripted model as fixtures."""
    path.touch()
    bullets = [
        Bullet(id=one["name"], section=section, content=one["text"], searchable_text=one["text"])
        for section, entries in json.loads(trajectories.with_name("playbook.json").read_text("utf-8"))[
            "sections"
        ].items()
        for one in entries
    ]
    agent = ReflectorAgent(Recording(Scripted(), path), ReflectorPromptBuilder(), Store(*bullets))
    for line in trajectories.read_text("utf-8").splitlines():
        one = json.loads(line)
        given = {key: one.pop(key) for key in ("ground_truth", "test_report")}
        agent.run(Trajectory.model_validate(one), **given, dataset="python-tasks", max_iterations=ITERATIONS)
    return path


def project(folder: Path, book: Path) -> Agent:
    """A project with the playbook of the dataset."""
    agent = Agent.in_folder(folder, {})
    agent.call("--dataset", "python-tasks", "import", book)
    return agent


def events(agent: Agent) -> list[str]:
    folder = agent.state / "datasets" / "python-tasks" / ".claude" / "reflector"
    with Ledger.open_file(folder / "ledger.db", "python-tasks") as ledger:
        return [event.type for event in ledger.events()]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["fixtures", "rules"])
def test_the_ledger_shows_lessons_tags_and_blame_that_names_the_failing_test(
    backend: str, trajectories: Path, tmp_path: Path
) -> None:
    agent = project(tmp_path, trajectories.with_name("playbook.json"))
    if backend == "fixtures":
        agent.environ["REFLECTOR_FIXTURES"] = str(fixtures(trajectories, tmp_path / "answers.jsonl"))
    run = ("reflect-trajectory", "--iterations", ITERATIONS, "--backend", backend, trajectories)
    told = agent.call(*run)
    assert told.err == ""
    for task in SAID["tasks"]:
        assert f"{task['bullet']} {task['verdict']}" in told.out
    types = events(agent)
    assert types.count("trajectory.recorded") == 12
    assert types.count("reflection.answered") == 12 * (ITERATIONS + 1)
    assert types.count("lesson.recorded") >= 12
    assert types.count("bullet.tagged") == 12
    counts = {row["name"]: (row["helpful"], row["harmful"]) for row in agent.json("--dataset", "python-tasks", "list")}
    for name in SAID["bullets"]:
        said = [task["verdict"] for task in SAID["tasks"] if task["bullet"] == name]
        assert counts[name] == (said.count("helpful"), said.count("harmful"))
    reasons = str(agent.json("--dataset", "python-tasks", "blame", "pat-002"))
    wanted = (
        ("test_cents_add_up", "test_shares_add_up_to_the_bill") if backend == "rules" else ("test_total", "test_split")
    )
    assert all(name in reasons for name in wanted)
    assert agent.call("--dataset", "python-tasks", "verify").out == ""
    again = agent.call(*run)
    assert again.out.count("recorded before") == 12
    assert events(agent) == types
