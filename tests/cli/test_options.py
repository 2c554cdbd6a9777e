"""The values that commands share: a question and its moment."""

from dataclasses import replace
from pathlib import Path

import pytest

from reflector.cli.app import Place
from reflector.cli.options import Question
from reflector.ledger.store import Ledger
from tests.ledger.events import added

NOW = "2026-12-01T00:00:00.000000Z"
EVENT = replace(added("pat-001", "One."), occurred_at="2026-01-02T03:04:05.000000Z")


@pytest.mark.parametrize(
    ("moment", "time"),
    [
        (None, NOW),
        ("1", EVENT.occurred_at),
        ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05.999999Z"),
        ("2999-01-01", NOW),
    ],
)
def test_question_knows_the_time_of_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str | None, time: str
) -> None:
    monkeypatch.setattr("reflector.ledger.append.utc_now", lambda: NOW)
    with Ledger.open("sqlite://") as ledger:
        ledger.append([EVENT])
        assert Question(Place(tmp_path), ledger, moment).time == time
