"""A drain with several deliveries, with sessions that never end, and with sessions of other
agents.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from reflector.project import Project
from reflector.reflection.runner import Retry
from reflector.sessions import spool
from reflector.sessions.drain import Pipeline, drain_project
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.transcripts.agents import EVERY, SESSION, Codex, Gemini, GeminiDocument, Session as Other

HOUR = 3_600_000_000_000


def age(agent: Agent, nanoseconds: int) -> None:
    """Make the waiting deliveries older than they are."""
    for path in (agent.spool / "waiting").glob("*.json"):
        received = json.loads(path.read_bytes())["received_at_ns"]
        agent.change_delivery(path, received_at_ns=received - nanoseconds)


def test_citation_and_thanks_count_in_one_drain(agent: Agent, tmp_path: Path) -> None:
    session, path = Session("s-1").cites("pat-001", None), tmp_path / "s-1.jsonl"
    agent.hands("PreCompact", session.write(path), trigger="auto")
    session.user("Perfect, that works. Thanks!").agent("Glad to hear it.").write(path)
    assert agent.hands("SessionEnd", path, drain=True) == "pat-001 helpful\n"
    assert agent.counters()["pat-001"] == (1, 0)
    assert [step["tag"] for step in agent.json("blame", "pat-001")][:2] == ["neutral", "helpful"]


def test_stop_is_recorded_at_end_or_after_silence(agent: Agent, tmp_path: Path) -> None:
    """Claude Code 2.1.197 had written 2,722 of a turn's 13,373 bytes when its Stop came."""
    session, path = (
        Session("s-1").user("The total is wrong. Please fix it."),
        tmp_path / "s-1.jsonl",
    )
    agent.hands("Stop", session.write(path))
    session.agent("As [pat-001] says, I change how it adds up.").user(
        "Perfect, that works. Thanks!"
    ).write(path)
    age(agent, HOUR - 60_000_000_000)
    agent.call("drain")
    assert (agent.deliveries(), agent.events("session.recorded")) == (["waiting/s-1.json"], [])
    assert agent.json("status")["spool"]["waiting"] == 1
    age(agent, HOUR)
    agent.call("drain")
    assert (agent.deliveries(), agent.counters()["pat-001"]) == ([], (1, 0))
    agent.hands("Stop", path)
    agent.hands("SessionEnd", path, drain=True)
    assert (agent.deliveries(), agent.counters()["pat-001"]) == ([], (1, 0))


def test_delivery_after_the_last_look_is_drained_too(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, late = Pipeline.finish, iter(["s-2"])

    def and_meanwhile(pipeline: Pipeline, *, retry: Retry = "due") -> None:
        finish(pipeline, retry=retry)
        for session in late:
            agent.ended(id=session)

    monkeypatch.setattr(Pipeline, "finish", and_meanwhile)
    agent.ended(id="s-1")
    agent.call("drain")
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((2, 0), [])


def test_the_road_is_the_same_on_each_engine(agent: Agent, tmp_path: Path, ledger_url: str) -> None:
    agent.environ = {"REFLECTOR_LEDGER_URL": ledger_url}
    session = Session("s-1").cites("pat-001").cites("pat-002", "harmful")
    path = session.write(tmp_path / "s-1.jsonl")
    agent.hands("PreCompact", path)
    agent.hands("SessionEnd", path, drain=True)
    agent.call("ingest", path, session.fork("s-2").write(tmp_path / "fork.jsonl"))
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (3, 2), "mis-001": (0, 0)}
    agent.playbook.write_text(
        agent.playbook.read_text().replace("Keep functions small.", "Keep functions short.")
    )
    agent.call("add", "ctx", "The cart is in cart.py.")
    assert [step["tag"] for step in agent.json("blame", "pat-002")] == [None, "harmful"]
    written = agent.playbook.read_bytes()
    assert b"Keep functions short." in written
    agent.call("rebuild")
    assert agent.playbook.read_bytes() == written
    assert agent.call("rebuild", "--check").out == agent.call("verify").out == ""
    assert not agent.ledger.exists()


def test_session_end_opens_and_lists_everything_once(agent: Agent) -> None:
    agent.ended(id="s-0")
    agent.call("drain")
    transcript = agent.ended(id="s-1")
    with patch.dict(os.environ, agent.env(), clear=True), watched() as seen:
        drain_project(Project.at(agent.project))
    assert agent.counters()["pat-001"] == (2, 0)
    opened = Counter(Path(name).name for what, name in seen if what == "open")
    assert opened[transcript.name] <= 2  # its head, and then all of it
    assert opened["drain.lock"] == 1
    assert opened["ledger.db.lock"] <= 4  # once for each transaction
    # Read first, compared and written at the end, and rendered from the written state.
    assert opened["playbook.json"] <= 5
    listed = Counter(name for what, name in seen if what == "os.listdir")
    # The spool itself, and again after the lock is released.
    assert (listed[str(agent.state / "spool")], listed[str(agent.state / "spool" / "waiting")]) == (
        2,
        1,
    )
    assert listed[str(agent.state / "spool" / "failed")] == 1


