"""The quality of a window of a real transcript: read from its own records, shown, and used by the gate."""

from __future__ import annotations

from pathlib import Path

from reflector.events.event import Event
from reflector.ledger.store import Ledger
from reflector.quality.signals import WindowQuality, window_quality
from reflector.reflection.window import quality_of
from reflector.sessions.intake import Source, take_in
from reflector.transcripts.reading import read_messages
from tests.road.agent import Agent
from tests.road.sessions import Session

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"


def quality(session: Session, tmp_path: Path) -> WindowQuality:
    return window_quality(read_messages(session.write(tmp_path / "t.jsonl")))


def test_errors_skipped_calls_and_rounds_are_counted(tmp_path: Path) -> None:
    session = Session().user("Fix it.").runs("make", "ok").runs("make test", "2 failed", is_error=True)
    session.runs("rm -r x", REFUSED, is_error=True)
    session._model([{"type": "tool_use", "id": "lost", "name": "Bash", "input": {}}])
    session.agent("All is well.")
    found = quality(session, tmp_path)
    assert (found.tool_calls, found.tool_errors, found.tool_skipped, found.iterations) == (4, 1, 2, 4)
    assert (found.tool_error_rate, found.score) == (0.25, 0.9)


def test_the_answer_is_what_the_model_says_last(tmp_path: Path) -> None:
    session = Session().user("Why?").agent("I cannot say.").user("Try again.").agent("Seven.")
    found = quality(session, tmp_path)
    assert (found.iterations, found.failure_patterns) == (2, False)
    session.user("And this?").runs("ls", "a b")
    assert quality(session, tmp_path).empty
    session.user("Hello?")
    assert quality(session, tmp_path).empty


def test_an_answer_that_the_api_cut_off_is_truncated(tmp_path: Path) -> None:
    session = Session().user("Tell me all.").agent("It all began")
    session.records[-1]["message"]["stop_reason"] = "max_tokens"
    assert quality(session, tmp_path).truncated


def test_a_subagents_words_are_not_the_main_chains_answer(tmp_path: Path) -> None:
    session, aside = Session().user("Fix it.").agent("Done."), Session("s-1", agent_id="a-1").agent("I cannot.")
    session.records += aside.records
    assert not quality(session, tmp_path).failure_patterns
    assert quality(aside, tmp_path).failure_patterns


def recorded(ledger: Ledger, path: Path, trigger: str = "Stop") -> Event:
    taken = take_in(ledger, Source(path, trigger))
    event = ledger.event(taken.event_id or "")
    assert event is not None
    return event


def test_a_window_has_the_quality_of_its_own_records(tmp_path: Path) -> None:
    session = Session().cites("pat-001").runs("make", "failed", is_error=True).agent("I cannot.")
    with Ledger.open_file(tmp_path / "ledger.db") as ledger:
        first = recorded(ledger, session.write(tmp_path / "t.jsonl"))
        session.user("Once more.").runs("make", "ok").agent("Done, as [pat-001] says.")
        second = recorded(ledger, session.write(tmp_path / "t.jsonl"))
        found = [quality_of(event) for event in (first, second)]
        assert [one.score for one in found if isinstance(one, WindowQuality)] == [0.35, 1.0]
        (tmp_path / "t.jsonl").unlink()
        assert str(quality_of(first)).startswith("the transcript cannot be read")


def test_show_says_the_quality_of_a_window(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.counted()
    told = agent.call("show", "s-1").out
    assert "quality     1.00; 2 rounds" in told
