"""Where a reading goes on, it finds what reading the whole transcript finds: the same events and verdicts.

The tests make a judge remember few results before a citation, so that short sessions have places to go on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflector.curator.listening import hear
from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.reflection.rules import reading
from reflector.sessions import readings
from reflector.sessions.readings import Readings
from reflector.transcripts import checkpoint
from reflector.transcripts.formats import read_messages, scan
from tests.conftest import examples
from tests.road.cuts import Cut, Yard, ends, take
from tests.road.sessions import Session
from tests.road.test_cuts import (
    BULLETS,
    CITES,
    RUNNING,
    RUNS,
    STEPS,
    Step,
)
from tests.transcripts.records import queue


def again(session: Session) -> None:
    """A record that the client writes twice."""
    if session.records:
        session.records.append(session.records[len(session.records) // 2])


def unanswered(session: Session) -> None:
    session.runs(RUNS[1][0], RUNS[1][1], is_error=True)
    session.records.pop()


def answered_late(session: Session) -> None:
    """The result of a call that stands three records before it."""
    session.runs(*RUNS[1][:2], is_error=True)
    result = session.records.pop()
    session.runs(*RUNS[0][:2]).user("Go on.")
    session.records.append(result)


def queued(session: Session) -> None:
    session.records.append(queue("enqueue", "Perfect, that works. Thanks!") | {"uuid": f"q-{len(session.records)}"})


def removed(session: Session) -> None:
    session.records.append(queue("remove") | {"uuid": f"q-{len(session.records)}"})


def on_a_sidechain_of_its_own(session: Session) -> None:
    session.agent("As [pat-001] says, I look at the total.").runs(*RUNS[0][:2])
    for record in session.records[-3:]:
        record["isSidechain"], record["agentId"] = True, "a-7"


MORE: st.SearchStrategy[Step] = st.one_of(
    STEPS,
    STEPS,
    RUNNING,
    st.just(lambda session: session.agent("I look into it.").runs(*RUNS[0][:2])),
    st.sampled_from([again, unanswered, answered_late, queued, removed, on_a_sidechain_of_its_own]),
)


@pytest.fixture(scope="module", autouse=True)
def short_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "WORTH", 1)
        patch.setattr(checkpoint, "_SPACING", 1)
        patch.setattr(checkpoint, "_RESULTS", 2)
        patch.setattr(reading, "_BEFORE", 2)
        yield


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return Yard(tmp_path_factory.mktemp("yard"), BULLETS)


def story(ledger: Ledger) -> list[Any]:
    """All events, but for what says how much was read."""
    told = []
    for event in ledger.events():
        data = dict(event.data or {})
        if event.type == ev.SESSION_RECORDED:
            data.pop("unread")
            data["transcript"] = {key: data["transcript"][key] for key in ("path", "bytes")}
        told.append((event.event_id, event.type, event.actor, event.target_id, event.occurred_at, data, event.meta))
    return told


def resumed(ledger: Ledger) -> int:
    """How many windows were read from somewhere else than the first byte."""
    windows = ledger.events(types=[ev.SESSION_RECORDED])
    return sum("since" in (event.data or {})["transcript"] for event in windows)


def differing(yard: Yard, path: Path, cuts: list[Cut]) -> tuple[bool, int]:
    """Whether going on makes a difference, and how often it was possible."""
    stories, count = [], 0
    for goes_on in (False, True):
        with yard.ledger() as ledger, tempfile.TemporaryDirectory(dir=yard.folder) as state:
            take(ledger, path, cuts, readings=Readings(Path(state)) if goes_on else None)
            hear(ledger, [event.event_id for event in ledger.events(types=[ev.SESSION_RECORDED])])
            stories.append([one for one in story(ledger) if one[1] != ev.REFLECTION_ANSWERED or one[5]])
            count += resumed(ledger)
    return without_times(stories[0]) != without_times(stories[1]), count


def without_times(events: list[Any]) -> list[Any]:
    return [one[:4] + one[5:] for one in events]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(MORE, min_size=8, max_size=40), data=st.data())
def test_going_on_finds_what_reading_the_whole_finds(yard: Yard, steps: list[Step], data: st.DataObject) -> None:
    session = Session()
    for step in steps:
        step(session)
    path = session.write(yard.folder / "t.jsonl")
    places = data.draw(st.lists(st.sampled_from(ends(path)), min_size=1, max_size=6, unique=True).map(sorted))
    cuts = [Cut(place, data.draw(st.booleans())) for place in places]
    assert not differing(yard, path, cuts)[0]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    before=st.lists(st.sampled_from(RUNS + RUNS[1:2] * 3), min_size=4, max_size=12),
    words=st.lists(st.booleans(), min_size=12, max_size=12),
    after=st.lists(st.sampled_from(RUNS), min_size=1, max_size=4),
)
def test_a_judge_who_begins_there_knows_the_checks_that_were_red(
    yard: Yard, before: list[Any], words: list[bool], after: list[Any]
) -> None:
    session = Session()
    for speaks, (command, output, is_error) in zip(words, before, strict=False):
        (session.agent("I look into it.") if speaks else session).runs(command, output, is_error=is_error)
    path = yard.folder / "red.jsonl"
    place = scan(session.write(path)).checkpoint
    session.agent(CITES[0].format("pat-001"))
    for command, output, is_error in after:
        session.runs(command, output, is_error=is_error)
    session.user("Thanks.").write(path)
    if place is not None:
        bullets = {bullet.name: bullet for bullet in BULLETS}
        whole, rest = (
            [replace(one, turn=0) for one in reading.Reader(bullets).read(read_messages(path, start=start))]
            for start in (0, place.offset)
        )
        assert rest == whole
