"""Citations that wait for their evidence: carried from window to window, judged once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflector.ledger import event as ev
from reflector.ledger.store import Ledger
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.intake import Source, WindowMode, take_in
from reflector.reflection.protocol import Answer, BackendError, Request
from reflector.reflection.runner import Runner
from reflector.transcripts.citations import citations_of
from tests.reflection.test_intake import add_bullets, windows
from tests.road.sessions import Session

THANKS = "Perfect, that works. Thanks!"


class Cut:
    """One session whose transcript is taken in piece by piece, judged by rules."""

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self.ledger = ledger
        self.path = path
        self.session = Session()
        add_bullets(ledger, "pat-001", "pat-002")

    def window(self, mode: WindowMode = "new", *, judge: bool = True) -> None:
        take_in(self.ledger, Source(self.session.write(self.path), "PreCompact"), window=mode)
        if judge:
            Runner(self.ledger, RulesBackend()).finish_pending(retry="all")

    def counters(self, name: str = "pat-001") -> tuple[int, int]:
        return next((row.helpful, row.harmful) for row in self.ledger.rows() if row.name == name)

    def tags(self, name: str = "pat-001") -> list[str]:
        tags = (event.data or {} for event in self.ledger.events(types=[ev.BULLET_TAGGED]))
        return [data["tag"] for data in tags if data["name"] == name]

    def carried(self) -> list[list[str]]:
        return [data["carried"] for data in windows(self.ledger)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.fixture
def cut(ledger: Ledger, tmp_path: Path) -> Cut:
    return Cut(ledger, tmp_path / "t.jsonl")


def test_thanks_that_come_after_a_compaction_count_once(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert cut.carried() == [[], ["pat-001"]]
    assert cut.tags() == ["neutral", "helpful"]
    assert cut.counters() == (1, 0)


def test_a_citation_that_was_decided_is_not_judged_again(cut: Cut) -> None:
    cut.session.cites("pat-001", "harmful")
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert cut.carried() == [[], [], []]
    assert cut.tags() == ["harmful"]
    assert cut.counters() == (0, 1)


def test_a_citation_waits_through_windows_that_decide_nothing(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    for _ in range(3):
        cut.window()
        cut.session.runs("ls", "cart.py")
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert cut.counters() == (1, 0)


def test_other_names_of_the_earlier_records_do_not_count_again(cut: Cut) -> None:
    cut.session.cites("pat-002", "helpful").cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert (cut.counters("pat-001"), cut.counters("pat-002")) == ((1, 0), (1, 0))
    assert cut.tags("pat-002") == ["helpful"]


def test_the_earlier_records_are_read_with_the_carried_citations_only(cut: Cut) -> None:
    cut.session.cites("pat-002", "helpful").cites("pat-001", None)
    cut.window()
    cut.session.user("Go on.")
    cut.window(judge=False)
    seen: list[list[str]] = []

    class Looking:
        name = "rules"
        is_model = False

        def answer(self, request: Request, part: int = 1) -> Answer:
            messages = list(request.messages())
            seen.append([name for message in messages for name in citations_of(message)])
            assert len(messages) == len(cut.session.records)
            assert request.cited == ("pat-001",)
            return Answer(json.dumps({"analysis": "", "bullet_tags": []}), "looking")

    Runner(cut.ledger, Looking()).finish_pending()
    assert seen == [["pat-001"]]


def test_a_citation_that_stands_in_the_window_itself_is_not_carried_too(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.cites("pat-001", "helpful")
    cut.window()
    assert cut.carried() == [[], []]
    assert cut.counters() == (1, 0)


def test_another_session_or_subagent_carries_nothing_of_it(cut: Cut, tmp_path: Path) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    for other in (Session("s-2"), Session("s-1", agent_id="a-1")):
        other.user("Hello.")
        path = other.write(tmp_path / "other.jsonl")
        take_in(cut.ledger, Source(path, "SessionEnd", agent_id=other.agent_id))
        other.user(THANKS).agent("Glad to hear it.").write(path)
        take_in(cut.ledger, Source(path, "SessionEnd", agent_id=other.agent_id))
    assert cut.carried() == [[], [], [], [], []]


def test_a_window_that_failed_is_not_judged_for_what_a_later_one_decided(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window(judge=False)

    class Down:
        name = "rules"
        is_model = False

        def answer(self, request: Request, part: int = 1) -> Answer:
            raise BackendError("connection refused", stage="transport")

    Runner(cut.ledger, Down()).finish_pending()
    cut.session.user("Yes, it really works now, thank you!").agent("Fine.")
    take_in(cut.ledger, Source(cut.session.write(cut.path), "PreCompact"))
    assert cut.carried() == [[], ["pat-001"], ["pat-001"]]
    (failed, later) = cut.ledger.open_windows()
    runner = Runner(cut.ledger, RulesBackend())
    assert runner.finish(later).outcome == "completed"
    assert runner.finish(failed).outcome == "skipped"
    assert cut.counters() == (1, 0)


def test_a_whole_window_counts_what_was_counted_before(cut: Cut) -> None:
    cut.session.cites("pat-001", "helpful")
    cut.window()
    cut.window("whole")
    cut.window("whole")
    assert cut.counters() == (2, 0)


def test_a_bullet_that_was_removed_meanwhile_is_not_judged(cut: Cut) -> None:
    from reflector.ledger.event import NewEvent, identity

    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window(judge=False)
    removed = {"name": "pat-001", "reason": "deleted", "into": None}
    cut.ledger.append([NewEvent(ev.BULLET_REMOVED, identity(ev.BULLET_REMOVED, "x"), removed, "human")])
    (done,) = Runner(cut.ledger, RulesBackend()).finish_pending()
    assert (done.outcome, cut.counters()) == ("skipped", (0, 0))
