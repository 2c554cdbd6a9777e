"""Codex CLI and Gemini CLI: a prompt with tools, a resume, a fork, two sessions at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.client import generate_api, responses_api
from tests.client.others import Codex, Gemini
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
