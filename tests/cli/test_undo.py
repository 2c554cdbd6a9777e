"""What bare `undo` takes back, and what it leaves."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.changes.apply import apply_changes
from reflector.playbook.change import Change
from reflector.playbook_files.watching import advice_of, watch, watching
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent.in_folder(tmp_path)


def live(agent: Agent) -> dict[str, str]:
    bullets = agent.json("list")
    return {one["name"]: one["text"] for one in bullets if one["status"] == "live"}


def _retract(agent: Agent) -> None:
    agent.call("undo", "s-1")


def _judge(agent: Agent) -> None:
    agent.call("review", "pat-001", "harmful", "--session", "s-1")


def _policy(agent: Agent) -> None:
    agent.call("ledger", "policy", "once_per_session")


def _add(agent: Agent) -> None:
    agent.call("add", "pat", "Added by hand.")


def _remove(agent: Agent) -> None:
    agent.call("remove", "pat-001")


def _edit(agent: Agent) -> None:
    text = agent.playbook.read_text()
    agent.playbook.write_text(text.replace(live(agent)["pat-001"], "Edited in the file."))
    agent.call("list")


ACTS: list[Callable[[Agent], None]] = [_judge, _retract, _policy, _add, _edit, _remove]


def state(agent: Agent) -> tuple[object, ...]:
    return agent.counters(), live(agent), agent.json("ledger", "policy")["counting"]


@pytest.mark.parametrize("act", first_fast(3, ACTS))
def test_undo_takes_back_the_newest_change(agent: Agent, act: Callable[[Agent], None]) -> None:
    agent.counted()
    agent.call("add", "ctx", "Added before.")
    before = state(agent)
    act(agent)
    assert state(agent) != before
    agent.call("undo")
    assert state(agent) == before


@pytest.mark.slow
def test_each_undo_goes_further_back(agent: Agent) -> None:
    agent.counted()
    states = [state(agent)]
    for act in ACTS:
        act(agent)
        states.append(state(agent))
    for before in reversed(states[:-1]):
        agent.call("undo")
        assert state(agent) == before


@pytest.mark.parametrize(
    "changes",
    [
        [["add", "pat", "Added."], ["edit", "pat-004", "Edited."]],
        [["edit", "pat-001", "Edited."], ["edit", "pat-001", "Edited again."]],
        [["merge", "pat-001", "pat-003", "--text", "Both."], ["edit", "pat-004", "Edited."]],
    ],
    ids=["add", "edit", "merge"],
)
def test_undo_goes_past_an_undone_range(agent: Agent, changes: list[list[str]]) -> None:
    earliest = live(agent)
    agent.call("add", "pat", "Added by hand.")
    before = live(agent)
    for change in changes:
        agent.call(*change)
    first, last = (event["position"] for event in agent.json("log")[-2:])
    agent.call("undo", f"{first}..{last}")
    assert live(agent) == before
    agent.call("undo")
    assert live(agent) == earliest


CANCELLED: list[list[list[str]]] = [
    [["add", "oth", "Added."], ["remove", "oth-001"]],
    [["edit", "pat-001", "Edited."], ["edit", "pat-001", "{pat-001}"]],
    [["merge", "pat-001", "pat-003", "--text", "Both."], ["undo"]],
]


@pytest.mark.parametrize("changes", CANCELLED, ids=["add", "edit", "merge"])
def test_undo_passes_cancelled_changes_of_a_range(agent: Agent, changes: list[list[str]]) -> None:
    earliest = live(agent)
    agent.call("add", "pat", "Added before.")
    before = live(agent)
    first = agent.json("log")[-1]["position"] + 1
    for change in changes:
        agent.call(*(word.format_map(earliest) for word in change))
    agent.call("add", "ctx", "Added last.")
    last = agent.json("log")[-1]["position"]
    agent.call("undo", f"{first}..{last}")
    assert live(agent) == before
    agent.call("undo")
    assert live(agent) == earliest


#: Changes of the rules pat-001 to pat-003.
MERGES: dict[str, list[list[str]]] = {
    "nested": [
        ["merge", "pat-001", "pat-002", "--text", "Both."],
        ["merge", "pat-003", "pat-004", "--text", "All."],
    ],
    "removed": [["merge", "pat-001", "pat-002", "--text", "Both."], ["remove", "pat-004"]],
    "edited": [
        ["edit", "pat-001", "Edited."],
        ["merge", "pat-001", "pat-003", "--text", "Both."],
    ],
}


def _undo_merges(agent: Agent, kind: str) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Make merges and undo them as one range. Return the rules before and after the merges, and the
    command that makes them again.
    """
    agent.call("add", "pat", "A third rule.")
    before = live(agent)
    first = agent.json("log")[-1]["position"] + 1
    for change in MERGES[kind]:
        agent.call(*change)
    after = live(agent)
    last = agent.json("log")[-1]["position"]
    taken = agent.json("undo", f"{first}..{last}")
    return before, after, taken["undo"].split()[1:]


