from __future__ import annotations

import hashlib
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflector.transcripts import records
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import Tally
from reflector.transcripts.reading import UnknownTranscript, read_messages, scan
from reflector.transcripts.records import record_key
from tests.conftest import examples
from tests.transcripts.records import (
    SESSION,
    SNAPSHOT,
    assistant,
    attachment,
    call,
    line,
    progress,
    queue,
    result,
    stamp,
    user,
    uuid,
    write,
)

SHARED = Path(os.environ.get("REFLECTOR_TRANSCRIPTS", Path(__file__).parents[3] / "shared" / "transcripts"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def keys_read(path: Path, limit: int | None = None) -> tuple[list[int], Tally]:
    tally = Tally()
    return [message.key for message in read_messages(path, limit=limit, tally=tally)], tally


def test_a_scan_says_which_records_whose_session_and_when(path: Path) -> None:
    write(
        path, [SNAPSHOT, user(5, "go"), assistant(2, "done"), user(2, "copy"), progress(3, {"type": "hook_progress"})]
    )
    found = scan(path)
    data = path.read_bytes()
    assert list(found.keys) == [record_key(uuid(5)), record_key(uuid(2))]
    assert (found.session_id, found.agent_id, found.cwd, found.version) == (SESSION, "", "/home/ada/shop", "2.1.38")
    assert (found.first_uuid, found.last_uuid) == (uuid(5), uuid(2))
    assert found.ended_at == stamp(5)
    assert (found.bytes, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert found.tally == Tally(lines=5, records=5, messages=2, duplicates=1)


def test_only_the_models_records_cite_and_each_once(path: Path) -> None:
    cites = assistant(3, "as [pat-001] says")
    write(
        path,
        [
            user(1, "playbook: [pat-001] helpful=0 harmful=0 :: x"),
            attachment(2, {"type": "hook_success", "stdout": "[pat-001]"}),
            cites,
            assistant(4, "[sec-001] [pat-] nothing"),
            user(5, [result("[pat-001]")]),
            progress(6, {"message": assistant(7, "[pat-001]")}),
            cites,
        ],
    )
    assert scan(path).cited == ((record_key(uuid(3)), ("pat-001",)),)


def test_a_subagents_file_names_its_agent(path: Path) -> None:
    inside = {"isSidechain": True, "agentId": "a1b2"}
    assert scan(write(path, [user(1, "task", **inside), assistant(2, "ok", **inside)])).agent_id == "a1b2"
    assert scan(write(path, [user(1, "task", **inside), assistant(2, "ok")])).agent_id == ""


def test_a_limit_scans_as_if_the_file_ended_there(path: Path) -> None:
    whole = line(user(1, "go")) + line(assistant(2, "done"))
    path.write_bytes(whole + line(user(3, "later")))
    closed = scan(path, len(whole))
    assert list(closed.keys) == [record_key(uuid(1)), record_key(uuid(2))]
    assert closed.sha256 == hashlib.sha256(whole).hexdigest()
    cut = scan(path, len(whole) + 7)
    assert (cut.keys, cut.bytes, cut.tally.unfinished_bytes) == (closed.keys, len(whole) + 7, 7)


def test_missing_and_unknown_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        scan(tmp_path / "gone")
    with pytest.raises(IsADirectoryError):
        scan(tmp_path)
    with pytest.raises(UnknownTranscript, match="empty"):
        scan(write(tmp_path / "empty", []))
    with pytest.raises(UnknownTranscript):
        scan(write(tmp_path / "other", [{"type": "mystery", "payload": {}}]))


# scan(path).keys == keys of read_messages(path), for whatever the client writes

texts = st.sampled_from(
    [
        "plain",
        'a "uuid":"x" and ,"type":"user","message":{ in text',
        'ends with {"parentUuid":',
        '","timestamp":"',
        "}{",
        '}{"type":"',
        "brackets [ { } ] and \\ backslash \\",
        "Grüße 🚀 \u2028",
        "[pat-001]",
        "x" * 3000,
    ]
)
numbers = st.integers(1, 12)
nested = st.sampled_from(
    [
        {},
        {"toolUseResult": {"stdout": "a", "uuid": uuid(77), "timestamp": "t", "type": "assistant"}},
        {"toolUseResult": {"a": [{"b": {}}], "type": "user", "message": {"role": "user"}}},
        {"toolUseResult": "Error: x", "sourceToolAssistantUUID": uuid(5)},
        {"permissionMode": "default", "origin": {"kind": "human"}, "cwd": "D:\\shop {1}", "n": -1.5},
        {"uuid": "short"},
        {"uuid": None},
        {"timestamp": None},
    ]
)


@st.composite
def some_records(draw: st.DrawFn) -> dict[str, Any]:
    number, text, more = draw(numbers), draw(texts), draw(nested)
    kind = draw(st.integers(0, 10))
    if kind <= 2:
        return assistant(number, text, draw(st.sampled_from([text, call(command=text)])), top=more)
    if kind <= 5:
        return user(number, draw(st.sampled_from([text, [result(text)], [{"type": "text", "text": text}]])), top=more)
    if kind == 6:
        return progress(number, draw(st.sampled_from([{"type": text}, {"message": assistant(number + 50, text)}])))
    if kind == 7:
        return attachment(number, {"type": draw(st.sampled_from(["queued_command", "x"])), "prompt": text})
    if kind == 8:
        return queue(draw(st.sampled_from(["enqueue", "dequeue", "remove", "popAll"])), draw(st.none() | texts))
    if kind == 9:
        return draw(st.sampled_from([SNAPSHOT, {"type": "mode", "mode": text}, {"type": "new"}, {"x": text}]))
    shuffled = draw(st.permutations(list({**user(number, text), **more}.items())))
    return dict(shuffled)


def damaged(record: dict[str, Any], cut: int, damage: str) -> bytes:
    """A record as it stands in a file: whole, glued to the next, or cut off in front of it."""
    whole = line(record)
    if damage == "glued":
        return whole.rstrip()
    if damage == "torn":
        return whole[: 1 + cut % (len(whole) - 2)]
    return whole


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(some_records(), st.integers(0, 5000), st.sampled_from(["glued", "torn", *[""] * 8])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 400),
)
def test_a_scan_finds_the_keys_that_reading_finds(
    tmp_path: Path, written: list[tuple[dict[str, Any], int, str]], cut: int
) -> None:
    data = line(SNAPSHOT) + b"".join(damaged(record, at, how) for record, at, how in written)
    path = tmp_path / "any.jsonl"
    path.write_bytes(data[: len(data) - cut])
    try:
        found = scan(path)
    except UnknownTranscript:
        with pytest.raises(UnknownTranscript):
            keys_read(path)
        return
    keys, tally = keys_read(path)
    assert list(found.keys) == keys
    assert found.tally == tally
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    citing = [(message.key, tuple(citations_of(message))) for message in read_messages(path) if citations_of(message)]
    assert list(found.cited) == citing


def session(number: int, rnd: random.Random) -> Iterator[bytes]:
    """About 25 kB of a busy session, in the proportions of real ones."""
    at = number * 10 + 1
    output = "".join(f"src/file_{rnd.random()}.py:{n}: some output of a tool\n" for n in range(80))
    yield line(user(at, f"step {number}"))
    yield line(assistant(at + 1, {"type": "thinking", "thinking": "", "signature": "Q" * 400}))
    yield line(assistant(at + 2, "Next I run the tests." + (" As [pat-001] says." if number % 50 == 0 else "")))
    yield line(assistant(at + 3, call(command="make test", description="Run the tests")))
    yield line(progress(at + 4, {"type": "bash_progress", "output": output[:2000], "fullOutput": output[:2000]}))
    details = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    yield line(user(at + 5, [result(output)], top={"toolUseResult": details}))
    yield line(assistant(at + 6, call("Write", file_path="a.py", content=output[:2000])))
    yield line(user(at + 7, [result("ok")], top={"toolUseResult": {"filePath": "a.py", "content": output[:2000]}}))


@pytest.mark.slow
def test_memory_stays_flat_whatever_the_size_of_file_and_lines(path: Path) -> None:
    rnd = random.Random(1)
    with path.open("wb") as out:
        for number in range(4000):
            for record in session(number, rnd):
                out.write(record)
        out.write(b'{"parentUuid":null,"type":"user","message":{"content":"')
        for _ in range(200):
            out.write(b"x" * 1_000_000)
        out.write(b'"}}\n')
        out.write(line(user(99_999, "after a line of 200 MB")))
    assert path.stat().st_size > 280_000_000
    for run in (lambda: scan(path).keys, lambda: [message.key for message in read_messages(path)]):
        tracemalloc.start()
        keys = run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(keys) == 4000 * 7 + 1
        # Two lines of the largest size that is read, and some bytes for each key.
        assert peak < 2.5 * records.LINE_LIMIT
