"""A head that somebody moved is refused, named, and set back by a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflector.exchange.transfer import exported
from reflector.ledger.errors import LedgerCorrupt, LedgerError
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.proof.heads import mend
from reflector.proof.verify import verify
from tests.conftest import OpenLedger
from tests.ledger import sql
from tests.ledger.events import added

_LATEST = "9999-12-31T23:59:59.999999Z"
_FORGERIES = [
    f"UPDATE playbook SET position = 999999, chain = 'x', recorded_at = '{_LATEST}'",
    f"UPDATE playbook SET recorded_at = '{_LATEST}'",
    "UPDATE playbook SET position = position - 1",
    "UPDATE playbook SET chain = 'x'",
]


@pytest.mark.parametrize("forgery", _FORGERIES)
def test_a_moved_head_is_an_error_whose_way_out_leads_out(told: Ledger, open_ledger: OpenLedger, forgery: str) -> None:
    head, rows = told.head(), told.rows()
    sql.forge(told, forgery)
    with pytest.raises(LedgerError, match="rebuild --mend"):
        told.append([added("oth-001")])
    assert {(one.code, one.remedy.split("`")[1]) for one in verify(told)} == {("head", "reflector rebuild --mend")}
    assert f"{head.position:,}" in mend(told)[0]
    assert (told.head(), told.rows()) == (head, rows)
    assert list(verify(told)) == []
    assert mend(told) == []
    other = open_ledger()
    other.append([added("oth-001")])
    assert list(verify(other)) == []


def test_questions_of_a_ledger_whose_head_is_nowhere_name_the_way_out(told: Ledger) -> None:
    sql.forge(told, _FORGERIES[0])
    for question in (lambda: told.position_at("2998"), lambda: list(exported(told))):
        with pytest.raises(LedgerCorrupt, match=r"does not stand at its last event.*rebuild --mend"):
            question()


def test_a_forged_event_is_not_made_history_by_the_mending_of_the_head(told: Ledger) -> None:
    head = told.head()
    sql.forge(
        told,
        "UPDATE playbook SET position = 999999",
        "UPDATE event SET actor = 'somebody' WHERE position = (SELECT max(position) FROM event)",
    )
    with pytest.raises(LedgerCorrupt, match=r"are not what was appended .* left as it is; restore a backup"):
        mend(told)
    assert told.head() != head


def test_a_time_at_the_end_of_all_times_is_told(tmp_path: Path) -> None:
    """A clock that was set to it, on an engine that has no other clock to ask."""
    with Ledger.open(sqlite_url(tmp_path / "ledger.db")) as ledger, pytest.MonkeyPatch.context() as patched:
        patched.setattr("reflector.ledger.append.utc_now", lambda: _LATEST)
        ledger.append([added("pat-001")])
        with pytest.raises(LedgerCorrupt, match="behind which nothing can be recorded"):
            ledger.append([added("pat-002")])
