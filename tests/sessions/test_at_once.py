"""Which sessions a check asks about, and about which lines."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest

from reflector.judges.protocol import BackendError
from reflector.judges.rules.judge import RulesBackend
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook_files.births import Births, Course, LineState
from reflector.playbook_files.watching import Line
from reflector.project import Project
from reflector.sessions.checks import Asking, _Check, asked_sessions
from reflector.sessions.found_transcripts import FoundTranscript
from tests.road.sessions import Session

OLD = Line("CLAUDE.md", 1, "oth", "Run the tests before you commit.")
NEW = Line("CLAUDE.md", 2, "oth", "Keep the changelog in step.")
LINES = {"oth-001": OLD, "oth-002": NEW}
CUT = datetime(2026, 11, 15, tzinfo=UTC)
_ALWAYS: Course = ((-inf, LineState.SINCE),)
_SINCE_CUT: Course = ((-inf, LineState.BEFORE), (CUT.timestamp(), LineState.SINCE))
_NEVER: Course = ((-inf, LineState.UNKNOWN),)


def births(old: Course, new: Course) -> Births:
    return Births({same_words(OLD.text): old, same_words(NEW.text): new})


def transcript(folder: Path, name: str, started: datetime) -> FoundTranscript:
    session = Session(name).user("Fix the total.").agent("Done.")
    path = session.write(folder / f"{name}.jsonl")
    return FoundTranscript(path, "", started.isoformat(), path.stat().st_size)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open("sqlite://") as opened:
        yield opened


def test_line_is_asked_about_since_and_ten_before(ledger: Ledger, tmp_path: Path) -> None:
    days = [CUT + timedelta(days=day) for day in (1, *range(-1, -14, -1))]
    files = [transcript(tmp_path, f"s{number}", day) for number, day in enumerate(days)]
    sessions = asked_sessions(ledger, files, {}, LINES, births(_ALWAYS, _SINCE_CUT))
    assert [session.file for session in sessions] == files
    assert ["oth-002" in session.names for session in sessions] == [True] * 11 + [False] * 3


def test_sessions_since_come_first(ledger: Ledger, tmp_path: Path) -> None:
    before = transcript(tmp_path, "a", CUT - timedelta(days=1))
    since = transcript(tmp_path, "b", CUT)
    sessions = asked_sessions(ledger, [before, since], {}, LINES, births(_SINCE_CUT, _SINCE_CUT))
    assert [session.file for session in sessions] == [since, before]


def test_line_of_unknown_birth_is_not_asked_about(ledger: Ledger, tmp_path: Path) -> None:
    files = [transcript(tmp_path, "a", CUT)]
    (session,) = asked_sessions(ledger, files, {}, LINES, births(_ALWAYS, _NEVER))
    assert session.names == ["oth-001"]
    assert asked_sessions(ledger, files, {}, LINES, births(_NEVER, _NEVER)) == []


def _only_exit(path: Path) -> None:
    path.write_text(path.read_text().splitlines(keepends=True)[0])


def _only_error(path: Path) -> None:
    first, second = path.read_text().splitlines()
    record = json.loads(second)
    record["message"]["model"] = "<synthetic>"
    path.write_text(f"{first}\n{json.dumps(record)}\n")


@pytest.mark.parametrize("change", [_only_exit, _only_error])
def test_session_without_a_step_is_not_asked_about(
    ledger: Ledger, tmp_path: Path, change: object
) -> None:
    file = transcript(tmp_path, "a", CUT)
    assert callable(change)
    change(file.path)
    assert asked_sessions(ledger, [file], {}, LINES, births(_ALWAYS, _ALWAYS)) == []


def test_judge_that_is_away_is_named_once(tmp_path: Path) -> None:
    check = _Check(Project.at(tmp_path), RulesBackend(), Asking(2))
    for _ in range(2):
        check._note_failure(BackendError("connection refused", stage="transport"), "claude")
    assert check.ran.failed == ["connection refused"]
