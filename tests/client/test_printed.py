"""`claude -p`: start, prompt, tools, a subagent, a resume and a fork; the plugin, given with
--plugin-dir; and trials, whose withheld text is in no request.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.tellings import PLACEBO_HEADING
from reflector.trials.draw import is_placebo, is_withheld
from tests.client.apis import ADVICE, FIX, FIXED, ON, calls, says, step
from tests.client.client import Client

PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"


@pytest.mark.parametrize("line", ["true", "false"])
def test_model_gets_equal_text_without_the_start_message(client: Client, line: str) -> None:
    long = [
        {"name": f"oth-{n:03d}", "text": "ü😀" * 300, "helpful": 0, "harmful": 0}
        for n in range(1, 31)
    ]
    client.agent.write_playbook({"OTHERS": long})
    client.agent.run("config", "set", "start_message", line)
    text = client.agent.hook("SessionStart")
    client.api.when(FIX, step(says("The total is right now.")))
    printed = client.prints(FIX)
    assert text.rstrip("\n") in client.api.told(FIX)
    assert "playbook: 30 rules" not in client.api.told(FIX)
    (ours,) = (hook["stdout"] for hook in printed.hooks if "This project keeps" in hook["stdout"])
    assert ('"systemMessage":"playbook: 30 rules, ' in ours) == (line == "true")
    client.check()


LOOK = "Please ask an agent to look at the cart."
WATCH = "Look at the cart and say what you see."


def test_subagent_gets_the_playbook_and_cites_it(client: Client) -> None:
    client.api.when(
        LOOK,
        step(
            says("I ask one."),
            calls("Task", description="Look", prompt=WATCH, subagent_type="general-purpose"),
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
def test_continued_session_adds_only_new_records(client: Client, words: list[str]) -> None:
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


def test_compacted_session_counts_a_citation_once(
    client: Client,
) -> None:
    """The stand-in says that the conversation fills the model's window. The record that cites may
    be written before the client calls the hook, or behind it.
    """
    *before, last = FIXED
    client.api.when(FIX, *before[:2], step(*before[2].blocks, tokens=199_000), last)
    client.api.when(
        "create a detailed summary",
        step(says("<summary>As [pat-002] says. Add the tax.</summary>")),
    )
    client.prints(FIX)
    assert [payload["trigger"] for payload in client.payloads("PreCompact")] == ["auto"]
    assert [payload["source"] for payload in client.payloads("SessionStart")] == [
        "startup",
        "compact",
    ]
    client.settle()
    (cited,) = client.cited()
    assert cited[0] in ("PreCompact", "SessionEnd")
    client.check((cited[0], "pat-001"), helpful=1)


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
def test_plugin_counts_once_with_and_without_hooks(plugged: Client, is_installed: bool) -> None:
    if is_installed:
        plugged.agent.run("install")
    printed = plugged.prints(FIX)
    (init,) = (line for line in printed.lines if line.get("subtype") == "init")
    assert "reflector" in str(init["plugins"])
    assert any(command.startswith("reflector:playbook") for command in init["slash_commands"])
    assert plugged.api.told(FIX).count(ADVICE) == 1 + is_installed
    plugged.check(("SessionEnd", "pat-001"), helpful=1)


def arm_of(data: dict[str, Any], session: str) -> str:
    """Return the arm that a trial of this opening draws for a session."""
    placebo = data.get("placebo")
    if placebo is not None and is_placebo(data["key"], placebo["share"], session):
        return "placebo"
    return "without" if is_withheld(data["key"], data["share"], session) else "told"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", [[], ["--placebo"]])
def test_all_parts_of_a_session_have_one_arm(client: Client, options: list[str]) -> None:
    """Its start, resume, fork, compaction and subagent; all requests of each arm are looked at."""
    client.agent.run("trial", "start", "--yes", *options)
    (opened,) = client.agent.events("trial.opened")
    arms = {"told", "without", *(["placebo"] if options else [])}
    *before, last = FIXED
    client.api.when(FIX, *before[:2], step(*before[2].blocks, tokens=199_000), last)
    client.api.when(
        "create a detailed summary",
        step(says("<summary>The total is right. Add the tax.</summary>")),
    )
    seen: set[str] = set()
    for _ in range(20):  # until a session of each arm was there
        sent = len(client.api.asked)
        first = client.prints(FIX)  # and its compaction
        arm = arm_of(opened["data"], first.session_id)
        if arm in seen:
            continue
        seen.add(arm)
        client.prints(ON, "--resume", first.session_id)
        client.prints(ON, "--fork-session", "--resume", first.session_id)
        agent = calls("Task", description="Look", prompt=WATCH, subagent_type="general-purpose")
        client.api.when(
            LOOK, step(says("I ask one."), agent), step(says("It returns nothing yet."))
        )
        client.api.when(WATCH, step(says("It is small.")))
        client.prints(LOOK, "--resume", first.session_id)
        bodies = [json.dumps(one) for one in client.api.asked[sent:]]
        asked = [body for body in bodies if FIX in body or ON in body or WATCH in body]
        assert asked
        assert {"] helpful=" in body for body in asked} == {arm == "told"}
        assert {PLACEBO_HEADING in body for body in asked} == {arm == "placebo"}
        if seen == arms:
            break
    assert seen == arms
    sources = {payload["source"] for payload in client.payloads("SessionStart")}
    assert sources == {"startup", "resume", "fork", "compact"}
    assert client.payloads("SubagentStart")


def test_trial_runs_pairs_and_records_nothing(
    client: Client,
) -> None:
    task = client.root / "tasks" / "cart"
    task.mkdir(parents=True)
    (task / "prompt.md").write_text(FIX)
    (task / "check").write_text("true")
    before = len(client.agent.events())
    client.agent.environ |= client.environ()
    command = f"{client.binary} -p --output-format json --model claude-sonnet-4-6"
    told = client.agent.run("trial", "run", str(client.root / "tasks"), command, "--yes").out
    assert "2 pairs of runs: with the advice, 0 were better and 0 were worse" in told
    asked = [
        ADVICE in client.api.text_of(body)
        for body in client.api.asked_about(FIX)
        if len(body["messages"]) == 1
    ]
    assert asked[:1] + asked[-1:] == [True, True]
    assert sorted(asked) == [False, False, True, True]
    assert len(client.agent.events()) == before
    assert client.agent.deliveries() == []
