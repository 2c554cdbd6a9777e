"""What a ledger took, and which of its windows wait for a budget: on both engines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.reflection import reflection_events as facts
from reflector.reflection.spending import spent_on_session, spent_this_month, waiting_for_budget
from reflector.sessions.intake import Source, take_in
from tests.reflection.test_gate import answer
from tests.road.sessions import Session
from tests.sessions.test_intake import add_bullets


def test_a_ledger_knows_what_it_took_this_month_and_for_a_session(ledger: Ledger) -> None:
    answer(ledger, 1, "s-1", input_tokens=1000, output_tokens=200, cache_read_tokens=30, cache_write_tokens=4)
    answer(ledger, 2, "s-2", input_tokens=10_000, output_tokens=-5)
    assert (spent_this_month(ledger), spent_on_session(ledger, "s-1"), spent_on_session(ledger, None)) == (
        11_234,
        1_234,
        0,
    )
    now = datetime.now(UTC)
    assert spent_this_month(ledger, datetime(now.year + 1, now.month, 1, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    ("reasons", "waits"),
    [
        (["the monthly budget is spent: 7 of 7 tokens (setting monthly_tokens)"], True),
        (["7 of 9 tokens of the session budget are left, fewer than the 8,000 that a request needs"], True),
        (["what is left of the budget is too little: template and playbook take 9"], True),
        (["the window cites nothing"], False),
        (["the playbook is empty"], False),
        (["playbook_update_on_clear is false in the client's settings"], False),
        (["the project is not among `projects` in the user's configuration"], False),
        (["only the project's own file asks for a model; add the project to `projects` in the user's one"], False),
        (["the monthly budget is spent", "the window cites nothing"], False),
        (["the window cites nothing", "the monthly budget is spent"], True),
    ],
)
def test_a_window_waits_for_a_budget_where_that_was_the_last_reason_to_skip_it(
    ledger: Ledger, tmp_path: Path, reasons: list[str], waits: bool
) -> None:
    add_bullets(ledger, "pat-001")
    taken = take_in(ledger, Source(Session().cites("pat-001").write(tmp_path / "t.jsonl"), "SessionEnd"))
    recorded = ledger.event(taken.event_id or "")
    assert recorded is not None
    for reason in reasons:
        (window,) = ledger.windows()
        if window.state == "skipped":  # tried by hand in between
            ledger.append([facts.failed(window, "anthropic", "transport", "down")])
            (window,) = ledger.windows()
        ledger.append([facts.skipped(window, recorded, "anthropic", reason)])
    assert len(list(ledger.events(types=[ev.REFLECTION_SKIPPED]))) == len(reasons)
    assert [window.event_id for window in waiting_for_budget(ledger)] == [recorded.event_id] * waits
