"""The placebo arm: what each session is shown, by the real hook, and what is recorded of it."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.transcripts.tellings import PLACEBO_HEADING, telling_of
from reflector.trials import trial as of_trials
from reflector.trials.draw import is_placebo, is_withheld
from reflector.trials.placebo import bundled_digest, placebo_digests, placebo_text
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

ALL = {"pat-001", "pat-002", "mis-001", "pref-001"}


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    agent = Agent.in_folder(tmp_path)
    agent.call("add", "pref", "Answer in French.")
    return agent


def arms(agent: Agent, count: int = 40) -> dict[str, list[str]]:
    """Return sessions by the arm that the trial which was opened last draws for them."""
    data = agent.events("trial.opened")[-1]["data"]
    sessions: dict[str, list[str]] = {"told": [], "without": [], "placebo": []}
    for number in range(count):
        session = f"s-{number}"
        if is_placebo(data["key"], data["placebo"]["share"], session):
            sessions["placebo"].append(session)
        else:
            is_without = is_withheld(data["key"], data["share"], session)
            sessions["without" if is_without else "told"].append(session)
    return sessions


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\[(\w+-\d+)\] helpful=", text))


def shown(agent: Agent, session: str, source: str = "startup", **more: str) -> str:
    event = more.pop("event", "SessionStart")
    return agent.hook(event, source=source, session_id=session, **more)


@pytest.mark.parametrize("event", ["SessionStart", "SubagentStart"])
@pytest.mark.parametrize("source", first_fast(1, ["startup", "resume", "compact", "clear"]))
def test_each_arm_is_shown_its_text(agent: Agent, source: str, event: str) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    texts = {
        arm: shown(agent, sessions[0], source, event=event, agent_id="a-1")
        for arm, sessions in arms(agent).items()
    }
    assert {arm: names_in(text) for arm, text in texts.items()} == {
        "told": ALL,
        "without": set(),
        "placebo": set(),
    }
    assert [PLACEBO_HEADING in texts[arm] for arm in ("told", "without", "placebo")] == [
        False,
        False,
        True,
    ]


def test_a_placebo_has_the_length_of_the_advice(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    drawn = arms(agent)
    advice, placebo = (shown(agent, drawn[arm][0]) for arm in ("told", "placebo"))
    assert len(advice) - 90 <= len(placebo) <= len(advice) + 1
    assert "[" not in placebo


def test_a_placebo_takes_the_place_of_one_rule(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes", "mis-001")
    drawn = arms(agent)
    text = shown(agent, drawn["placebo"][0])
    assert names_in(text) == names_in(shown(agent, drawn["without"][0])) == ALL - {"mis-001"}
    assert PLACEBO_HEADING in text
    assert names_in(shown(agent, drawn["told"][0])) == ALL


@pytest.mark.parametrize("arm", ["told", "without", "placebo"])
def test_a_fork_goes_by_its_original(agent: Agent, tmp_path: Path, arm: str) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    text = shown(agent, arms(agent)[arm][0])
    assert names_in(shown(agent, "fork-1", "fork")) == set()
    session = Session("s-0").starts(text).user("Fix it.").agent("Done.")
    path = session.fork("fork-1").write(tmp_path / "fork-1.jsonl")
    later = shown(agent, "fork-1", "compact", transcript_path=str(path))
    assert later == text


def test_a_forks_name_may_end_another_name(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    told = arms(agent)["told"][0]
    shown(agent, f"of-{told}", "fork")
    assert names_in(shown(agent, told)) == ALL


def test_a_placebo_is_in_no_list_or_file(agent: Agent) -> None:
    before = agent.json("list")
    agent.call("trial", "start", "--placebo", "--yes")
    shown(agent, arms(agent)["placebo"][0])
    assert agent.json("list") == before
    assert PLACEBO_HEADING not in agent.playbook.read_text()
    agent.call("trial", "stop")
    assert not (agent.own / "injection-placebo.txt").exists()


def ended(
    agent: Agent, session: str, *words: str, echoes: bool = True, drains: bool = True
) -> None:
    """Let a session of the real hook end, whose transcript may repeat what the hook printed."""
    text = shown(agent, session)
    talk = Session(session)
    if text and echoes:
        talk.starts(text)
    talk.user("Fix the total.").agent("Done.")
    for word in words:
        talk.user(word).agent("Done.")
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    talk.records = [record | {"timestamp": now} for record in talk.records]
    path = talk.write(agent.project / f"{session}.jsonl")
    agent.hook("SessionEnd", session_id=session, transcript_path=str(path), reason="other")
    if drains:
        agent.call("drain")


@pytest.mark.parametrize("echoes", first_fast(1, [True, False]))
def test_a_shown_placebo_is_recorded_by_its_digest(agent: Agent, echoes: bool) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    session = arms(agent)["placebo"][0]
    ended(agent, session, echoes=echoes)
    (told,) = agent.events("advice.told")
    assert told["data"]["digest"] in placebo_digests()
    assert told["data"]["bullets"] == []
    assert told["session_id"] == session


def test_a_placebo_beside_rules_has_its_own_digest(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes", "mis-001")
    ended(agent, arms(agent)["placebo"][0])
    (told,) = agent.events("advice.told")
    assert told["data"]["digest"] in placebo_digests()
    assert {*told["data"]["bullets"]} == ALL - {"mis-001"}


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Settle each outcome at once instead of after a day."""
    return lambda: monkeypatch.setattr(of_trials, "SETTLES", timedelta(0))


