from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages, scan
from tests.transcripts.agents import OpenCode


def read(session: OpenCode, folder: Path) -> list[Message]:
    path = session.write(folder / "export.json")
    return list(read_messages(path))


def test_words_count_when_their_writing_has_ended(tmp_path: Path) -> None:
    session = OpenCode()
    session.model("As [pat-001] says.")
    message = session.records[-1]
    del message["info"]["time"]["completed"], message["parts"][-1]["time"]["end"]
    assert read(session, tmp_path) == []
    message["parts"][-1]["time"]["end"] = 2
    (found,) = read(session, tmp_path)
    assert citations_of(found) == ["pat-001"]


def test_a_call_counts_when_it_is_made_and_its_result_when_it_is_there(tmp_path: Path) -> None:
    session = OpenCode()
    session.called("bash", {}, status="pending", raw="")
    state = session.records[-1]["parts"][0]["state"]
    assert read(session, tmp_path) == []
    state |= {"status": "running", "input": {"command": "make"}}
    (call,) = read(session, tmp_path)
    state |= {"status": "completed", "output": "done"}
    again, result = read(session, tmp_path)
    assert (again.key, again.calls, result.results[0].text) == (call.key, call.calls, "done")


_REJECTED = "The user rejected permission to use this specific tool call"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"status": "completed", "output": "no", "metadata": {"exit": 1}}, ("tool", "", "Exit code 1\nno", True)),
        ({"status": "completed", "output": "ok", "metadata": {"exit": 0}}, ("tool", "", "ok", False)),
        ({"status": "error", "error": "file not found"}, ("tool", "", "file not found", True)),
        (
            {"status": "error", "error": f"{_REJECTED}."},
            ("refusal", "", f"{_REJECTED}.", True),
        ),
        (
            {
                "status": "error",
                "error": f"{_REJECTED} with the following feedback: no mocks",
            },
            ("refusal", "no mocks", None, True),
        ),
    ],
)
def test_a_result_says_how_its_call_ended(tmp_path: Path, state: dict[str, Any], expected: Any) -> None:
    session = OpenCode()
    session.called("bash", {"command": "make"}, **state)
    last = read(session, tmp_path)[-1]
    origin, reason, text, is_error = expected
    assert (last.origin, last.text, last.results[0].is_error) == (origin, reason, is_error)
    assert text is None or last.results[0].text == text


def test_an_edit_has_the_names_that_claude_code_gives_it(tmp_path: Path) -> None:
    session = OpenCode()
    given = {"filePath": "/a.py", "oldString": "1", "newString": "2"}
    session.called("edit", given, status="completed", output="ok")
    (call,) = read(session, tmp_path)[0].calls
    assert (call.name, call.input) == ("Edit", {"file_path": "/a.py", "old_string": "1", "new_string": "2"})


def test_what_the_client_adds_to_a_prompt_is_no_persons(tmp_path: Path) -> None:
    session = OpenCode()
    session.message(
        "user",
        {"type": "text", "text": "Read a.py"},
        {"type": "text", "text": "x = 1", "synthetic": True},
        {"type": "text", "text": "only shown", "ignored": True},
        {"type": "subtask", "prompt": "Review it.", "description": "d", "agent": "a"},
        {"type": "file", "mime": "image/png", "url": "data:"},
    )
    found = [(message.origin, message.text) for message in read(session, tmp_path)]
    assert found == [("human", "Read a.py"), ("injected", "x = 1"), ("injected", "Review it.")]


def test_a_summary_cites_nothing_and_reasoning_does(tmp_path: Path) -> None:
    session = OpenCode()
    session.message("assistant", {"type": "text", "text": "We used [pat-002]."}, summary=True)
    session.message("assistant", {"type": "reasoning", "text": "[pat-001] applies."})
    summary, thought = read(session, tmp_path)
    assert (summary.origin, citations_of(thought)) == ("summary", ["pat-001"])


def test_an_aborted_answer_is_followed_by_an_interruption(tmp_path: Path) -> None:
    session = OpenCode()
    session.message("assistant", {"type": "text", "text": "I was"}, error={"name": "MessageAbortedError", "data": {}})
    assert [message.origin for message in read(session, tmp_path)] == ["model", "refusal"]


def test_a_child_session_belongs_to_its_parent(tmp_path: Path) -> None:
    session = OpenCode()
    session.info["parentID"] = "ses_parent"
    session.cites("pat-001", None)
    found = read(session, tmp_path)
    assert "human" not in {message.origin for message in found}
    told = scan(tmp_path / "export.json")
    assert (told.session_id, told.agent_id) == ("ses_parent", session.info["id"])
    assert found[0].timestamp == "2026-09-01T00:01:00.000Z"


def test_types_that_are_unknown_are_counted(tmp_path: Path) -> None:
    session = OpenCode()
    session.message("assistant", {"type": "hologram"})
    path = session.write(tmp_path / "export.json")
    assert scan(path).tally.unknown_types == {"hologram": 1}