@pytest.mark.parametrize("kind", MERGES)
def test_undone_range_of_merges_restores_its_rules(agent: Agent, kind: str) -> None:
    before, _, _ = _undo_merges(agent, kind)
    assert live(agent) == before


@pytest.mark.parametrize("kind", MERGES)
def test_redone_range_of_merges_restores_its_result(agent: Agent, kind: str) -> None:
    _, after, again = _undo_merges(agent, kind)
    agent.call(*again, "--yes")
    assert [*live(agent).values()] == [*after.values()]


def test_undone_range_leaves_a_removed_rule_restorable(agent: Agent) -> None:
    before = live(agent)
    agent.call("add", "oth", "Added.")
    added = agent.json("log")[-1]["position"]
    agent.call("remove", "oth-001")
    agent.call("add", "ctx", "Added last.")
    agent.call("undo", f"{added}..{added + 2}")
    agent.call("undo", "oth-001")
    assert live(agent) == {**before, "oth-001": "Added."}


@pytest.mark.parametrize(
    ("changes", "undos"),
    [
        ([["add", "pat", "Added."]], 2),
        ([["edit", "pat-001", "Edited."], ["edit", "pat-001", "Edited again."]], 1),
    ],
    ids=["redone", "undone"],
)
def test_undo_goes_past_a_range_with_undos(
    agent: Agent, changes: list[list[str]], undos: int
) -> None:
    earliest = live(agent)
    agent.call("add", "pat", "Added by hand.")
    before = live(agent)
    first = agent.json("log")[-1]["position"] + 1
    for change in changes:
        agent.call(*change)
    for _ in range(undos):
        agent.call("undo", str(agent.json("log")[-1]["position"]))
    agent.call("undo", f"{first}..{agent.json('log')[-1]['position']}")
    assert live(agent) == before
    agent.call("undo")
    assert live(agent) == earliest


def test_undo_goes_past_a_change_undone_twice(agent: Agent) -> None:
    earliest = live(agent)
    agent.call("add", "pat", "Added by hand.")
    agent.call("edit", "pat-001", "Edited.")
    edit = agent.json("log")[-1]["position"]
    for position in (edit, edit + 1, edit):
        agent.call("undo", str(position))
    agent.call("undo")
    assert live(agent) == earliest


def test_redone_change_outside_a_range_stays_undoable(agent: Agent) -> None:
    agent.call("edit", "pat-001", "Edited.")
    agent.call("add", "pat", "Added.")
    first, last = (event["position"] for event in agent.json("log")[-2:])
    agent.call("undo", str(last))
    agent.call("undo", str(last + 1))
    agent.call("undo", f"{first}..{last + 1}")
    undo_of = {event["position"]: event["undo"] for event in agent.json("log")}
    assert undo_of[last + 2] == f"reflector undo {last + 2}"


def test_redone_range_is_undone_next(agent: Agent) -> None:
    before = live(agent)
    agent.call("add", "pat", "Added by hand.")
    agent.call("edit", "pat-003", "Edited once.")
    last = agent.json("log")[-1]["position"]
    agent.call("undo", f"{last - 1}..{last}")
    agent.call("undo", f"{last + 1}")
    assert live(agent)["pat-003"] == "Edited once."
    agent.call("undo")
    assert live(agent) == before


