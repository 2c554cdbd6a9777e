"""Filters of the log: each condition by itself, and all of them together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.audit.log import Filter, select
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.store import Ledger
from tests.conftest import examples
from tests.ledger.events import about, added, changed, imported, reflected, window
from tests.ledger.test_as_of import ACTIONS, NAMES, lived


def session(number: int, id: str, **data: Any) -> NewEvent:
    plain = window(number, id)
    return NewEvent(plain.type, plain.event_id, {**plain.data, **data}, "hook:SessionEnd", session_id=id)


def answered(target: NewEvent, reflection: str, model: str, backend: str) -> NewEvent:
    return NewEvent(
        ev.REFLECTION_ANSWERED,
        identity(ev.REFLECTION_ANSWERED, reflection),
        {"backend": backend, "model": model, "answer": '{"model":"claude-opus-5"}', "mode": "content_based"},
        backend,
        session_id=target.session_id,
        reflection_id=reflection,
        target_id=target.event_id,
    )


@pytest.fixture
def lived_in(ledger: Ledger) -> Ledger:
    """1 import, 2 session, 3 answer, 4 completion, 5-6 tags, 7 revision, 8 session, 9 failure, 10 removal, 11 add."""
    first = session(1, "s1", cited=["pat-001"], unknown=["pat-009"])
    second = session(2, "s2", carried=["mis-001"])
    model = "claude-sonnet-5-5-20261024"
    ledger.append([imported(("pat-001", 0, 0), ("mis-001", 0, 0)), first, answered(first, "r1", model, "anthropic")])
    ledger.append(reflected("r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"), actor="anthropic"))
    ledger.append([changed(ev.BULLET_REVISED, "pat-001", 1, text="New"), second])
    ledger.append([about(ev.REFLECTION_FAILED, second, 1, backend="anthropic", stage="api", message="pat-001")])
    ledger.append([changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"), added("pat-010")])
    return ledger


@pytest.mark.parametrize(
    ("chosen", "positions"),
    [
        (Filter(), list(range(1, 12))),
        (Filter(types=(ev.BULLET_TAGGED,)), [5, 6]),
        (Filter(types=(ev.SESSION_RECORDED, ev.BULLET_ADDED)), [2, 8, 11]),
        (Filter(session_id="s1"), [2, 3, 4, 5, 6]),
        (Filter(bullet="pat-001"), [1, 2, 5, 7, 10]),
        (Filter(bullet="mis-001"), [1, 6, 8, 10]),
        (Filter(bullet="pat-009"), [2]),
        (Filter(bullet="pat-01"), []),
        (Filter(bullet='"'), []),
        (Filter(actor="hook"), [2, 8]),
        (Filter(actor="hook:SessionEnd"), [2, 8]),
        (Filter(actor="hoo"), []),
        (Filter(actor="human"), [7, 10, 11]),
        (Filter(after=3, upto=6), [4, 5, 6]),
        (Filter(bullet="pat-001", session_id="s2"), []),
    ],
)
def test_an_event_is_chosen_when_it_meets_all_conditions(
    lived_in: Ledger, chosen: Filter, positions: list[int]
) -> None:
    assert [event.position for event in select(lived_in, chosen)] == positions
    assert [event.position for event in select(lived_in, chosen, newest=2)] == positions[-2:]


def test_a_redacted_session_is_still_found_by_what_it_cites(lived_in: Ledger) -> None:
    (recorded,) = select(lived_in, Filter(types=(ev.SESSION_RECORDED,), session_id="s1"))
    lived_in.redact(recorded.event_id, reason="a secret", actor="human")
    assert 2 in [event.position for event in select(lived_in, Filter(bullet="pat-001"))]


@settings(max_examples=examples(40))
@given(
    st.lists(ACTIONS, max_size=10),
    st.sampled_from(["s1", None]),
    st.sampled_from([None, *NAMES]),
    st.sampled_from([(), (ev.BULLET_TAGGED,), (ev.SESSION_RECORDED, ev.BULLET_REVISED)]),
    st.sampled_from([None, "human", "rules"]),
    st.integers(1, 5),
)
def test_a_filter_is_what_a_pass_over_all_events_would_choose(
    actions: list[Any], session: str | None, name: str | None, types: tuple[str, ...], actor: str | None, newest: int
) -> None:
    with Ledger.open("sqlite://") as ledger:
        lived(ledger, actions)
        wanted = [
            event.position
            for event in ledger.events()
            if (session is None or event.session_id == session)
            and (not types or event.type in types)
            and (actor is None or event.actor == actor)
            and (name is None or _is_about(event.data, name))
        ]
        chosen = Filter(types, session, name, actor=actor)
        assert [event.position for event in select(ledger, chosen)] == wanted
        assert [event.position for event in select(ledger, chosen, newest)] == wanted[-newest:]


def _is_about(data: Any, name: str) -> bool:
    return data.get("name") == name or any(item["name"] == name for item in data.get("bullets", ()))
