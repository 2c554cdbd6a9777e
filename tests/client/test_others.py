"""The other agents: a prompt with tools, a resume, a fork, a subagent, two sessions at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.client import generate_api, messages_api, responses_api
from tests.client.others import Codex, Copilot, Gemini, OpenCode, Other, Pi
from tests.client.scripted import calls, says, step

ADVICE = "[pat-001] helpful=0 harmful=0 :: Write the failing test first."
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
ON = "And now add the tax."
TAXED = (step(says("I follow [mis-001] there, no mocks.")),)


def test_codex_is_told_the_playbook_and_a_citation_counts_once(codex: Codex) -> None:
    codex.api.when(FIX, *FIXED)
    err = codex.prints(FIX)
    assert "hook: SessionStart Completed" in err
    assert "Failed" not in err
    assert ADVICE in responses_api.told(codex.api.asked_about(FIX)[0])
    assert [payload["hook_event_name"] for payload in codex.payloads()] == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]
    codex.settle()
    assert codex.cited() == [("SessionEnd", "pat-001")]
    assert codex.agent.counters()["pat-001"] == (1, 0)
    codex.check()


def test_a_resumed_session_of_codex_adds_only_what_is_new(codex: Codex) -> None:
    codex.api.when(FIX, *FIXED)
    codex.api.when(ON, *TAXED)
    codex.prints(FIX)
    codex.settle()
    codex.prints(ON, "resume", "--last")
    assert [payload["source"] for payload in codex.payloads("SessionStart")] == ["startup", "resume"]
    codex.settle()
    assert codex.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    assert len(codex.transcripts()) == 1
    codex.check()


def test_a_forked_session_of_codex_adds_only_what_is_new(codex: Codex) -> None:
    codex.api.when(FIX, *FIXED)
    codex.api.when(ON, *TAXED)
    codex.prints(FIX)
    codex.settle()
    (start,) = codex.payloads("SessionStart")
    codex.prints(ON, "fork", start["session_id"])
    codex.settle()
    assert codex.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    assert codex.agent.counters()["pat-001"] == (1, 0)
    assert len(codex.transcripts()) == 2
    codex.check()


def test_two_sessions_of_codex_at_once_are_both_counted(codex: Codex) -> None:
    codex.api.when(FIX, *FIXED)
    codex.api.when(ON, *TAXED)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(codex.prints, [FIX, ON]))
    codex.settle()
    assert sorted(codex.cited()) == [("SessionEnd", "mis-001"), ("SessionEnd", "pat-001")]
    codex.check()


def test_gemini_is_told_the_playbook_and_a_citation_counts_once(gemini: Gemini) -> None:
    gemini.api.when(FIX, *FIXED)
    assert "Hook" not in gemini.prints(FIX)
    assert ADVICE in generate_api.told(gemini.api.asked_about(FIX)[0])
    heard = [payload["hook_event_name"] for payload in gemini.payloads()]
    assert [event for event in heard if event != "PreCompress"] == [
        "SessionStart",
        "BeforeAgent",
        "AfterAgent",
        "SessionEnd",
    ]
    gemini.settle()
    assert gemini.cited() == [("SessionEnd", "pat-001")]
    assert gemini.agent.counters()["pat-001"] == (1, 0)
    gemini.check()


def test_a_resumed_session_of_gemini_adds_only_what_is_new(gemini: Gemini) -> None:
    gemini.api.when(FIX, *FIXED)
    gemini.api.when(ON, *TAXED)
    gemini.prints(FIX)
    gemini.settle()
    gemini.prints(ON, "--resume", "latest")
    assert [payload["source"] for payload in gemini.payloads("SessionStart")] == ["startup", "resume"]
    gemini.settle()
    assert gemini.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    assert gemini.agent.counters()["pat-001"] == (1, 0)
    gemini.check()


def test_two_agents_in_one_project_share_a_playbook(codex: Codex, gemini: Gemini) -> None:
    assert codex.agent.project == gemini.agent.project
    codex.api.when(FIX, *FIXED)
    codex.prints(FIX)
    codex.settle()
    gemini.api.when(ON, *TAXED)
    gemini.prints(ON)
    assert ADVICE.replace("helpful=0", "helpful=1") in generate_api.told(gemini.api.asked_about(ON)[0])
    gemini.settle()
    agents = [(w["data"]["agent"], w["data"]["cited"]) for w in codex.agent.events("session.recorded")]
    assert agents == [("codex", ["pat-001"]), ("gemini-cli", ["mis-001"])]


@pytest.mark.usefixtures("terminal_is_there")
def test_codex_asks_whether_to_trust_the_hooks_and_runs_them_then(codex: Codex) -> None:
    codex.api.when(FIX, *TAXED)
    assert "trust these hooks" in codex.agent.run("doctor", code=None).out
    with codex.terminal() as terminal:
        terminal.see("Hooks need review")
        terminal.press("2")
        terminal.press("Enter")
        terminal.see("Ask Codex to do anything")
        terminal.type(FIX)
        terminal.see("no mocks")
        codex.wait_for("Stop")
        terminal.press("C-d")
        terminal.see("ended with 0")
    assert "trust these hooks" not in codex.agent.run("doctor", code=None).out
    assert ADVICE in responses_api.told(codex.api.asked_about(FIX)[0])
    codex.settle()
    assert codex.cited() == [("SessionEnd", "mis-001")]
    codex.check()


LOWER = tuple(
    step(*({**block, "name": "bash"} if block["type"] == "tool_use" else block for block in one.blocks))
    for one in FIXED
)


def is_told_and_counts_once(other: Other, *resume: str) -> None:
    """One session that cites, and the same session resumed."""
    other.api.when(FIX, *LOWER)
    other.api.when(ON, *TAXED)
    other.prints(FIX)
    for body in other.api.asked_about(FIX):
        assert messages_api.told(body).count(ADVICE) == 1
    other.settle()
    assert other.cited() == [("SessionEnd", "pat-001")]
    other.agent.wait_until(lambda: other.agent.counters()["pat-001"] == (1, 0))
    other.prints(ON, *resume)
    other.settle()
    assert other.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    assert len(other.transcripts()) == 1
    assert other.agent.counters()["pat-001"] == (1, 0)
    windows = other.agent.events("session.recorded")
    assert {window["data"]["agent"] for window in windows} == {other.recorded}
    other.check()


def test_copilot_is_told_the_playbook_and_a_citation_counts_once(copilot: Copilot) -> None:
    is_told_and_counts_once(copilot, "--continue")


def test_opencode_is_told_the_playbook_and_a_citation_counts_once(opencode: OpenCode) -> None:
    is_told_and_counts_once(opencode, "--continue")


def test_pi_is_told_the_playbook_and_a_citation_counts_once(pi: Pi) -> None:
    is_told_and_counts_once(pi, "--continue")


PART = "Look at the discounts."


def test_a_subagent_of_copilot_is_told_the_playbook_and_counts_with_its_parent(copilot: Copilot) -> None:
    task = calls("task", agent_type="general-purpose", prompt=PART, description="Look", name="look", mode="sync")
    copilot.api.when(FIX, step(task), step(says("As [pat-001] says.")))
    copilot.api.when(PART, *TAXED)
    copilot.prints(FIX)
    assert ADVICE in messages_api.told(copilot.api.asked_about(PART)[0])
    copilot.settle()
    assert copilot.cited() == [("SessionEnd", "mis-001"), ("SessionEnd", "pat-001")]
    copilot.check()


def test_a_subagent_of_opencode_is_told_the_playbook_and_counts_by_itself(opencode: OpenCode) -> None:
    opencode.api.when(FIX, step(calls("task", subagent_type="general", prompt=PART, description="Look")), *TAXED)
    opencode.api.when(PART, step(says("As [pat-001] says.")))
    opencode.prints(FIX)
    assert ADVICE in messages_api.told(opencode.api.asked_about(PART)[0])
    opencode.settle()
    assert sorted(opencode.cited()) == [("SessionEnd", "mis-001"), ("SubagentStop", "pat-001")]
    sessions = {window["session_id"] for window in opencode.agent.events("session.recorded")}
    assert len(sessions) == 1
    opencode.check()


def hears_a_full_playbook(other: Other, told: Callable[[dict[str, Any]], str]) -> None:
    """All of the longest text that a start prints reaches the model."""
    bullets = [
        {"name": f"pat-{n:03d}", "text": f"Rule {n}: " + "word " * 20, "helpful": 9, "harmful": 0} for n in range(99)
    ]
    other.agent.write_playbook({"PATTERNS & APPROACHES": bullets})
    whole = other.agent.hook("SessionStart", session_id="s-1", source="startup")
    assert 9_000 < len(whole) < 10_000
    other.api.when(FIX, *TAXED)
    other.prints(FIX)
    said = told(other.api.asked_about(FIX)[0])
    missing = [line for line in whole.splitlines() if line.strip() and line.strip() not in said]
    assert missing == []


def test_codex_hears_a_full_playbook(codex: Codex) -> None:
    hears_a_full_playbook(codex, responses_api.told)


def test_gemini_hears_a_full_playbook(gemini: Gemini) -> None:
    hears_a_full_playbook(gemini, generate_api.told)


def test_copilot_hears_a_full_playbook(copilot: Copilot) -> None:
    hears_a_full_playbook(copilot, messages_api.told)


def test_opencode_hears_a_full_playbook(opencode: OpenCode) -> None:
    hears_a_full_playbook(opencode, messages_api.told)


def test_pi_hears_a_full_playbook(pi: Pi) -> None:
    hears_a_full_playbook(pi, messages_api.told)
