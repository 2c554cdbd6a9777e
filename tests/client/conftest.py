"""A client of each kind and version that `python -m tests.client` installed, asking a stand-in
for its API.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.apis import MessagesApi, serving
from tests.client.client import OTHERS, Client, Other
from tests.road.agent import Agent

#: Read here: a test sees no variable of ours.
_CLIENTS = [
    Path(path) for path in os.environ.get("REFLECTOR_TEST_CLIENTS", "").split(os.pathsep) if path
]


def _installed(name: str) -> list[Path | None]:
    """The executables of a client, None for nothing that is there."""
    return [path for path in _CLIENTS if path.name == name] or [None]


def _there(path: Path | None) -> Path:
    if path is None:
        pytest.skip("this client is not installed; run: make test-clients")
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
        "test:\n\t@grep -q sum cart.py && echo '3 passed in 0.1s' || (echo '1 failed, 2 passed in "
        "0.1s'; exit 1)\n"
    )
    return agent


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with serving(MessagesApi) as api:
        yield api


@pytest.fixture(
    params=_installed("claude"), ids=lambda path: path.parents[2].name if path else "none"
)
def bare(request: pytest.FixtureRequest, agent: Agent, api: MessagesApi) -> Client:
    """A Claude Code that does not know us."""
    return Client(_there(request.param), agent, api)


@pytest.fixture
def client(bare: Client) -> Client:
    """A client after `reflector install`."""
    bare.agent.run("install")
    return bare


@pytest.fixture
def terminal_is_there() -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed: apt-get install tmux")


def of(*names: str) -> pytest.MarkDecorator:
    """Run a test with these of the other agents."""
    made = [(kind, path) for kind in OTHERS if kind.name in names for path in _installed(kind.name)]
    ids = [path.parents[2].name if path else kind.name for kind, path in made]
    return pytest.mark.parametrize("other", made, ids=ids, indirect=True)


@pytest.fixture
def other(request: pytest.FixtureRequest, agent: Agent) -> Iterator[Other]:
    """Another agent after `reflector install --agent`."""
    kind, path = request.param
    with serving(kind.stand_in) as api:
        yield kind(_there(path), agent, api)
