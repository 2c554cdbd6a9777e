"""Where a reading goes on, it finds what reading the whole transcript finds: the same events, verdicts and reasons.

The tests make a judge remember few results before a citation, so that short sessions have places to go on.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reflector
from reflector.curator.listening import hear
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.reflection import people, resuming
from reflector.reflection.backends.rules import Judging
from reflector.reflection.rules import reading
from reflector.sessions import readings
from reflector.sessions.intake import Source, take_in
from reflector.sessions.readings import Readings
from reflector.transcripts import checkpoint
from reflector.transcripts.formats import read_messages, scan
from tests.conftest import examples
from tests.road.cuts import Cut, Yard, added, ends, judge, take
from tests.road.sessions import Session
from tests.road.test_cuts import (
    ANSWERING,
    ANSWERS,
    BULLETS,
    CITES,
    CITING,
    RUNNING,
    RUNS,
    SAYING,
    SAYS,
    STEPS,
    Step,
    compaction,
)
from tests.transcripts.records import queue

_PACKAGE = Path(reflector.__file__).parent


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


def started(session: Session) -> None:
    """A command in the background, by the id of its task."""
    session.runs("make serve", "Command running in background with ID: b-7")


def polled(session: Session) -> None:
    session.runs("cat /tmp/tasks/b-7.output", "make: *** [serve] Error 1")


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


TALK: st.SearchStrategy[Step] = st.one_of(
    CITING,
    *[SAYING] * 2,
    *[RUNNING] * 2,
    ANSWERING,
    st.sampled_from(
        [compaction, again, unanswered, answered_late, queued, removed, started, polled, *[compaction] * 9]
    ),
)


def reworded(ledger: Ledger, number: int) -> None:
    data = {"name": "pat-001", "section": "pat", "text": f"Round the total of the cart, {number}."}
    ledger.append([NewEvent(ev.BULLET_REVISED, identity(ev.BULLET_REVISED, number), data, "human")])


def added_later(ledger: Ledger, number: int) -> None:
    ledger.append([added(Bullet(f"pat-{900 + number}", "pat", "Write a changelog.", 0, 0))])


def judged_by_a_person(ledger: Ledger, _: int) -> None:
    if found := people.citations(ledger, decided=True):
        people.judge(ledger, found[0], "neutral")


BETWEEN: list[Callable[[Ledger, int], object]] = [*[lambda *_: None] * 6, reworded, added_later, judged_by_a_person]


def told(yard: Yard, path: Path, cuts: list[Cut], between: list[Any], *, goes_on: bool) -> list[Any]:
    """What the ledger says of a session, where a judge goes on from what the one before it left, or never does."""
    with yard.ledger() as ledger, tempfile.TemporaryDirectory(dir=yard.folder) as state:
        kept = Readings(Path(state))
        for number, cut in enumerate(cuts):
            take_in(ledger, Source(path, "PreCompact", limit=cut.end, session_id="s-1"), readings=kept)
            judge(ledger, kept if goes_on else None)
            between[number % len(between)](ledger, number)
        return without_times(story(ledger))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(TALK, min_size=12, max_size=60), data=st.data())
def test_a_judge_who_goes_on_says_what_one_says_who_reads_from_the_first_citation(
    yard: Yard, steps: list[Step], data: st.DataObject
) -> None:
    session = Session("s-1").user("Look at the cart.")
    for step in steps:
        step(session)
    path = session.write(yard.folder / "talk.jsonl")
    places = data.draw(st.lists(st.sampled_from(ends(path)), min_size=2, max_size=8, unique=True).map(sorted))
    between = data.draw(st.lists(st.sampled_from(BETWEEN), min_size=1, max_size=4))
    cuts = [Cut(place) for place in (*places, path.stat().st_size)]
    assert told(yard, path, cuts, between, goes_on=True) == told(yard, path, cuts, between, goes_on=False)


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each message begins that a judge is given."""
    read: list[int] = []
    taken = Judging.take
    monkeypatch.setattr(Judging, "take", lambda self, *given: (read.append(given[0].offset), taken(self, *given))[1])
    return read


def long_session(turns: int, says: Sequence[str] = SAYS) -> Session:
    session = Session("s-1")
    for _ in range(turns):
        session.user("Look at the cart.").agent(CITES[0].format("pat-001")).runs(*RUNS[1][:2], is_error=True)
        for said in says:
            session.agent(ANSWERS[2]).user(said)
    return session


