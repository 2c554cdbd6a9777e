"""Heads are published and prove later that nothing before them was changed."""

from __future__ import annotations

import pytest

from reflector.ledger.store import Ledger
from reflector.proof.heads import NoAnchor, anchors_in, head_at
from tests.ledger.events import history
from tests.road.agent import Agent


@pytest.fixture
def grown(agent: Agent) -> Agent:
    """A project whose head was written down after each of three sessions."""
    for number in range(3):
        agent.counted(id=f"s-{number}")
        with (agent.project / "heads.txt").open("a") as file:
            file.write(agent.call("ledger", "head").out)
    return agent


def test_every_head_of_a_file_is_proved_and_a_single_one_as_well(grown: Agent) -> None:
    heads = (grown.project / "heads.txt").read_text().splitlines()
    assert len({*heads}) == 3
    for anchor in (str(grown.project / "heads.txt"), *heads):
        assert grown.call("verify", "--anchor", anchor).out == ""
    assert grown.call("ledger", "head", "--as-of", heads[0].split(":")[0]).out.strip() == heads[0]
    (grown.project / "head.json").write_text(grown.call("ledger", "head", "--json").out)
    grown.call("verify", "--anchor", grown.project / "head.json")


def test_a_ledger_that_was_begun_anew_is_found_by_each_head_of_the_old_one(grown: Agent) -> None:
    for path in grown.state.glob("ledger.db*"):
        path.unlink()
    grown.counted(id="other")
    told = grown.call("verify", "--anchor", grown.project / "heads.txt", code=1).out
    assert told.count("[anchor]") == 3


def test_a_file_with_anything_but_heads_is_refused(grown: Agent) -> None:
    for text in ("", "# nothing\n", "hello", "3:pl1:abc", "{}", "{", "\0"):
        (grown.project / "bad.txt").write_text(text)
        assert "--anchor" in grown.call("verify", "--anchor", grown.project / "bad.txt", code=2).err
    good = (grown.project / "heads.txt").read_text()
    (grown.project / "bad.txt").write_text(f"{good}and more\n")
    assert "'and more'" in grown.call("verify", "--anchor", grown.project / "bad.txt", code=2).err
    (grown.project / "good.txt").write_text(f"# weekly\n\n{good}")
    grown.call("verify", "--anchor", grown.project / "good.txt")


def test_the_head_of_each_position_is_that_of_then(ledger: Ledger) -> None:
    heads = []
    for event in history()[:4]:
        heads.append(ledger.head())
        ledger.append([event])
    assert [head_at(ledger, n).chain for n in range(4)] == [head.chain for head in heads]
    with pytest.raises(NoAnchor, match="ends at 4"):
        head_at(ledger, 5)


def test_a_head_is_read_with_its_position() -> None:
    chain = "pl1:" + "0a" * 32
    assert [(a.position, a.chain) for a in anchors_in(f"7:{chain}\n\n8:{chain}")] == [(7, chain), (8, chain)]
