"""Each real client sends the files of its reader's table to the model at its start, and no other
instruction file.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.playbook_files.watching import scope_of
from reflector.transcripts.building import Load
from reflector.transcripts.readers import built_in_readers
from tests.client.apis import MessagesApi, says, serving, step
from tests.client.client import OTHERS, Client, Other
from tests.client.conftest import _installed, _there
from tests.road.agent import Agent

_MADE = [
    (kind, path)
    for kind in (Client, *OTHERS)
    for path in _installed(getattr(kind, "name", "claude"))
]
_IDS = [path.parents[2].name if path else getattr(kind, "name", "claude") for kind, path in _MADE]
_PROJECT = """
CLAUDE.md .claude/CLAUDE.md CLAUDE.local.md .claude/rules/all.md .claude/rules/sub/deep.md
.claude/rules/scoped.md AGENTS.md AGENTS.override.md .claude/AGENTS.md GEMINI.md CONTEXT.md
.github/copilot-instructions.md .github/instructions/all.instructions.md
.github/instructions/scoped.instructions.md pkg/CLAUDE.md pkg/AGENTS.md pkg/GEMINI.md
""".split()
_USER = """
.claude/CLAUDE.md .claude/rules/mine.md .codex/AGENTS.md .codex/AGENTS.override.md
.gemini/GEMINI.md .copilot/copilot-instructions.md .copilot/instructions/my.instructions.md
.config/opencode/AGENTS.md .pi/agent/AGENTS.md .pi/agent/CLAUDE.md
""".split()
_HEADS = {
    "scoped": '---\npaths: "none/**"\napplyTo: "none/**"\n---\n',
    "all": '---\napplyTo: "**"\n---\n',
}
_SAY = "say hi to the tester"


@pytest.fixture(params=_MADE, ids=_IDS)
def loader(
    request: pytest.FixtureRequest, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client | Other]:
    kind, path = request.param
    with serving(getattr(kind, "stand_in", MessagesApi)) as api:
        made = kind(_there(path), agent, api)
        monkeypatch.setenv("HOME", str(agent.home))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        if kind is Client:
            monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(made.config))
        yield made


def _mark(path: Path) -> str:
    return f"mark-{abs(hash(str(path)))}-end"


def _write(folder: Path, names: list[str]) -> set[Path]:
    """Write a file of each name with a mark of its own."""
    paths = {folder / name for name in names}
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        head = _HEADS.get(path.name.partition(".")[0], "")
        path.write_text(f"{head}- {_mark(path)}\n")
    return paths


def _named_by(loads: tuple[Load, ...], folder: Path) -> set[Path]:
    """Return the files of a table that are there for every session."""
    files = (load.files_in(folder) for load in loads if not load.replacement_in(folder))
    return {path for group in files for path in group if not scope_of(path.read_text())}


@pytest.mark.parametrize(
    "missing",
    [
        "",
        "CLAUDE.md",
        "CLAUDE.md .claude/CLAUDE.md CLAUDE.local.md",
        "AGENTS.override.md",
        "AGENTS.override.md AGENTS.md",
        "CLAUDE.md AGENTS.md GEMINI.md .github/copilot-instructions.md",
    ],
)
def test_client_loads_the_files_of_its_table(loader: Client | Other, missing: str) -> None:
    agent = loader.agent
    option = getattr(loader, "name", "claude")
    (reader,) = (each for each in built_in_readers() if option in (each.option, each.agent))
    own = reader.loads.own.folder
    written = _write(agent.project, [name for name in _PROJECT if name not in missing.split()])
    written |= _write(agent.home, _USER) | _write(own, ["CLAUDE.md"] if option == "claude" else [])
    loader.api.when(_SAY, step(says("hi")))
    loader.prints(_SAY)
    sent = json.dumps(loader.api.asked)
    loaded = {path for path in written if _mark(path) in sent}
    expected = _named_by(reader.loads.project, agent.project) | _named_by(reader.loads.user, own)
    assert loaded == expected
