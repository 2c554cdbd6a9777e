"""A ledger moved from the command line: to another folder, another engine, into a backup, and
back.
"""

import shlex
from pathlib import Path

import pytest

from tests.conftest import Postgres
from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def told(agent: Agent, tmp_path: Path) -> Agent:
    """A project with a session that counted, and an export of it beside."""
    agent.counted()
    (tmp_path / "ledger.ndjson").write_text(agent.call("export", "--format", "ndjson").out)
    return agent


@pytest.fixture
def other(tmp_path: Path) -> Agent:
    """Another machine, without a playbook."""
    other = Agent.bare(tmp_path / "other")
    other.claude.mkdir()
    return other


def test_a_file_of_another_history_is_kept_aside(told: Agent, other: Agent, tmp_path: Path) -> None:
    other.write_playbook(
        {"OTHERS": [{"name": "pat-001", "text": "Mine.", "helpful": 9, "harmful": 0}]}
    )
    mine = other.playbook.read_text()
    wrong = tmp_path / "wrong.ndjson"
    wrong.write_text((tmp_path / "ledger.ndjson").read_text().replace("pat-001", "pat-002"))
    refused = other.call("import", wrong, code=1)
    assert (
        refused.out,
        other.playbook.read_text(),
        "the event's data was changed" in " ".join(refused.err.split()),
    ) == (
        "",
        mine,
        True,
    )
    loaded = other.json("import", tmp_path / "ledger.ndjson")
    assert (
        other.call("ledger", "head").out == f"{loaded['head']}\n" == told.call("ledger", "head").out
    )
    assert other.playbook.read_bytes() == told.playbook.read_bytes()
    (kept,) = (other.state / "kept").iterdir()
    assert (kept.read_text(), loaded["kept"]) == (mine, str(kept))
    assert ("Nothing new: this ledger already has every event of the file.") in other.call(
        "import", tmp_path / "ledger.ndjson"
    ).err


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("begins_empty", [True, False])
def test_import_prints_words_without_hashes(
    other: Agent, tmp_path: Path, begins_empty: bool
) -> None:
    if not begins_empty:
        other.call("add", "mis", "Ask before you push.")
    loaded = other.call("import", tmp_path / "ledger.ndjson", *[] if begins_empty else ["--rename"])
    assert loaded.err.count("imported. Next: reflector list") == begins_empty
    assert "pl1:" not in loaded.out


@pytest.mark.usefixtures("told")
def test_import_has_no_trial_run(other: Agent, tmp_path: Path) -> None:
    refused = other.call("import", tmp_path / "ledger.ndjson", "--dry-run", code=2)
    assert "adopt" not in refused.err


def test_undone_verdict_is_named_by_its_id(told: Agent) -> None:
    verdict = told.events("reflection.completed")[-1]
    told.call("undo", verdict["position"], "--yes")
    (retraction,) = told.events("evidence.retracted")
    assert retraction["data"]["reason"] == f"undid event {verdict['event_id'][:8]}"
    assert f"at position {verdict['position']}" in told.call("show", verdict["event_id"][:8]).out


@pytest.mark.postgres
def test_ledger_moves_to_a_server_and_back(told: Agent, postgres: Postgres, tmp_path: Path) -> None:
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


def test_copy_shows_no_password_and_needs_a_ledger(
    told: Agent, other: Agent, tmp_path: Path
) -> None:
    urls = (
        "postgresql://me:s3cret@localhost:1/x",
        "postgresql://me:s3cret@localhost:1/x?password=s3cret",
    )
    for url in (*urls, "mysql://me:s3cret@localhost/x"):
        assert "s3cret" not in (refused := told.call("ledger", "copy", url, code=1).err)
        assert url not in urls or "localhost" in refused
    for command, target in (
        ("copy", f"sqlite:///{tmp_path / 'x.db'}"),
        ("backup", tmp_path / "x.db"),
    ):
        assert "does not have a ledger" in other.call("ledger", command, target, code=2).err
    assert not (tmp_path / "x.db").exists()


