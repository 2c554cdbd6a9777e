"""A repository or an archive can bring files like those of hooks, but no delivery."""

import json
import shutil
from pathlib import Path

import pytest

from reflector import handover
from reflector.sessions import spool
from tests.road.agent import Agent
from tests.road.sessions import Session


def _another(agent: Agent, tmp_path: Path) -> Agent:
    """Return another user's agent, in the folder of the same project."""
    home = tmp_path / "another"
    home.mkdir()
    return Agent(agent.project, home)


def _cited(tmp_path: Path) -> Path:
    return Session("s-1").cites("pat-001").write(tmp_path / "s-1.jsonl")


@pytest.mark.parametrize("event", ["SessionEnd", "PreCompact", "Stop"])
def test_delivery_of_another_user_records_nothing(agent: Agent, tmp_path: Path, event: str) -> None:
    agent.hook("SessionEnd", session_id="s-0", transcript_path="")  # the user has a key
    _another(agent, tmp_path).hook(event, session_id="s-1", transcript_path=str(_cited(tmp_path)))
    shown = agent.call("list").err
    assert "your hooks did not write this file" in " ".join(shown.split())
    assert (agent.counters()["pat-001"], agent.events("session.recorded")) == ((0, 0), [])


def test_first_delivery_of_a_clone_is_not_trusted(agent: Agent, tmp_path: Path) -> None:
    _another(agent, tmp_path).hook(
        "SessionEnd", session_id="s-1", transcript_path=str(_cited(tmp_path))
    )
    agent.call("drain", code=1)
    assert agent.events("session.recorded") == []


def test_changed_delivery_records_nothing(agent: Agent, tmp_path: Path) -> None:
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(_cited(tmp_path)))
    (delivery,) = agent.spool.glob("*.json")
    delivery.write_bytes(delivery.read_bytes().replace(b"s-1", b"s-2"))
    agent.call("drain", code=1)
    assert (
        agent.events("session.recorded"),
        len(agent.json("status", code=1)["spool"]["failed"]),
    ) == (
        [],
        1,
    )


def test_another_home_records_its_delivery_later(agent: Agent, tmp_path: Path) -> None:
    another = _another(agent, tmp_path)
    another.hook("SessionEnd", session_id="s-1", transcript_path=str(_cited(tmp_path)))
    agent.call("drain", code=1)
    another.call("ledger", "take", "--yes")
    another.call("reflect")
    assert [event["session_id"] for event in another.events("session.recorded")] == ["s-1"]


def test_question_names_a_foreign_delivery(agent: Agent, tmp_path: Path) -> None:
    _another(agent, tmp_path).hook("SessionEnd", session_id="s-1", transcript_path="")
    assert "your hooks did not write this file" in agent.call("list").err
    assert agent.json("status", code=1)["spool"]["pending"] == 0


def test_longer_key_seals_too(agent: Agent, tmp_path: Path) -> None:
    agent.hook("SessionEnd", session_id="s-0", transcript_path="")
    with (agent.own.parent / handover.SEAL_KEY).open("ab") as key:
        key.write(b"\n")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(_cited(tmp_path)))
    agent.call("drain")
    assert [event["session_id"] for event in agent.events("session.recorded")] == ["s-1"]


def test_seal_key_is_private_and_stays(agent: Agent) -> None:
    agent.hook("SessionEnd", session_id="s-1", transcript_path="")
    key = agent.own.parent / handover.SEAL_KEY
    content = key.read_bytes()
    agent.hook("SessionEnd", session_id="s-2", transcript_path="")
    assert (key.stat().st_mode & 0o777, len(content), key.read_bytes()) == (0o600, 32, content)


def test_delivery_counts_if_no_key_can_be_kept(agent: Agent, tmp_path: Path) -> None:
    shutil.rmtree(agent.home / ".local", ignore_errors=True)
    (agent.home / ".local").write_text("not a folder")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(_cited(tmp_path)))
    (delivery,) = agent.spool.glob("*.json")
    assert json.loads(delivery.read_bytes())["payload"]["session_id"] == "s-1"
    assert [found.session_id for found in spool.pending(agent.spool)] == ["s-1"]
