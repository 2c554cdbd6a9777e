"""The whole road for other agents: what their hooks hand over, the drain, the counters, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session as Claude
from tests.road.test_drain import HOUR, age
from tests.transcripts.agents import EVERY, SESSION, Codex, Gemini, GeminiDocument, Session

every_agent = pytest.mark.parametrize("begin", EVERY.values(), ids=EVERY.keys())


@every_agent
def test_results_are_judged_as_those_of_claude_code(
    agent: Agent, tmp_path: Path, begin: Callable[..., Session]
) -> None:
    failed = "FAILED tests/test_cart.py::test_total - AssertionError\n1 failed, 3 passed in 0.1s"
    fixes, fixed = "sed -i s/sum/total/ cart.py", "4 passed in 0.1s"
    claude = Claude("s-1").agent("I run the tests.").runs("pytest -q", f"Exit code 1\n{failed}", is_error=True)
    claude.cites("pat-001", None).runs(fixes, "").runs("pytest -q", fixed).agent("It is green.").user("Now invoices.")
    other = begin().model("I run the tests.").runs("pytest -q", failed, 1).cites("pat-001", None)
    other.runs(fixes, "").runs("pytest -q", fixed).model("It is green.").person("Now invoices.")
    agent.call("ingest", claude.write(tmp_path / "claude.jsonl"))
    agent.call("ingest", other.write(tmp_path / other.file_name))
    first, second = agent.json("blame", "pat-001")
    assert (second["tag"], second["rationale"]) == (first["tag"], first["rationale"])
    assert second["tag"] == "helpful"
    assert fixed in second["rationale"]


def test_codex_names_no_transcript_and_its_rollout_is_found(agent: Agent, tmp_path: Path) -> None:
    agent.environ = {"CODEX_HOME": str(tmp_path / "codex")}
    name = f"rollout-2026-09-02T13-53-17-{SESSION}.jsonl"
    Codex().cites("pat-001").write(tmp_path / "codex/sessions/2026/09/02" / name)
    agent.hook("Stop", session_id=SESSION, transcript_path=None, turn_id="1", stop_hook_active=False)
    agent.call("drain")
    assert agent.deliveries() == [f"waiting/{SESSION}.json"]
    age(agent, HOUR)
    agent.call("drain")
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((1, 0), [])


def test_a_codex_session_that_left_no_file_is_settled(agent: Agent) -> None:
    agent.hook("PreCompact", session_id=SESSION, transcript_path=None, trigger="manual")
    agent.call("drain")
    assert (agent.deliveries(), agent.events("session.recorded")) == ([], [])


@pytest.mark.parametrize("begin", [Gemini, GeminiDocument])
def test_a_turns_end_of_gemini_waits_like_any_other(
    agent: Agent, tmp_path: Path, begin: Callable[..., Session]
) -> None:
    session = begin().cites("pat-001")
    path = session.write(tmp_path / session.file_name)
    for event in ("BeforeTool", "AfterAgent"):
        agent.hands(event, path, session_id=session.id, drain=True)
    assert agent.deliveries() == [f"waiting/{session.id}.json"]
    agent.hands("SessionEnd", path, session_id=session.id, drain=True)
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((1, 0), [])
