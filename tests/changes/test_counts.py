"""Evidence goes out of the count and comes back; the history only grows."""

import pytest
from hypothesis import given, strategies as st

from reflector.audit.moments import UnknownReference, target_named
from reflector.changes.retractions import (
    RetractionRefused,
    moved_counters,
    put_back_evidence,
    retract,
)
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.registry import fold
from reflector.ledger.errors import AlreadyRetracted, LedgerError
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger.events import about, added, adopted, imported, reflected, window

FIRST, AGAIN, OTHER = window(1, "s1"), window(2, "s1"), window(3, "s2")


def _history() -> list[NewEvent]:
    return [
        added("pat-001"),
        added("mis-001", harmful=2),
        FIRST,
        *reflected("aa01", FIRST, ("pat-001", "helpful"), ("mis-001", "harmful")),
        AGAIN,
        *reflected("aa02", AGAIN, ("pat-001", "helpful")),
        OTHER,
        *reflected("bb01", OTHER, ("pat-001", "harmful")),
    ]


@pytest.fixture
def told(ledger: Ledger) -> Ledger:
    ledger.append(_history())
    return ledger


def _counters(ledger: Ledger) -> dict[str, tuple[int, int]]:
    return {row.name: (row.helpful, row.harmful) for row in ledger.rows()}


def test_retracted_session_leaves_the_count_and_returns(told: Ledger) -> None:
    target, before = target_named(told, "s1"), told.rows()
    assert [one.added for one in retract(told, target.events, "a test session")] == [True, True]
    assert _counters(told) == {"pat-001": (0, 1), "mis-001": (0, 2)}
    moves = [
        (old.name, old.helpful, new.helpful) for old, new in moved_counters(before, told.rows())
    ]
    assert moves == [("pat-001", 2, 0), ("mis-001", 0, 0)]
    put_back_evidence(told, target.events, "it was none")
    assert told.rows() == before


def test_window_reflection_and_tag_are_retracted_alone(
    told: Ledger,
) -> None:
    retract(told, target_named(told, "aa01").events, "misread")
    assert _counters(told) == {"pat-001": (1, 1), "mis-001": (0, 2)}
    retract(told, list(told.events(types=[ev.BULLET_TAGGED], after=10))[:1], "misread too")
    assert sum(_counters(told)["pat-001"]) == 1
    retract(told, [told.event(FIRST.event_id)], "the first half")
    (one,) = retract(told, target_named(told, "s1").events, "the rest")
    assert told.at([one.position])[0].target_id == AGAIN.event_id
    with pytest.raises(
        AlreadyRetracted,
        match=(
            r"has not counted since position \d+ \(the first "
            r"half\)"
        ),
    ):
        retract(told, target_named(told, "s1").events, "once more")
    assert fold(told.events()).bullets() == told.bullets()


@pytest.mark.parametrize(
    "type_", [ev.BULLET_ADDED, ev.POLICY_ADOPTED, ev.REFLECTION_FAILED, ev.PLAYBOOK_IMPORTED]
)
def test_retraction_without_evidence_is_refused_with_an_alternative(
    told: Ledger, type_: str
) -> None:
    told.append(
        [
            about(ev.REFLECTION_FAILED, OTHER, stage="x", message="y"),
            adopted("as_applied"),
            imported(),
        ]
    )
    target = next(told.events(types=[type_]))
    with pytest.raises(
        RetractionRefused, match=(f"the {type_} at position {target.position} is not evidence.*; .")
    ):
        retract(told, [target], "x")


def test_the_rejection_of_a_proposal_is_final(told: Ledger) -> None:
    data = {"section": "pat", "text": "Read the log first.", "reason": "it helped"}
    told.append([NewEvent(ev.BULLET_PROPOSED, "p1", data, "agent")])
    told.append([NewEvent(ev.EVIDENCE_RETRACTED, "r1", {"reason": "no"}, "human", target_id="p1")])
    (rejection,) = told.targeting("p1")
    for step in (retract, put_back_evidence):
        with pytest.raises(RetractionRefused, match="rejection of a proposal"):
            step(told, [rejection], "x")
    with pytest.raises(
        RetractionRefused, match=r"bullet\.proposed at position \d+ .*`reflector review`"
    ):
        retract(told, list(told.events(types=[ev.BULLET_PROPOSED])), "x")


def test_a_reason_is_wanted_and_keeps_no_secret(told: Ledger) -> None:
    with pytest.raises(
        RetractionRefused,
        match=(r"session\.recorded at position 3 counts, so there is nothing to undo"),
    ):
        put_back_evidence(told, [told.event(FIRST.event_id)], "x")
    with pytest.raises(RetractionRefused, match=r"reason is empty.*--why"):
        retract(told, [told.event(FIRST.event_id)], "  ")
    (one,) = retract(told, [told.event(FIRST.event_id)], "key sk-ant-api03-" + "a" * 40)
    assert "aaaaaaaa" not in str(told.at([one.position])[0].data)


def test_ambiguous_target_is_refused_with_the_candidates(told: Ledger) -> None:
    assert target_named(told, "4").events[0].position == 4
    assert target_named(told, FIRST.event_id[:10]).events == [told.event(FIRST.event_id)]
    assert target_named(told, "aa01").kind == "reflection"
    assert [event.position for event in target_named(told, "s1").events] == [3, 7]
    for text, told_ in (
        ("aa0", ("reflection aa01, reflection aa02")),
        ("s", "session s1, session s2"),
    ):
        with pytest.raises(UnknownReference, match=told_):
            target_named(told, text)
    told.append([window(4, "s11")])
    # one that is written out beats one that only begins so
    assert target_named(told, "s1").id == "s1"
    for text in ("", "99", "zz", "\0", "s1'--", "9" * 5000):
        with pytest.raises(UnknownReference, match=r"is not a (session|position)"):
            target_named(told, text)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=12))
def test_retractions_keep_tables_equal_to_the_fold(
    steps: list[tuple[bool, int]],
) -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append(_history())
        whole = _counters(ledger)
        for back, position in steps:
            found = ledger.at([position])
            try:
                (put_back_evidence if back else retract)(ledger, found, "x") if found else None
            except LedgerError:
                continue
        assert fold(ledger.events()).bullets() == ledger.bullets()
        assert all(
            up <= whole[name][0] and down <= whole[name][1]
            for name, (up, down) in _counters(ledger).items()
        )
        for event in list(
            ledger.events(types=[ev.SESSION_RECORDED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED])
        ):
            try:
                put_back_evidence(ledger, [event], "all back")
            except RetractionRefused:
                continue
        assert _counters(ledger) == whole
        assert list(verify(ledger)) == []
