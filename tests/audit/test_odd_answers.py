"""What reflections and tags hold that no field of their type names may be of any shape, and every question shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from tests.ledger.events import reflected, trajectory, window
from tests.road.agent import Agent


def _ask(agent: Agent) -> None:
    for question in ("log -n 0", "show pat-001", "blame pat-001", "show s-1", "stats"):
        agent.call(*question.split())
        agent.call(*question.split(), "--json")
    agent.call("judge", "--all")
    assert agent.call("verify").out == ""


def _brought(folder: Path, events: list[NewEvent]) -> Agent:
    """A project into which another one's events were merged from a file."""
    agent, other = Agent.in_folder(folder / "here"), Agent.in_folder(folder / "there")
    other.call("list")
    with other.open_ledger() as ledger:
        ledger.append(events)
    (folder / "there.ndjson").write_text(other.call("export", "--format", "ndjson").out, "utf-8")
    agent.call("import", folder / "there.ndjson")
    return agent


def test_a_tag_of_any_shape_that_an_embedder_appended_is_shown(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    seen = window(1, "s-1")
    completed, tag = reflected("r1", seen, ("pat-001", "helpful"))
    odd = ("missing", None, 5, "", [], {"a": []}, ["pat-001"])
    tags = [{**tag.data, field: value} for field in tag.data for value in odd]
    with agent.open_ledger() as ledger:
        ledger.append([seen, completed])
        for number, data in enumerate(tags):
            whole = {key: value for key, value in data.items() if value != "missing"}
            ledger.append([replace(tag, event_id=identity("odd", number), data=whole)])
    _ask(agent)


def test_a_reflection_of_any_shape_that_a_file_brought_is_shown(tmp_path: Path) -> None:
    odd: list[list[dict[str, Any]]] = [[{"rationale": "It helped"}], [{"index": 0}, {}]]
    odd.append([{"index": [], "rationale": "It helped"}])
    events = []
    for number, more in enumerate([*({"rationales": one} for one in odd), {"model": ["m"], "backend": {}, "mode": 5}]):
        seen = window(number, "s-1")
        completed, tag = reflected(f"r{number}", seen, ("pat-001", "helpful"))
        events += [seen, replace(completed, data={**completed.data, **more}), tag]
    _ask(_brought(tmp_path, events))


_ODD_RUNS: list[dict[str, Any]] = [
    *({"iterations": odd} for odd in (None, [])),
    *({"carried": odd} for odd in (None, 5, [[]])),
    *({"retired": odd} for odd in (5, [5])),
    *({"window": odd} for odd in (5, {"keys": "odd"}, {"keys": None})),
    {"transcript": 5, "trigger": [], "agent": {}},
]


def test_a_trajectory_of_any_shape_that_a_file_brought_keeps_no_drain_from_its_work(tmp_path: Path) -> None:
    runs = [trajectory(f"t{number}") for number in range(len(_ODD_RUNS))]
    odd = [replace(run, data={**run.data, **more}) for run, more in zip(runs, _ODD_RUNS, strict=True)]
    agent = _brought(tmp_path, odd)
    agent.call("drain")
    for number in range(len(odd)):
        assert "completed" in agent.call("show", f"trajectory-t{number}").out
        assert agent.json("show", f"trajectory-t{number}")["windows"][0]["transcript"] is None
    assert agent.call("verify").out == ""


@pytest.mark.parametrize("dataset", [None, "", "Sums of July", "../sums"])
def test_a_trajectory_without_a_dataset_that_can_be_one_is_given_up_and_named_once(
    tmp_path: Path, dataset: str | None
) -> None:
    run = trajectory()
    agent = _brought(tmp_path, [replace(run, data={**run.data, "dataset": dataset}), trajectory("t2")])
    assert "cannot be the name of a dataset" in agent.call("drain", code=1).err
    agent.call("drain")
    assert "given_up" in agent.call("show", "trajectory-t1").out
    assert "completed" in agent.call("show", "trajectory-t2").out


def test_a_trajectory_of_a_file_that_asks_for_millions_of_rounds_gets_a_hundred(tmp_path: Path) -> None:
    run = trajectory()
    agent = _brought(tmp_path, [replace(run, data={**run.data, "iterations": 10**9})])
    agent.call("drain")
    with agent.open_ledger() as ledger:
        (completed,) = ledger.events(types=[ev.REFLECTION_COMPLETED])
        assert len(list(ledger.events(types=[ev.REFLECTION_ANSWERED]))) <= 102
    assert completed.data is not None
    assert "of 1000000000 iterations, those after 100 were not asked for" in completed.data["problems"]
