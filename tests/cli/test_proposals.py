"""`reflector review` of proposals: those that `find` makes, and your decisions on them."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.duplicates import labelled, measure
from reflector.changes.propose import Proposal, Quote, propose
from reflector.playbook.change import Change
from tests.ledger.events import reflected, window
from tests.reading import section
from tests.road.agent import REFLECTOR, Agent
from tests.road.sessions import Session

PAGE = section("editing.md", "Proposals and duplicates")
_BULLETS = {
    "PATTERNS & APPROACHES": [
        {"name": "pat-001", "text": "Write the failing test first.", "helpful": 7, "harmful": 1},
        {"name": "pat-002", "text": "Keep functions small.", "helpful": 1, "harmful": 4},
        {
            "name": "pat-003",
            "text": "You must always write a failing test first.",
            "helpful": 2,
            "harmful": 0,
        },
    ],
    "MISTAKES TO AVOID": [
        {"name": "mis-001", "text": "Mocks hide broken migrations.", "helpful": 0, "harmful": 0}
    ],
}
_SAID = Quote(
    "No! Always run the linter before you commit, I said so yesterday.", "person", "5f2a91c0-77d1"
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


def waiting(agent: Agent, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.json("review", *words)["proposals"]
    return found


def pairs(agent: Agent, *options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = agent.json("review", "find", *options)["duplicates"]
    return found


def due(agent: Agent, *options: str) -> list[str]:
    return [one["name"] for one in agent.json("review", "find", "--dry-run", *options)["removals"]]


def test_page_has_the_figures_of_the_benchmark() -> None:
    found = measure([one for one in labelled() if one.half == "held_out"])
    page = " ".join(PAGE.split())
    right = found["right"]
    precision = (
        f"All {right} pairs that `review find` proposed were duplicates (precision "
        f"{found['precision']})"
    )
    assert found["proposed"] == right
    assert precision in page
    recall = f"found {right} of the {found['same']} duplicates (recall {found['recall']:.2f})"
    assert recall in page


def test_pairs_and_harmful_rules_are_proposed_once(agent: Agent) -> None:
    (pair,) = pairs(agent, "--dry-run")
    assert (pair["kind"], pair["proposal"], due(agent)) == ("near", None, ["pat-002"])
    assert agent.events("change.proposed") == []
    first = agent.json("review", "find")
    assert agent.json("review", "find") == first
    merge, removal = waiting(agent)
    assert (merge["id"], merge["change"]["text"]) == (
        first["duplicates"][0]["proposal"],
        pair["text"],
    )
    assert removal["reason"] == "harmful 9, helpful 0: chance does not explain the difference"
    assert first["removals"][0]["state"] == "waiting"
    agent.call("review", "reject", removal["id"], "--why", "we need it")
    assert agent.json("review", "find")["removals"][0]["state"] == "rejected"
    assert "pat-002" in agent.counters()


def test_find_pushes_no_proposal_away(agent: Agent) -> None:
    texts = [f"Advice number {number}." for number in range(20)]
    proposed(agent, *(Change("add", section="oth", text=text) for text in texts))
    agent.call("review", "find")
    assert [one["change"]["text"] for one in waiting(agent)] == texts


def test_pairs_that_share_a_rule_are_one_merge(agent: Agent) -> None:
    agent.call("add", "pat", "Always write the failing test first!")
    assert len(pairs(agent)) > 1
    kinds = [one["change"]["kind"] for one in waiting(agent)]
    assert kinds == ["merge", "remove"]


def test_prune_apply_removes_harmful_rules(agent: Agent) -> None:
    (agent.claude / "reflector.toml").write_text('prune = "apply"\n')
    assert (
        "`prune` is 'apply', which only your own settings may contain"
        in agent.call("review", "find", code=2).err
    )
    (agent.claude / "reflector.toml").unlink()
    agent.environ["REFLECTOR_PRUNE"] = "apply"
    assert "To restore the first rule: reflector undo pat-002" in agent.call("review", "find").err
    assert agent.json("show", "pat-002")["reason"] == (
        "pruned: harmful 9, helpful 0: chance does not explain the difference"
    )


@pytest.mark.slow
def test_unused_rule_is_due_and_demoted(agent: Agent) -> None:
    agent.environ["REFLECTOR_PRUNE_AFTER"] = "3"
    printed = agent.hook("SessionStart")
    sessions = [
        Session(f"s-{number}").starts(printed).cites("pat-002", None) for number in range(20)
    ]
    agent.call("ingest", *(one.write(agent.home / f"{one.id}.jsonl") for one in sessions))
    assert "demoted: shown 20 times since the rule last helped" in agent.call("show", "pat-001").out
    (one,) = [one for one in agent.json("list") if one["name"] == "mis-001"]
    assert (one["told_sessions"], one["demoted"]) == (20, "shown 20 times and never helped")
    assert due(agent) == ["mis-001"]
    agent.environ["REFLECTOR_JUDGE_MEASURED"] = "helpful=50 harmful=50"
    assert due(agent) == ["pat-002", "mis-001"]  # its 20 undecided sessions excuse it no more
    agent.call("config", "set", "pinned", "mis-001")
    assert due(agent) == ["pat-002"]


def test_contradiction_and_two_sections_are_only_shown(
    agent: Agent,
) -> None:
    agent.call("add", "mis", "Never write a failing test first.")
    assert (
        "This rule contradicts pat-002"
        in agent.call("add", "pat", "Avoid keeping functions small.").err
    )
    told = agent.call("add", "mis", "**Keep functions small!**").err
    assert (
        "This rule may repeat pat-002 (only case, punctuation or markup differ; their sections "
        "differ)"
    ) in told
    kinds = {str(pair["kind"]): pair for pair in pairs(agent)}
    assert set(kinds) >= {"contradiction", "near", "normalised"}
    assert kinds["normalised"]["move"] == "reflector edit pat-002 --section mis"
    assert [one["change"]["kind"] for one in waiting(agent)] == ["merge", "remove"]


def test_proposal_names_a_rule_of_a_file(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text("# Rules\n\n- Always keep the changelog short.\n")
    proposed(agent, Change("add", section="pat", text="Keep the changelog short."))
    assert "This rule may repeat CLAUDE.md:3" in agent.call("review", keys="q").out


def test_key_decides_on_a_proposal_at_once(agent: Agent) -> None:
    assert "Nothing is waiting for you." in agent.call("review", keys="").err
    add = Change("add", section="pat", text="Run the linter before you commit.")
    merge = Change(
        "merge", names=("pat-001", "pat-003"), section="pat", text="Write the failing test first."
    )
    proposed(agent, add, Change("remove", "pat-002"), merge, evidence=[_SAID])
    ran = agent.call("review", keys="ask\n")
    assert "1 of 3  a new rule?  from agent, " in ran.out
    assert "“No! Always run the linter before you commit" in ran.out
    assert "[pat-004] helpful=0 harmful=0 :: Run the linter before you commit." in ran.out
    menus = [line for line in ran.out.splitlines() if line.endswith(("> a", "> s", "> k"))]
    assert [re.findall(r"(?:^|  )(\w) ", menu) for menu in menus] == [
        [*"aedsuq"],
        [*"adsuq"],
        [*"aedksuq"],
    ]
    assert "2 decisions recorded; 1 still to decide." in ran.err
    assert "0 decisions recorded; 1 still to decide." in agent.call("review", keys="").err
    states = [one["state"] for one in waiting(agent, "list")]
    assert sorted(states) == ["approved", "kept", "waiting"]
    assert pairs(agent, "--dry-run") == []


def test_key_u_undoes_an_approval(agent: Agent) -> None:
    (add,) = proposed(agent, Change("add", section="oth", text="Advice."))
    (removal,) = proposed(agent, Change("remove", "pat-002"))
    ran = agent.call("review", keys="auq")
    assert "oth-001" not in agent.counters()
    assert [ran.out.count(number) for number in ("1 of 2", "2 of 2")] == [2, 1]
    assert [one["id"] for one in waiting(agent)] == [add.id, removal.id]
    assert "0 decisions recorded; 2 still to decide." in ran.err


def test_declined_proposal_stays_declined(agent: Agent) -> None:
    proposed(agent, *(Change("add", section="oth", text=f"Advice {n}.") for n in range(2)))
    ran = agent.call("review", keys="dtoo slow here\nuq")
    assert "To approve the proposal anyway:" in ran.err
    (declined,) = [one for one in waiting(agent, "list") if one["state"] == "rejected"]
    assert declined["why"] == "too slow here"


def test_key_e_approves_your_own_text(agent: Agent) -> None:
    agent.environ["EDITOR"] = "sed -i s/Advice/Better/"
    proposed(agent, Change("add", section="oth", text="Advice 1."))
    agent.call("review", keys="e")
    assert "Better 1." in agent.call("show", "oth-001").out


def test_proposal_decided_meanwhile_is_not_asked(agent: Agent, tmp_path: Path) -> None:
    changes = [Change("add", section="oth", text=f"Advice {n}.") for n in range(2)]
    _, second = proposed(agent, *changes)
    editor = tmp_path / "editor"
    command = shlex.join([*REFLECTOR, "review", "reject", second.id])
    editor.write_text(
        f"#!/bin/sh\ncd {agent.project} && {command} 2>&1\nsed -i s/Advice/Better/ $1\n"
    )
    editor.chmod(0o700)
    agent.environ["EDITOR"] = str(editor)
    told = agent.call("review", keys="ea")
    assert "2 of 2" not in told.out
    assert [one["state"] for one in waiting(agent, "list")] == ["approved", "rejected"]


def test_citations_come_before_proposals(agent: Agent) -> None:
    proposed(agent, Change("add", section="oth", text="Advice."))
    agent.counted("mis-001", None, id="s-1")
    shown = agent.call("review", keys="sq").out
    assert shown.index("1 of 2  citation") < shown.index("2 of 2  a new rule?")


def test_each_of_several_proposals_is_decided(agent: Agent) -> None:
    changes = [Change("add", section="oth", text=f"Advice {n}.") for n in range(4)]
    both = Change("merge", names=("pat-001", "mis-001"), section="pat", text="Both.")
    ids = [one.id for one in proposed(agent, *changes, both)]
    assert (
        "To decide: reflector review approve ID, or reflector review reject ID"
        in agent.call("review").err
    )
    told = agent.call("review", "approve", ids[0], "zz", ids[1], code=1)
    assert told.out == (
        "[oth-001] helpful=0 harmful=0 :: Advice 0.\n[oth-002] helpful=0 harmful=0 :: Advice 1.\n"
    )
    assert "no proposal has an id that begins with 'zz'; see `reflector review list`" in told.err
    agent.call("undo", "oth-001")
    agent.call("review", "edit", ids[2], "Better advice.")
    agent.call("review", "reject", ids[3], "--why", "it is wrong")
    agent.call("review", "keep", ids[4])
    states = [one["state"] for one in waiting(agent, "list")]
    assert states == ["waiting", "approved", "approved", "rejected", "kept"]
    assert "was already approved" in agent.call("review", "reject", ids[1], code=1).err


def test_undone_approval_waits_in_review_and_status(agent: Agent) -> None:
    (add,) = proposed(agent, Change("add", section="oth", text="Advice."))
    agent.call("review", "approve", add.id)
    agent.call("undo")
    assert [one["id"] for one in waiting(agent)] == [add.id]
    assert "1 proposal: reflector review" in agent.call("status").out


def test_undone_approval_keeps_its_rule_when_repeated(agent: Agent) -> None:
    (add,) = proposed(agent, Change("add", section="oth", text="Advice."))
    for _ in range(2):
        approved = agent.call("review", "approve", add.id)
        assert "[oth-001] helpful=0 harmful=0 :: Advice." in approved.out
        (undo,) = re.findall(r"Undo: reflector (undo \d+)", approved.err)
        agent.call(*undo.split())
    agent.call("review", "approve", add.id)
    agent.call("undo")
    assert [one["id"] for one in waiting(agent)] == [add.id]


def test_keep_refuses_a_proposal_without_a_merge(agent: Agent) -> None:
    (add,) = proposed(agent, Change("add", section="oth", text="Advice."))
    assert "is not a merge" in agent.call("review", "keep", add.id, code=1).err


@pytest.mark.slow
def test_measured_rates_correct_shares_and_no_counter(agent: Agent) -> None:
    sessions = [Session(f"s-{number}") for number in range(10)]
    for number, session in enumerate(sessions):
        session.cites("pat-001", "helpful" if number < 5 else "harmful")
    agent.call("ingest", *(one.write(agent.home / f"{one.id}.jsonl") for one in sessions))
    counters = agent.counters()
    plain = agent.json("show", "pat-001")
    agent.environ["REFLECTOR_JUDGE_MEASURED"] = "helpful=36 harmful=73"
    measured = agent.json("show", "pat-001")
    assert agent.counters() == counters
    assert (plain["corrected"], measured["corrected"]) == (False, True)
    assert measured["share"] == pytest.approx(
        plain["share"] / 36 * 73 / (plain["share"] / 36 * 73 + 1 - plain["share"]), abs=1e-5
    )
    assert measured["judged"] == plain["judged"] >= 5
    for command in ("show", "blame"):
        assert "corrected for cases that the judge misses)" in agent.call(command, "pat-001").out
    agent.call("report", "--out", agent.home / "r.html")
    assert "corrected for cases that the judge misses" in (agent.home / "r.html").read_text()
