from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages, scan
from tests.transcripts.agents import Copilot


def read(session: Copilot, folder: Path) -> list[Message]:
    path = session.write(folder / "events.jsonl")
    return list(read_messages(path))


def test_a_call_that_is_asked_for_and_then_started_counts_once(tmp_path: Path) -> None:
    session = Copilot()
    session.called("bash", '{"command": "make"}', success=True, result={"content": "ok"})
    session.event("tool.execution_start", toolCallId="lone", toolName="view", arguments={"path": "a.py"})
    calls = [(call.name, dict(call.input)) for message in read(session, tmp_path) for call in message.calls]
    assert calls == [("Bash", {"command": "make"}), ("Read", {"file_path": "a.py"})]


@pytest.mark.parametrize(
    ("complete", "expected"),
    [
        ({"success": True, "result": {"content": "no\n<exited with exit code 1>"}}, ("tool", True)),
        ({"success": True, "result": {"content": "ok\n<exited with exit code 0>"}}, ("tool", False)),
        ({"success": True, "result": {"content": "no\n<shellId: 0 completed with exit code 3>"}}, ("tool", True)),
        ({"success": True, "result": {"stdout": "no", "exitCode": 1}}, ("tool", True)),
        ({"success": False, "error": {"message": "no such file", "code": "failure"}}, ("tool", True)),
        ({"success": False, "error": {"message": "rejected", "code": "rejected"}}, ("refusal", True)),
        ({"success": True, "result": "plain"}, ("tool", False)),
        ({"success": True}, ("tool", False)),
    ],
)
def test_a_result_says_how_its_call_ended(tmp_path: Path, complete: dict[str, Any], expected: tuple[str, bool]) -> None:
    session = Copilot()
    session.called("bash", {"command": "make"}, **complete)
    last = read(session, tmp_path)[-1]
    assert (last.origin, last.results[0].is_error) == expected


def test_a_permission_that_a_person_denied_is_a_refusal_with_its_reason(tmp_path: Path) -> None:
    session = Copilot()
    session.event("permission.requested", requestId="r1", permissionRequest={"toolCallId": "c1", "kind": "shell"})
    denied = {"kind": "denied-interactively-by-user", "feedback": "No mocks, please."}
    session.event("permission.completed", requestId="r1", result=denied)
    session.event("tool.execution_complete", toolCallId="c1", success=False, error={"message": "denied", "code": "x"})
    last = read(session, tmp_path)[-1]
    assert (last.origin, last.text) == ("refusal", "No mocks, please.")


def test_what_no_person_sent_is_no_persons(tmp_path: Path) -> None:
    session = Copilot()
    session.event("user.message", content="a skill", source="skill-pdf")
    session.event("user.message", content="go on", isAutopilotContinuation=True)
    session.event("user.message", {"agentId": "a1"}, content="a task for a subagent")
    session.event("user.message", content="Fix it.", source="user")
    assert [message.origin for message in read(session, tmp_path)] == ["injected"] * 3 + ["human"]


def test_subagents_have_chains_of_their_own(tmp_path: Path) -> None:
    session = Copilot()
    session.event("assistant.message", {"agentId": "a1"}, content="As [pat-001] says.", toolRequests=[])
    session.event("assistant.message", content="Old style.", parentToolCallId="c9")
    session.event("assistant.message", content="Main.")
    assert [message.chain for message in read(session, tmp_path)] == ["a1", "c9", ""]


def test_a_compaction_is_a_summary_and_an_abort_an_interruption(tmp_path: Path) -> None:
    session = Copilot()
    session.event("session.compaction_complete", success=True, summaryContent="We used [pat-001].")
    session.event("abort", reason="user initiated")
    session.event("abort", reason="remote_command")
    assert [message.origin for message in read(session, tmp_path)] == ["summary", "refusal"]


def test_types_that_are_unknown_are_counted(tmp_path: Path) -> None:
    session = Copilot()
    session.event("hologram.shown").event("assistant.usage", model="m")
    path = session.write(tmp_path / "events.jsonl")
    assert scan(path).tally.unknown_types == {"hologram.shown": 1}
