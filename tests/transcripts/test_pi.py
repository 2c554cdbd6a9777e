from __future__ import annotations

from pathlib import Path

from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.reading import read_messages, scan
from tests.transcripts.agents import Pi
from tests.transcripts.records import write


def read(path: Path) -> list[Message]:
    return list(read_messages(path))


def test_a_fork_and_a_migrated_file_add_nothing(tmp_path: Path) -> None:
    session = Pi("first")
    session.cites("pat-001").runs("pytest", "4 passed")
    old = [message.key for message in read(session.write(tmp_path / "1.jsonl"))]
    header = {**session.records[0], "id": "second", "parentSession": "1.jsonl"}
    fork = write(tmp_path / "2.jsonl", [header, *session.records[1:]])
    bare = [
        {key: value for key, value in record.items() if key not in ("id", "parentId")} for record in session.records
    ]
    legacy = write(tmp_path / "3.jsonl", [{**session.records[0], "version": 1}, *bare[1:]])
    assert [message.key for message in read(fork)] == [message.key for message in read(legacy)] == old
    assert scan(fork).session_id == "second"


def test_a_failed_tool_and_an_aborted_answer_show(tmp_path: Path) -> None:
    session = Pi()
    session.runs("make", "no", 2)
    session.message("assistant", content=[{"type": "text", "text": "I was"}], stopReason="aborted")
    found = read(session.write(tmp_path / "s.jsonl"))
    assert [message.origin for message in found] == ["model", "tool", "model", "refusal"]
    assert found[1].results[0].is_error


def test_an_edit_has_the_names_that_claude_code_gives_it(tmp_path: Path) -> None:
    session = Pi()
    given = {"path": "a.py", "edits": [{"oldText": "1", "newText": "2"}]}
    session.message("assistant", content=[{"type": "toolCall", "id": "c1", "name": "edit", "arguments": given}])
    (call,) = read(session.write(tmp_path / "s.jsonl"))[0].calls
    assert (call.name, call.input["file_path"]) == ("Edit", "a.py")
    assert (call.input["old_string"], call.input["new_string"]) == ("1", "2")


def test_thinking_cites_and_summaries_and_extensions_do_not(tmp_path: Path) -> None:
    session = Pi()
    session.message("assistant", content=[{"type": "thinking", "thinking": "[pat-001] applies."}])
    session.entry("compaction", summary="We used [pat-002].", firstKeptEntryId="e1", tokensBefore=9)
    session.entry("branch_summary", summary="We tried [pat-002].", fromId="e1")
    session.entry("custom_message", customType="x", content="[pat-002]", display=True)
    session.message("bashExecution", command="ls", output="[pat-002]", exitCode=0)
    session.message("compactionSummary", summary="[pat-002]")
    found = read(session.write(tmp_path / "s.jsonl"))
    assert [name for message in found for name in citations_of(message)] == ["pat-001"]
    assert [message.origin for message in found] == ["model", "summary", "summary", "injected", "injected", "summary"]


def test_words_behind_a_skills_text_are_a_persons(tmp_path: Path) -> None:
    session = Pi()
    session.person('<skill name="tdd" location="/x">\nWrite tests.\n</skill>\n\nFix it.')
    session.message("user", content='<skill name="tdd">\nWrite tests.\n</skill>')
    found = [(message.origin, message.text) for message in read(session.write(tmp_path / "s.jsonl"))]
    assert found[0] == ("human", "Fix it.")
    assert found[1][0] == "injected"


def test_types_that_are_unknown_are_counted(tmp_path: Path) -> None:
    session = Pi()
    session.entry("hologram").message("oracle", content="x")
    path = session.write(tmp_path / "s.jsonl")
    assert scan(path).tally.unknown_types == {"hologram": 1, "oracle": 1}


def test_the_prompt_its_changes_and_accounts_say_nothing(tmp_path: Path) -> None:
    session = Pi()
    session.message("system", content="", sections={"preamble": "[pat-002]"}, toolsAdded=[])
    session.entry("usage", usage={"input": 1})
    session.entry("context_edit", targetId="e1", replacement=None)
    session.message("brand_new").entry("newer_entry")
    path = session.cites("pat-001").write(tmp_path / "s.jsonl")
    assert [name for message in read(path) for name in citations_of(message)] == ["pat-001"]
    assert scan(path).tally.unknown_types == {"brand_new": 1, "newer_entry": 1}
