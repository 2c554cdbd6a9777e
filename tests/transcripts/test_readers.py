"""What the readers of other agents make of each shape that their clients write. Claude Code has
a module of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.transcripts.building import Conversation
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Message
from reflector.transcripts.readers import time_named_in
from reflector.transcripts.reading import Scan, read_messages, scan
from tests.transcripts.agents import (
    CHILD,
    FORKS,
    LAST,
    RUN,
    SUBAGENTS,
    UNKNOWN,
    WHOLE,
    Codex,
    Copilot,
    Gemini,
    GeminiDocument,
    OpenCode,
    Pi,
    Session,
)
from tests.transcripts.records import shown, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(session: Session, folder: Path) -> list[Message]:
    return list(read_messages(session.write(folder / session.file_name)))


def scanned(session: Session, folder: Path) -> Scan:
    return scan(session.write(folder / f"{session.id}-{session.file_name}"))


def cited(messages: list[Message]) -> list[str]:
    return [name for message in messages for name in citations_of(message)]


def agent(value: object) -> str:
    return value.agent if isinstance(value, Session) else ""


@pytest.mark.parametrize(("session", "wanted"), LAST, ids=agent)
def test_each_shape_gives_speaker_call_and_end(folder: Path, session: Session, wanted: str) -> None:
    found = shown(read(session, folder)[-1])
    assert found.startswith(wanted[:-1]) if wanted.endswith("…") else found == wanted


@pytest.mark.parametrize(("session", "wanted"), WHOLE, ids=agent)
def test_repeated_or_foreign_text_is_no_message(
    folder: Path, session: Session, wanted: list[str]
) -> None:
    begun = type(session)()
    first = len(read(begun, folder)) if begun.content() else 0
    assert [shown(message) for message in read(session, folder)[first:]] == wanted


@pytest.mark.parametrize(("session", "unknown"), UNKNOWN, ids=agent)
def test_types_that_are_unknown_are_counted(
    folder: Path, session: Session, unknown: dict[str, int]
) -> None:
    assert scanned(session, folder).tally.unknown_types == unknown


@pytest.mark.parametrize(("session", "fork"), FORKS, ids=agent)
def test_fork_adds_only_its_own_words(folder: Path, session: Session, fork: Session) -> None:
    old = set(scanned(session, folder).keys)
    assert set(scanned(fork, folder).keys) == old
    found = scanned(fork.model("On we go with [pat-002]."), folder)
    assert len(set(found.keys) - old) == 1
    assert found.session_id == fork.id


def test_migrated_file_of_pi_adds_nothing(folder: Path) -> None:
    session = Pi("first")
    session.cites("pat-001").runs("pytest", "4 passed")
    old = scanned(session, folder).keys
    bare = [
        {key: of for key, of in one.items() if key not in ("id", "parentId")}
        for one in session.records[1:]
    ]
    legacy = scan(write(folder / "3.jsonl", [{**session.records[0], "version": 1}, *bare]))
    assert legacy.keys == old


@pytest.mark.parametrize(("session", "parent", "own"), SUBAGENTS, ids=agent)
def test_task_of_a_subagent_is_its_parents(
    folder: Path, session: Session, parent: str, own: str
) -> None:
    found = read(session.cites("pat-001", None), folder)
    assert "human" not in {message.origin for message in found}
    assert {message.chain for message in found} == {own}
    told = scanned(session, folder)
    assert (told.session_id, told.agent_id) == (parent, own)


def test_subagents_of_copilot_have_chains_of_their_own(folder: Path) -> None:
    session = Copilot()
    session.event(
        "assistant.message", {"agentId": "a1"}, content="As [pat-001] says.", toolRequests=[]
    )
    session.event("assistant.message", content="Old style.", parentToolCallId="c9")
    session.event("assistant.message", content="Main.")
    assert [message.chain for message in read(session, folder)] == ["a1", "c9", ""]


def test_inherited_codex_records_belong_to_the_parent(folder: Path) -> None:
    session = Codex(CHILD)
    session.records[0]["payload"] |= {
        "thread_source": "subagent",
        "subagent_history_start_ordinal": 6,
    }
    session.model("As [pat-001] says.").model("As [pat-002] says.")
    for number, record in enumerate(session.records):
        record["ordinal"] = number
    assert cited(read(session, folder)) == ["pat-002"]


def test_grown_message_adds_only_its_new_part(folder: Path) -> None:
    session = Gemini().model("As [pat-001] says.")
    message = session.messages[-1]
    message["toolCalls"] = [
        {"id": "c1", "name": RUN, "args": {"command": "ls"}, "status": "executing"}
    ]
    before = [message.key for message in read(session.put(message), folder)]
    message["toolCalls"][0] |= {"status": "success", "result": "a.py"}
    found = read(session.put(message), folder)
    assert [message.key for message in found[:-1]] == before
    assert shown(found[-1]) == "tool = a.py"


def test_chat_keeps_keys_from_document_to_lines(folder: Path) -> None:
    keys = [
        sorted(scanned(session.cites("pat-001").runs("pytest", "4 passed"), folder).keys)
        for session in (GeminiDocument(), Gemini())
    ]
    assert keys[0] == keys[1]


def test_checkpoint_adds_only_its_new_part(folder: Path) -> None:
    session = Gemini()
    session.cites("pat-001")
    before = len(read(session, folder))
    snapshot = session.message(
        "user", [{"text": ("<state_snapshot>We used [pat-001].</state_snapshot>")}]
    )
    session.records.append({"$set": {"messages": [snapshot, *session.messages]}})
    session.records.append({"$rewindTo": session.messages[0]["id"]})
    found = read(session, folder)
    assert (len(found), found[-1].origin, cited(found)) == (before + 1, "summary", ["pat-001"])


def test_thoughts_are_thinking_and_cancellation_an_interruption(folder: Path) -> None:
    session = Gemini()
    thought = {"subject": "Advice", "description": "[pat-001] applies.", "timestamp": "t"}
    session.put(session.message("gemini", "On it.", thoughts=[thought, "odd"]))
    for type, text in (
        ("info", "Request cancelled."),
        ("info", "Update available."),
        ("error", "API error"),
    ):
        session.put(session.message(type, text))
    assert [shown(one) for one in read(session, folder)] == [
        "model (Advice\n[pat-001] applies.) On it.",
        "refusal",
    ]


def test_legacy_chat_continued_in_lines_is_read(folder: Path) -> None:
    session = Gemini().person("Fix it.")
    session.records = [{**session.header, "messages": session.messages}]
    assert [message.origin for message in read(session.model("As [pat-001] says."), folder)] == [
        "human",
        "model",
    ]


def test_opencode_words_count_once_they_are_complete(folder: Path) -> None:
    session = OpenCode().model("As [pat-001] says.")
    message = session.records[-1]
    del message["info"]["time"]["completed"], message["parts"][-1]["time"]["end"]
    assert read(session, folder) == []
    message["parts"][-1]["time"]["end"] = 2
    assert cited(read(session, folder)) == ["pat-001"]


def test_opencode_call_and_result_count_separately(
    folder: Path,
) -> None:
    session = OpenCode().called("bash", {}, status="pending", raw="")
    state = session.records[-1]["parts"][0]["state"]
    assert read(session, folder) == []
    state |= {"status": "running", "input": {"command": "make"}}
    (call,) = read(session, folder)
    state |= {"status": "completed", "output": "done"}
    again, result = read(session, folder)
    assert (again.key, again.calls, shown(result)) == (call.key, call.calls, "tool = done")


def test_reader_names_the_time_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dated(Conversation):
        agent = "dated"
        name = "Dated"

        @staticmethod
        def recognises(record: dict[str, Any]) -> bool:
            return "at" in record

        @staticmethod
        def time_of(record: dict[str, Any]) -> str:
            return str(record.get("at", ""))

        def messages(self, *_: Any) -> Iterator[Message]:
            yield from ()

    monkeypatch.setattr("reflector.transcripts.readers.extension_readers", lambda: (Dated,))
    assert time_named_in({"at": "2026-11-01T00:00:00Z"}) == "2026-11-01T00:00:00Z"
