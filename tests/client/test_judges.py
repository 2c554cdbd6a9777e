"""Each real client as the judge of a session that it wrote: asked from a drain whose environment
is a project's.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.locate import judge_folder
from reflector.resources import resource_dir
from tests.client.apis import FIX, MessagesApi, says, serving, step
from tests.client.client import OTHERS, Client, Codex, Copilot, Gemini, OpenCode, Other, Pi
from tests.client.conftest import _installed, _there
from tests.road.agent import Agent, environ

#: The heading behind the transcript, which quotes what the person said.
_ASKED = re.findall(r"^# .*$", (resource_dir("prompts") / "reflector.txt").read_text(), re.M)[-1]
_VERDICT = {"name": "pat-001", "rationale": "It caught the bug.", "tag": "neutral"}
_ANSWER = json.dumps({"analysis": "The test came first.", "bullet_tags": [_VERDICT]})
_MEMORY = "THE-MEMORY-OF-THE-PERSON"
#: Where each keeps what it tells every session, below the person's home.
_MEMORIES = {
    Codex: ".codex/AGENTS.md",
    Gemini: ".gemini/GEMINI.md",
    Copilot: ".copilot/copilot-instructions.md",
    OpenCode: ".config/opencode/AGENTS.md",
    Pi: ".pi/agent/AGENTS.md",
}
_MADE = [
    (kind, path)
    for kind in (Client, *OTHERS)
    for path in _installed(getattr(kind, "name", "claude"))
]
_IDS = [path.parents[2].name if path else getattr(kind, "name", "claude") for kind, path in _MADE]


@pytest.fixture(params=_MADE, ids=_IDS)
def judge(
    request: pytest.FixtureRequest, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client | Other]:
    """An agent that its person lets judge, after a session of its own; the person has a memory
    file and a server.
    """
    kind, path = request.param
    # What ended is processed by the test, not by the hook.
    monkeypatch.setattr(kind, "given", {**kind.given, "REFLECTOR_NO_SPAWN": "1"})
    with serving(getattr(kind, "stand_in", MessagesApi)) as api:
        client = kind(_there(path), agent, api)
        name = getattr(client, "name", "claude")
        if name == "claude":
            agent.run("install")
        client.prints(FIX)
        memory = agent.home / _MEMORIES[kind] if kind in _MEMORIES else client.config / "CLAUDE.md"
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(_MEMORY)
        _give_server(client, str(agent.home / "served"))
        own, client_environ = dict(agent.environ), client.environ()
        agent.environ |= client_environ
        api.when(_ASKED, step(says(_ANSWER)))
        said = agent.run("judge", "allow", name, "--yes").out
        assert str(path) in said
        if name == "pi":  # it has no name for a cheap one
            agent.run("config", "set", "--global", "model", "standin/claude-sonnet-4-6")
            agent.run("config", "set", "--global", "judge_client", "pi")
        agent.environ = own
        yield client


def _give_server(client: Client | Other, marker: str) -> None:
    """Let the person have an MCP server that leaves a mark where a judge starts it."""
    script = client.root / "server.sh"
    script.write_text(f'#!/bin/sh\n[ -z "$REFLECTOR_JUDGING" ] || touch {marker}\n')
    script.chmod(0o755)
    home = client.agent.home
    server: dict[str, Any] = {"type": "stdio", "command": str(script), "args": []}
    local = {"type": "local", "command": [str(script)]}
    places = {
        "claude": (client.root / "config/.claude.json", {"mcpServers": {"mine": server}}),
        "gemini": (
            home / ".gemini/settings.json",
            {"mcpServers": {"mine": {"command": str(script)}}},
        ),
        "copilot": (
            home / ".copilot/mcp-config.json",
            {"mcpServers": {"mine": server | {"tools": ["*"]}}},
        ),
        "opencode": (home / ".config/opencode/opencode.json", {"mcp": {"mine": local}}),
    }
    name = getattr(client, "name", "claude")
    if name == "codex":
        with (home / ".codex/config.toml").open("a") as file:
            file.write(f'[mcp_servers.mine]\ncommand = "{script}"\n')
    elif name in places:
        path, more = places[name]
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | more))


@pytest.mark.timeout(600)
def test_client_judges_its_session_without_tools_or_traces(
    judge: Client | Other,
) -> None:
    # The session's own transcript, which the drain writes for OpenCode.
    agent, before = judge.agent, (1, len(judge.payloads()))
    poison = {
        "NODE_OPTIONS": "--require=/nowhere.js",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "PATH": "/nowhere",
    }
    agent.environ |= poison
    assert agent.start("drain").wait(300) == 0
    agent.environ = {key: value for key, value in agent.environ.items() if key not in poison}
    (answered,) = agent.events("reflection.answered")
    assert (answered["data"]["backend"], answered["data"]["mode"]) == ("agent", "citation_guided")
    assert [answered["meta"][f"{kind}_tokens"] for kind in ("input", "output")] == [1000, 20]
    (tagged,) = agent.events("bullet.tagged")
    assert (tagged["data"]["name"], tagged["data"]["disposition"]) == ("pat-001", "neutral")
    (asked,) = [body for body in judge.api.asked if _ASKED in judge.api.text_of(body)]
    assert [tool for tool in asked.get("tools") or () if tool != {"functionDeclarations": []}] == []
    said = judge.api.text_of(asked)
    # What pi was told stands in its transcript.
    assert (_MEMORY in said, said.count("This project keeps a playbook:")) == (
        False,
        isinstance(judge, Pi),
    )
    assert not (agent.home / "served").exists()
    # Nothing of it is recorded, told or left: no hook of the person's ran, no transcript and no
    # process is there.
    assert (len(judge.transcripts()), len(judge.payloads())) == before
    assert len(agent.events("session.recorded")) == 1
    with environ(agent.env()):
        folder = Path(judge_folder())
    assert [list((folder / name).iterdir()) for name in ("guard", "work")] == [[], []]
    assert _judges_at_work(agent.home) == []


@pytest.mark.timeout(600)
def test_check_asks_a_client_about_its_session(judge: Client | Other) -> None:
    agent = judge.agent
    agent.environ |= {
        name: value for name, value in judge.environ().items() if name != "REFLECTOR_NO_SPAWN"
    }
    assert agent.start("drain").wait(300) == 0  # its own citations are judged first
    line = "Fix the total before anything else"
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md"):
        (agent.project / name).write_text(f"- {line}\n")
    agent.commit_long_ago()
    said = {
        "relevant": True,
        "followed": "yes",
        "quote": FIX,
        "sure": "sure",
        "tag": "neutral",
        "rationale": "x",
    }
    # where it stands depends on the client
    tags = [{"name": "oth-001", "turn": turn, **said} for turn in range(1, 12)]
    judge.api.when(_ASKED, step(says(json.dumps({"analysis": "x", "bullet_tags": tags}))))
    asked = len(judge.api.asked)
    for _ in range(2):
        agent.run("check", "--yes")
    (body,) = [one for one in judge.api.asked[asked:] if _ASKED in judge.api.text_of(one)]
    assert line in judge.api.text_of(body)
    (found,) = [one["judged"] for one in agent.json("check")["lines"] if one["text"] == line]
    assert (found["name"], found["relevant"], found["followed"]["yes"]) == ("oth-001", 1, 1)
    assert "person, turn" in agent.run("blame", "oth-001").out
    assert len(agent.events("session.recorded")) == 1
    assert _judges_at_work(agent.home) == []


def _judges_at_work(home: Path) -> list[str]:
    """The processes of a person's judge."""

    def is_one(entry: Path) -> bool:
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            return False
        return b"REFLECTOR_JUDGING=" in environ and bytes(home) in environ

    return [
        entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_one(entry)
    ]
