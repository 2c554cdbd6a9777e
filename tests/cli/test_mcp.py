"""The agent's tools: the official client talks to the server in this process; a real one has
pipes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import anyio
import pytest

from reflector.cli.app import Place
from reflector.cli.mcp import add_tools
from reflector.embed.lessons.recording import record_lesson
from tests.road.agent import Agent
from tests.road.sessions import Session

if TYPE_CHECKING:
    from mcp import Client

ADVICE = {
    "kind": "add",
    "section": "pat",
    "text": ("Run the linter before the tests."),
    "reason": "seen twice",
}


def talk(agent: Agent, conversation: Callable[[Client], Awaitable[Any]], *arguments: str) -> Any:
    """What came of a conversation with a server in this process, which sees the agent's
    environment alone.
    """

    from mcp import Client  # half a second, which only these tests need
    from mcp.server import MCPServer

    async def run() -> Any:
        server = MCPServer("reflector", log_level="WARNING")
        add_tools(server, Place(None, user="--user" in arguments))
        async with Client(server) as client:
            return await conversation(client)

    with patch.dict(os.environ, agent.env(), clear=True):
        return anyio.run(run)


def ask(agent: Agent, tool: str, *arguments: str, **fields: Any) -> Any:
    """A tool's answer. Fails where the tool does."""
    return answer_of(call(agent, tool, *arguments, **fields))


def answer_of(result: Any) -> Any:
    assert not result.is_error, result.content
    answer = result.structured_content
    return answer["result"] if list(answer) == ["result"] else answer


def call(agent: Agent, tool: str, *arguments: str, **fields: Any) -> Any:
    return talk(agent, lambda client: client.call_tool(tool, fields), *arguments)


def refused(agent: Agent, tool: str, **fields: Any) -> str:
    result = call(agent, tool, **fields)
    assert result.is_error
    return str(result.content[0].text)


def names(found: list[dict[str, Any]]) -> list[str]:
    return [bullet["name"] for bullet in found]


def test_four_tools_match_the_page_and_their_rights(
    agent: Agent,
) -> None:
    listed = talk(agent, lambda client: client.list_tools()).tools
    assert {tool.name: tool.annotations.read_only_hint for tool in listed} == {
        "search_playbook": True,
        "why": True,
        "propose_change": False,
        "lesson_outcome": False,
    }
    page = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE))
    schemas = {tool.name: tool.input_schema for tool in listed}
    assert rows == {
        name: ", ".join(
            key if key in schema.get("required", ()) else f"{key}?" for key in schema["properties"]
        )
        for name, schema in schemas.items()
    }


def test_search_finds_bullets_of_both_playbooks(agent: Agent) -> None:
    agent.call("--user", "add", "pref", "Show a failing test before the fix.")
    found = ask(agent, "search_playbook", query="failing test")
    assert names(found) == ["pat-001", "pref-9001"]
    assert (found[0]["section"], found[0]["helpful"]) == ("PATTERNS & APPROACHES", 0)
    assert names(ask(agent, "search_playbook", query="failing", section="pref")) == ["pref-9001"]
    assert ask(agent, "search_playbook", query="zebra") == []
    assert names(ask(agent, "search_playbook", query=""))[0] == "pat-002"
    bullets = [
        {"name": f"oth-{n:03d}", "text": f"advice {n}", "helpful": 0, "harmful": 0}
        for n in range(1, 100)
    ]
    agent.write_playbook({"OTHERS": bullets})
    assert len(ask(agent, "search_playbook", query="advice")) == 20


def test_why_explains_a_count_in_either_playbook(agent: Agent, tmp_path: Path) -> None:
    agent.call("--user", "add", "pref", "Be brief.")
    agent.call(
        "ingest",
        Session().cites("pat-001").cites("pref-9001", "harmful").write(tmp_path / "1.jsonl"),
    )
    for name, verdict, counts in (("pat-001", "helpful", (1, 0)), ("pref-9001", "harmful", (0, 1))):
        answer = ask(agent, "why", name=f"[{name}]")
        (step,) = answer["steps"]
        assert answer["bullet"].startswith(f"[{name}] ")
        assert (step["verdict"], step["helpful"], step["harmful"]) == (verdict, *counts)
    assert "does not have a rule 'pat-777'" in refused(agent, "why", name="pat-777")


