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