def test_a_closed_trial_has_three_arms(agent: Agent, settle: Callable[[], None]) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    for sessions in arms(agent).values():
        ended(agent, sessions[0])
        ended(agent, sessions[1], "No, that is wrong, undo it.")
    settle()
    agent.call("trial", "stop")
    (closed,) = agent.events("trial.closed")
    arm = {"sessions": 2, "good": 1}
    assert [closed["data"][name] for name in ("told", "without")] == [arm, arm]
    assert closed["data"]["placebo"].items() >= {**arm, "verdict": "early"}.items()
    status = agent.call("trial", "status").out
    assert "compared with the placebo: no result yet: 4 of the 40 sessions" in status
    assert re.search(r"^placebo +2 sessions, 50% correction-free$", status, re.M)
    assert agent.call("verify").out == ""


def test_a_placebo_in_another_arm_is_found(agent: Agent, settle: Callable[[], None]) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    drawn = arms(agent)
    placebo = shown(agent, drawn["placebo"][0])
    (agent.own / "injection.txt").write_bytes((agent.own / "injection-placebo.txt").read_bytes())
    assert shown(agent, drawn["told"][0]) == placebo
    ended(agent, drawn["told"][0])
    settle()
    agent.call("trial", "stop")
    assert (
        "although the trial did not choose the placebo for these sessions"
        in agent.call("verify", code=1).out
    )


def test_a_trial_without_a_placebo_records_none(agent: Agent) -> None:
    agent.call("trial", "start", "--yes")
    agent.call("trial", "stop")
    assert "placebo" not in agent.events("trial.opened")[0]["data"]
    assert "placebo" not in agent.events("trial.closed")[0]["data"]


def test_the_opening_has_the_digest_of_the_text(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    (opened,) = agent.events("trial.opened")
    assert opened["data"]["placebo"] == {"share": 333_333, "digest": bundled_digest()}


@pytest.mark.parametrize("length", [0, 100, 1_000, 9_400, 20_000])
def test_a_placebo_names_nothing_to_cite(length: int) -> None:
    text = placebo_text(length)
    telling = telling_of(text)
    assert telling is not None
    assert (telling.bullets, telling.lessons) == ((), ())
    assert telling.digest in placebo_digests()
    assert len(text) <= max(length, 120)


def test_a_watched_rule_cannot_be_withheld(agent: Agent) -> None:
    event = {"name": "ctx-009", "section": "ctx", "text": "Use pnpm.", "origin": "CLAUDE.md"}
    with agent.open_ledger() as ledger:
        data = event | {"watched": True}
        ledger.append([ev.NewEvent(ev.BULLET_ADDED, "w" * 32, data, "check")])
    error = agent.call("trial", "start", "ctx-009", "--yes", code=2).err
    assert "ctx-009 is in CLAUDE.md" in error
    assert "adopt --move CLAUDE.md" in error


@pytest.mark.parametrize("names", [[], ["pat-001"]])
def test_a_mirror_refuses_any_trial(agent: Agent, names: list[str]) -> None:
    agent.call("mirror", "AGENTS.md")
    error = agent.call("trial", "start", *names, "--yes", code=2).err
    assert "always reads AGENTS.md, and this file contains the whole playbook" in error
    assert "adopt --move" in error


@pytest.mark.slow
def test_a_plan_shows_the_sessions_of_a_placebo(agent: Agent) -> None:
    for number in range(30):
        ended(agent, f"p-{number}", drains=number == 29)
    lengths = json.loads(agent.call("trial", "plan", "--json").out)["lengths"]
    costs = {length["points"]: (length["sessions"], length["with_placebo"]) for length in lengths}
    assert all(costs[30])
    assert costs[30][1] == pytest.approx(1.5 * costs[30][0], abs=1)
    assert f"{costs[30][1]:,} sessions instead of" in agent.call("trial", "plan").err


def test_the_placebo_is_half_of_its_comparison(agent: Agent) -> None:
    agent.call("trial", "start", "--placebo", "--yes")
    with agent.open_ledger() as ledger:
        (trial,) = of_trials.trials(ledger)
    assert trial.placebo_share == pytest.approx(0.5, abs=1e-5)
    assert trial.withheld_share == pytest.approx(1 / 3, abs=1e-5)
