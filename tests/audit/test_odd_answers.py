"""What reflections and tags hold that no field of their type names may be of any shape, and every question shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.reflection.truth import asking
from tests.ledger.events import trajectory
from tests.reflection.api import Api, sound
from tests.reflection.truth.cases import insights, verdict
from tests.road.agent import Agent


def _brought(folder: Path, events: list[NewEvent]) -> Agent:
    """A project into which another one's events were merged from a file."""
    agent, other = Agent.in_folder(folder / "here"), Agent.in_folder(folder / "there")
    other.call("list")
    with other.open_ledger() as ledger:
        ledger.append(events)
    (folder / "there.ndjson").write_text(other.call("export", "--format", "ndjson").out, "utf-8")
    agent.call("import", folder / "there.ndjson")
    return agent


_ODD_RUNS: list[dict[str, Any]] = [
    *({"iterations": odd} for odd in (None, [], 10**9)),
    *({"carried": odd} for odd in (None, 5, [[]])),
    *({"retired": odd} for odd in (5, [5])),
    *({"window": odd} for odd in (5, {"keys": "odd"}, {"keys": None})),
    {"transcript": 5, "trigger": [], "agent": {}},
]
_NO_DATASETS = (None, "", "Sums of July", "../sums")


def test_a_trajectory_of_any_shape_that_a_file_brought_keeps_no_drain_from_its_work(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ITERATIONS", 3)
    changes = [*_ODD_RUNS, *({"dataset": odd} for odd in _NO_DATASETS)]
    runs = [trajectory(f"t{number}") for number in range(len(changes))]
    odd = [replace(run, data={**run.data, **more}) for run, more in zip(runs, changes, strict=True)]
    agent = _brought(tmp_path, odd)
    agent.environ = api.environ(REFLECTOR_BACKEND="anthropic", REFLECTOR_SESSION_TOKENS="0")
    api.else_ = lambda asked: sound(verdict() if "<bullet id=" in asked.text else insights("a"))
    assert agent.call("drain", code=1).err.count("cannot be the name of a dataset") == len(_NO_DATASETS)
    agent.call("drain")
    for number, more in enumerate(changes):
        shown = agent.json("show", f"trajectory-t{number}")["windows"][0]
        assert shown["state"] == ("given_up" if "dataset" in more else "completed")
        assert shown["transcript"] is None
    assert agent.call("verify").out == ""
    with agent.open_ledger() as ledger:
        problems = [text for e in ledger.events(types=[ev.REFLECTION_COMPLETED]) for text in (e.data or {})["problems"]]
    assert problems.count("3 are the most; iteration 4 was not asked for") == 1
