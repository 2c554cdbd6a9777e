"""The other agents: a prompt with tools, a resume, a fork, a subagent, two sessions at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.client.conftest import of
from tests.client.others import Codex, Gemini, Other
from tests.client.scripted import FIX, FIXED, ON, TAXED, calls, says, step

ADVICE = "[pat-001] helpful=0 harmful=0 :: Write the failing test first."
PART = "Look at the discounts."
ONCE = [("SessionEnd", "pat-001")]
BOTH = [*ONCE, ("SessionEnd", "mis-001")]


@of("codex", "gemini", "copilot", "opencode", "pi")
def test_a_session_gets_the_playbook_and_counts_once_and_its_resume_adds_only_what_is_new(other: Other) -> None:
    other.asked(FIX, *FIXED)
    other.asked(ON, *TAXED)
    said = other.prints(FIX)
    assert ("Failed" in said, "Hook " in said) == (False, False)
    for body in other.api.asked_about(FIX):
        assert other.api.text_of(body).count(ADVICE) == 1
    other.settle()
    assert other.cited() == ONCE
    other.agent.wait_until(lambda: other.agent.counters()["pat-001"] == (1, 0))
    other.prints(ON, *other.resume)
    other.settle()
    assert other.cited() == BOTH
    assert other.name == "gemini" or len(other.transcripts()) == 1  # that one begins a file with each minute
    assert other.agent.counters()["pat-001"] == (1, 0)
    assert {window["data"]["agent"] for window in other.agent.events("session.recorded")} == {other.recorded}
    other.check()


@of("codex", "gemini")
def test_the_hooks_are_called_at_the_events_of_a_session(other: Other) -> None:
    other.asked(FIX, *FIXED)
    other.prints(FIX)
    heard = [name for name in (payload["hook_event_name"] for payload in other.payloads()) if name != "PreCompress"]
    own = ["UserPromptSubmit", "Stop"] if other.name == "codex" else ["BeforeAgent", "AfterAgent"]
    assert heard == ["SessionStart", *own, "SessionEnd"]
    other.prints(ON, *other.resume)
    assert [payload["source"] for payload in other.payloads("SessionStart")] == ["startup", "resume"]


@of("codex")
def test_a_forked_session_adds_only_what_is_new(other: Other) -> None:
    other.asked(FIX, *FIXED)
    other.asked(ON, *TAXED)
    other.prints(FIX)
    other.settle()
    (start,) = other.payloads("SessionStart")
    other.prints(ON, "fork", start["session_id"])
    other.settle()
    assert other.cited() == BOTH
    assert len(other.transcripts()) == 2
    other.check()


@of("codex")
def test_two_sessions_at_once_are_both_counted(other: Other) -> None:
    other.asked(FIX, *FIXED)
    other.asked(ON, *TAXED)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(other.prints, [FIX, ON]))
    other.settle()
    assert sorted(other.cited()) == sorted(BOTH)
    other.check()


@of("codex")
@pytest.mark.usefixtures("terminal_is_there")
def test_codex_asks_whether_to_trust_the_hooks_and_runs_them_then(other: Codex) -> None:
    other.asked(FIX, *TAXED)
    assert "trust these hooks" in other.agent.run("doctor", code=None).out
    with other.terminal() as terminal:
        terminal.see("Hooks need review")
        terminal.press("2", "Enter")
        terminal.see("Ask Codex to do anything")
        terminal.type(FIX)
        terminal.see("no mocks")
        other.wait_for("Stop")
        terminal.press("C-d")
        terminal.see("ended with 0")
    assert "trust these hooks" not in other.agent.run("doctor", code=None).out
    assert ADVICE in other.api.told(FIX)
    other.settle()
    assert other.cited() == [("SessionEnd", "mis-001")]
    other.check()


@of("gemini")
def test_two_agents_in_one_project_share_a_playbook(other: Gemini) -> None:
    other.agent.counted()
    other.asked(ON, *TAXED)
    other.prints(ON)
    assert ADVICE.replace("helpful=0", "helpful=1") in other.api.told(ON)
    other.settle()
    agents = [(w["data"]["agent"], w["data"]["cited"]) for w in other.agent.events("session.recorded")]
    assert agents == [("claude-code", ["pat-001"]), ("gemini-cli", ["mis-001"])]


@of("copilot", "opencode")
def test_a_subagent_gets_the_playbook_and_counts_once(other: Other) -> None:
    task = {"agent_type": "general-purpose", "name": "look", "mode": "sync"}
    if other.name == "opencode":
        task = {"subagent_type": "general"}
    other.asked(FIX, step(calls("task", prompt=PART, description="Look", **task)), *TAXED)
    other.asked(PART, step(says("As [pat-001] says.")))
    other.prints(FIX)
    assert ADVICE in other.api.told(PART)
    other.settle()
    counted = "SessionEnd" if other.name == "copilot" else "SubagentStop"  # one counts with its parent
    assert sorted(other.cited()) == sorted([("SessionEnd", "mis-001"), (counted, "pat-001")])
    assert len({window["session_id"] for window in other.agent.events("session.recorded")}) == 1
    other.check()


@of("codex", "gemini", "copilot", "opencode", "pi")
def test_all_of_the_longest_text_reaches_the_model(other: Other) -> None:
    long = [
        {"name": f"pat-{n:03d}", "text": f"Rule {n}: " + "word " * 20, "helpful": 9, "harmful": 0} for n in range(99)
    ]
    other.agent.write_playbook({"PATTERNS & APPROACHES": long})
    whole = other.agent.hook("SessionStart", session_id="s-1", source="startup")
    assert 9_000 < len(whole) < 10_000
    other.asked(FIX, *TAXED)
    other.prints(FIX)
    said = other.api.told(FIX)
    assert [line for line in whole.splitlines() if line.strip() and line.strip() not in said] == []
