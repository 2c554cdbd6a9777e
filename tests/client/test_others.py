"""The other agents: a prompt with tools, a resume, a fork, a subagent, two sessions at once."""

import pytest

from tests.client.apis import ADVICE, FIX, ON, TAXED, calls, says, step
from tests.client.client import Codex, Other
from tests.client.conftest import of

PART = "Look at the discounts."
ONCE = [("SessionEnd", "pat-001")]
BOTH = [*ONCE, ("SessionEnd", "mis-001")]


@of("codex", "gemini", "copilot", "opencode", "pi")
def test_session_and_its_resume_count_once(
    other: Other,
) -> None:
    said = other.prints(FIX).stderr
    about_hooks = [line for line in said.splitlines() if "Failed" in line or "Hook " in line]
    # Gemini CLI prints the line that we show at the start of a session.
    assert about_hooks in ([], ["Hook system message: playbook: 3 rules"])
    for body in other.api.asked_about(FIX):
        assert other.api.text_of(body).count(ADVICE) == 1
    other.check(*ONCE, helpful=1)
    other.prints(ON, *other.resume)
    other.check(*BOTH, helpful=1)
    assert other.agent.events("session.recorded")[-1]["data"]["said"] == [
        {"name": "mis-001", "why": "there are no mocks"}
    ]
    # that one begins a file with each minute
    assert other.name == "gemini" or len(other.transcripts()) == 1
    assert {window["data"]["agent"] for window in other.agent.events("session.recorded")} == {
        other.recorded
    }


@of("codex")
@pytest.mark.usefixtures("terminal_is_there")
def test_codex_runs_the_hooks_once_trusted(other: Codex) -> None:
    other.api.when(FIX, *TAXED)
    assert "trust these hooks" in other.agent.run("doctor", code=None).out
    with other.terminal("--no-daemon") as terminal:  # its server would outlive it
        terminal.see("Hooks need review")
        terminal.press("2", "Enter")
        terminal.see("Ask Codex to do anything")
        terminal.ask(FIX, "no mocks")
        other.wait_for("Stop")
        terminal.leave("C-d")
    assert "trust these hooks" not in other.agent.run("doctor", code=None).out
    assert ADVICE in other.api.told(FIX)
    other.check(("SessionEnd", "mis-001"))


@of("copilot", "opencode")
def test_a_subagent_gets_the_playbook_and_counts_once(other: Other) -> None:
    task = {"agent_type": "general-purpose", "name": "look", "mode": "sync"}
    if other.name == "opencode":
        task = {"subagent_type": "general"}
    other.api.when(FIX, step(calls("task", prompt=PART, description="Look", **task)), *TAXED)
    other.api.when(PART, step(says("As [pat-001] says.")))
    other.prints(FIX)
    assert ADVICE in other.api.told(PART)
    # one counts with its parent
    counted = "SessionEnd" if other.name == "copilot" else "SubagentStop"
    other.check(("SessionEnd", "mis-001"), (counted, "pat-001"))
    assert len({window["session_id"] for window in other.agent.events("session.recorded")}) == 1


@of("codex", "gemini", "copilot", "opencode", "pi")
def test_all_of_the_longest_text_reaches_the_model(other: Other) -> None:
    long = [
        {"name": f"pat-{n:03}", "text": f"Rule {n} " + "word " * 20, "helpful": 9, "harmful": 0}
        for n in range(99)
    ]
    other.agent.write_playbook({"PATTERNS & APPROACHES": long})
    whole = other.agent.hook("SessionStart", session_id="s-1", source="startup")
    assert 9_000 < len(whole) < 10_000
    other.api.when(FIX, *TAXED)
    other.prints(FIX)
    said = other.api.told(FIX)
    assert [line for line in whole.splitlines() if line.strip() and line.strip() not in said] == []