@pytest.mark.slow
def test_server_prints_only_the_protocol_for_any_input(
    agent: Agent,
) -> None:
    info = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    asked = {"name": "search_playbook", "arguments": {"query": "test \U0001f600"}}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    # A playbook that was edited by hand into something else gives a note for the person.
    agent.call("drain")
    agent.playbook.write_text("{")
    with agent.start("mcp", stdin=subprocess.PIPE) as process:
        process.stdin.write("no json\n" + "".join(f"{json.dumps(line)}\n" for line in lines))
        process.stdin.flush()
        answers = []
        while not any(answer.get("id") == 2 for answer in answers):
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest, err = process.stdout.read(), process.stderr.read()
    assert (process.returncode, rest) == (0, "")
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert "cite its name" in answers[0]["result"]["instructions"]
    assert "reflector does not change the file, and continues to count your sessions" in err


def test_missing_extra_is_named_with_its_installation(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    ran = agent.call("mcp", code=1)
    assert (ran.out, "-m pip install 'mcp" in ran.err) == ("", True)


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        (
            "search_playbook",
            {"query": "x", "section": "habits"},
            "'habits' is not a section; the sections are pat",
        ),
        (
            "propose_change",
            {**ADVICE, "text": "Log in with ghp_" + "a1B2" * 9},
            "seems to contain a secret",
        ),
        ("propose_change", {**ADVICE, "kind": "move"}, "must be one of add, revise, merge, remove"),
        (
            "propose_change",
            {**ADVICE, "kind": "revise", "section": None, "names": ["pat-001", "pat-002"]},
            "`names` contains 2 names, but revise needs the name of exactly one rule",
        ),
        (
            "propose_change",
            {**ADVICE, "kind": "remove", "section": None, "names": ["pat-001"]},
            "remove needs names, but this call has text and names",
        ),
        (
            "propose_change",
            {**ADVICE, "names": ["pat-001"]},
            "add needs text and section, but this call has text and section and names",
        ),
        (
            "propose_change",
            {**ADVICE, "kind": "revise", "names": ["pat-001"]},
            "revise needs text and names, but this call has text and section and names",
        ),
        (
            "propose_change",
            {**ADVICE, "section": None},
            "add needs text and section, but this call has text",
        ),
        (
            "propose_change",
            {**ADVICE, "kind": "merge"},
            "merge needs text and names, but this call has text and section",
        ),
        (
            "lesson_outcome",
            {"lesson": "x", "outcome": "fine", "why": "x"},
            "it must be one of good, bad",
        ),
    ],
)
def test_a_wrong_value_gets_one_readable_line(
    agent: Agent, tool: str, arguments: dict[str, Any], wanted: str
) -> None:
    said = refused(agent, tool, **arguments)
    assert wanted in said
    assert "\n" not in said.strip()
    assert agent.events("change.proposed") == []


def test_the_agent_says_whether_a_lesson_helped(agent: Agent) -> None:
    with agent.open_ledger() as ledger:
        id = record_lesson(
            ledger, "mistake", "Add auth middleware", actor="engine", task="api_design"
        )
    answer = ask(agent, "lesson_outcome", lesson=id[:8], outcome="good", why="the test passes")
    assert answer == {"lesson": id[:8], "effectiveness": 0.6, "confidence": 0.74, "state": "active"}
    assert ("no lesson has an id that begins with 'zz'") in refused(
        agent, "lesson_outcome", lesson="zz", outcome="bad", why="x"
    )


def test_changed_setting_applies_to_the_next_call(agent: Agent) -> None:
    async def conversation(client: Client) -> list[str]:
        first = await client.call_tool("propose_change", ADVICE)
        path = agent.home / ".config" / "reflector" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('proposals = "accept"\n')
        second = await client.call_tool(
            "propose_change", ADVICE | {"text": "Read the whole error first."}
        )
        return [answer_of(one)["state"] for one in (first, second)]

    assert talk(agent, conversation) == ["waiting", "approved"]
    (added,) = agent.json("log", "--type", "bullet.added")
    assert (added["actor"], added["data"]["origin"]) == ("agent", "proposal")
    assert ask(agent, "propose_change", "--user", **ADVICE)["name"] == "pat-9001"


def test_agent_does_not_renew_an_undone_rule(agent: Agent) -> None:
    agent.call("config", "set", "--global", "proposals", "accept")
    assert ask(agent, "propose_change", **ADVICE)["state"] == "approved"
    (added,) = agent.events("bullet.added")
    agent.call("undo", str(added["position"]))
    assert ask(agent, "propose_change", **ADVICE)["state"] == "waiting"
