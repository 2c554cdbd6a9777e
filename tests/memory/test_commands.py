"""Lines that a command of a session wrote: in a commit, in the present file, and between looks."""

import time
from typing import Any

import pytest

from tests.conftest import first_fast
from tests.memory.world import World
from tests.road.agent import Agent

_HEREDOC = "cat >> CLAUDE.md <<'EOF'\n- The CI runs on Debian 12.\nEOF"
_COMMANDS = {
    "echo": ("echo '- The CI runs on Debian 12.' >> CLAUDE.md", "- The CI runs on Debian 12."),
    "heredoc": (_HEREDOC, "- The CI runs on Debian 12."),
    "quotes": ('echo "- Never use \\`sudo\\` in CI." >> CLAUDE.md', "- Never use `sudo` in CI."),
    "sed": ("sed -i 's/make test/make check/' CLAUDE.md", "- Run make check."),
    "whole-line": ("sed -i 's/^- Run make test.$/- Lint first./' CLAUDE.md", "- Lint first."),
}
_CASES = first_fast(2, [pytest.param(*case, id=name) for name, case in _COMMANDS.items()])
_ECHO, _LINE = _COMMANDS["echo"]


@pytest.fixture(params=[False, True], ids=["past", "seen"])
def agent(world: World, request: pytest.FixtureRequest) -> Agent:
    """A project without a ledger, or one whose files reflector saw before."""
    agent = Agent(world.root, world.home)
    if request.param:
        agent.open_ledger().close()
        agent.call("log", "--memory")
    return agent


def _blame(agent: Agent, text: str) -> Any:
    (line,) = [each for each in agent.json("blame", "CLAUDE.md") if each["text"] == text]
    return line


def _by(agent: Agent, text: str) -> Any:
    written = _blame(agent, text)["written"]
    return written and written["by"]


@pytest.mark.parametrize(("command", "text"), _CASES)
@pytest.mark.parametrize("is_joined", [False, True])
def test_committed_command_is_the_agents(
    world: World, agent: Agent, command: str, text: str, is_joined: bool
) -> None:
    session = world.begins()
    if is_joined:
        session.runs("CLAUDE.md", f"{command}\ngit commit -qam rules")
    else:
        session.runs("CLAUDE.md", command)
        world.git("commit", "-qam", "rules")
    session.says("Thanks.")
    line = _blame(agent, text)
    assert (line["written"]["by"], line["written"]["session"]) == ("agent", session.id)
    assert line["committed"]["commit"] == world.git("rev-parse", "HEAD").strip()


@pytest.mark.parametrize(("command", "text"), _CASES)
def test_uncommitted_command_is_the_agents(
    world: World, agent: Agent, command: str, text: str
) -> None:
    session = world.begins()
    session.runs("CLAUDE.md", command)
    session.says("Thanks.")
    assert _blame(agent, text)["written"]["session"] == session.id


def test_commit_by_command_and_hand_has_both(world: World, agent: Agent) -> None:
    world.begins().runs("CLAUDE.md", _ECHO)
    path = world.path("CLAUDE.md")
    path.write_text(path.read_text() + "- Ask before you add a dependency.\n- CI runs.\n")
    world.git("commit", "-qam", "both")
    authors = [
        _by(agent, text) for text in (_LINE, "- Ask before you add a dependency.", "- CI runs.")
    ]
    assert authors == ["agent", "commit", "commit"]


def test_edit_and_command_share_a_commit(world: World, agent: Agent) -> None:
    session = world.begins()
    session.edits("CLAUDE.md", "# Rules\n", "# Rules\n\n- Log every call.\n", shows=True)
    session.runs("CLAUDE.md", "sed -i 's/make test/make check/' CLAUDE.md")
    world.git("commit", "-qam", "both")
    assert [_by(agent, text) for text in ("- Log every call.", "- Run make check.")] == [
        "agent",
        "agent",
    ]


@pytest.mark.parametrize(
    ("command", "text"),
    first_fast(
        2,
        [
            (_ECHO, "- CI runs."),
            (_HEREDOC.replace("- The", "- Lint.\n- The"), "- Lint."),
            ("git checkout CLAUDE.md && npm test", "- Run npm test."),
            ("grep -n 'The CI runs on Debian 12.' CLAUDE.md", _LINE),
            ("sed -i 's/make test/make check/' CLAUDE.md", "- Run make lint."),
        ],
    ),
)
def test_commit_of_other_words_is_not_the_agents(
    world: World, agent: Agent, command: str, text: str
) -> None:
    world.begins().calls("Bash", command=command)
    path = world.path("CLAUDE.md")
    path.write_text(path.read_text() + f"{text}\n")
    world.git("commit", "-qam", "by hand")
    assert _by(agent, text) == "commit"


@pytest.mark.slow
def test_line_after_an_older_commit_is_yours(world: World, agent: Agent) -> None:
    """Another commit of the file is between the command and the line."""
    world.begins().runs("CLAUDE.md", _ECHO)
    world.git("checkout", "CLAUDE.md")
    path = world.path("CLAUDE.md")
    time.sleep(1 - time.time() % 1)  # git's clock has whole seconds
    for text in ("- Other words.", _LINE):
        path.write_text(path.read_text() + f"{text}\n")
        world.git("commit", "-qam", text)
        time.sleep(1 - time.time() % 1)
    assert _by(agent, _LINE) == "commit"


def test_commands_of_two_sessions_have_their_lines(world: World, agent: Agent) -> None:
    sessions = [world.begins(), world.begins()]
    texts = [f"- This is rule number {number}." for number in range(2)]
    for session, text in zip(sessions, texts, strict=True):
        session.runs("CLAUDE.md", f"echo '{text}' >> CLAUDE.md")
    world.git("commit", "-qam", "both")
    named = [_blame(agent, text)["written"]["session"] for text in texts]
    assert named == [session.id for session in sessions]


@pytest.mark.parametrize(
    ("replacements", "writers"),
    first_fast(
        1,
        [
            (("Rule 1/Law 1", "Rule 2/Law 2"), [None, None]),
            (("- Rule 1./- Use law number 1.", "- Rule 2./- Use law number 2."), [0, 1]),
        ],
    ),
)
def test_similar_commands_have_their_own_lines(
    world: World, agent: Agent, replacements: tuple[str, str], writers: list[int | None]
) -> None:
    world.path("CLAUDE.md").write_text("- Rule 1.\n\n- Rule 2.\n")
    world.git("commit", "-qam", "rules")
    time.sleep(1 - time.time() % 1)  # git's clock has whole seconds
    agent.call("log", "--memory")
    sessions = [world.begins(), world.begins()]
    for session, replacement in zip(sessions, replacements, strict=True):
        session.runs("CLAUDE.md", f"sed -i 's/{replacement}/' CLAUDE.md")
    world.git("commit", "-qam", "laws")
    names = {session.id: place for place, session in enumerate(sessions)}
    lines = agent.json("blame", "CLAUDE.md")
    assert [names.get(lines[place]["written"]["session"]) for place in (0, 2)] == writers


def test_undo_reverses_a_committed_command(world: World, agent: Agent) -> None:
    before = world.path("CLAUDE.md").read_bytes()
    world.begins().runs("CLAUDE.md", f"{_ECHO}\ngit commit -qam rules")
    agent.call("undo", "CLAUDE.md")
    assert world.path("CLAUDE.md").read_bytes() == before