def test_dry_run_of_an_import_leaves_nothing(
    tmp_path: Path,
) -> None:
    agent, rules = Agent.bare(tmp_path), tmp_path / "rules.md"
    rules.write_text("- Use tabs always.\n")
    assert "1 rule would be adopted" in agent.call("adopt", rules, "--dry-run").out
    assert not agent.claude.exists()
    transcript = Session().user("Hello.").write(tmp_path / "s.jsonl")
    assert f"`reflector ingest {transcript}` records" in agent.call("adopt", transcript, code=2).err


def test_known_rules_are_omitted_from_adopt_and_named(agent: Agent, tmp_path: Path) -> None:
    rules = tmp_path / "rules.md"
    rules.write_text(
        "# Style\n\n- Use tabs always.\n- keep functions **small**\n- Keep Functions small\n"
    )
    dry = agent.call("adopt", rules, "--dry-run")
    assert "line 5: pat-002 already has this text" in dry.err
    assert "Undo" not in dry.err
    assert "Keep Functions" not in dry.out
    found = agent.json("adopt", rules)
    assert (found["bullets"], found["undo"]) == (2, "reflector undo 2")
    assert "line 5: pat-002 already has this text" in found["notes"]
    again = agent.call("adopt", rules)
    assert (again.out, "Undo" in again.err) == ("This file does not contain a new rule.\n", False)
    agent.call("undo", "2", "--yes")
    assert "Undo: reflector undo" in agent.call("adopt", rules).err
    rules.write_text("".join(f"- Ask person {n} about it.\n" for n in range(20)))
    agent.call("adopt", rules)
    assert "… and 8 more that are already rules" in agent.call("adopt", rules).err


def test_existing_playbook_may_have_a_text_twice(
    tmp_path: Path,
) -> None:
    twice = {
        "PATTERNS & APPROACHES": [{"text": "Read the log."}],
        "PROJECT CONTEXT": [{"text": "Read the log."}],
    }
    assert len(Agent.in_folder(tmp_path, twice).json("list")) == 2


@pytest.fixture
def kept(agent: Agent, tmp_path: Path) -> Agent:
    """A project with a backup of the day before its last session."""
    agent.counted()
    assert agent.call("ledger", "backup", tmp_path / "b.db").out == agent.call("ledger", "head").out
    agent.counted(id="s-2")
    return agent


@pytest.mark.slow
def test_restored_playbook_records_later_sessions_again(kept: Agent, tmp_path: Path) -> None:
    assert "--force" in kept.call("ledger", "restore", tmp_path / "b.db", code=1).err
    assert kept.counters()["pat-001"] == (2, 0)
    told = kept.call("ledger", "restore", "--force", tmp_path / "b.db").err
    assert "`restore` kept the old ledger as" in told
    assert kept.counters()["pat-001"] == (1, 0)
    assert kept.events("bullet.recounted") == []
    assert "helpful=1 " in kept.hook("SessionStart", source="startup")
    kept.call("ingest", kept.home / "s-1.jsonl", kept.home / "s-2.jsonl")
    assert kept.counters()["pat-001"] == (2, 0)
    kept.call("verify")
    kept.call("rebuild", "--check")


@pytest.mark.slow
def test_advice_after_the_backup_returns_with_its_counts(
    tmp_path: Path,
) -> None:
    agent = Agent.in_folder(tmp_path / "my work")
    agent.call("add", "pat", "Read the log.")
    agent.call("ledger", "backup", tmp_path / "b.db")
    name = agent.call("add", "pat", "Ask first.").out[1:8]
    agent.counted(name)
    assert agent.counters()[name] == (1, 0)
    told = agent.call("ledger", "restore", "--force", tmp_path / "b.db").err
    sessions, advice = told.index("`reflector history`"), told.rindex("`reflector adopt '/")
    assert sessions < advice
    agent.call("ingest", agent.home / "s-1.jsonl")
    agent.call(*shlex.split(told[advice:].split("`")[1])[1:])
    assert agent.counters()[name] == (1, 0)
