"""Two homes on one project, such as a host and its container. Each keeps a note and a copy, and
nothing is lost.
"""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.road.agent import PATIENCE, Agent


class Homes:
    """A project, the two homes that use it, and the texts whose `add` was acknowledged."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.host = Agent.bare(folder)
        self.host.environ["REFLECTOR_NO_SPAWN"] = "1"
        self.container = Agent(self.host.project, folder / "container", dict(self.host.environ))
        self.container.home.mkdir()
        self.chance = random.Random(seed)
        self.acknowledged: list[str] = []
        self.kills = self.number = 0
        self.git("init", "-q")
        self.git(
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        )
        self.add(self.host)
        assert "ledger take" in self.container.run("list", code=1).err
        self.container.run("ledger", "take", "--yes")

    @property
    def both(self) -> tuple[Agent, Agent]:
        return self.host, self.container

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.host.project, check=True)

    def text(self) -> str:
        self.number += 1
        return f"Rule number {self.number} of the two homes."

    def add(self, agent: Agent) -> str:
        text = self.text()
        agent.run("add", "pat", text)
        self.acknowledged.append(text)
        return text

    def sweep(self) -> None:
        """Remove the ledger, as `git clean` or the user would."""
        how = self.chance.choice(["clean", "state", "file"])
        if how == "clean":
            self.git("clean", "-xfdq")
        elif how == "state":
            shutil.rmtree(self.host.state, ignore_errors=True)
        else:
            for path in self.host.state.glob("ledger.db*"):
                path.unlink(missing_ok=True)

    def step(self) -> None:
        """Let one or both homes run a command, kill one of them, and perhaps remove the ledger."""
        started = []
        for agent in self.chance.sample(self.both, self.chance.choice([1, 1, 2])):
            text = self.text()
            words = ("add", "pat", text) if self.chance.random() < 0.7 else ("list",)
            options = {
                "stdout": subprocess.DEVNULL,
                "stderr": subprocess.DEVNULL,
                "start_new_session": True,
            }
            started.append((agent.start(*words, **options), text if words[0] == "add" else ""))
        victim, _ = self.chance.choice(started)
        try:
            victim.wait(self.chance.uniform(0.02, 0.7))
        except subprocess.TimeoutExpired:
            os.killpg(victim.pid, signal.SIGKILL)
            self.kills += 1
        for process, text in started:
            if process.wait(PATIENCE) == 0 and text:
                self.acknowledged.append(text)
        if self.chance.random() < 0.15:
            self.sweep()

    def merge(self) -> None:
        """Run the command that `status` shows, in both homes, until it shows none."""
        for agent in (*self.both, *self.both):
            for _ in range(200):
                agent.run("list")
                found = [one for one in self.problems(agent) if "lacks events" in one]
                if not found:
                    break
                agent.run(*found[0].split("`")[1].split()[1:])
            else:
                raise AssertionError(found)

    def problems(self, agent: Agent) -> list[str]:
        return list(json.loads(agent.run("status", "--json", code=None).out)["problems"])

    def texts(self) -> list[str]:
        """Return the texts of all bullets that were ever added, from the ledger that both homes
        use.
        """
        events = json.loads(self.host.run("log", "-n", "0", "--json").out)
        return [one["data"]["text"] for one in events if one["type"] == "bullet.added"]


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(3, 1, id="3 kills", marks=pytest.mark.slow),
        pytest.param(100, 2, id="100 kills", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_kills_lose_no_acknowledged_event(tmp_path: Path, kills: int, seed: int) -> None:
    homes = Homes(tmp_path, seed)
    while homes.kills < kills:
        homes.step()
    homes.merge()
    texts = homes.texts()
    assert not set(homes.acknowledged) - set(texts)
    assert len(texts) == len(set(texts))
    for agent in homes.both:
        assert agent.run("verify").out == ""
        assert agent.run("rebuild", "--check").out == ""
        assert not [one for one in homes.problems(agent) if "lacks events" in one]
