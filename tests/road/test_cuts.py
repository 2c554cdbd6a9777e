"""Cuts of a session change nothing: its windows give the counts of the whole file, read once.

Hypothesis plays sessions with every kind of evidence. test_real_transcripts.py does the same with
real sessions.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from reflector.events import event as ev
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, examples
from tests.ledger.events import added
from tests.road.conftest import (
    ANSWERS,
    BULLETS,
    SAYS,
    STEPS,
    Cut,
    Step,
    Yard,
    compaction,
    ends,
    judge,
    outcome,
    performed,
    played,
    take,
)
from tests.road.sessions import Session


@settings(
    max_examples=examples(75),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=2, max_size=40), data=st.data())
def test_windows_of_a_session_count_like_the_whole(
    yard: Yard, steps: list[Step], data: st.DataObject
) -> None:
    yard.assert_cut_counts_as_whole(played(steps, yard.folder / "t.jsonl"), data)


@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(STEPS, min_size=2, max_size=12),
    more=st.lists(STEPS, min_size=2, max_size=12),
    data=st.data(),
)
@pytest.mark.slow
def test_windows_of_a_fork_count_like_the_whole(
    yard: Yard, steps: list[Step], more: list[Step], data: st.DataObject
) -> None:
    original = performed(steps, Session())
    fork = performed(more, original.fork("s-2"))
    files = [session.write(yard.folder / f"{session.id}.jsonl") for session in (original, fork)]
    outcomes = []
    for is_cut in (False, True):
        with yard.ledger() as ledger:
            for path in files:
                places = (
                    data.draw(st.lists(st.sampled_from(ends(path)), max_size=4, unique=True))
                    if is_cut
                    else []
                )
                take(ledger, path, [Cut(place) for place in sorted(places)])
            outcomes.append(outcome(ledger))
    assert outcomes[0] == outcomes[1]


def test_windows_count_like_the_whole_on_either_engine(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    session = Session().cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    session.user(SAYS[1]).agent(ANSWERS[0]).cites("pat-002", None)
    compaction(session)
    path = session.user(SAYS[0]).agent("I will keep [pat-002] in mind.").write(tmp_path / "t.jsonl")
    whole, cut = open_ledger("whole"), open_ledger("cut")
    for ledger in (whole, cut):
        ledger.append([added(bullet.name, bullet.text) for bullet in BULLETS])
    take(whole, path)
    take(cut, path, [Cut(end) for end in ends(path)])
    assert outcome(cut) == outcome(whole)
    assert outcome(cut).verdicts == {"pat-001": ["harmful"], "pat-002": ["helpful"]}
    assert len(list(cut.events(types=[ev.EVIDENCE_RETRACTED]))) == 1
    assert list(verify(cut)) == []
    events = cut.head().position
    take(cut, path, [Cut(end) for end in ends(path)])
    judge(cut)
    assert cut.head().position == events
