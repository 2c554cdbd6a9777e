"""A session in windows: what its later ones read again, and what becomes of the earlier verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reflector.audit.blame import blame
from reflector.curation.counts import retract, undo
from reflector.events import event as ev
from reflector.events.event import Appended, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, BackendError, Request
from reflector.reflection.runner import Runner
from reflector.sessions.intake import Source, WindowMode, take_in
from reflector.transcripts.citations import citations_of
from tests.road.sessions import Session
from tests.sessions.test_intake import add_bullets, windows

THANKS = "Perfect, that works. Thanks!"
OBJECTION = "That isn't it."


class Cut:
    """One session whose transcript is taken in piece by piece, judged by rules."""

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self.ledger = ledger
        self.path = path
        self.session = Session()
        add_bullets(ledger, "pat-002")
        text = "Change how the cart adds up its total."
        data = {"name": "pat-001", "section": "pat", "text": text, "helpful": 0, "harmful": 0, "origin": "cli"}
        ledger.append([NewEvent(ev.BULLET_ADDED, identity(ev.BULLET_ADDED, "pat-001"), data, "human")])

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


class Model:
    """A backend that says the same each time, and keeps what it was asked: names, and the citations that it saw."""

    is_model = False
    rereads = False

    def __init__(self, session: Session, says: str, *, name: str = "fixtures") -> None:
        self.name = name
        self.session = session
        self.says = says.split()
        self.asked: list[tuple[str, ...]] = []
        self.cited: list[list[str]] = []

    def answer(self, request: Request) -> Answer:
        messages = list(request.messages())
        self.asked.append(request.cited)
        self.cited.append([name for message in messages for name in citations_of(message)])
        tag = {"name": self.says[0], "tag": self.says[1], "rationale": ""}
        tags = [tag] if tag["name"] in request.cited else []
        return Answer(json.dumps({"analysis": "", "bullet_tags": tags}), "looking")


class Hurried(Ledger):
    """The same ledger, in which somebody else does something just before the first append of a reflection's tags."""

    def __init__(self, ledger: Ledger, before: Callable[[], object]) -> None:
        super().__init__(ledger.engine, ledger.playbook_id, ledger.name)
        self.before: Callable[[], object] | None = before

    def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        if self.before is not None and any(event.type == ev.REFLECTION_COMPLETED for event in events):
            before, self.before = self.before, None
            before()
        return super().append(events)

    def close(self) -> None:
        """The other one closes it."""


@pytest.fixture
def cut(ledger: Ledger, tmp_path: Path) -> Cut:
    return Cut(ledger, tmp_path / "t.jsonl")


def cites(session: Session) -> None:
    session.cites("pat-001", None)


def thanks(session: Session) -> None:
    session.user(THANKS).agent("Glad to hear it.")


def lists(session: Session) -> None:
    session.runs("ls", "cart.py")


#: The windows of a session by what is said in each, the tags of pat-001, and its counters.
SESSIONS: dict[str, tuple[list[list[Callable[[Session], object]]], list[str], tuple[int, int]]] = {
    "thanks after a compaction": ([[cites], [thanks]], ["neutral", "helpful"], (1, 0)),
    "windows that decide nothing": ([[cites], [lists], [lists], [thanks], [thanks]], ["neutral", "helpful"], (1, 0)),
    "a verdict that stands": (
        [
            [lambda session: session.cites("pat-001", "helpful")],
            *[[lambda session: session.agent("I keep [pat-001] in mind."), thanks]] * 3,
        ],
        ["helpful"],
        (1, 0),
    ),
    "other names of the earlier records": (
        [[lambda session: session.cites("pat-002", "helpful"), cites], [thanks]],
        ["neutral", "helpful"],
        (1, 0),
    ),
    "a citation again": (
        [[cites], [lambda session: session.user(THANKS).agent("Good. I will keep [pat-001] in mind.")]],
        ["neutral", "helpful"],
        (1, 0),
    ),
    "records that the transcript has lost": (
        [
            [lambda session: session.cites("pat-001", "helpful")],
            [
                lambda session: session.records.clear(),
                *[lambda session: session.user("Go on.")] * 9,
                lambda session: session.agent("As [pat-001] says.").user("Go on."),
            ],
        ],
        ["helpful"],
        (1, 0),
    ),
}


@pytest.mark.parametrize(("windows", "tags", "counters"), SESSIONS.values(), ids=SESSIONS)
def test_a_session_says_one_thing_wherever_it_was_cut(
    cut: Cut, windows: list[list[Callable[[Session], object]]], tags: list[str], counters: tuple[int, int]
) -> None:
    for said in windows:
        for say in said:
            say(cut.session)
        cut.window()
    assert (cut.tags(), cut.counters()) == (tags, counters)
    assert cut.tags("pat-002") in ([], ["helpful"])


