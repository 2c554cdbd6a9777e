"""A tally that is not what the events say is found, whatever is wrong with it."""

from __future__ import annotations

import pytest

from reflector.ledger.store import Ledger
from reflector.proof.folding import judged
from reflector.proof.verify import verify
from tests.ledger import sql
from tests.ledger.events import added, reflected, window
from tests.ledger.slow import close_checkpoints


@pytest.fixture
def counted(ledger: Ledger) -> Ledger:
    """A ledger with checkpoints at 5 and 10."""
    with close_checkpoints():
        ledger.append([added()])
        for number in range(3):
            seen = window(number, "s1")
            ledger.append([seen, *reflected(f"r{number}", seen, ("pat-001", "helpful"))])
    return ledger


def _told(ledger: Ledger) -> list[str]:
    with close_checkpoints():
        return [finding.message for finding in verify(ledger)]


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (
            "UPDATE tally SET state = replace(state, '\"windows\":2', '\"windows\":3') WHERE name = 'answers'",
            "the tally answers at 5 is not what the events say",
        ),
        (
            "UPDATE tally SET state = replace(state, 'pat-001', 'pat-002') WHERE name = 'bullets' AND position = 10",
            "the tally bullets at 10 is not what the events say",
        ),
        (
            "UPDATE tally SET state = replace(state, '[\"s1\"]', '[]') WHERE name = 'doubles' AND position = 10",
            "the tally doubles at 10 is not what the events say",
        ),
        (
            "DELETE FROM tally WHERE name = 'doubles' AND position = 5",
            "the tally doubles at 5 is not what the events say",
        ),
        (
            "INSERT INTO tally (playbook_id, name, position, state) VALUES (1, 'answers', 7, '{}')",
            "the table holds a tally answers at 7, where none is kept",
        ),
        (
            "INSERT INTO tally (playbook_id, name, position, state) VALUES (1, 'other', 5, '{}')",
            "no tally is called 'other'",
        ),
    ],
)
def test_a_planted_tally_is_found(counted: Ledger, planted: str, found: str) -> None:
    assert _told(counted) == []
    before = sql.rows(counted, "SELECT * FROM tally")
    sql.run(counted, planted)
    assert sql.rows(counted, "SELECT * FROM tally") != before
    assert _told(counted) == [found]
    with close_checkpoints():
        counted.rebuild()
    assert _told(counted) == []


def test_a_tally_is_compared_with_the_events_and_not_with_the_table_of_tags(counted: Ledger) -> None:
    sql.run(counted, "UPDATE tag SET tag = -1 WHERE position = 4")
    assert not any("tally" in what for what in _told(counted))


def test_a_tag_without_a_verdict_is_judged_as_the_table_has_it() -> None:
    assert judged('{"name":"pat-001","tag":"helpful","disposition":"counted"}') == ("pat-001", 1)
    assert judged('{"name":"pat-001","tag":"harmful","disposition":"counted"}') == ("pat-001", -1)
    assert judged('{"name":"pat-001","tag":"neutral","disposition":"counted"}') == ("pat-001", 0)
    assert judged('{"name":null,"tag":"helpful","disposition":"malformed"}') == ("", 0)
    with pytest.raises(AttributeError):
        judged("[]")
