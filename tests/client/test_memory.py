"""Real clients that change rules and write memory: who wrote a line, and one command back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.apis import MessagesApi, calls, serving, step
from tests.client.client import OTHERS, Client, Codex, Gemini, Other
from tests.client.conftest import _installed, _there
from tests.road.agent import Agent

_REMEMBER = "Remember that the shop counts in euros."
_BEFORE = "- Test first.\n"
_ADDED = "- Count in euros.\n"
#: The file of rules that each client reads, where it is not AGENTS.md.
_FILES = {"claude": "CLAUDE.md", "gemini": "GEMINI.md"}
_MADE = [
    (kind, path)
    for kind in (Client, *OTHERS)
    for path in _installed(getattr(kind, "name", "claude"))
]
_IDS = [path.parents[2].name if path else getattr(kind, "name", "claude") for kind, path in _MADE]


def _name_of(client: Client | Other) -> str:
    return getattr(client, "name", "claude")


def _rules(client: Client | Other) -> Path:
    return client.agent.project / _FILES.get(_name_of(client), "AGENTS.md")


def _memory(client: Client | Other) -> Path:
    """A file of the client's own memory, which is not below the project."""
    agent = client.agent
    if isinstance(client, Client):
        slug = str(agent.project).replace("/", "-").replace("_", "-")
        return client.config / "projects" / slug / "memory/MEMORY.md"
    return agent.home / (
        ".codex/memories/shop.md" if client.name == "codex" else ".gemini/GEMINI.md"
    )


@pytest.fixture(params=_MADE, ids=_IDS)
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client | Other]:
    """A client with our hooks in a project of one committed rule, after a first session. The
    user's own files are recorded, too.
    """
    kind, path = request.param
    agent = Agent.in_folder(tmp_path)
    with serving(getattr(kind, "stand_in", MessagesApi)) as api:
        client = kind(_there(path), agent, api)
        if kind is Client:
            agent.run("install")
        agent.call("config", "set", "--global", "memory_user", "true")
        _rules(client).write_text(_BEFORE)
        agent.commit_long_ago()
        client.prints("Hello.")
        client.settle()
        yield client


def _appends(file: Path) -> dict[str, Any]:
    words = f"printf -- '{_ADDED.strip()}\\n' >> {file}"
    return calls("Bash", command=words, description="Add it")


def _own_tool(client: Client | Other, file: Path) -> dict[str, Any]:
    """The call with which the client writes a file: of its editor, if its model has one."""
    if isinstance(client, Codex):
        patch = f"*** Begin Patch\n*** Add File: {file}\n+{_ADDED}*** End Patch"
        return calls("Bash", command=f"apply_patch <<'EOF'\n{patch}\nEOF")
    if isinstance(client, Gemini):
        return calls("write_file", file_path=str(file), content=_ADDED)
    return calls("Write", file_path=str(file), content=_ADDED)


def _flags(client: Client | Other) -> list[str]:
    return ["--allowedTools", "Bash", "Write"] if isinstance(client, Client) else []


def _told(client: Client | Other, call: dict[str, Any]) -> None:
    """Let the client do what it is told by one call, to the end of its session."""
    name = client.api.shell if call["name"] == "Bash" else call["name"]
    client.api.when(_REMEMBER, step({**call, "name": name}))
    client.prints(_REMEMBER, *_flags(client))
    client.settle()


def test_line_of_a_client_names_its_session(keeper: Client | Other) -> None:
    rules = _rules(keeper)
    _told(keeper, _appends(rules))
    assert rules.read_text() == _BEFORE + _ADDED
    assert _REMEMBER in keeper.agent.call("blame", f"{rules.name}:2").out


def test_line_of_a_client_is_taken_back(keeper: Client | Other) -> None:
    rules = _rules(keeper)
    _told(keeper, _appends(rules))
    keeper.agent.call("undo", rules.name)
    assert rules.read_text() == _BEFORE


@pytest.mark.parametrize("keeper", _MADE[:3], ids=_IDS[:3], indirect=True)
def test_own_memory_is_recorded_and_taken_back(keeper: Client | Other) -> None:
    file = _memory(keeper)
    file.parent.mkdir(parents=True, exist_ok=True)
    _told(keeper, _own_tool(keeper, file))
    assert file.read_text() == _ADDED
    name = str(file).replace(str(keeper.agent.home), "~")
    assert _REMEMBER in keeper.agent.call("blame", f"{name}:1").out
    keeper.agent.call("undo", name)
    assert not file.exists()
