"""Pairs of ledgers that parted from one, as each landed version wrote them: merged both ways, they
give one playbook.

Up to c4b5c401 the changes that two machines made at one position had one event id.
`.ci/keep_parted.py` made the pairs with the code of those versions, and says which changes each of
them has.
"""

import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import slow_except
from tests.road.agent import Agent

_KEPT = Path(__file__).parent / "parted"
_FILES = sorted(path.name.removesuffix(".xz") for path in _KEPT.glob("*.xz"))
PAIRS = [name for name in _FILES if name.partition(".")[0].endswith("-a")]

REDACTED = [name for name in PAIRS if "redact" in name or "every-change" in name]
#: Texts that are live after the merge, where only one answer is right: machine B acted later.
LIVE = {
    "both-revise": {"No mocks", "Run every test", "Text of B"},
    "both-add-other-texts": {
        "Added by A",
        "Added by B",
        "No mocks",
        "Run every test",
        "Run the tests",
    },
    "both-add-one-text": {"Added by both", "No mocks", "Run every test", "Run the tests"},
    "both-remove": {"No mocks", "Run every test"},
    "both-add-and-remove": {"No mocks", "Run every test", "Run the tests"},
    "revise-and-remove": {"No mocks", "Run every test"},
    "undo-on-one-side": {"No mocks", "Run every test", "Text of B"},
    "undo-on-both-sides": {"No mocks", "Run every test", "Run the tests"},
}


#: Pairs of the newest version for the fast suite.
FAST = [
    "0009-every-change-a.db",
    "0009-both-judge-a.ndjson",
    "0009-both-merge-others-a.ndjson",
    "0009-merge-and-revise-a.ndjson",
]
#: Pairs that have one right answer.
LIVE_PAIRS = [f"0009-{case}-a.ndjson" for case in LIVE]
FAST_LIVE = [*LIVE_PAIRS[:2], "0009-undo-on-both-sides-a.ndjson"]


def machine(folder: Path, name: str) -> Agent:
    """Return a machine that has one ledger of a pair."""
    agent = Agent.bare(folder)
    content = lzma.decompress((_KEPT / f"{name}.xz").read_bytes())
    if name.endswith(".db"):
        agent.state.mkdir(parents=True, mode=0o700)
        agent.ledger.write_bytes(content)
        agent.call("ledger", "take", "--yes")
    else:
        (folder / "ledger.ndjson").write_bytes(content)
        agent.call("import", folder / "ledger.ndjson")
    return agent


def exported(agent: Agent) -> Path:
    file = agent.project.parent / "export.ndjson"
    file.write_text(agent.call("export", "--format", "ndjson").out, "utf-8")
    return file


def answers(agent: Agent) -> list[tuple[str, str, int, int]]:
    """Return each bullet's section, text and counters. Names are given out on each machine."""
    rows = json.loads(agent.call("list", "--json").out)
    return sorted((row["section"], row["text"], row["helpful"], row["harmful"]) for row in rows)


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Agent, Agent]:
    """Two machines, each with one ledger of a pair."""
    stem, _, form = request.param.partition(".")
    other = f"{stem.removesuffix('a')}b.{form}"
    return machine(tmp_path / "a", request.param), machine(tmp_path / "b", other)


def both_import(one: Agent, other: Agent) -> None:
    """Import each machine's export on the other, both as they were before."""
    ours, theirs = exported(one), exported(other)
    other.call("import", "--rename", ours)
    one.call("import", "--rename", theirs)


def import_in_turn(one: Agent, other: Agent) -> None:
    """Import one machine's export on the other, and then the merged ledger's on the first."""
    other.call("import", "--rename", exported(one))
    one.call("import", "--rename", exported(other))


def is_sound(agent: Agent) -> bool:
    return not agent.call("verify").out and not agent.call("rebuild", "--check").out


@pytest.mark.parametrize(
    ("exchange", "rounds"),
    [
        (both_import, 1),
        pytest.param(both_import, 3, marks=pytest.mark.slow),
        pytest.param(import_in_turn, 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("pair", slow_except(FAST, PAIRS), indirect=True)
def test_parted_ledgers_give_one_playbook(
    pair: tuple[Agent, Agent], exchange: Callable[[Agent, Agent], None], rounds: int
) -> None:
    one, other = pair
    for _ in range(rounds):
        exchange(one, other)
        assert answers(one) == answers(other)
        assert (
            one.json("ledger", "policy")["counting"] == other.json("ledger", "policy")["counting"]
        )
    assert is_sound(one)
    assert is_sound(other)


@pytest.mark.parametrize("pair", slow_except(FAST_LIVE, LIVE_PAIRS), indirect=True)
def test_merge_keeps_the_later_change(
    pair: tuple[Agent, Agent], request: pytest.FixtureRequest
) -> None:
    live = next(texts for case, texts in LIVE.items() if f"-{case}-a." in request.node.name)
    both_import(*pair)
    assert answers(pair[0]) == answers(pair[1])
    for agent in pair:
        assert {text for _, text, *_ in answers(agent)} == live


@pytest.mark.parametrize("pair", slow_except(FAST[:1], REDACTED), indirect=True)
def test_redacted_text_stays_erased(pair: tuple[Agent, Agent]) -> None:
    for _ in range(2):
        both_import(*pair)
    for agent in pair:
        assert "Jane Doe" not in exported(agent).read_text("utf-8")
        assert (
            "No event or file contains this text."
            in agent.call("redact", "--where", "Jane Doe", "--why", "w", "--yes").err
        )
