"""`reflector proposals`: what `find` proposes, and the one key that decides; a person decides on all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.duplicates import labelled, measure
from reflector.curation.proposals import Proposal, Quote, propose
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.pages import section
from tests.road.agent import Agent
from tests.road.sessions import Session

PAGE = section("editing.md", "Proposals and duplicates")
_BULLETS = {
    "PATTERNS & APPROACHES": [
        {"name": "pat-001", "text": "Write the failing test first.", "helpful": 7, "harmful": 1},
        {"name": "pat-002", "text": "Keep functions small.", "helpful": 1, "harmful": 4},
        {"name": "pat-003", "text": "You must always write a failing test first.", "helpful": 2, "harmful": 0},
    ],
    "MISTAKES TO AVOID": [
        {"name": "mis-001", "text": "Mocking the database hides broken migrations.", "helpful": 0, "harmful": 0}
    ],
}
_SAID = Quote("No! Always run the linter before you commit, I said so yesterday.", "person", "5f2a91c0-77d1")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    agent = Agent.in_folder(tmp_path, _BULLETS)
    agent.call("list")
    return agent


def proposed(agent: Agent, *changes: Change, evidence: Sequence[Quote] = ()) -> list[Proposal]:
    with Ledger.open_file(agent.ledger) as ledger:
        return [
            propose(ledger, one, origin="agent", trust="agent", reason="seen", evidence=evidence, actor="agent")
            for one in changes
        ]


def pairs(agent: Agent, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = agent.json("proposals", "find", *options)["duplicates"]
    return found


def due(agent: Agent, *options: str) -> list[str]:
    return [one["name"] for one in agent.json("proposals", "find", "--dry-run", *options)["removals"]]


def test_the_figures_of_the_page_are_those_of_the_benchmark() -> None:
    found = measure([one for one in labelled() if one.half == "held_out"])
    assert f"precision is {found['precision']} ({found['right']} of {found['proposed']} proposed)" in PAGE
    assert f"recall {found['recall']:.2f} ({found['right']} of {found['same']})" in PAGE


def test_pairs_and_what_harms_are_proposed_once(agent: Agent) -> None:
    (pair,) = pairs(agent, "--dry-run")
    assert (pair["kind"], pair["proposal"], due(agent)) == ("near", None, ["pat-002"])
    assert [event["type"] for event in agent.events()] == ["playbook.imported"]
    first = agent.json("proposals", "find")
    assert agent.json("proposals", "find") == first
    merge, removal = agent.json("proposals")
    assert (merge["id"], merge["change"]["text"]) == (first["duplicates"][0]["proposal"], pair["text"])
    assert (removal["reason"], first["removals"][0]["state"]) == ("harmful 4, helpful 1", "waiting")
    agent.call("proposals", "reject", removal["id"], "--why", "we need it")
    assert agent.json("proposals", "find")["removals"][0]["state"] == "rejected"
    assert "pat-002" in agent.counters()


def test_with_the_setting_what_harms_goes_at_once_and_says_why(agent: Agent) -> None:
    (agent.claude / "reflector.toml").write_text('prune = "apply"\n')
    assert "prune is 'apply', which is yours to say" in agent.call("proposals", "find", code=2).err
    (agent.claude / "reflector.toml").unlink()
    agent.environ["REFLECTOR_PRUNE"] = "apply"
    assert "Bring one back with: reflector undo pat-002" in agent.call("proposals", "find").err
    assert agent.json("show", "pat-002")["reason"] == "pruned: harmful 4, helpful 1"
    agent.call("undo", "pat-002")
    assert agent.counters()["pat-002"] == (1, 4)


def test_what_was_told_and_never_cited_is_due_and_what_was_not_told_is_not(agent: Agent) -> None:
    agent.environ["REFLECTOR_PRUNE_AFTER"] = "3"
    printed = agent.hook("SessionStart")
    for number in range(3):
        session = Session(f"s-{number}").starts(printed).cites("pat-001", None)
        agent.call("ingest", session.write(agent.home / f"{number}.jsonl"))
    assert due(agent) == ["pat-002", "mis-001"]
    agent.call("config", "set", "pinned", "mis-001")
    assert due(agent) == ["pat-002"]


def test_a_contradiction_and_a_pair_of_two_sections_are_shown_and_never_proposed(agent: Agent) -> None:
    agent.call("add", "mis", "Never write a failing test first.")
    assert "pat-002 says the opposite" in agent.call("add", "pat", "Avoid keeping functions small.").err
    told = agent.call("add", "mis", "**Keep functions small!**").err
    assert "pat-002 may say the same (only case, punctuation or markup differ; their sections differ)" in told
    kinds = {str(pair["kind"]): pair for pair in pairs(agent)}
    assert set(kinds) >= {"contradiction", "near", "normalised"}
    assert kinds["normalised"]["move"] == "reflector revise pat-002 --section mis"
    assert [one["change"]["kind"] for one in agent.json("proposals")] == ["merge", "remove"]


def test_no_more_are_proposed_than_may_wait(tmp_path: Path) -> None:
    bullets = [
        {"name": f"pat-{2 * n + twin:03d}", "text": f"{word}sk person x{n} about it.", "helpful": 0, "harmful": 0}
        for n in range(1, 24)
        for twin, word in enumerate(("A", "Always a"))
    ]
    agent = Agent.in_folder(tmp_path, {"PATTERNS & APPROACHES": bullets})
    assert len(pairs(agent)) == 23
    assert [one["state"] for one in agent.json("proposals", "--all")] == ["waiting"] * 20


def test_what_is_alike_is_a_note_and_no_refusal(agent: Agent) -> None:
    ran = agent.call("add", "pat", "Write a failing test first!")
    assert ran.out.startswith("[pat-004]")
    assert "pat-001 may say the same" in ran.err
    proposed(agent, Change("revise", "pat-002", text="Please write a failing test first."))
    assert "pat-001 may say the same" in agent.call("proposals").err


def test_one_key_decides_and_each_decision_is_written_at_once(agent: Agent) -> None:
    add = Change("add", section="pat", text="Run the linter before you commit.")
    merge = Change("merge", names=("pat-001", "pat-003"), section="pat", text="Write the failing test first.")
    proposed(agent, add, Change("remove", "pat-002"), merge, evidence=[_SAID])
    process = agent.start("proposals", "decide", stdin=-1)
    out, err = process.communicate("a\nr\nu\nl\nk\n")
    assert process.returncode == 0
    assert "words of the agent" in out
    assert "“No! Always run the linter before you commit" in out
    assert "[pat-004] helpful=0 harmful=0 :: Run the linter before you commit." in out
    assert "2 decided; 1 proposal left." in err
    states = [one["state"] for one in agent.json("proposals", "--all")]
    assert sorted(states) == ["approved", "kept", "rejected", "waiting"]
    assert pairs(agent, "--dry-run") == []


def test_the_end_of_the_input_quits_and_nothing_waits_for_nobody(agent: Agent) -> None:
    assert "No proposal waits" in agent.call("proposals", "decide").err
    proposed(agent, Change("remove", "pat-002"))
    process = agent.start("proposals", "decide", stdin=-1)
    _, err = process.communicate("")
    assert (process.returncode, "0 decided; 1 proposal left." in err) == (0, True)


def test_a_bullet_that_was_told_often_since_it_helped_is_shown_as_demoted(agent: Agent) -> None:
    printed = agent.hook("SessionStart")
    paths = [
        Session(f"s-{number}").starts(printed).cites("pat-002", None).write(agent.home / f"{number}.jsonl")
        for number in range(20)
    ]
    agent.call("ingest", *paths)
    assert "demoted: told 20 times since it last helped" in agent.call("show", "pat-001").out
    (one,) = [one for one in agent.json("list") if one["name"] == "mis-001"]
    assert (one["told_sessions"], one["demoted"]) == (20, "told 20 times and never helped")
    agent.call("config", "set", "pinned", "mis-001")
    assert agent.json("show", "mis-001")["demoted"] is None
