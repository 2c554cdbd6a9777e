"""No question holds the history: the number of events in memory does not grow with the ledger.

`python -m benchmarks memory` measures the same commands with a million events.
"""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import made
from reflector.cli.app import run
from reflector.events.event import Event
from reflector.ledger import answers, reader, rows, usage
from reflector.ledger.store import Ledger
from tests.conftest import first_fast
from tests.road.agent import environ

#: The sessions of the two ledgers. A rule is tagged in the first 20 of each.
_SHORT, _LONG = 24, 120
_PAGE = 20
_COMMANDS = (
    f"review|blame {made.MARKED}|list --json|show {made.MARKED}|list parser|status|log -n 10|"
    "stats --json|list --by cited --json|review find --dry-run|undo 1 --dry-run|"
    "diff 100..150|list --counting once_per_session"
).split("|")


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short and a long ledger, in which the commands write nothing."""
    folder = tmp_path_factory.mktemp("ledgers")
    for sessions in (_SHORT, _LONG):
        with Ledger.open_file(folder / f"{sessions}.db") as ledger:
            ledger.append([made.playbook()])
            ledger.append([event for number in range(sessions) for event in made.session(number)])
    return folder


@pytest.mark.parametrize("command", first_fast(1, _COMMANDS))
def test_question_holds_no_history(
    ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(reader, "_PAGE", _PAGE)
    monkeypatch.setattr(reader, "_WINDOWS_AT_ONCE", _PAGE // 10)
    for module in (reader, usage, answers):
        monkeypatch.setattr(module, "AT_ONCE", _PAGE)
    short, long = (
        _most_held(ledgers / f"{sessions}.db", tmp_path / f"{sessions}", monkeypatch, command)
        for sessions in (_SHORT, _LONG)
    )
    assert short > 0
    assert long <= short + _PAGE


def _most_held(ledger: Path, project: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> int:
    """Return the largest number of events that were in memory at once during a command."""

    class Held(Event):
        now = most = 0

        def __init__(self, *fields: Any) -> None:
            super().__init__(*fields)
            Held.now += 1
            Held.most = max(Held.most, Held.now)

        def __del__(self) -> None:
            Held.now -= 1

    (project / ".claude").mkdir(parents=True)
    (project / "home").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(rows, "Event", Held)
        home = {"HOME": str(project / "home"), "REFLECTOR_NO_SPAWN": "1"}
        with environ({**home, "REFLECTOR_LEDGER_URL": f"sqlite:///{ledger}"}):
            assert run(["--project", str(project), *command.split()]) == 0
    return Held.most
