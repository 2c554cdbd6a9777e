"""`reflector judge`: what nothing decided waits for a person, whose word then counts instead of others'."""

from __future__ import annotations

import json
from pathlib import Path

from reflector.ledger.store import Ledger
from reflector.reflection import people
from reflector.reflection.rules.weighing import shipped
from tests.road.agent import Agent
from tests.road.sessions import Session


def counters(agent: Agent, name: str) -> tuple[int, int]:
    row = next(row for row in json.loads(agent.call("list", "--json").out) if row["name"] == name)
    return row["helpful"], row["harmful"]


def undecided(agent: Agent, *more: str) -> list[tuple[str, str, str | None]]:
    rows = json.loads(agent.call("judge", "--json", *more).out)
    return [(row["session_id"], row["name"], row["verdict"]) for row in rows]


def lived(agent: Agent, folder: Path) -> None:
    for number, (name, verdict) in enumerate([("pat-001", None), ("mis-001", "helpful"), ("pat-001", "harmful")]):
        agent.call("ingest", Session(f"s-{number}").cites(name, verdict).write(folder / f"{number}.jsonl"))


def test_a_citation_without_a_verdict_waits_until_a_person_judges_it(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]
    agent.call("judge", "s-0", "pat-001", "helpful", "--why", "it found the bug")
    assert undecided(agent) == []
    assert counters(agent, "pat-001") == (1, 1)
    assert "it found the bug" in agent.call("blame", "pat-001").out
    assert agent.call("verify").out == ""
    assert agent.call("rebuild", "--check").code == 0


def test_a_persons_verdict_counts_instead_of_another(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    assert counters(agent, "mis-001") == (1, 0)
    assert ("s-1", "mis-001", "helpful") in undecided(agent, "--all")
    agent.call("judge", "s-1", "mis-001", "harmful")
    assert counters(agent, "mis-001") == (0, 1)
    assert "a person judged it: harmful" in agent.call("blame", "mis-001").out
    (agreement,) = json.loads(agent.call("stats", "--json").out)["agreement"]
    assert (agreement["judge"], agreement["judged"], agreement["agreed"]) == ("rules", 1, 0)
    assert agreement["rule"] in agent.call("stats").out
    assert "All counting policies agree" in agent.call("double-counts").out


def test_a_verdict_is_given_once_and_can_be_taken_back(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    agent.call("judge", "s-0", "pat-001", "helpful")
    assert "no citation of pat-001" in agent.call("judge", "s-0", "pat-001", "harmful", code=1).err
    log = json.loads(agent.call("log", "--json").out)
    tag = next(one for one in log if one["type"] == "bullet.tagged" and one["actor"] == "human")
    agent.call("retract", tag["event_id"], "--why", "a slip")
    assert counters(agent, "pat-001") == (0, 1)
    agent.call("judge", "s-0", "pat-001", "harmful")
    assert counters(agent, "pat-001") == (0, 2)


def test_later_windows_of_the_session_leave_a_persons_verdict_alone(agent: Agent, tmp_path: Path) -> None:
    session = Session("s-0").cites("pat-001", None)
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    agent.call("judge", "s-0", "pat-001", "neutral")
    session.user("Perfect, that works. Thanks!").agent("Glad to hear it.")
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    assert counters(agent, "pat-001") == (0, 0)


def test_one_key_judges_and_the_evidence_is_shown(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    agent.call("ingest", Session("s-4").cites("pat-002", None).write(tmp_path / "4.jsonl"))
    process = agent.start("judge", stdin=-1)
    out, err = process.communicate("x\nf\nh\ns\n")
    assert process.returncode == 0
    assert "1 of 2  [pat-002]" in out
    assert "As [pat-002] says, I change how the cart adds up its total." in out
    assert "1 verdict recorded; 1 left." in err
    assert counters(agent, "pat-002") == (4, 1)


def test_the_end_of_the_input_quits(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    process = agent.start("judge", stdin=-1)
    process.communicate("")
    assert process.returncode == 0
    assert undecided(agent) == [("s-0", "pat-001", "neutral")]


def test_words_that_name_no_citation_say_how_to_find_one(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    assert "no sessions begin with 'x'" in agent.call("judge", "x", "pat-001", "helpful", code=1).err
    assert "3 sessions begin" in agent.call("judge", "s", "pat-001", "helpful", code=1).err
    assert "needs all three" in agent.call("judge", "s-0", "pat-001", code=2).err
    agent.call("judge", "--since", "s-2")
    assert undecided(agent, "--since", "s-0") == []


def test_verdicts_are_labels_that_weights_are_fitted_to(agent: Agent, tmp_path: Path) -> None:
    files = [Session(f"s-{n}").cites("pat-001", "helpful").write(tmp_path / f"{n}.jsonl") for n in range(20)]
    agent.call("ingest", *files)
    assert "20 are needed" in agent.call("judge", "--fit", tmp_path / "w.json", code=1).err
    with Ledger.open_file(agent.ledger) as ledger:
        for citation in people.citations(ledger, decided=True):
            people.judge(ledger, citation, "harmful", "the secret plan")
    lines = [json.loads(line) for line in agent.call("judge", "--labels").out.splitlines()]
    assert len(lines) == 20
    assert lines[0]["label"] == "harmful"
    assert "praised" in lines[0]["found"]
    assert "secret" not in agent.call("judge", "--labels").out
    weights = tmp_path / "w.json"
    assert "reflector config set --global judgement_weights" in agent.call("judge", "--fit", weights).err
    agent.call("config", "set", "--global", "judgement_weights", weights)
    agent.call("ingest", Session("s-new").cites("mis-001", "helpful").write(tmp_path / "new.jsonl"))
    log = json.loads(agent.call("log", "--json", "--type", "reflection.answered").out)
    assert "+" in log[-1]["data"]["model"]
    weights.write_text("{}")
    agent.call("ingest", Session("s-bad").cites("mis-001", "helpful").write(tmp_path / "bad.jsonl"), code=None)
    assert "holds no weights" in agent.call("failures").out


def test_a_stricter_precision_leaves_out_what_is_not_sure_enough(agent: Agent, tmp_path: Path) -> None:
    lived(agent, tmp_path)
    (agent.claude / "reflector.toml").write_text("judgement_precision = 50\n")
    agent.call("ingest", Session("s-9").cites("pat-002", "helpful").write(tmp_path / "9.jsonl"))
    log = json.loads(agent.call("log", "--json", "--type", "reflection.answered").out)
    estimate = float(log[-1]["meta"]["judgement"]["bullets"]["pat-002"]["helpful"])
    for precision in (50, 99):
        replayed = json.loads(agent.call("replay", "--precision", str(precision), "--json").out)
        after = next(one["after"] for one in replayed["bullets"] if one["name"] == "pat-002")
        assert after["helpful"] == 3 + (estimate >= shipped().cutoff("helpful", precision))
    assert agent.counters()["pat-002"] == (4, 1)