def test_a_whole_window_counts_what_was_counted_before(cut: Cut) -> None:
    cut.session.cites("pat-001", "helpful")
    for mode in ("new", "whole", "whole"):
        cut.window(mode)
    assert cut.counters() == (2, 0)


def test_a_later_word_overturns_an_early_verdict_and_blame_shows_both(cut: Cut) -> None:
    cut.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    cut.window()
    assert cut.counters() == (1, 0)
    cut.session.user(OBJECTION).agent("You are right, I take it back.")
    cut.window()
    assert cut.carried() == [[], ["pat-001"]]
    assert (cut.tags(), cut.counters()) == (["helpful", "neutral"], (0, 0))
    first, second = [step for step in blame(cut.ledger, "pat-001") if step.tag]
    assert (first.tag, first.disposition, second.tag) == ("helpful", "retracted", "neutral")
    assert first.uncounted_by is not None
    assert first.uncounted_by.actor == "rules"
    assert first.uncounted_by.reason == "overturned by a later window of the session, which says neutral"


def test_a_backend_of_another_name_that_rereads_says_the_same_wherever_the_session_was_cut(cut: Cut) -> None:
    class Mine(RulesBackend):
        name = "mine"

    cut.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    cut.window(judge=False)
    Runner(cut.ledger, Mine()).finish_pending()
    assert cut.counters() == (1, 0)
    cut.session.user(OBJECTION).agent("You are right, I take it back.")
    cut.window(judge=False)
    Runner(cut.ledger, Mine()).finish_pending()
    assert (cut.tags(), cut.counters()) == (["helpful", "neutral"], (0, 0))


def test_a_citation_that_was_decided_is_not_judged_again_by_a_model(cut: Cut) -> None:
    model = Model(cut.session, "pat-001 harmful")
    cut.session.cites("pat-001", None)
    cut.window(judge=False)
    Runner(cut.ledger, model).finish_pending()
    cut.session.user(THANKS).agent("Glad to hear it. [pat-002]")
    cut.window(judge=False)
    Runner(cut.ledger, model).finish_pending()
    assert model.asked == [("pat-001",), ("pat-002",)]
    assert model.cited == [["pat-001"], ["pat-002"]]
    assert (cut.tags(), cut.counters()) == (["harmful"], (0, 1))


def test_a_model_reads_both_places_of_a_citation_that_was_left_neutral(cut: Cut) -> None:
    model = Model(cut.session, "pat-001 neutral")
    cut.session.cites("pat-001", None).agent("And [pat-002].")
    cut.window(judge=False)
    Runner(cut.ledger, model).finish_pending()
    cut.session.user(THANKS).agent("I keep [pat-001] in mind.")
    cut.window(judge=False)
    Runner(cut.ledger, model).finish_pending()
    assert model.asked == [("pat-001", "pat-002"), ("pat-001",)]
    assert model.cited == [["pat-001", "pat-002"], ["pat-001", "pat-001"]]


def test_what_another_backend_decided_is_not_judged_again_by_the_rules(cut: Cut) -> None:
    cut.session.cites("pat-001", "harmful")
    cut.window(judge=False)
    Runner(cut.ledger, Model(cut.session, "pat-001 helpful")).finish_pending()
    cut.session.user("No, that is still wrong. Revert it.").agent("You are right.")
    cut.window()
    assert (cut.tags(), cut.counters()) == (["helpful"], (1, 0))


def test_a_tag_that_a_person_retracted_stays_retracted(cut: Cut) -> None:
    cut.session.cites("pat-001", "helpful")
    cut.window()
    (tag,) = cut.ledger.events(types=[ev.BULLET_TAGGED])
    retract(cut.ledger, [tag], "it was not the advice")
    cut.session.cites("pat-001", "helpful")
    cut.window()
    assert (cut.tags(), cut.counters()) == (["helpful"], (0, 0))


def test_a_tag_that_a_person_put_back_stays_in_the_count(cut: Cut) -> None:
    cut.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    cut.window()
    cut.session.user(OBJECTION).agent("You are right, I take it back.")
    cut.window()
    (tag, _) = cut.ledger.events(types=[ev.BULLET_TAGGED])
    undo(cut.ledger, [tag], "it was helpful")
    cut.session.user("Thanks again!").agent("Sure.")
    cut.window()
    assert cut.counters() == (1, 0)


