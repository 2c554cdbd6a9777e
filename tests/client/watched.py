"""A real client with a project of its own, and what its hooks, files and requests came to.

Whatever a scenario does, `check` holds afterwards: every transcript is read to its last record, and taking all of it
in again counts nothing.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from reflector.transcripts.reading import scan
from reflector.transcripts.telling import telling_of
from tests.client.scripted import Scripted
from tests.road.agent import Agent

#: What stands beside ours in the settings: it keeps each payload with what lay on the disk at that moment.
_OBSERVER = """\
import json, os, sys, time
payload = json.loads(sys.stdin.buffer.read())
for key in ("transcript_path", "agent_transcript_path"):
    path = payload.get(key)
    payload["_" + key] = os.path.getsize(path) if path and os.path.exists(path) else None
path = os.path.join(sys.argv[1], f"{time.time_ns()}-{os.getpid()}.json")
with open(path + ".tmp", "w") as file:
    json.dump(payload, file)
os.rename(path + ".tmp", path)
"""


#: The text of the hook in a request, from the template's first words to its last.
_TEXT = re.compile(r"This project keeps a playbook: .*? so that the next session knows\.", re.DOTALL)


class Watched(ABC):
    """What is asked of every client."""

    agent: Agent
    #: The stand-in that it asks.
    api: Scripted
    #: What its transcripts say again and again, as a part of how it writes them.
    repeats: ClassVar[frozenset[str]] = frozenset()
    #: Who says what a session was told: its transcript, where that has an echo of it, else our hook.
    teller: ClassVar[str] = "transcript"

    @property
    def root(self) -> Path:
        return self.agent.home.parent

    @property
    def observed(self) -> Path:
        return self.root / "observed"

    def observer(self) -> str:
        """The command of a hook that keeps its payload."""
        self.observed.mkdir(exist_ok=True)
        (self.root / "observer.py").write_text(_OBSERVER)
        return shlex.join([sys.executable, "-I", "-S", str(self.root / "observer.py"), str(self.observed)])

    @abstractmethod
    def transcripts(self) -> list[Path]:
        """Every transcript the client wrote, of subagents, too."""

    def payloads(self, event: str | None = None) -> list[dict[str, Any]]:
        """What the client's hooks were given, oldest first; sizes under the key's name with an underscore."""
        found = [json.loads(path.read_bytes()) for path in sorted(self.observed.glob("*.json"))]
        return [payload for payload in found if event in (None, payload["hook_event_name"])]

    def wait_for(self, event: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait until that many hooks of an event ran; their payloads."""
        self.agent.wait_until(lambda: len(self.payloads(event)) >= times)
        return self.payloads(event)

    def cited(self) -> list[tuple[str, str]]:
        """(trigger, name) of each citation that was recorded, once a window."""
        windows = self.agent.events("session.recorded")
        return [(window["data"]["trigger"], name) for window in windows for name in window["data"]["cited"]]

    def told(self) -> dict[str, list[str]]:
        """The bullets of each text that the model got in a request, by the text's digest."""
        texts = {text for body in self.api.asked for said in _strings(body) for text in _TEXT.findall(said)}
        found = [telling for telling in map(telling_of, texts) if telling is not None]
        return {telling.digest: list(telling.bullets) for telling in found}

    def settle(self) -> None:
        """Take in what is pending, behind the drains that hooks started; a Stop may wait for its session's end."""
        left = ("waiting/", "failed/", "silent/")
        self.agent.wait_until(lambda: all(name.startswith(left) for name in self.agent.deliveries()))
        self.agent.run("drain")
        assert not any(name.startswith("failed/") for name in self.agent.deliveries()), self.agent.deliveries()

    def check(self) -> None:
        """What holds after every scenario."""
        self.settle()
        for path in self.transcripts():
            tally = scan(path).tally
            assert (tally.malformed, tally.oversized, tally.unknown_types) == (0, 0, {}), (path, tally)
        for window in self.agent.events("session.recorded"):
            assert not set(window["data"]["unread"]) - self.repeats, window
        assert self.agent.run("status").err == ""
        assert self.agent.run("verify") == self.agent.run("verify")
        before = self.cited(), self.agent.counters()
        if transcripts := self.transcripts():
            self.agent.run("ingest", *transcripts)
        assert (self.cited(), self.agent.counters()) == before
        tellings = self.agent.events("advice.told")
        assert {one["data"]["digest"]: one["data"]["bullets"] for one in tellings} == self.told()
        assert {one["data"]["source"] for one in tellings} <= {self.teller}


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(inner)
