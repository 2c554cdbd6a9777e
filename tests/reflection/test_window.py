"""A session in windows: what its later ones read again, and what becomes of the earlier
verdicts.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reflector.audit.blame import blame_bullet
from reflector.changes.retractions import put_back_evidence, retract
from reflector.events import event as ev
from reflector.events.event import Appended, NewEvent
from reflector.judges.protocol import Answer, Backend, BackendError, Request
from reflector.judges.rules.judge import RulesBackend
from reflector.ledger.store import Ledger
from reflector.reflection.recorder import Reflected
from reflector.reflection.runner import Runner
from reflector.reflection.standing import citations, windows_from
from reflector.reflection.window import NOTHING_FOLLOWS, is_followed
from reflector.sessions.intake import Source, WindowMode, take_in
from reflector.transcripts.citations import citations_of
from reflector.transcripts.message import ToolCall
from tests.building import Says, says, tag, tags
from tests.ledger.events import added
from tests.reading import windows
from tests.road.sessions import Session

THANKS = "Perfect, that works. Thanks!"
RULES = RulesBackend()


class Cut:
    """One session whose transcript is taken in piece by piece, judged by rules."""

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self.ledger = ledger
        self.path = path
        self.session = Session()
        ledger.append(
            [
                added("pat-001", ("Change how the cart adds up its total.")),
                added("pat-002", "Advice pat-002."),
            ]
        )

    def window(self, mode: WindowMode = "new", *, by: Backend | None = RULES) -> list[Reflected]:
        """Take in what was said since the last one, and let a backend judge it."""
        take_in(self.ledger, Source(self.session.write(self.path), "PreCompact"), window=mode)
        return Runner(self.ledger, by).finish_pending(retry="all") if by is not None else []

    def objected(self, by: Backend | None = RULES) -> None:
        """A window that is called helpful, and one in which a person objects to it."""
        self.session.cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
        self.window(by=by or RULES)
        assert self.counters() == (1, 0)
        self.session.user("That isn't it.").agent("You are right, I take it back.")
        self.window(by=by)

    def counters(self, name: str = "pat-001") -> tuple[int, int]:
        return next((row.helpful, row.harmful) for row in self.ledger.rows() if row.name == name)

    def tags(self, name: str = "pat-001") -> list[str]:
        tags = (event.data or {} for event in self.ledger.events(types=[ev.BULLET_TAGGED]))
        return [data["tag"] for data in tags if data["name"] == name]

    def carried(self) -> list[list[str]]:
        return [data["carried"] for data in windows(self.ledger)]


@pytest.fixture
def cut(ledger: Ledger, tmp_path: Path) -> Cut:
    return Cut(ledger, tmp_path / "t.jsonl")


def test_verdict_survives_lost_records_of_its_transcript(
    cut: Cut,
) -> None:
    cut.session.cites("pat-001", "helpful")
    cut.window()
    cut.session.records.clear()
    for _ in range(9):
        cut.session.user("Go on.")
    cut.session.agent("As [pat-001] says.").user("Go on.")
    cut.window()
    assert (cut.tags(), cut.counters()) == (["helpful"], (1, 0))


def test_later_window_shows_unfollowed_advice_once(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user("No! Change how the cart adds up its total.").agent("Sorry.")
    cut.window()
    cut.session.user("Go on.").agent("Fine.")
    cut.window()
    assert (cut.tags(), cut.counters()) == (["neutral", "neutral"], (0, 0))
    assert [step.followed for step in blame_bullet(cut.ledger, "pat-001") if step.tag] == [
        None,
        "no",
    ]


class Mine(RulesBackend):
    """A backend of another name that rereads says the same wherever the session was cut."""

    name = "mine"


@pytest.mark.parametrize("backend", [RULES, Mine()], ids=["rules", "mine"])
def test_later_word_overturns_an_early_verdict(cut: Cut, backend: RulesBackend) -> None:
    cut.objected(by=backend)
    assert cut.carried() == [[], ["pat-001"]]
    assert (cut.tags(), cut.counters()) == (["helpful", "neutral"], (0, 0))
    first, second = [step for step in blame_bullet(cut.ledger, "pat-001") if step.tag]
    assert (first.tag, first.disposition, second.tag) == ("helpful", "retracted", "neutral")
    assert first.uncounted_by.actor == backend.name
    assert first.uncounted_by.reason == (
        "replaced by the verdict neutral on a later part of the session"
    )


@pytest.mark.parametrize(
    ("verdict", "said", "asked", "cited"),
    [
        ("harmful", "Glad to hear it. [pat-002]", ("pat-002",), ["pat-002"]),
        ("neutral", "I keep [pat-001] in mind.", ("pat-001",), ["pat-001", "pat-001"]),
    ],
)
def test_model_reads_neutral_but_not_decided_citations_again(
    cut: Cut, verdict: str, said: str, asked: tuple[str, ...], cited: list[str]
) -> None:
    model = Says([tags(tag("pat-001", verdict), tag("pat-002", "harmful")), tags()])
    cut.session.cites("pat-001", None).agent("And [pat-002].")
    cut.window(by=model)
    cut.session.user(THANKS).agent(said)
    cut.window(by=model)
    assert [request.cited for request in model.asked] == [("pat-001", "pat-002"), asked]
    read = [
        [name for one in request.messages() for name in citations_of(one)]
        for request in model.asked
    ]
    assert read == [["pat-001", "pat-002"], cited]
    assert cut.counters() == (0, int(verdict == "harmful"))


def test_citation_missing_in_an_answer_is_carried(cut: Cut) -> None:
    model = Says([tags(), tags(tag("pat-001", "harmful"))])
    cut.session.cites("pat-001", None)
    cut.window(by=model)
    cut.session.user("No, that is wrong: revert it please.").agent("Done.")
    cut.window(by=model)
    assert [request.cited for request in model.asked] == [("pat-001",), ("pat-001",)]
    assert cut.counters() == (0, 1)


def test_citation_that_nothing_follows_is_carried(cut: Cut) -> None:
    model = Says([tags(tag("pat-001", "harmful"))], is_model=True)
    cut.session.cites("pat-001", None)
    (early,) = cut.window(by=model)
    assert (early.outcome, early.detail) == ("skipped", NOTHING_FOLLOWS)
    assert not model.asked
    cut.session.user("No, that is wrong: revert it please.").agent("Done.")
    cut.window(by=model)
    assert [request.cited for request in model.asked] == [("pat-001",)]
    assert cut.counters() == (0, 1)


@pytest.mark.parametrize(
    "follow",
    [
        lambda session: session.user("No, that is wrong."),
        lambda session: session.agent("Done."),
        lambda session: session.runs("pytest", "1 passed in 0.1s"),
    ],
    ids=["a person", "the agent", "a run"],
)
def test_citation_that_something_follows_is_judged(
    cut: Cut, follow: Callable[[Session], Session]
) -> None:
    model = Says([tags(tag("pat-001", "harmful"))], is_model=True)
    follow(cut.session.cites("pat-001", None))
    (judged,) = cut.window(by=model)
    assert judged.outcome == "completed"


def test_call_in_the_citing_message_follows_it() -> None:
    cites = says("As [pat-001] says, I run the tests.")
    assert not is_followed([cites], ["pat-001"])
    calls = (ToolCall("1", "Bash", {"command": "pytest"}),)
    assert is_followed([cites._replace(calls=calls)], ["pat-001"])


def test_early_citation_is_judged_by_hand(cut: Cut) -> None:
    model = Says([tags(tag("pat-001", "neutral"))], is_model=True)
    cut.session.cites("pat-001", None)
    cut.window(by=model)
    runner = Runner(cut.ledger, model)
    (window,) = cut.ledger.windows()
    assert runner.finish(window, forced=True).outcome == "completed"


def test_rules_do_not_rejudge_another_backends_decision(cut: Cut) -> None:
    cut.session.cites("pat-001", "harmful")
    cut.window(by=Says([tags(tag("pat-001", "helpful"))]))
    cut.session.user("No, that is still wrong. Revert it.").agent("You are right.")
    cut.window()
    assert (cut.tags(), cut.counters()) == (["helpful"], (1, 0))


@pytest.mark.parametrize(
    ("target", "verdict"), [(ev.BULLET_TAGGED, "helpful"), (ev.SESSION_RECORDED, "neutral")]
)
def test_retracted_evidence_is_not_judged_again(cut: Cut, target: str, verdict: str) -> None:
    cut.session.cites("pat-001", "helpful" if verdict == "helpful" else None)
    cut.window()
    (event,) = cut.ledger.events(types=[target])
    retract(cut.ledger, [event], "it was not the advice")
    cut.session.user(THANKS).agent("Glad to hear it.")
    cut.window()
    assert (cut.tags(), cut.counters()) == ([verdict], (0, 0))


def test_tag_that_was_put_back_stays_counted(cut: Cut) -> None:
    cut.objected()
    (tag, _) = cut.ledger.events(types=[ev.BULLET_TAGGED])
    put_back_evidence(cut.ledger, [tag], "it was helpful")
    cut.session.user("Thanks again!").agent("Sure.")
    cut.window()
    assert cut.counters() == (1, 0)


def test_late_retraction_is_no_conflict(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.objected(by=None)
    (tag,) = cut.ledger.events(types=[ev.BULLET_TAGGED])
    append = Ledger.append

    def late(ledger: Ledger, events: Sequence[NewEvent]) -> list[Appended]:
        if any(event.type == ev.REFLECTION_COMPLETED for event in events):
            monkeypatch.setattr(Ledger, "append", append)
            retract(ledger, [tag], "it was not the advice")
        return append(ledger, events)

    monkeypatch.setattr(Ledger, "append", late)
    (done,) = Runner(cut.ledger, RULES).finish_pending()
    assert (done.outcome, cut.counters()) == ("completed", (0, 0))
    assert [event.actor for event in cut.ledger.events(types=[ev.EVIDENCE_RETRACTED])] == ["human"]


def test_erased_part_of_a_reflection_does_not_return(cut: Cut) -> None:
    cut.session.cites("pat-001", None).user("Perfect, that works for Ada Example. Thanks!").agent(
        "Fine."
    )
    cut.window()
    for kind in (ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED):
        (said,) = cut.ledger.events(types=[kind])
        assert "Ada Example" in str(said.data)
        cut.ledger.redact([said.event_id], reason="a customer", actor="human")
    cut.session.cites("pat-002", "helpful")
    cut.window()
    assert "Ada Example" not in str([event.data for event in cut.ledger.events()])
    assert (cut.counters("pat-001"), cut.counters("pat-002")) == ((1, 0), (1, 0))


def test_circular_windows_are_read_once(cut: Cut) -> None:
    """As a merged file may hold them."""
    cut.session.cites("pat-001", None)
    cut.window(by=None)
    (recorded,) = cut.ledger.events(types=[ev.SESSION_RECORDED])
    data = recorded.data or {}
    for own, other in (("a", "b"), ("b", "a")):
        circling = {**data, "window": {**data["window"], "after": other}, "carried": ["pat-001"]}
        cut.ledger.append(
            [NewEvent(ev.SESSION_RECORDED, own, circling, "ingest", session_id=recorded.session_id)]
        )
    done = Runner(cut.ledger, RULES).finish_pending()
    assert [one.outcome for one in done] == ["completed"] * 3


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


def test_open_citation_goes_on_with_its_own_agent(cut: Cut, tmp_path: Path) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    subagent = Session("s-1", agent_id="a-1").user("Hello.")
    take_in(
        cut.ledger,
        Source(subagent.write(tmp_path / "other.jsonl"), "SessionEnd", agent_id="a-1"),
    )
    cut.session.user("Go on.").agent("Fine.")
    cut.window()
    [citation] = citations(cut.ledger)
    windows = windows_from(cut.ledger, citation)
    assert [event.facts.get("agent_id") for event in windows] == [None, None]


def test_failed_window_is_not_judged_for_later_decisions(cut: Cut) -> None:
    cut.session.cites("pat-001", None)
    cut.window()
    cut.session.user(THANKS).agent("Glad to hear it.")

    class Down(RulesBackend):
        def answer(self, request: Request) -> Answer:
            raise BackendError("connection refused", stage="transport")

    cut.window(by=Down())
    cut.session.user("Yes, it really works now, thank you!").agent("Fine.")
    cut.window(by=None)
    assert cut.carried() == [[], ["pat-001"], ["pat-001"]]
    (failed, later) = cut.ledger.open_windows()
    runner = Runner(cut.ledger, RULES)
    assert runner.finish(later).outcome == "completed"
    assert runner.finish(failed).outcome == "completed"
    assert (cut.tags(), cut.counters()) == (["neutral", "helpful"], (1, 0))
