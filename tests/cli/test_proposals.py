"""`reflector proposals`: what `find` proposes, and the one key that decides; a person decides on
all of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.duplicates import labelled, measure
from reflector.changes.propose import Proposal, Quote, propose
from reflector.playbook.change import Change
from tests.ledger.events import reflected, window
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.test_docs import section

PAGE = section("editing.md", "Proposals and duplicates")
_BULLETS = {
    "PATTERNS & APPROACHES": [
        {"name": "pat-001", "text": "Write the failing test first.", "helpful": 7, "harmful": 1},
        {"name": "pat-002", "text": "Keep functions small.", "helpful": 1, "harmful": 4},
        {
            "name": "pat-003",
            "text": ("You must always write a failing test first."),
            "helpful": 2,
            "harmful": 0,
        },
    ],
    "MISTAKES TO AVOID": [
        {"name": "mis-001", "text": ("Mocks hide broken migrations."), "helpful": 0, "harmful": 0}
    ],
}
_SAID = Quote(
    ("No! Always run the linter before you commit, I said so yesterday."), "person", "5f2a91c0-77d1"
)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project in which nine sessions of nine said that a bullet harmed; what its file counts
    is not evidence.
    """
    agent = Agent.in_folder(tmp_path, _BULLETS)
    agent.call("list")
    with agent.open_ledger() as ledger:
        for number in range(9):
            seen = window(number, f"h-{number}")
            ledger.append([seen, *reflected(f"r{number}", seen, ("pat-002", "harmful"))])
    return agent


def proposed(agent: Agent, *changes: Change, evidence: Sequence[Quote] = ()) -> list[Proposal]:
    with agent.open_ledger() as ledger:
        return [
            propose(
                ledger,
                one,
                origin="agent",
                trust="agent",
                reason="seen",
                evidence=evidence,
                actor="agent",
            )
            for one in changes
        ]


