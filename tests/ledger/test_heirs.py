"""Which bullets have the evidence of merged ones, at a position."""

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.store import Ledger
from reflector.ledger.usage import heirs_at

from .events import added, changed, merged

_SECOND = added("pat-002", "Read the log first")
_REMOVED = changed(ev.BULLET_REMOVED, "pat-001", reason="replaced", into="pat-002")
_FOLLOWED = changed(ev.BULLET_REMOVED, "pat-001", 1, reason="merged", into="pat-002", follows=True)


@pytest.mark.parametrize(
    ("event", "heirs"),
    [
        pytest.param(_REMOVED, {}, id="removed"),
        pytest.param(_FOLLOWED, {"pat-001": frozenset({"pat-002"})}, id="merge of ledgers"),
        pytest.param(
            merged("pat-003", "pat-001"), {"pat-001": frozenset({"pat-003"})}, id="merged"
        ),
    ],
)
def test_heir_has_the_evidence_of_a_merged_bullet(
    ledger: Ledger, event: NewEvent, heirs: dict[str, frozenset[str]]
) -> None:
    ledger.append([added(), _SECOND, event])
    with ledger.asking() as sql:
        assert heirs_at(sql, 3) == heirs
        assert heirs_at(sql, 2) == {}


def test_removal_behind_a_merge_keeps_its_heir(ledger: Ledger) -> None:
    ledger.append([added(), _SECOND, merged("pat-003", "pat-001"), _REMOVED])
    with ledger.asking() as sql:
        assert heirs_at(sql, 4) == {"pat-001": frozenset({"pat-003"})}
