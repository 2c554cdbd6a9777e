"""Votes by the model that worked, and the change of an agent's model."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from reflector.audit.citations import observed, use
from reflector.audit.worked import RuleOfModel, Worked, WorkedModels
from reflector.changes.apply import apply_changes
from reflector.events.event import MODEL, NewEvent
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.conftest import examples
from tests.ledger.events import added, reflected, retracted, window

TEXT = "Read the error first"


def seen(number: int, session: str, model: str | None, **more: str) -> NewEvent:
    """Return a window of a session with a model; `more` are fields of its data."""
    recorded = window(number, session)
    meta = {MODEL: model} if model else {}
    at = f"2026-11-{number:02}T10:00:00.000000Z"
    return replace(recorded, meta=meta, occurred_at=at, data={**(recorded.data or {}), **more})


def voted(number: int, session: str, model: str | None, *tags: str) -> list[NewEvent]:
    recorded = seen(number, session, model)
    return [recorded, *reflected(f"r{number}", recorded, *(("pat-001", tag) for tag in tags))]


def test_votes_are_grouped_by_model(ledger: Ledger) -> None:
    ledger.append([added(), *voted(1, "s1", "claude-y", "helpful")])
    ledger.append(voted(2, "s2", "claude-x", "harmful"))
    ledger.append(voted(3, "s3", None, "helpful"))
    worked = WorkedModels(ledger)
    assert worked.rules == [
        RuleOfModel("pat-001", "claude-x", 0, 1, TEXT),
        RuleOfModel("pat-001", "claude-y", 1, 0, TEXT),
        RuleOfModel("pat-001", None, 1, 0, TEXT),
    ]
    assert worked.models(3) == [
        Worked("claude-x", 1, 0, 1),
        Worked("claude-y", 1, 1, 0),
        Worked(None, 1, 1, 0),
    ]


def test_histories_without_models_have_none(ledger: Ledger) -> None:
    ledger.append([added(), *voted(1, "s1", None, "helpful")])
    assert WorkedModels(ledger).models(1) == []


def test_verdicts_of_a_session_share_its_vote(ledger: Ledger) -> None:
    ledger.append([added(), *voted(1, "s1", "claude-x", "helpful")])
    ledger.append(voted(2, "s1", "claude-x", "harmful"))
    assert WorkedModels(ledger).rules == [RuleOfModel("pat-001", "claude-x", 0.5, 0.5, TEXT)]


def test_retracted_verdicts_have_no_vote(ledger: Ledger) -> None:
    events = voted(1, "s1", "claude-x", "helpful")
    ledger.append([added(), *events, retracted(events[-1])])
    assert WorkedModels(ledger).rules == []


def test_an_earlier_moment_keeps_its_votes(ledger: Ledger) -> None:
    then = ledger.append([added(), *voted(1, "s1", "claude-x", "helpful")])[-1].position
    ledger.append(voted(2, "s2", "claude-x", "harmful"))
    assert WorkedModels(ledger, Past(ledger, then)).models(1) == [Worked("claude-x", 1, 1, 0)]


def test_subagents_do_not_choose_the_model(ledger: Ledger) -> None:
    ledger.append([seen(1, "s1", "claude-x")])
    ledger.append([seen(number, "s1", "claude-y", agent_id="a1") for number in (2, 3)])
    assert WorkedModels(ledger).sessions["s1"].model == "claude-x"


def test_a_subagent_alone_has_a_model(ledger: Ledger) -> None:
    ledger.append([seen(1, "s1", "claude-y", agent_id="a1")])
    assert WorkedModels(ledger).sessions["s1"].model == "claude-y"


def test_removed_rules_have_no_votes(ledger: Ledger) -> None:
    ledger.append([added(), *voted(1, "s1", "claude-x", "helpful")])
    apply_changes(ledger, [Change("remove", "pat-001")], actor="human")
    assert WorkedModels(ledger).rules == []


def test_equal_numbers_of_windows_choose_one_model(ledger: Ledger) -> None:
    ledger.append([seen(1, "s1", "claude-y"), seen(2, "s1", "claude-x")])
    ledger.append([seen(3, "s2", "claude-x"), seen(4, "s2", "claude-y")])
    assert {each.model for each in WorkedModels(ledger).sessions.values()} == {"claude-y"}


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["s1", "s2", "s3"]),
            st.sampled_from([None, "claude-x", "claude-y"]),
            st.sampled_from(["helpful", "harmful", "neutral"]),
        ),
        max_size=12,
    )
)
def test_votes_by_model_add_up(windows: list[tuple[str, str | None, str]]) -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append([added()])
        for number, (session, model, tag) in enumerate(windows, 1):
            ledger.append(voted(number, session, model, tag))
        past = Past(ledger)
        votes = observed(ledger.rows(), past, use(ledger, past).bullets)["pat-001"]
        rules = WorkedModels(ledger, past).rules
        # Each figure is rounded to a millionth, those of the models and their sum.
        rounding = (len(rules) + 1) * 0.5e-6 + 1e-12
        assert abs(sum(rule.helped for rule in rules) - votes.helpful) <= rounding
        assert abs(sum(rule.harmed for rule in rules) - votes.harmful) <= rounding


EARLY = "2026-11-01"


def test_a_change_of_model_is_found(ledger: Ledger) -> None:
    ledger.append([added(), *voted(1, "s1", "claude-x", "helpful")])
    ledger.append(voted(2, "s2", "claude-x", "harmful"))
    ledger.append(voted(3, "s3", "claude-y", "helpful"))
    change = WorkedModels(ledger).change(EARLY)
    assert change is not None
    assert (change.agent, change.before, change.model) == ("claude-code", "claude-x", "claude-y")
    assert (change.since[:10], change.votes, change.earlier) == ("2026-11-03", 3, 2)


@pytest.mark.parametrize(
    "models",
    [
        [],
        [("claude-code", "claude-x")],
        [("claude-code", "claude-x"), ("claude-code", "claude-x")],
        [("claude-code", "claude-x"), ("codex", "gpt-y")],
    ],
    ids=["no session", "one", "the same", "another agent"],
)
def test_other_histories_have_no_change(ledger: Ledger, models: list[tuple[str, str]]) -> None:
    for number, (agent, model) in enumerate(models, 1):
        ledger.append([seen(number, f"s{number}", model, agent=agent)])
    assert WorkedModels(ledger).change(EARLY) is None


def test_a_change_back_is_found(ledger: Ledger) -> None:
    for number, model in enumerate(["claude-x", "claude-y", "claude-x", "claude-x"], 1):
        ledger.append([seen(number, f"s{number}", model)])
    change = WorkedModels(ledger).change(EARLY)
    assert change is not None
    assert (change.before, change.model, change.since[:10]) == (
        "claude-y",
        "claude-x",
        "2026-11-03",
    )


def test_a_retracted_window_changes_no_model(ledger: Ledger) -> None:
    other = seen(2, "s2", "claude-y")
    ledger.append([seen(1, "s1", "claude-x"), other, retracted(other)])
    assert WorkedModels(ledger).change(EARLY) is None


def test_windows_without_sessions_have_models(ledger: Ledger) -> None:
    for number, model in ((1, "claude-x"), (2, "claude-y")):
        events = voted(number, f"s{number}", model, "helpful")
        ledger.append([added()] * (number == 1))
        ledger.append([replace(event, session_id=None) for event in events])
    assert WorkedModels(ledger).models(2) == [
        Worked("claude-x", 1, 1, 0),
        Worked("claude-y", 1, 1, 0),
    ]


def test_an_old_change_is_not_shown(ledger: Ledger) -> None:
    ledger.append([seen(1, "s1", "claude-x"), seen(2, "s2", "claude-y")])
    assert WorkedModels(ledger).change("2026-11-03") is None
