"""Agents in worktrees of one repository, which are removed directly after their sessions. Nothing
is lost.
"""

import random
import threading
import time
from pathlib import Path

import pytest

from tests.building import commit, git
from tests.road.agent import Agent
from tests.road.sessions import Session

WORKTREES = 4


class _Worker(threading.Thread):
    """An agent that works in one worktree after another. Each is deleted after its sessions."""

    def __init__(self, main: Agent, number: int, rounds: int) -> None:
        super().__init__()
        self.main, self.number, self.rounds = main, number, rounds
        self.chance = random.Random(number)
        self.told: list[str] = []

    def run(self) -> None:
        for round_ in range(self.rounds):
            name = f"wt-{self.number}-{round_}"
            # Beside the main checkout, or in it, as the client does.
            place = (
                self.main.project / ".claude" / "worktrees"
                if self.chance.random() < 0.5
                else self.main.home
            )
            worktree = place / name
            with _one_git:
                git(self.main.project, "worktree", "add", "-b", name, worktree)
            self.work(worktree, name)
            time.sleep(self.chance.random() * 0.3)  # the state of its drain is left to chance
            with _one_git:
                git(self.main.project, "worktree", "remove", "--force", worktree)

    def work(self, worktree: Path, name: str) -> None:
        folder = self.chance.choice([worktree, worktree / "src" / "deep"])
        agent = Agent(folder, self.main.home)
        transcript = self.main.home / ".claude" / "projects" / f"{name}.jsonl"
        self.told.append(agent.hands("SessionStart", transcript))
        Session(name).cites("pat-001").write(transcript)
        for event in (
            "Stop",
            *(["PreCompact"] if self.chance.random() < 0.5 else []),
            "SessionEnd",
        ):
            agent.hands(event, transcript, spawn=True)


#: Two simultaneous `git worktree add` commands may fail on each other's locks. That is a limit of
#: git.
_one_git = threading.Lock()


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(12, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
    ids="{} rounds".format,
)
def test_sessions_in_removed_worktrees_count_in_the_main(agent: Agent, rounds: int) -> None:
    (agent.project / "src" / "deep").mkdir(parents=True)
    (agent.project / "src" / "deep" / "code.py").touch()
    commit(agent.project)
    workers = [_Worker(agent, number, rounds) for number in range(WORKTREES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sessions = {f"wt-{number}-{round_}" for number in range(WORKTREES) for round_ in range(rounds)}

    agent.run("drain")

    assert all(
        ("Write the failing test first.") in told for worker in workers for told in worker.told
    )
    assert {event["session_id"] for event in agent.events("session.recorded")} == sessions
    assert agent.counters()["pat-001"] == (len(sessions), 0)
    agent.call("verify")
    assert not agent.json("status")["failures"]


def test_unheard_session_counts_when_its_worktree_returns(
    agent: Agent,
) -> None:
    commit(agent.project)
    worktree = Agent(agent.home / "trees" / "fix", agent.home)
    worktree.project.parent.mkdir()
    worktree.ended()
    agent.call("drain")
    told = " ".join(agent.call("status").out.split())
    reason = "because the project's folder is missing or read-only: "
    assert f"1 hook event kept in another folder, {reason}" in told
    assert str(agent.home / ".local/state/reflector/spool") in told
    git(agent.project, "worktree", "add", worktree.project)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.json("status")["spool"]["elsewhere"] == 0
