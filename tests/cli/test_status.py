"""What `status` shows of a project."""

from dataclasses import replace
from pathlib import Path

import pytest

from reflector.events.event import MODEL
from reflector.sessions import former_shares
from tests.ledger.events import added, reflected, window
from tests.road.agent import Agent
from tests.road.sessions import Session


def test_status_shows_that_the_project_is_off(agent: Agent) -> None:
    agent.call("config", "set", "enabled", "false")
    file = agent.claude / "reflector.toml"
    assert (
        f"off       reflector is off in {file}; to turn it on: reflector on\n"
        in agent.call("status").out
    )
    assert agent.json("status")["off"] == str(file)


def test_status_of_a_recorded_project_omits_off(agent: Agent) -> None:
    assert "\noff " not in agent.call("status").out
    assert agent.json("status")["off"] is None


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("as_applied", "each verdict counts"),
        ("once_per_session", "equal verdicts of one session count once"),
    ],
)
def test_status_explains_the_counting_policy(agent: Agent, policy: str, words: str) -> None:
    agent.call("ledger", "policy", policy)
    assert f"; {words}\n" in agent.call("status").out


def test_status_without_sessions_names_history(agent: Agent) -> None:
    agent.call("drain")
    assert "sessions  none recorded; to record earlier sessions: reflector history\n" in (
        agent.call("status").out
    )


def test_status_names_a_playbook_that_cannot_be_opened(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    agent.playbook.unlink()
    agent.playbook.symlink_to(tmp_path / "elsewhere.json")
    said = agent.call("status", code=1).out
    assert f"problem   {agent.playbook}" in said


@pytest.fixture
def uneven(agent: Agent) -> Agent:
    """A rule that one session of three windows calls harmful, and one session helpful."""
    with agent.open_ledger() as ledger:
        ledger.append([added("oth-001", "Keep it small")])
        for number in range(4):
            seen = window(number, "long" if number else "short")
            tag = "harmful" if number else "helpful"
            ledger.append([seen, *reflected(f"r{number}", seen, ("oth-001", tag))])
    return agent


def test_status_counts_sessions_not_their_parts(uneven: Agent) -> None:
    assert "\nsessions  2 judged\n" in uneven.call("status", code=None).out
    told = uneven.json("status", code=None)
    assert (told["sessions"], told["windows"]) == ({"completed": 2}, {"completed": 4})


def test_status_shows_changed_figures_once(uneven: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_shares, "_SINCE", "9999")
    change = (
        "oth-001: helped 1, harmed 1 (before: helped 1, harmed 3), because each session now has "
        "one vote"
    )
    assert change in uneven.call("status", code=None).err
    assert "each session now has one vote" not in uneven.call("status", code=None).err


def test_status_of_a_new_ledger_shows_no_change(uneven: Agent) -> None:
    assert "each session now has one vote" not in uneven.call("status", code=None).err


@pytest.fixture
def two_models(agent: Agent) -> Agent:
    """A rule that helped under one model and harmed under the next."""
    with agent.open_ledger() as ledger:
        ledger.append([added("oth-001", "Keep it small")])
        for number, (model, tag) in enumerate((("claude-x", "helpful"), ("claude-y", "harmful"))):
            seen = replace(window(number, f"s-{number}"), meta={MODEL: model})
            ledger.append([seen, *reflected(f"r{number}", seen, ("oth-001", tag))])
    return agent


def test_status_shows_a_change_of_model(two_models: Agent) -> None:
    change = "claude-code changed from claude-x to claude-y (today)"
    line = f"{change}; 1 of 2 votes are from sessions before this change of the model"
    assert (
        f"model     {line}; to compare: reflector list --by model\n"
        in two_models.call("status").out
    )


def test_list_by_model_shows_each_models_votes(two_models: Agent) -> None:
    rows = two_models.call("list", "--by", "model").out.splitlines()
    assert rows[0].split() == ["NAME", "MODEL", "HELPED", "HARMED", "RULE"]
    assert [row.split()[:4] for row in rows[1:]] == [
        ["oth-001", "claude-x", "1", "0"],
        ["oth-001", "claude-y", "0", "1"],
    ]


@pytest.mark.parametrize(("words", "found"), [("small", 2), ("unrelated", 0)])
def test_list_by_model_takes_words(two_models: Agent, words: str, found: int) -> None:
    assert len(two_models.json("list", words, "--by", "model")) == found


def test_stats_show_models_that_worked(two_models: Agent) -> None:
    worked = [
        {"model": "claude-x", "sessions": 1, "helped": 1.0, "harmed": 0.0},
        {"model": "claude-y", "sessions": 1, "helped": 0.0, "harmed": 1.0},
    ]
    assert two_models.json("stats")["worked"] == worked


def test_stats_count_what_you_overruled(agent: Agent, tmp_path: Path) -> None:
    for session in ("s-1", "s-2"):
        path = Session(session).cites("pat-001").write(tmp_path / f"{session}.jsonl")
        agent.call("ingest", str(path))
    agent.call("review", "pat-001", "harmful", "--session", "s-1")
    by_judge = {of["model"]: of["overruled"] for of in agent.json("stats")["by_model"]}
    assert by_judge.pop("human", 0) == 0
    assert sum(by_judge.values()) == 1
    agent.call("undo")
    assert {of["overruled"] for of in agent.json("stats")["by_model"]} == {0}


@pytest.mark.parametrize("option", [(), ("--dry-run",)], ids=["reflect", "dry run"])
def test_nothing_to_judge_is_named(agent: Agent, option: tuple[str, ...]) -> None:
    agent.counted("pat-001")
    assert "No session waits for a judge." in agent.call("reflect", *option).err
