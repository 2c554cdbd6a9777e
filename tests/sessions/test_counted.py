"""The counts of rules as events: recorded with a window, folded by session."""

from pathlib import Path

import pytest

from reflector.changes.retractions import retract
from reflector.counts.rules import (
    CAME_UP,
    IN_TIME,
    UNKNOWN,
    Marks,
    PartCounts,
    RuleSet,
    rule_of,
    rule_set,
)
from reflector.events import event as ev
from reflector.events.folds import fold_ledger
from reflector.ledger.store import Ledger
from reflector.sessions.counted import CountsFold
from reflector.sessions.intake import Source, take_in
from tests.road.agent import Agent
from tests.road.sessions import Session

LINT = rule_of("Run `make lint` before you commit.")
PUSH = rule_of("Ask before you push.")


@pytest.fixture(name="rules")
def two_rules() -> RuleSet:
    """Two rules that are counted."""
    return rule_set([LINT, PUSH])


def _session() -> Session:
    session = Session().user("Fix the total.").runs("make lint", "ok")
    return session.user("Run make lint again.").runs("git commit -m x", "ok")


def _counts(ledger: Ledger, upto: int | None = None) -> dict[str, PartCounts]:
    return fold_ledger(CountsFold(), ledger, upto)


def _taken(ledger: Ledger, session: Session, folder: Path, rules: RuleSet | None) -> str | None:
    transcript = session.write(folder / "s-1.jsonl")
    return take_in(ledger, Source(transcript, "SessionEnd"), rules=rules).event_id


def test_window_is_followed_by_its_counts(ledger: Ledger, tmp_path: Path, rules: RuleSet) -> None:
    _taken(ledger, _session(), tmp_path, rules)
    counts = _counts(ledger)["s-1"]
    assert counts.marks == {LINT.key: Marks(run=1, said=0b11, came_up=5)}
    assert (counts.rules, counts.steps) == ({LINT.key, PUSH.key}, 2)


def test_event_holds_no_words(ledger: Ledger, tmp_path: Path, rules: RuleSet) -> None:
    _taken(ledger, _session(), tmp_path, rules)
    [event] = ledger.events(types=[ev.RULE_COUNTED])
    assert event.facts["counted"] == [{"rule": 0, "run": 1, "said": 3, "came_up": 5}]
    assert {type(event.facts[name]) for name in ("rules", "version", "began")} == {str}


@pytest.mark.parametrize("cut", [2, 3, 5])
def test_session_counts_once_however_it_is_cut(
    ledger: Ledger, tmp_path: Path, rules: RuleSet, cut: int
) -> None:
    whole = _session()
    first = Session()
    first.records = whole.records[:cut]
    _taken(ledger, first, tmp_path, rules)
    _taken(ledger, whole, tmp_path, rules)
    counts = _counts(ledger)["s-1"]
    assert counts.marks == {LINT.key: Marks(run=1, said=0b11, came_up=5)}
    assert counts.steps == 2


def test_earlier_window_may_have_read_a_file(ledger: Ledger, tmp_path: Path) -> None:
    rule = rule_of("Read a file before you edit it.")
    first = Session().user("Fix it.").runs("", "x = 1", tool="Read")
    whole = Session()
    whole.records = [*first.records]
    whole.runs("", "ok", tool="Edit")
    arguments = {"file_path": "/shop/a.py", "old_string": "a", "new_string": "b"}
    whole.records[-2]["message"]["content"][0]["input"] = arguments
    for session in (first, whole):
        _taken(ledger, session, tmp_path, rule_set([rule]))
    assert not _counts(ledger)["s-1"].marks.get(rule.key, Marks()).written


def test_window_of_two_machines_has_its_steps_once(
    ledger: Ledger, tmp_path: Path, rules: RuleSet
) -> None:
    _taken(ledger, _session(), tmp_path, rules)
    [event] = ledger.events(types=[ev.RULE_COUNTED])
    about = (event.actor, event.occurred_at, event.session_id)
    other = ev.NewEvent(event.type, "other", event.facts, *about, target_id=event.target_id)
    ledger.append([other])
    assert _counts(ledger)["s-1"].steps == 2


