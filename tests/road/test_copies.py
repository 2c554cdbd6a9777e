"""Copied history: a fork under new ids counts once, in every format, and the list of duplicates
shows it.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session as Plain
from tests.transcripts.agents import EVERY, SESSION, Claude, Codex, Session
from tests.transcripts.records import line

ALL: dict[str, Callable[..., Session]] = {"claude code": Claude, **EVERY}
FORK = "019a0000-0000-7000-8000-00000000000f"
SECOND = "019a0000-0000-7000-8000-0000000000ff"
#: Keys that may contain an id in a record of any format.
_IDS = {"id", "uuid", "messageID", "sessionID", "sessionId", "parentUuid", "messageId", "parentId"}


def renamed(value: Any, of: str) -> Any:
    """Return a copy of records in which every id is new, and every time and word is unchanged."""
    if isinstance(value, list):
        return [renamed(one, of) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{of}{one[-12:]}" if key in _IDS and isinstance(one, str) else renamed(one, of)
        for key, one in value.items()
    }


def fork_of(session: Session, id: str = FORK) -> Session:
    copy = type(session)(id)
    own = copy.__dict__
    own |= {key: renamed(one, id[-4:]) for key, one in session.__dict__.items() if key != "id"}
    if "header" in own:
        own["header"]["sessionId"] = id
    if "info" in own:
        own["info"]["id"] = f"ses_{id}"
    for record in own["records"]:
        if isinstance(record, dict) and record.get("type") == "session":  # pi
            record["id"] = id
        if isinstance(record, dict) and "sessionId" in record:
            record["sessionId"] = id
        if (
            isinstance(record, dict)
            and isinstance(record.get("data"), dict)
            and "sessionId" in record["data"]
        ):
            record["data"]["sessionId"] = id
    return copy


def windows(agent: Agent) -> list[tuple[int, list[str]]]:
    """Return the number of records in each window, and the bullets that it cites."""
    return [
        (event["data"]["window"]["records"], event["data"]["cited"])
        for event in agent.events("session.recorded")
    ]


def ingest(agent: Agent, session: Session, folder: Path) -> None:
    agent.call("ingest", session.write(folder / session.id / session.file_name))


@pytest.mark.parametrize("name", first_fast(3, [name for name in ALL if name != "codex"]))
def test_a_copy_under_new_ids_counts_once(name: str, agent: Agent, tmp_path: Path) -> None:
    original = ALL[name]().cites("pat-001").person("Go on.").model("With [pat-002] in mind.")
    ingest(agent, original, tmp_path)
    before = windows(agent)
    ingest(agent, fork_of(original).person("Now the docs.").model("As [mis-001] says."), tmp_path)
    assert windows(agent)[0] == before[0]
    assert windows(agent)[1:] == [(2, ["mis-001"])]
    counters = agent.counters()
    ingest(agent, fork_of(original).person("Now the docs.").model("As [mis-001] says."), tmp_path)
    assert (len(windows(agent)), agent.counters()) == (2, counters)


def test_the_list_of_doubles_names_a_copy(agent: Agent, tmp_path: Path) -> None:
    original = Claude(SESSION).cites("pat-001")
    ingest(agent, original, tmp_path)
    for _ in range(2):
        ingest(agent, fork_of(original), tmp_path)
    assert len(windows(agent)) == 1
    (copy,) = agent.json("stats", "--doubles")["copies"]
    assert copy == {"session": FORK, "of": SESSION, "records": 4}
    assert "copied from" in agent.call("stats", "--doubles").out
    assert agent.call("verify").out == ""


def test_session_rewritten_under_new_ids_counts_once(agent: Agent, tmp_path: Path) -> None:
    original = Claude(SESSION).cites("pat-001")
    ingest(agent, original, tmp_path)
    original.records = renamed(original.records, "anew")
    for record in original.records:
        if "sessionId" in record:
            record["sessionId"] = SESSION
    ingest(agent, original.person("Now the docs.").model("As [mis-001] says."), tmp_path)
    assert windows(agent)[1:] == [(2, ["mis-001"])]
    assert agent.json("stats", "--doubles")["copies"] == []


def test_a_wish_in_a_copy_is_heard_once(agent: Agent, tmp_path: Path) -> None:
    original = (
        Claude(SESSION)
        .person("Fix it.")
        .model("Done.")
        .person("No, use pnpm instead of npm.")
        .model("Yes.")
    )
    ingest(agent, original, tmp_path)
    ingest(agent, fork_of(original).person("Thanks.").model("Gladly."), tmp_path)
    assert (len(agent.events("wish.heard")), agent.json("review")["proposals"]) == (1, [])


def test_a_copy_read_whole_is_a_double(agent: Agent, tmp_path: Path) -> None:
    original = Claude(SESSION).cites("pat-001")
    ingest(agent, original, tmp_path)
    path = fork_of(original).write(tmp_path / "fork.jsonl")
    agent.call("ingest", "--window", "whole", path)
    (found,) = [one for one in agent.json("stats", "--doubles")["classes"] if one["code"] == "D5"]
    assert (found["tags"], found["bullets"]) == (1, 1)


def test_a_fork_begins_in_its_originals_conversation(agent: Agent, tmp_path: Path) -> None:
    original = Claude(SESSION).cites("pat-001")
    ingest(agent, original, tmp_path)
    ingest(agent, fork_of(original).person("Now the docs.").model("As [mis-001] says."), tmp_path)
    assert [event["data"]["root"] for event in agent.events("session.outcome")] == [
        SESSION,
        SESSION,
    ]


def test_sessions_with_one_prompt_in_common_both_count(agent: Agent, tmp_path: Path) -> None:
    first, second = Claude(SESSION).cites("pat-001"), Claude(FORK).cites("pat-001")
    second.records = renamed(second.records, "other")
    for record in second.records[-3:]:
        record["timestamp"] = record["timestamp"].replace("00.000Z", "00.001Z")
    ingest(agent, first, tmp_path)
    ingest(agent, second, tmp_path)
    assert windows(agent) == [(4, ["pat-001"]), (4, ["pat-001"])]
    assert agent.json("stats", "--doubles")["copies"] == []


def test_the_users_playbook_counts_a_copy_once(agent: Agent, tmp_path: Path) -> None:
    agent.call("--user", "add", "pat", "Ask before you delete a file.")
    (name,) = [one["name"] for one in json.loads(agent.call("--user", "list", "--json").out)]
    original = (
        Claude(SESSION)
        .person("Fix it.")
        .model(f"As [{name}] says.")
        .person("Perfect, that works. Thanks!")
    )
    ingest(agent, original.model("Gladly."), tmp_path)
    before = agent.call("--user", "list", "--json").out
    ingest(agent, fork_of(original).person("Now the docs.").model("Yes."), tmp_path)
    assert agent.call("--user", "list", "--json").out == before


def codex(id: str, *metas: dict[str, Any]) -> Codex:
    """Return a rollout that begins with its own meta and others, as releases before 0.146 wrote
    them.
    """
    session = Codex(id)
    session.records = [
        {**session.records[0], "payload": {**session.records[0]["payload"], **meta}}
        for meta in metas
    ]
    return session


def replay(session: Codex, of: Codex) -> Codex:
    """Add the records of the other rollout, without its metas, at the time of the copy."""
    said = [record for record in of.records if record["type"] != "session_meta"]
    session.records += [
        {**json.loads(json.dumps(one)), "timestamp": "2026-10-01T00:00:00.000Z"} for one in said
    ]
    session.count += len(said)
    return session


SPAWN = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}}
OWN, FORKED, PARENT = {"id": FORK}, {"forked_from_id": SESSION}, {"id": SESSION}


@pytest.mark.parametrize(
    "metas",
    first_fast(
        3,
        [
            [OWN | FORKED | SPAWN, PARENT],
            [OWN | SPAWN, PARENT],
            [OWN | FORKED | SPAWN],
            [OWN | FORKED, PARENT],
            [OWN | FORKED],
        ],
    ),
)
def test_a_replay_of_codex_counts_once(
    metas: list[dict[str, Any]], agent: Agent, tmp_path: Path
) -> None:
    parent = (
        Codex(SESSION)
        .person("Add a cache.")
        .model("I follow [pat-001].")
        .person("Go on.")
        .model("With [pat-002].")
    )
    ingest(agent, parent, tmp_path)
    fork = replay(codex(FORK, *metas), parent)
    ingest(agent, fork.person("Review it.").model("It is fine, says [mis-001]."), tmp_path)
    assert windows(agent)[1:] == [(2, ["mis-001"])]


def test_codex_replay_with_its_times_counts_once(agent: Agent, tmp_path: Path) -> None:
    parent = Codex(SESSION).person("Add a cache.").model("I follow [pat-001].")
    ingest(agent, parent.person("Go on.").model("With [pat-002]."), tmp_path)
    child = codex(FORK, OWN | SPAWN)
    child.records += parent.records[1:]
    child.count = parent.count
    ingest(agent, child.person("Review it.").model("It is fine, says [mis-001]."), tmp_path)
    assert [cited for _, cited in windows(agent)[1:]] == [["mis-001"]]


def test_codex_fork_of_a_fork_counts_once(agent: Agent, tmp_path: Path) -> None:
    parent = Codex(SESSION).person("Add a cache.").model("I follow [pat-001].")
    fork = (
        replay(codex(FORK, OWN | FORKED, PARENT), parent).person("Go on.").model("With [pat-002].")
    )
    second = replay(
        codex(SECOND, {"id": SECOND, "forked_from_id": FORK}, OWN | FORKED, PARENT), fork
    )
    for session in (parent, fork, second.person("Review it.").model("It is fine, says [mis-001].")):
        ingest(agent, session, tmp_path)
    assert [cited for _, cited in windows(agent)] == [["pat-001"], ["pat-002"], ["mis-001"]]


def test_two_codex_sessions_with_equal_words_count_twice(agent: Agent, tmp_path: Path) -> None:
    for number, id in enumerate((SESSION, FORK)):
        session = Codex(id).person("Add a cache.").model("I follow [pat-001].")
        for record in session.records:
            record["timestamp"] = re.sub("2026-02", f"2026-0{number + 3}", record["timestamp"])
        ingest(agent, session, tmp_path)
    assert [cited for _, cited in windows(agent)] == [["pat-001"], ["pat-001"]]


def test_a_subagent_of_codex_keeps_its_own_words(agent: Agent, tmp_path: Path) -> None:
    ingest(agent, Codex(SESSION).person("Add a cache.").model("I follow [pat-001]."), tmp_path)
    child = codex(FORK, OWN | SPAWN)
    ingest(agent, child.person("Review it.").model("I follow [pat-001]."), tmp_path)
    assert [cited for _, cited in windows(agent)] == [["pat-001"], ["pat-001"]]


def test_copy_after_client_records_counts_once(agent: Agent, tmp_path: Path) -> None:
    original = Plain("s-1").cites("pat-001")
    agent.call("ingest", original.write(tmp_path / "s-1.jsonl"))
    fork = Plain("s-2").user("<system-reminder>You are in a fork.</system-reminder>")
    copies = [{**one, "uuid": f"{one['uuid']}-2", "sessionId": "s-2"} for one in original.records]
    (tmp_path / "s-2.jsonl").write_bytes(b"".join(map(line, [*fork.records, *copies])))
    agent.call("ingest", tmp_path / "s-2.jsonl")
    assert [cited for _, cited in windows(agent)] == [["pat-001"]]