def test_undo_goes_past_an_undone_verdict(agent: Agent) -> None:
    agent.counted()
    before = live(agent)
    agent.call("add", "ctx", "Added before.")
    _judge(agent)
    agent.call("undo")
    agent.call("undo")
    assert live(agent) == before


def test_undo_of_an_undo_brings_the_act_back(agent: Agent) -> None:
    agent.call("add", "pat", "Added by hand.")
    after = live(agent)
    undone = agent.json("undo")
    agent.call(*undone["undo"].split()[1:])
    assert live(agent) == after
    agent.call("undo")
    assert live(agent) != after


def test_adoption_that_nobody_typed_is_passed_over(agent: Agent) -> None:
    before = live(agent)
    said = agent.call("undo", code=1)
    assert "you do not have a change left to undo" in said.err
    assert live(agent) == before


def test_import_by_hand_has_to_be_named(agent: Agent, tmp_path: Path) -> None:
    agent.call("add", "pat", "Added before.")
    file = tmp_path / "more.json"
    file.write_text(
        json.dumps({"version": "1.0", "sections": {"OTHERS": [{"text": "One."}, {"text": "Two."}]}})
    )
    agent.call("adopt", file)
    before = live(agent)
    said = agent.call("undo", code=2)
    assert (
        "your newest change is the import at position 3; to undo the import, run `reflector undo 3`"
        in said.err
    )
    assert live(agent) == before
    agent.call("undo", "3", "--yes")
    assert "One." not in live(agent).values()


def test_agents_act_is_passed_over(agent: Agent) -> None:
    agent.call("add", "pat", "Added by hand.")
    with agent.open_ledger() as ledger:
        apply_changes(
            ledger, [Change("add", section="pat", text="Added by the agent.")], actor="agent"
        )
    agent.call("undo")
    assert "Added by the agent." in live(agent).values()
    assert "Added by hand." not in live(agent).values()


