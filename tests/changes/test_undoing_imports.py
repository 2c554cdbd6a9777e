"""Undoing the import of lines that `check` watched."""

from dataclasses import replace

import pytest

from reflector.changes.apply import apply_changes
from reflector.changes.undo import undoing
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from tests.ledger.events import added


@pytest.fixture
def imported(ledger: Ledger) -> Ledger:
    """A ledger in which two watched lines became the playbook's."""
    lines = [added(f"pat-00{number}", f"Line {number}.") for number in (1, 2)]
    ledger.append([replace(line, data={**line.data, "watched": True}) for line in lines])
    apply_changes(
        ledger, [Change("restore", "pat-001"), Change("restore", "pat-002")], actor="import"
    )
    return ledger


def statuses(ledger: Ledger) -> list[str]:
    return [row.status for row in ledger.rows()]


def undo(ledger: Ledger, positions: list[int]) -> None:
    found = undoing(ledger, ledger.at(positions))
    apply_changes(
        ledger,
        found.changes,
        actor="human",
        target=found.targets,
        baselines=found.baselines,
        again=True,
    )


def test_undone_import_makes_lines_watched_again(imported: Ledger) -> None:
    assert statuses(imported) == ["live", "live"]
    undo(imported, [3, 4])
    assert statuses(imported) == ["watched", "watched"]


def test_undo_of_that_undo_brings_them_back(imported: Ledger) -> None:
    undo(imported, [3, 4])
    undo(imported, [5, 6])
    assert statuses(imported) == ["live", "live"]


def test_rebuild_keeps_lines_watched(imported: Ledger) -> None:
    undo(imported, [3, 4])
    imported.rebuild()
    assert statuses(imported) == ["watched", "watched"]
