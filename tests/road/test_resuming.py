"""The reading of a window begins at the place that the last window recorded, and gives the same
results as the whole transcript.

In the tests, a citation is followed for few records, so that short sessions have citations that are
no longer followed.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from reflector.events.fields import unpack_keys
from reflector.judges.rules import follow, judge as rules
from reflector.ledger.store import Ledger
from reflector.reflection import window
from reflector.sessions import intake
from reflector.sessions.intake import Source, Taken, take_in
from reflector.transcripts import reading as transcripts
from reflector.transcripts.reading import scan
from tests.conftest import examples
from tests.reading import windows
from tests.road.conftest import (
    CITES,
    CITING,
    RUNNING,
    RUNS,
    SAYS,
    STEPS,
    Cut,
    Step,
    Yard,
    ends,
    played,
)
from tests.road.sessions import Session, as_bytes
from tests.transcripts.records import queue


def unanswered(session: Session) -> None:
    session.runs(RUNS[1][0], RUNS[1][1], is_error=True)
    session.records.pop()


def answered_late(session: Session) -> None:
    """Add the result of a call that is three records earlier."""
    session.runs(*RUNS[1][:2], is_error=True)
    result = session.records.pop()
    session.runs(*RUNS[0][:2]).user("Go on.")
    session.records.append(result)


def on_a_sidechain_of_its_own(session: Session) -> None:
    session.agent("As [pat-001] says, I look at the total.").runs(*RUNS[0][:2])
    for record in session.records[-3:]:
        record["isSidechain"], record["agentId"] = True, "a-7"


MORE: st.SearchStrategy[Step] = st.one_of(
    STEPS,
    RUNNING,
    CITING,
    st.just(lambda session: session.agent("I look into it.").runs(*RUNS[0][:2])),
    st.sampled_from([unanswered, answered_late, on_a_sidechain_of_its_own]),
)


@pytest.fixture(scope="module", autouse=True)
def short_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (window, rules, follow, intake):
            patch.setattr(module, "FOLLOWED", 9)
        for module in (follow, intake):
            patch.setattr(module, "BEFORE", 4)
        patch.setattr(transcripts, "_MIN_DISTANCE", 1)
        yield


@settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(MORE, min_size=8, max_size=40), data=st.data())
def test_windows_say_what_the_whole_says(
    yard: Yard, steps: list[Step], data: st.DataObject
) -> None:
    yard.assert_cut_counts_as_whole(
        played([lambda session: session.user("Fix the cart."), *steps], yard.folder / "t.jsonl"),
        data,
    )


@pytest.mark.parametrize(("between", "verdict"), [(8, ["helpful"]), (9, [])])
def test_citation_is_followed_for_a_limited_time(
    yard: Yard, between: int, verdict: list[str]
) -> None:
    session = Session().agent(CITES[0].format("pat-001"))
    for number in range(between):
        session.agent(f"Step {number}.")
    path = (
        session.user("Great, the total is right now!")
        .agent("Done.")
        .write(yard.folder / "far.jsonl")
    )
    for cuts in ([], [Cut(end) for end in ends(path)]):
        assert yard.taken(path, cuts).verdicts.get("pat-001", []) == verdict


def test_citation_followed_no_longer_still_stands_beside(yard: Yard) -> None:
    """Praise after two citations belongs to neither. This also holds if the window with the last
    result only follows the second one.
    """
    session = Session().user("Fix the cart.")
    for _ in range(5):
        session.agent(CITES[0].format("pat-001"))
    for _ in range(3):
        session.user(SAYS[0])
    session.agent(CITES[0].format("pat-001")).runs(*RUNS[0][:2])
    session.agent(CITES[0].format("pat-002"))
    for _ in range(3):
        session.user(SAYS[0])
    path = session.runs(*RUNS[0][:2]).runs(*RUNS[0][:2]).write(yard.folder / "beside.jsonl")
    before_last_result = Cut(ends(path)[18], judged=False)
    assert yard.taken(path, [before_last_result]) == yard.taken(path)
    assert "pat-002" not in yard.taken(path).verdicts


def work(session: Session, count: int = 5) -> Session:
    for number in range(count):
        session.agent(f"Step {number} after [pat-00{number % 3}].").runs("ls", "a.py")
    return session


def grow(session: Session, path: Path) -> Path:
    """Bring the session's file up to date, as a client that appends would."""
    path.touch()
    with path.open("r+b") as file:
        file.write(as_bytes(session.records))
    return path


