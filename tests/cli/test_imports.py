"""The modules that everyday commands may load: each is paid at every start of the command."""

import sys
from pathlib import Path

import pytest

import reflector
from tests.conftest import first_fast
from tests.road.agent import Agent

_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(reflector.__file__).parents[1])!r}); "
    "from reflector.cli import main; main(); print(*sys.modules, file=sys.stderr)"
)
#: Libraries that no everyday command needs.
_LIBRARIES = {"alembic", "anthropic", "pydantic", "rich", "sqlalchemy"}
#: Modules of Python that cost 1 ms or more, and modules of ours that load many others.
_HEAVY = """
    decimal difflib hashlib shutil subprocess reflector.attribution
    reflector.audit.blame reflector.changes reflector.check reflector.counts reflector.curator
    reflector.embed reflector.exchange reflector.hooks.install reflector.instructions.kinds
    reflector.judges.registry reflector.memory reflector.playbook.document
    reflector.playbook.markdown reflector.proof reflector.quality reflector.reflection
    reflector.sessions.drain reflector.sessions.injection reflector.transcripts.building
    reflector.transcripts.citations reflector.trials.trial
"""
_OF_STATUS = """
    reflector.hooks.install reflector.judges.registry reflector.playbook.document
    reflector.reflection reflector.sessions.injection
"""
_OF_ADD = """
    hashlib reflector.changes reflector.exchange reflector.memory reflector.playbook.document
    reflector.sessions.drain reflector.sessions.injection reflector.transcripts.building
"""


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project with a judged session, in which nothing happened since the last question."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("quiet"))
    agent.counted()
    agent.call("list")
    return agent


@pytest.mark.parametrize(
    ("command", "may_load"),
    first_fast(
        3,
        [
            ("list", ""),
            ("log", "reflector.changes"),
            ("show pat-001", "hashlib reflector.audit.blame"),
            ("show s-1", "decimal"),
            ("blame pat-001", "hashlib reflector.audit.blame reflector.transcripts.building"),
            ("status", _OF_STATUS),
            ("add pat 'Name each test after its behaviour.'", _OF_ADD),
        ],
    ),
    ids=lambda text: text.split(" ")[0],
)
def test_everyday_command_loads_only_what_it_needs(
    quiet: Agent, command: str, may_load: str
) -> None:
    loaded = _loaded(quiet, command)
    assert loaded.isdisjoint(_LIBRARIES)
    assert loaded.intersection(_HEAVY.split()) == set(may_load.split())


def test_drain_without_a_judge_loads_no_judge(quiet: Agent) -> None:
    assert _loaded(quiet, "drain").isdisjoint({"asyncio", "reflector.judges.agent_clients"})


@pytest.mark.parametrize("command", first_fast(1, ["review", "review find"]))
def test_review_loads_no_library(quiet: Agent, command: str) -> None:
    assert _loaded(quiet, command).isdisjoint(_LIBRARIES)


@pytest.mark.parametrize("command", first_fast(1, ["check", "list"]))
def test_command_before_a_ledger_loads_no_library(tmp_path: Path, command: str) -> None:
    agent = Agent.bare(tmp_path)
    (agent.project / "CLAUDE.md").write_text("- Run the tests before you commit.\n")
    assert _loaded(agent, command).isdisjoint(_LIBRARIES)


def _loaded(agent: Agent, command: str) -> set[str]:
    """Return the modules that a process of a command imported."""
    program = [sys.executable, "-I", "-c", _PROGRAM]
    _, err = agent.start(*command.split(" ", 2), program=program).communicate()
    loaded = set(err.split())
    assert "reflector.cli.app" in loaded
    return loaded
