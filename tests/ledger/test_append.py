"""Appending: one order, no gaps, no doubles, all or nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger import append
from reflector.ledger.errors import Conflict, LedgerError, NoSuchTarget
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import OpenLedger

from .events import add_bullet, added, changed, history, imported, retracted, window


def test_what_is_read_back_is_what_was_appended(ledger: Ledger) -> None:
    event = NewEvent(
        ev.REFLECTION_SKIPPED,
        "an-id",
        {"b": [1, None, True], "a": "ä\u2028\x00\U0001f600"},
        "rules",
        occurred_at="2020-01-02T03:04:05.000006Z",
        session_id="s1",
        reflection_id="r1",
        meta={"ms": 12},
    )
    (answer, _) = ledger.append([event, added()])
    stored, without_time = ledger.events()
    for name in (
        "type",
        "actor",
        "occurred_at",
        "session_id",
        "reflection_id",
        "target_id",
        "data",
        "meta",
    ):
        assert getattr(stored, name) == getattr(event, name)
    assert (stored, stored.position) == (ledger.event("an-id"), answer.position)
    assert without_time.occurred_at == without_time.recorded_at == ledger.head().recorded_at
    assert without_time.chain == ledger.head().chain
    assert ledger.event("another") is None


def test_known_event_is_answered_with_its_position(
    ledger: Ledger,
) -> None:
    again = replace(added("pat-001"), meta={"host": "elsewhere"}, actor="import")
    answers = ledger.append([added("pat-001"), again, added("pat-002")])
    answers += ledger.append([added("pat-003"), again, added("pat-004")])
    expected = [(1, True), (1, False), (2, True), (3, True), (1, False), (4, True)]
    assert [(answer.position, answer.added) for answer in answers] == expected


@pytest.mark.parametrize("together", [True, False])
def test_same_id_with_other_data_is_a_conflict(ledger: Ledger, together: bool) -> None:
    other = replace(added(), data={**added().data, "text": "Something else"})
    if not together:
        ledger.append([added()])
    said = (
        "occurs twice in one append with different data"
        if together
        else "already exists at position 1 with other data"
    )
    with pytest.raises(Conflict, match=f"{said}, so nothing was appended") as caught:
        ledger.append([added() if together else added("pat-002"), other])
    assert (caught.value.event_id, caught.value.position) == (other.event_id, 1)
    assert ledger.head().position == (0 if together else 1)
    assert [row.name for row in ledger.rows()] == ([] if together else ["pat-001"])
    assert list(verify(ledger)) == []


def test_each_append_is_recorded_later_than_before(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([added("pat-001")])
    before = ledger.head().recorded_at
    monkeypatch.setattr(append, "utc_now", lambda: "1999-01-01T00:00:00.000000Z")
    ledger.append([added("pat-002")])
    # A server takes what is a little ahead of its own clock.
    ahead = (datetime.now(UTC) + timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%S")
    monkeypatch.setattr(append, "utc_now", lambda: f"{ahead}.999998Z")
    ledger.append([added("pat-003")])
    ledger.append([added("pat-004"), added("pat-005")])
    first, second, *later = (event.recorded_at for event in ledger.events())
    assert first == before < second < ahead
    assert later == [f"{ahead}.999998Z", f"{ahead}.999999Z", f"{ahead}.999999Z"]
    assert list(verify(ledger)) == []


def test_interrupted_append_or_rebuild_leaves_nothing(
    ledger: Ledger, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(history()[:7])

    def state(of: Ledger) -> object:
        return of.head(), of.rows(), of.windows(), list(of.events())

    before = state(ledger)

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patched:
        patched.setattr("reflector.ledger.counters.Counters.increase", fail)
        for work in (lambda: ledger.append(history()[7:]), ledger.rebuild):
            with pytest.raises(RuntimeError, match="in the middle"):
                work()
            assert state(ledger) == state(open_ledger()) == before
    assert list(verify(ledger)) == []
    ledger.append(history())
    assert list(verify(ledger)) == []


def test_a_target_must_be_in_the_ledger(ledger: Ledger) -> None:
    with pytest.raises(NoSuchTarget, match="target is not in the ledger"):
        ledger.append([added(), retracted(window())])
    assert ledger.head().position == 0
    ledger.append([window(), retracted(window())])
    assert ledger.head().position == 2


@pytest.mark.parametrize("removed", [False, True])
def test_name_is_never_given_to_a_second_bullet(ledger: Ledger, removed: bool) -> None:
    ledger.append([imported(("pat-001", 7, 2))])
    if removed:
        ledger.append([changed(ev.BULLET_REMOVED, "pat-001", reason="deleted", into=None)])
    position = ledger.head().position
    for batch in (
        [added("pat-001")],
        [added("pat-002"), imported(("pat-002", 0, 0), digest="1" * 64)],
    ):
        with pytest.raises(Conflict, match="A name is never used again, so nothing was appended"):
            ledger.append(batch)
    assert ledger.head().position == position
    assert [(row.name, row.helpful, row.harmful) for row in ledger.rows()] == [("pat-001", 7, 2)]
    assert add_bullet(ledger, "pat", "Another.").name == "pat-002"


def test_events_are_read_by_range_type_or_session(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflector.ledger.reader._PAGE", 3)
    events = history()
    ledger.append(events)
    assert [e.position for e in ledger.events()] == list(range(1, len(events) + 1))
    assert [e.position for e in ledger.events(after=2, upto=5)] == [3, 4, 5]
    assert [e.position for e in ledger.events(types=[ev.BULLET_ADDED, ev.PLAYBOOK_IMPORTED])] == [
        1,
        2,
    ]
    assert {e.session_id for e in ledger.events(session_id="s2")} == {"s2"}
    assert [e.type for e in ledger.targeting(events[2].event_id)] == [
        ev.REFLECTION_ANSWERED,
        ev.REFLECTION_COMPLETED,
    ]
    assert [e.position for e in ledger.at([3, 1])] == [1, 3]
    before = ledger.rows()
    ledger.rebuild()
    assert ledger.rows() == before
    assert list(verify(ledger)) == []


def test_seen_keys_are_exact_to_the_last_bit(ledger: Ledger) -> None:
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1]
    assert ledger.seen(keys) == set()
    ledger.append([window(1, keys=keys[:4]), window(2, keys=keys[3:5])])
    assert ledger.seen([*keys, 7]) == set(keys[:5])
    assert ledger.seen([]) == set()


def test_counters_are_asserted_only_where_they_stand(ledger: Ledger) -> None:
    ledger.append([added("pat-001", helpful=7, harmful=2)])
    with pytest.raises(
        LedgerError,
        match="the counters of pat-001 are 7 helpful, 2 harmful, not 7 helpful, 3 harmful",
    ):
        ledger.assert_counters("pat-001", 7, 3, actor="human")
    with pytest.raises(NoSuchTarget, match="the rule 'x' does not exist"):
        ledger.assert_counters("x", 0, 0, actor="human")
    assert ledger.head().position == 1
    positions = [ledger.assert_counters("pat-001", 7, 2, actor="human").position for _ in range(2)]
    assert positions == [2, 3]
    assert list(verify(ledger)) == []
