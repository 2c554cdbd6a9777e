"""Rules from a file, ledgers from another machine, and the command that each file needs."""

from pathlib import Path

import pytest

from reflector.text.words import context_tokens
from tests.road.agent import Agent


@pytest.fixture
def bare(tmp_path: Path) -> Agent:
    """A project without a playbook, with a CLAUDE.md of two rules."""
    agent = Agent.bare(tmp_path)
    (agent.project / "CLAUDE.md").write_text("# Git\n\n- Run the linter.\n- Use tabs.\n")
    return agent


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/playbook.json"])
def test_import_of_rules_prints_adopt(bare: Agent, name: str) -> None:
    bare.call("add", "pat", "Read the log.")
    file = bare.project / name
    refused = bare.call("import", file, code=2).err
    assert (
        f"{file} is not a ledger. To add the rules in this file: `reflector adopt {file}`"
        in refused
    )


def test_adopt_of_ledger_prints_import(bare: Agent, tmp_path: Path) -> None:
    file = tmp_path / "my ledger.ndjson"
    bare.call("add", "pat", "Read the log.")
    file.write_text(bare.call("export", "--format", "ndjson").out)
    refused = bare.call("adopt", file, code=2).err
    assert f"{file} is a ledger; `reflector import '{file}'` adds it" in refused


def test_refused_import_begins_no_ledger(bare: Agent) -> None:
    bare.call("import", bare.project / "CLAUDE.md", code=2)
    assert not bare.claude.exists()


def test_file_without_rules_begins_no_ledger(bare: Agent, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"version": "1.0", "sections": {}}')
    assert bare.call("adopt", empty).out == "This file does not contain a new rule.\n"
    assert not bare.claude.exists()


def test_move_shows_tokens_before_and_after(bare: Agent) -> None:
    before = context_tokens((bare.project / "CLAUDE.md").read_text())
    moved = bare.json("adopt", "--move", "--yes", bare.project / "CLAUDE.md")
    assert (moved["bullets"], moved["tokens_before"]) == (2, before)
    assert moved["tokens_after"] == bare.json("status")["told"]["tokens"]


def test_dry_run_of_adopt_has_no_undo(bare: Agent) -> None:
    dry = bare.json("adopt", "--dry-run", bare.project / "CLAUDE.md")
    assert (dry["bullets"], dry["undo"]) == (2, None)
    assert not bare.claude.exists()


def test_move_names_install_until_an_agent_is_connected(bare: Agent) -> None:
    file = bare.project / "CLAUDE.md"
    assert "No agent is connected yet" in bare.call("adopt", "--move", file).err
    bare.call("install")
    assert "No agent is connected yet" not in bare.call("adopt", "--move", file).err


def test_status_says_that_no_agent_is_connected(bare: Agent) -> None:
    assert "none connected" in bare.call("status").out
    bare.call("install")
    assert "none connected" not in bare.call("status").out


def test_file_that_no_agent_loads_stays(bare: Agent, tmp_path: Path) -> None:
    file = tmp_path / "rules.md"
    file.write_text("- Ask first.\n")
    assert bare.json("adopt", file)["how"] == "added"


def test_refused_adoption_prints_rename(bare: Agent) -> None:
    bare.call("add", "pat", "Read the log.")
    file = bare.project / "book.json"
    file.write_text('{"sections": {"OTHERS": [{"name": "pat-001", "text": "Other."}]}}')
    refused = bare.call("adopt", file, code=1).err
    assert "adopt --rename" in refused
    assert bare.call("adopt", "--rename", file).out == "1 rule adopted\n"


def test_cut_ledger_begins_no_ledger(bare: Agent, tmp_path: Path) -> None:
    other = Agent.in_folder(tmp_path / "other")
    other.call("add", "pat", "Read the log.")
    lines = other.call("export", "--format", "ndjson").out.splitlines(keepends=True)
    file = tmp_path / "cut.ndjson"
    file.write_text("".join(lines[:-1]))
    assert "the file was cut off" in bare.call("import", file, code=1).err
    assert not bare.claude.exists()


def test_empty_list_names_the_file_with_rules(bare: Agent) -> None:
    (bare.project / "CLAUDE.md").write_text("- Run the tests before you commit.\n")
    shown = bare.call("list").err
    assert "the rules of CLAUDE.md do not have names yet" in shown
    assert "reflector adopt CLAUDE.md" in shown
