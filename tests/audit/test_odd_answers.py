"""What reflections and tags hold that no field of their type names may be of any shape, and every question shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger.store import Ledger
from tests.ledger.events import reflected, window
from tests.road.agent import Agent

_QUESTIONS = (
    *("log --all", "log --all --undo", "show pat-001", "blame pat-001", "blame pat-001 --json"),
    *("session s-1", "session s-1 --json", "judge --all"),
)


def _ask(agent: Agent) -> None:
    for question in _QUESTIONS:
        agent.call(*question.split())
    assert agent.call("verify").out == ""


def _tag(**changes: Any) -> dict[str, Any]:
    whole = {"index": 0, "name": "pat-001", "tag": "helpful", "disposition": "counted", **changes}
    return {key: value for key, value in whole.items() if value != "missing"}


@pytest.mark.parametrize("field", ["index", "name", "tag", "disposition"])
@pytest.mark.parametrize("value", ["missing", None, 5, "", [], {"a": []}, ["pat-001"]])
def test_a_tag_of_any_shape_that_an_embedder_appended_is_shown(tmp_path: Path, field: str, value: Any) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    seen = window(1, "s-1")
    completed, tag = reflected("r1", seen, ("pat-001", "helpful"))
    with Ledger.open_file(agent.ledger) as ledger:
        ledger.append([seen, completed, replace(tag, data=_tag(**{field: value}))])
    _ask(agent)


@pytest.mark.parametrize(
    "more",
    [
        {"rationales": [{"rationale": "It helped"}]},
        {"rationales": [{"index": 0}, {}]},
        {"rationales": [{"index": [], "rationale": "It helped"}]},
        {"model": ["m"], "backend": {}, "mode": 5},
    ],
)
def test_a_reflection_of_any_shape_that_a_file_brought_is_shown(tmp_path: Path, more: dict[str, Any]) -> None:
    agent, other = Agent.in_folder(tmp_path / "here"), Agent.in_folder(tmp_path / "there")
    other.call("list")
    seen = window(1, "s-1")
    completed, tag = reflected("r1", seen, ("pat-001", "helpful"))
    with Ledger.open_file(other.ledger) as ledger:
        ledger.append([seen, replace(completed, data={**completed.data, **more}), tag])
    (tmp_path / "there.ndjson").write_text(other.call("export", "--format", "ndjson").out, "utf-8")
    agent.call("import", tmp_path / "there.ndjson", "--merge")
    _ask(agent)
