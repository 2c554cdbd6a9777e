"""The line that Claude Code shows a person when a session starts; what its agent is told stays the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflector.reflection.gate import CITES_NOTHING
from reflector.reflection.recording import Reflected
from reflector.sessions.injection import LIMIT
from reflector.sessions.last_session import leave, leave_waiting
from tests.hooks.test_starts import characters
from tests.road.agent import Agent
from tests.road.sessions import Session

#: What Claude Code alone gives a hook, at a session's start.
CLAUDE = {"CLAUDE_ENV_FILE": "/somewhere/sessionstart-hook-1.sh"}


def start(agent: Agent, source: str = "startup", **environ: str) -> dict[str, Any]:
    """What the start of a session in Claude Code prints, as an object; text that is none as `text`."""
    agent.environ = CLAUDE | environ
    out = agent.hook("SessionStart", source=source)
    agent.environ = {}
    told: dict[str, Any] = json.loads(out) if out.startswith("{") else {"text": out}
    return told


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "fork"])
def test_a_person_sees_one_line_and_the_agent_is_told_what_it_is_told_without_it(agent: Agent, source: str) -> None:
    text = agent.hook("SessionStart")
    assert start(agent, source) == {
        "systemMessage": "playbook: 3 bullets",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text},
    }


def test_the_line_says_how_many_key_points_do_not_fit(agent: Agent) -> None:
    long = [{"name": f"oth-{n:03d}", "text": "ü😀" * 400, "helpful": 0, "harmful": 0} for n in range(1, 31)]
    agent.write_playbook({"OTHERS": long})
    shown = agent.hook("SessionStart").count("] helpful=")
    told = start(agent)
    assert told["systemMessage"] == f"playbook: 30 bullets, {shown} shown"
    assert characters(told["hookSpecificOutput"]["additionalContext"]) <= LIMIT


def test_the_line_says_what_the_last_session_brought_and_that_one_is_still_processed(agent: Agent) -> None:
    session = Session("s-0").cites("pat-001").write(agent.home / "s-0.jsonl")
    agent.hook("Stop", session_id="s-0", transcript_path=str(session))
    assert start(agent)["systemMessage"] == "playbook: 3 bullets"  # it only stopped
    agent.ended()
    assert start(agent)["systemMessage"] == "playbook: 3 bullets · last session: still being processed"
    agent.call("drain")
    assert start(agent)["systemMessage"] == "playbook: 3 bullets · last session: pat-001 helpful"
    agent.ended("mis-001", "harmful", id="s-2")
    agent.call("list")  # a question processes it as well
    assert start(agent)["systemMessage"] == "playbook: 3 bullets · last session: mis-001 harmful"


@pytest.fixture
def proposal(agent: Agent) -> str:
    """The id of a proposal that waits: two bullets say the same."""
    same = [{"name": f"pat-00{n}", "text": "Write the test first", "helpful": 0, "harmful": 0} for n in (1, 2)]
    agent.write_playbook({"PATTERNS & APPROACHES": same})
    agent.call("proposals", "find")
    (waiting,) = agent.json("proposals")
    return str(waiting["id"])


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_proposal_that_waits_is_said_until_it_is_decided(agent: Agent, proposal: str, decision: str) -> None:
    line = start(agent)["systemMessage"]
    assert line == "playbook: 2 bullets · 1 proposal waits: reflector proposals"
    assert "proposal" not in agent.hook("SessionStart")
    assert agent.json("status")["proposals"] == 1
    assert "waiting   1 proposal: reflector proposals" in agent.call("status").out
    agent.call("proposals", decision, proposal, *(["--why", "no"] if decision == "reject" else []))
    assert "waits" not in start(agent)["systemMessage"]
    assert agent.json("status")["proposals"] == 0
    assert "\nwaiting " not in agent.call("status").out


@pytest.mark.usefixtures("proposal")
def test_a_proposal_is_said_beside_what_the_last_session_brought_and_alone_without_a_playbook(agent: Agent) -> None:
    agent.ended()
    agent.call("drain")
    said = "last session: pat-001 helpful · 1 proposal waits: reflector proposals"
    assert start(agent)["systemMessage"] == f"playbook: 2 bullets · {said}"
    agent.playbook.write_text('{"sections": {}}')
    assert start(agent)["systemMessage"] == "1 proposal waits: reflector proposals"


def test_the_users_own_proposals_name_the_users_playbook(tmp_path: Path) -> None:
    leave_waiting(tmp_path, 2, is_users=True)
    left = tmp_path / ".claude/reflector/waiting.txt"
    assert left.read_text() == "2 proposals wait: reflector --user proposals\n"
    for _ in range(2):
        leave_waiting(tmp_path, 0, is_users=True)
    assert not left.exists()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("pat-001",), "pat-001 cited, undecided: reflector judge"),
        (("pat-001", "mis-001"), "pat-001 and mis-001 cited, undecided: reflector judge"),
        (("pat-001", "mis-001", "oth-001"), "3 bullets cited, undecided: reflector judge"),
    ],
)
def test_what_was_cited_and_not_decided_is_named(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    leave(tmp_path, [Reflected("w", "completed", "", "s-1", undecided=names)])
    left = tmp_path / ".claude/reflector/last-session.txt"
    assert left.read_text().splitlines()[0] == said
    leave(tmp_path, [Reflected("v", "completed", "pat-001 helpful", "s-1")])
    assert left.read_text().splitlines()[0] == "pat-001 helpful"


def test_a_compaction_interrupts_nobody_and_another_agent_gets_no_line(agent: Agent) -> None:
    text = agent.hook("SessionStart")
    assert start(agent, "compact") == {"text": text}
    agent.environ = {"GEMINI_SESSION_ID": "g-1"}
    assert json.loads(agent.hook("SessionStart")) == {
        "hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": text}
    }


@pytest.mark.parametrize("where", ["project", "user", "environment"])
def test_the_line_can_be_turned_off(agent: Agent, where: str) -> None:
    text = agent.hook("SessionStart")
    if where == "environment":
        assert start(agent, REFLECTOR_START_MESSAGE="false") == {"text": text}
        return
    agent.call("config", "set", *(["--global"] if where == "user" else []), "start_message", "false")
    assert start(agent) == {"text": text}
    assert "systemMessage" in start(agent, REFLECTOR_START_MESSAGE="true")


def test_without_anything_to_cite_a_person_is_told_nothing(agent: Agent) -> None:
    agent.write_playbook({"OTHERS": []})
    assert start(agent) == {"text": ""}


def test_a_playbook_that_cannot_be_read_is_said_with_the_place(agent: Agent) -> None:
    agent.call("list")
    agent.playbook.write_text(agent.playbook.read_text().replace('"pat-001",', '"pat-001"'))
    told = start(agent)
    assert told["systemMessage"].startswith("playbook: .claude/playbook.json cannot be read: line 8, column 9: ")
    assert told["systemMessage"].endswith("; see `reflector doctor`")
    assert "[pat-001]" in told["hookSpecificOutput"]["additionalContext"]  # as the ledger knows it


def test_a_rendered_text_that_cannot_be_stored_is_said_with_its_path(
    agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    rendered = agent.state / "injection.txt"
    rendered.mkdir(parents=True)
    agent.call("add", "pat", "More.")
    assert f"renders it again: {rendered}: Is a directory" in capfd.readouterr().err


def test_a_line_obeys_nobody(agent: Agent) -> None:
    agent.call("list")
    text = agent.hook("SessionStart")
    rendered = agent.state / "injection.txt"
    rendered.write_bytes(b"\n".join(rendered.read_bytes().split(b"\n")[:3]))  # cut off, so it is rendered again
    assert agent.hook("SessionStart") == text
    (agent.state / "last-session.txt").write_bytes(b'\x1b[31m"}\\ \xff' + b"x" * 2000 + b"\ns-1\n")
    line = start(agent)["systemMessage"]
    assert line.isprintable()
    assert len(line) < 500


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([[("s-1", "completed", "pat-001 helpful, mis-001 harmful")]], "pat-001 helpful, mis-001 harmful"),
        ([[("s-1", "completed", "")]], "nothing decided"),
        ([[("s-1", "skipped", CITES_NOTHING)]], "nothing cited"),
        ([[("s-1", "skipped", "the playbook is empty")]], "not judged: the playbook is empty"),
        ([[("s-1", "failed", "transport: away")]], "judging it failed, see `reflector status`"),
        ([[("s-1", "waiting", "")], [("s-1", "completed", "pat-001 helpful")]], "pat-001 helpful"),
        ([[("s-1", "completed", "pat-001 helpful"), ("s-2", "completed", "")]], "nothing decided"),
        ([[("s-1", "completed", "pat-001 helpful")], [("s-1", "skipped", CITES_NOTHING)]], "pat-001 helpful"),
        ([[("s-1", "completed", "pat-001 helpful")], [("s-2", "skipped", CITES_NOTHING)]], "nothing cited"),
        (
            [[("s-1", "completed", "pat-001 helpful, pat-002 helpful")], [("s-1", "completed", "pat-001 harmful")]],
            "pat-001 harmful, pat-002 helpful",
        ),
        ([[("s-1", "completed", "pat-001 helpful")], [(None, "waiting", "")]], "pat-001 helpful"),
    ],
)
def test_what_a_session_brought_is_said_of_all_its_windows(tmp_path: Path, rounds: list[Any], said: str) -> None:
    for reflected in rounds:
        leave(tmp_path, [Reflected("w", outcome, detail, session) for session, outcome, detail in reflected])
    assert (tmp_path / ".claude/reflector/last-session.txt").read_text().splitlines()[0] == said
