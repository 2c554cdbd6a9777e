"""The hints where a reading goes on: they save time, and losing or keeping them changes no count."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import unpack_keys
from reflector.ledger.store import Ledger
from reflector.sessions import readings as module
from reflector.sessions.intake import Source, Taken, take_in
from reflector.sessions.readings import Readings
from reflector.transcripts import checkpoint
from reflector.transcripts.formats import scan
from tests.road.sessions import Session, as_bytes


@pytest.fixture(scope="module", autouse=True)
def short_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORTH", 1)
        patch.setattr(checkpoint, "_SPACING", 1)
        patch.setattr(checkpoint, "_RESULTS", 2)
        yield


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.fixture
def readings(tmp_path: Path) -> Readings:
    (tmp_path / "state").mkdir()
    return Readings(tmp_path / "state")


def work(session: Session, count: int = 5) -> Session:
    for number in range(count):
        session.agent(f"Step {number} after [pat-00{number % 3}].").runs("ls", "a.py")
    return session


def grow(session: Session, path: Path) -> Path:
    """The session as its client writes it: appended to its file."""
    data = as_bytes(session.records)
    path.touch()
    with path.open("r+b") as file:
        file.write(data)
    return path


def taken(ledger: Ledger, readings: Readings, path: Path, **fields: Any) -> Taken:
    return take_in(ledger, Source(path, fields.pop("trigger", "SessionEnd"), **fields), readings=readings)


def windows(ledger: Ledger) -> list[dict[str, Any]]:
    return [dict(event.data or {}) for event in ledger.events(types=[ev.SESSION_RECORDED])]


def since(ledger: Ledger) -> list[bool]:
    """Of each window, whether its reading went on."""
    return ["since" in window["transcript"] for window in windows(ledger)]


def test_a_second_window_is_read_from_where_the_first_ended(ledger: Ledger, readings: Readings, tmp_path: Path) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    taken(ledger, readings, path)
    found = taken(ledger, readings, grow(work(session), path))
    first, second = (window["transcript"] for window in windows(ledger))
    data = path.read_bytes()
    assert found.records == 15
    assert "since" not in first
    assert 0 < second["since"] < first["bytes"]
    assert (second["bytes"], second["sha256"]) == (len(data), sha256(data[second["since"] :]).hexdigest())
    assert taken(ledger, readings, path).event_id is None
    taken(ledger, readings, grow(work(session), path))
    assert windows(ledger)[2]["transcript"]["since"] > second["since"]


LOST: dict[str, Callable[[Path], object]] = {
    "lost": lambda hint: hint.unlink(),
    "cut": lambda hint: hint.write_bytes(hint.read_bytes()[:-9]),
    "no object": lambda hint: hint.write_text("[]"),
    "of another version": lambda hint: change(hint, lambda held: held["checkpoint"].update(reader=0)),
    "with an unknown field": lambda hint: change(hint, lambda held: held["checkpoint"].update(more=1)),
    "with another conversation": lambda hint: change(hint, lambda held: held["checkpoint"].update(conversation=[])),
    "of another ledger": lambda hint: change(hint, lambda held: held.update(ledger=[1, "f" * 64])),
    "of a later ledger": lambda hint: change(hint, lambda held: held.update(ledger=[9, "f" * 64])),
    "of another window": lambda hint: change(hint, lambda held: held["checkpoint"].update(window="w")),
    "a link": lambda hint: (hint.rename(hint.with_name("x")), hint.symlink_to(hint.with_name("x"))),
}


def change(hint: Path, how: Callable[[dict[str, Any]], object]) -> None:
    held = json.loads(hint.read_text())
    how(held)
    hint.write_text(json.dumps(held))


@pytest.mark.parametrize("how", LOST)
def test_without_a_good_hint_the_transcript_is_read_whole(
    ledger: Ledger, readings: Readings, tmp_path: Path, how: str
) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    taken(ledger, readings, path)
    (hint,) = (tmp_path / "state" / "readings").iterdir()
    LOST[how](hint)
    assert taken(ledger, readings, grow(work(session), path)).records == 15
    assert since(ledger) == [False, False]


def test_a_ledger_that_was_restored_to_before_the_hint_takes_every_record_in(
    readings: Readings, tmp_path: Path
) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    with Ledger.open_file(tmp_path / "ledger.db") as ledger:
        ledger.append([added("pat-001")])
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    with Ledger.open_file(tmp_path / "ledger.db") as ledger:
        taken(ledger, readings, path)
    with Ledger.open_file(tmp_path / "backup.db") as ledger:
        ledger.append([added("pat-002")])  # as many events as the other one has
        assert taken(ledger, readings, grow(work(session), path)).records == 30
        assert since(ledger) == [False]


def added(name: str) -> NewEvent:
    data = {"name": name, "section": "pat", "text": f"Advice {name}.", "helpful": 0, "harmful": 0, "origin": "cli"}
    return NewEvent(ev.BULLET_ADDED, identity(ev.BULLET_ADDED, name), data, "human")


def test_a_record_that_was_rewritten_with_another_id_is_recorded(
    ledger: Ledger, readings: Readings, tmp_path: Path
) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    taken(ledger, readings, path)
    session.records[1]["uuid"] = "0" * 36
    assert taken(ledger, readings, grow(session.agent("One more."), path)).records == 2
    assert since(ledger) == [False, False]


def test_a_fork_is_read_whole_and_so_is_what_follows_in_it(ledger: Ledger, readings: Readings, tmp_path: Path) -> None:
    original = work(Session("s-1"))
    taken(ledger, readings, grow(original, tmp_path / "1.jsonl"))
    fork, path = work(original.fork("s-2")), tmp_path / "2.jsonl"
    assert taken(ledger, readings, grow(fork, path)).records == 15
    assert taken(ledger, readings, grow(work(fork), path)).records == 15
    taken(ledger, readings, grow(work(original), tmp_path / "1.jsonl"))
    assert since(ledger) == [False, False, False, True]


def test_records_that_another_session_brought_are_recorded_once(
    ledger: Ledger, readings: Readings, tmp_path: Path
) -> None:
    session = work(Session("s-1"))
    path = grow(session, tmp_path / "1.jsonl")
    taken(ledger, readings, path)
    work(session)
    taken(ledger, readings, grow(session.fork("s-2"), tmp_path / "2.jsonl"))
    assert taken(ledger, readings, grow(session.agent("One more."), path)).records == 1
    assert since(ledger) == [False, False, False]
    keys = [key for window in windows(ledger) for key in unpack_keys(window["window"]["keys"])]
    assert sorted(keys) == sorted(scan(path).keys)


def test_a_session_that_went_on_in_another_file_is_read_whole(
    ledger: Ledger, readings: Readings, tmp_path: Path
) -> None:
    session = work(Session("s-1"))
    path = grow(session, tmp_path / "1.jsonl")
    taken(ledger, readings, path)
    moved = grow(work(session), tmp_path / "2.jsonl")
    taken(ledger, readings, moved)
    taken(ledger, readings, grow(work(session), path))
    assert since(ledger) == [False, False, False]
    assert [window["window"]["records"] for window in windows(ledger)] == [15, 15, 15]


def test_what_was_read_for_a_whole_window_is_no_place_to_go_on(
    ledger: Ledger, readings: Readings, tmp_path: Path
) -> None:
    path = grow(work(Session()), tmp_path / "t.jsonl")
    take_in(ledger, Source(path, "ingest"), window="whole", readings=readings)
    assert not (tmp_path / "state" / "readings").exists()


def test_a_compaction_that_is_delivered_late_is_no_reason_to_forget(
    ledger: Ledger, readings: Readings, tmp_path: Path
) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    early = path.stat().st_size
    taken(ledger, readings, grow(work(session), path))
    assert taken(ledger, readings, path, trigger="PreCompact", limit=early).event_id is None
    taken(ledger, readings, grow(work(session), path))
    assert since(ledger) == [False, True]


def test_no_more_than_the_newest_hints_are_kept(
    ledger: Ledger, readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    for number in range(6):
        taken(ledger, readings, grow(work(Session(f"s-{number}")), tmp_path / f"{number}.jsonl"))
    folder = tmp_path / "state" / "readings"
    assert len(list(folder.iterdir())) == 3
    assert folder.stat().st_mode & 0o777 == 0o700
