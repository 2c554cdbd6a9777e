"""The line that an agent shows its user when a session starts, and Claude Code as its status line,
read without a ledger; the text for the agent stays the same.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reflector.locate import own_folder
from reflector.reflection.gate import CITES_NOTHING
from reflector.reflection.recorder import Reflected
from reflector.sessions.last_session import leave_first, leave_last_session
from tests.conftest import first_fast
from tests.road.agent import REFLECTOR, Agent
from tests.road.sessions import Session

#: What Claude Code and Gemini CLI give a hook at a session's start, and the payload of Codex CLI.
GEMINI = {"GEMINI_SESSION_ID": "g-1"}
CODEX = "/home/ana/.codex/sessions/2026/11/29/rollout-2026-11-29T11-38-33-01a2.jsonl"
CLAUDE = {"CLAUDE_ENV_FILE": "/somewhere/sessionstart-hook-1.sh"}


def start(agent: Agent, source: str = "startup", **environ: str) -> dict[str, Any]:
    """What the start of a session in Claude Code prints, as an object; text that is none as
    `text`.
    """
    agent.environ = CLAUDE | environ
    out = agent.hook("SessionStart", source=source)
    agent.environ = {}
    told: dict[str, Any] = json.loads(out) if out.startswith("{") else {"text": out}
    return told


def status_line(agent: Agent, stdin: str = "", **environ: str) -> str:
    done = subprocess.run(
        [*REFLECTOR, "statusline"],
        input=stdin,
        env=agent.env(**environ),
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def assert_said(agent: Agent, line: str) -> None:
    """A person sees the line at a start and as the status line."""
    assert start(agent)["systemMessage"] == line
    assert status_line(agent) == f"{line}\n"


@pytest.mark.parametrize("source", first_fast(2, ["startup", "resume", "clear", "fork"]))
def test_start_line_leaves_the_agents_text_unchanged(agent: Agent, source: str) -> None:
    text = agent.hook("SessionStart")
    assert start(agent, source) == {
        "systemMessage": "playbook: 3 rules",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text},
    }


def test_line_shows_the_result_of_the_last_session(
    agent: Agent,
) -> None:
    agent.hands("Stop", Session("s-0").cites("pat-001").write(agent.home / "s-0.jsonl"))
    agent.call("list")
    assert_said(agent, "playbook: 3 rules")  # it only stopped
    agent.ended()
    assert_said(agent, "playbook: 3 rules · last session: still being processed")
    agent.call("drain")
    assert_said(agent, "playbook: 3 rules · last session: pat-001 helpful")
    agent.ended("pat-002", "harmful", id="s-2")
    agent.call("list")  # a question processes it as well
    assert_said(agent, "playbook: 3 rules · last session: pat-002 harmful")


def test_waiting_proposal_is_shown_until_it_is_decided(
    agent: Agent,
) -> None:
    same = [
        {"name": f"pat-00{n}", "text": "Write the test first", "helpful": 0, "harmful": 0}
        for n in (1, 2)
    ]
    agent.write_playbook({"PATTERNS & APPROACHES": same})
    agent.call("review", "find")
    assert start(agent)["systemMessage"] == (
        "playbook: 2 rules · 1 proposal waits: reflector review"
    )
    assert "proposal" not in agent.hook("SessionStart")
    agent.ended()
    agent.call("drain")
    said = "last session: pat-001 helpful · 1 proposal waits: reflector review"
    assert start(agent)["systemMessage"] == f"playbook: 2 rules · {said}"
    whole = agent.playbook.read_bytes()
    agent.playbook.write_text('{"sections": {}}')
    assert start(agent)["systemMessage"] == "1 proposal waits: reflector review"
    agent.playbook.write_bytes(whole)
    (waiting,) = agent.json("review")["proposals"]
    agent.call("review", "reject", waiting["id"], "--why", "no")
    assert "waits" not in start(agent)["systemMessage"]


def test_compaction_gets_no_line(agent: Agent) -> None:
    assert start(agent, "compact") == {"text": agent.hook("SessionStart")}


@pytest.mark.parametrize(
    ("environ", "transcript"), [(GEMINI, ""), ({}, CODEX)], ids=["gemini", "codex"]
)
def test_other_agents_show_the_line(agent: Agent, environ: dict[str, str], transcript: str) -> None:
    text = agent.hook("SessionStart")
    agent.environ = environ
    assert json.loads(agent.hook("SessionStart", transcript_path=transcript)) == {
        "systemMessage": "playbook: 3 rules",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text},
    }


@pytest.mark.parametrize(
    ("environ", "printed"),
    [
        ({"COPILOT_PROJECT_DIR": "/src/shop"}, {"additionalContext"}),
        (GEMINI | {"REFLECTOR_START_MESSAGE": "false"}, {"hookSpecificOutput"}),
    ],
    ids=["copilot", "gemini, turned off"],
)
def test_agent_without_a_line_gets_its_text(
    agent: Agent, environ: dict[str, str], printed: set[str]
) -> None:
    agent.environ = environ
    assert json.loads(agent.hook("SessionStart")).keys() == printed


@pytest.mark.parametrize("where", [[], ["--global"]])
def test_the_line_can_be_turned_off(agent: Agent, where: list[str]) -> None:
    agent.call("config", "set", *where, "start_message", "false")
    assert start(agent) == {"text": agent.hook("SessionStart")}
    assert "systemMessage" in start(agent, REFLECTOR_START_MESSAGE="true")


def test_unreadable_playbook_is_named_with_its_place(agent: Agent) -> None:
    agent.call("list")
    whole = agent.playbook.read_text()
    agent.playbook.write_text(whole.replace('"pat-001",', '"pat-001"'))
    said = "playbook: .claude/playbook.json cannot be read: line 8, column 9"
    told = start(agent)
    assert told["systemMessage"].startswith(f"{said}: ")
    assert told["systemMessage"].endswith("; see `reflector doctor`")
    assert "[pat-001]" in told["hookSpecificOutput"]["additionalContext"]  # as the ledger knows it
    agent.playbook.write_text(whole)
    assert_said(agent, "playbook: 3 rules")


@pytest.mark.parametrize(
    ("stdin", "line"),
    [
        ('{"workspace": {"project_dir": "%s"}}', "playbook: 3 rules\n"),
        ('{"cwd": "%s"}', "playbook: 3 rules\n"),
        ("not JSON", ""),
        ('{"cwd": 7}', ""),
        ('{"workspace": "x", "cwd": "/"}', ""),
    ],
)
def test_status_line_is_of_the_named_project(agent: Agent, stdin: str, line: str) -> None:
    agent.call("list")
    folder = agent.project / "src"
    folder.mkdir()
    assert status_line(agent, stdin.replace("%s", str(folder)), CLAUDE_PROJECT_DIR="") == line


def test_a_line_obeys_nobody(agent: Agent) -> None:
    agent.call("list")
    text = agent.hook("SessionStart")
    rendered = agent.own / "injection.txt"
    # cut off, so it is rendered again
    rendered.write_bytes(b"\n".join(rendered.read_bytes().split(b"\n")[:3]))
    assert agent.hook("SessionStart") == text
    (agent.own / "last-session.txt").write_bytes(b'\x1b[31m"}\\ \xff' + b"x" * 2000 + b"\ns-1\n")
    line = start(agent)["systemMessage"]
    assert line.isprintable()
    assert len(line) < 500


def done(
    detail: str = "", session: str | None = "s-1", outcome: Any = "completed", undecided: int = 0
) -> Reflected:
    return Reflected(
        session, "w", outcome, detail, undecided=("pat-001", "mis-001", "oth-001")[:undecided]
    )


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([[done("pat-001 helpful, mis-001 harmful")]], "pat-001 helpful, mis-001 harmful"),
        ([[done()]], "no verdict"),
        ([[done(undecided=1)]], "pat-001 cited, no verdict: reflector review"),
        ([[done(undecided=3)]], "3 rules cited, no verdict: reflector review"),
        ([[done(undecided=1)], [done("pat-001 helpful")]], "pat-001 helpful"),
        ([[done(undecided=1)], [done()]], "pat-001 cited, no verdict: reflector review"),
        ([[done(undecided=1)], [done(session="s-2")]], "no verdict"),
        ([[done(CITES_NOTHING, outcome="skipped")]], "no rule cited"),
        (
            [[done("transport: away", outcome="failed")]],
            "judging failed, see `reflector status`",
        ),
        ([[done("pat-001 helpful"), done(session="s-2")]], "no verdict"),
        ([[done("pat-001 helpful")], [done(CITES_NOTHING, outcome="skipped")]], "pat-001 helpful"),
        ([[done("pat-001 helpful")], [done(CITES_NOTHING, "s-2", "skipped")]], "no rule cited"),
        (
            [[done("pat-001 helpful, pat-002 helpful"), done("pat-001 harmful")]],
            "pat-001 harmful, pat-002 helpful",
        ),
        ([[done("pat-001 helpful")], [done(session=None, outcome="waiting")]], "pat-001 helpful"),
    ],
)
def test_what_all_windows_of_one_brought_is_said(
    tmp_path: Path, rounds: list[list[Reflected]], said: str
) -> None:
    (tmp_path / "home").mkdir()
    for reflected in rounds:
        leave_last_session(tmp_path, reflected)
    assert Path(own_folder(str(tmp_path)), "last-session.txt").read_text().splitlines()[0] == said


@pytest.mark.parametrize(
    ("detail", "outcome"),
    [
        (CITES_NOTHING, "skipped"),
        ("the playbook is empty", "skipped"),
        ("the daily budget is spent: 20 of 20 requests", "skipped"),
        ("the monthly budget is spent: 9 of 9 tokens", "skipped"),
        ("transport: away", "failed"),
        ("", "waiting"),
    ],
)
def test_first_verdicts_replace_an_unjudged_session(
    tmp_path: Path, detail: str, outcome: str
) -> None:
    (tmp_path / "home").mkdir()
    leave_last_session(tmp_path, [done(detail, outcome=outcome)])
    leave_first(tmp_path, "3 sessions read", 0.0, (), answered=True)
    text = Path(own_folder(str(tmp_path)), "last-session.txt").read_text()
    assert text == "first verdicts: 3 sessions read\n"


@pytest.mark.parametrize(
    "how", first_fast(1, ["the person lists it", "the person's file", "the repository's file"])
)
def test_switched_off_project_records_nothing_but_has_commands(agent: Agent, how: str) -> None:
    agent.call("list")
    settings = agent.home / ".config" / "reflector" / "config.toml"
    settings.parent.mkdir(parents=True)
    if how == "the repository's file":
        settings = agent.claude / "reflector.toml"
    settings.write_text(
        f'off = ["{agent.project.parent}/"]' if how == "the person lists it" else "enabled = false"
    )
    told = start(agent)
    said = "reflector is turned off in .claude/reflector.toml; to turn it on: reflector on"
    assert told == ({"systemMessage": said} if how == "the repository's file" else {"text": ""})
    agent.ended()
    assert agent.deliveries() == []
    (check,) = [
        one for one in agent.json("doctor", code=None) if "turns reflector off" in one["text"]
    ]
    assert str(settings) in check["text"]
    agent.call("add", "pat", "Commands go on.")
    assert agent.json("status")["told"] is None


def test_line_stops_asking_for_a_given_verdict(agent: Agent) -> None:
    agent.ended("pat-001", None)
    agent.call("drain")
    assert "pat-001 cited, no verdict: reflector review" in status_line(agent, "{}")
    agent.call("review", "pat-001", "helpful", "--session", "s-1")
    assert "last session: pat-001 helpful" in status_line(agent, "{}")
