"""`reflector duplicates`, and what `add` says of a text that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.duplicates import labelled, measure
from reflector.curation.proposals import Proposal, Quote, propose
from reflector.ledger.as_of import Past
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


def project(folder: Path) -> Agent:
    """A project whose playbook has four bullets."""
    agent = Agent.in_folder(folder, _BULLETS)
    agent.call("drain")
    return agent


def proposed(agent: Agent, *changes: tuple[Change, str, Sequence[Quote]]) -> list[Proposal]:
    """Propose changes, each with where it comes from and what was said for it."""
    with Ledger.open_file(agent.ledger) as ledger:
        return [
            propose(ledger, one, origin=origin, trust="agent", reason="it came up twice", evidence=said, actor=origin)
            for one, origin, said in changes
        ]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return project(tmp_path)


def test_the_figures_of_the_page_are_those_of_the_benchmark() -> None:
    found = measure([one for one in labelled() if one.half == "held_out"])
    assert f"precision is {found['precision']} ({found['right']} of {found['proposed']} proposed)" in PAGE
    assert f"recall {found['recall']:.2f} ({found['right']} of {found['same']})" in PAGE


def test_pairs_are_shown_with_their_counters_and_proposed_once(agent: Agent) -> None:
    (pair,) = agent.json("duplicates")
    assert [(one["name"], one["helpful"], one["harmful"]) for one in pair["bullets"]] == [
        ("pat-001", 7, 1),
        ("pat-003", 2, 0),
    ]
    assert (pair["kind"], pair["proposal"]) == ("near", None)
    (first,) = agent.json("duplicates", "--propose")
    (again,) = agent.json("duplicates", "--propose")
    assert first["proposal"] == again["proposal"]
    (waiting,) = agent.json("proposals")
    assert waiting["id"] == first["proposal"]
    assert waiting["change"]["text"] == first["text"]


def test_a_contradiction_is_shown_and_never_proposed(agent: Agent) -> None:
    agent.call("add", "mis", "Never write a failing test first.")
    assert "pat-002 says the opposite" in agent.call("add", "pat", "Avoid keeping functions small.").err
    kinds = [pair["kind"] for pair in agent.json("duplicates", "--propose")]
    assert sorted(kinds) == ["contradiction", "near"]
    assert len(agent.json("proposals")) == 1


def test_of_pairs_that_share_a_bullet_one_is_proposed(agent: Agent) -> None:
    agent.call("add", "pat", "Always write the failing test first!")
    assert len(agent.json("duplicates", "--propose")) == 3
    assert len(agent.json("proposals")) == 1


def test_no_more_are_proposed_than_may_wait(tmp_path: Path) -> None:
    bullets = [
        {"name": f"pat-{2 * n + twin:03d}", "text": f"{word}Ask person x{n} about it.", "helpful": 0, "harmful": 0}
        for n in range(1, 24)
        for twin, word in enumerate(("", "Always "))
    ]
    for one in bullets:
        one["text"] = str(one["text"]).replace("Always Ask", "Always ask")
    agent = Agent.in_folder(tmp_path, {"PATTERNS & APPROACHES": bullets})
    agent.call("drain")
    assert len(agent.json("duplicates")) == 23
    agent.call("duplicates", "--propose")
    assert len(agent.json("proposals")) == 20
    assert {one["state"] for one in agent.json("proposals", "--all")} == {"waiting"}


def test_what_is_alike_is_a_note_and_no_refusal(agent: Agent) -> None:
    ran = agent.call("add", "pat", "Write a failing test first!")
    assert ran.out.startswith("[pat-004]")
    assert "pat-001 may say the same" in ran.err
    assert agent.call("add", "pref", "Write the failing tests first.").err.count("\n") == 1


def test_a_proposal_that_is_alike_is_named_in_the_list(agent: Agent) -> None:
    advice = Change("revise", "pat-002", text="Please write a failing test first.")
    proposed(agent, (advice, "agent", ()), (Change("remove", "pat-003"), "agent", ()))
    assert "pat-001 may say the same" in agent.call("proposals").err


def test_a_merge_would_count_a_session_that_tagged_both_once(agent: Agent) -> None:
    agent.call("policy", "adopt", "once_per_session", "--why", "a test")
    both = Session("s-1").cites("pat-001", "helpful").cites("pat-003", "helpful")
    agent.call("ingest", both.write(agent.project / "s.jsonl"))
    with Ledger.open_file(agent.ledger) as ledger:
        counters = Past(ledger).counters(["pat-001", "pat-003"])
        assert (counters["pat-001"][0], counters["pat-003"][0]) == (8, 3)
        assert Past(ledger).together(["pat-001", "pat-003"]) == (7 + 2 + 1, 1)


def test_the_same_text_in_two_sections_is_shown_with_the_move_and_never_proposed(agent: Agent) -> None:
    told = agent.call("add", "mis", "**Keep functions small!**").err
    assert "pat-002 may say the same (only case, punctuation or markup differ; their sections differ)" in told
    agent.call("add", "ctx", "You must always keep the functions small.")
    (pair,) = (one for one in agent.json("duplicates", "--propose") if one["move"])
    assert [one["name"] for one in pair["bullets"]] == ["mis-002", "pat-002"]
    assert (pair["kind"], pair["text"], pair["proposal"]) == ("normalised", None, None)
    assert pair["move"] == "reflector move pat-002 mis"
    assert "  to merge them, first: reflector move pat-002 mis" in agent.call("duplicates").out
    assert len(agent.json("proposals")) == 1
    agent.call("move", "mis-002", "pat")
    assert [one["move"] for one in agent.json("duplicates")] == [None, None]


def test_bullets_of_two_sections_alone_are_no_reason_to_propose_a_merge(tmp_path: Path) -> None:
    twice = {"PATTERNS & APPROACHES": [{"text": "Read the log."}], "PROJECT CONTEXT": [{"text": "Read the log."}]}
    agent = Agent.in_folder(tmp_path, twice)
    ran = agent.call("duplicates")
    assert ran.out.startswith("exact: the same text; their sections differ\n")
    assert ran.err == ""
