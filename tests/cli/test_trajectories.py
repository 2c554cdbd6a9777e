"""`reflect-trajectory`: files of trajectories, good and hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.road.agent import Agent

GOOD: dict[str, Any] = {
    "query": "Add two numbers.",
    "dataset": "sums",
    "generated_answer": "return a - b",
    "reasoning_steps": ["[pat-001] subtract b from total_sum"],
    "used_bullet_ids": ["pat-001"],
    "status": "failure",
}
RED = "FAILED tests/test_s.py::test_total_sum - assert -1 == 3"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project whose dataset `sums` has one bullet, in whose folder commands are typed."""
    agent = Agent.in_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    agent.call("--dataset", "sums", "add", "pat", "Subtract b.")
    return agent


def write(name: str, *entries: object) -> Path:
    path = Path(name)
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries))
    return path


def log(agent: Agent, dataset: str = "sums") -> list[str]:
    return [event["type"] for event in agent.json("--dataset", dataset, "log")]


def test_one_object_a_list_and_lines_are_read(agent: Agent) -> None:
    one = write("one.json", json.dumps({**GOOD, "query": "1"}, indent=2))
    several = write("several.json", [{**GOOD, "query": "2"}, {**GOOD, "query": "3"}])
    lines = write("lines.jsonl", {**GOOD, "query": "4"}, "", {**GOOD, "query": "5"})
    told = agent.call("lab", "trajectory", one, several, lines)
    assert [line.split("  ")[0] for line in told.out.splitlines()[1:]] == [
        *("one.json", "several.json, item 1", "several.json, item 2", "lines.jsonl, line 1", "lines.jsonl, line 3")
    ]
    assert log(agent).count("trajectory.recorded") == 5


def test_truth_and_report_come_from_files_where_the_trajectory_has_none(agent: Agent) -> None:
    path = write("t.jsonl", GOOD, {**GOOD, "test_report": "all is well"})
    write("truth.py", "return a + b")
    write("report.txt", RED)
    told = agent.call("lab", "trajectory", "--ground-truth", "truth.py", "--test-report", "report.txt", path)
    first, second = told.out.splitlines()[1:]
    assert first.endswith("1  pat-001 harmful")
    assert second.endswith("0  pat-001 neutral")
    assert "test_total_sum" in agent.call("--dataset", "sums", "blame", "pat-001").out


def test_a_second_run_adds_nothing_and_says_what_is_recorded(agent: Agent) -> None:
    path = write("t.json", {**GOOD, "test_report": RED})
    agent.call("lab", "trajectory", path)
    before = agent.json("--dataset", "sums", "log")
    assert "recorded before: pat-001 harmful" in agent.call("lab", "trajectory", path).out
    assert agent.json("--dataset", "sums", "log") == before


def test_a_datasets_playbook_is_its_own(agent: Agent) -> None:
    project = agent.playbook.read_bytes()
    agent.call("lab", "trajectory", write("t.json", {**GOOD, "test_report": RED}))
    (own,) = agent.json("--dataset", "sums", "list")
    assert (own["name"], own["helpful"], own["harmful"]) == ("pat-001", 0, 1)
    assert agent.playbook.read_bytes() == project
    assert agent.call("--dataset", "sums", "verify").out == ""


def test_the_dataset_may_be_named_before_the_command(agent: Agent) -> None:
    agent.call("--dataset", "sums", "lab", "trajectory", write("one.json", {**GOOD, "dataset": "other"}))
    assert log(agent)[1] == "trajectory.recorded"
    assert not Path(".claude/reflector/datasets/sums/.claude/reflector/datasets").exists()


@pytest.mark.parametrize("dataset", ["../x", "", "NUL", "a/b", "x" * 65, "ａ"])
def test_a_dataset_that_is_no_name_is_refused_and_nothing_is_written(dataset: str, agent: Agent) -> None:
    path = write("t.json", GOOD)
    assert "cannot be the name of a dataset" in agent.call("lab", "trajectory", "--dataset", dataset, path, code=2).err
    assert "cannot be the name of a dataset" in agent.call("--dataset", dataset, "list", code=2).err
    named = write("named.jsonl", {**GOOD, "dataset": dataset}, GOOD)
    told = agent.call("lab", "trajectory", named, code=1)
    assert "named.jsonl, line 1" in told.err
    assert log(agent).count("trajectory.recorded") == 1
    assert [path.name for path in (agent.state / "datasets").iterdir()] == ["sums"]


def test_each_bad_line_is_named_and_the_others_are_recorded(agent: Agent) -> None:
    bad = [
        "not JSON",
        '{"query": ',
        "42",
        "{}",
        {**GOOD, "status": "done"},
        {**GOOD, "reasoning_steps": "one"},
        {**GOOD, "test_report": {"failed": 1}},
        {**GOOD, "generated_answer": "\ud800"},
        "[" * 100_000,
    ]
    path = write("t.jsonl", *bad, GOOD)
    told = agent.call("lab", "trajectory", path, code=1)
    for number in range(1, len(bad) + 1):
        assert f"t.jsonl, line {number}: " in told.err
    assert "status: Input should be 'success' or 'failure'" in told.err
    assert log(agent).count("trajectory.recorded") == 1


def test_a_trajectory_of_ten_megabytes_is_refused_and_those_around_it_are_recorded(agent: Agent) -> None:
    path = write(
        "t.jsonl",
        {**GOOD, "query": "1"},
        {**GOOD, "generated_answer": "x" * (10 << 20)},
        {**GOOD, "generated_answer": "x" * (5 << 20)},
        {**GOOD, "query": "2"},
    )
    told = agent.call("lab", "trajectory", path, code=1)
    assert "t.jsonl, line 2: is longer than 8 MiB" in told.err
    assert "t.jsonl, line 3: the trajectory cannot be recorded: generated_answer is" in told.err
    assert log(agent).count("trajectory.recorded") == 2


