"""A client of each kind and version that `python -m tests.client` installed, asking a stand-in for its API."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.client import Client
from tests.client.generate_api import GenerateApi
from tests.client.messages_api import MessagesApi
from tests.client.others import Codex, Copilot, Gemini, OpenCode, Pi
from tests.client.responses_api import ResponsesApi
from tests.client.scripted import serving
from tests.road.agent import Agent

#: Read here: a test sees no variable of ours.
_CLIENTS = [Path(path) for path in os.environ.get("REFLECTOR_TEST_CLIENTS", "").split(os.pathsep) if path]


def _installed(name: str) -> dict[str, Any]:
    """The executables of a client, as the parameters of a fixture."""
    found = [path for path in _CLIENTS if path.name == name]
    return {"params": found or [None], "ids": lambda path: path.parents[2].name if path else "none"}


def _binary(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip("this client is not installed; run: make test-clients")
    path: Path = request.param
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project with a playbook and a build that fails."""
    agent = Agent.in_folder(tmp_path)
    (agent.project / ".git").mkdir()
    (agent.project / "cart.py").write_text("def total(items):\n    return 0\n")
    (agent.project / "Makefile").write_text(
        "test:\n\t@grep -q sum cart.py && echo '3 passed in 0.1s' || (echo '1 failed, 2 passed in 0.1s'; exit 1)\n"
    )
    return agent


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with serving(MessagesApi) as api:
        yield api


@pytest.fixture(**_installed("claude"))
def bare(request: pytest.FixtureRequest, agent: Agent, api: MessagesApi) -> Client:
    """A Claude Code that does not know us."""
    return Client(_binary(request), agent, api)


@pytest.fixture
def client(bare: Client) -> Client:
    """A client after `reflector install`."""
    bare.agent.run("install")
    return bare


@pytest.fixture
def terminal_is_there() -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed: apt-get install tmux")


@pytest.fixture(**_installed("codex"))
def codex(request: pytest.FixtureRequest, agent: Agent) -> Iterator[Codex]:
    """A Codex CLI after `reflector install --agent codex`."""
    binary = _binary(request)
    with serving(ResponsesApi) as api:
        yield Codex(binary, agent, api)


@pytest.fixture(**_installed("gemini"))
def gemini(request: pytest.FixtureRequest, agent: Agent) -> Iterator[Gemini]:
    """A Gemini CLI after `reflector install --agent gemini`."""
    binary = _binary(request)
    with serving(GenerateApi) as api:
        yield Gemini(binary, agent, api)


@pytest.fixture(**_installed("copilot"))
def copilot(request: pytest.FixtureRequest, agent: Agent, api: MessagesApi) -> Copilot:
    """A Copilot CLI after `reflector install --agent copilot`."""
    return Copilot(_binary(request), agent, api)


@pytest.fixture(**_installed("opencode"))
def opencode(request: pytest.FixtureRequest, agent: Agent, api: MessagesApi) -> OpenCode:
    """An OpenCode after `reflector install --agent opencode`."""
    return OpenCode(_binary(request), agent, api)


@pytest.fixture(**_installed("pi"))
def pi(request: pytest.FixtureRequest, agent: Agent, api: MessagesApi) -> Pi:
    """A pi after `reflector install --agent pi`."""
    return Pi(_binary(request), agent, api)
