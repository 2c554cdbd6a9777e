"""A client of each version that `python -m tests.client` installed, asking a stand-in for the Messages API."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.client import Client
from tests.client.messages_api import MessagesApi, serving
from tests.road.agent import Agent

_ROOT = Path(__file__).parents[2]
#: Read here: a test sees no variable of ours.
_CLIENTS = [Path(path) for path in os.environ.get("REFLECTOR_TEST_CLIENTS", "").split(os.pathsep) if path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.client)
            if not _CLIENTS:
                item.add_marker(pytest.mark.skip(reason="no client is installed; run: make test-claude"))


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with serving() as api:
        yield api


@pytest.fixture(params=_CLIENTS or [None], ids=lambda path: path.parents[2].name if path else "none")
def bare(request: pytest.FixtureRequest, tmp_path: Path, api: MessagesApi) -> Client:
    """A client that does not know us, in a project with a playbook and a build that fails."""
    client = Client(request.param, Agent.in_folder(tmp_path), api)
    (client.agent.project / "cart.py").write_text("def total(items):\n    return 0\n")
    (client.agent.project / "Makefile").write_text(
        "test:\n\t@grep -q sum cart.py && echo '3 passed in 0.1s' || (echo '1 failed, 2 passed in 0.1s'; exit 1)\n"
    )
    return client


@pytest.fixture
def client(bare: Client) -> Client:
    """A client after `reflector install`."""
    bare.agent.run("install")
    return bare


@pytest.fixture
def terminal_is_there() -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed: apt-get install tmux")
