"""`lab trajectory`: files of trajectories, good and hostile."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.judges.api import Api, sound
from tests.judges.truth.cases import insights, verdict
from tests.road.agent import Agent, Ran

GOOD: dict[str, Any] = {
    "query": "Add two numbers.",
    "dataset": "sums",
    "generated_answer": "return a - b",
    "reasoning_steps": ["[pat-001] subtract b from total_sum"],
    "used_bullet_ids": ["pat-001"],
    "status": "failure",
}


@pytest.fixture
def agent(agent: Agent, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project whose dataset `sums` has one bullet, in whose folder commands are typed; a model
    calls it harmful.
    """
    monkeypatch.chdir(tmp_path)
    api.else_ = lambda asked: sound(
        verdict("harmful") if "<bullet id=" in asked.text else insights("Add b.")
    )
    agent.environ |= api.environ(REFLECTOR_BACKEND="anthropic")
    sums(agent, "add", "pat", "Subtract b.")
    return agent


def sums(agent: Agent, *arguments: str, code: int | None = 0) -> Ran:
    return agent.call("lab", "--dataset", "sums", *arguments, code=code)


def lab(agent: Agent, *arguments: str | Path, code: int = 0) -> Ran:
    return agent.call("lab", "trajectory", *arguments, code=code)


def write(name: str, *entries: object) -> Path:
    path = Path(name)
    path.write_text(
        "\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
    )
    return path


def log(agent: Agent) -> list[str]:
    return [event["type"] for event in agent.json("lab", "--dataset", "sums", "log")]


def test_objects_lists_and_lines_are_read(agent: Agent) -> None:
    project = agent.playbook.read_bytes()
    one = write("one.json", json.dumps({**GOOD, "query": "1"}, indent=2))
    several = write("several.json", [{**GOOD, "query": "2"}, {**GOOD, "query": "3"}])
    lines = write("lines.jsonl", {**GOOD, "query": "4"}, "", {**GOOD, "query": "5"})
    told = lab(agent, one, several, lines)
    assert [line.split("  ")[0] for line in told.out.splitlines()[1:]] == [
        *(
            "one.json",
            "several.json, item 1",
            "several.json, item 2",
            "lines.jsonl, line 1",
            "lines.jsonl, line 3",
        )
    ]
    assert log(agent).count("trajectory.recorded") == 5
    (own,) = agent.json("lab", "--dataset", "sums", "list")
    assert (own["name"], own["helpful"], own["harmful"]) == ("pat-001", 0, 5)
    assert agent.playbook.read_bytes() == project
    assert sums(agent, "verify").out == ""


def test_rules_are_refused_before_anything_is_recorded(agent: Agent) -> None:
    told = lab(agent, "--judge", "rules", write("t.json", GOOD), code=2)
    assert "name a model, for example with --judge anthropic" in told.err
    assert log(agent) == ["bullet.added"]


def test_bad_dataset_name_is_refused_and_writes_nothing(agent: Agent) -> None:
    for dataset in ("../x", "", "bullet_evaluation"):
        refused = "cannot be the name of a dataset"
        assert (
            refused
            in agent.call(
                "lab", "--dataset", dataset, "trajectory", write("t.json", GOOD), code=2
            ).err
        )
        assert refused in agent.call("lab", "--dataset", dataset, "list", code=2).err
        assert (
            "t.jsonl, line 1"
            in lab(agent, write("t.jsonl", {**GOOD, "dataset": dataset}, GOOD), code=1).err
        )
    assert log(agent).count("trajectory.recorded") == 1
    assert [path.name for path in (agent.state / "datasets").iterdir()] == ["sums"]


@pytest.mark.slow
def test_bad_trajectories_are_named_and_others_recorded(agent: Agent) -> None:
    bad: list[tuple[str | dict[str, Any], str]] = [
        ("not JSON", "is not JSON"),
        ("42", "is not a trajectory"),
        ({"status": "done"}, "status: Input should be 'success' or 'failure'"),
        ({"test_report": {"failed": 1}}, "test_report: Input should be a valid string"),
        ({"generated_answer": "\ud800"}, ""),
        ("[" * 100_000, "is not JSON"),
        (
            {"generated_answer": "x" * (5 << 20)},
            "reflector cannot record the trajectory: its answer is",
        ),
    ]
    path = write(
        "t.jsonl", *(one if isinstance(one, str) else {**GOOD, **one} for one, _ in bad), GOOD
    )
    told = lab(agent, "gone.json", agent.project, path, code=1).err
    for number, (_, wanted) in enumerate(bad, 1):
        assert re.search(rf"t.jsonl, line {number}: .*{re.escape(wanted)}", told), number
    assert "gone.json" in told
    assert log(agent).count("trajectory.recorded") == 1


def test_recorded_answers_are_used_again(
    agent: Agent,
) -> None:
    agent.environ["REFLECTOR_FIXTURES"] = str(Path("answers.jsonl").absolute())
    path = write("t.json", GOOD)
    Path("answers.jsonl").touch()
    assert (
        "does not contain an answer to this request"
        in lab(agent, "--judge", "fixtures", path, code=1).err
    )
    assert log(agent).count("trajectory.recorded") == 1
    assert "pat-001 harmful" in lab(agent, "--out", "answers.jsonl", path).out
    assert log(agent).count("trajectory.recorded") == 1
    agent.call("lab", "--dataset", "other", "add", "pat", "Subtract b.")
    assert (
        "pat-001 harmful"
        in agent.call("lab", "--dataset", "other", "trajectory", "--judge", "fixtures", path).out
    )


def test_dataset_of_the_lab_takes_all_trajectories(agent: Agent) -> None:
    agent.call("lab", "--dataset", "other", "trajectory", write("t.json", GOOD))
    types = [event["type"] for event in agent.json("lab", "--dataset", "other", "log")]
    assert ("trajectory.recorded" in types, log(agent)) == (True, ["bullet.added"])


def test_a_dataset_may_have_a_version(agent: Agent) -> None:
    told = lab(agent, write("t.json", {**GOOD, "dataset": "mbpp-v1.0"}))
    assert "mbpp-v1.0" in told.out
    log = agent.json("lab", "--dataset", "mbpp-v1.0", "log")
    assert "reflection.completed" in [event["type"] for event in log]


def test_a_strange_ledger_is_taken_with_its_dataset(agent: Agent, tmp_path: Path) -> None:
    path = write("t.json", GOOD)
    other = Agent(agent.project, tmp_path / "another")
    other.home.mkdir()
    other.environ |= agent.environ
    assert "`reflector lab --dataset sums ledger take`" in lab(other, path, code=1).err
    sums(other, "ledger", "take", "--yes")
    assert "pat-001 harmful" in lab(other, path).out
