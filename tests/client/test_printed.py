"""`claude -p`: start, prompt, tools, a subagent, a resume and a fork."""

from __future__ import annotations

import pytest

from tests.client.client import Client
from tests.client.messages_api import calls, says, step, told

FIX = "Please fix the total of the cart."
FIXED = (
    step(says("I look at the tests."), calls("Bash", command="make test", description="Run the tests")),
    step(
        says("As [pat-001] says, the failing test came first."),
        calls("Bash", command="sed -i 's/0/sum(items)/' cart.py", description="Add the items up"),
    ),
    step(says("Again."), calls("Bash", command="make test", description="Run the tests")),
    step(says("The total is right now.")),
)


@pytest.mark.parametrize("line", ["true", "false"])
def test_the_model_gets_the_same_text_with_and_without_the_line_for_its_person(client: Client, line: str) -> None:
    long = [{"name": f"oth-{n:03d}", "text": "ü😀" * 300, "helpful": 0, "harmful": 0} for n in range(1, 31)]
    client.agent.write_playbook({"OTHERS": long})
    client.agent.run("config", "set", "start_message", line)
    text = client.agent.hook("SessionStart")
    client.api.when(FIX, step(says("The total is right now.")))
    printed = client.prints(FIX)
    first, *_ = client.api.asked_about(FIX)
    assert text.rstrip("\n") in told(first)
    assert "playbook: 30 bullets" not in told(first)
    (ours,) = (hook["stdout"] for hook in printed.hooks if "This project keeps" in hook["stdout"])
    assert ('"systemMessage":"playbook: 30 bullets, ' in ours) == (line == "true")
    client.check()


def test_what_the_playbook_says_is_in_the_first_request_and_a_citation_counts_once(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    printed = client.prints(FIX)
    first, *_ = client.api.asked_about(FIX)
    assert "[pat-001] helpful=0 harmful=0 :: Write the failing test first." in told(first)
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
    first, *_ = client.api.asked_about(WATCH)
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in told(first)
    (stop,) = client.payloads("SubagentStop")
    assert stop["agent_transcript_path"] != stop["transcript_path"]
    client.settle()
    assert client.cited() == [("SubagentStop", "pat-002")]
    client.check()


ON = "And now add the tax."
TAXED = (step(says("I follow [mis-001] there, no mocks.")),)


def test_a_resumed_session_adds_only_what_is_new(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    first = client.prints(FIX)
    client.settle()
    assert client.prints(ON, "--resume", first.session_id).session_id == first.session_id
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", "resume"]
    client.settle()
    assert client.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    client.check()


def test_a_continued_session_adds_only_what_is_new(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    first = client.prints(FIX)
    assert client.prints(ON, "--continue").session_id == first.session_id
    client.settle()
    assert sorted(client.cited()) == [("SessionEnd", "mis-001"), ("SessionEnd", "pat-001")]
    client.check()


def test_a_forked_session_adds_only_what_is_new(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    first = client.prints(FIX)
    client.settle()
    forked = client.prints(ON, "--resume", first.session_id, "--fork-session")
    assert forked.session_id != first.session_id
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
    assert "[pat-001]" not in told(client.api.asked_about(FIX)[0])
    assert not client.agent.state.exists()
