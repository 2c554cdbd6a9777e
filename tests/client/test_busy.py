"""Each client ends a session while eight busy loops share the machine's cores, and each session is
recorded.

`REFLECTOR_CLIENT_TIMES` is how many sessions each client has (default 2). The proof takes 20:
`REFLECTOR_CLIENT_TIMES=20 python -m tests.client tests/client/test_busy.py`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from tests.client.apis import FIX
from tests.client.client import Client, Other, Watched
from tests.client.conftest import of

TIMES = int(os.environ.get("REFLECTOR_CLIENT_TIMES", "2"))
#: None where another run has them already.
LOOPS = int(os.environ.get("REFLECTOR_CLIENT_LOOPS", "8"))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight loops that never rest."""
    monkeypatch.setattr(Watched, "patience", 900.0)
    loops = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(LOOPS)
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def _are_recorded(client: Watched, number: int) -> bool:
    """Return whether drains have recorded so many sessions that cite."""
    client.agent.run("drain")
    windows = client.agent.events("session.recorded")
    return (
        len({window["session_id"] for window in windows if "pat-001" in window["data"]["cited"]})
        == number
    )


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("busy")
@of("codex", "gemini", "copilot", "opencode", "pi")
def test_a_busy_machine_loses_no_session(other: Other) -> None:
    for number in range(1, TIMES + 1):
        other.prints(FIX)
        other.agent.wait_until(partial(_are_recorded, other, number))


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("busy")
def test_busy_machine_loses_no_session(client: Client) -> None:
    for number in range(1, TIMES + 1):
        client.prints(FIX)
        client.agent.wait_until(partial(_are_recorded, client, number))
