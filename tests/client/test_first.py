"""The first verdicts of a new user: old sessions of a real client, one answer in a terminal."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.resources import resource_dir
from tests.client.apis import FIX, MessagesApi, says, serving, step
from tests.client.client import OTHERS, Client, Codex, Copilot, OpenCode, Other, Pi
from tests.client.conftest import _installed, _there
from tests.road.agent import Agent
from tests.servers import until

_ASKED = re.findall(r"^# .*$", (resource_dir("prompts") / "reflector.txt").read_text(), re.M)[-1]
_RULE = "Never mock the database"
_BROKEN = "I mock the database for this test."
_PATIENCE = 600.0
#: The clients that show their user no text of a hook.
_WITHOUT_LINE = (Copilot, OpenCode)
#: The file of rules that each client reads, where it is not AGENTS.md.
_FILES = {"claude": "CLAUDE.md", "gemini": "GEMINI.md"}
_MADE = [
    (kind, path)
    for kind in (Client, *OTHERS)
    if kind is not Pi  # its judge needs the setting of a model
    for path in _installed(getattr(kind, "name", "claude"))
]
_IDS = [path.parents[2].name if path else getattr(kind, "name", "claude") for kind, path in _MADE]


def _name_of(client: Client | Other) -> str:
    return getattr(client, "name", "claude")


@pytest.fixture(params=_MADE, ids=_IDS)
def newcomer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client | Other]:
    """A client that does not know reflector, and a file of one rule. OpenCode, which keeps its old
    sessions in a database, has the hooks and a playbook already.
    """
    kind, path = request.param
    agent = Agent.bare(tmp_path)
    with serving(getattr(kind, "stand_in", MessagesApi)) as api:
        options = {} if kind in (Client, OpenCode) else {"installs": False}
        client = kind(_there(path), agent, api, **options)
        (agent.project / _FILES.get(_name_of(client), "AGENTS.md")).write_text(f"- {_RULE}\n")
        agent.commit_long_ago()
        api.when(FIX, step(says(_BROKEN)))
        if kind is OpenCode:
            agent.claude.mkdir()
            agent.write_playbook({})
        tag = {"name": "oth-001", "relevant": True, "followed": "no", "tag": "neutral"}
        tag |= {"rationale": "It mocks.", "quote": _BROKEN, "sure": "sure"}
        # The turn of those words depends on the client.
        tags = [{**tag, "turn": turn} for turn in range(1, 12)]
        api.when(_ASKED, step(says(json.dumps({"analysis": "x", "bullet_tags": tags}))))
        yield client


def _questions(client: Client | Other) -> int:
    return sum(_ASKED in client.api.text_of(body) for body in client.api.asked)


def _work(client: Client | Other, times: int) -> None:
    """Leave old sessions, in which the client broke the rule."""
    for _ in range(times):
        client.prints(FIX)
    if isinstance(client, OpenCode):
        client.settle()


def _install(client: Client | Other) -> str:
    """Return the screen of `install`, at whose question the user chose the first judge. The
    background has read the old sessions then.
    """
    words = ("install", "--agent", _name_of(client))
    if isinstance(client, OpenCode):
        words = ("judge", "allow")
    environ, client.agent.environ = client.agent.environ, client.agent.environ | client.environ()
    screen = client.agent.sent(80, *words, typed=b"1\n\n\n\nn\n", code=None)
    client.agent.environ = environ
    order = client.agent.own / "first.json"
    until(lambda: not order.exists(), "the old sessions are read", _PATIENCE)
    return screen


def _shown_at_start(client: Client | Other) -> str:
    """Return the texts that the user sees at a start, on one line."""
    if isinstance(client, Client):
        printed = (hook["stdout"] for hook in client.prints(FIX).hooks if hook["stdout"])
        return str(json.loads(next(printed))["systemMessage"])
    if isinstance(client, Codex):  # its `exec` shows no text of a hook
        # Its server would outlive it.
        with client.terminal("--no-daemon", "--dangerously-bypass-hook-trust") as terminal:
            terminal.see("Ask Codex to do anything")
            terminal.type(FIX)
            screen = terminal.see("Hook · ")
            terminal.leave("C-d")
        return " ".join(screen.split())
    done = client.prints(FIX)
    return f"{done.stdout}\n{done.stderr}"


@pytest.mark.timeout(1200)
def test_one_answer_brings_first_verdicts(newcomer: Client | Other) -> None:
    agent = newcomer.agent
    _work(newcomer, 10)
    screen = _install(newcomer)
    assert "The judge now reads your last 10 sessions and checks the 1 rule of" in screen, screen
    assert _questions(newcomer) == 10
    shown = agent.call("list").out
    assert _RULE in shown
    assert "0 of 10" in shown
    assert f'not followed today: "{_BROKEN}"' in shown
    assert _BROKEN in agent.call("blame", "oth-001").out
    line = f"oth-001 not followed in 10 sessions (“{_BROKEN}”)"
    shows_line = not isinstance(newcomer, _WITHOUT_LINE)
    assert (line in _shown_at_start(newcomer)) == shows_line


@pytest.mark.timeout(1200)
def test_forbid_and_uninstall_take_it_back(newcomer: Client | Other) -> None:
    agent = newcomer.agent
    _work(newcomer, 1)
    _install(newcomer)
    asked = _questions(newcomer)
    agent.call("judge", "forbid")
    assert not [offer for offer in agent.json("judge") if offer["allowed"]][1:]
    newcomer.prints(FIX)
    newcomer.settle()
    assert _questions(newcomer) == asked
    agent.call("uninstall", "--agent", _name_of(newcomer))
    recorded = len(agent.events("session.recorded"))
    newcomer.prints(FIX)
    agent.call("drain")
    assert len(agent.events("session.recorded")) == recorded
