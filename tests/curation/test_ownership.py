"""Whose a playbook.json is: this ledger's, another one's, a person's edit, or nobody's because it cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reflector.curation.playbook_file import sync
from reflector.ledger.store import Ledger
from reflector.project import Project
from tests.ledger.events import add_bullet
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.test_locate import git

PAT = "PATTERNS & APPROACHES"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent whose playbook the ledger knows."""
    agent = Agent.in_folder(tmp_path)
    agent.call("drain")
    return agent


def sessions(agent: Agent, *numbers: int) -> list[Path]:
    return [Session(f"s-{n}").cites("pat-001").write(agent.home / f"s-{n}.jsonl") for n in numbers]


def by_human(agent: Agent) -> list[dict[str, Any]]:
    return [event for event in agent.events() if event["actor"] == "human"]


def listed(agent: Agent) -> dict[str, tuple[int, int]]:
    return {b["name"]: (b["helpful"], b["harmful"]) for b in agent.json("list")}


def test_sessions_taken_in_again_after_an_older_ledger_came_back_give_the_true_counters(agent: Agent) -> None:
    agent.call("ingest", *sessions(agent, 0, 1, 2))
    monday = agent.home / "monday.db"
    shutil.copy(agent.ledger, monday)
    agent.call("ingest", *sessions(agent, 3, 4, 5))
    newer = agent.playbook.read_bytes()
    shutil.copy(monday, agent.ledger)
    assert listed(agent)["pat-001"] == (3, 0)
    agent.call("ingest", *sessions(agent, 0, 1, 2, 3, 4, 5))
    assert agent.counters()["pat-001"] == (6, 0)
    assert by_human(agent) == []
    assert agent.call("verify").out == ""
    (kept,) = (agent.state / "kept").glob("another-ledger-*.json")
    assert kept.read_bytes() == newer


def test_a_file_of_another_ledger_is_reported_until_its_copy_is_removed(agent: Agent, tmp_path: Path) -> None:
    other = Agent.in_folder(tmp_path / "other", {PAT: [{"name": "pat-009", "text": "Theirs.", "helpful": 999}]})
    other.call("drain")
    agent.playbook.write_bytes(other.playbook.read_bytes())
    told = agent.call("drain").err
    (kept,) = (agent.state / "kept").glob("another-ledger-*.json")
    assert str(kept) in told
    assert listed(agent).keys() == {"pat-001", "pat-002", "mis-001"} == agent.counters().keys()
    assert str(kept) in agent.call("status", code=1).out
    assert str(kept) in agent.call("doctor", code=None).out
    assert agent.call("import", kept).out == "1 bullet imported\n"
    kept.unlink()
    agent.call("status")
    assert by_human(agent) == []


def test_a_session_is_not_told_another_ledgers_advice_for_which_its_citations_would_not_count(
    agent: Agent, tmp_path: Path
) -> None:
    agent.call("add", "pat", "Ours.")
    other = Agent.in_folder(tmp_path / "other")
    other.call("add", "pat", "Theirs.")
    agent.playbook.write_bytes(other.playbook.read_bytes())
    for ask in (lambda: None, lambda: agent.call("list")):  # a question leaves the file, and renders the text
        ask()
        told = agent.hook("SessionStart", session_id="s-1")
        assert "[pat-003] helpful=0 harmful=0 :: Ours." in told
        assert "Theirs." not in told
        assert "written by another ledger" in told


def test_no_ledger_takes_the_file_of_a_later_state_of_its_own_for_an_edit(tmp_path: Path, ledger: Ledger) -> None:
    project = Project.at(tmp_path)
    add_bullet(ledger, "pat", "one")
    sync(ledger, project)
    later = project.playbook_json.read_bytes().replace(b'"last_updated": "20', b'"last_updated": "29')
    project.playbook_json.write_bytes(later.replace(b'"one"', b'"EVIL"'))
    head = ledger.head()
    synced = sync(ledger, project)
    assert synced.edits == 0
    assert synced.of_another is not None
    assert ledger.head() == head
    assert b'"one"' in project.playbook_json.read_bytes()


