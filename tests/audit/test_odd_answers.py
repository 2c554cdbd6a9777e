"""What reflections and tags hold that no field of their type names may be of any shape, and every question shows it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

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


def test_a_tag_or_a_reflection_of_any_shape_is_shown(tmp_path: Path) -> None:
    events: list[NewEvent] = []
    odd: list[dict[str, Any]] = [{"rationales": [{"rationale": "It helped"}]}, {"rationales": [{"index": 0}, {}]}]
    odd += [{"rationales": [{"index": [], "rationale": "It helped"}]}, {"model": ["m"], "backend": {}, "mode": 5}]
    for number, more in enumerate(odd):
        seen = window(number, "s-1")
        completed, tag = reflected(f"r{number}", seen, ("pat-001", "helpful"))
        events += [seen, replace(completed, data={**completed.data, **more}), tag]
    agent = _brought(tmp_path, events)
    _ask(agent)
    with agent.open_ledger() as ledger:  # a file with such tags is refused; an embedder may append them
        for number, (field, value) in enumerate(product(tag.data, (None, 5, "", [], {"a": []}, ["pat-001"]))):
            ledger.append([replace(tag, event_id=identity("odd", number), data={**tag.data, field: value})])
            without = {key: kept for key, kept in tag.data.items() if key != field}
            ledger.append([replace(tag, event_id=identity("lacks", field), data=without)])
    _ask(agent)


_ODD_RUNS: list[dict[str, Any]] = [
    *({"iterations": odd} for odd in (None, [], 10**9)),
    *({"carried": odd} for odd in (None, 5, [[]])),
    *({"retired": odd} for odd in (5, [5])),
    *({"window": odd} for odd in (5, {"keys": "odd"}, {"keys": None})),
    {"transcript": 5, "trigger": [], "agent": {}},
]
_NO_DATASETS = (None, "", "Sums of July", "../sums")


def test_a_trajectory_of_any_shape_that_a_file_brought_keeps_no_drain_from_its_work(tmp_path: Path) -> None:
    changes = [*_ODD_RUNS, *({"dataset": odd} for odd in _NO_DATASETS)]
    runs = [trajectory(f"t{number}") for number in range(len(changes))]
    odd = [replace(run, data={**run.data, **more}) for run, more in zip(runs, changes, strict=True)]
    agent = _brought(tmp_path, odd)
    assert agent.call("drain", code=1).err.count("cannot be the name of a dataset") == len(_NO_DATASETS)
    agent.call("drain")
    for number, more in enumerate(changes):
        shown = agent.json("show", f"trajectory-t{number}")["windows"][0]
        assert shown["state"] == ("given_up" if "dataset" in more else "completed")
        assert shown["transcript"] is None
    assert agent.call("verify").out == ""
    with agent.open_ledger() as ledger:
        problems = [text for e in ledger.events(types=[ev.REFLECTION_COMPLETED]) for text in (e.data or {})["problems"]]
    assert problems.count("of 1000000000 iterations, those after 100 were not asked for") == 1
