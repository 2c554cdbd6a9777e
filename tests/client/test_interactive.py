"""A client in a terminal: prompts, /clear, /compact, exits of each kind, and a kill in the
middle of a turn.
"""

import json
import os
import signal

import pytest

from tests.client.apis import FIX, ON, calls, says, step
from tests.client.client import Client

pytestmark = pytest.mark.usefixtures("terminal_is_there")


def _reasons(client: Client) -> list[str]:
    return [payload["reason"] for payload in client.payloads("SessionEnd")]


def test_start_reports_the_session_before_in_one_line(client: Client) -> None:
    client.prints(FIX)
    client.settle()
    with client.terminal() as terminal:
        screen = terminal.see("playbook: 3 rules \u00b7 last session: pat-001 helpful")
        assert screen.count("SessionStart:startup says:") == 1
        terminal.see("❯")
        terminal.ask(FIX, "The total is right now.")
        terminal.leave()
    last = client.api.told(FIX, -1)
    assert "last session:" not in last
    assert last.count("[pat-001] helpful=1 harmful=0 :: Write the failing test first.") == 1
    client.check(("SessionEnd", "pat-001"), ("SessionEnd", "pat-001"))


@pytest.mark.parametrize("way", ["/exit", "keys", "/clear", "window"])
def test_session_left_without_a_word_is_not_recorded(client: Client, way: str) -> None:
    with client.terminal() as terminal:
        terminal.see("❯")
        client.wait_for("SessionStart")
        if way == "/clear":
            terminal.type("/clear")
            client.wait_for("SessionStart", 2)
        if way == "window":
            terminal.close()
        else:
            terminal.leave(*([] if way == "/exit" else ["C-d", "C-d"]))
    client.wait_for("SessionEnd")
    # Nobody waits for the hooks of a closed terminal; this is the last that ours does before it
    # starts the drain.
    client.agent.wait_until((client.agent.state / "fired" / "SessionEnd").exists)
    # other: also for keys that came very early
    assert set(_reasons(client)) <= {
        "prompt_input_exit",
        "other",
        *(["clear"] if way == "/clear" else []),
    }
    client.check()
    assert client.agent.events("bullet.tagged") == []


def test_killed_client_is_recorded_at_a_later_start(client: Client) -> None:
    """No SessionEnd comes, but the Stop of the turn before lies there: a start takes it in once
    it is old.
    """
    # A command that takes its time; newer clients refuse a bare sleep.
    client.api.when(
        ON,
        step(
            says("As [mis-001] says, no mocks."),
            calls("Bash", command="timeout 30 tail -f Makefile"),
        ),
    )
    with client.terminal() as terminal:
        terminal.see("❯")
        terminal.ask(FIX, "The total is right now.")
        (stop,) = client.wait_for("Stop")
        terminal.type(ON)
        terminal.see("tail -f")
        # Written a little later than shown: what was not written by then dies with the client.
        client.agent.wait_until(
            lambda: any("[mis-001]" in str(record) for record in client.records("assistant"))
        )
        os.kill(terminal.client_pid(), signal.SIGKILL)
        terminal.see("ended with 137")
    assert _reasons(client) == []
    client.settle()
    assert client.cited() == []
    (waiting,) = (client.agent.spool / "waiting").iterdir()
    received = json.loads(waiting.read_bytes())["received_at_ns"]
    client.agent.change_delivery(waiting, received_at_ns=received - 2 * 3600 * 10**9)
    client.prints("Hello.")
    # All that was written, also behind the hook's back.
    written = [("Stop", "pat-001"), ("Stop", "mis-001")]
    client.check(*written, helpful=1)
    assert stop["session_id"] in {
        window["session_id"] for window in client.agent.events("session.recorded")
    }
    client.api.when("Go on.", step(says("As [pat-002] says, it is small.")))
    client.prints("Go on.", "--resume", stop["session_id"])
    client.check(*written, ("SessionEnd", "pat-002"))