def taken(ledger: Ledger, path: Path, session: Session, **fields: Any) -> Taken:
    return take_in(
        ledger, Source(path, fields.pop("trigger", "SessionEnd"), session_id=session.id, **fields)
    )


def resumed(ledger: Ledger) -> list[bool]:
    """Return for each window whether its reading began after the start of the file."""
    return ["since" in one["transcript"] for one in windows(ledger)]


def test_second_window_begins_where_the_first_ended(ledger: Ledger, tmp_path: Path) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    taken(ledger, path, session)
    assert taken(ledger, grow(work(session), path), session).records == 15
    first, second = (one["transcript"] for one in windows(ledger))
    data = path.read_bytes()
    assert 0 < second["since"] == first["resume"]["offset"] < first["bytes"]
    assert (second["bytes"], second["sha256"]) == (
        len(data),
        sha256(data[second["since"] :]).hexdigest(),
    )
    assert taken(ledger, path, session).event_id is None
    taken(ledger, grow(work(session), path), session)
    assert windows(ledger)[2]["transcript"]["since"] > second["since"]


def test_reading_begins_after_records_that_later_ones_need(tmp_path: Path) -> None:
    session = work(Session())
    session.records.append(queue("enqueue", "Go on.") | {"uuid": "q-1"})
    queued = len(as_bytes(session.records))
    work(session).records.append(queue("dequeue") | {"uuid": "q-2"})
    rest = len(as_bytes(session.records))
    found = scan(work(session).write(tmp_path / "t.jsonl"))
    assert [place.offset for place in found.places if queued <= place.offset < rest] == []
    assert found.places[-1].offset >= rest
    assert (
        scan(tmp_path / "t.jsonl", start=found.places[-1].offset).keys
        == found.keys[found.places[-1].passed :]
    )


def test_late_compaction_does_not_reset_the_reading(ledger: Ledger, tmp_path: Path) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    early = path.stat().st_size
    taken(ledger, grow(work(session), path), session)
    assert taken(ledger, path, session, trigger="PreCompact", limit=early).event_id is None
    taken(ledger, grow(work(session), path), session)
    assert resumed(ledger) == [False, True]


@pytest.mark.parametrize(("change", "records"), [("rewritten", 16), ("moved", 15)])
def test_where_another_record_stands_all_is_read(
    ledger: Ledger, tmp_path: Path, change: str, records: int
) -> None:
    session = work(Session())
    path = grow(session, tmp_path / "t.jsonl")
    taken(ledger, path, session)
    if change == "moved":
        path = path.rename(tmp_path / "moved.jsonl")
    else:  # one more record at the start, so that another record is at the ledger's offset
        session.records.insert(0, session.records[0] | {"uuid": "0" * 36})
    assert taken(ledger, grow(work(session), path), session).records == records
    assert resumed(ledger) == [False, False]


def test_records_that_another_session_brought_are_recorded_once(
    ledger: Ledger, tmp_path: Path
) -> None:
    session = work(Session("s-1"))
    path = grow(session, tmp_path / "1.jsonl")
    taken(ledger, path, session)
    fork = work(session).fork("s-2")
    taken(ledger, grow(fork, tmp_path / "2.jsonl"), fork)
    assert taken(ledger, grow(session.agent("One more."), path), session).records == 1
    assert resumed(ledger) == [False, False, False]
    keys = [key for one in windows(ledger) for key in unpack_keys(one["window"]["keys"])]
    assert sorted(keys) == sorted(scan(path).keys)
