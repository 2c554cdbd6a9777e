"""What a walk folds is the pure fold of the events, whatever the tables say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.events.fold import fold
from reflector.ledger.store import Ledger
from reflector.proof.event_check import Walk
from reflector.proof.folding import Folding
from reflector.proof.scratch import Scratch
from tests.ledger import sql
from tests.ledger.histories import STEPS, Step, live, sqlite_file

#: Makes what the tables say of the end wrong, so that the walk cannot count by it.
_FORGED = (
    "",
    "UPDATE bullet SET recounted_at = recounted_at + 2",
    "UPDATE retraction SET active = 1 - active",
    "DELETE FROM retraction",
    "UPDATE projection SET policy_id = 'once_per_reflection'",
    "DELETE FROM bullet_status",
)


def _folded(ledger: Ledger) -> Folding:
    with Scratch() as scratch, ledger.asking() as asked:
        walk = Walk(asked, [], scratch)
        assert [one for one in walk.findings() if one.code != "projection"] == []
    assert walk.folding is not None
    return walk.folding


@settings(max_examples=25)
@given(steps=STEPS, forged=st.sampled_from(_FORGED))
def test_a_walk_folds_what_the_pure_fold_does_whatever_the_tables_say(steps: list[Step], forged: str) -> None:
    with sqlite_file() as url, Ledger.open(url) as ledger:
        live(ledger, steps, "x")
        statuses = set(sql.rows(ledger, "SELECT name, position, status FROM bullet_status"))
        if forged:
            sql.run(ledger, forged)
        folding, book = _folded(ledger), fold(ledger.history())
        assert folding.playbook.entries == book.entries
        assert folding.playbook.adopted == book.adopted
        assert folding.playbook.updated_at == book.updated_at
        assert folding.statuses == statuses
        counters = {name: book.counters(name) for name in book.entries}
        assert folding.evidence.totals(folding.playbook) == counters


def test_a_missing_position_is_noted(ledger: Ledger) -> None:
    live(ledger, [("judge", 0, 1), ("judge", 1, 1)], "x")
    assert _folded(ledger).gapless
    with sql.triggers_off(ledger) as connection:
        connection.exec_driver_sql("DELETE FROM event WHERE position = 3")
    with Scratch() as scratch, ledger.asking() as asked:
        walk = Walk(asked, [], scratch)
        assert "order" in {one.code for one in walk.findings()}
    assert walk.folding is not None
    assert not walk.folding.gapless


@pytest.mark.parametrize("text", ["[]", "no JSON", '"a text"'])
def test_data_that_no_tag_has_is_refused(ledger: Ledger, text: str) -> None:
    with Scratch() as scratch, ledger.asking() as asked, pytest.raises((ValueError, AttributeError)):
        Folding(asked, scratch).take_tag(1, "e", "2026-01-01", "s1", None, text)