def test_nothing_of_a_window_that_a_person_retracted_is_judged_again(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    (recorded,) = cut.ledger.events(types=[ev.SESSION_RECORDED])
    retract(cut.ledger, [recorded], "a test run")
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert cut.counters() == (0, 0)


def test_a_retraction_of_a_person_between_the_reading_and_the_append_is_no_conflict(cut: Cut) -> None:
    cut.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    cut.window()
    (tag,) = cut.ledger.events(types=[ev.BULLET_TAGGED])
    cut.session.user(OBJECTION).agent("You are right, I take it back.")
    cut.window(judge=False)
    with Hurried(cut.ledger, lambda: retract(cut.ledger, [tag], "it was not the advice")) as ledger:
        (done,) = Runner(ledger, RulesBackend()).finish_pending()
    assert (done.outcome, cut.counters()) == ("completed", (0, 0))
    assert [event.actor for event in cut.ledger.events(types=[ev.EVIDENCE_RETRACTED])] == ["human"]


def test_what_was_erased_of_a_reflection_is_not_found_again(cut: Cut) -> None:
    cut.session.cites("pat-001", None).user("Perfect, that works for Ada Example. Thanks!").agent("Fine.")
    cut.window()
    for kind in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED):
        (said,) = cut.ledger.events(types=[kind])
        assert "Ada Example" in str(said.data)
        cut.ledger.redact(said.event_id, reason="a customer", actor="human")
    cut.session.cites("pat-002", "helpful")
    cut.window()
    assert "Ada Example" not in str([event.data for event in cut.ledger.events()])
    assert (cut.counters("pat-001"), cut.counters("pat-002")) == ((1, 0), (1, 0))


def test_windows_that_go_round_in_circles_are_read_once(cut: Cut) -> None:
    """As a merged file may hold them."""
    cut.session.cites("pat-001", None)
    cut.window(judge=False)
    (recorded,) = cut.ledger.events(types=[ev.SESSION_RECORDED])
    data = recorded.data or {}
    for own, other in (("a", "b"), ("b", "a")):
        circling = {**data, "window": {**data["window"], "after": other}, "carried": ["pat-001"]}
        cut.ledger.append([NewEvent(ev.SESSION_RECORDED, own, circling, "ingest", session_id=recorded.session_id)])
    done = Runner(cut.ledger, RulesBackend()).finish_pending()
    assert [one.outcome for one in done] == ["completed"] * 3


def test_a_window_is_settled_once_however_often_it_is_finished(cut: Cut) -> None:
    cut.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    cut.window()
    cut.session.user(OBJECTION).agent("You are right, I take it back.")
    cut.window(judge=False)
    (window,) = cut.ledger.open_windows()
    for _ in range(3):
        assert Runner(cut.ledger, RulesBackend()).finish(window).outcome == "completed"
    assert (cut.tags(), cut.counters()) == (["helpful", "neutral"], (0, 0))
    assert len(list(cut.ledger.events(types=[ev.EVIDENCE_RETRACTED]))) == 1


def test_the_rules_read_the_session_as_far_as_it_went(cut: Cut) -> None:
    looking = Model(cut.session, "pat-009 neutral", name="rules")
    looking.rereads = True
    cut.session.cites("pat-002", "helpful").cites("pat-001", None)
    cut.window()
    cut.session.user("Go on.")
    cut.window(judge=False)
    Runner(cut.ledger, looking).finish_pending()
    assert (looking.asked, looking.cited) == ([("pat-002", "pat-001")], [["pat-002", "pat-001"]])


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
        rereads = False

        def answer(self, request: Request) -> Answer:
            raise BackendError("connection refused", stage="transport")

    Runner(cut.ledger, Down()).finish_pending()
    cut.session.user("Yes, it really works now, thank you!").agent("Fine.")
    take_in(cut.ledger, Source(cut.session.write(cut.path), "PreCompact"))
    assert cut.carried() == [[], ["pat-001"], ["pat-001"]]
    (failed, later) = cut.ledger.open_windows()
    runner = Runner(cut.ledger, RulesBackend())
    assert runner.finish(later).outcome == "completed"
    assert runner.finish(failed).outcome == "completed"
    assert (cut.tags(), cut.counters()) == (["neutral", "helpful"], (1, 0))


def test_a_bullet_that_was_removed_meanwhile_is_not_judged(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window(judge=False)
    removed = {"name": "pat-001", "reason": "deleted", "into": None}
    cut.ledger.append([NewEvent(ev.BULLET_REMOVED, identity(ev.BULLET_REMOVED, "x"), removed, "human")])
    (done,) = Runner(cut.ledger, RulesBackend()).finish_pending()
    assert (done.outcome, cut.counters()) == ("skipped", (0, 0))
