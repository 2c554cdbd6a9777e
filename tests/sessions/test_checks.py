<<<<<<< HEAD
"""Which sessions a check asks about, and about which lines."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook_files.births import Births, Course, Standing
from reflector.playbook_files.watching import Line
from reflector.sessions.checks import asked_sessions
from reflector.sessions.history import FoundTranscript
from tests.road.sessions import Session

OLD = Line("CLAUDE.md", 1, "oth", "Run the tests before you commit.")
NEW = Line("CLAUDE.md", 2, "oth", "Keep the changelog in step.")
LINES = {"oth-001": OLD, "oth-002": NEW}
CUT = datetime(2026, 11, 15, tzinfo=UTC)
_ALWAYS: Course = ((-inf, Standing.SINCE),)
_SINCE_CUT: Course = ((-inf, Standing.BEFORE), (CUT.timestamp(), Standing.SINCE))
_NEVER: Course = ((-inf, Standing.UNKNOWN),)


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


def test_line_is_asked_about_since_and_ten_times_before(ledger: Ledger, tmp_path: Path) -> None:
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
=======
"""A check that asks about several sessions at once."""

import json
import re
from decimal import Decimal
from pathlib import Path
from threading import Barrier, Lock

import pytest

from reflector.judges.protocol import Answer, BackendError, Request
from reflector.playbook_files.watching import advice_of
from reflector.project import Project
from reflector.sessions import checks
from reflector.sessions.history import FoundTranscript, look_at
from tests.road.sessions import Session

SESSIONS = 6


class AtOnce:
    """A judge that answers only if some questions are asked at the same time."""

    is_model = True
    rereads = False
    quotes = True
    name = "agent"

    def __init__(self, at_once: int, failure: BaseException | None = None) -> None:
        self.asked: list[str] = []
        self._failure = failure
        self._met = Barrier(at_once, timeout=20)
        self._turn = Lock()

    def answer(self, request: Request) -> Answer:
        request.reserve(10_000)
        self._met.wait()
        with self._turn:
            self.asked.append(request.session_id)
            is_third = len(self.asked) == 3
        if self._failure is not None and is_third:
            raise self._failure
        return Answer(json.dumps({"analysis": "x", "bullet_tags": []}), "a model", meta={})


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    Path.home().mkdir()
    root = tmp_path / "shop"
    root.mkdir()
    (root / "CLAUDE.md").write_text("- Run the tests before you commit.\n")
    return Project.at(root)


@pytest.fixture
def transcripts(shop: Project, tmp_path: Path) -> list[FoundTranscript]:
    found = []
    for number in range(SESSIONS):
        made = Session(f"s-{number}").user("Fix the cart.").agent(f"Done, {number}.")
        for record in made.records:
            record["cwd"] = str(shop.root)
        found.append(look_at(made.write(tmp_path / f"kept/{number}.jsonl")))
    return found


def run(
    shop: Project, judge: AtOnce, files: list[FoundTranscript], most: int = SESSIONS
) -> checks.Ran:
    lines = advice_of(shop.root).lines
    steps: list[Decimal] = []
    ran = checks.check_sessions(
        shop, judge, files, lines, checks.Asking(most, at_once=3), steps.append
    )
    assert len(steps) <= len(files)
    return ran


def answered(shop: Project) -> set[str | None]:
    with shop.open_ledger() as ledger:
        return {event.session_id for event in ledger.events(types=["reflection.answered"])}


def test_three_questions_are_asked_at_once(
    shop: Project, transcripts: list[FoundTranscript]
) -> None:
    judge = AtOnce(3)
    ran = run(shop, judge, transcripts)
    assert (ran.asked, ran.answered, ran.failed) == (SESSIONS, SESSIONS, [])
    assert len(answered(shop)) == SESSIONS
    assert sorted(judge.asked[:3]) == ["s-0", "s-1", "s-2"]


def test_copies_of_a_session_are_asked_about_once(
    shop: Project, transcripts: list[FoundTranscript]
) -> None:
    ran = run(shop, AtOnce(1), [transcripts[0], transcripts[0], transcripts[1]])
    assert ran.asked == 2


def test_stopped_check_keeps_the_answers_that_came(
    shop: Project, transcripts: list[FoundTranscript]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(shop, AtOnce(3, KeyboardInterrupt()), transcripts)
    assert len(answered(shop)) == 2
    again = run(shop, AtOnce(1), transcripts)
    assert again.asked == SESSIONS - 2


def test_judge_that_is_away_is_named_once(
    shop: Project, transcripts: list[FoundTranscript]
) -> None:
    judge = AtOnce(1, BackendError("it is away", stage="access", attempts=0))
    ran = run(shop, judge, transcripts)
    assert ran.failed == ["it is away"]
    assert len(judge.asked) <= 5


def test_no_more_is_asked_than_was_agreed(
    shop: Project, transcripts: list[FoundTranscript]
) -> None:
    judge = AtOnce(1)
    ran = run(shop, judge, transcripts, most=4)
    assert (ran.asked, len(judge.asked)) == (4, 4)
    assert not re.search("s-[45]", " ".join(judge.asked[:3]))
>>>>>>> origin/page