@pytest.mark.parametrize("name", ["empty.json", "list.json", "blank.json", "lines.jsonl"])
def test_a_file_without_a_trajectory_is_named(name: str, agent: Agent) -> None:
    Path(name).write_text({"list.json": "[]", "blank.json": " \n"}.get(name, ""))
    assert f"{name} is empty" in agent.call("lab", "trajectory", name, code=2).err
    assert f"{name} is empty" in agent.call("lab", "trajectory", name, write("t.json", GOOD), code=1).err
    assert log(agent).count("trajectory.recorded") == 1


def test_a_session_that_is_a_trajectory_says_so(agent: Agent) -> None:
    agent.call("lab", "trajectory", write("t.json", {**GOOD, "test_report": RED}))
    session_id = next(e["session_id"] for e in agent.json("--dataset", "sums", "log") if e["session_id"])
    told = agent.call("--dataset", "sums", "show", session_id).out
    assert "a trajectory\n  trajectory  sums, failure, 1 step\n" in told
    assert "None" not in told


def test_a_trajectory_recorded_with_an_unknown_bullet_and_any_iterations_stays_as_it_is(agent: Agent) -> None:
    path = write("t.json", {**GOOD, "used_bullet_ids": ["pat-002"], "test_report": RED})
    agent.call("lab", "trajectory", path)
    agent.call("--dataset", "sums", "add", "pat", "Subtract b twice.")
    before = log(agent)
    assert "recorded before" in agent.call("lab", "trajectory", "--iterations", "3", path).out
    assert log(agent) == before


def test_a_file_that_is_not_there_and_a_folder_are_named(agent: Agent) -> None:
    told = agent.call("lab", "trajectory", "gone.json", agent.project, write("t.json", GOOD), code=1)
    assert "gone.json" in told.err
    assert log(agent).count("trajectory.recorded") == 1


def test_a_template_that_formats_itself_is_passed_over(agent: Agent) -> None:
    own = agent.state / "prompts" / "ground_truth"
    own.mkdir(parents=True)
    (own / "sums.txt").write_text("{generated_answer.__class__.__mro__}")
    told = agent.call("lab", "trajectory", write("t.json", {**GOOD, "test_report": RED}))
    assert "another template is used" in told.err
    assert "pat-001 harmful" in told.out


def test_control_characters_of_a_trajectory_reach_no_terminal(agent: Agent) -> None:
    path = write("t.json", {**GOOD, "used_bullet_ids": ["\x1b[31mred\x07"], "test_report": f"{RED} \x1b]0;x\x07"})
    told = agent.call("lab", "trajectory", path)
    assert "\x1b" not in told.out + told.err
    assert "\x1b" not in agent.call("--dataset", "sums", "log").out


def test_a_backend_that_fails_leaves_the_trajectory_open(agent: Agent) -> None:
    agent.environ["REFLECTOR_FIXTURES"] = "answers.jsonl"
    (agent.project / "answers.jsonl").touch()
    path = write("t.json", {**GOOD, "test_report": RED})
    told = agent.call("lab", "trajectory", "--backend", "fixtures", path, code=1)
    assert "has no answer for this request" in told.err
    assert log(agent).count("trajectory.recorded") == 1
    assert "pat-001 harmful" in agent.call("lab", "trajectory", "--backend", "rules", path).out
    assert log(agent).count("trajectory.recorded") == 1


def test_answers_that_were_recorded_are_given_again(agent: Agent) -> None:
    path = write("t.json", {**GOOD, "test_report": RED})
    agent.call("lab", "trajectory", "--record", "answers.jsonl", path)
    agent.environ["REFLECTOR_FIXTURES"] = str(Path("answers.jsonl").absolute())
    agent.call("--dataset", "other", "add", "pat", "Subtract b.")
    told = agent.call("lab", "trajectory", "--backend", "fixtures", "--dataset", "other", path)
    assert "pat-001 harmful" in told.out


def test_commands_about_transcripts_leave_trajectories_alone(agent: Agent) -> None:
    """A trajectory is a window without a transcript: nobody is asked about it a second time, nothing breaks."""
    agent.call("lab", "trajectory", write("t.json", {**GOOD, "test_report": RED}))
    agent.environ["REFLECTOR_FIXTURES"] = str(Path("answers.jsonl").absolute())
    Path("answers.jsonl").touch()
    agent.call("lab", "trajectory", "--backend", "fixtures", write("open.json", GOOD), code=1)
    before = log(agent)
    for command in (
        "reflect --dry-run",
        "judge --json",
        "reflect --reparse",
        "stats",
        "status",
    ):
        ran = agent.call("--dataset", "sums", *command.split(), code=None)
        assert "Traceback" not in ran.out + ran.err
    assert log(agent) == before
    (failure,) = agent.json("--dataset", "sums", "status", code=1)["failures"]
    assert failure["command"] == f"reflector --dataset sums reflect {failure['session_id']}"
    assert "completed" in agent.call("--dataset", "sums", "reflect", failure["session_id"]).out


def test_an_unknown_dataset_is_named_with_those_that_there_are(agent: Agent) -> None:
    told = agent.call("--dataset", "nope", "list").err
    assert "There is no dataset 'nope' here yet; the datasets are sums." in told
    assert "Add a bullet with: reflector --dataset nope add pat" in told
