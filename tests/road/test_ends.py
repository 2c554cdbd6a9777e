"""Sessions without a complete end: late answers, killed clients, and OpenCode's own database."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reflector.sessions import spool
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session, as_bytes
from tests.transcripts.agents import OpenCode

ANSWER = "Done, as [pat-001] says."
HOUR = 3600.0


def cited(agent: Agent) -> list[tuple[str, str]]:
    """Return each recorded citation with its session."""
    windows = agent.events("session.recorded")
    return [(window["session_id"], name) for window in windows for name in window["data"]["cited"]]


def transcript(agent: Agent, session: Session) -> Path:
    """Write a session's transcript into Claude Code's folder, and return its path."""
    return session.write(agent.home / ".claude" / "projects" / "p" / f"{session.id}.jsonl")


def ends(agent: Agent, path: Path, **stop: Any) -> None:
    """Let a session start, stop and end, and drain."""
    agent.hands("SessionStart", path)
    agent.hands("Stop", path, **stop)
    agent.hands("SessionEnd", path, drain=True)


def flushes(path: Path, session: Session, text: str) -> None:
    """Let the client write an answer late."""
    session.agent(text)
    with path.open("ab") as file:
        file.write(as_bytes(session.records[-1:]))


@pytest.mark.parametrize("stop", first_fast(1, [{"last_assistant_message": ANSWER}, {}]))
def test_answer_after_the_end_counts_next_time(agent: Agent, stop: dict[str, str]) -> None:
    session = Session("s-1").user("Fix it.").agent("I look.")
    path = transcript(agent, session)
    ends(agent, path, **stop)
    flushes(path, session, ANSWER)
    agent.hook("SessionStart", session_id="s-2")
    agent.call("drain")
    assert cited(agent) == [("s-1", "pat-001")]
    agent.call("drain")
    assert (cited(agent), agent.deliveries()) == ([("s-1", "pat-001")], [])


def test_answer_that_is_never_written_counts(agent: Agent) -> None:
    session = Session("s-1").user("Fix it.").agent("I look.")
    path = transcript(agent, session)
    ends(agent, path, last_assistant_message=ANSWER)
    assert agent.json("status")["spool"]["unanswered"] == 1
    assert "1 whose last answer reflector has not read yet" in agent.call("status").out
    agent.call("drain")
    assert cited(agent) == [("s-1", "pat-001")]
    assert agent.json("status")["spool"]["unanswered"] == 0
    assert agent.call("verify").out == ""
    flushes(path, session, ANSWER)
    flushes(path, session, "And [pat-002] as well.")
    for _ in range(2):
        agent.call("drain")
    agent.call("ingest", path)
    assert cited(agent) == [("s-1", "pat-001"), ("s-1", "pat-002")]


def test_an_answer_in_two_blocks_counts_once(agent: Agent) -> None:
    session = Session("s-1").user("Fix it.").agent("I look.")
    path = transcript(agent, session)
    ends(agent, path, last_assistant_message=f"First [pat-002].\n{ANSWER}")
    agent.call("drain")
    flushes(path, session, "First [pat-002].")
    flushes(path, session, ANSWER)
    agent.call("ingest", path)
    assert sorted(cited(agent)) == [("s-1", "pat-001"), ("s-1", "pat-002")]


def test_an_answer_that_is_there_is_not_added(agent: Agent) -> None:
    path = transcript(agent, Session("s-1").user("Fix it.").agent(ANSWER))
    ends(agent, path, last_assistant_message=ANSWER)
    agent.call("drain")
    assert (cited(agent), agent.deliveries()) == ([("s-1", "pat-001")], [])
    assert not (agent.state / "answers").exists()


def test_a_subagents_late_answer_counts(agent: Agent) -> None:
    path = transcript(agent, Session("s-1", agent_id="a-1").user("Look.").agent("I look."))
    stop = {"agent_id": "a-1", "agent_transcript_path": str(path), "last_assistant_message": ANSWER}
    agent.hook(
        "SubagentStop", session_id="s-1", transcript_path=str(agent.home / "s-1.jsonl"), **stop
    )
    agent.call("drain")
    assert cited(agent) == []
    agent.call("drain")
    (*_, window) = agent.events("session.recorded")
    assert (window["data"]["cited"], window["data"]["agent_id"], window["data"]["agent"]) == (
        ["pat-001"],
        "a-1",
        "claude-code",
    )


def test_a_late_answer_is_the_users_too(agent: Agent) -> None:
    agent.call("--user", "add", "pat", "Ask before you delete a file.")
    (name,) = [one["name"] for one in json.loads(agent.call("--user", "list", "--json").out)]
    path = transcript(agent, Session("s-1").user("Fix it.").agent("I look."))
    ends(agent, path, last_assistant_message=f"Done, as [{name}] says.")
    agent.call("drain")
    windows = json.loads(agent.call("--user", "show", "s-1", "--json").out)["windows"]
    assert [window["cited"] for window in windows if window["cited"]] == [[name]]


def test_resumed_session_waits_for_its_own_end(agent: Agent) -> None:
    session = Session("s-1").user("Fix it.").agent("I look.")
    path = transcript(agent, session)
    ends(agent, path)
    agent.hands("SessionStart", path, source="resume")
    flushes(path, session, ANSWER)
    agent.call("drain")
    assert cited(agent) == []
    agent.hands("SessionEnd", path, drain=True)
    assert cited(agent) == [("s-1", "pat-001")]


KILLED = "3b1e6c1e-5d0f-4d2c-9f6e-6f0c5a4d1e2f"


@pytest.mark.parametrize(
    "place",
    first_fast(
        2,
        [
            ".claude/projects/p/{id}.jsonl",
            ".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-{id}.jsonl",
            ".copilot/session-state/{id}/events.jsonl",
            ".pi/agent/sessions/p/2026_{id}.jsonl",
        ],
    ),
)
def test_killed_session_is_found_at_its_agent(agent: Agent, place: str) -> None:
    agent.call("drain")
    path = Session(KILLED).user("Fix it.").agent(ANSWER).write(agent.home / place.format(id=KILLED))
    agent.hook("SessionStart", session_id=KILLED)
    agent.call("drain")
    assert cited(agent) == []  # it may be at work
    for file in (path, agent.state / "begun" / f"{KILLED}.json"):
        os.utime(file, (time.time() - HOUR, time.time() - HOUR))
    agent.call("drain")
    assert cited(agent) == [(KILLED, "pat-001")]
    assert spool.begun(agent.project) == {}


def test_an_end_forgets_that_its_session_began(agent: Agent) -> None:
    path = transcript(agent, Session("s-1").user("Fix it."))
    agent.call("drain")
    agent.hands("SessionStart", path)
    assert list(spool.begun(agent.project)) == ["s-1"]
    agent.hands("SessionEnd", path, drain=True)
    assert spool.begun(agent.project) == {}


def gone() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_stop_of_a_gone_client_is_recorded(agent: Agent) -> None:
    path = transcript(agent, Session("s-1").user("Fix it.").agent(ANSWER))
    agent.hands("Stop", path, client_pid=os.getpid(), drain=True)
    assert cited(agent) == []
    agent.hands("Stop", path, client_pid=gone(), drain=True)
    assert cited(agent) == [("s-1", "pat-001")]


_TABLES = """
CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL,
    title text NOT NULL,
    version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY,
    session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY,
    message_id text NOT NULL, session_id text NOT NULL, data text NOT NULL);