def test_another_homes_act_is_passed_over(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    other = tmp_path / "other-home"
    other.mkdir()
    colleague = Agent(agent.project, other)
    colleague.call("ledger", "take", "--yes")
    colleague.call("add", "pat", "Added by somebody else.")
    said = agent.call("undo", code=1)
    assert "you do not have a change left to undo" in said.err


def test_removing_several_bullets_needs_consent(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "more.json"
    file.write_text(
        json.dumps({"version": "1.0", "sections": {"OTHERS": [{"text": "One."}, {"text": "Two."}]}})
    )
    agent.call("adopt", file)
    before = live(agent)
    said = agent.call("undo", "2", code=2)
    assert "this undo removes 2 rules (oth-001, oth-002)" in said.err
    assert "--yes" in said.err
    assert live(agent) == before


def test_undone_addition_comes_back_by_name(agent: Agent) -> None:
    name = agent.json("add", "pat", "Added by hand.")["changes"][0]["after"][0]["name"]
    agent.call("undo")
    agent.call("undo", name)
    assert live(agent)[name] == "Added by hand."


def test_redaction_is_not_passed_over(agent: Agent) -> None:
    agent.call("add", "pat", "The password is tiger.")
    agent.call("redact", "--where", "tiger", "--why", "a secret", "--yes")
    said = agent.call("undo", code=2)
    assert "your newest change is a redaction, at position" in said.err


def test_rejection_names_the_way_to_approve(agent: Agent) -> None:
    agent.call("add", "pat", "Run the linter before each push.")
    agent.call("add", "pat", "Run the linter before every push.")
    agent.call("review", "find")
    id = agent.json("review")["proposals"][0]["id"][:8]
    approval = f"reflector review approve {id}"
    assert approval in agent.call("review", "reject", id).err
    assert approval in agent.call("undo", code=2).err
    (rejection,) = agent.events("change.rejected")
    assert approval in agent.call("undo", rejection["position"], code=1).err
    assert approval in agent.call("undo", rejection["event_id"], code=1).err
    agent.call("review", "approve", id)
    assert agent.json("review")["proposals"] == []


def test_undo_without_a_home_needs_a_name(agent: Agent) -> None:
    nowhere = {"REFLECTOR_LEDGER_URL": f"sqlite:///{agent.home}/ledger.db"}
    homeless = Agent(agent.project, Path("/nonexistent"), nowhere)
    homeless.call("add", "pat", "Added without a home.")
    said = homeless.call("undo", code=1)
    assert "reflector cannot recognise your changes" in said.err


def _two_machines(tmp_path: Path) -> tuple[Agent, Path]:
    """Return another machine with a bullet and a session of its own, and its export."""
    other = Agent.in_folder(tmp_path / "other")
    other.counted("pat-001", "helpful", id="s-other")
    other.call("add", "ctx", "Only on the other machine.")
    other.call("add", "oth", "Removed on the other machine.")
    other.call("remove", "oth-001")
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    return other, export


def test_undone_import_of_a_ledger_removes_its_evidence(agent: Agent, tmp_path: Path) -> None:
    agent.counted("pat-002", "harmful")
    before = state(agent)
    agent.call("list")
    _, export = _two_machines(tmp_path)
    imported = agent.json("import", export)
    assert state(agent) != before
    said = agent.call("undo", code=2)
    assert f"`reflector undo {imported['merged_at']}`" in said.err
    agent.call("undo", str(imported["merged_at"]))
    assert state(agent) == before
    agent.call("verify")


def _exclude(other: Agent) -> None:
    other.call("undo", "s-other")


def _exclude_and_include(other: Agent) -> None:
    _exclude(other)
    other.call("undo")


def _overrule(other: Agent) -> None:
    other.call("review", "pat-001", "harmful", "--session", "s-other")


@pytest.mark.parametrize("decide", [_exclude, _exclude_and_include, _overrule])
def test_decisions_on_undone_imports_do_not_count(
    agent: Agent, tmp_path: Path, decide: Callable[[Agent], None]
) -> None:
    before = state(agent)
    other = Agent.in_folder(tmp_path / "other")
    other.counted("pat-001", "helpful", id="s-other")
    decide(other)
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    merged_at = agent.json("import", export)["merged_at"]
    after = state(agent)
    agent.call("undo", str(merged_at), code=None)
    assert state(agent) == before
    agent.call("undo", code=None)
    assert state(agent) == after


@pytest.mark.slow
def test_undo_of_an_undone_import_brings_it_back(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    _, export = _two_machines(tmp_path)
    imported = agent.json("import", export)
    after = state(agent)
    agent.call("undo", str(imported["merged_at"]))
    agent.call("undo")
    assert state(agent) == after


def test_printed_undo_brings_an_imports_counts_back(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    _, export = _two_machines(tmp_path)
    imported = agent.json("import", export)
    after = state(agent)
    taken = agent.json("undo", str(imported["merged_at"]))
    shown = {b["name"]: b["helpful"] for change in taken["changes"] for b in change["after"]}
    assert shown == {"pat-001": agent.counters()["pat-001"][0]}
    agent.call(*taken["undo"].split()[1:])
    assert state(agent) == after


def test_redone_import_keeps_counts_of_merged_rules(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    other = Agent.in_folder(tmp_path / "other")
    other.call("add", "ctx", "Cited.")
    other.counted("ctx-001", "helpful", id="s-other")
    other.call("add", "ctx", "Not cited.")
    other.call("merge", "ctx-001", "ctx-002", "--text", "Both.")
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    imported = agent.json("import", export)
    after = sorted(agent.counters().values())
    taken = agent.json("undo", str(imported["merged_at"]), "--yes")
    agent.call(*taken["undo"].split()[1:])
    assert sorted(agent.counters().values()) == after


def test_undo_of_a_policy_names_the_policy(agent: Agent) -> None:
    _policy(agent)
    assert "The counting policy changed, but no counter changed" in agent.call("undo").err


def test_undone_import_takes_its_policy_back(agent: Agent, tmp_path: Path) -> None:
    agent.call("add", "ctx", "Only here.")
    before = state(agent)
    other = Agent.in_folder(tmp_path / "other")
    other.call("ledger", "policy", "once_per_session")
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    imported = agent.json("import", export)
    assert state(agent) != before
    agent.call("undo", str(imported["merged_at"]))
    assert state(agent) == before


def test_printed_undo_brings_an_imports_policy_back(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    other = Agent.in_folder(tmp_path / "other")
    other.counted("pat-001", "helpful", id="s-other")
    other.call("ledger", "policy", "once_per_session")
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    imported = agent.json("import", export)
    after = state(agent)
    taken = agent.json("undo", str(imported["merged_at"]))
    agent.call(*taken["undo"].split()[1:])
    assert state(agent) == after


def test_undo_puts_all_parts_of_a_session_back(agent: Agent) -> None:
    session = Session("s-1").cites("pat-001", "helpful")
    agent.call("ingest", session.write(agent.home / "s-1.jsonl"))
    agent.call("ingest", session.cites("pat-002", "harmful").write(agent.home / "s-1.jsonl"))
    before = state(agent)
    agent.call("undo", "s-1")
    agent.call("undo")
    assert state(agent) == before


@pytest.mark.slow
def test_undone_import_travels_to_the_other_machine(agent: Agent, tmp_path: Path) -> None:
    """The undo is the later act on both machines."""
    agent.call("list")
    other, export = _two_machines(tmp_path)
    imported = agent.json("import", export)
    agent.call("undo", str(imported["merged_at"]))
    mine = tmp_path / "mine.ndjson"
    mine.write_text(agent.call("export", "--format", "ndjson").out)
    other.call("import", mine)
    assert live(other) == live(agent)
    assert other.counters() == agent.counters()


@pytest.fixture
def watched(tmp_path: Path) -> Agent:
    """A project whose CLAUDE.md was checked, so that the ledger watches its lines."""
    agent = Agent.in_folder(tmp_path, {})
    (agent.project / "CLAUDE.md").write_text("- Run the linter.\n- Keep answers short.\n")
    agent.call("list")
    with agent.open_ledger() as ledger:
        lines = advice_of(agent.project).lines
        watch(ledger, watching(ledger, lines))
    return agent


def test_undo_of_adopted_lines_makes_them_watched_again(watched: Agent) -> None:
    watched.call("adopt", "--move", "--yes", watched.project / "CLAUDE.md")
    assert len(live(watched)) == 2
    watched.call("undo", "--yes")
    with watched.open_ledger() as ledger:
        assert [row.status for row in ledger.rows()] == ["watched", "watched"]


def test_undo_goes_further_back_after_adopted_lines(watched: Agent) -> None:
    watched.call("add", "pat", "Added before.")
    watched.call("adopt", "--move", "--yes", watched.project / "CLAUDE.md")
    watched.call("undo", "--yes")
    watched.call("undo")
    assert live(watched) == {}


def test_printed_undo_of_adopted_lines_works(watched: Agent) -> None:
    undo = watched.json("adopt", "--move", "--yes", watched.project / "CLAUDE.md")["undo"]
    watched.call(*undo.split()[1:], "--yes")
    assert live(watched) == {}


def test_refusal_names_adopted_and_new_lines(watched: Agent) -> None:
    text = (watched.project / "CLAUDE.md").read_text()
    file = watched.project / "rules.md"
    file.write_text(f"{text}- Use tabs.\n")
    watched.call("adopt", file)
    said = watched.call("undo", code=2).err
    command = said.split("`")[1]
    watched.call(*command.split()[1:], "--yes")
    assert live(watched) == {}


def test_undone_import_of_evidence_shows_its_counters(agent: Agent, tmp_path: Path) -> None:
    agent.call("list")
    before = agent.counters()
    other = Agent.in_folder(tmp_path / "other")
    other.counted("pat-001", "helpful")
    export = tmp_path / "other.ndjson"
    export.write_text(other.call("export", "--format", "ndjson").out)
    imported = agent.json("import", export)
    after = agent.counters()
    undone = agent.json("undo", str(imported["merged_at"]))
    assert [change["after"][0]["helpful"] for change in undone["changes"]] == [0]
    assert agent.counters() == before
    agent.call(*undone["undo"].split()[1:])
    assert agent.counters() == after
