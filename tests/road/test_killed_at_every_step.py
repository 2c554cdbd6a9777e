"""A drain that is killed at each of its steps, and what the next one makes of it."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from reflector.sessions import spool
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.road.worker import drain_until

EXPECTED = {"pat-001": (1, 0), "pat-002": (3, 2), "mis-001": (1, 0), "pat-003": (0, 0)}


def prepared(folder: Path) -> Agent:
    """A project with all that a drain may find: a compaction, a fork that goes on, a delivery that fails, an edit."""
    agent = Agent.in_folder(folder)
    agent.call("drain")
    session = Session("s-1").cites("pat-001").cites("pat-002", "harmful")
    for event, transcript in (
        ("PreCompact", session.write(folder / "1.jsonl")),
        ("SessionEnd", session.fork("s-2").cites("mis-001").write(folder / "2.jsonl")),
        ("SessionEnd", folder / "3.jsonl"),
    ):
        (folder / "3.jsonl").write_bytes(b"\x00 no transcript \x00\n")
        agent.hook(event, session_id=transcript.stem, transcript_path=str(transcript))
    agent.playbook.write_text(
        agent.playbook.read_text().replace(
            '"PATTERNS & APPROACHES": [',
            '"PATTERNS & APPROACHES": [{"name": "pat-003", "text": "By hand.", "helpful": 0, "harmful": 0},',
        )
    )
    return agent


@pytest.mark.parametrize(
    "stride",
    [
        pytest.param(151, id="some steps"),
        pytest.param(4, id="every fourth step", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_wherever_a_drain_is_killed_the_next_one_finishes_and_counts_each_citation_once(
    tmp_path: Path, stride: int
) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.road.worker", "reflector.sessions.pipeline", "reflector.cli.sessions"])
    (tmp_path / "made").mkdir()
    made = prepared(tmp_path / "made")
    for step in count(1, stride):
        project = tmp_path / f"{step}"
        shutil.copytree(made.project, project)
        agent = Agent(project, made.home)
        process = context.Process(target=drain_until, args=(project, agent.env(), step))
        process.start()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL)
        assert set(agent.counters()) == set(EXPECTED), f"killed at step {step}"
        if process.exitcode == 0:
            break
        agent.call("drain", code=None)
        assert_finished(agent, f"after a kill at step {step}")
        shutil.rmtree(project)
    assert_finished(agent, "without a kill")
    print(f"killed before {step - stride} of {step} calls or fewer")
    assert step > 2 * stride


def assert_finished(agent: Agent, when: str) -> None:
    assert agent.counters() == EXPECTED, when
    assert [name.partition("/")[0] for name in agent.deliveries()] == ["failed"], when
    assert len(agent.events("session.recorded")) == 2, when
    assert agent.call("verify").out == "", when
    assert agent.call("rebuild", "--check").out == "", when
    spool.sweep(agent.spool, now=time.time() + 2 * spool.LEFT_BEHIND_SECONDS)
    assert list(agent.claude.rglob("*.tmp")) == [], when
