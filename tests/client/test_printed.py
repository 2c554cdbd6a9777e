"""`claude -p`: start, prompt, tools, a subagent, a resume and a fork."""

from __future__ import annotations

import pytest

from tests.client.client import Client
from tests.client.scripted import FIX, FIXED, ON, TAXED, calls, says, step


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


def test_what_the_playbook_says_is_in_the_first_request_and_a_citation_counts_once(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    printed = client.prints(FIX)
    assert "[pat-001] helpful=0 harmful=0 :: Write the failing test first." in client.api.told(FIX)
    assert [payload["hook_event_name"] for payload in client.payloads()] == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]
    (end,) = client.payloads("SessionEnd")
    assert (end["session_id"], end["reason"]) == (printed.session_id, "other")
    client.settle()
    assert client.cited() == [("SessionEnd", "pat-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
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
    client.settle()
    assert client.cited() == [("SubagentStop", "pat-002")]
    client.check()


@pytest.mark.parametrize("words", [["--resume"], ["--continue"], ["--fork-session", "--resume"]])
def test_a_session_that_goes_on_adds_only_what_is_new(client: Client, words: list[str]) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    first = client.prints(FIX)
    client.settle()
    second = client.prints(ON, *words, *([first.session_id] if words[-1] == "--resume" else []))
    assert (second.session_id == first.session_id) == (len(words) == 1)
    how = "resume" if len(words) == 1 else "fork"
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", how]
    client.settle()
    assert client.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
    client.check()


def test_a_fork_that_is_taken_in_with_its_origin_counts_once(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    client.agent.environ["REFLECTOR_NO_SPAWN"] = "1"
    first = client.prints(FIX)
    client.prints(ON, "--resume", first.session_id, "--fork-session")
    client.check()
    assert sorted(client.cited()) == [("SessionEnd", "mis-001"), ("SessionEnd", "pat-001")]


def test_a_session_that_the_client_compacts_by_itself_counts_a_citation_once(client: Client) -> None:
    """The stand-in says that the conversation fills the model's window."""
    *before, last = FIXED
    client.api.when(FIX, *before[:2], step(*before[2].blocks, tokens=199_000), last)
    client.api.when("create a detailed summary", step(says("<summary>As [pat-002] says. Add the tax.</summary>")))
    client.prints(FIX)
    assert [payload["trigger"] for payload in client.payloads("PreCompact")] == ["auto"]
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", "compact"]
    client.settle()
    assert client.cited() == [("PreCompact", "pat-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
    client.check()


def test_uninstalled_hooks_leave_the_settings_as_they_were(client: Client) -> None:
    client.agent.run("uninstall")
    client.api.when(FIX, *FIXED)
    printed = client.prints(FIX)
    assert len(printed.hooks) == len(client.payloads()) - 1  # the observer's, without SessionEnd's
    assert "[pat-001]" not in client.api.told(FIX)
    assert not client.agent.state.exists()
