"""A ledger moved from the command line: to another folder, another engine, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Postgres
from tests.road.agent import Agent


@pytest.fixture
def told(agent: Agent, tmp_path: Path) -> Agent:
    """A project with a session that counted, and an export of it beside."""
    agent.counted()
    (tmp_path / "ledger.ndjson").write_text(agent.call("export", "--format", "ndjson").out)
    return agent


@pytest.fixture
def other(tmp_path: Path) -> Agent:
    """Another machine, without a playbook."""
    other = Agent(tmp_path / "other" / "project", tmp_path / "other" / "home")
    other.claude.mkdir(parents=True)
    other.home.mkdir()
    return other


def test_a_ledger_is_the_same_one_on_another_machine(told: Agent, other: Agent, tmp_path: Path) -> None:
    head = other.call("import", tmp_path / "ledger.ndjson").out
    assert head == told.call("ledger", "head").out == other.call("ledger", "head").out
    assert other.call("export", "--format", "ndjson").out == (tmp_path / "ledger.ndjson").read_text()
    assert other.playbook.read_bytes() == told.playbook.read_bytes()
    assert "helpful=1 " in other.hook("SessionStart", source="startup")
    assert "nothing new" in other.call("ingest", told.home / "s-1.jsonl").out
    assert other.call("verify", "--anchor", head.strip()).out == ""


def test_an_older_file_of_that_history_is_no_edit_of_it(told: Agent, other: Agent, tmp_path: Path) -> None:
    other.playbook.write_text(told.call("export", "--as-of", "1").out)
    assert other.call("import", tmp_path / "ledger.ndjson").out == told.call("ledger", "head").out
    assert other.call("ledger", "head").out == told.call("ledger", "head").out
    assert other.playbook.read_bytes() == told.playbook.read_bytes()


def test_what_a_person_changed_in_a_file_of_that_history_is_taken_in(told: Agent, other: Agent, tmp_path: Path) -> None:
    other.playbook.write_text(told.playbook.read_text().replace("Keep functions small.", "Keep them small."))
    other.call("import", tmp_path / "ledger.ndjson")
    assert [event["data"]["text"] for event in other.events("bullet.revised")] == ["Keep them small."]


def test_a_file_of_another_history_is_kept_aside(told: Agent, other: Agent, tmp_path: Path) -> None:
    other.write_playbook({"OTHERS": [{"name": "pat-001", "text": "Mine.", "helpful": 9, "harmful": 0}]})
    mine = other.playbook.read_text()
    ran = other.call("import", tmp_path / "ledger.ndjson")
    assert other.call("ledger", "head").out == ran.out == told.call("ledger", "head").out
    assert other.playbook.read_bytes() == told.playbook.read_bytes()
    (kept,) = (other.state / "kept").iterdir()
    assert kept.read_text() == mine
    assert str(kept) in ran.err


def test_a_wrong_file_is_refused_by_its_line_and_the_project_stays_empty(other: Agent, told: Agent) -> None:
    lines = told.call("export", "--format", "ndjson").out.splitlines(keepends=True)
    path = other.home / "wrong.ndjson"
    path.write_text("".join([*lines[:2], lines[2].replace("pat-001", "pat-002"), *lines[3:]]))
    ran = other.call("import", path, code=1)
    assert ran.out == ""
    assert "line 3: its data is not what was appended" in ran.err
    assert "Traceback" not in ran.err
    assert other.events() == []


@pytest.mark.postgres
def test_a_ledger_goes_to_a_server_and_back_with_its_chain(told: Agent, postgres: Postgres, tmp_path: Path) -> None:
    export = told.call("export", "--format", "ndjson").out
    with postgres.database(empty=True) as url:
        assert told.call("ledger", "copy", url).out == told.call("ledger", "head").out
        again = told.call("ledger", "copy", url, code=1)
        assert "events of the playbook 'default'" in again.err
        told.environ["REFLECTOR_LEDGER_URL"] = url
        assert told.call("export", "--format", "ndjson").out == export
        told.counted(id="s-2")
        assert told.counters()["pat-001"] == (2, 0)
        head = told.call("ledger", "head").out
        told.call("ledger", "copy", f"sqlite:///{tmp_path / 'back.db'}")
    told.environ["REFLECTOR_LEDGER_URL"] = f"sqlite:///{tmp_path / 'back.db'}"
    assert told.call("ledger", "head").out == head
    assert told.call("verify").out == ""
    assert (tmp_path / "back.db").stat().st_mode & 0o777 == 0o600


def test_a_password_is_never_shown(told: Agent) -> None:
    for url in ("postgresql://me:s3cret@localhost:1/x", "postgresql://me:s3cret@localhost:1/x?password=s3cret"):
        ran = told.call("ledger", "copy", url, code=1)
        assert "s3cret" not in ran.out + ran.err
        assert "localhost" in ran.err
    ran = told.call("ledger", "copy", "mysql://me:s3cret@localhost/x", code=1)
    assert "s3cret" not in ran.out + ran.err


def test_where_there_is_no_ledger_nothing_is_copied(other: Agent, tmp_path: Path) -> None:
    assert "no ledger" in other.call("ledger", "copy", f"sqlite:///{tmp_path / 'x.db'}", code=2).err
    assert not (tmp_path / "x.db").exists()


def test_an_export_is_read_by_any_program_that_reads_json_lines(told: Agent) -> None:
    header, *events = [json.loads(line) for line in told.call("export", "--format", "ndjson").out.splitlines()]
    assert header["data"]["position"] == len(events) == events[-1]["position"]
    assert header["data"]["chain"] == events[-1]["chain"] == told.call("ledger", "head").out.strip().partition(":")[2]
    assert header["data"]["origin"] == told.json("ledger", "head")["origin"]


@pytest.fixture
def apart(told: Agent, other: Agent, tmp_path: Path) -> Agent:
    """The other machine: the same playbook, a session and a bullet of its own, and an export of it beside."""
    other.playbook.write_text(told.call("export", "--as-of", "1").out)
    other.counted(id="s-2")
    other.call("add", "pat", "Read the log first.")
    (tmp_path / "other.ndjson").write_text(other.call("export", "--format", "ndjson").out)
    return other


def test_two_machines_count_together_whichever_takes_the_other_in(told: Agent, apart: Agent, tmp_path: Path) -> None:
    head = told.call("import", tmp_path / "other.ndjson").out
    assert head == told.call("ledger", "head").out
    apart.call("import", tmp_path / "ledger.ndjson")
    assert told.counters() == apart.counters()
    assert told.counters()["pat-001"] == (2, 0)
    assert told.counters()["pat-003"] == (0, 0)
    again = told.call("import", tmp_path / "other.ndjson")
    assert again.out == head
    assert "Nothing new: every event of the file is here." in again.err
    # And what the other one took in is known on this one.
    assert "nothing new" in told.call("ingest", apart.home / "s-2.jsonl").out
    for agent in (told, apart):
        assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""
        assert "helpful=2 " in agent.hook("SessionStart", source="startup")


@pytest.mark.usefixtures("apart")
def test_names_that_mean_two_bullets_wait_for_rename(told: Agent, tmp_path: Path) -> None:
    told.call("add", "pat", "Run the linter.")
    head = told.call("ledger", "head").out
    refused = told.call("import", tmp_path / "other.ndjson", code=1)
    assert (refused.out, told.call("ledger", "head").out) == ("", head)
    assert "pat-003: here 'Run the linter.', in the file 'Read the log first.'" in refused.err
    assert "1 name means another bullet here than in the file" in refused.err
    assert "--rename" in refused.err
    merged = told.call("import", "--rename", tmp_path / "other.ndjson")
    assert "pat-003 of the file is pat-004 here" in merged.out
    assert "6 events merged, 0 of the file were already present." in merged.err
    assert "Nothing new" in told.call("import", "--rename", tmp_path / "other.ndjson").err
    texts = {bullet["name"]: bullet["text"] for bullet in told.json("list")}
    assert (texts["pat-003"], texts["pat-004"]) == ("Run the linter.", "Read the log first.")
    assert told.call("verify").out == ""


def test_another_systems_playbook_is_imported_with_its_texts_or_refused_with_fitting_advice(
    agent: Agent, tmp_path: Path
) -> None:
    advice = {"dns-00001": {"id": "dns-00001", "section": "DNS", "content": "Ask two servers.", "helpful": 37}}
    skillbook = tmp_path / "skillbook.json"
    skillbook.write_text(json.dumps({"skills": advice, "sections": {"DNS": ["dns-00001"]}, "next_id": 2}))
    for _ in range(2):
        agent.call("import", skillbook)
    (bullet,) = (b for b in agent.json("list") if b["section"] == "OTHERS" and b["helpful"] == 37)
    assert bullet["text"] == "Ask two servers."
    for text in ('{"sections": {"DNS": ["dns-00001"]}}', "[]", "a: b", '{"entries": []}'):
        skillbook.write_text(text)
        ran = agent.call("import", skillbook, code=1)
        assert "rebuild" not in ran.err
    assert agent.call("verify").out == ""


def test_what_a_bullet_of_any_section_says_already_is_left_out_of_an_import_and_named(
    agent: Agent, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.md"
    rules.write_text("# Style\n\n- Use tabs always.\n- keep functions **small**\n- Keep Functions small\n")
    dry = agent.call("import", rules, "--dry-run")
    assert "line 5: pat-002 says this already" in dry.err
    assert "Undo" not in dry.err
    assert "Keep Functions" not in dry.out
    found = agent.json("import", rules)
    assert (found["bullets"], found["undo"]) == (2, "reflector undo 2")
    assert "line 5: pat-002 says this already" in found["notes"]
    again = agent.call("import", rules)
    assert (again.out, "Undo" in again.err) == ("nothing new in this file\n", False)
    agent.call("undo", "2")
    assert "Undo: reflector undo" in agent.call("import", rules).err
    assert agent.call("verify").out == ""


def test_of_many_entries_that_are_there_already_a_few_are_named(agent: Agent, tmp_path: Path) -> None:
    rules = tmp_path / "rules.md"
    rules.write_text("".join(f"- Ask person {n} about it.\n" for n in range(20)))
    agent.call("import", rules)
    again = agent.call("import", rules)
    assert "… and 8 more that bullets say already" in again.err
    assert len(agent.json("import", rules)["notes"]) == 20


def test_a_playbook_of_the_project_is_adopted_as_it_is_with_the_same_text_twice(tmp_path: Path) -> None:
    twice = {"PATTERNS & APPROACHES": [{"text": "Read the log."}], "PROJECT CONTEXT": [{"text": "Read the log."}]}
    agent = Agent.in_folder(tmp_path, twice)
    assert len(agent.json("list")) == 2