def test_a_judge_resumes_where_the_first_open_citation_needs_it_and_keeps_no_text(
    yard: Yard, offsets: list[int]
) -> None:
    session, path = long_session(30), yard.folder / "long.jsonl"
    with yard.ledger() as ledger, tempfile.TemporaryDirectory(dir=yard.folder) as state:
        kept = Readings(Path(state))
        for _ in range(3):
            offsets.clear()
            session.agent(CITES[1].format("pat-002")).runs(*RUNS[0][:2]).user("Thanks.").write(path)
            take_in(ledger, Source(path, "SessionEnd"), readings=kept)
            judge(ledger, kept)
        hint = next((Path(state) / "judged").iterdir()).read_text()
    assert len(offsets) < 40
    assert not any(word in hint for word in ("cart", "total", "wrong", "pytest", "assert"))


def but(**changed: Any) -> Callable[[dict[str, Any]], Any]:
    """A state that this program could have left, had something else been so."""
    return lambda held: resuming.sealed(held | changed)


def harmful_instead(held: dict[str, Any]) -> dict[str, Any]:
    judged = json.dumps(held["kept"])
    assert '"harmful"' in judged
    return held | {"kept": json.loads(judged.replace('"harmful"', '"helpful"'))}


#: States that were kept with other sessions, rules or texts, and what else may lie there.
UNFIT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "that other code left": but(code="0" * 32),
    "of another window": but(windows=[["0" * 32, ["pat-001"]]]),
    "with another text": but(texts={"pat-001": "0" * 32}),
    "with the text of a bullet that is not judged": but(texts={"oth-009": "0" * 32}),
    "of other weights": but(by="0" * 32),
    "with a name that means a bullet now": but(others=["pat-002"], bare=[]),
    "without the digests of what was said": but(said={}),
    "with another verdict": harmful_instead,
    "with another turn": lambda held: held | {"reader": held["reader"] | {"turn": 0}},
    "without a place": lambda held: {key: value for key, value in held.items() if key != "place"},
    "without a reader": lambda held: held | {"reader": {}},
    "without judgements": lambda held: held | {"kept": None},
    "without anything": lambda held: held and {},
    "a list": lambda held: [held],
}


@pytest.mark.parametrize("how", UNFIT)
def test_a_state_that_does_not_fit_changes_no_verdict_and_no_rationale(
    yard: Yard, offsets: list[int], how: str
) -> None:
    path, results = yard.folder / "unfit.jsonl", []
    for resumes in (True, False):
        session = long_session(3, ["No, that is wrong. Please revert it.", *["Go on."] * 6])
        with yard.ledger() as ledger, tempfile.TemporaryDirectory(dir=yard.folder) as state:
            kept = Readings(Path(state))
            for _ in range(2):
                offsets.clear()
                session.agent(CITES[1].format("pat-002")).runs(*RUNS[0][:2]).user("Thanks.").write(path)
                take_in(ledger, Source(path, "SessionEnd"), readings=kept)
                judge(ledger, kept if resumes else None)
                for file in (Path(state) / "judged").glob("*"):
                    file.write_text(json.dumps(UNFIT[how](json.loads(file.read_text()))))
            results.append(without_times(story(ledger)))
        assert min(offsets) < 1000  # it was judged from its first citation
    assert results[0] == results[1]


def test_an_error_of_ours_is_recorded_and_not_taken_for_a_state_that_does_not_fit(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = (
        long_session(3, ["No, that is wrong. Please revert it.", *["Go on."] * 6]),
        yard.folder / "bug.jsonl",
    )
    monkeypatch.setattr(Judging, "restore", lambda *_: {}["our own"])
    with yard.ledger() as ledger, tempfile.TemporaryDirectory(dir=yard.folder) as state:
        kept = Readings(Path(state))
        for _ in range(2):
            session.agent(CITES[1].format("pat-002")).runs(*RUNS[0][:2]).user("Thanks.").write(path)
            take_in(ledger, Source(path, "SessionEnd"), readings=kept)
            judge(ledger, kept)
        (failed,) = ledger.events(types=[ev.REFLECTION_FAILED])
    assert "our own" in str(failed.data)


@pytest.mark.parametrize(
    "file",
    [
        "reflection/rules/people.py",
        "reflection/rules/weights.json",
        "reflection/rules/wordings.tsv",
        "transcripts/claude_code.py",
        "text/secrets.py",
        None,
    ],
)
def test_the_digest_of_the_code_changes_with_each_file_that_judging_reads(tmp_path: Path, file: str | None) -> None:
    package = shutil.copytree(_PACKAGE, tmp_path / "reflector", ignore=shutil.ignore_patterns("__pycache__"))
    if file is not None:
        (package / file).write_text(f"{(package / file).read_text()}\n")
    assert (resuming.code_digest(package) == resuming.code_digest()) is (file is None)


def test_a_program_whose_files_are_in_no_folder_has_no_digest(tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", _PACKAGE.parent, _PACKAGE.name))
    assert resuming.code_digest(packed / _PACKAGE.name) == ""
