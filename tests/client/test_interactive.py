"""A client in a terminal: prompts, /clear, /compact, exits of each kind, and a kill in the middle of a turn."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.client.client import Client
from tests.client.scripted import FIX, FIXED, ON, TAXED, calls, says, step

pytestmark = pytest.mark.usefixtures("terminal_is_there")

READY = "❯"


def _reasons(client: Client) -> list[str]:
    return [payload["reason"] for payload in client.payloads("SessionEnd")]


def test_a_session_in_a_terminal_ends_with_its_exit(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    with client.terminal() as terminal:
        terminal.ask(READY, FIX, "The total is right now.")
        client.wait_for("Stop")
        terminal.type("/exit")
        terminal.see("ended with 0")
    assert "[pat-001] helpful=0 harmful=0" in client.api.told(FIX)
    assert _reasons(client) == ["prompt_input_exit"]
    client.settle()
    assert client.cited() == [("SessionEnd", "pat-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
    client.check()


def test_a_start_says_in_one_line_what_the_session_before_it_brought(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.prints(FIX)
    client.settle()
    with client.terminal() as terminal:
        screen = terminal.see("playbook: 3 bullets \u00b7 last session: pat-001 helpful")
        assert screen.count("SessionStart:startup says:") == 1
        terminal.ask(READY, FIX, "The total is right now.")
        terminal.type("/exit")
        terminal.see("ended with 0")
    last = client.api.told(FIX, -1)
    assert "last session:" not in last
    assert last.count("[pat-001] helpful=1 harmful=0 :: Write the failing test first.") == 1
    client.check()


def test_what_is_cleared_is_a_session_that_ended_and_what_follows_another(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    with client.terminal() as terminal:
        terminal.ask(READY, FIX, "The total is right now.")
        client.wait_for("Stop")
        terminal.type("/clear")
        client.wait_for("SessionStart", 2)
        terminal.type(ON)
        terminal.see("no mocks")
        client.wait_for("Stop", 2)
        terminal.press("C-d", "C-d")
        terminal.see("ended with 0")
    assert _reasons(client) == ["clear", "prompt_input_exit"]
    cleared, ended = client.payloads("SessionEnd")
    assert cleared["session_id"] != ended["session_id"]
    assert "[pat-001] helpful=" in client.api.told(ON)
    client.settle()
    assert client.cited() == [("SessionEnd", "pat-001"), ("SessionEnd", "mis-001")]
    client.check()


@pytest.mark.parametrize("way", ["/exit", "keys", "/clear", "window"])
def test_a_session_that_is_left_without_a_word_is_none(client: Client, way: str) -> None:
    with client.terminal() as terminal:
        terminal.see(READY)
        client.wait_for("SessionStart")
        if way == "/clear":
            terminal.type("/clear")
            client.wait_for("SessionStart", 2)
        if way == "/exit":
            terminal.type("/exit")
        elif way != "window":
            terminal.press("C-d", "C-d")
        if way == "window":
            terminal.close()
        else:
            terminal.see("ended with 0")
    client.wait_for("SessionEnd")
    # Nobody waits for the hooks of a closed terminal; this is the last that ours does before it starts the drain.
    client.agent.wait_until((client.agent.state / "fired" / "SessionEnd").exists)
    # other: also for keys that came very early
    assert set(_reasons(client)) <= {"prompt_input_exit", "other", *(["clear"] if way == "/clear" else [])}
    client.check()
    assert client.agent.events("bullet.tagged") == []


def test_a_session_that_is_compacted_twice_counts_each_citation_once(client: Client) -> None:
    client.api.when(FIX, *FIXED)
    client.api.when(ON, *TAXED)
    client.api.when("create a detailed summary", step(says("<summary>[pat-001] and [pat-002] were cited.</summary>")))
    with client.terminal() as terminal:
        terminal.ask(READY, FIX, "The total is right now.")
        client.wait_for("Stop")
        terminal.type("/compact")
        client.wait_for("SessionStart", 2)
        terminal.see("ompacted")
        terminal.type(ON)
        terminal.see("no mocks")
        client.wait_for("Stop", 2)
        terminal.type("/compact")
        client.wait_for("SessionStart", 3)
        terminal.type("/exit")
        terminal.see("ended with 0")
    assert [payload["source"] for payload in client.payloads("SessionStart")] == ["startup", "compact", "compact"]
    assert [payload["trigger"] for payload in client.payloads("PreCompact")] == ["manual", "manual"]
    assert "[pat-001] helpful=" in client.api.told(ON)
    client.settle()
    assert client.cited() == [("PreCompact", "pat-001"), ("PreCompact", "mis-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
    client.check()


def test_a_client_that_is_killed_is_taken_in_when_a_later_session_starts(client: Client) -> None:
    """No SessionEnd comes, but the Stop of the turn before lies there: a start takes it in once it is old."""
    client.api.when(FIX, *FIXED)
    # A command that takes its time; newer clients refuse a bare sleep.
    client.api.when(
        ON, step(says("As [mis-001] says, no mocks."), calls("Bash", command="timeout 30 tail -f Makefile"))
    )
    with client.terminal() as terminal:
        terminal.ask(READY, FIX, "The total is right now.")
        (stop,) = client.wait_for("Stop")
        terminal.type(ON)
        terminal.see("tail -f")
        # Written a little later than shown: what was not written by then dies with the client.
        client.agent.wait_until(lambda: any("[mis-001]" in str(record) for record in client.records("assistant")))
        os.kill(terminal.client_pid(), signal.SIGKILL)
        terminal.see("ended with 137")
    assert _reasons(client) == []
    client.settle()
    assert client.cited() == []
    (waiting,) = (client.agent.spool / "waiting").iterdir()
    record = json.loads(waiting.read_bytes())
    waiting.write_text(json.dumps(record | {"received_at_ns": record["received_at_ns"] - 2 * 3600 * 10**9}))
    client.prints("Hello.")
    client.settle()
    # All that was written, also behind the hook's back.
    assert client.cited() == [("Stop", "pat-001"), ("Stop", "mis-001")]
    assert client.agent.counters()["pat-001"] == (1, 0)
    assert stop["session_id"] in {window["session_id"] for window in client.agent.events("session.recorded")}
    client.api.when("Go on.", step(says("As [pat-002] says, it is small.")))
    client.prints("Go on.", "--resume", stop["session_id"])
    client.settle()
    assert client.cited() == [("Stop", "pat-001"), ("Stop", "mis-001"), ("SessionEnd", "pat-002")]
    client.check()
