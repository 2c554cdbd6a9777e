"""A trial with the real Claude Code: each start of a session has its arm, and withheld text is in no request."""

from __future__ import annotations

import json

from reflector.trials.draw import is_withheld
from tests.client.apis import ADVICE, FIX, FIXED, ON, calls, says, step
from tests.client.client import Client

LOOK, WATCH = "Please ask an agent to look at the cart.", "Look at the cart and say what you see."
OURS = "] helpful="


def test_a_session_its_resume_fork_compaction_and_subagent_have_one_arm(client: Client) -> None:
    client.agent.run("trial", "start", "--yes")
    (opened,) = client.agent.events("trial.opened")
    *before, last = FIXED
    client.api.when(FIX, *before[:2], step(*before[2].blocks, tokens=199_000), last)
    client.api.when("create a detailed summary", step(says("<summary>The total is right. Add the tax.</summary>")))
    seen = set()
    for _ in range(12):  # until a session of each arm was there
        sent = len(client.api.asked)
        first = client.prints(FIX)  # and its compaction
        withheld = is_withheld(opened["data"]["key"], opened["data"]["share"], first.session_id)
        if withheld in seen:
            continue
        seen.add(withheld)
        client.prints(ON, "--resume", first.session_id)
        client.prints(ON, "--fork-session", "--resume", first.session_id)
        agent = calls("Task", description="Look", prompt=WATCH, subagent_type="general-purpose")
        client.api.when(LOOK, step(says("I ask one."), agent), step(says("It returns nothing yet.")))
        client.api.when(WATCH, step(says("It is small.")))
        client.prints(LOOK, "--resume", first.session_id)
        bodies = [json.dumps(one) for one in client.api.asked[sent:]]
        asked = [body for body in bodies if FIX in body or ON in body or WATCH in body]
        assert asked
        assert {OURS in body for body in asked} == {not withheld}
        if len(seen) == 2:
            break
    assert seen == {True, False}
    sources = {payload["source"] for payload in client.payloads("SessionStart")}
    assert sources == {"startup", "resume", "fork", "compact"}
    assert client.payloads("SubagentStart")


def test_tasks_are_done_by_the_client_with_advice_and_without_and_nothing_of_it_is_recorded(client: Client) -> None:
    task = client.root / "tasks" / "cart"
    task.mkdir(parents=True)
    (task / "prompt.md").write_text(FIX)
    (task / "check").write_text("true")
    before = len(client.agent.events())
    client.agent.environ |= client.environ()
    command = f"{client.binary} -p --output-format json --model claude-sonnet-4-6"
    told = client.agent.run("trial", "run", str(client.root / "tasks"), "--command", command, "--yes").out
    assert "2 pairs: 0 better with it, 0 worse" in told
    asked = [ADVICE in client.api.text_of(body) for body in client.api.asked_about(FIX) if len(body["messages"]) == 1]
    assert asked[:1] + asked[-1:] == [True, True]
    assert sorted(asked) == [False, False, True, True]
    assert len(client.agent.events()) == before
    assert client.agent.deliveries() == []