def test_counts_are_as_of_a_position(ledger: Ledger, tmp_path: Path, rules: RuleSet) -> None:
    before = ledger.head().position
    _taken(ledger, _session(), tmp_path, rules)
    assert _counts(ledger, before) == {}
    assert [*_counts(ledger, ledger.head().position)] == ["s-1"]


def test_retracted_window_counts_nothing(ledger: Ledger, tmp_path: Path, rules: RuleSet) -> None:
    window_id = _taken(ledger, _session(), tmp_path, rules)
    [window] = ledger.events(types=[ev.SESSION_RECORDED])
    assert window.event_id == window_id
    retract(ledger, [window], "not ours")
    assert _counts(ledger) == {}


def test_intake_without_rules_counts_nothing(ledger: Ledger, tmp_path: Path) -> None:
    _taken(ledger, _session(), tmp_path, None)
    assert not ledger.has(ev.RULE_COUNTED)


def test_subagents_window_is_not_counted(ledger: Ledger, tmp_path: Path, rules: RuleSet) -> None:
    session = Session("s-2", agent_id="a1").user("Go.").runs("make lint", "ok")
    transcript = session.write(tmp_path / "agent-a1.jsonl")
    take_in(ledger, Source(transcript, "SubagentStop", agent_id="a1"), rules=rules)
    assert not ledger.has(ev.RULE_COUNTED)


def test_two_ledgers_give_the_same_event(tmp_path: Path, rules: RuleSet) -> None:
    ids = []
    for name in ("first", "second"):
        with Ledger.open("sqlite://") as ledger:
            _taken(ledger, _session(), tmp_path / name, rules)
            ids += [event.event_id for event in ledger.events(types=[ev.RULE_COUNTED])]
    assert ids[0] == ids[1]


def test_session_end_counts_rules_of_files(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text(f"# Rules\n\n- {LINT.text}\n")
    transcript = _session().write(agent.home / "s-1.jsonl")
    agent.hands("SessionEnd", transcript, drain=True)
    with agent.open_ledger() as ledger:
        assert _counts(ledger)["s-1"].marks[LINT.key].run == 1
    assert "1 run, 0 written, 1 repeated by you, 1 came up" in agent.call("log", "-n", "0").out


def test_changed_file_gives_other_rules(agent: Agent) -> None:
    rules_file = agent.project / "CLAUDE.md"
    for number, text in enumerate((PUSH.text, LINT.text)):
        rules_file.write_text(f"# Rules\n\n- {text}\n")
        session = Session(f"s-{number}").user("Go.").runs("git push", "ok")
        agent.hands("SessionEnd", session.write(agent.home / f"s-{number}.jsonl"), drain=True)
    with agent.open_ledger() as ledger:
        counts = _counts(ledger)
    assert PUSH.key in counts["s-0"].rules - counts["s-1"].rules
    assert LINT.key in counts["s-1"].rules - counts["s-0"].rules


def test_rebuild_and_verify_keep_counts(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text(f"# Rules\n\n- {LINT.text}\n")
    agent.hands("SessionEnd", _session().write(agent.home / "s-1.jsonl"), drain=True)
    agent.call("rebuild", "--check")
    agent.call("verify")
    assert agent.call("export", "--format", "ndjson").out.count('"rule.counted"') == 1


@pytest.mark.parametrize("cut", [2, 3, 4])
@pytest.mark.parametrize(
    ("calls", "came_up"),
    [
        (["ls", "git commit -m x"], CAME_UP | UNKNOWN),
        (["git commit -m x", "make lint"], CAME_UP | UNKNOWN),
        (["make lint", "git commit -m x"], CAME_UP | IN_TIME),
    ],
)
def test_order_is_unknown_without_the_begin(
    ledger: Ledger, tmp_path: Path, rules: RuleSet, calls: list[str], came_up: int, cut: int
) -> None:
    """A session that was cut into windows has its beginning; one whose file lacks it does not."""
    part = Session().runs(calls[0], "ok").runs(calls[1], "ok")
    part.records[0]["parentUuid"] = "of-an-earlier-file"
    first = Session()
    first.records = part.records[:cut]
    _taken(ledger, first, tmp_path, rules)
    _taken(ledger, part, tmp_path, rules)
    assert _counts(ledger)["s-1"].marks[LINT.key].came_up == came_up
