"""Which events are acts of yours, so that bare undo takes them back."""

from dataclasses import replace
from pathlib import Path

import pytest

from reflector import authorship
from reflector.changes.acts import _is_signed
from reflector.events.event import MERGED, TX, Event
from reflector.ledger.store import Ledger
from tests.ledger.events import added


@pytest.fixture
def signed() -> Event:
    """An event that a command of yours appended."""
    Path.home().mkdir(exist_ok=True)
    with Ledger.open("sqlite://") as ledger:
        ledger.append([added("pat-001")], tx=authorship.draw())
        return next(ledger.events())


def test_own_event_is_signed(signed: Event) -> None:
    assert _is_signed(signed)


def test_event_of_an_import_is_not_signed(signed: Event) -> None:
    brought = {"origin": "0" * 32, "position": 1, TX: signed.meta[TX]}
    assert not _is_signed(replace(signed, meta={MERGED: brought}))
