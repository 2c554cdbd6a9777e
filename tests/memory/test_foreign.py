"""Changes that another ledger brought: their files are written only if agents load them here."""

from pathlib import Path

import pytest

from reflector.attribution.steps import plain_digest
from reflector.events.event import MEMORY_CHANGED, NewEvent, identity
from reflector.files import Folder
from reflector.ledger.errors import LedgerError
from reflector.memory.changes import Store
from reflector.project import Project
from reflector.sessions.memory_drain import bring_up_to_date
from tests.conftest import first_fast
from tests.road.agent import Agent, environ


def _event(file: str, after: bytes, before: str = "") -> NewEvent:
    lines = [{"line": 1, "text": line} for line in after.decode().splitlines()]
    texts = dict.fromkeys(("agent", "session", "call", "commit", "author"), "x")
    facts = {
        "file": file,
        "kind": "edited" if before else "created",
        "before": before,
        "after": plain_digest(after),
        "added": lines,
        "removed": [{"line": 1, "text": "evil"}] if before else [],
        "by": "agent",
        "source": "look",
        **texts,
    }
    return NewEvent(MEMORY_CHANGED, identity(MEMORY_CHANGED, file), facts, "memory")


@pytest.mark.parametrize("before", ["", "1" * 64])
@pytest.mark.parametrize(
    "file", first_fast(2, [".git/config", "src/main.py", "~/notes.md", ".claude/settings.json"])
)
def test_other_file_is_not_written(agent: Agent, file: str, before: str) -> None:
    path = Path(agent.project, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine\n")
    with environ(agent.env()), agent.open_ledger() as ledger:
        (appended,) = ledger.append([_event(file, b"mine\n", before)])
    refused = agent.call("undo", str(appended.position), "--yes", code=1)
    assert path.read_bytes() == b"mine\n"
    assert "agents do not load or write this file" in refused.err


@pytest.mark.parametrize("file", ["../CLAUDE.md", "a/../CLAUDE.md", "./CLAUDE.md", "a//b.md", ""])
def test_path_of_an_event_is_checked(agent: Agent, file: str) -> None:
    with (
        environ(agent.env()),
        agent.open_ledger() as ledger,
        pytest.raises(LedgerError, match="must be a path"),
    ):
        ledger.append([_event(file, b"mine\n")])


def test_link_to_another_file_is_not_written(agent: Agent) -> None:
    config = agent.project / "config"
    config.write_bytes(b"mine\n")
    (agent.project / "CLAUDE.md").symlink_to("config")
    with environ(agent.env()), agent.open_ledger() as ledger:
        (appended,) = ledger.append([_event("CLAUDE.md", b"mine\n", "1" * 64)])
    agent.call("undo", str(appended.position), "--yes", code=1)
    assert config.read_bytes() == b"mine\n"


@pytest.mark.parametrize("below", ["..", "inner/..", "./inner"])
def test_folder_has_no_way_up(tmp_path: Path, below: str) -> None:
    (tmp_path / "inner").mkdir()
    with pytest.raises(OSError, match="instead of a folder"):
        Folder(f"{tmp_path}/{below}", str(tmp_path))


def test_whole_path_names_no_file(agent: Agent) -> None:
    with environ(agent.env()), agent.open_ledger() as ledger:
        store = Store(Project.at(agent.project), ledger)
        assert store.watched("CLAUDE.md") is not None
        assert store.watched(str(agent.project / "CLAUDE.md")) is None


def test_whole_path_is_no_project_change(agent: Agent) -> None:
    path = agent.project / "CLAUDE.md"
    path.write_bytes(b"mine\n")
    with environ(agent.env()), agent.open_ledger() as ledger:
        (appended,) = ledger.append([_event(str(path), b"mine\n")])
    assert agent.json("log", "--memory") == []
    agent.call("undo", str(appended.position), code=2)
    assert path.read_bytes() == b"mine\n"


def test_undo_passes_over_a_version_from_elsewhere(agent: Agent) -> None:
    path = agent.project / "CLAUDE.md"
    with environ(agent.env()), agent.open_ledger() as ledger:
        path.write_bytes(b"theirs\n")
        bring_up_to_date(Project.at(agent.project), ledger)
        path.write_bytes(b"mine\n")
        bring_up_to_date(Project.at(agent.project), ledger)
        ledger.append([_event("CLAUDE.md", b"newer\n", plain_digest(b"theirs\n"))])
    agent.call("undo", "CLAUDE.md")
    assert path.read_bytes() == b"theirs\n"
