"""Rules in place count as shown in the sessions whose client loaded their file."""

from math import inf
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.ledger.usage import told_texts, usage_at
from reflector.playbook.admissible import same_words
from reflector.playbook_files.births import Births, LineState
from reflector.playbook_files.watching import Line
from reflector.sessions.intake import Source, take_in
from reflector.sessions.loaded import LoadedRules
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

RULE = "Run `make lint` before you commit."
OTHER = "Never force-push to main."


@pytest.fixture(name="project_rules")
def two_rules_in_place(tmp_path: Path) -> Agent:
    """A project with git whose CLAUDE.md has two rules with names."""
    agent = Agent.bare(tmp_path)
    _rules_file(agent).write_text(f"# Git\n\n- {RULE}\n- {OTHER}\n")
    agent.commit_long_ago()
    agent.call("adopt", _rules_file(agent))
    return agent


def _rules_file(agent: Agent) -> Path:
    return agent.project / "CLAUDE.md"


def _ends(agent: Agent, session: Session) -> None:
    agent.hands("SessionEnd", session.write(agent.home / f"{session.id}.jsonl"), drain=True)


def _session(number: int) -> Session:
    return Session(f"s-{number}").user("Fix the total.").agent("It is fixed.")


def _shown(agent: Agent, *moment: str) -> dict[str, int | None]:
    return {row["text"]: row["told_sessions"] for row in agent.json("list", *moment)}


def test_session_end_counts_rules_as_shown(project_rules: Agent) -> None:
    _ends(project_rules, _session(1))
    _ends(project_rules, _session(2))
    assert _shown(project_rules) == {RULE: 2, OTHER: 2}


def test_session_without_an_answer_counts_nothing(project_rules: Agent) -> None:
    _ends(project_rules, Session("s-1").user("Fix the total."))
    assert _shown(project_rules) == {RULE: None, OTHER: None}


@pytest.mark.parametrize("cut", first_fast(1, [2, 1, 3]))
def test_session_is_shown_a_rule_once(project_rules: Agent, cut: int) -> None:
    whole = _session(1).user("And the tax.").agent("It is right.")
    first = Session("s-1")
    first.records = whole.records[:cut]
    _ends(project_rules, first)
    _ends(project_rules, whole)
    assert _shown(project_rules) == {RULE: 1, OTHER: 1}
    with project_rules.open_ledger() as ledger:
        assert len([*ledger.events(types=[ev.ADVICE_TOLD])]) == 1


def test_line_newer_than_a_session_is_not_shown(project_rules: Agent) -> None:
    with _rules_file(project_rules).open("a") as file:
        file.write("- Keep each function short.\n")
    project_rules.call("adopt", _rules_file(project_rules))
    _ends(project_rules, _session(1))
    assert _shown(project_rules) == {RULE: 1, OTHER: 1, "Keep each function short.": 0}


def test_file_of_another_agent_is_not_shown(project_rules: Agent) -> None:
    file = project_rules.project / "GEMINI.md"
    file.write_text("- Keep each function short.\n")
    project_rules.commit_long_ago()
    project_rules.call("adopt", file)
    _ends(project_rules, _session(1))
    assert _shown(project_rules)["Keep each function short."] == 0


def test_scoped_file_is_not_shown(project_rules: Agent) -> None:
    file = project_rules.project / ".claude/rules/go.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\npaths: '*.go'\n---\n\n- Keep each function short.\n")
    project_rules.commit_long_ago()
    project_rules.call("adopt", file)
    _ends(project_rules, _session(1))
    assert _shown(project_rules)["Keep each function short."] == 0


def test_names_given_later_count_earlier_sessions(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    _rules_file(agent).write_text(f"- {RULE}\n")
    agent.commit_long_ago()
    _ends(agent, _session(1))
    _ends(agent, Session("s-2").user("Fix the total."))
    undo = agent.call("adopt", _rules_file(agent)).err.partition("Undo: reflector ")[2].split()
    assert _shown(agent) == {RULE: 1}
    agent.call(*undo)
    agent.call("adopt", _rules_file(agent))
    assert _shown(agent) == {RULE: 1}


def test_shown_rule_is_as_of_a_position(project_rules: Agent) -> None:
    before = project_rules.json("log", "-n", "1")[0]["position"]
    _ends(project_rules, _session(1))
    assert _shown(project_rules, "--as-of", str(before)) == {RULE: None, OTHER: None}


def test_rebuild_and_verify_keep_shown_rules(project_rules: Agent) -> None:
    _ends(project_rules, _session(1))
    project_rules.call("rebuild")
    project_rules.call("rebuild", "--check")
    project_rules.call("verify")
    assert _shown(project_rules) == {RULE: 1, OTHER: 1}


def test_moved_rule_keeps_its_sessions(project_rules: Agent) -> None:
    """They do not make it due for removal: no session could cite it."""
    for number in range(3):
        _ends(project_rules, _session(number))
    project_rules.call("adopt", "--move", "--yes", _rules_file(project_rules))
    assert _shown(project_rules) == {RULE: 3, OTHER: 3}
    assert [row["demoted"] for row in project_rules.json("list")] == [None, None]
    project_rules.environ["REFLECTOR_PRUNE_AFTER"] = "2"
    assert project_rules.json("review", "find", "--dry-run")["removals"] == []


@pytest.mark.slow
def test_imported_ledger_counts_a_session_once(project_rules: Agent, tmp_path: Path) -> None:
    _ends(project_rules, _session(1))
    export = tmp_path / "ledger.ndjson"
    export.write_text(project_rules.call("export", "--format", "ndjson").out)
    other = Agent.bare(tmp_path / "other")
    _rules_file(other).write_text(_rules_file(project_rules).read_text())
    other.commit_long_ago()
    other.call("adopt", _rules_file(other))
    _ends(other, _session(1))
    other.call("import", export)
    assert _shown(other) == {RULE: 1, OTHER: 1}


def test_shown_file_is_no_shown_text(ledger: Ledger, tmp_path: Path) -> None:
    """The ranking counts texts of the playbook, and sessions that could cite a rule."""
    line = Line("CLAUDE.md", 1, "oth", RULE, "oth-001")
    course = {same_words(RULE): [(-inf, LineState.SINCE)]}
    loaded = LoadedRules(
        {"oth-001": line}, {"CLAUDE.md": frozenset(["claude-code"])}, Births(course)
    )
    transcript = _session(1).write(tmp_path / "s-1.jsonl")
    take_in(ledger, Source(transcript, "SessionEnd"), loaded=loaded)
    used = usage_at(ledger).bullets["oth-001"]
    assert (used.shown, used.told, told_texts(ledger)) == (1, 0, 0)
    ledger.rebuild()
    assert usage_at(ledger).bullets["oth-001"] == used
    assert usage_at(ledger, 1).bullets["oth-001"].shown == 0


def test_event_holds_no_words(project_rules: Agent) -> None:
    _ends(project_rules, _session(1))
    with project_rules.open_ledger() as ledger:
        [telling] = ledger.events(types=[ev.ADVICE_TOLD])
    assert telling.facts["bullets"] == ["oth-001", "oth-002"]
    assert RULE not in str(telling.facts)
