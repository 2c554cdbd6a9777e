"""Where a scan can go on, and what it notices of the bytes before."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.transcripts import checkpoint
from reflector.transcripts.checkpoint import CHUNK, Checkpoint
from reflector.transcripts.formats import scan, scan_on
from reflector.transcripts.reading import Scan
from tests.road.sessions import Session, as_bytes
from tests.transcripts.records import queue


@pytest.fixture(scope="module", autouse=True)
def short_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_SPACING", 1)
        patch.setattr(checkpoint, "_RESULTS", 2)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints") / "t.jsonl"


def work(session: Session, count: int = 3, size: int = 10) -> Session:
    """Some steps, each with words of the agent and a command."""
    for number in range(count):
        session.agent(f"Step {number}, as [pat-001] says.").runs("ls", "x" * size)
    return session


def place(path: Path) -> Checkpoint:
    found = scan(path).checkpoint
    assert found is not None
    return found


def seen(found: Scan, keys: int) -> dict[str, Any]:
    """What a scan found, of whose keys the last ones count."""
    of_file = ("agent", "cited", "told", "answered", "session_id", "agent_id", "cwd", "version", "first_uuid")
    rest = ("last_uuid", "started_at", "ended_at", "bytes")
    return {name: getattr(found, name) for name in (*of_file, *rest)} | {"keys": list(found.keys)[-keys:]}


STEPS: list[Callable[[Session], object]] = [
    lambda session: session.user("Please go on."),
    lambda session: session.agent("As [pat-002] says, I go on."),
    lambda session: session.agent("I look."),
    lambda session: session.runs("ls", "a.py"),
    lambda session: session.runs("pytest", "1 failed", is_error=True),
    lambda session: session.starts("[pat-001] helpful=1 harmful=0 :: Run the tests."),
    lambda session: session.records.append(queue("enqueue", "And then?") | {"uuid": f"q-{len(session.records)}"}),
    lambda session: session.records.append(queue("dequeue") | {"uuid": f"d-{len(session.records)}"}),
    lambda session: session.records.append(queue("remove") | {"uuid": f"r-{len(session.records)}"}),
    lambda session: session.records.append({"type": "a-new-kind", "uuid": f"n-{len(session.records)}"}),
]


@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=25),
    st.lists(st.sampled_from(STEPS), max_size=25),
    st.integers(min_value=0, max_value=60),
)
def test_a_scan_that_goes_on_finds_what_a_scan_of_the_whole_file_finds(
    path: Path, before: list[Callable[[Session], object]], after: list[Callable[[Session], object]], cut: int
) -> None:
    session = work(Session(), 2)
    for step in before:
        step(session)
    whole = as_bytes(session.records)
    path.write_bytes(whole[: len(whole) - cut])
    since = scan(path).checkpoint
    for step in after:
        step(session)
    whole = as_bytes(session.records)
    with path.open("r+b") as file:
        file.write(whole)
    if since is None:
        return
    found = scan_on(path, None, Checkpoint.of_json(json.loads(json.dumps(since.as_json()))))
    assert found is not None
    assert found.since is not None
    assert found.is_exact
    assert seen(found, len(found.keys)) == seen(scan(path), len(found.keys))
    assert found.sha256 == hashlib.sha256(whole[since.offset :]).hexdigest()


def test_it_goes_on_near_the_end_and_not_at_it(path: Path) -> None:
    work(Session(), 50).write(path)
    since, size = place(path), path.stat().st_size
    assert size * 0.9 < since.offset < size
    assert path.read_bytes()[since.offset - 1 :].startswith(b"\n{")


REWRITTEN: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "a line left out": lambda path: changed(path, lambda data: data[data.index(b"\n") + 1 :] + b"\n" * 2000),
    "a line put in": lambda path: changed(path, lambda data: b"{}\n" + data),
    "a letter of the beginning": lambda path: changed(path, lambda data: data.replace(b"Step 0", b"Step X", 1)),
    "a letter of the end": lambda path: changed(path, lambda data: data.replace(b"Step 40", b"Step XY", 1)),
    "another file": lambda path: (
        path.with_name("copy").write_bytes(path.read_bytes()) and path.with_name("copy").rename(path)
    ),
}


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = change(path.read_bytes())
    with path.open("r+b") as file:
        file.write(data)


@pytest.mark.parametrize("how", REWRITTEN)
def test_a_transcript_that_was_written_anew_is_not_gone_on_with(path: Path, how: str) -> None:
    path.unlink(missing_ok=True)
    work(Session(), 50).write(path)
    since = place(path)
    assert scan_on(path, None, since) is not None
    REWRITTEN[how](path)
    assert scan_on(path, None, since) is None


def test_it_does_not_go_on_with_less_than_was_read(path: Path) -> None:
    work(Session(), 50).write(path)
    since = place(path)
    assert scan_on(path, since.bytes, since) is not None
    assert scan_on(path, since.bytes - 1, since) is None


@pytest.mark.parametrize("megabytes", [6, 20])
def test_one_letter_anywhere_is_noticed_at_once_in_a_small_file_and_soon_in_a_large_one(
    path: Path, megabytes: int
) -> None:
    path.unlink(missing_ok=True)
    work(Session(), megabytes, CHUNK).write(path)
    since = place(path)
    turns = 1 if megabytes == 6 else -(-len(since.chunks) // 6)
    for at in (0, CHUNK // 2, 3 * CHUNK, since.offset // 2, since.offset - CHUNK, since.offset - 1):
        with path.open("r+b") as file:
            file.seek(at)
            letter = file.read(1)
            file.seek(at)
            file.write(b"y" if letter == b"x" else b"x")
            file.flush()
            assert any(scan_on(path, None, replace(since, turn=turn)) is None for turn in range(turns))
            file.seek(at)
            file.write(letter)
    assert scan_on(path, None, since) is not None


def test_a_call_that_is_answered_after_it_is_told(path: Path) -> None:
    """A judge who began there would not know what was called."""
    session = Session().agent("I begin.").runs("pytest", "1 failed", is_error=True)
    late = session.records.pop()
    work(session).write(path)
    since = place(path)
    session.records.append(late)
    session.write(path)
    found = scan_on(path, None, since)
    assert found is not None
    assert (found.is_exact, found.checkpoint) == (False, None)


def test_there_is_no_place_before_a_record_that_the_file_has_twice(path: Path) -> None:
    session = work(Session(), 5)
    session.records.append(session.records[0])
    session.write(path)
    assert scan(path).checkpoint is None
    again = path.stat().st_size
    work(session, 3).write(path)
    assert place(path).offset >= again


def test_there_is_no_place_while_a_prompt_waits_or_after_a_second_conversation_began(path: Path) -> None:
    session = work(Session(), 5)
    session.write(path)
    session.records.append(queue("enqueue", "And then?") | {"uuid": "q"})
    work(session, 5).write(path)
    assert place(path).offset <= path.read_bytes().index(b'"enqueue"')
    session.records[-1] |= {"isSidechain": True, "agentId": "a-1"}
    session.write(path)
    assert scan(path).checkpoint is None


def test_what_another_version_of_the_reader_kept_is_not_used(path: Path) -> None:
    work(Session(), 5).write(path)
    with pytest.raises(ValueError, match="another reader"):
        Checkpoint.of_json(place(path).as_json() | {"reader": checkpoint.READER + 1})


def test_it_holds_nobodys_words(path: Path) -> None:
    work(Session().user("My words."), 5).user("Her words.").write(path)
    held = json.dumps(place(path).as_json())
    assert "words" not in held
    assert "Step" not in held