_SEEN: list[list[tuple[str, str]]] = []


def _hear(event: str, args: tuple[object, ...]) -> None:
    # The built-in open also calls os.open, with its own flags.
    if (
        _SEEN
        and event in ("open", "os.listdir")
        and isinstance(args[0], str)
        and (event != "open" or args[1] is None)
    ):
        _SEEN[-1].append((event, args[0]))


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """Yield the files that this process opens and the folders that it lists meanwhile. An audit
    hook cannot be removed, so it records nothing afterwards.
    """
    if not _SEEN:
        sys.addaudithook(_hear)
    _SEEN.append([])
    try:
        yield _SEEN[-1]
    finally:
        _SEEN.pop()


# Whether a question may be answered at once: only if nothing happened since the last one


def _is_seen(agent: Agent) -> bool:
    project = Project.at(agent.project)
    with project.open_ledger() as ledger:
        return spool.was_seen(project, spool.current_state(project, ledger))


def _edited(agent: Agent) -> None:
    agent.playbook.write_text(
        agent.playbook.read_text().replace("Keep functions small.", "Keep them small.")
    )


@pytest.mark.parametrize(
    "happens", [Agent.ended, _edited, lambda agent: agent.call("add", "pat", "More advice.")]
)
def test_whatever_happens_after_a_question_is_noticed(
    agent: Agent, happens: Callable[[Agent], object]
) -> None:
    for _ in range(3):
        agent.call("list")
    assert _is_seen(agent)
    happens(agent)
    assert not _is_seen(agent)


# The payloads of other agents' hooks


@pytest.mark.parametrize("begin", first_fast(3, EVERY.values()), ids=EVERY.keys())
def test_results_are_judged_as_those_of_claude_code(
    agent: Agent, tmp_path: Path, begin: Callable[..., Other]
) -> None:
    failed = "FAILED tests/test_cart.py::test_total - AssertionError\n1 failed, 3 passed in 0.1s"
    fixes, fixed = "sed -i s/sum/total/ cart.py", "4 passed in 0.1s"
    claude = (
        Session("s-1")
        .agent("I run the tests.")
        .runs("pytest -q", f"Exit code 1\n{failed}", is_error=True)
    )
    claude.cites("pat-001", None).runs(fixes, "").runs("pytest -q", fixed).agent(
        "It is green."
    ).user("Now invoices.")
    other = begin().model("I run the tests.").runs("pytest -q", failed, 1).cites("pat-001", None)
    other.runs(fixes, "").runs("pytest -q", fixed).model("It is green.").person("Now invoices.")
    agent.call("ingest", claude.write(tmp_path / "claude.jsonl"))
    agent.call("ingest", other.write(tmp_path / other.file_name))
    first, second = agent.json("blame", "pat-001")
    assert (second["tag"], second["rationale"]) == (first["tag"], first["rationale"])
    assert second["tag"] == "helpful"
    assert fixed in second["rationale"]


def test_codex_rollout_is_found_without_its_name(agent: Agent, tmp_path: Path) -> None:
    agent.environ = {"CODEX_HOME": str(tmp_path / "codex")}
    name = f"rollout-2026-09-02T13-53-17-{SESSION}.jsonl"
    Codex().cites("pat-001").write(tmp_path / "codex/sessions/2026/09/02" / name)
    agent.hook(
        "Stop", session_id=SESSION, transcript_path=None, turn_id="1", stop_hook_active=False
    )
    agent.call("drain")
    assert agent.deliveries() == [f"waiting/{SESSION}.json"]
    age(agent, HOUR)
    agent.call("drain")
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((1, 0), [])


def test_codex_session_without_a_file_is_settled(agent: Agent) -> None:
    agent.hook("PreCompact", session_id=SESSION, transcript_path=None, trigger="manual")
    agent.call("drain")
    assert (agent.deliveries(), agent.events("session.recorded")) == ([], [])


@pytest.mark.parametrize("begin", [Gemini, GeminiDocument])
def test_gemini_turn_end_waits_like_any_other(
    agent: Agent, tmp_path: Path, begin: Callable[..., Other]
) -> None:
    session = begin().cites("pat-001")
    path = session.write(tmp_path / session.file_name)
    for event in ("BeforeTool", "AfterAgent"):
        agent.hands(event, path, session_id=session.id, drain=True)
    assert agent.deliveries() == [f"waiting/{session.id}.json"]
    agent.hands("SessionEnd", path, session_id=session.id, drain=True)
    assert (agent.counters()["pat-001"], agent.deliveries()) == ((1, 0), [])
