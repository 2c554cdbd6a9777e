"""`claude -p`: start, prompt, tools, a subagent, a resume and a fork; and the plugin, given with --plugin-dir."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.client.apis import ADVICE, FIX, FIXED, ON, calls, says, step
from tests.client.client import Client

PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"


@pytest.mark.parametrize("line", ["true", "false"])
def test_the_model_gets_the_same_text_with_and_without_the_line_for_its_person(client: Client, line: str) -> None:
    long = [{"name": f"oth-{n:03d}", "text": "ü😀" * 300, "helpful": 0, "harmful": 0} for n in range(1, 31)]
    client.agent.write_playbook({"OTHERS": long})
    client.agent.run("config", "set", "start_message", line)
    text = client.agent.hook("SessionStart")
    client.api.when(FIX, step(says("The total is right now.")))
    printed = client.prints(FIX)
    assert text.rstrip("\n") in client.api.told(FIX)
    assert "playbook: 30 bullets" not in client.api.told(FIX)
    (ours,) = (hook["stdout"] for hook in printed.hooks if "This project keeps" in hook["stdout"])
    assert ('"systemMessage":"playbook: 30 bullets, ' in ours) == (line == "true")
    client.check()


LOOK = "Please ask an agent to look at the cart."
WATCH = "Look at the cart and say what you see."


def test_a_subagent_is_told_the_playbook_and_its_citation_is_its_own(client: Client) -> None:
    client.api.when(
        LOOK,
        step(
            says("I ask one."),
            calls("Task", description="Look at the cart", prompt=WATCH, subagent_type="general-purpose"),
        ),
        step(says("It returns nothing yet, says the agent.")),
    )
    client.api.when(
        WATCH,
        step(says("I read it."), calls("Bash", command="cat cart.py", description="Read the cart")),
        step(says("As [pat-002] says, it should stay small.")),
    )
    client.prints(LOOK)
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in client.api.told(WATCH)
    (stop,) = client.payloads("SubagentStop")
    assert stop["agent_transcript_path"] != stop["transcript_path"]
    client.check(("SubagentStop", "pat-002"))


@pytest.mark.parametrize("words", [["--resume"], ["--continue"], ["--fork-session", "--resume"]])
def test_a_session_that_goes_on_adds_only_what_is_new(client: Client, words: list[str]) -> None:
    first = client.prints(FIX)
    assert ADVICE in client.api.told(FIX)
    heard = [payload["hook_event_name"] for payload in client.payloads()]
    assert heard == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
    client.settle()
    second = client.prints(ON, *words, *([first.session_id] if words[-1] == "--resume" else []))
    assert (second.session_id == first.session_id) == (len(words) == 1)
    how = "resume" if len(words) == 1 else "fork"
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", how]
    client.check(("SessionEnd", "pat-001"), ("SessionEnd", "mis-001"), helpful=1)


def test_a_session_that_the_client_compacts_by_itself_counts_a_citation_once(client: Client) -> None:
    """The stand-in says that the conversation fills the model's window."""
    *before, last = FIXED
    client.api.when(FIX, *before[:2], step(*before[2].blocks, tokens=199_000), last)
    client.api.when("create a detailed summary", step(says("<summary>As [pat-002] says. Add the tax.</summary>")))
    client.prints(FIX)
    assert [payload["trigger"] for payload in client.payloads("PreCompact")] == ["auto"]
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", "compact"]
    client.check(("PreCompact", "pat-001"), helpful=1)


@pytest.fixture
def plugged(bare: Client) -> Client:
    """A client with the plugin, and with the program where pipx puts it."""
    if not PLUGIN.is_dir():
        pytest.skip("this source has no plugin")
    program = bare.agent.home / ".local" / "bin" / "reflector"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -m reflector "$@"\n')
    program.chmod(0o755)
    bare.flags += ["--plugin-dir", str(PLUGIN)]
    return bare


@pytest.mark.parametrize("is_installed", [False, True])
def test_the_plugin_prints_the_playbook_and_counts_a_citation_once_also_beside_hooks(
    plugged: Client, is_installed: bool
) -> None:
    if is_installed:
        plugged.agent.run("install")
    printed = plugged.prints(FIX)
    (init,) = (line for line in printed.lines if line.get("subtype") == "init")
    assert "reflector" in str(init["plugins"])
    assert any(command.startswith("reflector:playbook") for command in init["slash_commands"])
    assert plugged.api.told(FIX).count(ADVICE) == 1 + is_installed
    plugged.check(("SessionEnd", "pat-001"), helpful=1)
