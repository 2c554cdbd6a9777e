"""Answers about the whole history: the same with the row that they are counted on from and
without it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from reflector.audit.citations import use
from reflector.audit.stats import ledger_stats
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger import answers, usage
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify

from . import sql
from .events import about, added, merged, reflected, retracted, window


def _session(number: int, tag: str = "helpful") -> list[NewEvent]:
    """A session, shown a bullet twice, that cites it and judges it, and a later answer; two
    numbers share a session.
    """
    first = window(number, f"s{number // 2}")
    said: dict[str, Any] = {
        "via": "injection",
        "lessons": [],
        "bullets": ["pat-001"],
        "digest": "x",
    }
    shown = [about(ev.ADVICE_TOLD, first, again, **said) for again in range(2)]
    shown.append(about(ev.ADVICE_TOLD, first, 2, **said | {"via": "file"}))
    answered, again = (
        replace(
            about(ev.REFLECTION_ANSWERED, first, model, model=model, answer="x"),
            reflection_id=f"r{number}",
        )
        for model in ("m-1", "m-3")
    )
    return [first, *shown, answered, *reflected(f"r{number}", first, ("pat-001", tag)), again]


@pytest.fixture
def grown(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A ledger of which a few events are counted at once, and whose row is written for each
    five.
    """
    monkeypatch.setattr(usage, "_STEP", 5)
    for counting in (usage, answers):  # an answer and its completion are not counted at once
        monkeypatch.setattr(counting, "AT_ONCE", 4)
    ledger.append([added("pat-001"), added("pat-002")])
    yield ledger
    assert list(verify(ledger)) == []


def _answers(ledger: Ledger) -> list[object]:
    told = usage.usage_at(ledger)
    used = use(ledger, Past(ledger)).bullets
    return [dict(used), ledger_stats(ledger), told.texts, told.told, told.idle]


def _row(ledger: Ledger) -> list[tuple[object, ...]]:
    return sql.rows(ledger, "SELECT position, state FROM cached_usage")


#: Five events part an answer from its completion. Seven hold a verdict with the text before it.
@pytest.mark.parametrize("at_once", [5, 7])
def test_answers_by_row_and_from_start_are_equal(
    grown: Ledger, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    for counting in (usage, answers):
        monkeypatch.setattr(counting, "AT_ONCE", at_once)
    rows = set()
    for number in range(12):
        grown.append(_session(number, "harmful" if number % 3 else "helpful"))
        if number == 7:
            grown.append(
                [
                    retracted(window(2, "s1")),
                    about(ev.REFLECTION_ANSWERED, window(3, "s1"), 9, model="m-2"),
                ]
            )
        if number in (8, 10):
            grown.append([merged(f"pat-10{number}", f"pat-00{number // 2 - 3}")])
        found = _answers(grown)
        rows.add(str(_row(grown)))
        with monkeypatch.context() as never:
            head = grown.head().position
            empty_row = (head, usage.Row(0, usage.EMPTY))
            never.setattr(usage, "_head_and_row", lambda _, row=empty_row: row)
            never.setattr(usage, "_STEP", 10**9)
            never.setattr(usage, "AT_ONCE", 10**9)
            never.setattr(answers, "AT_ONCE", 10**9)
            assert _answers(grown) == found
    assert len(rows) > 3


def test_cached_row_counts_only_if_current_and_sound(
    grown: Ledger,
) -> None:
    for number in range(4):
        grown.append(_session(number))
    found = _answers(grown)
    assert [position for position, _ in _row(grown)] == [grown.head().position]
    wrong = f"UPDATE cached_usage SET state = '{json.dumps([[7, {}], usage.EMPTY[1]])}'"
    for change in ("position = 3", "code_version = 99", f"position = {grown.head().position + 1}"):
        sql.run(grown, f"{wrong}, {change}")
        assert _answers(grown) == found, change
    sql.run(grown, wrong)
    assert [finding.remedy for finding in verify(grown)] == ["run `reflector rebuild`"]
    grown.rebuild()
    assert _row(grown) == []
    assert _answers(grown) == found
    answered = next(grown.events(types=[ev.REFLECTION_ANSWERED]))
    grown.redact([answered.event_id], reason="a secret", actor="human")
    assert _row(grown) == []


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_question_does_not_wait_for_a_writer(grown: Ledger) -> None:
    grown.append(_session(1))
    with Ledger.open(grown.engine.url.text) as other, other.writing():
        assert usage.usage_at(grown).bullets["pat-001"].judged == 1
        assert _row(grown) == []


def test_retracted_window_without_a_session_is_no_use(ledger: Ledger) -> None:
    alone = window(1, None)
    ledger.append([added("pat-001"), replace(alone, data={**alone.data, "cited": ["pat-001"]})])
    assert use(ledger, Past(ledger)).bullets["pat-001"].cited == 1
    ledger.append([retracted(alone)])
    assert use(ledger, Past(ledger)).bullets["pat-001"].cited == 0