def pairs(agent: Agent, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = agent.json("proposals", "find", *options)["duplicates"]
    return found


def due(agent: Agent, *options: str) -> list[str]:
    return [
        one["name"] for one in agent.json("proposals", "find", "--dry-run", *options)["removals"]
    ]


def test_the_figures_of_the_page_are_those_of_the_benchmark() -> None:
    found = measure([one for one in labelled() if one.half == "held_out"])
    assert (
        f"precision is {found['precision']} ({found['right']} of {found['proposed']} proposed)"
    ) in PAGE
    assert f"recall {found['recall']:.2f} ({found['right']} of {found['same']})" in PAGE


def test_pairs_and_what_harms_are_proposed_once(agent: Agent) -> None:
    (pair,) = pairs(agent, "--dry-run")
    assert (pair["kind"], pair["proposal"], due(agent)) == ("near", None, ["pat-002"])
    assert agent.events("change.proposed") == []
    first = agent.json("proposals", "find")
    assert agent.json("proposals", "find") == first
    merge, removal = agent.json("proposals")
    assert (merge["id"], merge["change"]["text"]) == (
        first["duplicates"][0]["proposal"],
        pair["text"],
    )
    assert removal["reason"] == "harmful 9, helpful 0, too often for chance"
    assert first["removals"][0]["state"] == "waiting"
    agent.call("proposals", "reject", removal["id"], "--why", "we need it")
    assert agent.json("proposals", "find")["removals"][0]["state"] == "rejected"
    assert "pat-002" in agent.counters()


def test_with_the_setting_what_harms_goes_at_once_and_says_why(agent: Agent) -> None:
    (agent.claude / "reflector.toml").write_text('prune = "apply"\n')
    assert "prune is 'apply', which is yours to say" in agent.call("proposals", "find", code=2).err
    (agent.claude / "reflector.toml").unlink()
    agent.environ["REFLECTOR_PRUNE"] = "apply"
    assert "Bring one back with: reflector undo pat-002" in agent.call("proposals", "find").err
    assert agent.json("show", "pat-002")["reason"] == (
        "pruned: harmful 9, helpful 0, too often for chance"
    )


def test_what_was_told_often_and_never_cited_is_due_and_shown_as_demoted(agent: Agent) -> None:
    agent.environ["REFLECTOR_PRUNE_AFTER"] = "3"
    printed = agent.hook("SessionStart")
    sessions = [
        Session(f"s-{number}").starts(printed).cites("pat-002", None) for number in range(20)
    ]
    agent.call("ingest", *(one.write(agent.home / f"{one.id}.jsonl") for one in sessions))
    assert "demoted: shown 20 times since it last helped" in agent.call("show", "pat-001").out
    (one,) = [one for one in agent.json("list") if one["name"] == "mis-001"]
    assert (one["told_sessions"], one["demoted"]) == (20, "shown 20 times and never helped")
    assert due(agent) == ["pat-002", "mis-001"]
    agent.call("config", "set", "pinned", "mis-001")
    assert due(agent) == ["pat-002"]


def test_a_contradiction_and_a_pair_of_two_sections_are_shown_and_never_proposed(
    agent: Agent,
) -> None:
    agent.call("add", "mis", "Never write a failing test first.")
    assert (
        "pat-002 says the opposite"
        in agent.call("add", "pat", ("Avoid keeping functions small.")).err
    )
    told = agent.call("add", "mis", "**Keep functions small!**").err
    assert (
        "pat-002 may say the same (only case, punctuation or markup differ; their sections differ)"
    ) in told
    kinds = {str(pair["kind"]): pair for pair in pairs(agent)}
    assert set(kinds) >= {"contradiction", "near", "normalised"}
    assert kinds["normalised"]["move"] == "reflector revise pat-002 --section mis"
    assert [one["change"]["kind"] for one in agent.json("proposals")] == ["merge", "remove"]


def test_one_key_decides_and_each_decision_is_written_at_once(agent: Agent) -> None:
    assert "No proposal waits" in agent.call("proposals", "decide").err
    add = Change("add", section="pat", text="Run the linter before you commit.")
    merge = Change(
        "merge", names=("pat-001", "pat-003"), section="pat", text="Write the failing test first."
    )
    proposed(agent, add, Change("remove", "pat-002"), merge, evidence=[_SAID])
    ran = agent.call("proposals", "decide", typed="a\nl\nk\n")
    assert "“No! Always run the linter before you commit" in ran.out
    assert "[pat-004] helpful=0 harmful=0 :: Run the linter before you commit." in ran.out
    menus = [line for line in ran.out.splitlines() if line.startswith("[a]pprove")]
    assert [[*re.findall(r"\[(.)\]", menu)] for menu in menus] == [
        [*"aerlq"],
        [*"arlq"],
        [*"aerklq"],
    ]
    assert "2 decided; 1 proposal left." in ran.err
    assert "0 decided; 1 proposal left." in agent.call("proposals", "decide", typed="").err
    states = [one["state"] for one in agent.json("proposals", "--all")]
    assert sorted(states) == ["approved", "kept", "waiting"]
    assert pairs(agent, "--dry-run") == []


def test_proposals_are_decided_together_each_by_itself_and_say_what_became_of_them(
    agent: Agent,
) -> None:
    changes = [Change("add", section="oth", text=f"Advice {n}.") for n in range(4)]
    both = Change("merge", names=("pat-001", "mis-001"), section="pat", text="Both.")
    ids = [one.id for one in proposed(agent, *changes, both)]
    assert (
        "Decide: reflector proposals decide, or approve ID or reject ID"
        in agent.call("proposals").err
    )
    told = agent.call("proposals", "approve", ids[0], "zz", ids[1], code=1)
    assert told.out == (
        "[oth-001] helpful=0 harmful=0 :: Advice 0.\n[oth-002] helpful=0 harmful=0 :: Advice 1.\n"
    )
    assert "no proposal's id begins with 'zz'" in told.err
    agent.call("undo", "oth-001")
    agent.call("proposals", "approve", ids[2], "--text", "Better advice.")
    agent.call("proposals", "reject", ids[3], "--why", "it is wrong")
    agent.call("proposals", "reject", ids[4], "--keep")
    states = [
        re.split("  +", line)[2] for line in agent.call("proposals", "--all").out.splitlines()
    ]
    assert states == ["state", "undone", "approved", "approved", "rejected", "kept"]
    assert "was approved already" in agent.call("proposals", "reject", ids[1], code=1).err