"""


def stores(agent: Agent, session: OpenCode, parent: str | None = None) -> str:
    """Keep a session in a database, as OpenCode 1.18 does, and return its id."""
    folder = agent.home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "opencode.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.executescript(_TABLES)
        now, id = time.time_ns() // 1_000_000, session.info["id"]
        row = (id, parent, str(agent.project), "t", "1.18.33", now, now)
        database.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for record in session.records:
            info, parts = dict(record["info"]), record["parts"]
            own = info.pop("id")
            values = (own, id, info["time"]["created"], json.dumps(info))
            database.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?)", values)
            for part in parts:
                data = {
                    key: of
                    for key, of in part.items()
                    if key not in ("id", "messageID", "sessionID")
                }
                values = (part["id"], own, id, json.dumps(data))
                database.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)", values)
    return str(id)


def place(agent: Agent, id: str) -> Path:
    """Return the place that the plugin gives for a session of OpenCode."""
    return agent.home / ".local" / "share" / "opencode" / "reflector" / f"{id}.json"


def opencode(id: str = "ses1") -> OpenCode:
    session = OpenCode(id)
    session.info["id"] = f"ses_{id}"
    session.person("Fix it.").runs("make", "ok")
    return session.model(ANSWER)  # type: ignore[return-value]


def test_opencode_session_is_read_from_its_database(agent: Agent) -> None:
    session = opencode()
    id = stores(agent, session)
    stop = {"session_id": id, "transcript_path": str(place(agent, id)), "client_pid": gone()}
    agent.hook("Stop", **stop)
    agent.call("drain")
    assert cited(agent) == [(id, "pat-001")]
    assert place(agent, id).stat().st_mode & 0o777 == 0o600
    session.person("And now?").model("With [pat-002] in mind.")
    stores(agent, session)
    agent.hook("SessionEnd", **stop)
    agent.call("drain")
    assert cited(agent) == [(id, "pat-001"), (id, "pat-002")]
    assert agent.call("verify").out == ""


def test_opencode_session_without_a_stop_is_found(agent: Agent) -> None:
    agent.call("drain")
    session = opencode()
    session.person("And now?")
    id = stores(agent, session)
    agent.hook("SessionStart", session_id=id)
    agent.call("drain")
    assert cited(agent) == []  # its turn continues
    session.model("With [pat-002] in mind.")
    stores(agent, session)
    agent.hook("SessionStart", session_id="ses_next")
    agent.call("drain")
    assert cited(agent) == [(id, "pat-001"), (id, "pat-002")]


def test_opencode_at_work_is_named_for_a_line(agent: Agent) -> None:
    rules = agent.project / "AGENTS.md"
    rules.write_text("- One.\n")
    agent.call("drain")
    session = OpenCode("ses1")
    session.info["id"] = "ses_1"
    session.person("Add two.").runs(f"printf -- '- Two.\\n' >> {rules}", "")
    session.model("Done.")
    rules.write_text("- One.\n- Two.\n")
    for record in session.records:
        record["info"]["time"]["created"] = time.time_ns() // 1_000_000
    stores(agent, session)
    agent.hook("SessionStart", session_id="ses_1")
    agent.call("drain")
    (change,) = agent.events("memory.changed")
    assert change["data"]["by"] == "agent"


def test_a_subagent_of_opencode_counts_with_its_parent(agent: Agent) -> None:
    id = stores(agent, opencode("child"), parent="ses_parent")
    agent.hook("Stop", session_id=id, transcript_path=str(place(agent, id)), client_pid=gone())
    agent.call("drain")
    (window,) = agent.events("session.recorded")
    assert (window["session_id"], window["data"]["agent_id"]) == ("ses_parent", id)


def test_a_database_of_another_form_keeps_the_delivery(agent: Agent) -> None:
    folder = agent.home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "opencode.db") as database:
        database.executescript(
            "CREATE TABLE session (id text); INSERT INTO session VALUES ('ses_1')"
        )
    agent.hook("SessionEnd", session_id="ses_1", transcript_path=str(place(agent, "ses_1")))
    done = agent.call("drain", code=1)
    assert "opencode.db cannot be read" in done.err
    assert [name for name in agent.deliveries() if name.startswith("failed/")]


def test_a_delivery_reads_no_other_database(agent: Agent, tmp_path: Path) -> None:
    id = stores(agent, opencode())
    elsewhere = tmp_path / "opencode" / "reflector" / f"{id}.json"
    agent.hook("SessionEnd", session_id=id, transcript_path=str(elsewhere))
    agent.call("drain", code=None)
    assert cited(agent) == []
    assert not elsewhere.exists()