BROKEN = {
    "a name without quotes": (lambda whole: whole.replace(b'"version"', b"version"), "line 2, column 3"),
    "a conflict": (lambda whole: b"<<<<<<< HEAD\n" + whole, "line 1, column 1"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_does_not_parse_is_left_alone_while_the_ledger_counts_and_answers(agent: Agent, how: str) -> None:
    breaks, place = BROKEN[how]
    broken = breaks(agent.playbook.read_bytes())
    agent.playbook.write_bytes(broken)
    (transcript,) = sessions(agent, 1)
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(transcript))
    told = agent.call("drain")
    assert place in told.err
    asked = agent.call("list", "--json")
    assert {b["name"]: b["helpful"] for b in json.loads(asked.out)}["pat-001"] == 1
    assert place in asked.err
    assert place in agent.call("add", "pat", "More.").err
    assert place in agent.call("status", code=1).out
    assert place in agent.call("doctor", code=1).out
    assert agent.playbook.read_bytes() == broken
    told = agent.call("rebuild")
    (kept,) = [path for path in (agent.state / "kept").iterdir() if path.read_bytes() == broken]
    assert str(kept) in told.err
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.call("rebuild", "--check").out == ""
    assert [event["type"] for event in by_human(agent)] == ["bullet.added"]


def test_a_session_is_told_the_ledgers_playbook_and_where_the_file_does_not_parse(agent: Agent) -> None:
    agent.call("ingest", *sessions(agent, 1))
    agent.playbook.write_bytes(agent.playbook.read_bytes().replace(b'"version"', b"version"))
    for _ in range(2):
        told = agent.hook("SessionStart", session_id="s-2")
        assert "[pat-001] helpful=1 harmful=0 :: Write the failing test first." in told
        assert "line 2, column 3" in told


def test_a_file_that_does_not_parse_is_named_where_there_is_no_ledger_yet(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.playbook.write_text('{"bad"')
    assert "line 1, column 7" in agent.hook("SessionStart", session_id="s-1")
    assert "line 1, column 7" in agent.call("list", code=1).err
    doctor = agent.call("doctor", code=1).out
    assert "line 1, column 7" in doctor
    assert "it is empty" not in doctor


def test_a_question_takes_an_edit_in_once_and_writes_nothing(agent: Agent) -> None:
    whole = json.loads(agent.playbook.read_bytes())
    whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
    whole["sections"][PAT][1]["helpful"] = 7
    whole["sections"][PAT].append({"text": "New."})
    agent.playbook.write_text(json.dumps(whole))
    edited = agent.playbook.read_bytes()
    for _ in range(3):
        assert listed(agent) == {"pat-001": (0, 0), "pat-002": (7, 1), "pat-003": (0, 0), "mis-001": (0, 0)}
    whole["sections"][PAT][0]["text"] = "Once more."
    agent.playbook.write_text(json.dumps(whole))
    listed(agent)
    assert [event["type"].removeprefix("bullet.") for event in by_human(agent)] == [
        "revised",
        "recounted",
        "added",
        "revised",
    ]
    assert agent.playbook.read_bytes() != edited
    agent.call("drain")
    assert agent.counters() == listed(agent)


def test_what_a_question_took_in_may_be_edited_again_and_taken_back(agent: Agent) -> None:
    before = agent.playbook.read_text()
    whole = json.loads(before)
    bullets = whole["sections"][PAT]

    def told() -> dict[str, tuple[str, int]]:
        agent.playbook.write_text(json.dumps(whole))
        return {b["name"]: (b["text"], b["helpful"]) for b in agent.json("list") if b["name"].startswith("pat")}

    kept = {"pat-001": ("Write the failing test first.", 0), "pat-002": ("Keep functions small.", 3)}
    bullets += [{"name": "pat-003", "text": "New.", "helpful": 2}, {"text": "Nameless."}, {"text": "Nameless."}]
    nameless = {"pat-004": ("Nameless.", 0), "pat-005": ("Nameless.", 0)}
    assert told() == {**kept, "pat-003": ("New.", 2), **nameless}
    bullets[2] |= {"text": "Newer.", "helpful": 5}
    bullets[0] |= {"text": "Changed.", "helpful": 7}
    assert told() == {**kept, "pat-001": ("Changed.", 7), "pat-003": ("Newer.", 5), **nameless}
    bullets[0] |= {"text": "Write the failing test first.", "helpful": 0}
    assert told() == {**kept, "pat-003": ("Newer.", 5), **nameless}
    del bullets[2:4]
    assert told().keys() in ({*kept, "pat-004"}, {*kept, "pat-005"})
    agent.playbook.write_text(before)
    assert listed(agent).keys() == {*kept, "mis-001"}
    agent.call("drain")
    assert agent.counters() == listed(agent) == {"pat-001": (0, 0), "pat-002": (3, 1), "mis-001": (0, 0)}


def test_an_older_branchs_file_without_its_time_removes_and_recounts_nothing(agent: Agent) -> None:
    git(agent.project, "init")
    git(agent.project, "add", ".")
    git(agent.project, "commit", "-m", "first")
    agent.call("add", "pat", "Later advice.")
    agent.call("ingest", *sessions(agent, 1))
    git(agent.project, "commit", "-am", "later")
    git(agent.project, "checkout", "HEAD~1")
    whole = json.loads(agent.playbook.read_bytes())
    del whole["last_updated"]
    whole["sections"][PAT][1]["text"] = "Edited there."
    agent.playbook.write_text(json.dumps(whole))
    agent.call("drain")
    assert listed(agent) == {"pat-001": (1, 0), "pat-002": (3, 1), "pat-003": (0, 0), "mis-001": (0, 0)}
    assert [event["type"] for event in by_human(agent)] == ["bullet.added", "bullet.revised"]
    whole = json.loads(agent.playbook.read_bytes())
    del whole["last_updated"], whole["sections"][PAT][2]
    agent.playbook.write_text(json.dumps(whole))
    agent.call("drain")
    assert "pat-003" not in listed(agent)


def test_a_file_that_a_question_adopted_may_be_edited_before_it_is_written(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    theirs = {"version": "1.0", "last_updated": "2026-01-01T00:00:00Z", "sections": {PAT: ["Old.", "Older."]}}
    agent.playbook.write_text(json.dumps(theirs))
    assert listed(agent) == {"pat-001": (0, 0), "pat-002": (0, 0)}
    assert json.loads(agent.playbook.read_bytes()) == theirs
    theirs["sections"] = {PAT: ["Old.", "Newer."]}
    agent.playbook.write_text(json.dumps(theirs))
    agent.call("drain")
    assert {b["name"]: b["text"] for b in agent.json("list")} == {"pat-001": "Old.", "pat-003": "Newer."}
    assert [event["type"] for event in by_human(agent)] == ["bullet.added", "bullet.removed"]


def test_a_bullet_without_counters_says_nothing_about_counts(agent: Agent) -> None:
    agent.call("ingest", *sessions(agent, 1))
    whole = json.loads(agent.playbook.read_bytes())
    for entry in whole["sections"][PAT]:
        del entry["helpful"], entry["harmful"]
    agent.playbook.write_text(json.dumps(whole))
    agent.call("drain")
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert by_human(agent) == []


def test_two_projects_with_one_ledger_of_the_users_share_a_playbook_and_empty_nobodys(tmp_path: Path) -> None:
    one = Agent.in_folder(tmp_path)
    two = Agent(tmp_path / "two", one.home)
    two.claude.mkdir(parents=True)
    mine = {"name": "oth-777", "text": "Two's own advice.", "helpful": 9, "harmful": 0}
    two.write_playbook({"OTHERS": [mine]})
    (one.home / ".config/reflector").mkdir(parents=True)
    url = f"sqlite:///{tmp_path / 'all.db'}"
    (one.home / ".config/reflector/config.toml").write_text(f'ledger_url = "{url}"\n')
    one.call("drain")
    two.call("drain")
    assert two.counters() == {**one.counters(), "oth-777": (9, 0)}
    one.call("drain")
    assert one.counters() == two.counters()
    assert not [event for event in one.events() if event["actor"] == "human"]


@pytest.mark.parametrize("counted", [True, False])
def test_an_edit_after_a_question_is_an_edit_of_what_the_question_read(agent: Agent, counted: bool) -> None:
    def edit(name: str, **to: object) -> None:
        whole = json.loads(agent.playbook.read_bytes())
        bullets = whole["sections"][PAT]
        bullets[:] = [b for b in bullets if b["name"] != name]
        if to:
            bullets.append({"name": name, **to, **({"helpful": 3, "harmful": 1} if counted else {})})
        agent.playbook.write_text(json.dumps(whole))

    def said() -> dict[str, str]:
        return {b["name"]: b["text"] for b in agent.json("list") if b["name"].startswith("pat")}

    before = said()
    edit("pat-003", text="Nwe.")
    assert said() == {**before, "pat-003": "Nwe."}
    edit("pat-003", text="New.")
    assert said() == {**before, "pat-003": "New."}
    edit("pat-003")
    assert said() == before
    edit("pat-002", text="Keep them small.")
    assert said() == {**before, "pat-002": "Keep them small."}
    for _ in range(2):  # undone, done again and undone again
        edit("pat-002", text=before["pat-002"])
        assert said() == before
        edit("pat-002", text="Keep them small.")
        assert said() == {**before, "pat-002": "Keep them small."}
    edit("pat-002", text=before["pat-002"])
    agent.call("drain")
    assert said() == before
    assert agent.counters()["pat-002"] == (3, 1)


def test_a_bullet_that_is_removed_and_put_back_keeps_its_evidence(agent: Agent) -> None:
    agent.call("ingest", *sessions(agent, 1))
    whole = agent.playbook.read_bytes()
    less = json.loads(whole)
    del less["sections"][PAT][0]
    agent.playbook.write_text(json.dumps(less))
    assert "pat-001" not in listed(agent)
    agent.playbook.write_bytes(whole)
    assert listed(agent) == {"pat-003": (1, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    agent.playbook.write_bytes(whole + b"\n")
    assert listed(agent) == {"pat-003": (1, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    agent.call("drain")
    assert agent.counters() == listed(agent)


def test_an_edit_that_a_question_read_and_git_took_away_is_not_undone(agent: Agent) -> None:
    git(agent.project, "init")
    git(agent.project, "add", ".")
    git(agent.project, "commit", "-m", "first")
    whole = json.loads(agent.playbook.read_bytes())
    whole["sections"][PAT].append({"name": "pat-003", "text": "New."})
    agent.playbook.write_text(json.dumps(whole))
    before = listed(agent)
    git(agent.project, "commit", "-am", "edited")
    git(agent.project, "checkout", "HEAD~1")
    assert listed(agent) == before
    git(agent.project, "checkout", "-")
    whole["sections"][PAT][2]["text"] = "Newer."
    agent.playbook.write_text(json.dumps(whole))
    assert listed(agent) == before
    assert [event["type"] for event in by_human(agent)] == ["bullet.added", "bullet.revised"]


def test_entries_without_a_name_are_known_again_when_a_question_read_them(agent: Agent) -> None:
    whole = json.loads(agent.playbook.read_bytes())
    whole["sections"][PAT] += ["Same.", "Same.", "Other."]
    agent.playbook.write_text(json.dumps(whole))
    before = listed(agent)
    whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
    agent.playbook.write_text(json.dumps(whole))
    assert listed(agent) == before
    whole["sections"][PAT].remove("Other.")
    agent.playbook.write_text(json.dumps(whole))
    assert "Other." not in {b["text"] for b in agent.json("list")}
